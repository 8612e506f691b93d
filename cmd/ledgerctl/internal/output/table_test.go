package output

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAlign_NarrowTable_IsAligned(t *testing.T) {
	got := align("a\tbb\nccc\td\n\nx\ty\tz\nno table\n")
	if want := "a    bb\nccc  d\n\nx  y  z\nno table\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAlign_WideTable_FitsHundredColumns(t *testing.T) {
	name := strings.Repeat("long-name-", 30)
	words := strings.TrimSpace(strings.Repeat("some words ", 30))
	columns := strings.TrimSuffix(strings.Repeat("COLUMN\t", 40), "\t")
	for title, text := range map[string]string{
		"a long name": "NAME\tε\n" + name + "\t0.5\n", "two": name + "\t" + words + "\n", "no table": words + "\n",
		"many columns":      columns + "\n" + strings.ReplaceAll(columns, "COLUMN", "123.45 EUR") + "\n",
		"many and long":     columns + "\n" + strings.ReplaceAll(columns, "COLUMN", name) + "\n",
		"not as many cells": columns + "\n" + name + "\tx\n",
		"wide letters":      strings.Repeat("é", 150) + "\tß\n",
	} {
		got := align(text)
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

func TestAlign_LongCell_GoesOnInItsColumn(t *testing.T) {
	got := align(fmt.Sprintf("ann\t%s\tend\n", strings.TrimSpace(strings.Repeat("word ", 30))))
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "ann  word ") || !strings.HasSuffix(lines[0], " end") ||
		!strings.HasPrefix(lines[1], "     word ") || strings.Contains(lines[1], "end") {
		t.Errorf("got\n%s", got)
	}
}
