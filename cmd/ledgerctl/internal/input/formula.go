package input

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formulaSigns begin what a spreadsheet runs as a formula. Some run their wide forms, too.
const formulaSigns = "=+-@\t\r\n＝＋－＠"

// runs reports whether a spreadsheet would run a cell as a formula. A plain number it only shows.
func runs(cell string) bool {
	first, _ := utf8.DecodeRuneInString(cell)
	return strings.ContainsRune(formulaSigns, first) && !isDecimal(cell)
}

func isDecimal(cell string) bool {
	_, err := strconv.ParseFloat(cell, 64)
	return err == nil && strings.Trim(cell, "0123456789.eE+-") == ""
}

// guarded puts an apostrophe before what a spreadsheet would run, and before what looks as if that
// had been done to it, so that plain(guarded(text)) is text, whatever it is.
func guarded(text string) string {
	if runs(strings.TrimLeft(text, "'")) {
		return "'" + text
	}
	return text
}

// plain takes off the apostrophe that guarded puts before a text, and changes nothing else.
func plain(cell string) string {
	if strings.HasPrefix(cell, "'") && runs(strings.TrimLeft(cell, "'")) {
		return cell[1:]
	}
	return cell
}

// RowWriter writes the rows of a CSV file.
type RowWriter struct {
	csv *csv.Writer
	raw bool // cells are written as they are
}

// Row writes one row.
func (w RowWriter) Row(cells ...string) error {
	if !w.raw {
		for i, text := range cells {
			cells[i] = guarded(text)
		}
	}
	return w.csv.Write(cells)
}

// SaveCSV has a file with a header and rows written. Raw cells are written as they are.
func (o *Output) SaveCSV(raw bool, write func(RowWriter) error) error {
	return o.Save(func(w io.Writer) error {
		out := RowWriter{csv.NewWriter(w), raw}
		if err := write(out); err != nil {
			return err
		}
		out.csv.Flush()
		return out.csv.Error()
	})
}
