package vocabulary

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// NameError says what is wrong with the name of an object, a buyer or a question that is new to the ledger. It is an
// ErrInvalid of package ledger.
//
// New names are in Unicode's form NFC and have no invisible characters: no control, format or bidirectional ones, no
// variation selectors or fillers. So two names that look the same but for that are one. Zero-width joiners stand where
// scripts need them: behind a virama, and non-joiners between letters that would join, each between letters. Names that
// the ledger knows already may be used as they are, and the log is sound with any UTF-8 without control characters, so that
// no later version of Unicode makes it unsound. Letters of different scripts that look alike are different letters.
type NameError struct {
	What   string // "object", "buyer" or "question"
	Name   string // as it was given
	Offset int    // of the first byte at fault
	Fault  string // what is there
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%v: the %s %+q has %s at byte %d", errs.ErrInvalid, e.What, e.Name, e.Fault, e.Offset)
}

// Unwrap returns ErrInvalid of package ledger.
func (e *NameError) Unwrap() error { return errs.ErrInvalid }
