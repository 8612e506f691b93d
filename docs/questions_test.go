package docs

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// The table of how many questions a budget allows is what its formula gives: the largest k whose
// answers cost at most 10.
func TestManyQuestions_Table_AgreesWithFormula(t *testing.T) {
	page, err := os.ReadFile("howto/more-questions.md")
	if err != nil {
		t.Fatal(err)
	}
	const budget, delta = 10, 1e-6
	together := func(k, epsilon float64) float64 {
		return math.Sqrt(2*k*math.Log(1/delta))*epsilon + k*epsilon*math.Tanh(epsilon/2) // (e^ε−1)/(e^ε+1)
	}
	rows := 0
	for _, epsilon := range []float64{1, 0.5, 0.25, 0.1, 0.05, 0.01} {
		sum := math.Floor(budget/epsilon + 1e-9)
		advanced := 0.
		for together(advanced+1, epsilon) <= budget {
			advanced++
		}
		row := fmt.Sprintf("| %v | %v | %v | %v |", epsilon, sum, advanced, math.Round(max(sum, advanced)*epsilon*1e6)/1e6)
		if !strings.Contains(string(page), "\n"+row+"\n") {
			t.Errorf("the page has no row %s", row)
		}
		rows++
	}
	if n := strings.Count(string(page), "\n| 0") + strings.Count(string(page), "\n| 1 "); n != rows {
		t.Errorf("the table has %d rows, want %d", n, rows)
	}
	// Where the one begins to be better than the other.
	if k := math.Floor(budget / 0.28); together(k, 0.28) <= budget {
		t.Error("at ε = 0.28 advanced composition is at least as good")
	}
}
