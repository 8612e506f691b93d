package input

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formulaSigns are the first characters of cells that a spreadsheet runs as a formula. Some
// spreadsheets also accept the wide forms.
const formulaSigns = "=+-@\t\r\n＝＋－＠"

// isFormula reports whether a spreadsheet would run a cell as a formula. Numbers are not formulas.
func isFormula(cell string) bool {
	first, _ := utf8.DecodeRuneInString(cell)
	return strings.ContainsRune(formulaSigns, first) && !isDecimal(cell)
}

// isDecimal reports whether a cell is a number in decimal digits, such as -1.5e3. ParseFloat also
// accepts words such as "Inf" and hexadecimal digits, which the second condition excludes.
func isDecimal(cell string) bool {
	_, err := strconv.ParseFloat(cell, 64)
	return err == nil && strings.Trim(cell, "0123456789.eE+-") == ""
}

// guarded returns text with an apostrophe before a formula, so that no spreadsheet runs it. It also
// adds one before apostrophes followed by a formula, so that plain(guarded(text)) == text for every
// text.
func guarded(text string) string {
	if isFormula(strings.TrimLeft(text, "'")) {
		return "'" + text
	}
	return text
}

// plain removes the apostrophe that guarded adds, and changes nothing else.
func plain(cell string) string {
	if strings.HasPrefix(cell, "'") && isFormula(strings.TrimLeft(cell, "'")) {
		return cell[1:]
	}
	return cell
}

// RowWriter writes the rows of a CSV file.
type RowWriter struct {
	csv *csv.Writer
	raw bool // formulas are not guarded
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

// SaveCSV writes a CSV file with write, and commits it. If raw is set, formulas are not guarded.
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
