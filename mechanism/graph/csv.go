package graph

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// CSVOptions says what the columns of the files are.
type CSVOptions struct {
	IDColumn    string // of the nodes, default "id"
	ColorColumn string // of the nodes: the true answer; required
	// Colors are the names of the outputs 0, 1, …, each once; a vertex of another colour is an
	// error, an output that is no vertex's colour is not. Default: the colours of the vertices in
	// the order of their bytes.
	Colors []string
}

// CSVGraph is a graph of datasets with names, as [ReadCSV] returns it. Vertices have the order of
// the rows.
type CSVGraph struct {
	Graph *Graph // the graph itself
	// IDs are the names of the vertices.
	IDs []string
	// Colors are the names of the outputs.
	Colors []string
	// Preferences are those of [ColorsOf]: each vertex prefers its own colour, and then the others
	// in the order of Colors.
	Preferences *Preferences

	vertex map[string]int
}

// ReadCSV reads a graph of datasets from two CSV files (RFC 4180: UTF-8, comma-separated, with a
// header row; a byte-order mark is skipped). nodes has a row for each vertex with its id and its
// colour, edges a row for each edge with the ids of its ends in the columns source and target; the
// order of the ends does not matter, and all other columns are ignored.
//
// It takes memory in proportion to the files. It returns an [*InputError] with the file, the line
// and, if about one, the id of a vertex, for: malformed CSV, rows of another length than the
// header, columns that are missing or there twice; ids that are empty or given twice; colours that
// are empty, not among those asked for, more than [MaxOutputs] or fewer than two; and edges with
// unknown ids, from a vertex to itself or given twice, in either direction. It returns [ErrInvalid]
// for options that are not as described, and errors of the readers as they are, wrapped.
func ReadCSV(nodes, edges io.Reader, options CSVOptions) (*CSVGraph, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	c := &CSVGraph{Colors: options.Colors, vertex: make(map[string]int)}
	if err := c.readNodes(nodes, options); err != nil {
		return nil, err
	}
	if err := c.readEdges(edges); err != nil {
		return nil, err
	}
	return c, nil
}

func (o CSVOptions) validate() error {
	if o.ColorColumn == "" {
		return invalid("no name of the column with the colours")
	}
	if o.Colors != nil && (len(o.Colors) < 2 || len(o.Colors) > MaxOutputs) {
		return invalid("%d colours; 2 to %d are possible", len(o.Colors), MaxOutputs)
	}
	for i, color := range o.Colors {
		if color == "" || slices.Contains(o.Colors[:i], color) {
			return invalid("colour %q is empty or given twice", color)
		}
	}
	return nil
}

// Vertex returns the number of the vertex with an id.
func (c *CSVGraph) Vertex(id string) (v int, ok bool) {
	v, ok = c.vertex[id]
	return v, ok
}

func (c *CSVGraph) readNodes(r io.Reader, options CSVOptions) error {
	id := options.IDColumn
	if id == "" {
		id = "id"
	}
	f, err := openCSV(r, "nodes", nil, id, options.ColorColumn)
	if err != nil {
		return err
	}
	palette := newPalette(options.Colors)
	colors, err := c.addVertices(f, palette)
	if err != nil {
		return err
	}
	if !palette.fixed {
		palette.sort(colors)
	}
	c.Colors = palette.names
	if len(c.Colors) < 2 {
		return &InputError{File: "nodes", Reason: fmt.Sprintf("column %q of the nodes has fewer than 2 colours",
			options.ColorColumn)}
	}
	c.Preferences, err = ColorsOf(len(c.Colors), colors)
	return err
}

// addVertices reads all nodes and returns their colours.
func (c *CSVGraph) addVertices(f *csvFile, palette *palette) (colors []int, err error) {
	for f.next() {
		if err := c.addVertex(f); err != nil {
			return nil, err
		}
		color, reason := palette.number(f.field(1))
		if reason != "" {
			return nil, f.fault(f.field(0), "%s", reason)
		}
		colors = append(colors, color)
	}
	return colors, f.err
}

func (c *CSVGraph) addVertex(f *csvFile) error {
	id := f.field(0)
	if id == "" {
		return f.fault("", "a vertex without an id")
	}
	if _, twice := c.vertex[id]; twice {
		return f.fault(id, "the id is given twice")
	}
	id = strings.Clone(id) // the field holds on to all of its row
	c.vertex[id] = len(c.IDs)
	c.IDs = append(c.IDs, id)
	return nil
}

// palette numbers colours.
type palette struct {
	names  []string
	places map[string]int
	fixed  bool
}

func newPalette(names []string) *palette {
	p := &palette{names: slices.Clone(names), places: make(map[string]int), fixed: names != nil}
	for i, name := range names {
		p.places[name] = i
	}
	return p
}

// number returns the number of a colour, or what is wrong with it.
func (p *palette) number(name string) (number int, reason string) {
	number, known := p.places[name]
	switch {
	case known:
		return number, ""
	case name == "":
		return 0, "no colour"
	case p.fixed:
		return 0, fmt.Sprintf("the colour is not one of %q", p.names)
	case len(p.names) == MaxOutputs:
		return 0, fmt.Sprintf("its colour is one too many; %d are possible", MaxOutputs)
	}
	name = strings.Clone(name)
	p.places[name] = len(p.names)
	p.names = append(p.names, name)
	return len(p.names) - 1, ""
}

// sort puts the names in order and renumbers colors.
func (p *palette) sort(colors []int) {
	sorted := slices.Sorted(slices.Values(p.names))
	renumbered := make([]int, len(sorted))
	for number, name := range sorted {
		renumbered[p.places[name]] = number
	}
	for v, color := range colors {
		colors[v] = renumbered[color]
	}
	p.names = sorted
}

func (c *CSVGraph) readEdges(r io.Reader) error {
	f, err := openCSV(r, "edges", c.vertex, "source", "target")
	if err != nil {
		return err
	}
	var pairs []uint64
	var lines lineNumbers
	for f.next() {
		source, target, err := c.ends(f)
		if err != nil {
			return err
		}
		pairs = append(pairs, uint64(source)<<32|uint64(target))
		lines.add(f.line)
	}
	if f.err != nil {
		return f.err
	}
	c.Graph = graphOf(len(c.IDs), pairs)
	if v, w, twice := c.Graph.parallel(); twice {
		number := secondOf(pairs, v, w)
		return &InputError{File: "edges", Line: lines.of(number), Edge: number, Vertex: c.IDs[v],
			Reason: "the edge is given twice"}
	}
	return nil
}

// ends returns the vertices of the edge in a row.
func (c *CSVGraph) ends(f *csvFile) (source, target int, err error) {
	var v [2]int
	for i := range v {
		number, known := c.vertex[f.field(i)]
		if !known {
			return 0, 0, f.fault(f.field(i), "its %s is not among the nodes", [2]string{"source", "target"}[i])
		}
		v[i] = number
	}
	if v[0] == v[1] {
		return 0, 0, f.fault(f.field(0), "an edge from a vertex to itself")
	}
	return v[0], v[1], nil
}

// ReadGiven reads what is given at some vertices, for [Extend], from a CSV file as [ReadCSV] reads
// them: with columns id, color and probability, the probability of that colour at that vertex, a
// decimal number in [0,1]. It is for two colours. It returns an [*InputError] as ReadCSV does, also
// for a vertex that is given twice, an unknown id or colour, and a probability that is not one; and
// [ErrInvalid] if the graph has more than two colours.
func (c *CSVGraph) ReadGiven(boundary io.Reader) ([]Given, error) {
	if len(c.Colors) != 2 {
		return nil, invalid("a boundary of %d colours; 2 are possible", len(c.Colors))
	}
	f, err := openCSV(boundary, "boundary", c.vertex, "id", "color", "probability")
	if err != nil {
		return nil, err
	}
	var given []Given
	seen := make(map[int]bool)
	for f.next() {
		h, err := c.givenIn(f)
		if err != nil {
			return nil, err
		}
		if seen[h.Vertex] {
			return nil, f.fault(f.field(0), "the id is given twice")
		}
		seen[h.Vertex] = true
		given = append(given, h)
	}
	if f.err != nil {
		return nil, f.err
	}
	return given, nil
}

// givenIn returns what a row gives.
func (c *CSVGraph) givenIn(f *csvFile) (Given, error) {
	v, known := c.vertex[f.field(0)]
	if !known {
		return Given{}, f.fault(f.field(0), "the id is not among the nodes")
	}
	output := slices.Index(c.Colors, f.field(1))
	if output < 0 {
		return Given{}, f.fault(f.field(0), "the colour is none of the nodes")
	}
	probability, err := strconv.ParseFloat(f.field(2), 64)
	hexadecimal := strings.ContainsAny(f.field(2), "xX")
	if err != nil || hexadecimal || !(probability >= 0 && probability <= 1) {
		return Given{}, f.fault(f.field(0), "the probability is not a number in [0,1]")
	}
	return Given{v, output, probability}, nil
}

// csvFile reads some columns of a CSV file.
type csvFile struct {
	name    string
	reader  *csv.Reader
	columns []int // by column asked for, its place in a row
	row     []string
	line    int // where row starts
	err     error
}

// openCSV reads the header.
//
// known are ids of vertices: a first row with one of them is no header.
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

// titles returns the columns of the header, which has been read, for an error: the first 20, and 40
// bytes of each. It returns "" if the row may be data, of a file without a header: an error has no
// cell of a file. The file is not used after that.
func (f *csvFile) titles(known map[string]int) string {
	const most, longest = 20, 40
	header, line := slices.Clone(f.row), f.line // the memory of the row is reused
	mayBeData := f.mayBeData(header, known)
	f.line = line
	if mayBeData {
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

// mayBeData reports whether the first row may be one of data: it has a number or something that is
// no title, the id of a vertex, or a cell that one of the next rows has, too, in any column.
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
	for n := 0; n < rows && f.next(); n++ {
		for _, cell := range f.row {
			if slices.Contains(header, cell) {
				return true
			}
		}
	}
	return false
}

// next reads a row. It returns false at the end of the file and after an error.
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

// field returns a column that was asked for.
func (f *csvFile) field(column int) string { return f.row[f.columns[column]] }

func (f *csvFile) fault(vertex, format string, args ...any) error {
	return &InputError{File: f.name, Line: f.line, Vertex: vertex, Reason: fmt.Sprintf(format, args...)}
}

// lineNumbers holds the line of each row. It takes space only where a row does not start on the
// line after the row before.
type lineNumbers struct {
	rows   int
	jumps  []lineJump
	latest int
}

type lineJump struct{ row, line int }

func (l *lineNumbers) add(line int) {
	l.rows++
	if line != l.latest+1 {
		l.jumps = append(l.jumps, lineJump{l.rows, line})
	}
	l.latest = line
}

// of returns the line of a row, which is numbered from 1.
func (l *lineNumbers) of(row int) int {
	after, _ := slices.BinarySearchFunc(l.jumps, row+1, func(j lineJump, row int) int { return j.row - row })
	if after == 0 {
		return 0
	}
	jump := l.jumps[after-1]
	return jump.line + row - jump.row
}
