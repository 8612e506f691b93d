package output

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// member is a member of a struct as it is in JSON.
type member struct {
	key      string
	value    any
	isHidden bool // it is left out of JSON, because it is its zero value
}

// membersOf returns the members that a struct has in JSON, those of embedded structs among them.
func membersOf(v reflect.Value) (all []member) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			all = append(all, membersOf(v.Field(i))...)
		default:
			isHidden := strings.Contains(options, "omit") && v.Field(i).IsZero()
			all = append(all, member{name, v.Field(i).Interface(), isHidden})
		}
	}
	return all
}

// rowsOf returns the rows of a table about a struct: "key", or "key label", for each member to
// show. Lists are counted, amounts have the currency of the struct.
func rowsOf(value any, rows []string) (all []field) {
	if len(rows) == 0 {
		return nil
	}
	members := membersOf(reflect.ValueOf(value))
	for _, row := range rows {
		key, label, hasLabel := strings.Cut(row, " ")
		if !hasLabel {
			label = headOf(key)
		}
		i := slices.IndexFunc(members, func(m member) bool { return m.key == key })
		if i >= 0 && !members[i].isHidden {
			all = append(all, field{"", label, shown(members[i], currencyOf(members))})
		}
	}
	return all
}

// headOf is what people read in place of a key of JSON.
func headOf(key string) string {
	if key == "epsilon" {
		return "ε"
	}
	return strings.ReplaceAll(key, "_", " ")
}

func currencyOf(members []member) string {
	for _, m := range members {
		if text, is := m.value.(string); is && m.key == "currency" {
			return text
		}
	}
	return ""
}

// shown returns the value of a member as it is in a table.
func shown(m member, currency string) any {
	amounts := []string{"price", "revenue", "paid", "earned", "refund"}
	switch value := m.value.(type) {
	case string:
		return Brief(value)
	case int64:
		if slices.Contains(amounts, m.key) {
			return Money(value, currency)
		}
	}
	return m.value
}

// cell returns a value as it is in a table.
func cell(value any) any {
	if at, is := value.(time.Time); is {
		if at.IsZero() {
			return "-"
		}
		return Stamp(at)
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice {
		return v.Len()
	}
	return value
}

// Table is a result as people read it: lines of text, and rows of cells in columns. It is the only
// way to print a result, and escapes all that it is given: a name must not steer a terminal.
type Table struct {
	rows [][]string // a line of text is a row of one cell
}

// Row adds a row. Neighbouring rows share their columns.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, one := range cells {
		row[i] = escaped(fmt.Sprint(cell(one)))
	}
	t.rows = append(t.rows, row)
}

// Line adds a line of text. It ends the columns of the rows above it.
func (t *Table) Line(format string, args ...any) { t.Row(fmt.Sprintf(format, args...)) }

// Rows adds a table of structs: a column for each of the keys that they have in JSON, separated by
// blanks, or "key=HEAD". Amounts without a currency of their own are in the one that is given. It
// adds nothing, not even the heads, for no items.
func Rows[T any](t *Table, columns, currency string, items []T) {
	if len(items) == 0 {
		return
	}
	keys, heads := strings.Fields(columns), []any(nil)
	for i, column := range keys {
		key, head, hasHead := strings.Cut(column, "=")
		if !hasHead {
			head = headOf(key)
		}
		head = strings.ReplaceAll(strings.ToUpper(head), "Ε", "ε") // the capital of ε looks like an E
		keys[i], heads = key, append(heads, strings.ReplaceAll(head, "_", " "))
	}
	t.Row(heads...)
	for _, item := range items {
		cells := slices.Repeat([]any{""}, len(keys))
		members := membersOf(reflect.ValueOf(item))
		if own := currencyOf(members); own != "" {
			currency = own
		}
		for _, m := range members {
			if i := slices.Index(keys, m.key); i >= 0 && !m.isHidden {
				cells[i] = shown(m, currency)
			}
		}
		t.Row(cells...)
	}
}

const (
	tableWidth = 100 // the columns that a line of a table may have
	cellWidth  = 16  // a column of a table that is too wide is not made narrower than this
	columnGap  = 2   // between two columns
	foldIndent = 4   // before the columns of a row that do not fit on its first line
)

// String lays out the table in tableWidth columns. Cells that are too long go on below, within their
// column. Columns for which there is no place go on a line of their own. Only a word that is too
// long for its column makes a line longer.
func (t *Table) String() string {
	var out strings.Builder
	var rows [][]string
	for _, row := range t.rows {
		if len(row) > 1 {
			rows = append(rows, row)
			continue
		}
		alignRows(&out, rows)
		rows = nil
		out.WriteString(strings.Join(wrap(row[0], tableWidth), "\n") + "\n")
	}
	alignRows(&out, rows)
	return out.String()
}

func alignRows(out *strings.Builder, rows [][]string) {
	widths := columnWidths(rows)
	for _, row := range rows {
		indent := 0
		for from := 0; from < len(row); {
			to, end := from, indent-columnGap
			for to < len(row) && (to == from || end+columnGap+widths[to] <= tableWidth) {
				end += columnGap + widths[to]
				to++
			}
			alignCells(out, indent, row[from:to], widths[from:to])
			from, indent = to, foldIndent
		}
	}
}

// columnWidths returns the widths of the columns of a table: those of the longest cells, if these
// fit, and else the widest columns are made narrower.
func columnWidths(rows [][]string) (widths []int) {
	for _, row := range rows {
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], min(utf8.RuneCountInString(text), tableWidth-foldIndent-columnGap))
		}
	}
	total := -columnGap
	for _, width := range widths {
		total += columnGap + width
	}
	for ; total > tableWidth; total-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= cellWidth {
			break
		}
		widths[widest]--
	}
	return widths
}

// alignCells writes some cells beside each other, on as many lines as the longest of them takes.
func alignCells(out *strings.Builder, indent int, cells []string, widths []int) {
	columns, height := make([][]string, len(cells)), 0
	for i, text := range cells {
		columns[i] = wrap(text, widths[i])
		height = max(height, len(columns[i]))
	}
	for n := range height {
		line := strings.Repeat(" ", indent)
		for i, lines := range columns {
			text := ""
			if n < len(lines) {
				text = lines[n]
			}
			line += text + strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text))+columnGap)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// wrap breaks a text into lines of some width, at blanks. A word that is longer, and a text of JSON,
// stay whole, so that what is printed can be copied.
func wrap(text string, width int) (lines []string) {
	letters := []rune(text)
	for len(letters) > width && !json.Valid([]byte(text)) {
		indent, end := len(letters)-len([]rune(strings.TrimLeft(string(letters), " "))), 0
		for at, letter := range letters {
			if letter == ' ' && at > indent && (at <= width || end == 0) {
				end = at
			}
		}
		if end == 0 {
			break
		}
		lines, letters = append(lines, string(letters[:end])), letters[end+1:]
	}
	return append(lines, string(letters))
}
