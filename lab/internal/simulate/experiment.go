package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// MinRuns and MaxRuns are the smallest and the largest number of runs of an experiment. A variance
// needs two.
const (
	MinRuns = 2
	MaxRuns = 10_000
)

// ErrRuns is returned for a number of runs that is not possible.
var ErrRuns = errors.New("impossible number of runs")

// Experiment is a population of objects, with the levels to which they are raised.
type Experiment struct {
	Name    string            // such as "binary"
	Values  []string          // the names of the values
	Holders []int             // number of objects with each value
	Shown   []int             // the values whose estimated shares are compared
	Levels  []privacy.Epsilon // in ascending order; every object is raised to each of them
	// Sampling is compared with the chains at the same levels, or nil. It needs 2 values.
	Sampling *Sampling
}

// Sampling is RAPPOR's repeated noisy sampling of a bit (pan2024 §5.1): permanent noise is added to
// the bit once, and new noise to the result for each sampling.
type Sampling struct {
	Alpha privacy.Epsilon // of the permanent noise
	Beta  privacy.Epsilon // of each sampling
}

// Binary returns the experiment of pan2024 §6.1: 600 ones and 400 zeros, raised in ten rounds to
// the ε of ten noisy samplings at ε=0.5 of a permanent response at ε=1, Eq. (65), rounded down to a
// nano-nat.
func Binary() (Experiment, error) {
	sampling, err := newSampling(1_000_000_000, 500_000_000)
	if err != nil {
		return Experiment{}, err
	}
	levels, err := sampling.levels(10)
	return Experiment{
		Name: "binary", Values: []string{"0", "1"}, Holders: []int{400, 600}, Shown: []int{1},
		Levels: levels, Sampling: sampling,
	}, err
}

// Polychotomous returns the experiment of pan2024 §6.2: 100 ones, 200 twos, 300 threes, 400 fours
// and 500 fives, raised from ε=0.1 to ε=1 in steps of 0.1.
func Polychotomous() (Experiment, error) {
	x := Experiment{
		Name: "polychotomous", Values: []string{"1", "2", "3", "4", "5"},
		Holders: []int{100, 200, 300, 400, 500}, Shown: []int{0, 1, 2, 3, 4},
	}
	for step := range int64(10) {
		level, err := privacy.EpsilonFromNano(100_000_000 * (step + 1))
		if err != nil {
			return x, err
		}
		x.Levels = append(x.Levels, level)
	}
	return x, nil
}

// newSampling returns a sampling with both ε in nano-nats.
func newSampling(alpha, beta int64) (*Sampling, error) {
	a, err := privacy.EpsilonFromNano(alpha)
	if err != nil {
		return nil, err
	}
	b, err := privacy.EpsilonFromNano(beta)
	return &Sampling{a, b}, err
}

// levels returns the ε of 1, 2, … rounds, as [policy.NoisySampling] releases them.
func (s *Sampling) levels(rounds int) ([]privacy.Epsilon, error) {
	start, period := time.Unix(0, 0), time.Second
	p, err := policy.NoisySampling(s.Alpha, s.Beta, start, period, rounds)
	if err != nil {
		return nil, err
	}
	var levels []privacy.Epsilon
	for _, release := range p.Releases(start.Add(time.Duration(rounds)*period), 0) {
		levels = append(levels, release.Ceiling)
	}
	return levels, nil
}

// Objects returns the number of objects.
func (x Experiment) Objects() int {
	n := 0
	for _, holders := range x.Holders {
		n += holders
	}
	return n
}

// Guessed returns the number of objects of each value that are guessed. Theorem 6.1 is about
// equally likely values, so it is the number of objects with the rarest value.
func (x Experiment) Guessed() int { return slices.Min(x.Holders) }

// Last returns the highest level.
func (x Experiment) Last() privacy.Epsilon { return x.Levels[len(x.Levels)-1] }

// FigureIDs returns the numbers of the experiment's figures in pan2024, such as "2a".
func (x Experiment) FigureIDs() []string {
	if x.Sampling != nil {
		return []string{"1a", "1b", "1c", "2a", "2b", "2c"}
	}
	return []string{"3a", "3b", "3c", "3d", "3e", "3f"}
}

// Progress is called from time to time with the number of runs that are done, and of all runs.
type Progress = func(done, total int)

// Result has the measurements of an experiment. The last index of each slice is the run.
type Result struct {
	Experiment Experiment
	Runs       int           // number of runs
	Shares     [][][]float64 // by level and value: the estimated share
	Sampled    [][]float64   // by round: the share of the second value, estimated from noisy samplings
	Errors     [][]float64   // by attack: the share of wrong guesses; see [Attacks]
}

// Run runs the experiment a number of times, from [MinRuns] to [MaxRuns]. It returns [ErrRuns] for
// other numbers. progress may be nil.
func (x Experiment) Run(ctx context.Context, runs int, progress Progress) (*Result, error) {
	return x.run(ctx, runs, progress, raise)
}

// respond draws the responses of one object at all levels. Tests replace it with wrong ones.
type respond func(s *rrchain.Sampler, x *Experiment, truth int, responses []int) error

// raise is the respond function of the experiment, which raises a chain.
func raise(s *rrchain.Sampler, x *Experiment, truth int, responses []int) error {
	chain, err := rrchain.NewChain[int](len(x.Values))
	if err != nil {
		return err
	}
	for i, level := range x.Levels {
		got, err := chain.Raise(s, level, truth)
		if err != nil {
			return err
		}
		responses[i] = got.Response
	}
	return nil
}

func (x Experiment) run(ctx context.Context, runs int, progress Progress, draw respond) (*Result, error) {
	if runs < MinRuns || runs > MaxRuns {
		return nil, fmt.Errorf("%w: %d; %d to %d are possible", ErrRuns, runs, MinRuns, MaxRuns)
	}
	attacks, err := x.attacks()
	if err != nil {
		return nil, err
	}
	r := newResult(x, runs, len(attacks))
	s := new(rrchain.Sampler)
	for run := range runs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.relax(s, run, draw, attacks); err != nil {
			return nil, err
		}
		if err := r.sample(s, run); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(run+1, runs)
		}
	}
	return r, nil
}

func newResult(x Experiment, runs, attacks int) *Result {
	r := &Result{Experiment: x, Runs: runs, Errors: table(attacks, runs)}
	for range x.Levels {
		r.Shares = append(r.Shares, table(len(x.Values), runs))
	}
	if x.Sampling != nil {
		r.Sampled = table(len(x.Levels), runs)
	}
	return r
}

func table(rows, columns int) [][]float64 {
	t := make([][]float64, rows)
	for i := range t {
		t[i] = make([]float64, columns)
	}
	return t
}

// relax raises all objects, estimates the shares at each level, and runs the attacks.
func (r *Result) relax(s *rrchain.Sampler, run int, draw respond, attacks []attack) error {
	x := &r.Experiment
	m := len(x.Values)
	counts := make([][]int64, len(x.Levels))
	for i := range counts {
		counts[i] = make([]int64, m)
	}
	responses, scores := make([]int, len(x.Levels)), make([]float64, m)
	misses := make([]float64, len(attacks))
	for truth, holders := range x.Holders {
		for object := range holders {
			if err := draw(s, x, truth, responses); err != nil {
				return err
			}
			for i, response := range responses {
				counts[i][response]++
			}
			if object >= x.Guessed() {
				continue
			}
			for i, a := range attacks {
				misses[i] += a.miss(responses, scores, truth)
			}
		}
	}
	for i := range attacks {
		r.Errors[i][run] = misses[i] / float64(m*x.Guessed())
	}
	return r.estimate(run, counts)
}

func (r *Result) estimate(run int, counts [][]int64) error {
	for i, level := range r.Experiment.Levels {
		unused := estimate.Options{Confidence: 0.95} // only the estimates are used, not their intervals
		shares, err := estimate.Frequencies(unused, estimate.Counts{Epsilon: level, ByValue: counts[i]})
		if err != nil {
			return err
		}
		for v, share := range shares {
			r.Shares[i][v][run] = share.Estimate
		}
	}
	return nil
}
