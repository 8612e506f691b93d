package ledger

import (
	"context"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluicedp/sluice/policy"
)

// NameError says what is wrong with the name of an object, a buyer or a question that is new to the ledger. It is an
// [ErrInvalid].
//
// New names are in Unicode's form NFC and have no invisible characters: no control, format or bidirectional ones, no
// variation selectors or fillers. So two names that look the same but for that are one. Zero-width joiners stand where
// scripts need them: behind a virama, and non-joiners between letters that would join, each between letters. Names that
// the ledger knows already may be used as they are, and the log is sound with any UTF-8 without control characters, so that
// no later version of Unicode makes it unsound. Letters of different scripts that look alike are different letters.
type NameError struct {
	What   string // "object", "buyer" or "question"
	Name   string
	Offset int    // of the first byte at fault
	Fault  string // what is there
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%v: the %s %+q has %s at byte %d", ErrInvalid, e.What, e.Name, e.Fault, e.Offset)
}

// Unwrap returns [ErrInvalid].
func (e *NameError) Unwrap() error { return ErrInvalid }

const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
)

// nameFault returns what a new name may not have, and where, or "".
func nameFault(name string) (fault string, offset int) {
	for i, r := range name {
		switch {
		case r < utf8.RuneSelf:
		case r == nonJoiner || r == joiner:
			if !joinsLetters(name[:i], r, name[i+utf8.RuneLen(r):]) {
				return fmt.Sprintf("%U, a joiner that its letters do not need,", r), i
			}
		case r == utf8.RuneError:
			// encoding/json puts it in the place of what it cannot read, and two such names would be one.
			return "U+FFFD, the sign of broken text,", i
		case isInvisible(r):
			return fmt.Sprintf("%U, which is invisible,", r), i
		}
	}
	if form := norm.NFC.String(name); form != name {
		return "what is not in Unicode's form NFC", firstOther(name, form)
	}
	return "", 0
}

// firstOther returns where the first character stands by which a text differs from another.
func firstOther(text, other string) (at int) {
	for at < len(text) && at < len(other) && text[at] == other[at] {
		at++
	}
	for at > 0 && (at == len(text) || !utf8.RuneStart(text[at])) {
		at--
	}
	return at
}

// isInvisible tells whether a character shows nothing, or only changes how others are shown.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// joinsLetters tells whether a zero-width joiner or non-joiner changes how the letters around it are written (UAX 31,
// section 2.3, with scripts in place of joining types).
func joinsLetters(before string, r rune, behind string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(behind)
	if !unicode.IsLetter(next) || !unicode.In(last, unicode.L, unicode.M) {
		return false
	}
	const virama = 9 // its canonical combining class, which never changes
	if norm.NFC.PropertiesString(string(last)).CCC() == virama {
		return true
	}
	for _, script := range cursive() {
		if unicode.Is(script, next) {
			return r == nonJoiner && (unicode.Is(script, last) || unicode.Is(unicode.Inherited, last))
		}
	}
	return false
}

// cursive lists the scripts whose letters join.
func cursive() []*unicode.RangeTable {
	return []*unicode.RangeTable{
		unicode.Arabic, unicode.Syriac, unicode.Mandaic, unicode.Mongolian, unicode.Nko, unicode.Phags_Pa, unicode.Manichaean,
		unicode.Psalter_Pahlavi, unicode.Sogdian, unicode.Hanifi_Rohingya, unicode.Adlam,
	}
}

// admit refuses names at fault that the ledger does not know. It reads nothing if none is.
func (l *Ledger) admit(ctx context.Context, what string, known func(*state, string) (bool, error), names ...string) error {
	for _, name := range names {
		fault, at := nameFault(name)
		if fault == "" {
			continue
		}
		err := l.view(ctx, func(s *state) error {
			there, err := known(s, name)
			if err == nil && !there {
				err = &NameError{what, name, at, fault}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// admitEnrolled refuses new objects, and new buyers whom their terms name.
func (l *Ledger) admitEnrolled(ctx context.Context, objects []string, terms *policy.Terms) error {
	err := l.admitObjects(ctx, objects)
	if err != nil || terms == nil {
		return err
	}
	return l.admitBuyers(ctx, slices.Concat(terms.Buyers(), terms.Barred())...)
}

func (l *Ledger) admitBuyers(ctx context.Context, names ...string) error {
	return l.admit(ctx, "buyer", (*state).knowsBuyer, names...)
}

func (l *Ledger) admitObjects(ctx context.Context, names []string) error {
	return l.admit(ctx, "object", (*state).knowsObject, names...)
}

func (s *state) knowsObject(name string) (bool, error) {
	_, known, err := s.object(name)
	if err == nil && !known {
		_, known, err = s.stranger(name)
	}
	return known, err
}

func (s *state) knowsBuyer(name string) (bool, error) {
	_, known, err := s.buyerNumber(name)
	return known, err
}

func (s *state) knowsQuestion(name string) (bool, error) {
	_, known, err := s.questionNumber(name)
	return known, err
}
