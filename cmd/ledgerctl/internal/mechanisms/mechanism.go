// Package mechanisms holds the commands that compute mechanisms and need no ledger.
package mechanisms

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

// Host is what the commands have from the program.
type Host struct {
	*output.Printer
	*input.Files
}

// Commands returns the commands.
func (h *Host) Commands() []*cobra.Command {
	return []*cobra.Command{input.Group("mechanism", "say which mechanism to compute: solve or family",
		input.Command("solve", h.solve),
		input.Group("mechanism family", "say which mechanism to make: subset or hadamard",
			input.Command("subset", h.subset),
			input.Command("hadamard", h.hadamard)))}
}

// bounds are the flags that bound how much neighbours may differ.
type bounds struct {
	Epsilon privacy.Epsilon `flag:"epsilon,required"`
	Delta   privacy.Delta   `flag:"delta"`
}

func (b *bounds) privacy() graph.Privacy {
	return graph.Privacy{Epsilon: b.Epsilon.Float64(), Delta: b.Delta.Float64()}
}

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

// explain adds to an error about a law what it sums to.
func (l law) explain(err error) error {
	sum := 0.0
	for _, x := range l {
		sum += x
	}
	if errors.Is(err, graph.ErrInvalid) && math.Abs(sum-1) > graph.Tolerance {
		const missing = "they sum to %.15g; no more than %g may be missing, so give 13 decimals of what has more"
		hint := fmt.Sprintf(missing, sum, graph.Tolerance)
		return &output.Error{Kind: "invalid", Code: output.ExitMisuse, Hint: hint, Err: err}
	}
	return err
}

func numbers(values []float64) []output.Number {
	out := make([]output.Number, len(values))
	for i, value := range values {
		out[i] = output.Number(value)
	}
	return out
}

// cells returns probabilities as cells of a table, each after a tab.
func cells(probabilities []output.Number) string {
	var text strings.Builder
	for _, p := range probabilities {
		fmt.Fprintf(&text, "\t%.9g", p)
	}
	return text.String()
}
