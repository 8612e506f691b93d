package main

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
)

func (a *app) responsesCommand() *cobra.Command {
	f := &filter{}
	cmd := &cobra.Command{
		Use:   "responses",
		Short: "List the responses to a question, or what a buyer was delivered",
		Long: `List the responses to a question that were recorded, by ε and then by person. It costs nobody anything.

With --buyer, list what that buyer was delivered, sale by sale, with the prices in minor units of the currency; then
--question may be left out. What was destroyed since, because a person was forgotten, is marked, and has its price
alone.

Each response comes with what an estimate needs: the number of values, and the probabilities p and q with which a
response counts for the true value and for any other one (with --json). A response at a higher ε replaces those of the
same person at a lower one: count each person once.`,
		Example: `  ledgerctl responses --question vote --epsilon 0.5
  ledgerctl responses --buyer acme --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			if f.question == "" && f.buyer == "" {
				return fault.Usage(`"ledgerctl question list" shows the questions, "ledgerctl buyers" the buyers`, "say of which --question or which --buyer")
			}
			if f.buyer != "" {
				return a.deliveries(cmd, f)
			}
			return a.responses(cmd, f)
		}),
	}
	f.flags(cmd)
	a.completeLevels(cmd)
	return cmd
}

// responses prints the responses to a question.
func (a *app) responses(cmd *cobra.Command, f *filter) error {
	all, err := list(a, cmd, f, f.responses, func(response) bool { return true })
	if err != nil {
		return err
	}
	return a.Print(responsesResult{all})
}

// response is a recorded response with its channel.
type response struct {
	ledger.Response
	channelResult
}

// responses yields the responses at each ε, or at the one that is requested.
func (f *filter) responses(ctx context.Context, l book) iter.Seq2[response, error] {
	return func(yield func(response, error) bool) {
		at := []privacy.Epsilon{f.epsilon}
		if f.epsilon.IsZero() {
			levels, err := l.Levels(ctx, f.question)
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
			channel, err := channelAt(ctx, l, f.question, epsilon)
			if err != nil {
				yield(response{}, err)
				return
			}
			for r, err := range l.Responses(ctx, f.question, epsilon) {
				if !yield(response{r, newChannelResult(channel)}, err) {
					return
				}
			}
		}
	}
}

type responsesResult struct {
	Responses []response `json:"responses"`
}

func (r responsesResult) Table(w io.Writer) {
	if tableNothing(w, len(r.Responses), "responses") {
		return
	}
	fmt.Fprintln(w, "PERSON\tε\tRESPONSE\tEVENT")
	for _, one := range r.Responses {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", one.Object, one.Epsilon, words.Brief(one.Value), one.Event)
	}
}

// delivery is a response that a buyer was delivered.
type delivery struct {
	ledger.Delivery
	channelResult // instead of that of the delivery, whose numbers may have fewer digits
}

// deliveries prints what a buyer was delivered.
func (a *app) deliveries(cmd *cobra.Command, f *filter) error {
	var currency string
	all, err := list(a, cmd, f, func(ctx context.Context, l book) iter.Seq2[delivery, error] {
		return f.deliveries(ctx, l, &currency)
	}, func(delivery) bool { return true })
	if err != nil {
		return err
	}
	return a.Print(deliveriesResult{Responses: all, currency: currency})
}

// deliveries yields what was delivered by the sales to the buyer.
func (f *filter) deliveries(ctx context.Context, l book, currency *string) iter.Seq2[delivery, error] {
	return func(yield func(delivery, error) bool) {
		for s, err := range l.Sales(ctx, f.buyer) {
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

type deliveriesResult struct {
	Responses []delivery `json:"responses"`

	currency string
}

func (r deliveriesResult) Table(w io.Writer) {
	if tableNothing(w, len(r.Responses), "responses") {
		return
	}
	fmt.Fprintf(w, "SALE\tPERSON\tQUESTION\tε\tRESPONSE\t%s\n", priceHeader(r.currency))
	for _, d := range r.Responses {
		person, response := d.Object, words.Brief(d.Value)
		if d.Erased {
			person, response = "(forgotten)", "(destroyed)"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d\n", d.Sale, person, d.Question, d.Epsilon, response, d.Price)
	}
}
