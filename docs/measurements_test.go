package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// measurements are the tables of lab/measurements.md, which the programs of the lab write.
type measurements map[string]*measuredTable

// measuredTable is a table. Its rows are found by their first cell, and those of the large table by
// two: the path, and the label that distinguishes it from others of its path.
type measuredTable struct {
	columns []string
	names   []string // of rows, in their order
	rows    map[string][]string
}

var (
	sectionStart = regexp.MustCompile(`^<!-- (?:measured: |from )(.*) -->$`)
	sectionEnd   = regexp.MustCompile(`^<!-- end of .* -->$`)
	fact         = regexp.MustCompile(`^- ([^:]+): (.*)$`)
	inBrackets   = regexp.MustCompile(`^(.*) \((.*)\)$`)
)

// readMeasurements reads all tables. The second table of a section is called "SECTION 2", and so
// on.
func readMeasurements(t *testing.T) measurements {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "lab", "measurements.md"))
	must(t, err)
	return parseMeasurements(t, string(text))
}

func parseMeasurements(t *testing.T, text string) measurements {
	t.Helper()
	found := measurements{}
	section, table := "", (*measuredTable)(nil)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch start := sectionStart.FindStringSubmatch(line); {
		case start != nil:
			section, table = start[1], nil
		case sectionEnd.MatchString(line):
			section, table = "", nil
		case section == "" || strings.HasPrefix(line, "|---"):
		case strings.HasPrefix(line, "|") && table == nil:
			table = &measuredTable{columns: cells(line), rows: map[string][]string{}}
			found[found.freeName(section)] = table
		case strings.HasPrefix(line, "|"):
			table.add(t, cells(line))
		default:
			table = nil
			found.addFact(section, line)
		}
	}
	return found
}

// addFact adds a line of a list as a row of one cell.
func (m measurements) addFact(section, line string) {
	match := fact.FindStringSubmatch(line)
	if match == nil {
		return
	}
	if name := section + " facts"; m[name] == nil {
		m[name] = &measuredTable{columns: []string{"", "value"}, rows: map[string][]string{}}
	}
	facts := m[section+" facts"]
	facts.names = append(facts.names, match[1])
	facts.rows[match[1]] = []string{match[1], match[2]}
}

// freeName is the name of the next table of a section.
func (m measurements) freeName(section string) string {
	name := section
	for n := '2'; m[name] != nil; n++ {
		name = section + " " + string(n)
	}
	return name
}

func cells(line string) []string {
	all := strings.Split(strings.Trim(line, "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// add adds a row. ″ repeats the cell above. A first cell that begins with … belongs to the last one
// that does not, and is called "FIRST: REST".
func (m *measuredTable) add(t *testing.T, row []string) {
	t.Helper()
	if len(row) != len(m.columns) {
		t.Fatalf("measurements: %d cells, want %d: %v", len(row), len(m.columns), row)
	}
	if row[0] == "″" {
		above := m.rows[m.names[len(m.names)-1]]
		row[0] = above[0]
	} else if rest, is := strings.CutPrefix(row[0], "… "); is {
		above := m.rows[m.names[len(m.names)-1]][0]
		first, _, _ := strings.Cut(above, ": ")
		row[0] = first + ": " + rest
	}
	name := row[0]
	if m.columns[0] == "path" {
		name += " | " + row[1]
	}
	if m.rows[name] != nil {
		t.Fatalf("measurements: the row %q is there twice", name)
	}
	m.names = append(m.names, name)
	m.rows[name] = row
}

// of returns a cell, without what is in brackets after it.
func (m measurements) of(t *testing.T, table, row, column string) string {
	t.Helper()
	value, _ := m.split(t, table, row, column)
	return value
}

// ratio returns what is in brackets in a cell.
func (m measurements) ratio(t *testing.T, table, row, column string) string {
	t.Helper()
	_, ratio := m.split(t, table, row, column)
	if ratio == "" {
		t.Fatalf("measurements: %s, %q, %q has no ratio", table, row, column)
	}
	return ratio
}

func (m measurements) split(t *testing.T, table, row, column string) (value, ratio string) {
	t.Helper()
	of := m[table]
	if of == nil {
		t.Fatalf("measurements: no table %q", table)
	}
	at := slices.Index(of.columns, column)
	if of.rows[row] == nil || at < 0 {
		t.Fatalf("measurements: table %q has no row %q with a column %q; it has %q, %q", table, row, column, of.names,
			of.columns)
	}
	value = of.rows[row][at]
	if match := inBrackets.FindStringSubmatch(value); match != nil {
		value, ratio = match[1], match[2]
	}
	return strings.TrimSuffix(value, "/s"), ratio
}

func TestParseMeasurements_EachKindOfRow_IsFound(t *testing.T) {
	m := parseMeasurements(t, `
<!-- measured: table -->
| path | | measured | met? |
|---|---|---:|---|
| one | a | 1 | yes |
| ″ | b | 2,000 | **no** |
| … memory | a | 3 | yes |
| … waits | a | 4 | yes |
<!-- end of table -->
<!-- from lab/x -->
- disk: fast: 5µs

| | A |
|---|---|
| r | 6/s (0.7) |

| | A |
|---|---|
| r | 8 |
<!-- end of lab/x -->
| not | measured |
`)
	for _, test := range []struct{ table, row, column, want string }{
		{"table", "one | a", "measured", "1"},
		{"table", "one | b", "measured", "2,000"},
		{"table", "one: memory | a", "measured", "3"},
		{"table", "one: waits | a", "measured", "4"},
		{"lab/x facts", "disk", "value", "fast: 5µs"},
		{"lab/x", "r", "A", "6"},
		{"lab/x 2", "r", "A", "8"},
	} {
		if got := m.of(t, test.table, test.row, test.column); got != test.want {
			t.Errorf("%s, %s: %q, want %q", test.table, test.row, got, test.want)
		}
	}
	if got := m.ratio(t, "lab/x", "r", "A"); got != "0.7" || len(m) != 4 {
		t.Errorf("the ratio is %q, and there are %d tables", got, len(m))
	}
}
