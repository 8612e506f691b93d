package kit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// Votes are the values of the question, in the order of the tables.
func Votes() []string { return []string{"N", "Y", "U", "A"} }

// VoteName returns a vote in words.
func VoteName(vote string) string {
	return map[string]string{"N": "no", "Y": "yes (Pinochet)", "U": "undecided", "A": "abstain"}[vote]
}

// RegionName returns the name of a region.
func RegionName(region string) string {
	return map[string]string{"C": "Central", "M": "Metropolitan area", "N": "North", "S": "South",
		"SA": "City of Santiago"}[region]
}

// Survey is the data of the survey before the Chilean plebiscite of 1988, which only the host has.
// The ids of people are the numbers of their rows.
type Survey struct {
	People []string          // who answered, in the order of the file
	Vote   map[string]string // by person
	Region map[string]string // by person
	Silent int               // number of people who did not answer
}

// ReadSurvey reads the survey from a CSV file.
func ReadSurvey(path string) (Survey, error) {
	s := Survey{Vote: map[string]string{}, Region: map[string]string{}}
	rows, err := columns(path, "region", "vote")
	if err != nil {
		return s, err
	}
	for i, row := range rows {
		person, region, vote := strconv.Itoa(i+1), row[0], row[1]
		if vote == "" {
			s.Silent++
			continue
		}
		if !slices.Contains(Votes(), vote) {
			return s, fmt.Errorf("%s: row %d: there is no vote %q", path, i+1, vote)
		}
		s.People = append(s.People, person)
		s.Vote[person], s.Region[person] = vote, region
	}
	return s, nil
}

// Truth returns the votes of people as true values.
func (s Survey) Truth(_ context.Context, _ string, people []string) ([]string, error) {
	votes := make([]string, len(people))
	for i, person := range people {
		votes[i] = s.Vote[person]
	}
	return votes, nil
}

// Regions returns the regions from the smallest to the largest.
func (s Survey) Regions() []string {
	var all []string
	for _, region := range s.Region {
		if !slices.Contains(all, region) {
			all = append(all, region)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return s.Size(a) - s.Size(b) })
	return all
}

// Members returns the people of a region, or of all regions for "".
func (s Survey) Members(region string) (people []string) {
	for _, person := range s.People {
		if region == "" || s.Region[person] == region {
			people = append(people, person)
		}
	}
	return people
}

// Size returns the number of people in a region.
func (s Survey) Size(region string) int { return len(s.Members(region)) }

// Counts returns the number of real votes for each of [Votes], in one region or in all.
func (s Survey) Counts(region string) []int64 {
	votes := Votes()
	counts := make([]int64, len(votes))
	for _, person := range s.Members(region) {
		counts[slices.Index(votes, s.Vote[person])]++
	}
	return counts
}

// Share returns the real share of a vote, in one region or in all.
func (s Survey) Share(vote, region string) float64 {
	return float64(s.Counts(region)[slices.Index(Votes(), vote)]) / float64(s.Size(region))
}
