package graph

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

func readText(nodes, edges string, options CSVOptions) (*CSVGraph, error) {
	return options.Read(strings.NewReader(nodes), strings.NewReader(edges))
}

var byColor = CSVOptions{ColorColumn: "color"}

func TestReadCSV_AnyColumnOrder_IsRead(t *testing.T) {
	const nodes = "name,id,color\r\nx,c,red\ny,a,\"blue\"\n\n\"z\n\",b,red\n"
	const edges = "weight,target,source\n1,a,b\n2,\"c\",a\n"
	for _, mark := range []string{"", "\uFEFF"} {
		c := check.Value(readText(mark+nodes, mark+edges, byColor))(t)
		check.That(t, slices.Equal(c.IDs, []string{"c", "a", "b"}) && slices.Equal(c.Colors, []string{"blue", "red"}),
			"ids %q, colours %q", c.IDs, c.Colors)
		v, ok := c.Vertex("b")
		check.That(t, v == 2 && ok, "b is %d, %v", v, ok)
		if _, ok := c.Vertex("x"); ok {
			t.Error("there is an x")
		}
		if g := c.Graph; g.Vertices() != 3 || g.Edges() != 2 || !slices.Equal(g.Neighbors(1), []uint32{0, 2}) {
			t.Errorf("neighbours of a: %v", g.Neighbors(1))
		}
		for v, want := range []int{1, 0, 1} {
			check.Equal(t, c.Preferences.Color(v), want, "colour of %d", v)
		}
	}
}

// The given colours number the outputs, including a colour that no vertex has, and define the order
// of preference.
func TestReadCSV_GivenColors_NumberTheOutputs(t *testing.T) {
	colors := []string{"red", "none", "blue"}
	c, err := readText("key,hue\na,blue\nb,red\n", "source,target\na,b\n", CSVOptions{IDColumn: "key", ColorColumn: "hue", Colors: colors})
	check.Must(t, err)
	colors[0] = "changed" // it has been copied
	check.That(t, slices.Equal(c.Colors, []string{"red", "none", "blue"}) &&
		slices.Equal(c.Preferences.Order(0), []int{2, 0, 1}), "%q, order of a %v", c.Colors, c.Preferences.Order(0))
	_, err = c.ReadGiven(strings.NewReader("id,color,probability\n"))
	check.That(t, errors.Is(err, privacy.ErrInvalid), "a boundary of three colours: %v", err)
}

func TestReadCSV_InvalidText_NamesLineAndVertex(t *testing.T) {
	const nodes, edges = "id,color\na,blue\nb,red\nc,red\n", "source,target\na,b\n"
	many := new(strings.Builder)
	for i := range maxOutputs + 1 {
		fmt.Fprintf(many, "v%d,c%d\n", i, i)
	}
	for _, test := range []struct {
		nodes, edges string
		want         InputError
	}{
		{"", edges, InputError{File: "nodes", Line: 1, Reason: "no header row"}},
		{"\uFEFF", edges, InputError{File: "nodes", Line: 1, Reason: "no header row"}},
		{nodes, "", InputError{File: "edges", Line: 1, Reason: "no header row"}},
		{"ID,color\n", edges, InputError{File: "nodes", Line: 1, Reason: `no column "id"; the header has "ID", "color"`}},
		{"id,colour\n", edges, InputError{File: "nodes", Line: 1, Reason: `no column "color"; the header has "id", "colour"`}},
		// A file without a header: no cell of it is shown.
		{"ann,blue\nbob,blue\n", edges, InputError{File: "nodes", Line: 1, Reason: `no column "id"`}},
		{"7,blue\n", edges, InputError{File: "nodes", Line: 1, Reason: `no column "id"`}},
		{"ann,\n", edges, InputError{File: "nodes", Line: 1, Reason: `no column "id"`}},
		{"ann,blue \n", edges, InputError{File: "nodes", Line: 1, Reason: `no column "id"`}},
		{nodes, "a,b\n", InputError{File: "edges", Line: 1, Reason: `no column "source"`}},
		{nodes, "x,y\ny,z\n", InputError{File: "edges", Line: 1, Reason: `no column "source"`}},
		{"id,color,id\n", edges, InputError{File: "nodes", Line: 1, Reason: `two columns "id"`}},
		{nodes, "source,to\n", InputError{File: "edges", Line: 1, Reason: `no column "target"; the header has "source", "to"`}},
		{nodes, "target,source,target\n", InputError{File: "edges", Line: 1, Reason: `two columns "target"`}},
		{"id,color\na,blue\n\n,red\n", edges, InputError{File: "nodes", Line: 4, Reason: "the vertex has no id"}},
		{"id,color\na,blue\na,red\n", edges, InputError{File: "nodes", Line: 3, Vertex: "a", Reason: "the id is given twice"}},
		{"id,color\na,blue\nb,\n", edges, InputError{File: "nodes", Line: 3, Vertex: "b", Reason: "no colour"}},
		{"id,color\na,blue\nb,blue\n", edges, InputError{File: "nodes", Reason: `column "color" of the nodes has fewer than 2 colours`}},
		{"id,color\n", edges, InputError{File: "nodes", Reason: `column "color" of the nodes has fewer than 2 colours`}},
		{"id,color\n" + many.String(), edges, InputError{File: "nodes", Line: 1026, Vertex: "v1024", Reason: `its colour is a further one; at most 1024 are possible`}},
		{"id,color\na,blue,x\n", edges, InputError{File: "nodes", Line: 2, Reason: "wrong number of fields"}},
		{"id,color\na\n", edges, InputError{File: "nodes", Line: 2, Reason: "wrong number of fields"}},
		{"id,color\na,bl\"ue\n", edges, InputError{File: "nodes", Line: 2, Reason: `bare " in non-quoted-field`}},
		{"id,color\na,blue\nb,\"red\n\n", edges, InputError{File: "nodes", Line: 3, Reason: `extraneous or missing " in quoted-field`}},
		{"id,\"color\n", edges, InputError{File: "nodes", Line: 1, Reason: `extraneous or missing " in quoted-field`}},
		{nodes, "source,target\na,b\na,d\n", InputError{File: "edges", Line: 3, Vertex: "d", Reason: "its target is not among the nodes"}},
		{nodes, "source,target\n,b\n", InputError{File: "edges", Line: 2, Reason: "its source is not among the nodes"}},
		{nodes, "source,target\nb,b\n", InputError{File: "edges", Line: 2, Vertex: "b", Reason: "an edge from a vertex to itself"}},
		{nodes, "source,target\na,b\n\nb,c\n\n\nb,a\n", InputError{File: "edges", Line: 7, Edge: 3, Vertex: "a", Reason: "the edge is given twice"}},
		{nodes, "source,target\na,b\nb,c,1\n", InputError{File: "edges", Line: 3, Reason: "wrong number of fields"}},
	} {
		c, err := readText(test.nodes, test.edges, byColor)
		var input *InputError
		check.That(t, c == nil && errors.As(err, &input) && *input == test.want && errors.Is(err, privacy.ErrInvalid),
			"%q, %q: %v, want %v", test.nodes, test.edges, err, &test.want)
	}
	for _, options := range []CSVOptions{
		{}, {IDColumn: "id"}, {ColorColumn: "color", Colors: []string{}}, {ColorColumn: "color", Colors: []string{"blue"}},
		{ColorColumn: "color", Colors: []string{"blue", "blue"}}, {ColorColumn: "color", Colors: []string{"blue", ""}},
		{ColorColumn: "color", Colors: make([]string, maxOutputs+1)},
	} {
		check.Is(t, check.Err(readText(nodes, edges, options)), privacy.ErrInvalid, "%q", options)
	}
	_, err := readText(nodes, edges, CSVOptions{ColorColumn: "color", Colors: []string{"red", "green"}})
	want := `nodes line 2: the colour is not one of ["red" "green"]`
	check.That(t, err != nil && err.Error() == want, "%v", err)
}

func TestReadCSV_ReaderFails_ReturnsItsError(t *testing.T) {
	failing := func(text string) io.Reader {
		return io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrClosedPipe))
	}
	const nodes = "id,color\na,blue\nb,red\n"
	for _, err := range []error{
		third(byColor.Read(failing(""), strings.NewReader(""))),
		third(byColor.Read(failing(nodes), strings.NewReader(""))),
		third(byColor.Read(strings.NewReader(nodes), failing("source,target\na,b\n"))),
	} {
		check.That(t, errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, privacy.ErrInvalid), "%v", err)
	}
}

func third(_ *CSVGraph, err error) error { return err }

func TestReadGiven_InvalidText_NamesLineAndVertex(t *testing.T) {
	c := check.Value(readText("id,color\na,blue\nb,red\nc,red\n", "source,target\na,b\nb,c\n", byColor))(t)
	given, err := c.ReadGiven(strings.NewReader("probability,note,id,color\n0.75,x,b,blue\n1e-20,,a,red\n"))
	want := map[int][]float64{1: {0.75, 0.25}, 0: {1, 1e-20}}
	check.That(t, err == nil && reflect.DeepEqual(given, want), "%v, %v, want %v", given, err, want)
	for text, want := range map[string]InputError{
		"":                                {File: "boundary", Line: 1, Reason: "no header row"},
		"id,color\n":                      {File: "boundary", Line: 1, Reason: `no column "probability"; the header has "id", "color"`},
		"a,red,0.5\n":                     {File: "boundary", Line: 1, Reason: `no column "id"`},
		"id,color,probability\nd,red,1\n": {File: "boundary", Line: 2, Vertex: "d", Reason: "the id is not among the nodes"},
		"id,color,probability\na,red,1\na,red,1\n":    {File: "boundary", Line: 3, Vertex: "a", Reason: "the id is given twice"},
		"id,color,probability\na,green,1\n":           {File: "boundary", Line: 2, Vertex: "a", Reason: "no vertex of the nodes file has this colour"},
		"id,color,probability\na,red,1.1\n":           {File: "boundary", Line: 2, Vertex: "a", Reason: "the probability is not a number in [0,1]"},
		"id,color,probability\na,red,0x1p-2\n":        {File: "boundary", Line: 2, Vertex: "a", Reason: "the probability is not a number in [0,1]"},
		"id,color,probability\na,red,NaN\n":           {File: "boundary", Line: 2, Vertex: "a", Reason: "the probability is not a number in [0,1]"},
		"id,color,probability\na,red,\n":              {File: "boundary", Line: 2, Vertex: "a", Reason: "the probability is not a number in [0,1]"},
		"id,color,probability\na,red,0.5\nb,red\n":    {File: "boundary", Line: 3, Reason: "wrong number of fields"},
		"id,color,probability\na,red,0.5,0.5\n":       {File: "boundary", Line: 2, Reason: "wrong number of fields"},
		"id,color,probability\na,red,-0.0000000001\n": {File: "boundary", Line: 2, Vertex: "a", Reason: "the probability is not a number in [0,1]"},
	} {
		given, err := c.ReadGiven(strings.NewReader(text))
		var input *InputError
		check.That(t, given == nil && errors.As(err, &input) && *input == want,
			"%q: %v, %v, want %v", text, given, err, &want)
	}
}

// The files are testdata/karate_nodes.csv and karate_edges.csv (testdata/README.md).
func TestReadCSV_KarateClub_IsSolved(t *testing.T) {
	open := func(name string) *os.File {
		f := check.Value(os.Open(filepath.Join("..", "..", "testdata", name)))(t)
		t.Cleanup(func() { f.Close() })
		return f
	}
	c := check.Value(CSVOptions{ColorColumn: "faction"}.Read(open("karate_nodes.csv"), open("karate_edges.csv")))(t)
	members, joining := map[int]int{}, 0
	for v := range c.Graph.Vertices() {
		members[c.Preferences.Color(v)]++
		for _, w := range c.Graph.Neighbors(v) {
			if c.Preferences.Color(v) < c.Preferences.Color(int(w)) {
				joining++
			}
		}
	}
	check.That(t, c.Graph.Vertices() == 34 && c.Graph.Edges() == 78 && members[0] == 17 && members[1] == 17 &&
		joining == 11, "%d vertices, %d edges, %v, %d joining", c.Graph.Vertices(), c.Graph.Edges(), members, joining)
	check.That(t, slices.Equal(c.Colors, []string{"Mr. Hi", "Officer"}) && c.IDs[33] == "34",
		"%q, last id %q", c.Colors, c.IDs[33])
	dp := Privacy{math.Log(3), 0}
	table := check.Value(balanced(c.Graph, c.Preferences, dp))(t)
	mustPass(t, c.Graph, table, dp)
	// 17 knows only 6 and 7, they only members of their faction, and these 1, who knows officers.
	for id, truth := range map[string]float64{"1": 3. / 4, "6": 11. / 12, "17": 35. / 36, "34": 3. / 4, "27": 11. / 12} {
		v, _ := c.Vertex(id)
		got := table[v][c.Preferences.Color(v)]
		check.That(t, !apart(got, truth, 1e-15, 0), "member %s: %v, want %v", id, got, truth)
	}
}

// This is a smaller form of BenchmarkReadCSV.
func TestReadCSV_LargeGraph_IsSolved(t *testing.T) {
	nodes, edges := ringCSV(20_000, 5)
	c, err := readText(nodes, edges, byColor)
	check.Need(t, err == nil && c.Graph.Vertices() == 20_000 && c.Graph.Edges() == 100_000, "%v", err)
	table := check.Value(balanced(c.Graph, c.Preferences, Privacy{1, 0}))(t)
	// Vertex 5000 is 1000 steps of 5 from the far end of its half.
	got := table[5000][1-c.Preferences.Color(5000)]
	check.That(t, got == tiny, "error %v in the middle", got)
	_, err = readText(nodes, edges+"dataset-4,dataset-3\n", byColor)
	var input *InputError
	check.That(t, errors.As(err, &input) && input.Line == 100_002 && input.Edge == 100_001 &&
		input.Vertex == "dataset-3", "%v", err)
}

// FuzzReadCSV checks that an accepted graph can be solved, and that an error names the place.
func FuzzReadCSV(f *testing.F) {
	f.Add("id,color\na,x\nb,y\n", "source,target\na,b\n", "id,color,probability\na,x,0.5\n")
	f.Add("\uFEFFid,color,z\n\"a\"\"\",x,1\nb,y,\n", "target,source\nb,\"a\"\"\"\n", "id,color,probability\nb,x,1\n")
	f.Add("id,color\na,x\nb,y\na,x\n", "source,target\na,b\nb,a\n", "")
	f.Fuzz(func(t *testing.T, nodes, edges, boundary string) {
		c, err := readText(nodes, edges, byColor)
		if err != nil {
			var input *InputError
			check.Need(t, errors.As(err, &input) && input.File != "", "%v", err)
			return
		}
		for v, id := range c.IDs {
			w, ok := c.Vertex(id)
			check.Need(t, ok && w == v, "%q is %d, not %d", id, w, v)
		}
		check.Need(t, c.Graph.Vertices() == len(c.IDs) && c.Preferences.Vertices() == len(c.IDs) &&
			c.Preferences.Outputs() == len(c.Colors), "sizes differ")
		if len(c.Colors) != 2 {
			return
		}
		dp := Privacy{1, 0}
		table := check.Value(balanced(c.Graph, c.Preferences, dp))(t)
		mustPass(t, c.Graph, table, dp)
		given, err := c.ReadGiven(strings.NewReader(boundary))
		if err != nil {
			check.Need(t, errors.Is(err, privacy.ErrInvalid), "%v", err)
			return
		}
		if table, err := (Problem{Graph: c.Graph, Preferences: c.Preferences, Privacy: dp, Given: given}).Solve(t.Context()); err == nil {
			mustPass(t, c.Graph, table, dp)
		}
	})
}

// A column with a wrong name may contain any data, so no error may contain a cell.
func TestInputError_OfFile_HasNoCell(t *testing.T) {
	const nodes, edges = "id,color\nSECRETa,SECRETred\nSECRETb,SECRETblue\n", "source,target\nSECRETa,SECRETb\n"
	c := check.Value(readText(nodes, edges, byColor))(t)
	given := func(rows string) error {
		_, err := c.ReadGiven(strings.NewReader("id,color,probability\n" + rows))
		return err
	}
	for name, err := range map[string]error{
		"id twice":             third(readText(nodes+"SECRETa,SECRETred\n", edges, byColor)),
		"no id":                third(readText(nodes+",SECRETred\n", edges, byColor)),
		"no colour":            third(readText(nodes+"SECRETc,\n", edges, byColor)),
		"another colour":       third(readText(nodes, edges, CSVOptions{ColorColumn: "color", Colors: []string{"red", "blue"}})),
		"unknown source":       third(readText(nodes, edges+"SECRETx,SECRETb\n", byColor)),
		"unknown target":       third(readText(nodes, edges+"SECRETa,SECRETx\n", byColor)),
		"its own neighbour":    third(readText(nodes, edges+"SECRETa,SECRETa\n", byColor)),
		"edge twice":           third(readText(nodes, edges+"SECRETb,SECRETa\n", byColor)),
		"given unknown":        given("SECRETx,SECRETred,1\n"),
		"given twice":          given("SECRETa,SECRETred,1\nSECRETa,SECRETred,1\n"),
		"given another colour": given("SECRETa,SECRETx,1\n"),
		"no probability":       given("SECRETa,SECRETred,SECRET\n"),
	} {
		check.That(t, err != nil && strings.Contains(err.Error(), " line ") && !strings.Contains(err.Error(), "SECRET"),
			"%s: %v; want an error with the line and without a cell", name, err)
	}
}

// Graphs are untrusted input. The memory to read one is proportional to its length.
func TestReadCSV_HostileText_TakesMemoryLinearInText(t *testing.T) {
	const size, fixed, times = 1 << 20, 1 << 20, 200 // growing lists are copied several times
	fill := func(begin, item, end string) string { return begin + strings.Repeat(item, size/len(item)) + end }
	graph := func(nodes, edges string) func() error {
		return func() error { _, err := readText(nodes, edges, byColor); return err }
	}
	two := "id,color\na,x\nb,y\n"
	for name, read := range map[string]func() error{
		"a quote without end":  graph(fill("id,color\n\"", "x", ""), ""),
		"a field without end":  graph(fill("id,color\n", "x", ""), ""),
		"a header without end": graph(fill("id", ",", ""), ""),
		"many columns":         graph(fill("id,color", ",x", "\na,x\n"), ""),
		"one vertex again":     graph(fill("id,color\n", "a,x\n", ""), ""),
		"one edge again":       graph(two, fill("source,target\n", "a,b\n", "")),
		"loops":                graph(two, fill("source,target\n", "a,a\n", "")),
		"unknown vertices":     graph(two, fill("source,target\n", "q,r\n", "")),
	} {
		var err error
		took := check.Allocated(func() { err = read() })
		check.That(t, took <= fixed+times*size, "%s: %d bytes take %d (%v)", name, size, took, err != nil)
	}
}
