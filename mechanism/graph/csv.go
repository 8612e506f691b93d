package graph

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// CSVOptions describes the columns of two CSV files with a graph, for [CSVOptions.Read].
type CSVOptions struct {
	IDColumn    string // the column of the nodes' ids, default "id"
	ColorColumn string // the column of the nodes' colours, which are the true answers; required
	// Colors are the names of the outputs 0, 1, …, each once. A vertex of another colour is an
	// error; an output that is the colour of no vertex is not. Default: the colours of the
	// vertices, sorted by their bytes.
	Colors []string
}

// CSVGraph is a graph of datasets with names, as returned by [CSVOptions.Read]. The vertices are in
// the order of the rows.
type CSVGraph struct {
	Graph *Graph // the graph itself
	// IDs are the names of the vertices.
	IDs []string
	// Colors are the names of the outputs.
	Colors []string
	// Preferences are those of [NewPreferences] without orders: each vertex prefers its own colour,
	// and then the others in the order of Colors.
	Preferences *Preferences

	vertex map[string]int // the numbers of the vertices, by id
}

// Read reads a graph of datasets from two CSV files (RFC 4180: UTF-8, comma-separated, with a
// header row; a byte-order mark is skipped). nodes has a row for each vertex with its id and its
// colour. edges has a row for each edge with the ids of its ends in the columns source and target.
// The order of the ends does not matter, and all other columns are ignored.
//
// It takes memory in proportion to the files. It returns an [*InputError] with the file, the line
// and the id of a vertex if the error is about one. The reasons are: malformed CSV, rows of another
// length than the header, missing or repeated columns; empty or repeated ids; colours that are
// empty, not among Colors, more than 1,024 or fewer than two; and edges with unknown ids, from a
// vertex to itself, or repeated in either direction. It returns [privacy.ErrInvalid] for invalid
// options, and wraps errors of the readers.
func (o CSVOptions) Read(nodes, edges io.Reader) (*CSVGraph, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &CSVGraph{Colors: slices.Clone(o.Colors), vertex: make(map[string]int)}
	if err := c.readNodes(nodes, o); err != nil {
		return nil, err
	}
	if err := c.readEdges(edges); err != nil {
		return nil, err
	}
	return c, nil
}

// validate returns [privacy.ErrInvalid] unless there is a colour column, and Colors is nil or has 2
// to 1,024 different names.
func (o CSVOptions) validate() error {
	if o.ColorColumn == "" {
		return invalid("the name of the colour column is missing")
	}
	if o.Colors != nil && (len(o.Colors) < 2 || len(o.Colors) > maxOutputs) {
		return invalid("%d colours; 2 to %d are possible", len(o.Colors), maxOutputs)
	}
	for i, color := range o.Colors {
		if color == "" || slices.Contains(o.Colors[:i], color) {
			return invalid("colour %q is empty or given twice", color)
		}
	}
	return nil
}

// Vertex returns the number of the vertex with an id. ok is false if there is none.
func (c *CSVGraph) Vertex(id string) (v int, ok bool) {
	v, ok = c.vertex[id]
	return v, ok
}

// readNodes reads the file of vertices and sets all fields except Graph. Without given colours, it
// numbers them in the order of the rows first, and then sorts them. Errors are as for
// [CSVOptions.Read].
func (c *CSVGraph) readNodes(r io.Reader, options CSVOptions) error {
	f, err := openCSV(r, "nodes", nil, cmp.Or(options.IDColumn, "id"), options.ColorColumn)
	if err != nil {
		return err
	}
	numbers := make(map[string]int) // the numbers of the colours, by name
	for number, name := range c.Colors {
		numbers[name] = number
	}
	var colors []uint32
	for f.next() {
		id, name := strings.Clone(f.field(0)), f.field(1) // cloned, because a field keeps its whole row in memory
		if id == "" {
			return f.fault("", "the vertex has no id")
		}
		if _, twice := c.vertex[id]; twice {
			return f.fault(id, "the id is given twice")
		}
		c.vertex[id] = len(c.IDs)
		c.IDs = append(c.IDs, id)
		number, known := numbers[name]
		switch {
		case known:
		case name == "":
			return f.fault(id, "no colour")
		case options.Colors != nil:
			return f.fault(id, "the colour is not one of %q", c.Colors)
		case len(c.Colors) == maxOutputs:
			return f.fault(id, "its colour is a further one; at most %d are possible", maxOutputs)
		default:
			name, number = strings.Clone(name), len(c.Colors)
			numbers[name] = number
			c.Colors = append(c.Colors, name)
		}
		colors = append(colors, uint32(number))
	}
	if f.err != nil {
		return f.err
	}
	if len(c.Colors) < 2 {
		return &InputError{File: "nodes", Reason: fmt.Sprintf("column %q of the nodes has fewer than 2 colours",
			options.ColorColumn)}
	}
	if options.Colors == nil {
		found := c.Colors // in the order of the rows, by which colors counts
		c.Colors = slices.Sorted(slices.Values(found))
		for v, number := range colors {
			place, _ := slices.BinarySearch(c.Colors, found[number])
			colors[v] = uint32(place)
		}
	}
	c.Preferences, err = NewPreferences(len(c.Colors), nil, colors)
	return err
}

// readEdges reads the file of edges and sets Graph. The vertices must have been read. Errors are as
// for [CSVOptions.Read].
func (c *CSVGraph) readEdges(r io.Reader) error {
	f, err := openCSV(r, "edges", c.vertex, "source", "target")
	if err != nil {
		return err
	}
	var pairs []uint64
	var lines []uint32 // by index of the pair; uint32 takes half the memory of int
	for f.next() {
		var ends [2]int
		for i, end := range [2]string{"source", "target"} {
			vertex, known := c.vertex[f.field(i)]
			if !known {
				return f.fault(f.field(i), "its %s is not among the nodes", end)
			}
			ends[i] = vertex
		}
		if ends[0] == ends[1] {
			return f.fault(f.field(0), "an edge from a vertex to itself")
		}
		pairs, lines = append(pairs, uint64(ends[0])<<32|uint64(ends[1])), append(lines, uint32(f.line))
	}
	if f.err != nil {
		return f.err
	}
	c.Graph = graphOf(len(c.IDs), pairs)
	if v, w, twice := c.Graph.parallel(); twice {
		// The error is about the second of the two rows.
		number := secondOf(pairs, v, w)
		return &InputError{File: "edges", Line: int(lines[number-1]), Edge: number, Vertex: c.IDs[v],
			Reason: "the edge is given twice"}
	}
	return nil
}

// ReadGiven reads the laws at some vertices, for [Problem.Given], from a CSV file in the format of
// [CSVOptions.Read]. It has the columns id, color and probability: the probability of that colour
// at that vertex, a decimal number in [0,1]. There must be two colours. The result has the
// probabilities of both, by vertex. It returns an [*InputError] like Read, also for a repeated
// vertex, an unknown id or colour, and an invalid probability. It returns [privacy.ErrInvalid] if
// the graph has more than two colours.
func (c *CSVGraph) ReadGiven(boundary io.Reader) (map[int][]float64, error) {
	if len(c.Colors) != 2 {
		return nil, invalid("a boundary file needs 2 colours, and the graph has %d", len(c.Colors))
	}
	f, err := openCSV(boundary, "boundary", c.vertex, "id", "color", "probability")
	if err != nil {
		return nil, err
	}
	given := make(map[int][]float64)
	for f.next() {
		v, known := c.vertex[f.field(0)]
		output := slices.Index(c.Colors, f.field(1))
		probability, err := strconv.ParseFloat(f.field(2), 64)
		hexadecimal := strings.ContainsAny(f.field(2), "xX") // such a number is accepted by ParseFloat
		switch {
		case !known:
			return nil, f.fault(f.field(0), "the id is not among the nodes")
		case output < 0:
			return nil, f.fault(f.field(0), "no vertex of the nodes file has this colour")
		case err != nil || hexadecimal || !(probability >= 0 && probability <= 1):
			return nil, f.fault(f.field(0), "the probability is not a number in [0,1]")
		case given[v] != nil:
			return nil, f.fault(f.field(0), "the id is given twice")
		}
		law := []float64{1 - probability, 1 - probability}
		law[output] = probability
		given[v] = law
	}
	if f.err != nil {
		return nil, f.err
	}
	return given, nil
}

// csvFile reads some columns of a CSV file.
type csvFile struct {
	name    string
	reader  *csv.Reader
	columns []int // by requested column, its index in a row
	row     []string
	line    int   // the line at which row starts
	err     error // what next found, except the end of the file
}

// openCSV skips a byte-order mark and reads the header, which must have each of the columns once.
// name is the file's name in errors. known are the ids of vertices: a first row with one of them is
// not a header, so its cells are not repeated in an error.
func openCSV(r io.Reader, name string, known map[string]int, columns ...string) (*csvFile, error) {
	buffered := bufio.NewReader(r)
	if mark, _ := buffered.Peek(3); string(mark) == "\uFEFF" {
		buffered.Discard(3)
	}
	f := &csvFile{name: name, reader: csv.NewReader(buffered)}
	f.reader.ReuseRecord = true
	if !f.next() {
		if f.err == nil {
			f.err = &InputError{File: name, Line: 1, Reason: "no header row"}
		}
		return nil, f.err
	}
	for _, column := range columns {
		place := slices.Index(f.row, column)
		if place < 0 {
			return nil, f.fault("", "no column %q%s", column, f.titles(known))
		}
		if slices.Contains(f.row[place+1:], column) {
			return nil, f.fault("", "two columns %q", column)
		}
		f.columns = append(f.columns, place)
	}
	return f, nil
}

// titles returns the columns of the header for an error: the first 20, and 40 bytes of each. A file
// without a header has data in its first row, and an error must not contain a cell of a file. So
// titles returns "" if the header may be data. It reads further rows to decide this, so the file
// cannot be used after that.
func (f *csvFile) titles(known map[string]int) string {
	const most, longest = 20, 40
	header := slices.Clone(f.row) // the memory of the row is reused
	if f.mayBeData(header, known) {
		return ""
	}
	var titles []string
	for _, title := range header[:min(len(header), most)] {
		titles = append(titles, fmt.Sprintf("%.*q", longest, title))
	}
	if more := len(header) - most; more > 0 {
		titles = append(titles, fmt.Sprintf("%d more", more))
	}
	return "; the header has " + strings.Join(titles, ", ")
}

// mayBeData returns true if the header, the first row, may be a row of data. This is so if it has a
// number, the id of a vertex, or a text that cannot be a title. It is also so if one of its cells
// is in one of the next 1,000 rows too, in any column.
func (f *csvFile) mayBeData(header []string, known map[string]int) bool {
	for _, title := range header {
		_, err := strconv.ParseFloat(title, 64)
		_, isVertex := known[title]
		if err == nil || isVertex || title == "" || title != strings.TrimSpace(title) ||
			strings.ContainsFunc(title, unicode.IsControl) {
			return true
		}
	}
	const rows = 1000
	for n := 0; n < rows; n++ {
		row, err := f.reader.Read()
		if err != nil {
			break
		}
		if slices.ContainsFunc(row, func(cell string) bool { return slices.Contains(header, cell) }) {
			return true
		}
	}
	return false
}

// next reads a row and returns true. It returns false at the end of the file and after an error,
// which it stores in f.err.
func (f *csvFile) next() bool {
	row, err := f.reader.Read()
	var malformed *csv.ParseError
	switch {
	case err == nil:
		f.row = row
		f.line, _ = f.reader.FieldPos(0)
		return true
	case errors.Is(err, io.EOF):
	case errors.As(err, &malformed):
		f.err = &InputError{File: f.name, Line: malformed.StartLine, Reason: malformed.Err.Error()}
	default:
		f.err = fmt.Errorf("reading the %s: %w", f.name, err)
	}
	return false
}

// field returns the cell of the row in a requested column, numbered as in the call of openCSV.
func (f *csvFile) field(column int) string { return f.row[f.columns[column]] }

// fault returns an [*InputError] about the present row. vertex is the id that the error is about,
// or "".
func (f *csvFile) fault(vertex, format string, args ...any) error {
	return &InputError{File: f.name, Line: f.line, Vertex: vertex, Reason: fmt.Sprintf(format, args...)}
}
