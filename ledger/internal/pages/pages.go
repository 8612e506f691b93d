package pages

import (
	"context"
	"iter"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// MostRead is how many records one snapshot reads at most. A long-lived snapshot would make the
// file grow, and could block a writer.
const MostRead = 4096

// Read returns a part of a list, and the number after which the next part begins; 0 at the end.
type Read[T any] func(ctx context.Context, p vocabulary.Page) (found []T, next uint64, err error)

// Each yields the items of a list, part by part.
func Each[T any](ctx context.Context, p vocabulary.Page, read Read[T]) iter.Seq2[T, error] {
	p.Limit = MostRead
	return func(yield func(T, error) bool) {
		for p := p; ; {
			found, next, err := read(ctx, p)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range found {
				if !yield(one, nil) {
					return
				}
			}
			if p.After = next; next == 0 {
				return
			}
		}
	}
}

// Check refuses a limit that is none.
func Check(limit int) error {
	if limit < 1 {
		return errs.Invalid("a part of a list with the limit %d: it must be at least 1", limit)
	}
	return nil
}

// Describe returns a sale or reservation as hosts read it, and its size in rows, which is 0 if it
// is not to be listed.
type Describe[T any] func(s *state.State, number uint64, r state.Sale) (one T, size int, err error)

// Sales returns what describe makes of the sales and reservations of a page, and the number after
// which the next page begins; 0 at the end. It reads at most [MostRead] records, and lists about
// [vocabulary.MaxPanel] rows.
func Sales[T any](
	ctx context.Context, e *engine.Engine, p vocabulary.Page, describe Describe[T],
) (found []T, next uint64, err error) {
	if err := check(p); err != nil {
		return nil, 0, err
	}
	err = e.View(ctx, func(s *state.State) error {
		only, exists, err := filterOf(s, p)
		if err != nil || !exists {
			return err
		}
		found, next, err = read(s, p, func(number uint64, r state.Sale) (one T, size int, err error) {
			if !only.has(r) {
				return one, 0, nil
			}
			return describe(s, number, r)
		})
		return err
	})
	return found, next, err
}

func check(p vocabulary.Page) error {
	if p.Buyer != "" {
		if err := names.Check("buyer", p.Buyer); err != nil {
			return err
		}
	}
	if p.Question != "" {
		if err := names.Check("question", p.Question); err != nil {
			return err
		}
	}
	return Check(p.Limit)
}

// filter has the numbers of the buyer and the question of a page, 0 for all.
type filter struct{ buyer, question uint32 }

func (f filter) has(r state.Sale) bool {
	return (f.buyer == 0 || r.Buyer == f.buyer) && (f.question == 0 || r.Question == f.question)
}

// filterOf returns the filter of a page. exists is false if the ledger has no such buyer or
// question.
func filterOf(s *state.State, p vocabulary.Page) (f filter, exists bool, err error) {
	exists = true
	if p.Buyer != "" {
		f.buyer, exists, err = s.BuyerNumber(p.Buyer)
	}
	if p.Question != "" && exists && err == nil {
		f.question, exists, err = s.QuestionNumber(p.Question)
	}
	return f, exists, err
}

// read passes the numbers of a page to describe, in order.
func read[T any](
	s *state.State, p vocabulary.Page, describe func(number uint64, r state.Sale) (T, int, error),
) (found []T, next uint64, err error) {
	last, number, step := s.Counters.Sales, p.After+1, uint64(1)
	if p.Newest {
		step = ^uint64(0) // which is -1
		if number = last; p.After != 0 {
			number = min(last, p.After-1)
		}
	}
	for done, rows := 0, 0; number >= 1 && number <= last; number += step {
		if done == MostRead || len(found) == p.Limit || rows > vocabulary.MaxPanel {
			return found, number - step, nil
		}
		done++
		r, err := s.Sale(number)
		if err != nil {
			return nil, 0, err
		}
		one, size, err := describe(number, r)
		if err != nil {
			return nil, 0, err
		}
		if size > 0 {
			found, rows = append(found, one), rows+size
		}
	}
	return found, 0, nil
}
