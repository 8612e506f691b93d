package kit_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/kit"
)

const wagesFile = "../../../testdata/cps1988_wages.csv"

// The numbers are those of testdata/README.md.
func TestReadWages_Survey_HasKnownMeans(t *testing.T) {
	wages, err := kit.ReadWages(wagesFile, 1)
	if err != nil {
		t.Fatal(err)
	}
	sum, partTime := 0.0, 0
	for _, person := range wages.People {
		sum += wages.Weekly[person]
		if wages.PartTime[person] {
			partTime++
		}
	}
	if n := len(wages.People); n != 28155 || partTime != 2524 || math.Abs(sum/float64(n)-603.7268) > 0.00005 {
		t.Errorf("%d people, %d part-time, mean wage %v", n, partTime, sum/float64(n))
	}
	full := wages.Mean(math.Inf(1), func(partTime bool) bool { return !partTime })
	part := wages.Mean(math.Inf(1), func(partTime bool) bool { return partTime })
	if all := (25631*full + 2524*part) / 28155; math.Abs(all-603.7268) > 0.00005 || wages.Mean(1, func(bool) bool { return true }) != 1 {
		t.Errorf("the means are %v and %v, which makes %v", full, part, all)
	}
	if got := wages.Of([]string{"4", "1"}); !slices.Equal(got, []float64{754.94, 354.94}) {
		t.Errorf("the wages of persons 4 and 1 are %v", got)
	}
}

func TestReadWages_EveryNthPerson_IsRead(t *testing.T) {
	wages, err := kit.ReadWages(wagesFile, 10000)
	if err != nil || !slices.Equal(wages.People, []string{"10000", "20000"}) {
		t.Errorf("%v, %v", wages.People, err)
	}
	for _, n := range []int{-1, 0, 28156} {
		if wages, err := kit.ReadWages(wagesFile, n); err == nil {
			t.Errorf("every %d-th person: %v", n, wages.People)
		}
	}
}

func TestReadWages_InvalidRows_AreRefused(t *testing.T) {
	for name, row := range map[string]string{
		"no number": "much,no", "nothing": ",no", "negative": "-1,no", "NaN": "NaN,no", "no answer": "100,maybe",
	} {
		path := filepath.Join(t.TempDir(), "wages.csv")
		if err := os.WriteFile(path, []byte("wage,parttime\n"+row+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if wages, err := kit.ReadWages(path, 1); err == nil {
			t.Errorf("%s: read as %v", name, wages)
		}
	}
}
