package ledgerhttp

import (
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// This file alone decides what each role sees. Routes pass the results of the ledger through these
// functions.
//
// A buyer learns prices, levels on offer, its own purchases, and yes or no for an order at a level
// on offer. It does not learn what others bought, what a person has spent or has left, or how many
// sales there are. So for a buyer
//
//   - quotes are those of [ledger.Ledger.QuoteBuyer], and every refusal is [api.NotAvailable]
//   - sales and reservations have the buyer's own numbers, 1, 2, 3, …, instead of those of the
//     ledger
//   - numbers of events, and the methods of responses, are left out
//   - errors have a fixed text, except for errors in the request itself
//   - the log is proven only at the sizes in the buyer's receipts
//
// Receipts are signed, and verified without the ledger, so they are not changed here.
// docs/limits.md lists what receipts reveal in addition.

// isBuyer reports whether the holder may see only what a buyer may see.
func (c *call) isBuyer() bool { return c.holder.Role == roleBuyer }

// checkBuyer returns an error if a buyer names another buyer.
func (c *call) checkBuyer(buyer string) error {
	if c.isBuyer() && buyer != c.holder.Whom {
		return problem.At("buyer", problem.Forbidden, "this token is for another buyer")
	}
	return nil
}

// quoted returns the quote of an order as the holder may see it. A buyer gets the part of the quote
// that [ledger.Ledger.QuoteBuyer] returns.
func (c *call) quoted(o api.Order) (api.Quote, error) {
	ask := c.ledger().Quote
	if c.isBuyer() {
		ask = c.ledger().QuoteBuyer
	}
	return ask(c.ctx(), o)
}

// numberOf converts the holder's number of a sale or reservation to the ledger's number. They
// differ for a buyer only. It returns [api.ErrUnknown] if the buyer has no order of this number.
func (c *call) numberOf(number uint64) (uint64, error) {
	if !c.isBuyer() {
		return number, nil
	}
	return c.ledger().OrderOf(c.ctx(), c.holder.Whom, number)
}

// unknown replaces the error for a sale or reservation that was not found, [api.ErrUnknown]. The
// ledger's text may contain its own number; the new one has the number that the caller gave. A
// buyer gets the same error if the number is another buyer's, is of the other kind, or does not
// exist. Any other error, and nil, is returned as it is.
func unknown(kind string, number uint64, err error) error {
	if errors.Is(err, api.ErrUnknown) {
		return fmt.Errorf("%s %d: %w", kind, number, api.ErrUnknown)
	}
	return err
}

// seenSale returns a sale as the holder sees it. A buyer sees its own number of the sale, no
// numbers of events, no methods of responses, and no reasons of refusals.
func (c *call) seenSale(s api.Sale) api.Sale {
	s.Key = c.shownKey(s.Key)
	if !c.isBuyer() {
		return s
	}
	s.Number, s.First, s.Last = s.Ordinal, 0, 0
	s.Draws, s.Resales, s.Degradations, s.Insertions = 0, 0, 0, 0
	s.Refused = event.Unexplained(s.Refused)
	return s
}

// seenReservation returns a reservation as the holder sees it. A buyer sees its own number of the
// reservation, no numbers of events, and no reasons of refusals.
func (c *call) seenReservation(r api.Reservation) api.Reservation {
	r.Key = c.shownKey(r.Key)
	if !c.isBuyer() {
		return r
	}
	r.Number, r.First, r.Last = r.Ordinal, 0, 0
	r.Refused = event.Unexplained(r.Refused)
	return r
}

// seenDelivery returns a response as the holder sees it. sale is the holder's number of the sale. A
// buyer sees no numbers of events, and not the method of the response.
func (c *call) seenDelivery(sale uint64, d api.Delivery) api.Delivery {
	d.Sale = sale
	if c.isBuyer() {
		d.Event, d.Sold, d.Method = 0, 0, ""
	}
	return d
}

// consistency proves that the log of the size from is the beginning of the log of the size to. A
// buyer may ask only for sizes at which it has receipts.
func (c *call) consistency(from, to uint64) (tlog.TreeProof, error) {
	if c.isBuyer() {
		return c.ledger().ConsistencyOf(c.ctx(), c.holder.Whom, from, to)
	}
	return c.ledger().Consistency(c.ctx(), from, to)
}

// seenProblem returns a problem as a role sees it. An operator sees all of it, and a buyer what
// plainProblem keeps. Only operators and desks see why objects were refused. Only an operator sees
// the text of a failure of the server, and which objects have changed or invalid true values.
func seenProblem(p api.Problem, role string) *api.Problem {
	switch role {
	case roleOperator:
		return &p
	case roleBuyer:
		p = plainProblem(p)
	}
	p.TruthChanged, p.TruthInvalid = nil, nil
	if role != roleDesk && p.Kind == problem.Refused {
		// The text contains what people have spent.
		p.Detail, p.Refused = "not available at this ε", event.Unexplained(p.Refused)
		p.Instead, p.Sums = nil, nil
	}
	if p.Status >= http.StatusInternalServerError || p.Exit == exitIntegrity {
		p.Detail = p.Title // the text may contain names of files or of other hosts
	}
	return &p
}

// plainProblem returns a problem as a buyer sees it: the fields that are the same for each problem
// of its kind. Only an error in the request itself keeps its own text. A refusal also keeps its
// question and objects, from which seenProblem removes the reasons.
func plainProblem(p api.Problem) api.Problem {
	out := api.Problem{Type: p.Type, Title: p.Title, Status: p.Status, Detail: p.Title, Kind: p.Kind, Exit: p.Exit}
	switch p.Kind {
	case problem.Invalid, problem.Unknown, problem.Unauthorized, problem.Forbidden, problem.NoRoute,
		problem.Method, problem.TooLarge, problem.MediaType, problem.TooMany, problem.Busy:
		out.Detail, out.Hint, out.Field, out.Name = p.Detail, p.Hint, p.Field, p.Name
	case problem.Refused:
		out.Question, out.Refused, out.Unlisted = p.Question, p.Refused, p.Unlisted
	}
	return out
}

// exitIntegrity is the exit code of problems about damaged data.
const exitIntegrity = 4
