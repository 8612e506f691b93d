// Package admission refuses names that are at fault, unless the ledger has them already. It rests on engine.
package admission

import (
	"context"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
)

// Door is where new names come into a ledger.
type Door struct{ Engine *engine.Engine }

// Objects refuses objects. It reads nothing if no name is at fault.
func (d Door) Objects(ctx context.Context, all []string) error {
	return d.admit(ctx, "object", knowsObject, all...)
}

// Buyers refuses buyers.
func (d Door) Buyers(ctx context.Context, all ...string) error {
	return d.admit(ctx, "buyer", knowsBuyer, all...)
}

// Question refuses the name of a question.
func (d Door) Question(ctx context.Context, name string) error {
	return d.admit(ctx, "question", knowsQuestion, name)
}

// Policy refuses buyers whom the terms of a policy name.
func (d Door) Policy(ctx context.Context, p policy.Policy) error {
	sale := p.Terms()
	if sale == nil {
		return nil
	}
	return d.Buyers(ctx, slices.Concat(sale.Buyers(), sale.Barred())...)
}

// admit refuses names at fault that the ledger does not know.
func (d Door) admit(ctx context.Context, what string, known func(*state.State, string) (bool, error), all ...string) error {
	for _, name := range all {
		fault, at := names.Fault(name)
		if fault == "" {
			continue
		}
		err := d.Engine.View(ctx, func(s *state.State) error {
			there, err := known(s, name)
			if err == nil && !there {
				err = &vocabulary.NameError{What: what, Name: name, Offset: at, Fault: fault}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
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
