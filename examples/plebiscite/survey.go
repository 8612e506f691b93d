package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// votes are the values of the question, in the order of the tables.
func votes() []string { return []string{"N", "Y", "U", "A"} }

func voteName(vote string) string {
	return map[string]string{"N": "no", "Y": "yes (Pinochet)", "U": "undecided", "A": "abstain"}[vote]
}

func regionName(region string) string {
	return map[string]string{"C": "Central", "M": "Metropolitan area", "N": "North", "S": "South", "SA": "City of Santiago"}[region]
}

// survey is what the host knows. People are named by the number of their row.
type survey struct {
	people []string
	vote   map[string]string
	region map[string]string
	silent int
}

func readSurvey(path string) (survey, error) {
	s := survey{vote: map[string]string{}, region: map[string]string{}}
	file, err := os.Open(path)
	if err != nil {
		return s, fmt.Errorf("%w (run from the top of the repository, or give -data FILE)", err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return s, err
	}
	region, vote := slices.Index(rows[0], "region"), slices.Index(rows[0], "vote")
	if region < 0 || vote < 0 {
		return s, fmt.Errorf("%s: no columns region and vote", path)
	}
	for i, row := range rows[1:] {
		person := strconv.Itoa(i + 1)
		if row[vote] == "" {
			s.silent++
			continue
		}
		s.people = append(s.people, person)
		s.vote[person], s.region[person] = row[vote], row[region]
	}
	return s, nil
}

// truth is the only way from the survey into the ledger.
func (s survey) truth(_ context.Context, _ string, people []string) ([]string, error) {
	votes := make([]string, len(people))
	for i, person := range people {
		votes[i] = s.vote[person]
	}
	return votes, nil
}

// regions returns the regions from the smallest to the largest.
func (s survey) regions() []string {
	var all []string
	for _, region := range s.region {
		if !slices.Contains(all, region) {
			all = append(all, region)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return s.size(a) - s.size(b) })
	return all
}

func (s survey) size(region string) (n int) {
	for _, r := range s.region {
		if r == region {
			n++
		}
	}
	return n
}

// share returns the real share of a vote, in one region or in all.
func (s survey) share(vote, region string) float64 {
	n, all := 0, 0
	for _, person := range s.people {
		if region != "" && s.region[person] != region {
			continue
		}
		all++
		if s.vote[person] == vote {
			n++
		}
	}
	return float64(n) / float64(all)
}
