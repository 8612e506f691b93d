package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

const wageQuestion = "wage"

// ends are the answers to wageQuestion: the ends that a wage is rounded to.
func ends() []string { return []string{"low", "high"} }

// budget is what each person of the panel may spend. The study does not use it up.
func budget() privacy.Epsilon { return epsilon("3") }

// askPanel raises everybody in the panel level by level, and prints the estimate after each step.
func (s *study) askPanel(ctx context.Context, wages rrchain.Range, guess lognormal) error {
	if err := s.ask(ctx, ledger.Question{Name: wageQuestion, Values: ends()}, s.panel, budget()); err != nil {
		return err
	}
	real := list(s.wages.Of(s.panel))
	clipped, _ := real.clipped(wages.High())
	whole, _ := real.clipped(unclipped)
	fmt.Fprintf(s.out, "\nMEAN   Each wage is rounded to 0 or %.0f dollars, by a keyed hash; that end is the truth of a chain with two values.\n", wages.High())
	table := s.table()
	fmt.Fprintln(table, "ε\tdrawn\testimated mean\t95 % interval\treal, clipped\treal\t")
	for _, level := range s.levels {
		done, err := s.ledger.Raise(ctx, ledger.RaiseRequest{
			Key: "raise to " + level.String(), Question: wageQuestion, Epsilon: level, All: true, Truth: s.ends(wages),
		})
		if err != nil {
			return err
		}
		mean, err := s.mean(ctx, wages, level, s.panel)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%.1f to %.1f\t%.1f\t%.1f\t\n", level, done.Drawn, mean.Estimate, mean.Low, mean.High, clipped, whole)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "The interval is one for the mean of the clipped wages. What was cut off comes on top: %.1f by the guess, really %.1f.\n",
		cut(guess, wages.High()), cut(real, wages.High()))
	return nil
}

// ends is the source of truth: it rounds a wage whenever the ledger asks, and always to the same end.
func (s *study) ends(wages rrchain.Range) ledger.TruthFunc {
	return func(_ context.Context, question string, people []string) ([]string, error) {
		values := make([]string, len(people))
		for i, person := range people {
			end, err := wages.RoundKeyed(s.key, question, person, s.wages.Weekly[person])
			if err != nil {
				return nil, err
			}
			values[i] = ends()[end]
		}
		return values, nil
	}
}

// mean estimates the mean wage of some people from their responses at a level.
func (s *study) mean(ctx context.Context, wages rrchain.Range, level privacy.Epsilon, people []string) (estimate.Frequency, error) {
	asked := map[string]bool{}
	for _, person := range people {
		asked[person] = true
	}
	counts := estimate.Counts{Epsilon: level, ByValue: make([]int64, len(ends()))}
	for response, err := range s.ledger.Responses(ctx, wageQuestion, level) {
		if err != nil {
			return estimate.Frequency{}, err
		}
		if !asked[response.Object] {
			continue
		}
		for v, end := range ends() {
			if response.Value == end {
				counts.ByValue[v]++
			}
		}
	}
	return estimate.Mean(0.95, wages, counts)
}

func (s *study) printGroups(ctx context.Context, wages rrchain.Range) error {
	fmt.Fprintln(s.out, "\nGROUPS   The same responses, parted by what the buyer knows anyway. Fewer people make wider intervals.")
	table := s.table()
	fmt.Fprint(table, left("work")+"\tpeople\treal\treal, clipped\t")
	for _, level := range s.levels {
		fmt.Fprintf(table, "at ε = %s\t", level)
	}
	fmt.Fprintln(table)
	for _, group := range []struct {
		name     string
		partTime bool
	}{{"full-time", false}, {"part-time", true}} {
		people := s.members(group.partTime)
		real := list(s.wages.Of(people))
		whole, _ := real.clipped(unclipped)
		clipped, _ := real.clipped(wages.High())
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%.1f\t", left(group.name), len(people), whole, clipped)
		for _, level := range s.levels {
			mean, err := s.mean(ctx, wages, level, people)
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "%.1f ± %.1f\t", mean.Estimate, mean.High-mean.Estimate)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// roundAnew shows why a wage is rounded once.
func (s *study) roundAnew(ctx context.Context, wages rrchain.Range) error {
	sampler := rrchain.NewSampler()
	person, end, err := s.changed(sampler, wages)
	if err != nil {
		return err
	}
	const times = 10000
	high := 0
	for range times {
		v, err := wages.Round(sampler, s.wages.Weekly[person])
		if err != nil {
			return err
		}
		high += v
	}
	fmt.Fprintf(s.out, "\nROUND ONCE   The end of person %s is %q, and stays it: all answers together tell no more than one bit. If the wage\n"+
		"were rounded anew for each answer, the answers would tell the wage: %d such ends are %.0f dollars on average, and it is %.2f.\n",
		person, ends()[1-end], times, wages.Low()+(wages.High()-wages.Low())*float64(high)/times, s.wages.Weekly[person])
	_, err = s.ledger.Release(ctx, ledger.ReleaseRequest{
		Key: "careless", Question: wageQuestion, Object: person, Epsilon: budget(), Truth: ledger.TruthOf(ends()[end]),
	})
	var refused *ledger.RefusedError
	if !errors.As(err, &refused) || !slices.Contains(refused.TruthChanged, person) {
		return fmt.Errorf("a changed end was not refused: %w", err)
	}
	fmt.Fprintln(s.out, "A ledger with a truth key finds it out. Raised with an end that was rounded anew, everybody sees:")
	fmt.Fprintf(s.out, "   %v\nThe host alone is told that the value of %q has changed.\n", err, refused.TruthChanged)
	state, err := s.ledger.Object(ctx, person)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "Person %s has spent ε = %s, as everybody else who was asked.\n", person, state.Spent)
	return nil
}

// changed returns the first person of the panel whose wage, rounded anew, has another end, and that end.
func (s *study) changed(sampler *rrchain.Sampler, wages rrchain.Range) (string, int, error) {
	for _, person := range s.panel {
		kept, err := wages.RoundKeyed(s.key, wageQuestion, person, s.wages.Weekly[person])
		if err != nil {
			return "", 0, err
		}
		anew, err := wages.Round(sampler, s.wages.Weekly[person])
		if err != nil {
			return "", 0, err
		}
		if anew != kept {
			return person, anew, nil
		}
	}
	return "", 0, errors.New("nobody's end changed")
}
