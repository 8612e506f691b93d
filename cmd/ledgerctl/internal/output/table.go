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

// member is a member of a struct in JSON.
type member struct {
	key      string
	value    any
	isHidden bool // omitted in JSON, because it is the zero value
}

// membersOf returns the members of a struct in JSON, including those of embedded structs.
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

// rowsOf returns the rows of a table about a struct. Each row is given as "key" or "key label".
// Lists are shown as their lengths, and amounts with the currency of the struct.
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

// headOf returns the label in a table for a key in JSON.
func headOf(key string) string {
	if key == "epsilon" {
		return "ε"
	}
	return strings.ReplaceAll(key, "_", " ")
}

// currencyOf returns the member "currency" of a struct, or "".
func currencyOf(members []member) string {
	for _, m := range members {
		if text, is := m.value.(string); is && m.key == "currency" {
			return text
		}
	}
	return ""
}

// shown returns the value of a member for a table: amounts of money with their currency, long
// responses shortened, and other values as they are.
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

// cell returns a value for a cell of a table: a time in RFC 3339 ("-" for the zero time), a slice
// as its length, and other values as they are.
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

// Table is a result for people: lines of text, and rows of cells in columns. All results are
// printed through a Table, which escapes control characters, because a name must not control the
// terminal.
type Table struct {
	rows [][]string // a line of text is a row of one cell
}

// Row adds a row. Adjacent rows share their columns.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, one := range cells {
		row[i] = escaped(fmt.Sprint(cell(one)))
	}
	t.rows = append(t.rows, row)
}

// Line adds a line of text. It ends the columns of the rows above it.
func (t *Table) Line(format string, args ...any) { t.Row(fmt.Sprintf(format, args...)) }

// Rows adds a table of structs. columns has a key in JSON for each column, or "key=HEAD", separated
// by spaces. Amounts have the currency of their struct, or else the given one. Without items, Rows
// adds nothing.
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
	tableWidth = 100 // largest width of a line
	cellWidth  = 16  // smallest width to which a column is narrowed
	columnGap  = 2   // spaces between two columns
	foldIndent = 4   // spaces before the columns of a row that do not fit on its first line
)

// String formats the table with lines of up to tableWidth characters. Long cells continue on the
// next line in their column. Columns that do not fit are on a line of their own. Only a word that
// is longer than its column makes a line longer.
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

// alignRows writes adjacent rows with aligned columns. Of each row it puts as many columns on a
// line as fit, and the others on further lines, which are indented.
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

// columnWidths returns the widths of the columns of a table: those of the longest cells if they
// fit, and otherwise less for the widest columns.
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

// alignCells writes cells side by side, on as many lines as the longest of them needs.
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

// wrap breaks a text at spaces into lines of at most width characters. A longer word, and a text of
// JSON, is not broken, so that it can be copied from the terminal. Spaces that begin a line are
// kept as its indentation.
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
