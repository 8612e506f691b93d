package survey_test

import (
	"slices"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/survey"
)

// The numbers are those of testdata/README.md.
func TestHealth(t *testing.T) {
	health, err := survey.ReadHealth("../../../testdata/health_insurance_1996.csv", 1)
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string][]int64{survey.Insured: {7052, 1750}, survey.Healthy: {8173, 629}} {
		if got := health.Counts(question, health.People); !slices.Equal(got, want) {
			t.Errorf("%s: %v, not %v", question, got, want)
		}
	}
	for region, want := range map[string]int{"midwest": 2023, "northeast": 1682, "south": 3075, "west": 2022} {
		if got := len(health.Members(region)); got != want {
			t.Errorf("%s: %d people, not %d", region, got, want)
		}
	}
	if got := health.Regions(); len(got) != 4 || !slices.IsSorted(got) {
		t.Errorf("regions %v", got)
	}
}
