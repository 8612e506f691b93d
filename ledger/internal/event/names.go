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

// MaxNameBytes is the maximum length of a name of an object, question, value or buyer, and of an
// idempotency key, in bytes.
const MaxNameBytes = 256

// CheckName returns nil if name is valid: for an object, a question, a value, an output, a buyer,
// a noise key, a token, or an idempotency key. The same rule applies to every request, every
// lookup and every event of a log. Otherwise it returns an [errs.ErrInvalid], and a
// [*api.NameError] if a character is at fault. what describes in the error what the name is for.
//
// Names are compared byte by byte, and are never changed. So two names that look the same to a
// person must not both be valid, because the person would get two budgets. Keys of the file rely
// on names without a zero byte.
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

// isPlain reports whether a name has 1 to [MaxNameBytes] visible ASCII characters with single
// spaces between them. Every such name is valid. This is the fast path for most names. Other names
// may be valid, too.
func isPlain(name string) bool {
	if len(name) == 0 || len(name) > MaxNameBytes || name[len(name)-1] == ' ' {
		return false
	}
	spaced := true // no space may come next
	for i := range len(name) {
		c := name[i]
		if c < ' ' || c > '~' || c == ' ' && spaced {
			return false
		}
		spaced = c == ' '
	}
	return true
}

// MaxText is the maximum length of a text that is not a name, in bytes.
const MaxText = 1024

// CheckText returns nil for 1 to [MaxText] bytes of UTF-8 without control characters. It is for
// text that is not compared with other texts. It returns [errs.ErrInvalid] for any other text.
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

// checkSize returns [errs.ErrInvalid] if a text is empty, longer than most bytes, or not valid
// UTF-8. what describes in the error what the text is for.
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

// CheckPolicy applies [CheckName] to the buyers in the terms of a policy: those that it sells to,
// and those that it bars. A policy without terms names no buyer.
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

// CheckAsked returns the objects that a request names, sorted. Either names is not nil, or all is
// true and the request is about all objects. For all objects the result is nil. most is the maximum
// number of names. It returns [errs.ErrInvalid] if both or neither is given, or if the names are
// too many or invalid.
func CheckAsked(names []string, all bool, most int) ([]string, error) {
	if all == (names != nil) {
		return nil, errs.Invalid("a request must either name its objects or be about all of them")
	}
	if len(names) > most {
		return nil, errs.Invalid("a request about %d objects; %d are possible: "+
			"divide it into several requests, each with its own key", len(names), most)
	}
	if all {
		return nil, nil
	}
	return CheckObjects(names)
}

// CheckObjects returns a sorted copy of the names. It returns [errs.ErrInvalid] if there is no
// name, an invalid one, or one that occurs twice.
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
