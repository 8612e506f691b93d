package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each row is measured on both sides, here of the same checkout.
func TestRun_SameCheckoutTwice_MeasuresEachRow(t *testing.T) {
	sluice := filepath.Join("..", "..")
	args := []string{
		"-before", sluice, "-after", sluice, "-rounds", "2", "-people", "100", "-releases", "100", "-rest", "0",
		"-dir", t.TempDir(),
	}
	o, err := parseOptions(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	// Times of so little work mean nothing, so a row may be too slow.
	if err := run(t.Context(), o, &out, io.Discard); err != nil && !strings.Contains(err.Error(), "slower:") {
		t.Fatal(err)
	}
	for _, r := range o.rows() {
		if !strings.Contains(out.String(), "\n| "+r.what+" | ") {
			t.Errorf("the row %q is missing in\n%s", r.what, &out)
		}
	}
}

// some is what nine rounds have found of a row: after the change it takes 1.2 times as long.
func some() results {
	r := row{"x", "some work"}
	found := results{rows: []row{r}, turns: map[row]*[2][]turn{r: {}}}
	for i := range 9 {
		nanos := time.Duration(1000 + 10*i)
		found.turns[r][0] = append(found.turns[r][0], turn{nanos, nanos, 4})
		found.turns[r][1] = append(found.turns[r][1], turn{nanos * 12 / 10, nanos, 4})
	}
	return found
}

func TestText_HasRatiosOfMedians(t *testing.T) {
	const want = "| some work | 1.04 µs | 1.25 µs | 1.200 | 1.20 – 1.20 | 1.000 | 1.000 |\n"
	if got := some().text(); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s", got)
	}
}

func TestVerdict_SlowerRow_IsNamed(t *testing.T) {
	found := some()
	if err := found.verdict(); err == nil || err.Error() != "more than 5 % slower: some work (1.200)" {
		t.Errorf("got %v", err)
	}
	found.turns[found.rows[0]][1] = found.turns[found.rows[0]][0]
	if err := found.verdict(); err != nil {
		t.Errorf("the same times: %v", err)
	}
}

func TestMedianOf_EvenNumber_IsBetween(t *testing.T) {
	if got := medianOf([]turn{{Wall: 4}, {Wall: 1}, {Wall: 2}, {Wall: 9}}, wall); got != 3 {
		t.Errorf("%v, want 3", got)
	}
}

func TestParseOptions_RefusesNonsense(t *testing.T) {
	for _, args := range [][]string{
		{}, {"-before", "x", "more"}, {"-before", "x", "-rounds", "0"}, {"-before", "x", "-only", "nothing"}, {"-before", "x", "-only", "("},
	} {
		if _, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
