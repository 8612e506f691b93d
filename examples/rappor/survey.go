package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/rappor"
)

// survey is one run of clients and a server.
type survey struct {
	out        io.Writer
	people     births
	candidates []string
	params     rappor.Params
	levels     []privacy.Epsilon // rising
}

// run lets every client report at each level, and prints what the server finds.
func (s *survey) run() error {
	decodings, err := s.collect()
	if err != nil {
		return err
	}
	if err := s.printCost(); err != nil {
		return err
	}
	if err := s.printNames(decodings); err != nil {
		return err
	}
	return s.printFound(decodings)
}

// collect returns what the server finds at each level.
func (s *survey) collect() ([]rappor.Decoding, error) {
	clients, err := s.clients()
	if err != nil {
		return nil, err
	}
	var decodings []rappor.Decoding
	for _, level := range s.levels {
		tally, err := raise(s.params, clients, level)
		if err != nil {
			return nil, err
		}
		decoding, err := rappor.Decode(tally, s.candidates, confidence)
		if err != nil {
			return nil, err
		}
		decodings = append(decodings, decoding)
	}
	return decodings, nil
}

func (s *survey) clients() ([]*rappor.Client, error) {
	clients := make([]*rappor.Client, len(s.people))
	for i, name := range s.people {
		cohort, err := s.params.DrawCohort()
		if err != nil {
			return nil, err
		}
		if clients[i], err = rappor.NewClient(s.params, cohort, name); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// raise has all clients report at a level, on all processors, and counts.
func raise(params rappor.Params, clients []*rappor.Client, level privacy.Epsilon) (*rappor.Tally, error) {
	all, err := rappor.NewTally(params, level)
	if err != nil {
		return nil, err
	}
	size := (len(clients) + runtime.NumCPU() - 1) / runtime.NumCPU()
	parts := slices.Collect(slices.Chunk(clients, size))
	tallies, errs := make([]*rappor.Tally, len(parts)), make([]error, len(parts))
	var group sync.WaitGroup
	for i, part := range parts {
		group.Go(func() { tallies[i], errs[i] = raisePart(params, part, level) })
	}
	group.Wait()
	for i, tally := range tallies {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if err := all.Merge(tally); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func raisePart(params rappor.Params, clients []*rappor.Client, level privacy.Epsilon) (*rappor.Tally, error) {
	tally, err := rappor.NewTally(params, level)
	if err != nil {
		return nil, err
	}
	sampler := rrchain.NewSampler()
	for _, client := range clients {
		report, err := client.Raise(sampler, level)
		if err != nil {
			return nil, err
		}
		if err := tally.Add(report); err != nil {
			return nil, err
		}
	}
	return tally, nil
}

func (s *survey) printCost() error {
	fmt.Fprintf(s.out, "\nREPORTS   A name sets %d of %d bits, by a public hash for each of %d groups of clients. A client reports\n"+
		"all bits, each with noise, and a raise draws the next report from the last one and the name.\n",
		s.params.Hashes, s.params.Bits, s.params.Cohorts)
	table := newTable(s.out)
	fmt.Fprintln(table, left("report at")+"\teach bit at\tall reports so far cost\treporting anew would\t")
	anew := privacy.Epsilon{}
	for _, level := range s.levels {
		bit, err := s.params.BitEpsilon(level)
		if err != nil {
			return err
		}
		if anew, err = anew.Add(level); err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", left("ε = "+level.String()), bit, level, anew)
	}
	return table.Flush()
}

// printNames prints the names that the last report makes the commonest.
func (s *survey) printNames(decodings []rappor.Decoding) error {
	fmt.Fprintf(s.out, "\nNAMES   The commonest of %d candidates, as the server estimates them, with 95 %% intervals. * marks what\n"+
		"is found: at each ε, the chance that any candidate has a false mark is at most 5 %%.\n", len(s.candidates))
	table := newTable(s.out)
	fmt.Fprint(table, left("name")+"\treal share\t")
	for _, level := range s.levels {
		fmt.Fprintf(table, "at ε = %s  \t", level)
	}
	fmt.Fprintln(table)
	real := s.people.shares()
	for _, top := range decodings[len(decodings)-1].Shares[:shown] {
		fmt.Fprintf(table, "%s\t%s\t", left(top.String), percent(real[top.String]))
		for _, d := range decodings {
			i := slices.IndexFunc(d.Shares, func(share rappor.Share) bool { return share.String == top.String })
			mark := " "
			if d.Shares[i].Significant {
				mark = "*"
			}
			fmt.Fprintf(table, "%s %s\t", interval(d.Shares[i].Frequency), mark)
		}
		fmt.Fprintln(table)
	}
	others := 1.0
	for _, name := range s.candidates {
		others -= real[name]
	}
	fmt.Fprintf(table, "%s\t%s\t", left("not listed"), percent(others))
	for _, d := range decodings {
		fmt.Fprintf(table, "%s  \t", interval(d.Others))
	}
	fmt.Fprintln(table)
	return table.Flush()
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

func interval(f estimate.Frequency) string {
	return fmt.Sprintf("%.2f ± %.2f %%", 100*f.Estimate, 100*(f.High-f.Estimate))
}

func (s *survey) printFound(decodings []rappor.Decoding) error {
	fmt.Fprintf(s.out, "\nFOUND   Names with a mark; %d candidates are made up, to see whether any of them gets one. The error of\n"+
		"all %d estimates is their root mean square distance from the truth, beside what the server states without it.\n",
		len(invented()), len(s.candidates))
	table := newTable(s.out)
	fmt.Fprintln(table, left("report at")+
		"\tnames found\tmade up\tall above are found\tintervals that hold the truth\terror\tstated\t")
	for i, d := range decodings {
		f := s.judge(d)
		above := "–"
		if f.missed < f.commonest {
			above = percent(f.missed)
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%.1f %%\t%.3f %%\t%.3f %%\t\n",
			left("ε = "+s.levels[i].String()), f.found, f.madeUp, above, 100*f.covered, 100*f.rms, 100*f.stated)
	}
	return table.Flush()
}

// judgement compares a decoding with the truth.
type judgement struct {
	found, madeUp int
	commonest     float64 // the largest real share of a name
	missed        float64 // and of one that was not found
	covered       float64 // the share of intervals that hold the real share
	rms, stated   float64 // root mean square of the errors, and of the standard errors
}

func (s *survey) judge(d rappor.Decoding) judgement {
	real, fake := s.people.shares(), invented()
	var j judgement
	n := float64(len(d.Shares))
	for _, share := range d.Shares {
		truth := real[share.String]
		j.commonest = max(j.commonest, truth)
		switch {
		case !share.Significant:
			j.missed = max(j.missed, truth)
		case slices.Contains(fake, share.String):
			j.madeUp++
		default:
			j.found++
		}
		if share.Low <= truth && truth <= share.High {
			j.covered += 1 / n
		}
		j.rms += (share.Estimate - truth) * (share.Estimate - truth) / n
		j.stated += share.StdErr * share.StdErr / n
	}
	j.rms, j.stated = math.Sqrt(j.rms), math.Sqrt(j.stated)
	return j
}

// printAnotherSurvey says how a survey with other parameters would have ended.
func printAnotherSurvey(s *survey) error {
	s.levels = s.levels[len(s.levels)-1:]
	decodings, err := s.collect()
	if err != nil {
		return err
	}
	j := s.judge(decodings[0])
	_, err = fmt.Fprintf(s.out, "If a name set %d bits, each would get half the ε: such a survey of the same births finds %d at ε = %s\n"+
		"(error %.3f %%).\n",
		s.params.Hashes, j.found, s.levels[0], 100*j.rms)
	return err
}
