// Package mechanisms has the commands that compute mechanisms, which need no ledger.
package mechanisms

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

// Host gives the commands access to the program.
type Host struct {
	*output.Printer
	*input.Files
}

// Commands returns the commands.
func (h *Host) Commands() []*cobra.Command {
	return []*cobra.Command{input.Group("mechanism", "say which mechanism to compute: solve or family",
		input.Command(h.Files, "solve", h.solve),
		input.Group("mechanism family", "say which mechanism to make: subset or hadamard",
			input.Command(h.Files, "subset", h.subset),
			input.Command(h.Files, "hadamard", h.hadamard)))}
}

// bounds are the flags for how much the laws of neighbours may differ.
type bounds struct {
	Epsilon privacy.Epsilon `flag:"epsilon,required"`
	Delta   privacy.Delta   `flag:"delta"`
}

// privacy returns the bounds as the solver takes them.
func (b *bounds) privacy() graph.Privacy {
	return graph.Privacy{Epsilon: b.Epsilon.Float64(), Delta: b.Delta.Float64()}
}

// parseProbability parses a decimal number from 0 to 1, without the words and hexadecimal digits
// that ParseFloat also accepts.
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

// String implements [pflag.Value]. It returns "", because the flag has no default.
func (l *law) String() string { return "" }

// Type implements [pflag.Value].
func (l *law) Type() string { return "law" }

// digits formats probabilities for a table.
func digits(probabilities []float64) []string {
	texts := make([]string, len(probabilities))
	for i, p := range probabilities {
		texts[i] = fmt.Sprintf("%.9g", p)
	}
	return texts
}

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
	Law          law      `flag:"boundary-law,needs=order"`
}

// solve runs the command mechanism solve, which computes the optimal mechanism on a graph in CSV
// files. If no mechanism has the requested probabilities, it prints the conflict, and returns an
// error.
func (h *Host) solve(cmd *cobra.Command, _ []string, f *solveFlags) error {
	switch given := f.boundaries(); {
	case len(given) == 0:
		return output.UsageError("give --balanced, --boundary, --boundary-file or --order",
			"no law is given for the boundary")
	case len(given) > 1:
		return output.UsageError("give one of them", "%s exclude each other", strings.Join(given, " and "))
	}
	if f.Law != nil && len(f.Law) != len(f.Order) {
		return output.UsageError("", "--boundary-law has %d probabilities, and --order %d colours", len(f.Law),
			len(f.Order))
	}
	var infeasible *conflict
	out, err := interruptible(cmd.Context(), func() (out solveResult, err error) {
		g, err := h.readGraph(cmd.Context(), f)
		if err != nil {
			return out, err
		}
		table, err := h.mechanism(cmd.Context(), f, g)
		if infeasible = newConflict(g, err); err != nil && infeasible == nil {
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

// boundaries returns the given flags for the law on the boundary.
func (f *solveFlags) boundaries() (given []string) {
	for _, flag := range []struct {
		name    string
		isGiven bool
	}{
		{"--balanced", f.Balanced}, {"--boundary", f.Boundary != nil}, {"--boundary-file", f.BoundaryFile != ""},
		{"--order", f.Order != nil},
	} {
		if flag.isGiven {
			given = append(given, flag.name)
		}
	}
	return given
}

// interruptible returns the result of a computation, or the error of ctx as soon as ctx ends. The
// computation takes no context, so it continues then until the program ends.
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

// readGraph reads the graph from the files of --nodes and --edges.
func (h *Host) readGraph(ctx context.Context, f *solveFlags) (g *graph.CSVGraph, err error) {
	err = h.Stream(ctx, f.Nodes, func(nodes io.Reader) error {
		return h.Stream(ctx, f.Edges, func(edges io.Reader) error {
			g, err = graph.CSVOptions{IDColumn: f.ID, ColorColumn: f.Color,
				Colors: f.Order}.Read(nodes, edges)
			return f.inFile(err)
		})
	})
	return g, err
}

// inFile adds the name of the file to an error of reading or parsing it. If the error is in the
// first line, it adds a hint on the columns. It returns other errors, and nil, as they are.
func (f *solveFlags) inFile(err error) error {
	fields, isInput := errors.AsType[*graph.InputError](err)
	switch {
	case err == nil, errors.Is(err, privacy.ErrInvalid) && !isInput:
		return err
	case !isInput:
		return output.InputError("", "%w", err) // it cannot be read
	}
	named, hint := *fields, ""
	switch fields.File {
	case "nodes":
		named.File = f.Nodes
		hint = "--id-column and --color-column must name columns of the first row, in the same spelling"
	case "edges":
		named.File = f.Edges
		hint = `the first row must name the columns "source" and "target", which hold the ids of the two ends`
	default:
		named.File = f.BoundaryFile
		hint = `the first row must name the columns "id", "color" and "probability"`
	}
	if fields.Line != 1 {
		hint = ""
	}
	return output.InputError(hint, "%w", &named)
}

// mechanism computes the mechanism that the flags request: for each vertex the probabilities of the
// answers. If there is none, the error is a [*graph.ConflictError].
func (h *Host) mechanism(ctx context.Context, f *solveFlags, g *graph.CSVGraph) (graph.Table, error) {
	problem := graph.Problem{Graph: g.Graph, Preferences: g.Preferences, Privacy: f.privacy()}
	var err error
	switch {
	case f.Order != nil:
		var boundary []float64
		boundary, err = f.boundaryLaw(len(g.Colors))
		problem.Laws = slices.Repeat([][]float64{boundary}, g.Preferences.Rainbows())
	case len(g.Colors) != 2:
		err = output.UsageError("give --order with all of them", "column %q has %d colours", f.Color, len(g.Colors))
	case f.Boundary != nil:
		problem.Laws, err = f.truth(g)
	case f.BoundaryFile != "":
		err = h.Stream(ctx, f.BoundaryFile, func(in io.Reader) (err error) {
			problem.Given, err = g.ReadGiven(in)
			return f.inFile(err)
		})
	}
	if err != nil {
		return nil, err
	}
	table, err := problem.Solve(ctx)
	var conflict *graph.ConflictError
	if errors.As(err, &conflict) && conflict.Missing {
		return nil, output.InputError("at least one end of each edge between two colours must be given",
			"%s: vertices %q and %q are neighbours with different colours, and the file has neither", f.BoundaryFile,
			g.IDs[conflict.From], g.IDs[conflict.To])
	}
	return table, err
}

// boundaryLaw returns the law on the boundary: --boundary-law, or else that of randomized response.
func (f *solveFlags) boundaryLaw(colors int) ([]float64, error) {
	if f.Law != nil {
		return f.Law, nil
	}
	return f.privacy().RandomizedResponse(colors)
}

// truth parses --boundary, such as yes=0.6,no=0.7, in which each colour has the probability of the
// true answer on the boundary. It returns the laws of both colours, with the true answer first.
func (f *solveFlags) truth(g *graph.CSVGraph) ([][]float64, error) {
	laws := make([][]float64, 2)
	for _, item := range f.Boundary {
		equals := strings.LastIndexByte(item, '=')
		if equals < 0 {
			return nil, output.UsageError("", "--boundary: %q is not COLOR=P", item)
		}
		color := slices.Index(g.Colors, item[:equals])
		switch {
		case color < 0:
			return nil, output.UsageError("", "--boundary: %q is not a colour in column %q", item[:equals], f.Color)
		case laws[color] != nil:
			return nil, output.UsageError("", "--boundary has colour %q twice", g.Colors[color])
		}
		p, err := parseProbability(item[equals+1:])
		if err != nil {
			return nil, output.UsageError("", "--boundary: %w", err)
		}
		laws[color] = []float64{p, 1 - p}
	}
	for _, law := range laws {
		if law == nil {
			return nil, output.UsageError("", "--boundary has no probability for one of the two colours in column %q",
				f.Color)
		}
	}
	return laws, nil
}

// conflict is the reason why no mechanism exists: at To, the answers of Colors together have a
// higher probability than is possible at that distance from From.
type conflict struct {
	From            string   `json:"from"`
	To              string   `json:"to"`
	Colors          []string `json:"colors"`
	Distance        int      `json:"distance"`
	FromProbability float64  `json:"from_probability"`
	ToProbability   float64  `json:"to_probability"`
	Bound           float64  `json:"bound"` // the largest possible ToProbability
}

// Error describes the conflict, with the names of the vertices and colours in the files.
func (c *conflict) Error() string {
	var colors []string
	for _, color := range c.Colors {
		colors = append(colors, strconv.Quote(color))
	}
	return fmt.Sprintf("no mechanism has these probabilities: vertex %q answers %s with probability %.12g; "+
		"at distance %d from it, vertex %q may do so with at most %.12g, but has %.12g",
		c.From, strings.Join(colors, " or "), c.FromProbability, c.Distance, c.To, c.Bound, c.ToProbability)
}

// newConflict returns the conflict in an error, with the names in the files. It returns nil for
// other errors.
func newConflict(g *graph.CSVGraph, err error) *conflict {
	var e *graph.ConflictError
	if !errors.As(err, &e) {
		return nil
	}
	c := &conflict{
		From: g.IDs[e.From], To: g.IDs[e.To], Distance: e.Distance,
		FromProbability: e.FromProbability, ToProbability: e.ToProbability, Bound: e.Bound,
	}
	for _, color := range e.Outputs {
		c.Colors = append(c.Colors, g.Colors[color])
	}
	return c
}

// solveResult is the result of mechanism solve as it is printed.
type solveResult struct {
	Epsilon       privacy.Epsilon `json:"epsilon"`
	Delta         privacy.Delta   `json:"delta"`
	Colors        []string        `json:"colors"`                 // in their order
	BoundaryLaw   []float64       `json:"boundary_law,omitempty"` // with --order only
	DefaultLaw    bool            `json:"boundary_law_default,omitempty"`
	Edges         int             `json:"edges"`
	BoundaryEdges int             `json:"boundary_edges"` // between two colours
	Feasible      bool            `json:"feasible"`
	Conflict      *conflict       `json:"conflict"`
	Vertices      []vertexResult  `json:"vertices"`

	uniform bool // the law depends only on colour and distance
}

// vertexResult is a vertex of the graph with its law.
type vertexResult struct {
	ID            string         `json:"id"`
	Color         string         `json:"color"`
	Distance      *int32         `json:"distance"`      // nil if there is no boundary
	Probabilities *probabilities `json:"probabilities"` // nil if there is no mechanism

	color int // the number of Color
}

// probabilities is a law in the order of the colours.
type probabilities struct {
	colors []string
	values []float64
}

// MarshalJSON implements [json.Marshaler]. The members have the order of the colours.
func (p *probabilities) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	for i, value := range p.values {
		name, err := json.Marshal(p.colors[i])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%c%s:%s", "{,"[min(i, 1)], name, strconv.FormatFloat(value, 'g', 17, 64))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// newSolveResult describes the mechanism, or the graph alone if there is a conflict.
func newSolveResult(f *solveFlags, g *graph.CSVGraph, t graph.Table, c *conflict) (solveResult, error) {
	out := solveResult{
		Epsilon: f.Epsilon, Delta: f.Delta, Colors: g.Colors, Edges: g.Graph.Edges(), BoundaryEdges: boundaryEdges(g),
		Feasible: c == nil, Conflict: c, Vertices: make([]vertexResult, len(g.IDs)), uniform: f.BoundaryFile == "",
	}
	if f.Order != nil {
		boundary, err := f.boundaryLaw(len(g.Colors))
		if err != nil {
			return out, err
		}
		out.BoundaryLaw, out.DefaultLaw = boundary, f.Law == nil
	}
	distances, err := g.Graph.Distances(g.Preferences)
	if err != nil {
		return out, err
	}
	for i, id := range g.IDs {
		color := g.Preferences.Color(i)
		v := vertexResult{ID: id, Color: g.Colors[color], color: color}
		if distances[i] >= 0 {
			v.Distance = &distances[i]
		}
		if c == nil {
			v.Probabilities = &probabilities{g.Colors, t[i]}
		}
		out.Vertices[i] = v
	}
	return out, nil
}

// boundaryEdges counts the edges between two colours.
func boundaryEdges(g *graph.CSVGraph) int {
	ends := 0
	for v := range g.Graph.Vertices() {
		for _, w := range g.Graph.Neighbors(v) {
			if g.Preferences.Color(v) != g.Preferences.Color(int(w)) {
				ends++
			}
		}
	}
	return ends / 2
}

// Table implements [output.Result].
func (r solveResult) Table(t *output.Table) {
	t.Row("vertices", len(r.Vertices))
	t.Row("edges", r.Edges)
	t.Row("edges between colours", r.BoundaryEdges)
	t.Row("ε", r.Epsilon)
	t.Row("δ", r.Delta)
	if r.BoundaryLaw != nil {
		law := strings.Join(digits(r.BoundaryLaw), ", ")
		if r.DefaultLaw {
			law += " (randomized response, as --boundary-law is not given)"
		}
		t.Row("law on the boundary", law)
	}
	if !r.Feasible {
		t.Row("mechanism", "none")
		return
	}
	var heads []string
	for _, color := range r.Colors {
		heads = append(heads, "Pr["+color+"]")
	}
	// row adds a row with a column for each colour.
	row := func(a, b, c any, more []string) {
		cells := []any{a, b, c}
		for _, text := range more {
			cells = append(cells, text)
		}
		t.Row(cells...)
	}
	if r.uniform {
		t.Line("")
		row("TRUE ANSWER", "DISTANCE", "VERTICES", heads)
		for _, region := range r.regions() {
			first := region[0]
			row(first.Color, first.distance(), len(region), digits(first.Probabilities.values))
		}
	}
	t.Line("")
	row("VERTEX", "TRUE ANSWER", "DISTANCE", heads)
	for _, v := range r.Vertices[:min(len(r.Vertices), mostVertices)] {
		row(v.ID, v.Color, v.distance(), digits(v.Probabilities.values))
	}
	if more := len(r.Vertices) - mostVertices; more > 0 {
		t.Line("… and %d more; --json lists all", more)
	}
}

// mostVertices is the largest number of vertices in a table.
const mostVertices = 100

// regions returns the vertices of each colour at each distance, which have the same law.
func (r solveResult) regions() (all [][]vertexResult) {
	compare := func(a, b vertexResult) int {
		return cmp.Or(cmp.Compare(a.color, b.color), cmp.Compare(a.steps(), b.steps()))
	}
	for _, v := range slices.SortedStableFunc(slices.Values(r.Vertices), compare) {
		if last := len(all) - 1; last >= 0 && compare(all[last][0], v) == 0 {
			all[last] = append(all[last], v)
		} else {
			all = append(all, []vertexResult{v})
		}
	}
	return all
}

// steps returns the distance for sorting. A vertex without a boundary is last.
func (v *vertexResult) steps() int64 {
	if v.Distance == nil {
		return 1 << 32
	}
	return int64(*v.Distance)
}

// distance returns the distance for a table.
func (v *vertexResult) distance() string {
	if v.Distance == nil {
		return "–"
	}
	return fmt.Sprint(*v.Distance)
}
