package market

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// The questions of [health]. Both are answered by [yes] or [no].
const (
	insured = "insured"
	healthy = "healthy"
)

// The answers to the questions of [health].
const (
	yes = "yes"
	no  = "no"
)

// health is what the host of the survey of health insurance in the United States of 1996 knows. People
// are named by the number of their row.
type health struct {
	People []string                     // in the order of the file
	Region map[string]string            // by person
	answer map[string]map[string]string // by question and person
}

// readHealth reads every n-th person of the survey from a CSV file.
func readHealth(path string, n int) (health, error) {
	h := health{Region: map[string]string{}, answer: map[string]map[string]string{insured: {}, healthy: {}}}
	text, err := os.ReadFile(path)
	if err != nil {
		return h, err
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 {
		return h, fmt.Errorf("%s: %d rows: %w", path, len(rows), err)
	}
	places := []int{slices.Index(rows[0], "region"), slices.Index(rows[0], "insurance"), slices.Index(rows[0], "health")}
	if slices.Contains(places, -1) {
		return h, fmt.Errorf("%s: the columns are %v", path, rows[0])
	}
	for i, row := range rows[1:] {
		if (i+1)%n != 0 {
			continue
		}
		person := strconv.Itoa(i + 1)
		h.People = append(h.People, person)
		h.Region[person], h.answer[insured][person], h.answer[healthy][person] = row[places[0]], row[places[1]], row[places[2]]
		for question, answers := range h.answer {
			if answer := answers[person]; answer != yes && answer != no {
				return h, fmt.Errorf("%s: row %d: %q is no answer to %q", path, i+1, answer, question)
			}
		}
	}
	if len(h.People) == 0 {
		return h, fmt.Errorf("%s has nobody in it", path)
	}
	return h, nil
}

// Truth is the only way from the survey into the ledger.
func (h health) Truth(_ context.Context, question string, people []string) ([]string, error) {
	answers := make([]string, len(people))
	for i, person := range people {
		answers[i] = h.answer[question][person]
	}
	return answers, nil
}

// Regions returns the regions in the order of the alphabet.
func (h health) Regions() []string {
	var all []string
	for _, person := range h.People {
		if region := h.Region[person]; !slices.Contains(all, region) {
			all = append(all, region)
		}
	}
	slices.Sort(all)
	return all
}

// Members returns the people of a region.
func (h health) Members(region string) (people []string) {
	for _, person := range h.People {
		if h.Region[person] == region {
			people = append(people, person)
		}
	}
	return people
}

// Counts returns how many of some people really answer a question with [yes], and with [no].
func (h health) Counts(question string, people []string) []int64 {
	count := int64(0)
	for _, person := range people {
		if h.answer[question][person] == yes {
			count++
		}
	}
	return []int64{count, int64(len(people)) - count}
}

// The numbers are those of testdata/README.md.
func TestHealth(t *testing.T) {
	all := check.Value(readHealth(data, 1))(t)
	for question, want := range map[string][]int64{insured: {7052, 1750}, healthy: {8173, 629}} {
		if got := all.Counts(question, all.People); !slices.Equal(got, want) {
			t.Errorf("%s: %v, not %v", question, got, want)
		}
	}
	for region, want := range map[string]int{"midwest": 2023, "northeast": 1682, "south": 3075, "west": 2022} {
		if got := len(all.Members(region)); got != want {
			t.Errorf("%s: %d people, not %d", region, got, want)
		}
	}
	if got := all.Regions(); len(got) != 4 || !slices.IsSorted(got) {
		t.Errorf("regions %v", got)
	}
}
