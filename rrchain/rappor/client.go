package rappor

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Report is the report of a client at one ε.
type Report struct {
	Cohort  int             // the client's cohort, from 0
	Epsilon privacy.Epsilon // the cost of this report and all below it, above 0
	Bits    rrchain.Bits    // a response for each bit of the cohort's filter
}

// Client holds one string and all reports about it. It contains the string's filter, so it must
// stay with the person whose string it is. It is not safe for concurrent use.
type Client struct {
	params  Params
	cohort  int
	filter  rrchain.Bits
	reports []Report // by rising ε
}

// NewClient returns the client of a string in a cohort that [Params.DrawCohort] drew, with the
// reports made so far, by rising ε. A program that stores the string, the cohort and
// [Client.Reports] can create the same client after a restart. A program that lost the reports
// would draw them again, at their full cost. The running time of NewClient depends on the string;
// that of the reports does not.
//
// NewClient returns [privacy.ErrInvalid] for parameters or a cohort out of range. It also does so
// for recorded reports that a client with these parameters in this cohort cannot make, or that are
// not by rising ε.
func (p Params) NewClient(cohort int, s string, recorded ...Report) (*Client, error) {
	filter, err := p.Filter(cohort, s)
	if err != nil {
		return nil, err
	}
	last := privacy.Epsilon{}
	for _, report := range recorded {
		if report.Cohort != cohort || report.Bits.Len() != p.Bits {
			return nil, fmt.Errorf("%w: a recorded report has %d bits in cohort %d, the client %d bits in cohort %d",
				privacy.ErrInvalid, report.Bits.Len(), report.Cohort, p.Bits, cohort)
		}
		cost, _, err := p.atMost(report.Epsilon)
		if err != nil {
			return nil, err
		}
		// The ε of a report is its cost, which is already rounded.
		if cost != report.Epsilon || !last.Less(cost) {
			return nil, fmt.Errorf("%w: a recorded report at ε=%v after one at ε=%v; ε must rise, and be the cost, %v",
				privacy.ErrInvalid, report.Epsilon, last, cost)
		}
		last = cost
	}
	return &Client{p, cohort, filter, slices.Clone(recorded)}, nil
}

// Raise draws the report at an ε above the ε of the last report, by the transition kernel for each
// bit ([rrchain.Sampler.RaiseBits]). The report's ε is the requested ε, rounded down to a multiple
// of D nano-nats. After that, the client has spent this ε in total. Raise returns
// [privacy.ErrInvalid], and leaves the client unchanged, if the report's ε is not above the ε spent
// before, or if ε is too small for the number of hashes.
func (c *Client) Raise(s *rrchain.Sampler, to privacy.Epsilon) (Report, error) {
	return c.draw(to, func(i int, bit privacy.Epsilon) (rrchain.Bits, error) {
		return s.RaiseBits(c.params.Bits, c.level(len(c.reports)-1), bit, c.filter)
	})
}

// Insert draws a report at an ε below the ε of the last report, from the reports just below and
// just above it. It costs nothing. It returns [privacy.ErrInvalid], and leaves the client
// unchanged, if there is no report above this ε, if there is one at this ε, or if ε is too small.
func (c *Client) Insert(s *rrchain.Sampler, at privacy.Epsilon) (Report, error) {
	cost, _, err := c.params.atMost(at)
	if err != nil {
		return Report{}, err
	}
	switch i, found := c.find(cost); {
	case found:
		return Report{}, fmt.Errorf("%w: inserting at ε=%v: there is already a report at ε=%v",
			privacy.ErrInvalid, at, cost)
	case i == len(c.reports):
		return Report{}, fmt.Errorf("%w: inserting at ε=%v needs a report above ε=%v; the last one is at ε=%v",
			privacy.ErrInvalid, at, cost, c.Spent())
	}
	return c.draw(at, func(i int, bit privacy.Epsilon) (rrchain.Bits, error) {
		return s.BetweenBits(c.params.Bits, c.level(i-1), bit, c.level(i))
	})
}

// level returns report i as a level of the chain of each of its bits. If there is no report i, it
// returns the zero level.
func (c *Client) level(i int) (l rrchain.Level[rrchain.Bits]) {
	if i >= 0 && i < len(c.reports) {
		_, l.Epsilon, _ = c.params.atMost(c.reports[i].Epsilon) // no error: the ε of a report is in range
		l.Response = c.reports[i].Bits
	}
	return l
}

// draw draws a report at an ε, rounded down to the cost of a report, and inserts it at its place
// among the others. `by` draws its bits, given the index i of the new report and the ε of each bit.
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
		return Report{}, fmt.Errorf("drawing a report at ε=%v: %w", epsilon, err)
	}
	report := Report{c.cohort, cost, bits}
	c.reports = slices.Insert(c.reports, i, report)
	return report, nil
}

// find returns the index of the report with this cost and true. If there is none, it returns the
// index at which it would be inserted, and false.
func (c *Client) find(cost privacy.Epsilon) (int, bool) {
	return slices.BinarySearchFunc(c.reports, cost,
		func(r Report, e privacy.Epsilon) int { return r.Epsilon.Compare(e) })
}

// Reports returns all reports, by rising ε.
func (c *Client) Reports() []Report { return slices.Clone(c.reports) }

// Spent returns the ε that all reports together cost, which is the ε of the last one.
func (c *Client) Spent() (cost privacy.Epsilon) {
	if len(c.reports) > 0 {
		cost = c.reports[len(c.reports)-1].Epsilon
	}
	return cost
}
