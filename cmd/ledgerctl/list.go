package main

import (
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// filter are the flags that select the items of a list.
type filter struct {
	Question string          `flag:"question"`
	Buyer    string          `flag:"buyer"`
	Epsilon  privacy.Epsilon `flag:"epsilon,positive"`
}

// admits reports whether an item about a question at an ε is listed.
func (f *filter) admits(question string, epsilon privacy.Epsilon) bool {
	return (f.Question == "" || f.Question == question) && (f.Epsilon.IsZero() || f.Epsilon == epsilon)
}

// list opens the ledger, and prints the items that all yields and for which isWanted returns true:
// as a table, or with --json under the key. The columns are those of [output.Rows]. It returns an
// error if the ledger does not have the question of the filter.
func list[T any](a *app, cmd *cobra.Command, f *filter, key, columns string,
	all func(ctx context.Context, l backend) iter.Seq2[T, error], isWanted func(T) bool) error {
	return a.query(cmd, func(ctx context.Context, l backend) (output.Result, error) {
		if f.Question != "" {
			if _, err := questionNamed(ctx, l, f.Question); err != nil {
				return nil, err
			}
		}
		var found []T
		for one, err := range all(ctx, l) {
			if err != nil {
				return nil, err
			}
			if isWanted(one) {
				found = append(found, one)
			}
		}
		return output.List(key, found, columns, l.About().Currency), nil
	})
}

// sales runs the command sales.
func (a *app) sales(cmd *cobra.Command, _ []string, f *filter) error {
	return list(a, cmd, f, "sales", "sale time buyer question epsilon objects=people refused price",
		func(ctx context.Context, l backend) iter.Seq2[api.Sale, error] { return l.Sales(ctx, f.Buyer) },
		func(s api.Sale) bool { return f.admits(s.Question, s.Epsilon) })
}

type reservationFlags struct {
	filter
	States []string `flag:"state" values:"open captured cancelled expired"`
}

// reservations runs the command reservations.
func (a *app) reservations(cmd *cobra.Command, _ []string, f *reservationFlags) error {
	const columns = "sale=reservation state expires buyer question epsilon objects=people refused price"
	return list(a, cmd, &f.filter, "reservations", columns,
		func(ctx context.Context, l backend) iter.Seq2[api.Reservation, error] {
			return l.Reservations(ctx, f.Buyer, f.States...) // the ledger refuses other states
		},
		func(r api.Reservation) bool { return f.admits(r.Question, r.Epsilon) })
}

// buyers runs the command buyers.
func (a *app) buyers(cmd *cobra.Command, _ []string, f *filter) error {
	return list(a, cmd, f, "buyers", "buyer sales paid", f.buyers,
		func(b api.BuyerState) bool { return f.Buyer == "" || b.Buyer == f.Buyer })
}

// buyers yields the buyers. With a question or an ε, it counts only the sales with them, and leaves
// out buyers without such sales.
func (f *filter) buyers(ctx context.Context, l backend) iter.Seq2[api.BuyerState, error] {
	return func(yield func(api.BuyerState, error) bool) {
		all, err := api.Collect(l.Buyers(ctx))
		if err == nil && (f.Question != "" || !f.Epsilon.IsZero()) {
			all, err = f.counted(ctx, l, all)
		}
		if err != nil {
			yield(api.BuyerState{}, err)
			return
		}
		for _, b := range all {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// counted returns those of all buyers that have sales which the filter admits. Sales and Paid of a
// buyer are counted from these sales only.
func (f *filter) counted(ctx context.Context, l backend, all []api.BuyerState) ([]api.BuyerState, error) {
	index := map[string]int{}
	for i := range all { // begin with no sales, and count those of the filter
		index[all[i].Buyer], all[i].Sales, all[i].Paid = i, 0, 0
	}
	for s, err := range l.Sales(ctx, f.Buyer) {
		if err != nil {
			return nil, err
		}
		if i, known := index[s.Buyer]; known && f.admits(s.Question, s.Epsilon) { // a new buyer may not be in the list
			all[i].Sales, all[i].Paid = all[i].Sales+1, all[i].Paid+s.Price
		}
	}
	return slices.DeleteFunc(all, func(b api.BuyerState) bool { return b.Sales == 0 }), nil
}

// everything admits each item of a list.
func everything[T any](T) bool { return true }

// responses runs the command responses: it prints those delivered to a buyer if --buyer is given,
// and otherwise those to the question of --question.
func (a *app) responses(cmd *cobra.Command, _ []string, f *filter) error {
	switch {
	case f.Buyer != "":
		return list(a, cmd, f, "responses", "sale object=person question epsilon response price erased=destroyed",
			f.deliveries, everything)
	case f.Question == "":
		return output.UsageError(`"ledgerctl question list" shows the questions, "ledgerctl buyers" the buyers`,
			"neither --question nor --buyer is given")
	}
	return list(a, cmd, f, "responses", "object=person epsilon response event", f.responses, everything)
}

// response is a recorded response with its channel.
type response struct {
	api.Response
	channelResult
}

// responses yields the responses at the ε of the filter, or at every ε.
func (f *filter) responses(ctx context.Context, l backend) iter.Seq2[response, error] {
	return func(yield func(response, error) bool) {
		at := []api.LevelCount{{Epsilon: f.Epsilon}}
		if f.Epsilon.IsZero() {
			var err error
			if at, err = api.Collect(l.Levels(ctx, f.Question)); err != nil {
				yield(response{}, err)
				return
			}
		}
		for _, level := range at {
			channel, err := channelAt(ctx, l, f.Question, level.Epsilon)
			if err != nil {
				yield(response{}, err)
				return
			}
			for r, err := range l.Responses(ctx, f.Question, level.Epsilon) {
				if !yield(response{r, newChannelResult(channel)}, err) {
					return
				}
			}
		}
	}
}

// delivery is a response that was delivered to a buyer.
type delivery struct {
	api.Delivery
	channelResult // replaces the channel of the delivery, whose numbers may have fewer digits
}

// deliveries yields the responses that were delivered in the sales to the buyer.
func (f *filter) deliveries(ctx context.Context, l backend) iter.Seq2[delivery, error] {
	return func(yield func(delivery, error) bool) {
		for s, err := range l.Sales(ctx, f.Buyer) {
			if err != nil {
				yield(delivery{}, err)
				return
			}
			if !f.admits(s.Question, s.Epsilon) {
				continue
			}
			for d, err := range l.Deliveries(ctx, s.Number) {
				if !yield(delivery{d, newChannelResult(d.Channel)}, err) {
					return
				}
			}
		}
	}
}

// channelColumns returns the columns of a CSV file of responses that describe the channel.
func channelColumns() []string {
	return []string{"question", "epsilon", "encoding", "values", "p", "q"}
}

// channelCells returns the cells of channelColumns. In finite encoding p and q are empty.
func channelCells(r api.Response, c api.Channel) []string {
	p, q := "", ""
	if c.Encoding != "finite" {
		p, q = probability(c.P), probability(c.Q)
	}
	return []string{r.Question, r.Epsilon.String(), c.Encoding, strconv.Itoa(c.Values), p, q}
}

// probability formats a probability with 17 digits, so that the same number can be read back.
func probability(p float64) string { return strconv.FormatFloat(p, 'g', 17, 64) }

// channelAt returns the channel of the responses to a question at ε.
func channelAt(ctx context.Context, l backend, question string, epsilon privacy.Epsilon) (api.Channel, error) {
	q, err := questionNamed(ctx, l, question)
	if err != nil {
		return api.Channel{}, err
	}
	return q.Channel(epsilon)
}

// channelResult is a [api.Channel] as the command prints it.
type channelResult struct {
	Encoding string   `json:"encoding"`
	Values   int      `json:"values"`
	P        *float64 `json:"p,omitempty"`
	Q        *float64 `json:"q,omitempty"`
}

// newChannelResult returns a channel as it is printed: without p and q in finite encoding, where
// each output has probabilities of its own.
func newChannelResult(c api.Channel) channelResult {
	out := channelResult{Encoding: c.Encoding, Values: c.Values}
	if c.Encoding != "finite" {
		out.P, out.Q = &c.P, &c.Q
	}
	return out
}
