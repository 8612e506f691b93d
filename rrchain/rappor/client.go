package rappor

import (
	"fmt"
	"slices"

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
	params  Params
	cohort  int
	filter  rrchain.Bits
	reports []Report // by rising ε
}

// NewClient returns the client of a string in a cohort that [Params.DrawCohort] drew, with the
// reports made so far by rising ε. A program that keeps the string, the cohort and [Client.Reports]
// has the client again after a restart; one that lost its reports would draw them again, at their
// full cost. How long NewClient takes depends on the string; how long its reports take does not.
//
// NewClient returns [privacy.ErrInvalid] for parameters or a cohort out of range, and for recorded
// reports that no client with these parameters in this cohort makes, or not by rising ε.
func (p Params) NewClient(cohort int, s string, recorded ...Report) (*Client, error) {
	filter, err := p.Filter(cohort, s)
	if err != nil {
		return nil, err
	}
	last := privacy.Epsilon{}
	for _, report := range recorded {
		if report.Cohort != cohort || report.Bits.Len() != p.Bits {
			return nil, fmt.Errorf("%w: a report of %d bits in cohort %d for a client with %d bits in cohort %d",
				privacy.ErrInvalid, report.Bits.Len(), report.Cohort, p.Bits, cohort)
		}
		cost, _, err := p.atMost(report.Epsilon)
		if err != nil {
			return nil, err
		}
		if cost != report.Epsilon || !last.Less(cost) {
			return nil, fmt.Errorf("%w: a report at ε=%v after one at ε=%v; one at that ε costs %v",
				privacy.ErrInvalid, report.Epsilon, last, cost)
		}
		last = cost
	}
	return &Client{p, cohort, filter, slices.Clone(recorded)}, nil
}

// Raise draws the report at an ε above that of the last one, by the transition kernel for each bit
// ([rrchain.Sampler.RaiseBits]). From then on the client has spent the report's ε in all: the ε
// asked for, rounded down to a multiple of D nano-nats. It returns [privacy.ErrInvalid], and leaves
// the client as it was, when that is not above the ε spent before, or ε is too small for the number
// of hashes.
func (c *Client) Raise(s *rrchain.Sampler, to privacy.Epsilon) (Report, error) {
	return c.draw(to, func(i int, bit privacy.Epsilon) (rrchain.Bits, error) {
		return s.RaiseBits(c.params.Bits, c.level(len(c.reports)-1), bit, c.filter)
	})
}

// Insert draws a report at an ε below that of the last one, from the reports just below and just
// above it. It costs nothing. It returns [privacy.ErrInvalid], and leaves the client as it was,
// unless there is a report above it, and none at this ε, or if ε is too small.
func (c *Client) Insert(s *rrchain.Sampler, at privacy.Epsilon) (Report, error) {
	cost, _, err := c.params.atMost(at)
	if err != nil {
		return Report{}, err
	}
	switch i, found := c.find(cost); {
	case found:
		return Report{}, fmt.Errorf("%w: an insertion at ε=%v: there is a report at ε=%v already",
			privacy.ErrInvalid, at, cost)
	case i == len(c.reports):
		return Report{}, fmt.Errorf("%w: an insertion at ε=%v needs a report above ε=%v; the last one is at ε=%v",
			privacy.ErrInvalid, at, cost, c.Spent())
	}
	return c.draw(at, func(i int, bit privacy.Epsilon) (rrchain.Bits, error) {
		return s.BetweenBits(c.params.Bits, c.level(i-1), bit, c.level(i))
	})
}

// level returns report i as a level of the chain of each of its bits; without one, the zero level.
func (c *Client) level(i int) (l rrchain.Level[rrchain.Bits]) {
	if i >= 0 && i < len(c.reports) {
		_, l.Epsilon, _ = c.params.atMost(c.reports[i].Epsilon) // which is in range
		l.Response = c.reports[i].Bits
	}
	return l
}

// draw records a report that is drawn for place i among the others.
func (c *Client) draw(
	epsilon privacy.Epsilon, by func(i int, bit privacy.Epsilon) (rrchain.Bits, error),
) (Report, error) {
	cost, bit, err := c.params.atMost(epsilon)
	if err != nil {
		return Report{}, err
	}
	i, _ := c.find(cost)
	bits, err := by(i, bit)
	if err != nil {
		return Report{}, fmt.Errorf("a report at ε=%v, by bits: %w", epsilon, err)
	}
	report := Report{c.cohort, cost, bits}
	c.reports = slices.Insert(c.reports, i, report)
	return report, nil
}

func (c *Client) find(cost privacy.Epsilon) (int, bool) {
	return slices.BinarySearchFunc(c.reports, cost,
		func(r Report, e privacy.Epsilon) int { return r.Epsilon.Compare(e) })
}

// Reports returns all reports by rising ε.
func (c *Client) Reports() []Report { return slices.Clone(c.reports) }

// Spent returns the ε that all reports together cost: that of the last one.
func (c *Client) Spent() (cost privacy.Epsilon) {
	if len(c.reports) > 0 {
		cost = c.reports[len(c.reports)-1].Epsilon
	}
	return cost
}
