package request

import (
	"context"
	"iter"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// MaxRead is the largest number of records read in one snapshot. A long-lived snapshot would make
// the file grow, and could block a writer.
const MaxRead = 4096

// EachInPages yields the items of a list, page by page, from p.After on. read returns one page and
// the number after which the next page begins, or 0 at the end of the list. After an error it
// yields the error and ends.
func EachInPages[T any](
	ctx context.Context, p api.Page, read func(context.Context, api.Page) ([]T, uint64, error),
) iter.Seq2[T, error] {
	p.Limit = MaxRead
	return func(yield func(T, error) bool) {
		for p := p; ; { // each iteration begins at the first page
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

// CheckLimit returns an error if limit is below 1.
func CheckLimit(limit int) error {
	if limit < 1 {
		return errs.Invalid("a page of a list has the limit %d: it must be at least 1", limit)
	}
	return nil
}

// OrdersPage returns a page of sales and reservations, each converted by describe. next is the
// place after which the next page begins, or 0 at the end.
//
// describe also returns the size of the order in rows, or 0 if the order is not to be listed. If
// the page names a buyer, orders of other buyers are not read. One call reads at most [MaxRead]
// records, and lists about [api.MaxPanel] rows.
func OrdersPage[T any](
	ctx context.Context, e *engine.Engine, p api.Page,
	describe func(s *state.State, number uint64, r state.Sale) (one T, size int, err error),
) (found []T, next uint64, err error) {
	if err := checkPage(p); err != nil {
		return nil, 0, err
	}
	err = e.View(ctx, func(s *state.State) error {
		var question uint32 // 0 for all
		if p.Question != "" {
			number, exists, err := s.QuestionNumber(p.Question)
			if err != nil || !exists { // no orders are about an unknown question
				return err
			}
			question = number
		}
		of, err := OrdersOf(s, p.Buyer)
		if err != nil {
			return err
		}
		found, next, err = readOrders(s, of, p, func(number uint64, r state.Sale) (one T, size int, err error) {
			if question != 0 && r.Question != question {
				return one, 0, nil
			}
			return describe(s, number, r)
		})
		return err
	})
	return found, next, err
}

// checkPage returns an error if the page has an invalid name or a limit below 1.
func checkPage(p api.Page) error {
	if p.Buyer != "" {
		if err := event.CheckName("buyer", p.Buyer); err != nil {
			return err
		}
	}
	if p.Question != "" {
		if err := event.CheckName("question", p.Question); err != nil {
			return err
		}
	}
	return CheckLimit(p.Limit)
}

// readOrders calls describe for each order of a page, and returns those with a size above 0. next
// is as in [OrdersPage]. The page begins at the place after p.After or, for the newest first, at
// the place before it.
func readOrders[T any](
	s *state.State, of Orders, p api.Page, describe func(number uint64, r state.Sale) (T, int, error),
) (found []T, next uint64, err error) {
	last, place, step := of.Count, p.After+1, uint64(1)
	if p.Newest {
		step = ^uint64(0) // −1, by overflow
		if place = last; p.After != 0 {
			place = min(last, p.After-1)
		}
	}
	for done, rows := 0, 0; place >= 1 && place <= last; place += step {
		if done == MaxRead || len(found) == p.Limit || rows > api.MaxPanel {
			return found, place - step, nil // the last place that was read
		}
		done++
		number, err := of.Number(place)
		if err != nil {
			return nil, 0, err
		}
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
