package api

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// NameError reports a character that is not allowed in a name, and its position. It is an
// [ErrInvalid].
//
// Names of objects, buyers, questions, values, outputs and keys are compared byte by byte.
// Therefore no two valid names may differ only in invisible characters. A name has 1 to 256 bytes
// of UTF-8 in Unicode's normal form NFC. Its characters are letters, marks, numbers, punctuation,
// symbols and single spaces between them. So a name has
//   - no space at its start or its end, no two spaces in a row, and no other white space, such as
//     U+00A0, U+3000 or a tab;
//   - nothing that looks like a space: the fillers of Hangul, the empty braille cell U+2800;
//   - nothing invisible: no control or format characters, no variation selectors, no other
//     default-ignorable code points;
//   - no private characters, no unassigned characters, and no U+FFFD.
//
// Zero-width joiners are allowed only where they change the writing: the joiner and the non-joiner
// after a virama, and the non-joiner between two Arabic letters that would join. The rule is the
// same in requests, lookups and events of a log. Letters that look alike are different letters, and
// so are capital and small letters.
type NameError struct {
	// What is the kind of name: "object", "buyer", "question", "value", "idempotency key", …
	What   string `json:"what"`
	Name   string `json:"name"`   // the name
	Offset int    `json:"offset"` // of the first byte that is not allowed
	Fault  string `json:"fault"`  // describes what is at Offset
}

// Error returns the name with escapes, because the character may be invisible.
func (e *NameError) Error() string {
	return fmt.Sprintf("%v: the %s %+q has %s (byte %d)", errs.ErrInvalid, e.What, e.Name, e.Fault, e.Offset)
}

// Unwrap returns [ErrInvalid].
func (e *NameError) Unwrap() error { return errs.ErrInvalid }
