package market

import (
	"fmt"
	"maps"
	"math"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// pool is two buyers' answers to one question, put together.
type pool struct {
	people int // in the pool
	// Of those whom both buyers hold: what either holds, each at one level, and the pool of it.
	low, high, both answers
	lowAt, highAt   privacy.Epsilon
	// The exact variances of the estimates of "yes" from either.
	lowVar, highVar float64
}

// newPool pools what Cobalt and Beacon hold about "insured".
func (m *market) newPool(b *books) (pool, error) {
	p := pool{lowAt: privacy.MustEpsilon("0.7"), highAt: privacy.MustEpsilon("1")}
	low, high := b.held(insured, cobalt), b.held(insured, beacon)
	both := b.held(insured, cobalt, beacon)
	if !maps.Equal(both, high) {
		return p, fmt.Errorf("the pool of %s and %s is not what %s holds", cobalt, beacon, beacon)
	}
	p.people = len(both)
	p.low, p.high = low.of(high.people()), high.of(low.people())
	p.both = both.of(p.low.people())
	for person := range p.high {
		if p.low[person].epsilon != p.lowAt || p.high[person].epsilon != p.highAt {
			return p, fmt.Errorf("person %s was sold at other levels than the pool is about", person)
		}
	}
	truth := m.people.Counts(insured, p.high.people())
	var err error
	if p.lowVar, err = variance(p.lowAt, truth); err != nil {
		return p, err
	}
	p.highVar, err = variance(p.highAt, truth)
	return p, err
}

func variance(at privacy.Epsilon, truth []int64) (float64, error) {
	all, err := estimate.Variance(estimate.Counts{Epsilon: at, ByValue: truth})
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// averaged is the variance of w·low + (1−w)·high. Given the higher answer, the lower one is that answer
// with noise and has nothing to do with the truth (pan2024 Lemma 3.1), so that on average over this noise
// the lower estimate is the higher one, and their covariance is the variance of the higher one:
// w²·lowVar + (1−w)²·highVar + 2w(1−w)·highVar.
func (p pool) averaged(w float64) float64 { return p.highVar + w*w*(p.lowVar-p.highVar) }

// afresh is the least variance of an average, had the two answers been drawn independently.
func (p pool) afresh() float64 { return 1 / (1/p.lowVar + 1/p.highVar) }

func (m *market) printPooling(b *books) error {
	p, err := m.newPool(b)
	if err != nil {
		return err
	}
	var shares []float64
	for _, held := range []answers{p.low, p.high, p.both} {
		share, err := held.share()
		if err != nil {
			return err
		}
		shares = append(shares, share.Estimate)
	}
	low, high, both := shares[0], shares[1], shares[2]
	fmt.Fprintf(m.out, "\nPOOLING   %s and %s put together all they hold about \"insured\": %d people, %d of them twice.\n",
		cobalt, beacon, p.people, len(p.both))
	fmt.Fprintf(m.out, "Of these %d, %.2f %% are really insured. The standard errors are exact, from the real answers.\n",
		len(p.both), 100*m.realShare(insured, p.both.people()))
	table := m.table()
	fmt.Fprintf(table, "%-37s\testimate\tstandard error\tcosts each person\t\n", "from")
	row := func(what string, share, variance float64, cost privacy.Epsilon) {
		fmt.Fprintf(table, "%-37s\t%.2f %%\t%.3f %%\tε = %s\t\n", what, 100*share, 100*math.Sqrt(variance), cost)
	}
	row(fmt.Sprintf("%s's answers, at ε = %s", cobalt, p.lowAt), low, p.lowVar, p.lowAt)
	row(fmt.Sprintf("%s's answers, at ε = %s", beacon, p.highAt), high, p.highVar, p.highAt)
	row("the pool, each person's highest", both, p.averaged(0), p.highAt)
	row("the pool, the mean of the two", (low+high)/2, p.averaged(0.5), p.highAt)
	fmt.Fprintf(table, "%-37s\t\t%.3f %%\tε = %s\t\n", "both, had each been drawn afresh", 100*math.Sqrt(p.afresh()), nats(p.lowAt.Nano()+p.highAt.Nano()))
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(m.out, "In law %s's answers are %s's with noise added, so that any weight on them only adds noise. The highest\n", cobalt, beacon)
	_, err = fmt.Fprintf(m.out, "answer of each person says all that the pool can say, and %s alone has it: pooling brings nothing.\n", beacon)
	return err
}
