package main

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/testenv"
)

// few is the number of births in the test, for speed.
const few = 20_000

// invented is the number of invented candidates.
const invented = 20

// The printed estimates agree with the true shares. Tolerances are 6.5 standard deviations or more,
// so each comparison fails by chance with a probability of at most about 10⁻¹⁰. The quick form has
// fewer candidates.
func TestRun_Estimates_AgreeWithTrueShares(t *testing.T) {
	t.Chdir("../..")
	var out bytes.Buffer
	listed := testenv.Tries(130, 500, 500)
	if err := run(&out, few, listed); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`20000 births of 2016 in the United States, drawn from 3637321\.`,
		`It sets 1 of 128 bits,\nby a public hash for each of 64 groups`, fmt.Sprintf(`commonest of %d candidates`, listed+invented), fmt.Sprintf(`%d candidates are made up`, invented),
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output lacks %q", want)
		}
	}
	checkNames(t, out.String())
	checkFound(t, out.String(), listed+invented)
	if t.Failed() {
		t.Log(out.String())
	}
}

// checkNames checks that no estimate differs from the real share by more than 7 standard errors,
// which are 3.6 times half an interval.
func checkNames(t *testing.T, out string) {
	t.Helper()
	rows := rows(out, `\S+`, `\d+\.\d+ %`, ` *-?\d+\.\d+ ± \d+\.\d+ % [* ]`, ` *-?\d+\.\d+ ± \d+\.\d+ % [* ]`,
		` *-?\d+\.\d+ ± \d+\.\d+ % [* ]`, ` *-?\d+\.\d+ ± \d+\.\d+ % [* ]`)
	if len(rows) != 12 {
		t.Fatalf("%d rows of names", len(rows))
	}
	for _, row := range rows {
		real := numbers(t, row[1])[0]
		for _, cell := range row[2:] {
			n := numbers(t, cell) // the estimate, and half its interval
			if math.Abs(n[0]-real) > 3.6*n[1] {
				t.Errorf("%s: %s, in truth %v", row[0], cell, real)
			}
		}
	}
}

// checkFound checks that the nearly independent intervals of the candidates cover 95 %, and that
// the errors are as large as stated: ± 6.5·0.96 % and ± 6.5·3.1 % with 520 candidates, and more
// with fewer. Any mark for an invented name has a probability of 5 %, so that more than 5 are next
// to impossible.
func checkFound(t *testing.T, out string, candidates int) {
	t.Helper()
	rows := rows(out, `ε = \d`, `\d+`, `\d+`, `\d+\.\d+ %`, `\d+\.\d+ %`, `\d+\.\d+ %`)
	if len(rows) != 4 {
		t.Fatalf("%d rows of what was found", len(rows))
	}
	wider := math.Sqrt(520 / float64(candidates))
	for _, row := range rows {
		n := numbers(t, strings.Join(row[2:], " ")) // made up, covered, error, stated
		if n[0] > 5 || n[1] < 95-6.5*wider || math.Abs(n[2]/n[3]-1) > 0.21*wider {
			t.Errorf("at %s: %q", row[0], row[1:])
		}
	}
	if found := numbers(t, rows[3][1])[0]; found < 1 {
		t.Errorf("nothing was found at ε=8")
	}
}

// rows returns the cells of the lines of out whose cells match the given expressions.
func rows(out string, cells ...string) [][]string {
	line := regexp.MustCompile(`(?m)^ *(` + strings.Join(cells, `) +(`) + `) *$`)
	var all [][]string
	for _, match := range line.FindAllStringSubmatch(out, -1) {
		all = append(all, match[1:])
	}
	return all
}

func numbers(t *testing.T, text string) (all []float64) {
	t.Helper()
	for _, number := range regexp.MustCompile(`-?\d+(\.\d+)?`).FindAllString(text, -1) {
		x, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

func TestRun_MissingData_ErrorSaysWhereToRun(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := run(new(bytes.Buffer), few, 500); err == nil || !strings.Contains(err.Error(), "top of the repository") {
		t.Errorf("error %v", err)
	}
}
