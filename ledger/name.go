package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
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
	Name   string // as it was given
	Offset int    // of the first byte at fault
	Fault  string // what is there
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%v: the %s %+q has %s at byte %d", ErrInvalid, e.What, e.Name, e.Fault, e.Offset)
}

// Unwrap returns [ErrInvalid].
func (e *NameError) Unwrap() error { return ErrInvalid }

// admit refuses names at fault that the ledger does not know. It reads nothing if none is.
func (l *Ledger) admit(ctx context.Context, what string, known func(*state.State, string) (bool, error), all ...string) error {
	for _, name := range all {
		fault, at := names.Fault(name)
		if fault == "" {
			continue
		}
		err := l.engine.View(ctx, func(s *state.State) error {
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
	if err := l.admitObjects(ctx, objects); err != nil {
		return err
	}
	return l.admitTerms(ctx, terms)
}

// admitTerms refuses new buyers whom terms name. nil are none.
func (l *Ledger) admitTerms(ctx context.Context, terms *policy.Terms) error {
	if terms == nil {
		return nil
	}
	return l.admitBuyers(ctx, slices.Concat(terms.Buyers(), terms.Barred())...)
}

func (l *Ledger) admitBuyers(ctx context.Context, names ...string) error {
	return l.admit(ctx, "buyer", knowsBuyer, names...)
}

func (l *Ledger) admitObjects(ctx context.Context, names []string) error {
	return l.admit(ctx, "object", knowsObject, names...)
}

func knowsObject(s *state.State, name string) (bool, error) {
	_, known, err := s.Object(name)
	if err == nil && !known {
		_, known, err = s.Stranger(name)
	}
	return known, err
}

func knowsBuyer(s *state.State, name string) (bool, error) {
	_, known, err := s.BuyerNumber(name)
	return known, err
}

func knowsQuestion(s *state.State, name string) (bool, error) {
	_, known, err := s.QuestionNumber(name)
	return known, err
}
