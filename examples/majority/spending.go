package main

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

// total adds up constants of this program.
func total(levels ...privacy.Epsilon) privacy.Epsilon {
	var sum privacy.Epsilon
	for _, level := range levels {
		var err error
		if sum, err = sum.Add(level); err != nil {
			panic(err)
		}
	}
	return sum
}

// budget is what a person pays: for the winners of the own region and of the whole, and for the majority.
func budget() privacy.Epsilon {
	winners := total(winnerLevels()...)
	return total(winners, winners, majorityLevel())
}

func (h *host) printPrivacy(ctx context.Context) error {
	spent, err := h.spent(ctx)
	if err != nil {
		return err
	}
	if err := h.askAgain(ctx); err != nil {
		return err
	}
	half := request{h.whole(), "winner", epsilon("0.5")}
	quote, err := h.ledger.QuoteAnswer(ctx, h.order("", half))
	if err != nil {
		return err
	}
	if _, err := h.spent(ctx); err != nil {
		return fmt.Errorf("after asking again: %w", err)
	}
	winners := total(winnerLevels()...)
	fmt.Fprintln(h.out, "\nPRIVACY   What the answers cost each person. Answers about many people add up, and charge all of them.")
	table := newTable(h.out)
	row := func(what string, cost privacy.Epsilon, format string, values ...any) {
		fmt.Fprintf(table, "%s\tε = %s\t   %s\n", left(what), cost, fmt.Sprintf(format, values...))
	}
	row("own region", winners, "the three winners of the own region")
	row("all regions", winners, "the three winners of all regions together")
	row("majority", majorityLevel(), "the majority")
	row("spent in all", spent, "by the ledger's books, for every one of %d people", len(h.survey.People))
	row("all asked again", privacy.Epsilon{}, "all %d answers came out the same", len(h.asked))
	row("winner at ε = "+half.epsilon.String(), quote.Charge, "derived from the answer at ε = 1")
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(h.out, "A winner at a higher ε is drawn anew and charged in full: asked at ε = 1 first, each lower one would have been free.\n"+
		"A majority at a higher ε would be raised, for the difference.")
	return err
}

// spent returns what each person has spent, which must be the same for all.
func (h *host) spent(ctx context.Context) (privacy.Epsilon, error) {
	for _, person := range h.survey.People {
		state, err := h.ledger.Object(ctx, person)
		if err != nil {
			return privacy.Epsilon{}, err
		}
		if state.Spent != budget() {
			return privacy.Epsilon{}, fmt.Errorf("person %s has spent %s, not %s", person, state.Spent, budget())
		}
	}
	return budget(), nil
}

// askAgain asks everything once more: the answers must be the recorded ones, and free.
func (h *host) askAgain(ctx context.Context) error {
	for i, r := range h.asked {
		result, err := h.ledger.Answer(ctx, h.order(fmt.Sprintf("again %d", i+1), r))
		if err != nil {
			return err
		}
		if result.Answer != h.answered[i] || !result.Charged.IsZero() {
			return fmt.Errorf("order %d: %s, asked again %s, charged %s", i+1, h.answered[i], result.Answer, result.Charged)
		}
	}
	return nil
}
