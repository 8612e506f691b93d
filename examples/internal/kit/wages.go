package kit

import (
	"fmt"
	"strconv"
)

// Wages is the data of the Current Population Survey of March 1988 about men with a wage, which
// only the host has. The ids of people are the numbers of their rows.
type Wages struct {
	People   []string           // in the order of the file
	Weekly   map[string]float64 // dollars of 1992 a week, by person
	PartTime map[string]bool    // by person
}

// ReadWages reads every n-th person of the survey from a CSV file.
func ReadWages(path string, n int) (Wages, error) {
	w := Wages{Weekly: map[string]float64{}, PartTime: map[string]bool{}}
	if n < 1 {
		return w, fmt.Errorf("cannot read every %d-th person of %s", n, path)
	}
	rows, err := columns(path, "wage", "parttime")
	if err != nil {
		return w, err
	}
	for i := n - 1; i < len(rows); i += n {
		person := strconv.Itoa(i + 1)
		wage, err := strconv.ParseFloat(rows[i][0], 64)
		if err != nil || !(wage > 0) {
			return w, fmt.Errorf("%s: row %d: %q is not a wage", path, i+1, rows[i][0])
		}
		if partTime := rows[i][1]; partTime != "yes" && partTime != "no" {
			return w, fmt.Errorf("%s: row %d: parttime is neither yes nor no", path, i+1)
		}
		w.People = append(w.People, person)
		w.Weekly[person], w.PartTime[person] = wage, rows[i][1] == "yes"
	}
	if len(w.People) == 0 {
		return w, fmt.Errorf("%s: the file has no people", path)
	}
	return w, nil
}

// Of returns the wages of the given people, in their order.
func (w Wages) Of(people []string) []float64 {
	wages := make([]float64, len(people))
	for i, person := range people {
		wages[i] = w.Weekly[person]
	}
	return wages
}

// Mean returns the real mean of the wages of a group, with wages above a limit counted as the
// limit.
func (w Wages) Mean(limit float64, group func(partTime bool) bool) float64 {
	sum, n := 0.0, 0.0
	for _, person := range w.People {
		if group(w.PartTime[person]) {
			sum, n = sum+min(w.Weekly[person], limit), n+1
		}
	}
	return sum / n
}
