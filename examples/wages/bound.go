package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger"
)

const bracketQuestion = "wage bracket"

// brackets are the answers to bracketQuestion. Each begins where the one before ends.
var brackets = [...]struct {
	name  string
	bound float64 // where it ends, and the last one does not
}{{"up to 500", 500}, {"500 to 1000", 1000}, {"above 1000", unclipped}}

// bracket returns the number of the bracket that a wage is in.
func bracket(wage float64) int {
	v := 0
	for wage > brackets[v].bound {
		v++
	}
	return v
}

// askPilot asks the people in the pilot for the bracket of their wages, and guesses from the answers how
// the wages are distributed.
func (s *study) askPilot(ctx context.Context) (lognormal, error) {
	q := ledger.Question{Name: bracketQuestion}
	for _, b := range brackets {
		q.Values = append(q.Values, b.name)
	}
	if err := s.ask(ctx, q, s.pilot, s.last()); err != nil {
		return lognormal{}, err
	}
	_, err := s.ledger.Raise(ctx, ledger.RaiseRequest{
		Key: "pilot", Question: q.Name, Epsilon: s.last(), All: true,
		Truth: func(_ context.Context, _ string, people []string) ([]string, error) {
			values := make([]string, len(people))
			for i, wage := range s.wages.Of(people) {
				values[i] = q.Values[bracket(wage)]
			}
			return values, nil
		},
	})
	if err != nil {
		return lognormal{}, err
	}
	shares, err := s.ledger.Estimate(ctx, ledger.EstimateRequest{Question: q.Name, Epsilon: s.last()})
	if err != nil {
		return lognormal{}, err
	}
	guess, err := fitLognormal(
		brackets[0].bound, shares.Values[0].Estimate,
		brackets[1].bound, shares.Values[0].Estimate+shares.Values[1].Estimate)
	if err != nil {
		return lognormal{}, err
	}
	return guess, s.printPilot(shares, guess)
}

func (s *study) printPilot(shares ledger.Estimate, guess lognormal) error {
	fmt.Fprintf(s.out, "\nPILOT   Every tenth person, %d of them, tells at ε = %s how much the wage is, roughly, and nothing else ever.\n", len(s.pilot), s.last())
	var real [len(brackets)]int
	for _, wage := range s.wages.Of(s.pilot) {
		real[bracket(wage)]++
	}
	table := s.table()
	fmt.Fprintln(table, left("dollars a week")+"\treal share\testimate\t")
	for v, b := range brackets {
		fmt.Fprintf(table, "%s\t%.1f %%\t%.1f ± %.1f %%\t\n", left(b.name), 100*float64(real[v])/float64(len(s.pilot)),
			100*shares.Values[v].Estimate, 100*(shares.Values[v].High-shares.Values[v].Estimate))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "The logarithms of wages are roughly normal: here with a median of %.0f dollars and a standard deviation of %.2f.\n", guess.median(), guess.sigma)
	return nil
}

// bounds returns the bounds to choose from.
func bounds() []float64 { return []float64{1000, 1500, 2000, 2500, 3000, 4000, 5000, 10000, 20000} }

// chooseBound returns the best bound if the wages are distributed as guessed, and prints how good each
// bound really is.
func (s *study) chooseBound(guess lognormal) (float64, error) {
	real, n := list(s.wages.Of(s.panel)), len(s.panel)
	first, last := s.levels[0].Float64(), s.last().Float64()
	fmt.Fprintf(s.out, "\nBOUND   Wages above the bound will count as the bound, for the %d people who are left. A low bound cuts income off\n"+
		"the mean. A high one makes a wide range, and more noise in proportion. The error is what is cut off and the noise\n"+
		"together (root mean square, in dollars); the smallest has a star. The last two columns are all that the pilot tells.\n", n)
	table := s.table()
	fmt.Fprintf(table, "bound\twages above\tcut off\tnoise at %[1]s\terror at %[1]s\tnoise at %[2]s\terror at %[2]s\tguess: cut off\tguess: error at %[2]s\t\n", s.levels[0], s.last())
	for _, bound := range bounds() {
		fmt.Fprintf(table, "%.0f\t%.2f %%\t%.1f\t%.1f\t%s\t%.1f\t%s\t%.1f\t%s\t\n", bound, 100*real.above(bound), cut(real, bound),
			noise(real, n, bound, first), starred(real, n, bound, first),
			noise(real, n, bound, last), starred(real, n, bound, last),
			cut(guess, bound), starred(guess, n, bound, last))
	}
	if err := table.Flush(); err != nil {
		return 0, err
	}
	chosen := best(guess, n, bounds(), last)
	fmt.Fprintf(s.out, "A wage is rounded once, so the bound is chosen once, by the guess for the last level, ε = %s: it is %.0f dollars.\n", s.last(), chosen)
	return chosen, nil
}

// starred prints the total error of a bound, with a star if none is smaller.
func starred(w wages, n int, bound, epsilon float64) string {
	mark := " "
	if bound == best(w, n, bounds(), epsilon) {
		mark = "*"
	}
	return fmt.Sprintf("%.1f %s", totalError(w, n, bound, epsilon), mark)
}

// members returns the people of the panel who work part-time, or those who do not.
func (s *study) members(partTime bool) []string {
	return slices.DeleteFunc(slices.Clone(s.panel), func(person string) bool { return s.wages.PartTime[person] != partTime })
}
