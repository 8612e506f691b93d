package names

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// MaxBytes is the longest name of an object, question, value or buyer, and the longest idempotency key, in bytes.
const MaxBytes = 256

// Check accepts text of 1 to [MaxBytes] bytes of UTF-8 without control characters, and returns [errs.ErrInvalid] for other text. what
// says in the error what the name is of. Keys of the file rely on names having no zero byte.
func Check(what, name string) error { return check(what, name, MaxBytes) }

// MaxText is the longest text that is no name, in bytes.
const MaxText = 1024

// CheckText is [Check] for a text of up to [MaxText] bytes.
func CheckText(what, text string) error { return check(what, text, MaxText) }

func check(what, name string, most int) error {
	switch {
	case name == "":
		return errs.Invalid("the %s is empty", what)
	case len(name) > most:
		return errs.Invalid("the %s has %d bytes; at most %d are allowed", what, len(name), most)
	case !utf8.ValidString(name):
		return errs.Invalid("the %s %q is not UTF-8", what, name)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return errs.Invalid("the %s %q contains a control character", what, name)
		}
	}
	return nil
}

// CheckAsked returns the objects that a request names, in order, or nil if it asks for all. It may name so many at most. What is wrong
// with the names is [errs.ErrInvalid].
func CheckAsked(names []string, all bool, most int) ([]string, error) {
	if all == (names != nil) {
		return nil, errs.Invalid("a request names its objects or asks for all of them")
	}
	if len(names) > most {
		return nil, errs.Invalid("a request about %d objects; %d are possible: divide it into several, with keys of their own", len(names), most)
	}
	if all {
		return nil, nil
	}
	return CheckObjects(names)
}

// CheckObjects returns the names in order. None at all, a bad one, or one that is given twice is [errs.ErrInvalid].
func CheckObjects(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, errs.Invalid("no objects")
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	for i, name := range sorted {
		if err := Check("object", name); err != nil {
			return nil, err
		}
		if i > 0 && sorted[i-1] == name {
			return nil, errs.Invalid("object %q is given twice", name)
		}
	}
	return sorted, nil
}
