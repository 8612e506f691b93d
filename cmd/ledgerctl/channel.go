package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// channelColumns are the columns of a CSV file of responses that say what a response means.
func channelColumns() []string {
	return []string{"question", "epsilon", "encoding", "values", "p", "q"}
}

// channelCells are the cells of these columns. In finite encoding p and q are empty.
func channelCells(r ledger.Response, c vocabulary.Channel) []string {
	p, q := "", ""
	if c.Encoding != ledger.Finite {
		p, q = probability(c.P), probability(c.Q)
	}
	return []string{r.Question, r.Epsilon.String(), string(c.Encoding), strconv.Itoa(c.Values), p, q}
}

// probability writes enough digits to read the same number back.
func probability(p float64) string { return strconv.FormatFloat(p, 'g', 17, 64) }

// channelAt returns the channel of the responses to a question at ε.
func channelAt(ctx context.Context, l book, question string, epsilon privacy.Epsilon) (vocabulary.Channel, error) {
	all, err := l.Questions(ctx)
	if err != nil {
		return vocabulary.Channel{}, err
	}
	i := slices.IndexFunc(all, func(q ledger.Question) bool { return q.Name == question })
	if i < 0 {
		return vocabulary.Channel{}, fmt.Errorf("channel of question %q: %w", question, ledger.ErrUnknown)
	}
	return vocabulary.ChannelOf(all[i].Encoding, len(all[i].Values), epsilon)
}

// channelResult is a [vocabulary.Channel] as the command prints it.
type channelResult struct {
	Encoding ledger.Encoding `json:"encoding"`
	Values   int             `json:"values"`
	P        *output.Number  `json:"p,omitempty"`
	Q        *output.Number  `json:"q,omitempty"`
}

func newChannelResult(c vocabulary.Channel) channelResult {
	out := channelResult{Encoding: c.Encoding, Values: c.Values}
	if c.Encoding != ledger.Finite {
		p, q := output.Number(c.P), output.Number(c.Q)
		out.P, out.Q = &p, &q
	}
	return out
}
