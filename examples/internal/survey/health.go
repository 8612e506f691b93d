package survey

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// The questions of [Health]. Both are answered by [Yes] or [No].
const (
	Insured = "insured"
	Healthy = "healthy"
)

// The answers to the questions of [Health].
const (
	Yes = "yes"
	No  = "no"
)

// Health is what the host of the survey of health insurance in the United States of 1996 knows. People
// are named by the number of their row.
type Health struct {
	People []string                     // in the order of the file
	Region map[string]string            // by person
	answer map[string]map[string]string // by question and person
}

// ReadHealth reads every n-th person of the survey from a CSV file.
func ReadHealth(path string, n int) (Health, error) {
	h := Health{Region: map[string]string{}, answer: map[string]map[string]string{Insured: {}, Healthy: {}}}
	rows, err := columns(path, "region", "insurance", "health")
	if err != nil {
		return h, err
	}
	for i, row := range rows {
		if (i+1)%n != 0 {
			continue
		}
		person := strconv.Itoa(i + 1)
		h.People = append(h.People, person)
		h.Region[person], h.answer[Insured][person], h.answer[Healthy][person] = row[0], row[1], row[2]
		for question, answers := range h.answer {
			if answer := answers[person]; answer != Yes && answer != No {
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
func (h Health) Truth(_ context.Context, question string, people []string) ([]string, error) {
	answers := make([]string, len(people))
	for i, person := range people {
		answers[i] = h.answer[question][person]
	}
	return answers, nil
}

// Regions returns the regions in the order of the alphabet.
func (h Health) Regions() []string {
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
func (h Health) Members(region string) (people []string) {
	for _, person := range h.People {
		if h.Region[person] == region {
			people = append(people, person)
		}
	}
	return people
}

// Counts returns how many of some people really answer a question with [Yes], and with [No].
func (h Health) Counts(question string, people []string) []int64 {
	yes := int64(0)
	for _, person := range people {
		if h.answer[question][person] == Yes {
			yes++
		}
	}
	return []int64{yes, int64(len(people)) - yes}
}
