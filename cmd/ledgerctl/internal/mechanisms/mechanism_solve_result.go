package mechanisms

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

// conflict says why there is no mechanism: at To the answers of Colors have together a higher
// probability than they may have at that distance from From.
type conflict struct {
	From            string        `json:"from"`
	To              string        `json:"to"`
	Colors          []string      `json:"colors"`
	Distance        int           `json:"distance"`
	FromProbability output.Number `json:"from_probability"`
	ToProbability   output.Number `json:"to_probability"`
	Bound           output.Number `json:"bound"` // the largest possible ToProbability
}

func (c *conflict) Error() string {
	return fmt.Sprintf("no mechanism has these probabilities: vertex %q answers %s with %.12g; "+
		"at distance %d, vertex %q may with at most %.12g, but does with %.12g",
		c.From, quotedList(c.Colors), c.FromProbability, c.Distance, c.To, c.Bound, c.ToProbability)
}

// quotedList returns "A" or "B".
func quotedList(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(all, " or ")
}

// conflict puts the error of a mechanism that does not exist in the words of the files. It returns
// nil for other errors.
func (f *solveFlags) conflict(g *graph.CSVGraph, err error) *conflict {
	var pair *graph.ConflictError
	if errors.As(err, &pair) {
		return &conflict{
			From: g.IDs[pair.From], To: g.IDs[pair.To], Colors: []string{g.Colors[pair.Output]},
			Distance:        pair.Distance,
			FromProbability: output.Number(pair.FromProbability), ToProbability: output.Number(pair.ToProbability),
			Bound: output.Number(pair.Bound),
		}
	}
	var edge *graph.EdgeError
	if !errors.As(err, &edge) {
		return nil
	}
	// There the excess is at From.
	c := &conflict{From: g.IDs[edge.To], To: g.IDs[edge.From], Distance: 1}
	for _, color := range edge.Outputs {
		c.Colors = append(c.Colors, g.Colors[color])
		c.FromProbability += output.Number(f.Law[slices.Index(g.Preferences.Order(edge.To), color)])
		c.ToProbability += output.Number(f.Law[slices.Index(g.Preferences.Order(edge.From), color)])
	}
	c.Bound = c.ToProbability - output.Number(edge.Excess)
	return c
}

type solveResult struct {
	Epsilon       privacy.Epsilon `json:"epsilon"`
	Delta         privacy.Delta   `json:"delta"`
	Colors        []string        `json:"colors"`                 // in their order
	BoundaryLaw   []output.Number `json:"boundary_law,omitempty"` // with --order only
	DefaultLaw    bool            `json:"boundary_law_default,omitempty"`
	Edges         int             `json:"edges"`
	BoundaryEdges int             `json:"boundary_edges"` // between two colours
	Feasible      bool            `json:"feasible"`
	Conflict      *conflict       `json:"conflict"`
	Vertices      []vertexResult  `json:"vertices"`

	uniform bool // the law depends on colour and distance alone
}

type vertexResult struct {
	ID            string         `json:"id"`
	Color         string         `json:"color"`
	Distance      *int32         `json:"distance"`      // nil if there is no boundary
	Probabilities *probabilities `json:"probabilities"` // nil if there is no mechanism

	color int
}

// probabilities is a law in the order of the colours.
type probabilities struct {
	colors []json.RawMessage // their names
	values []float64
}

// MarshalJSON implements [json.Marshaler].
func (p *probabilities) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	for i, value := range p.values {
		out.WriteByte("{,"[min(i, 1)])
		out.Write(p.colors[i])
		out.WriteByte(':')
		text, err := output.Number(value).MarshalJSON()
		if err != nil {
			return nil, err
		}
		out.Write(text)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// newSolveResult describes the mechanism, or the graph alone if there is a conflict.
func newSolveResult(f *solveFlags, g *graph.CSVGraph, t *graph.Table, c *conflict) (solveResult, error) {
	out := solveResult{
		Epsilon: f.Epsilon, Delta: f.Delta, Colors: g.Colors, Edges: g.Graph.Edges(), BoundaryEdges: boundaryEdges(g),
		Feasible: c == nil, Conflict: c, Vertices: make([]vertexResult, len(g.IDs)), uniform: f.BoundaryFile == "",
	}
	if f.Order != nil {
		boundary, err := f.boundaryLaw(len(g.Colors))
		if err != nil {
			return out, err
		}
		out.BoundaryLaw, out.DefaultLaw = numbers(boundary), f.Law == nil
	}
	distances, err := graph.Distances(g.Graph, g.Preferences)
	if err != nil {
		return out, err
	}
	names, err := jsonStrings(g.Colors)
	if err != nil {
		return out, err
	}
	for i, id := range g.IDs {
		color := g.Preferences.Color(i)
		v := vertexResult{ID: id, Color: g.Colors[color], color: color}
		if distances[i] != graph.Unreachable {
			v.Distance = &distances[i]
		}
		if c == nil {
			v.Probabilities = &probabilities{names, t.At(i)}
		}
		out.Vertices[i] = v
	}
	return out, nil
}

func jsonStrings(texts []string) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		var err error
		if out[i], err = json.Marshal(text); err != nil {
			return nil, err
		}
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

func (r solveResult) Table(w io.Writer) {
	fmt.Fprintf(w, "vertices\t%d\nedges\t%d\nedges between colours\t%d\n", len(r.Vertices), r.Edges, r.BoundaryEdges)
	fmt.Fprintf(w, "ε\t%s\nδ\t%s\n", r.Epsilon, r.Delta)
	if r.BoundaryLaw != nil {
		fmt.Fprintf(w, "law on the boundary\t%s", strings.Join(strings.Fields(cells(r.BoundaryLaw)), ", "))
		if r.DefaultLaw {
			fmt.Fprint(w, " (randomized response, as --boundary-law is not given)")
		}
		fmt.Fprintln(w)
	}
	if !r.Feasible {
		fmt.Fprintln(w, "mechanism\tnone")
		return
	}
	if r.uniform {
		r.tableRegions(w)
	}
	r.tableVertices(w)
}

// tableRegions has a line for all vertices of one colour at one distance, which have the same law.
func (r solveResult) tableRegions(w io.Writer) {
	type region struct {
		color    int
		distance int64
	}
	of := map[region][]*vertexResult{}
	for i, v := range r.Vertices {
		at := region{v.color, 1 << 32} // no boundary comes last
		if v.Distance != nil {
			at.distance = int64(*v.Distance)
		}
		of[at] = append(of[at], &r.Vertices[i])
	}
	fmt.Fprintf(w, "\nTRUE ANSWER\tDISTANCE\tVERTICES%s\n", r.heads())
	for _, at := range slices.SortedFunc(maps.Keys(of), func(a, b region) int {
		return cmp.Or(cmp.Compare(a.color, b.color), cmp.Compare(a.distance, b.distance))
	}) {
		first := of[at][0]
		fmt.Fprintf(w, "%s\t%s\t%d%s\n", output.OneLine(first.Color), first.distance(), len(of[at]),
			cells(numbers(first.Probabilities.values)))
	}
}

func (r solveResult) tableVertices(w io.Writer) {
	const most = 100
	fmt.Fprintf(w, "\nVERTEX\tTRUE ANSWER\tDISTANCE%s\n", r.heads())
	for i, v := range r.Vertices {
		if i == most {
			fmt.Fprintf(w, "… and %d more; --json lists all\n", len(r.Vertices)-most)
			return
		}
		fmt.Fprintf(w, "%s\t%s\t%s%s\n", output.OneLine(v.ID), output.OneLine(v.Color), v.distance(),
			cells(numbers(v.Probabilities.values)))
	}
}

// heads returns the heads of the columns with the probabilities.
func (r solveResult) heads() string {
	var text strings.Builder
	for _, color := range r.Colors {
		fmt.Fprintf(&text, "\tPr[%s]", output.OneLine(color))
	}
	return text.String()
}

func (v *vertexResult) distance() string {
	if v.Distance == nil {
		return "–"
	}
	return fmt.Sprint(*v.Distance)
}
