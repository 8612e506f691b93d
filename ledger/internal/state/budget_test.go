package state

import (
	"testing"

	"github.com/sluicedp/sluice/privacy"
)

// The sums are those of integers, limited to 0 and the largest ε.
func TestBudgetSums_StopAtZeroAndLargestEpsilon(t *testing.T) {
	largest := privacy.MaxEpsilon().Nano()
	epsilon := func(n int64) privacy.Epsilon {
		e, err := privacy.EpsilonFromNano(n)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	numbers := []int64{0, 1, 2, largest/2 - 1, largest / 2, largest/2 + 1, largest - 1, largest}
	for _, a := range numbers {
		if got := Below(epsilon(a)).Nano(); got != max(a-1, 0) {
			t.Errorf("below %d there is %d", a, got)
		}
		for _, b := range numbers {
			x, y := epsilon(a), epsilon(b)
			if got := Plus(x, y).Nano(); got != min(a+b, largest) {
				t.Errorf("%d + %d = %d", a, b, got)
			}
			if got := Minus(x, y).Nano(); got != max(a-b, 0) {
				t.Errorf("%d - %d = %d", a, b, got)
			}
			if low, high := Lower(x, y).Nano(), Higher(x, y).Nano(); low != min(a, b) || high != max(a, b) {
				t.Errorf("of %d and %d, %d is lower and %d higher", a, b, low, high)
			}
		}
	}
}
