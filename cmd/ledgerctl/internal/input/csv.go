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

// IDColumn are the flags for the ids of objects in a CSV file. Rows are numbered only if a flag
// requests it, because a forgotten flag must not draw from another object.
type IDColumn struct {
	ID     string `flag:"id-column" default:"id"`  // "" for the number of the row, from 1
	ByRow  bool   `flag:"id-rows,not=id-column"`   // as if ID were ""
	Prefix string `flag:"id-prefix,needs=id-rows"` // precedes the numbers of rows
	Raw    bool   `flag:"raw-cells"`               // cells are not unescaped (see [plain])
}

// Columns are the columns of a CSV file to use.
type Columns struct {
	IDColumn
	Value string `flag:"value-column"` // "" for none
	// If Value is "", guess selects the column with the name of the question, or else the only one
	// besides the ids. strict forbids the latter.
	guess    bool
	question string
	strict   bool
	Skipped  *int // if set, rows with an empty value are left out and counted here
	Optional bool // the file may have no value column; then no row is left out
}

// Entry is one row of a CSV file. The value may be a true value: no error or message may contain
// it.
type Entry struct {
	Object string // id of the object
	value  string
	line   int
}

// maxRecord is the largest size of one record of a CSV file, in bytes. It bounds the memory for a
// file with a stray quote, or one that is not CSV.
const maxRecord = 1 << 20

var errRecordSize = errors.New("record too long")

// budget is a reader that returns errRecordSize after left bytes. The sheet sets left to maxRecord
// before it reads a record.
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

// sheet is a CSV file that is being read. Its errors contain line numbers, but no cell: a wrong
// --id-column could name the column of the true values.
type sheet struct {
	file    string
	budget  *budget
	records *csv.Reader
	width   int            // number of columns
	id      int            // index of the id column, or absent
	value   int            // index of the value column, or absent
	line    int            // the last line read
	row     int            // number of data rows so far
	raw     bool           // cells are not unescaped
	prefix  string         // of the numbers of rows
	title   string         // of the id column
	first   map[string]int // the line of each id
}

const absent = -1

// readCSV yields the rows of a CSV file in order. The iteration ends with the first error.
//
// In a file of a single column, a blank line is a row with an empty field. If it were skipped, the
// numbers of all later rows would change once the field is filled in.
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

// newSheet returns a sheet of which nothing is read yet. file is its name in errors.
func newSheet(file string, in io.Reader) *sheet {
	s := &sheet{file: file, budget: &budget{in, maxRecord}, id: absent, value: absent, first: map[string]int{}}
	s.records = csv.NewReader(bufio.NewReaderSize(s.budget, 64<<10))
	s.records.ReuseRecord = true
	return s
}

// fail returns an error that begins with the name of the file.
func (s *sheet) fail(format string, args ...any) error {
	return output.InputError("", "%s: %w", s.file, fmt.Errorf(format, args...))
}

// readHeader reads the first row, and sets the indices of the columns of ids and of values. Either
// may be absent: without a column of ids, the rows are numbered.
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
	idHint = "the first row must name the columns; --id-column names the column of the ids, and with --id-rows " +
		"the rows are numbered from 1"
	valueHint = "the first row must name the columns, with the same spelling"
)

// find returns the index of the column with a name, or absent for the name "". If the header does
// not have the name, or has it twice, that is an error, with the hint.
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

// mostTitles is the largest number of columns that an error lists, and mostTitle the largest number
// of bytes of each.
const mostTitles, mostTitle = 20, 40

// otherTitles returns the titles of the columns, for an error. It returns "" if the first row may
// be data of a file without a header: if it has a number or a text that is not a name, or if one of
// the next rows has the same text in that column. The sheet cannot be read after the call.
func (s *sheet) otherTitles(header []string) string {
	header = slices.Clone(header) // s.read reuses its memory
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

// guessValue selects the column with the name of the question, or else the only one besides the
// ids.
func (s *sheet) guessValue(header []string, c Columns) (err error) {
	like := slices.Index(header, c.question)
	switch {
	case c.question != "" && like >= 0 && like != s.id:
		s.value, err = s.find(header, c.question, valueHint)
	case c.strict:
		err = output.InputError("--question "+c.question+" with --value-column COLUMN selects any column",
			"%s: the header has no column %q with the true values of the question of that name%s", s.file, c.question,
			s.otherTitles(header))
	case s.id == absent && s.width == 1:
		s.value = 0
	case s.id != absent && s.width == 2:
		s.value = 1 - s.id
	default:
		err = output.UsageError("", "%s has %d columns: --value-column must name the column of the true values%s",
			s.file, s.width, s.otherTitles(header))
	}
	return err
}

// next reads the next record, and returns its row. In a file of a single column, rows for the blank
// lines before it come first, because the reader of CSV skips these. At the end it returns
// [io.EOF].
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

// read returns the next record or [io.EOF]. The next call overwrites the record. Errors name the
// line.
func (s *sheet) read() ([]string, error) {
	s.budget.left = maxRecord
	record, err := s.records.Read()
	var syntax *csv.ParseError
	switch {
	case err == nil, err == io.EOF:
		return record, err
	case errors.Is(err, errRecordSize):
		return nil, s.fail("the row after line %d is longer than %d bytes; is a quote not closed?", s.line, maxRecord)
	case errors.Is(err, csv.ErrFieldCount) && errors.As(err, &syntax):
		return nil, s.fail("line %d has %d fields, and the header has %d", syntax.StartLine, len(record), s.width)
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

// add appends the row of a record, which begins on a line of the file, to a list.
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

// text returns the content of a cell.
func (s *sheet) text(cell string) string {
	if s.raw {
		return cell
	}
	return plain(cell)
}

// newID checks an id: it must be a valid name, and no earlier line may have it. It returns a copy,
// so that the id does not keep its record in memory.
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
		return "", output.InputError("ids are compared byte by byte: correct the file; CLEAN and TRIM of a "+
			"spreadsheet remove such characters",
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
