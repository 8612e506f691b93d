package mechanisms

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/mechanism/graph"
)

// solveFlags are the flags of mechanism solve.
type solveFlags struct {
	Nodes string `flag:"nodes,required,reads"`
	Edges string `flag:"edges,required,reads"`
	ID    string `flag:"id-column" default:"id"`
	Color string `flag:"color-column,required"`
	bounds
	Balanced     bool     `flag:"balanced"`
	Boundary     []string `flag:"boundary"`
	BoundaryFile string   `flag:"boundary-file,reads"`
	Order        []string `flag:"order"`
	Law          law      `flag:"boundary-law"`
}

func (h *Host) solve(cmd *cobra.Command, _ []string, f *solveFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	var infeasible *conflict
	out, err := interruptible(cmd.Context(), func() (out solveResult, err error) {
		g, err := h.readGraph(cmd.Context(), f)
		if err != nil {
			return out, err
		}
		table, err := h.mechanism(cmd.Context(), f, g)
		if infeasible = f.conflict(g, err); err != nil && infeasible == nil {
			return out, err
		}
		return newSolveResult(f, g, table, infeasible)
	})
	if err == nil {
		err = h.Print(out)
	}
	if err == nil && infeasible != nil {
		err = &output.Error{Kind: "infeasible", Code: output.ExitRefused,
			Hint: "a larger ε or δ, or other probabilities", Err: infeasible}
	}
	return err
}

// interruptible returns what a computation returns, or the error of ctx as soon as that has ended.
// The computation takes no context: it goes on then, while the program ends.
func interruptible[T any](ctx context.Context, compute func() (T, error)) (T, error) {
	type result struct {
		it  T
		err error
	}
	done := make(chan result, 1)
	go func() {
		it, err := compute()
		done <- result{it, err}
	}()
	select {
	case r := <-done:
		return r.it, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// check tests that the flags go together.
func (f *solveFlags) check(cmd *cobra.Command) error {
	var modes, inputs []string
	for _, name := range []string{"balanced", "boundary", "boundary-file", "order"} {
		if cmd.Flags().Changed(name) && (name != "balanced" || f.Balanced) {
			modes = append(modes, "--"+name)
		}
	}
	for _, path := range []string{f.Nodes, f.Edges, f.BoundaryFile} {
		if path == "-" {
			inputs = append(inputs, path)
		}
	}
	switch {
	case len(modes) == 0:
		return output.UsageError("give --balanced, --boundary, --boundary-file or --order",
			"nothing is said about the boundary")
	case len(modes) > 1:
		return output.UsageError("give one of them", "%s exclude each other", strings.Join(modes, " and "))
	case f.Law != nil && f.Order == nil:
		return output.UsageError("", "--boundary-law is for --order")
	case f.Law != nil && len(f.Law) != len(f.Order):
		return output.UsageError("", "--boundary-law has %d probabilities, and --order %d colours", len(f.Law),
			len(f.Order))
	case len(inputs) > 1:
		return output.UsageError("", "no more than one file can be standard input")
	}
	return nil
}

func (h *Host) readGraph(ctx context.Context, f *solveFlags) (g *graph.CSVGraph, err error) {
	err = h.Stream(ctx, f.Nodes, func(nodes io.Reader) error {
		return h.Stream(ctx, f.Edges, func(edges io.Reader) error {
			g, err = graph.ReadCSV(nodes, edges, graph.CSVOptions{IDColumn: f.ID, ColorColumn: f.Color,
				Colors: f.Order})
			return f.inFile(err)
		})
	})
	return g, err
}

// inFile says in an error about a file which one it is.
func (f *solveFlags) inFile(err error) error {
	var fields *graph.InputError
	switch {
	case err == nil, errors.Is(err, graph.ErrInvalid) && !errors.As(err, &fields):
		return err
	case !errors.As(err, &fields):
		return output.InputError("", "%w", err) // it cannot be read
	}
	named, hint := *fields, ""
	switch fields.File {
	case "nodes":
		named.File = f.Nodes
		if fields.Line == 1 {
			hint = "--id-column and --color-column must name columns of the first row, in the same spelling"
		}
	case "edges":
		named.File = f.Edges
		if fields.Line == 1 {
			hint = `the first row must name the columns "source" and "target", which hold the ids of the two ends`
		}
	default:
		named.File = f.BoundaryFile
		if fields.Line == 1 {
			hint = `the first row must name the columns "id", "color" and "probability"`
		}
	}
	return output.InputError(hint, "%w", &named)
}

// mechanism computes what the flags ask for.
func (h *Host) mechanism(ctx context.Context, f *solveFlags, g *graph.CSVGraph) (*graph.Table, error) {
	if f.Order != nil {
		return f.ranked(g)
	}
	if len(g.Colors) != 2 {
		return nil, output.UsageError("give --order with all of them", "column %q has %d colours", f.Color,
			len(g.Colors))
	}
	switch {
	case f.Balanced:
		return graph.BinaryBalanced(g.Graph, g.Preferences, f.privacy())
	case f.Boundary != nil:
		truth, err := f.truth(g)
		if err != nil {
			return nil, err
		}
		return graph.BinaryHomogeneous(g.Graph, g.Preferences, f.privacy(), truth)
	}
	return h.extend(ctx, f, g)
}

// ranked computes the mechanism of --order.
func (f *solveFlags) ranked(g *graph.CSVGraph) (*graph.Table, error) {
	boundary, err := f.boundaryLaw(len(g.Colors))
	if err != nil {
		return nil, err
	}
	t, err := graph.Homogeneous(g.Graph, g.Preferences, f.privacy(),
		slices.Repeat([][]float64{boundary}, g.Preferences.Rainbows()))
	var edge *graph.EdgeError
	if errors.As(err, &edge) {
		return nil, err
	}
	return t, law(boundary).explain(err)
}

// boundaryLaw returns --boundary-law or the default.
func (f *solveFlags) boundaryLaw(colors int) ([]float64, error) {
	if f.Law != nil {
		return f.Law, nil
	}
	return graph.DefaultLaw(colors, f.Epsilon.Float64())
}

// truth reads --boundary.
func (f *solveFlags) truth(g *graph.CSVGraph) (truth [2]float64, err error) {
	truth = [2]float64{math.NaN(), math.NaN()}
	for _, item := range f.Boundary {
		equals := strings.LastIndexByte(item, '=')
		if equals < 0 {
			return truth, output.UsageError("", "--boundary: %q is not COLOR=P", item)
		}
		color := slices.Index(g.Colors, item[:equals])
		switch {
		case color < 0:
			return truth, output.UsageError("", "--boundary: %q is none of the colours in column %q", item[:equals],
				f.Color)
		case !math.IsNaN(truth[color]):
			return truth, output.UsageError("", "--boundary has colour %q twice", g.Colors[color])
		}
		if truth[color], err = parseProbability(item[equals+1:]); err != nil {
			return truth, output.UsageError("", "--boundary: %w", err)
		}
	}
	for _, p := range truth {
		if math.IsNaN(p) {
			return truth, output.UsageError("", "--boundary says nothing about one of the two colours in column %q",
				f.Color)
		}
	}
	return truth, nil
}

// extend computes the mechanism of --boundary-file.
func (h *Host) extend(ctx context.Context, f *solveFlags, g *graph.CSVGraph) (*graph.Table, error) {
	var given []graph.Given
	err := h.Stream(ctx, f.BoundaryFile, func(in io.Reader) (err error) {
		given, err = g.ReadGiven(in)
		return f.inFile(err)
	})
	if err != nil {
		return nil, err
	}
	table, err := graph.Extend(g.Graph, g.Preferences, f.privacy(), given)
	var missed *graph.MissedEdgeError
	if errors.As(err, &missed) {
		err = output.InputError("one end at least of each edge that joins two colours must be given",
			"%s: vertices %q and %q are neighbours with different colours, and neither is there", f.BoundaryFile,
			g.IDs[missed.From], g.IDs[missed.To])
	}
	return table, err
}
