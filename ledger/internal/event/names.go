package event

import (
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/policy"
)

// MaxNameBytes is the longest name of an object, question, value or buyer, and the longest
// idempotency key, in bytes.
const MaxNameBytes = 256

// CheckName returns nil if name may be a name: of an object, a question, a value, an output, a
// buyer, a noise key, a token, or an idempotency key. It is the one rule for every request, every
// lookup and every event of a log. Otherwise it returns an [errs.ErrInvalid], and a
// [*api.NameError] if a character is at fault. what says in the error what is named.
//
// Names are compared byte by byte, and no name is changed on the way in. So two names that look the
// same to a person must not both be possible, or one person gets two budgets. Keys of the file rely
// on names having no zero byte.
func CheckName(what, name string) error {
	if isPlain(name) {
		return nil
	}
	if err := checkSize(what, name, MaxNameBytes); err != nil {
		return err
	}
	if fault, at := faultOf(name); fault != "" {
		return &api.NameError{What: what, Name: name, Offset: at, Fault: fault}
	}
	return nil
}

// isPlain reports whether a name has only visible characters of ASCII, and single spaces between
// them. Most names do.
func isPlain(name string) bool {
	if len(name) == 0 || len(name) > MaxNameBytes || name[len(name)-1] == ' ' {
		return false
	}
	spaced := true // a space may not come next
	for i := range len(name) {
		c := name[i]
		if c < ' ' || c > '~' || c == ' ' && spaced {
			return false
		}
		spaced = c == ' '
	}
	return true
}

// MaxText is the longest text that is no name, in bytes.
const MaxText = 1024

// CheckText accepts text of 1 to [MaxText] bytes of UTF-8 without control characters, which is not
// compared with other texts. It returns [errs.ErrInvalid] for other text.
func CheckText(what, text string) error {
	if err := checkSize(what, text, MaxText); err != nil {
		return err
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return errs.Invalid("the %s has a control character, %U, at byte %d", what, r, i)
		}
	}
	return nil
}

func checkSize(what, text string, most int) error {
	switch {
	case text == "":
		return errs.Invalid("the %s is empty", what)
	case len(text) > most:
		return errs.Invalid("the %s has %d bytes; at most %d are allowed", what, len(text), most)
	case !utf8.ValidString(text):
		return errs.Invalid("the %s is not UTF-8", what)
	}
	return nil
}

// CheckPolicy applies [CheckName] to the buyers that the terms of a policy name.
func CheckPolicy(p policy.Policy) error {
	sale := p.Terms()
	if sale == nil {
		return nil
	}
	for _, name := range slices.Concat(sale.Buyers(), sale.Barred()) {
		if err := CheckName("buyer", name); err != nil {
			return fmt.Errorf("policy: %w", err)
		}
	}
	return nil
}

// CheckAsked returns the objects that a request names, in order, or nil if it asks for all. It may
// name so many at most. What is wrong with the names is [errs.ErrInvalid].
func CheckAsked(names []string, all bool, most int) ([]string, error) {
	if all == (names != nil) {
		return nil, errs.Invalid("a request names its objects or asks for all of them")
	}
	if len(names) > most {
		return nil, errs.Invalid("a request about %d objects; %d are possible: "+
			"divide it into several, with keys of their own", len(names), most)
	}
	if all {
		return nil, nil
	}
	return CheckObjects(names)
}

// CheckObjects returns the names in order. None at all, a bad one, or one that is given twice is
// [errs.ErrInvalid].
func CheckObjects(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, errs.Invalid("no objects")
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	for i, name := range sorted {
		if err := CheckName("object", name); err != nil {
			return nil, err
		}
		if i > 0 && sorted[i-1] == name {
			return nil, errs.Invalid("object %q is given twice", name)
		}
	}
	return sorted, nil
}
