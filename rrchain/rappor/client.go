package rappor

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Report is what a client hands out at one ε.
type Report struct {
	Cohort  int             // of the client, from 0
	Epsilon privacy.Epsilon // the cost of this report and all below it, above 0
	Bits    rrchain.Bits    // a response for each bit of the cohort's filter
}

// Client has one string and everything ever reported about it. It holds the string's filter, so it
// stays with the person whose string it is. It is not safe for concurrent use.
type Client struct {
	params Params
	cohort int
	filter rrchain.Bits
	chain  *rrchain.BitChain
}

// NewClient returns the client of a string in a cohort that [Params.DrawCohort] drew, with the
// reports made so far by rising ε. Whoever keeps the string, the cohort and [Client.Reports] has
// the client again after a restart; one that forgot its reports would draw them anew, and that
// costs anew. How long NewClient takes depends on the string; how long its reports take does not.
//
// NewClient returns [rrchain.ErrInvalid] for parameters or a cohort out of range, and for recorded
// reports that no client with these parameters in this cohort makes, or not by rising ε.
func NewClient(p Params, cohort int, s string, recorded ...Report) (*Client, error) {
	filter, err := p.Filter(cohort, s)
	if err != nil {
		return nil, err
	}
	levels := make([]rrchain.BitLevel, len(recorded))
	for i, report := range recorded {
		if report.Cohort != cohort {
			return nil, fmt.Errorf("%w: a report of cohort %d for a client in cohort %d",
				rrchain.ErrInvalid, report.Cohort, cohort)
		}
		cost, bit, err := p.atMost(report.Epsilon)
		if err != nil {
			return nil, err
		}
		if cost != report.Epsilon {
			return nil, fmt.Errorf("%w: no report costs ε=%v; one at that ε costs %v",
				rrchain.ErrInvalid, report.Epsilon, cost)
		}
		levels[i] = rrchain.BitLevel{Epsilon: bit, Response: report.Bits}
	}
	chain, err := rrchain.NewBitChain(p.Bits, levels...)
	if err != nil {
		return nil, err
	}
	return &Client{p, cohort, filter, chain}, nil
}

// Cohort returns the cohort of the client.
func (c *Client) Cohort() int { return c.cohort }

// Raise draws the report at an ε above that of the last one, by the transition kernel for each bit
// (pan2024 §5.1 and Eq. (54)). From then on the client has spent the report's ε in all: the ε asked
// for, rounded down to a multiple of D nano-nats. It returns [rrchain.ErrInvalid], and leaves the
// client as it was, when that is not above the ε spent before, or ε is too small for the number of
// hashes.
func (c *Client) Raise(s *rrchain.Sampler, to privacy.Epsilon) (Report, error) {
	return c.draw(to, func(bit privacy.Epsilon) (rrchain.BitLevel, error) { return c.chain.Raise(s, bit, c.filter) })
}

// Degrade draws a report at an ε below all others from the lowest one. It costs nothing. It returns
// [rrchain.ErrInvalid] when there is no report, or ε is not below the lowest one, or too small.
func (c *Client) Degrade(s *rrchain.Sampler, to privacy.Epsilon) (Report, error) {
	return c.draw(to, func(bit privacy.Epsilon) (rrchain.BitLevel, error) { return c.chain.Degrade(s, bit) })
}

// Insert draws a report at an ε between two others from these two. It costs nothing. It returns
// [rrchain.ErrInvalid] unless there is a report below, one above, and none at this ε.
func (c *Client) Insert(s *rrchain.Sampler, at privacy.Epsilon) (Report, error) {
	return c.draw(at, func(bit privacy.Epsilon) (rrchain.BitLevel, error) { return c.chain.Insert(s, bit) })
}

func (c *Client) draw(epsilon privacy.Epsilon, by func(bit privacy.Epsilon) (rrchain.BitLevel, error)) (Report, error) {
	cost, bit, err := c.params.atMost(epsilon)
	if err != nil {
		return Report{}, err
	}
	level, err := by(bit)
	if err != nil {
		return Report{}, fmt.Errorf("a report at ε=%v, by bits: %w", epsilon, err)
	}
	return Report{c.cohort, cost, level.Response}, nil
}

// Reports returns all reports by rising ε.
func (c *Client) Reports() []Report {
	levels := c.chain.Levels()
	reports := make([]Report, len(levels))
	for i, level := range levels {
		reports[i] = c.report(level)
	}
	return reports
}

// Spent returns the ε that all reports together cost.
func (c *Client) Spent() privacy.Epsilon { return c.report(c.chain.Current()).Epsilon }

// At returns the report at an ε, if there is one.
func (c *Client) At(epsilon privacy.Epsilon) (Report, bool) {
	_, bit, err := c.params.atMost(epsilon)
	if err != nil {
		return Report{}, false
	}
	level, ok := c.chain.At(bit)
	if !ok {
		return Report{}, false
	}
	return c.report(level), true
}

// report says what a level costs. Every level came from a cost, so that is in range.
func (c *Client) report(level rrchain.BitLevel) Report {
	cost, _ := times(c.params.Distance(), level.Epsilon)
	return Report{c.cohort, cost, level.Response}
}
