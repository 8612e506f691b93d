package api

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// NameError says which character may not be in a name, and where. It is an ErrInvalid of package
// ledger.
//
// The names of objects, buyers, questions, values, outputs and keys are compared byte by byte, so
// no two possible names may look the same but for what cannot be seen. A name has 1 to 256 bytes of
// UTF-8 in Unicode's normal form NFC. Its characters are letters, marks, numbers, punctuation,
// symbols and single spaces between them. So a name has
//   - no space at its start or its end, no two in a row, and no other white space, such as U+00A0,
//     U+3000 or a tab;
//   - nothing that looks like a space: the fillers of Hangul, the empty braille cell U+2800;
//   - nothing invisible: no control or format characters, no variation selectors, no other
//     default-ignorable code points;
//   - no private characters, no unassigned ones, and no U+FFFD.
//
// Zero-width joiners may be used only where they change the writing: either after a virama, and the
// non-joiner between two Arabic letters that would join. The rule is the same in requests, lookups
// and events of a log. Letters that look alike are different letters, and so are capital and small
// ones.
type NameError struct {
	// What: what is named: "object", "buyer", "question", "value", "idempotency key", …
	What   string `json:"what"`
	Name   string `json:"name"`   // as it was given
	Offset int    `json:"offset"` // of the first byte at fault
	Fault  string `json:"fault"`  // what is there
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%v: the %s %+q has %s (byte %d)", errs.ErrInvalid, e.What, e.Name, e.Fault, e.Offset)
}

// Unwrap returns [ErrInvalid].
func (e *NameError) Unwrap() error { return errs.ErrInvalid }
