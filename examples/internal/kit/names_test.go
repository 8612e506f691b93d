package kit_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/kit"
)

// The numbers are those of testdata/README.md.
func TestReadNames_BabyNames_HaveKnownCounts(t *testing.T) {
	all, err := kit.ReadNames("../../../testdata/us_baby_names_2016.csv")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 30_294 || kit.Births(all) != 3_637_321 {
		t.Errorf("%d names of %d births", len(all), kit.Births(all))
	}
	want := []kit.Name{{"Emma", 19_432}, {"Olivia", 19_261}, {"Noah", 19_146}, {"Liam", 18_157}, {"Ava", 16_247}}
	for i, name := range want {
		if all[i] != name {
			t.Errorf("number %d is %v, not %v", i+1, all[i], name)
		}
	}
}

func TestDrawBirths_FixedSeed_FollowsTheShares(t *testing.T) {
	all := []kit.Name{{"Emma", 75}, {"Noah", 25}}
	drawn := kit.DrawBirths(all, 100_000)
	if again := kit.DrawBirths(all, 100_000); !slices.Equal(drawn, again) {
		t.Error("two draws are different")
	}
	shares := kit.NameShares(drawn)
	if len(shares) != 2 || math.Abs(shares["Emma"]-0.75) > 0.01 || math.Abs(shares["Noah"]-0.25) > 0.01 {
		t.Errorf("shares %v", shares)
	}
}

func TestInventedNames_BabyNames_LackThem(t *testing.T) {
	all, err := kit.ReadNames("../../../testdata/us_baby_names_2016.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, invented := range kit.InventedNames() {
		if slices.ContainsFunc(all, func(n kit.Name) bool { return n.Name == invented }) {
			t.Errorf("children are called %s", invented)
		}
	}
}

func TestReadNames_InvalidFiles_AreRefused(t *testing.T) {
	for content, says := range map[string]string{
		"":                               "no columns",
		"name,sex,count\n":               "no names",
		"name,count\nEmma,5\n":           "no columns",
		"name,sex,count\nEmma,F,many\n":  `"many" is not a count`,
		"name,sex,count\nEmma,F,0\n":     `"0" is not a count`,
		"name,sex,count\nEmma,F,1,2,3\n": "wrong number of fields",
	} {
		path := filepath.Join(t.TempDir(), "names.csv")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := kit.ReadNames(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error %v", content, err)
		}
	}
	if _, err := kit.ReadNames("nowhere.csv"); err == nil || !strings.Contains(err.Error(), "top of the repository") {
		t.Errorf("a missing file: %v", err)
	}
}
