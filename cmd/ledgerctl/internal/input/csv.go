package input

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// IDColumn says how objects are identified in a CSV file. A flag that was forgotten must not draw
// from another object: rows are numbered only when that is asked for.
type IDColumn struct {
	ID     string `flag:"id-column" default:"id"`  // "" for the number of the row, from 1
	ByRow  bool   `flag:"id-rows,not=id-column"`   // as if ID were ""
	Prefix string `flag:"id-prefix,needs=id-rows"` // comes before the numbers of rows
	Raw    bool   `flag:"raw-cells"`               // cells are taken as they are (see [plain])
}

// Columns says which columns of a CSV file to use.
type Columns struct {
	IDColumn
	Value string `flag:"value-column"` // "" for none
	// If Value is "", guess takes the column named like the question, or else the only one left
	// besides id, unless strict forbids the latter.
	guess    bool
	question string
	strict   bool
	Skipped  *int // if set, rows with nothing in the value column are left out and counted here
	Optional bool // a file without the value column is one without such rows
}

// Entry is one row of a CSV file. The value may be a true value: no error or message may contain
// it.
type Entry struct {
	Object string // its id
	value  string
	line   int
}

// maxRecord bounds one record of a CSV file, in bytes. A stray quote, or a file that is no CSV,
// then ends in an error rather than in memory.
const maxRecord = 1 << 20

var errRecordSize = errors.New("record too long")

// budget passes on at most left bytes; the reader of records renews it before each record.
type budget struct {
	in   io.Reader
	left int
}

// Read implements [io.Reader].
func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errRecordSize
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// sheet is a CSV file being read. No error of it contains anything of the file but line numbers:
// the id column, named by mistake, could be the one with the true values.
type sheet struct {
	file    string
	budget  *budget
	records *csv.Reader
	width   int            // columns
	id      int            // place of the id column, or absent
	value   int            // place of the value column, or absent
	line    int            // the last line read
	row     int            // data rows so far
	raw     bool           // cells are taken as they are
	prefix  string         // of the numbers of rows
	title   string         // of the id column
	first   map[string]int // the line of each id
}

const absent = -1

// readCSV yields the rows of a CSV file in order. In a file of a single column a blank line is a
// row with an empty field: otherwise filling it in later would shift the numbers of all rows after
// it. The iteration ends with the first error.
func readCSV(file string, in io.Reader, c Columns) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		s := newSheet(file, in)
		if err := s.readHeader(c); err != nil {
			yield(Entry{}, err)
			return
		}
		s.raw = c.Raw
		for {
			entries, err := s.next()
			for _, e := range entries {
				if c.Skipped != nil && s.value != absent && e.value == "" {
					*c.Skipped++
				} else if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				if err != io.EOF {
					yield(Entry{}, err)
				}
				return
			}
		}
	}
}

func newSheet(file string, in io.Reader) *sheet {
	s := &sheet{file: file, budget: &budget{in, maxRecord}, id: absent, value: absent, first: map[string]int{}}
	s.records = csv.NewReader(bufio.NewReaderSize(s.budget, 64<<10))
	s.records.ReuseRecord = true
	return s
}

func (s *sheet) fail(format string, args ...any) error {
	return output.InputError("", "%s: %w", s.file, fmt.Errorf(format, args...))
}

func (s *sheet) readHeader(c Columns) error {
	header, err := s.read()
	if err == io.EOF {
		return s.fail("the file is empty; its first row must name the columns")
	}
	if err != nil {
		return err
	}
	s.width, s.line = len(header), s.lastLine(header)
	if c.ByRow {
		c.ID = ""
	}
	s.title, s.prefix = c.ID, c.Prefix
	if err := ledger.CheckName("--id-prefix", c.Prefix+"1"); err != nil {
		return output.UsageError("", "%w", err)
	}
	if s.id, err = s.find(header, c.ID, idHint); err != nil {
		return err
	}
	if c.Optional && !slices.Contains(header, c.Value) {
		return nil
	}
	if s.value, err = s.find(header, c.Value, valueHint); err != nil {
		return err
	}
	if s.value == absent && c.guess {
		return s.guessValue(header, c)
	}
	if s.value != absent && s.value == s.id {
		return output.UsageError("",
			"column %q cannot hold both the ids and the values: ids are stored, true values never", c.ID)
	}
	return nil
}

const (
	idHint = "the first row must name the columns; --id-column names the one with the ids, and with --id-rows " +
		"the rows are numbered from 1"
	valueHint = "the first row must name the columns, in the same spelling"
)

// find returns the place of a named column.
func (s *sheet) find(header []string, name, hint string) (int, error) {
	place := absent
	if name == "" {
		return place, nil
	}
	for i, title := range header {
		if title != name {
			continue
		}
		if place != absent {
			return absent, s.fail("the header has column %q twice", name)
		}
		place = i
	}
	if place == absent {
		return absent, output.InputError(hint, "%s: the header has no column %q%s", s.file, name, s.otherTitles(header))
	}
	return place, nil
}

// mostTitles is how many columns an error lists, and mostTitle how many bytes of each.
const mostTitles, mostTitle = 20, 40

// otherTitles returns the columns that there are, for an error. It returns "" if the first row may
// be data, of a file without a header: if it has a number or something that is not a name, or if
// one of the next rows has the same in that column. The file is not used any more.
func (s *sheet) otherTitles(header []string) string {
	header = slices.Clone(header) // its memory is reused
	for _, title := range header {
		if isDecimal(title) || ledger.CheckName("column", title) != nil {
			return ""
		}
	}
	for range 1000 {
		record, err := s.read()
		if err != nil {
			break
		}
		for i, cell := range record {
			if i < len(header) && cell == header[i] {
				return ""
			}
		}
	}
	var titles []string
	for _, title := range header[:min(len(header), mostTitles)] {
		titles = append(titles, fmt.Sprintf("%.*q", mostTitle, title))
	}
	if more := len(header) - len(titles); more > 0 {
		titles = append(titles, fmt.Sprintf("%d more", more))
	}
	return "; it has " + strings.Join(titles, ", ")
}

// guessValue takes the column named like the question, or else the only one besides that of the
// ids.
func (s *sheet) guessValue(header []string, c Columns) (err error) {
	like := slices.Index(header, c.question)
	switch {
	case c.question != "" && like >= 0 && like != s.id:
		s.value, err = s.find(header, c.question, valueHint)
	case c.strict:
		err = output.InputError("--question "+c.question+" with --value-column COLUMN takes them from any column",
			"%s: the header has no column %q, which would have the true values of that question%s", s.file, c.question,
			s.otherTitles(header))
	case s.id == absent && s.width == 1:
		s.value = 0
	case s.id != absent && s.width == 2:
		s.value = 1 - s.id
	default:
		err = output.UsageError("", "%s has %d columns: --value-column must name the one with the true values%s",
			s.file, s.width, s.otherTitles(header))
	}
	return err
}

// next returns the row of the next record, after those of blank lines that count.
func (s *sheet) next() (entries []Entry, err error) {
	record, err := s.read()
	if err != nil {
		return nil, err
	}
	line, _ := s.records.FieldPos(0)
	for blank := s.line + 1; err == nil && s.width == 1 && blank < line; blank++ {
		entries, err = s.add(entries, []string{""}, blank)
	}
	if err == nil {
		entries, err = s.add(entries, record, line)
	}
	s.line = s.lastLine(record)
	return entries, err
}

// read returns the next record or [io.EOF].
func (s *sheet) read() ([]string, error) {
	s.budget.left = maxRecord
	record, err := s.records.Read()
	var syntax *csv.ParseError
	switch {
	case err == nil, err == io.EOF:
		return record, err
	case errors.Is(err, errRecordSize):
		return nil, s.fail("the row behind line %d is longer than %d bytes; is a quote not closed?", s.line, maxRecord)
	case errors.Is(err, csv.ErrFieldCount) && errors.As(err, &syntax):
		return nil, s.fail("line %d has %d fields where the header has %d", syntax.StartLine, len(record), s.width)
	case errors.As(err, &syntax):
		return nil, s.fail("line %d: %w", syntax.StartLine, syntax.Err)
	default:
		return nil, s.fail("%w", err)
	}
}

// lastLine returns the line on which a record just read ends.
func (s *sheet) lastLine(record []string) int {
	last := len(record) - 1
	line, _ := s.records.FieldPos(last)
	return line + strings.Count(record[last], "\n")
}

// add adds the row of a record.
func (s *sheet) add(to []Entry, record []string, line int) (_ []Entry, err error) {
	s.row++
	e := Entry{Object: s.prefix + strconv.Itoa(s.row), line: line}
	if s.id != absent {
		if e.Object, err = s.newID(s.text(record[s.id]), line); err != nil {
			return to, err
		}
	}
	if s.value != absent {
		e.value = s.text(record[s.value])
	}
	return append(to, e), nil
}

// text returns what a cell says.
func (s *sheet) text(cell string) string {
	if s.raw {
		return cell
	}
	return plain(cell)
}

// newID checks an id and returns a copy, so that it does not keep the record in memory.
func (s *sheet) newID(id string, line int) (string, error) {
	if id == "" {
		return "", s.fail("line %d: the id is empty", line)
	}
	if !utf8.ValidString(id) {
		return "", s.fail("line %d: the id is not UTF-8", line)
	}
	var name *api.NameError
	switch err := ledger.CheckName("id", id); {
	case errors.As(err, &name):
		return "", output.InputError("ids are compared byte by byte and taken as they are: correct the file; a "+
			"spreadsheet's CLEAN and TRIM help with blanks",
			"%s: line %d, column %q: the id has %s (byte %d)", s.file, line, s.title, name.Fault, name.Offset)
	case err != nil:
		return "", s.fail("line %d, column %q: the id has %d bytes, which is too long for a name", line, s.title,
			len(id))
	}
	if before, twice := s.first[id]; twice {
		return "", s.fail("line %d has the same id as line %d", line, before)
	}
	id = strings.Clone(id)
	s.first[id] = line
	return id, nil
}
