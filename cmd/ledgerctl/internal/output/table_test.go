package output

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluicedp/sluice/internal/check"
)

// aligned lays out a table whose cells have tabs between them.
func aligned(text string) string {
	var t Table
	for line := range strings.Lines(text) {
		var cells []any
		for _, one := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			cells = append(cells, one)
		}
		t.Row(cells...)
	}
	return t.String()
}

func TestTable_NarrowRows_AreAligned(t *testing.T) {
	got := aligned("a\tbb\nccc\td\n\nx\ty\tz\nno table\n")
	if want := "a    bb\nccc  d\n\nx  y  z\nno table\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTable_WideRows_FitHundredColumns(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("some words ", 30))
	columns := strings.TrimSuffix(strings.Repeat("COLUMN\t", 40), "\t")
	for title, text := range map[string]string{
		"long cells": "NAME\tε\n" + words + "\t0.5\n", "two": words + "\t" + words + "\n", "no table": words + "\n",
		"many columns":      columns + "\n" + strings.ReplaceAll(columns, "COLUMN", "123.45 EUR") + "\n",
		"many and long":     columns + "\n" + strings.ReplaceAll(columns, "COLUMN", words) + "\n",
		"not as many cells": columns + "\n" + words + "\tx\n",
		"indented":          "    " + words + "\tx\n",
		"wide letters":      strings.Repeat("éé ", 50) + "\tß\n",
	} {
		got := aligned(text)
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: %d columns: %s", title, n, line)
			}
		}
		letters := strings.NewReplacer(" ", "", "\n", "", "\t", "")
		if count := func(s string) int { return utf8.RuneCountInString(letters.Replace(s)) }; count(got) != count(text) {
			t.Errorf("%s: letters are lost in\n%s", title, got)
		}
	}
}

// A key, a path or a policy is on one line, so that it can be copied from the terminal.
func TestTable_LongWord_StaysWhole(t *testing.T) {
	key, path := strings.Repeat("AbC+", 40), "/"+strings.Repeat("directory/", 25)+"file.db"
	policy := `{"kind":"market","max":"2","buyers":["` + strings.Repeat("acme corp, of London ", 8) + `"]}`
	for _, word := range []string{key, path, policy} {
		texts := []string{word, "log key\t" + word, word + "\t" + word + "\tend"}
		if word != policy { // JSON is kept whole only if it is the whole text
			texts = append(texts, "of\t"+word+" (public)", strings.Repeat("few words ", 12)+word)
		}
		for _, text := range texts {
			got := aligned(text + "\n")
			check.That(t, strings.Count(got, word) == strings.Count(text, word), "%q is broken in\n%s", word, got)
		}
	}
}

func TestTable_LongCell_ContinuesInItsColumn(t *testing.T) {
	got := aligned("ann\t" + strings.TrimSpace(strings.Repeat("word ", 30)) + "\tend\n")
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "ann  word ") || !strings.HasSuffix(lines[0], " end") ||
		!strings.HasPrefix(lines[1], "     word ") || strings.Contains(lines[1], "end") {
		t.Errorf("got\n%s", got)
	}
}

// steering has characters that control a terminal or change the order of the text. invisible is the
// list of these characters.
const (
	invisible = "\x1b\a\u009b\r\n\v\u2028\u2029\u202e\u2066\u200f\u200b\ufeff\u00ad\U000e0041"
	steering  = "\x1b]0;x\a\u009b2J\r\n\v\u2028\u2029\u202e\u2066\u200f\u200b\ufeff\u00ad\U000e0041"
)

func TestTable_InvisibleCharacters_AreReplaced(t *testing.T) {
	var table Table
	table.Row("a"+steering+"b", []string{steering}, sum{7})
	table.Line("%s: c%s", steering, steering)
	Rows(&table, "text price", "E"+steering, []row{{Text: steering}})
	var f Fields
	f.Add("", "label"+steering, steering)
	f.Table(&table)
	for line := range strings.Lines(table.String()) {
		line = strings.TrimSuffix(line, "\n")
		check.That(t, !strings.ContainsAny(line, invisible), "%q", line)
	}
	check.That(t, strings.Count(table.String(), "\n") == 5, "a name ends a line: %q", table.String())
	if got := OneLine(" a\u200cb\u200dé\u00a0c\n"); got != "a\u200cb\u200dé\u00a0c" {
		t.Errorf("joiners and blanks are shown as %q", got)
	}
}
