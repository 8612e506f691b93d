package main

import (
	"fmt"
	"io"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/rappor"
)

// contest is between the original noise of RAPPOR and a chain that is raised as fast.
type contest struct {
	params rappor.Params
	people births
	noise  rappor.Noise
	// What the same clients report with either, and what is true, by cohort and bit.
	noisy   []*rappor.NoisyClient
	chains  []*rappor.Client
	cohorts []int
	clients []int64   // by cohort
	truth   [][]int64 // how many clients have the bit set
	ones    [][]int64 // how often it was set in all noisy reports so far
}

// compareNoise reports with either noise, and prints how far the counts of all bits are from the truth.
func compareNoise(out io.Writer, p rappor.Params, people births) error {
	c, err := newContest(p, people)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nAGAINST THE ORIGINAL   RAPPOR as published keeps a permanent noisy filter (f = %v) and blurs it anew for\n"+
		"each report (p = %v, q = %v). Against it, a chain that is raised to the same ε in all. The variance of a bit's\n"+
		"frequency, times the number of clients, is measured on %d bits of %d clients (theory: Pan 2024, Eq. (68), (67)).\n",
		c.noise.F, c.noise.P, c.noise.Q, p.Cohorts*p.Bits, len(people))
	table := newTable(out)
	fmt.Fprintln(table, left("reports")+"\tε in all\toriginal\ttheory\tchain\ttheory\tthe original needs\t")
	reports, sampler, noisySampler := 0, rrchain.NewSampler(), rappor.NewNoiseSampler()
	for _, upTo := range []int{1, 2, 4, 8, 16} {
		for ; reports < upTo; reports++ {
			if err := c.reportNoisily(noisySampler); err != nil {
				return err
			}
		}
		if err := c.printRow(table, reports, sampler); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "\nNo noise is free: at ε = 1 or 2, next to no name is common enough to be seen among so many births, and the\n"+
		"intervals say so. More people would make names visible; of the same people, only more ε does.")
	return err
}

func newContest(p rappor.Params, people births) (*contest, error) {
	c := &contest{
		params: p, people: people, noise: rappor.Noise{F: 0.5, P: 0.75, Q: 0.25},
		clients: make([]int64, p.Cohorts), truth: newCounts(p), ones: newCounts(p),
	}
	sampler := rappor.NewNoiseSampler()
	for _, name := range people {
		cohort, err := p.DrawCohort()
		if err != nil {
			return nil, err
		}
		filter, err := p.Filter(cohort, name)
		if err != nil {
			return nil, err
		}
		noisy, err := rappor.NewNoisyClient(sampler, p, c.noise, cohort, name)
		if err != nil {
			return nil, err
		}
		chain, err := rappor.NewClient(p, cohort, name)
		if err != nil {
			return nil, err
		}
		c.noisy, c.chains, c.cohorts = append(c.noisy, noisy), append(c.chains, chain), append(c.cohorts, cohort)
		c.clients[cohort]++
		count(c.truth[cohort], filter)
	}
	return c, nil
}

func newCounts(p rappor.Params) [][]int64 {
	counts := make([][]int64, p.Cohorts)
	for i := range counts {
		counts[i] = make([]int64, p.Bits)
	}
	return counts
}

func count(counts []int64, bits rrchain.Bits) {
	for i := range bits.Ones() {
		counts[i]++
	}
}

// reportNoisily adds one more report of each client.
func (c *contest) reportNoisily(s *rappor.NoiseSampler) error {
	for i, client := range c.noisy {
		report, err := client.Report(s)
		if err != nil {
			return err
		}
		count(c.ones[c.cohorts[i]], report)
	}
	return nil
}

// printRow raises the chains to what the noisy reports cost, and compares.
func (c *contest) printRow(out io.Writer, reports int, s *rrchain.Sampler) error {
	loss, err := c.noise.Loss(c.params, reports)
	if err != nil {
		return err
	}
	level, err := privacy.EpsilonFromNano(int64(loss * 1e9)) // rounded down: the chain gets no more
	if err != nil {
		return err
	}
	tally, err := raise(c.params, c.chains, level)
	if err != nil {
		return err
	}
	noisy, err := c.measure(func(cohort, bit int) (float64, error) {
		return c.noise.Estimate(c.ones[cohort][bit], c.clients[cohort], reports)
	})
	if err != nil {
		return err
	}
	chain, chainTheory, err := c.measureChain(tally)
	if err != nil {
		return err
	}
	noisyTheory, err := c.noise.Variance(reports, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\t%.3f\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f × the clients\t\n",
		left(fmt.Sprint(reports)), loss, noisy, noisyTheory, chain, chainTheory, noisyTheory/chainTheory)
	return err
}

// measure returns the mean squared error of the count of a bit, for one client.
func (c *contest) measure(estimate func(cohort, bit int) (float64, error)) (float64, error) {
	sum, bits := 0.0, 0.0
	for cohort, clients := range c.clients {
		if clients == 0 {
			continue
		}
		for bit, truth := range c.truth[cohort] {
			estimated, err := estimate(cohort, bit)
			if err != nil {
				return 0, err
			}
			away := estimated - float64(truth)
			sum, bits = sum+away*away/float64(clients), bits+1
		}
	}
	return sum / bits, nil
}

// measureChain returns the mean squared error of the chains, and what it should be.
func (c *contest) measureChain(tally *rappor.Tally) (measured, theory float64, err error) {
	counts := make([][]rappor.BitCount, c.params.Cohorts)
	for cohort := range counts {
		var clients int64
		if clients, counts[cohort], err = tally.Cohort(cohort); err != nil {
			return 0, 0, err
		}
		if clients > 0 {
			theory = counts[cohort][0].Noise / float64(clients)
		}
	}
	measured, err = c.measure(func(cohort, bit int) (float64, error) { return counts[cohort][bit].Estimate, nil })
	return measured, theory, err
}
