package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

// bounds are the flags --epsilon and --delta.
type bounds struct {
	epsilon privacy.Epsilon
	delta   privacy.Delta
}

func (b *bounds) flags(flags *pflag.FlagSet) {
	flags.TextVar(&b.epsilon, "epsilon", privacy.Epsilon{}, "the ε, `E`, between neighbours")
	flags.TextVar(&b.delta, "delta", privacy.Delta{}, "the δ, `D`, between neighbours, below 1")
}

func (b *bounds) privacy() graph.Privacy {
	return graph.Privacy{Epsilon: b.epsilon.Float64(), Delta: b.delta.Float64()}
}

// probability is a flag for a number from 0 to 1.
type probability float64

// Set implements [pflag.Value].
func (p *probability) Set(text string) error {
	value, err := parseProbability(text)
	*p = probability(value)
	return err
}

func (p *probability) String() string { return "" } // the flags have no defaults
func (p *probability) Type() string   { return "probability" }

func parseProbability(text string) (float64, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "0123456789.eE+-") != "" || !(value >= 0 && value <= 1) || math.Signbit(value) {
		return 0, fmt.Errorf("%q is not a decimal number from 0 to 1", text)
	}
	return value, nil
}

// law is a flag for a list of probabilities.
type law []float64

// Set implements [pflag.Value].
func (l *law) Set(text string) error {
	*l = law{}
	for item := range strings.SplitSeq(text, ",") {
		value, err := parseProbability(item)
		if err != nil {
			return err
		}
		*l = append(*l, value)
	}
	return nil
}

func (l *law) String() string { return "" } // the flags have no defaults
func (l *law) Type() string   { return "law" }

// maxSteps is the largest --n. maxNumbers is the largest number of probabilities that a command
// prints.
const (
	maxSteps   = 1_000_000
	maxNumbers = 5_000_000
)

// eachStep calls do for the distances 0 … n.
func eachStep(ctx context.Context, n int, do func(distance int) error) error {
	if n < 0 || n > maxSteps {
		return usageError("", "--n is %d; 0 to %d steps are possible", n, maxSteps)
	}
	for distance := range n + 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(distance); err != nil {
			return err
		}
	}
	return nil
}
