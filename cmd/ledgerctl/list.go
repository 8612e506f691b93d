package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// filter are the flags that leave out some of what a command lists.
type filter struct {
	Question string          `flag:"question"`
	Buyer    string          `flag:"buyer"`
	Epsilon  privacy.Epsilon `flag:"epsilon"`
}

// check refuses what nothing can agree with: an ε of 0, or a question that the ledger does not
// have.
func (f *filter) check(ctx context.Context, cmd *cobra.Command, l book) (err error) {
	switch {
	case cmd.Flags().Changed("epsilon") && f.Epsilon.IsZero():
		return output.UsageError("", "--epsilon must be above 0")
	case f.Question != "":
		_, err = questionNamed(ctx, l, f.Question)
	}
	return err
}

// admits reports whether something about a question, at an ε, is to be listed.
func (f *filter) admits(question string, epsilon privacy.Epsilon) bool {
	return (f.Question == "" || f.Question == question) && (f.Epsilon.IsZero() || f.Epsilon == epsilon)
}

// list opens the ledger, and collects what is to be listed.
func list[T any](a *app, cmd *cobra.Command, f *filter, all func(ctx context.Context, l book) iter.Seq2[T, error],
	wanted func(T) bool) (found []T, err error) {
	err = a.with(cmd.Context(), reading, func(l book) error {
		if err := f.check(cmd.Context(), cmd, l); err != nil {
			return err
		}
		for one, err := range all(cmd.Context(), l) {
			if err != nil {
				return err
			}
			if wanted(one) {
				found = append(found, one)
			}
		}
		return nil
	})
	return found, err
}

func (a *app) sales(cmd *cobra.Command, _ []string, f *filter) error {
	of := func(ctx context.Context, l book) iter.Seq2[api.Sale, error] { return l.Sales(ctx, f.Buyer) }
	all, err := list(a, cmd, f, of, func(s api.Sale) bool { return f.admits(s.Question, s.Epsilon) })
	if err != nil {
		return err
	}
	currency := ""
	if len(all) > 0 {
		currency = all[0].Currency
	}
	header := "SALE\tTIME\tBUYER\tQUESTION\tε\tPEOPLE\tREFUSED\t" + priceHeader(currency)
	return a.Print(output.List("sales", all, header, func(s api.Sale) []any {
		return []any{s.Number, s.Time, s.Buyer, s.Question, s.Epsilon, s.Objects, len(s.Refused), s.Price}
	}))
}

// priceHeader is the header of a column of prices.
func priceHeader(currency string) string {
	return fmt.Sprintf("PRICE IN MINOR UNITS OF %s", currency)
}

type reservationFlags struct {
	filter
	States []string `flag:"state" values:"open captured cancelled expired"`
}

func (a *app) reservations(cmd *cobra.Command, _ []string, f *reservationFlags) error {
	var states []api.ReservationState
	for _, state := range f.States {
		states = append(states, api.ReservationState(state)) // the ledger refuses others than there are
	}
	of := func(ctx context.Context, l book) iter.Seq2[api.Reservation, error] {
		return l.Reservations(ctx, f.Buyer, states...)
	}
	all, err := list(a, cmd, &f.filter, of, func(r api.Reservation) bool { return f.admits(r.Question, r.Epsilon) })
	if err != nil {
		return err
	}
	currency := ""
	if len(all) > 0 {
		currency = all[0].Currency
	}
	header := "RESERVATION\tSTATE\tEXPIRES\tBUYER\tQUESTION\tε\tPEOPLE\tREFUSED\t" + priceHeader(currency)
	return a.Print(output.List("reservations", all, header, func(r api.Reservation) []any {
		return []any{r.Number, r.State, r.Expires, r.Buyer, r.Question, r.Epsilon, r.Objects, len(r.Refused), r.Price}
	}))
}

func (a *app) buyers(cmd *cobra.Command, _ []string, f *filter) error {
	return a.query(cmd, func(ctx context.Context, l book) (output.Result, error) {
		all, err := f.buyers(ctx, cmd, l)
		header := "BUYER\tSALES\tPAID IN MINOR UNITS OF " + l.About().Currency
		return output.List("buyers", all, header, func(b api.BuyerState) []any {
			return []any{b.Buyer, b.Sales, b.Paid}
		}), err
	})
}

// buyers returns the buyers that the filter admits. With a question or an ε, only such sales count.
func (f *filter) buyers(ctx context.Context, cmd *cobra.Command, l book) ([]api.BuyerState, error) {
	if err := f.check(ctx, cmd, l); err != nil {
		return nil, err
	}
	all, err := l.Buyers(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(b api.BuyerState) bool { return f.Buyer != "" && b.Buyer != f.Buyer })
	if f.Question == "" && f.Epsilon.IsZero() {
		return all, nil
	}
	place := map[string]int{}
	for i := range all {
		place[all[i].Buyer], all[i].Sales, all[i].Paid = i, 0, 0
	}
	for s, err := range l.Sales(ctx, f.Buyer) {
		if err != nil {
			return nil, err
		}
		if i, known := place[s.Buyer]; known && f.admits(s.Question, s.Epsilon) { // else it is newer than the list
			all[i].Sales, all[i].Paid = all[i].Sales+1, all[i].Paid+s.Price
		}
	}
	return slices.DeleteFunc(all, func(b api.BuyerState) bool { return b.Sales == 0 }), nil
}

// everything admits each item of a list.
func everything[T any](T) bool { return true }

// responses prints the responses to a question, or what a buyer was delivered.
func (a *app) responses(cmd *cobra.Command, _ []string, f *filter) error {
	switch {
	case f.Buyer != "":
		return a.deliveries(cmd, f)
	case f.Question == "":
		return output.UsageError(`"ledgerctl question list" shows the questions, "ledgerctl buyers" the buyers`,
			"say of which --question or which --buyer")
	}
	all, err := list(a, cmd, f, f.responses, everything)
	if err != nil {
		return err
	}
	return a.Print(output.List("responses", all, "PERSON\tε\tRESPONSE\tEVENT", func(r response) []any {
		return []any{r.Object, r.Epsilon, output.Brief(r.Value), r.Event}
	}))
}

// response is a recorded response with its channel.
type response struct {
	api.Response
	channelResult
}

// responses yields the responses at each ε, or at the one that is requested.
func (f *filter) responses(ctx context.Context, l book) iter.Seq2[response, error] {
	return func(yield func(response, error) bool) {
		at := []privacy.Epsilon{f.Epsilon}
		if f.Epsilon.IsZero() {
			levels, err := l.Levels(ctx, f.Question)
			if err != nil {
				yield(response{}, err)
				return
			}
			at = nil
			for _, level := range levels {
				at = append(at, level.Epsilon)
			}
		}
		for _, epsilon := range at {
			channel, err := channelAt(ctx, l, f.Question, epsilon)
			if err != nil {
				yield(response{}, err)
				return
			}
			for r, err := range l.Responses(ctx, f.Question, epsilon) {
				if !yield(response{r, newChannelResult(channel)}, err) {
					return
				}
			}
		}
	}
}

// delivery is a response that a buyer was delivered.
type delivery struct {
	api.Delivery
	channelResult // instead of that of the delivery, whose numbers may have fewer digits
}

// deliveries prints what a buyer was delivered.
func (a *app) deliveries(cmd *cobra.Command, f *filter) error {
	currency := ""
	of := func(ctx context.Context, l book) iter.Seq2[delivery, error] { return f.deliveries(ctx, l, &currency) }
	all, err := list(a, cmd, f, of, everything)
	if err != nil {
		return err
	}
	header := "SALE\tPERSON\tQUESTION\tε\tRESPONSE\t" + priceHeader(currency)
	return a.Print(output.List("responses", all, header, func(d delivery) []any {
		person, response := d.Object, output.Brief(d.Value)
		if d.Erased {
			person, response = "(forgotten)", "(destroyed)"
		}
		return []any{d.Sale, person, d.Question, d.Epsilon, response, d.Price}
	}))
}

// deliveries yields what was delivered by the sales to the buyer.
func (f *filter) deliveries(ctx context.Context, l book, currency *string) iter.Seq2[delivery, error] {
	return func(yield func(delivery, error) bool) {
		for s, err := range l.Sales(ctx, f.Buyer) {
			if err != nil {
				yield(delivery{}, err)
				return
			}
			if !f.admits(s.Question, s.Epsilon) {
				continue
			}
			*currency = s.Currency
			for d, err := range l.Deliveries(ctx, s.Number) {
				if !yield(delivery{d, newChannelResult(d.Channel)}, err) {
					return
				}
			}
		}
	}
}

// channelColumns are the columns of a CSV file of responses that say what a response means.
func channelColumns() []string {
	return []string{"question", "epsilon", "encoding", "values", "p", "q"}
}

// channelCells are the cells of these columns. In finite encoding p and q are empty.
func channelCells(r api.Response, c api.Channel) []string {
	p, q := "", ""
	if c.Encoding != api.Finite {
		p, q = probability(c.P), probability(c.Q)
	}
	return []string{r.Question, r.Epsilon.String(), string(c.Encoding), strconv.Itoa(c.Values), p, q}
}

// probability writes enough digits to read the same number back.
func probability(p float64) string { return strconv.FormatFloat(p, 'g', 17, 64) }

// channelAt returns the channel of the responses to a question at ε.
func channelAt(ctx context.Context, l book, question string, epsilon privacy.Epsilon) (api.Channel, error) {
	q, err := questionNamed(ctx, l, question)
	if err != nil {
		return api.Channel{}, err
	}
	return api.ChannelOf(q.Encoding, len(q.Values), epsilon)
}

// channelResult is a [api.Channel] as the command prints it.
type channelResult struct {
	Encoding api.Encoding `json:"encoding"`
	Values   int          `json:"values"`
	P        *float64     `json:"p,omitempty"`
	Q        *float64     `json:"q,omitempty"`
}

func newChannelResult(c api.Channel) channelResult {
	out := channelResult{Encoding: c.Encoding, Values: c.Values}
	if c.Encoding != api.Finite {
		out.P, out.Q = &c.P, &c.Q
	}
	return out
}
