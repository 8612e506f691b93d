package main

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/kit"
)

// sigmas is the number of real standard errors by which an estimate may differ. By chance alone,
// more happens less than once in 10⁹ times, including the skewness of the counts.
const sigmas = 7

// near fails unless two numbers differ by no more than a tolerance.
func near(t *testing.T, name string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: %v, not %v ± %v", name, got, want, tolerance)
	}
}

// The test computes all real values again, for every third person. The printed real values are
// equal to them, and the estimates agree with them.
func TestRun_EveryThirdPerson_EstimatesAgree(t *testing.T) {
	t.Chdir("../..")
	var out bytes.Buffer
	if err := run(t.Context(), &out, filepath.Join(t.TempDir(), "panel.db"), 3); err != nil {
		t.Fatal(err)
	}
	all, err := kit.ReadWages("testdata/cps1988_wages.csv", 3)
	if err != nil {
		t.Fatal(err)
	}
	for column, group := range groups() {
		wages := []float64{}
		for _, person := range all.People {
			if group(all.PartTime[person]) {
				wages = append(wages, all.Weekly[person])
			}
		}
		checkGroup(t, out.String(), column, wages)
	}
	for _, want := range []string{
		`The end of person 3 is "(low|high)", and stays the same\.`, `no-truth \(truth helps; the largest ε that would do is 2\); what budgets and terms allow is ε=2\nOnly the host learns that the value of \["3"\]`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
}

// checkGroup compares a column with the wages of a group.
func checkGroup(t *testing.T, output string, column int, wages []float64) {
	t.Helper()
	n := float64(len(wages))
	whole, clipped, square := 0.0, 0.0, 0.0
	for _, wage := range wages {
		x := min(wage, bound)
		whole, clipped, square = whole+wage/n, clipped+x/n, square+x*x/n
	}
	near(t, "real mean", cell(t, output, "real", column)[0], whole, 0.05)
	near(t, "clipped mean", cell(t, output, "real, clipped", column)[0], clipped, 0.05)
	for text, epsilon := range map[string]float64{"0.25": 0.25, "0.5": 0.5, "1": 1, "2": 2} {
		e := math.Exp(epsilon)
		stdErr := math.Sqrt((bound*bound*e/((e-1)*(e-1)) + bound*clipped - square) / n)
		got := cell(t, output, "at ε = "+text, column)
		near(t, "mean at "+text, got[0], clipped, 0.05+sigmas*stdErr)
		// The interval is for a larger population, from which all people were drawn; see
		// estimate.Mean. The tolerance allows for the effect of the estimated mean on the width,
		// for many people.
		if column == 0 {
			near(t, "width at "+text, 2*got[1], 2*1.96*stdErr, 0.15*2*1.96*stdErr)
		}
	}
}

// cell returns the numbers in a column of the row with a name.
func cell(t *testing.T, output, name string, column int) (numbers []float64) {
	t.Helper()
	for line := range strings.Lines(output) {
		cells, is := strings.CutPrefix(strings.TrimSpace(line), name+"  ")
		if !is {
			continue
		}
		all := regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(cells), -1)
		for text := range strings.SplitSeq(all[column], " ± ") {
			number, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, number)
		}
		return numbers
	}
	t.Fatalf("there is no row %q:\n%s", name, output)
	return nil
}

func TestRun_MissingData_ErrorSaysWhereToRun(t *testing.T) {
	t.Chdir(t.TempDir())
	err := run(t.Context(), new(bytes.Buffer), "panel.db", 1)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "top of the repository") {
		t.Errorf("error %v", err)
	}
}
