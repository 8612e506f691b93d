package kit

import (
	"fmt"
	"strconv"
)

// Wages is what the host of the Current Population Survey of March 1988 knows about men with a
// wage. People are named by the number of their row.
type Wages struct {
	People   []string           // in the order of the file
	Weekly   map[string]float64 // dollars of 1992 a week, by person
	PartTime map[string]bool    // by person
}

// ReadWages reads every n-th person of the survey from a CSV file.
func ReadWages(path string, n int) (Wages, error) {
	w := Wages{Weekly: map[string]float64{}, PartTime: map[string]bool{}}
	if n < 1 {
		return w, fmt.Errorf("every %d-th person of %s cannot be read", n, path)
	}
	rows, err := columns(path, "wage", "parttime")
	if err != nil {
		return w, err
	}
	for i := n - 1; i < len(rows); i += n {
		person := strconv.Itoa(i + 1)
		wage, err := strconv.ParseFloat(rows[i][0], 64)
		if err != nil || !(wage > 0) {
			return w, fmt.Errorf("%s: row %d: no wage", path, i+1)
		}
		if partTime := rows[i][1]; partTime != "yes" && partTime != "no" {
			return w, fmt.Errorf("%s: row %d: neither part-time nor not", path, i+1)
		}
		w.People = append(w.People, person)
		w.Weekly[person], w.PartTime[person] = wage, rows[i][1] == "yes"
	}
	if len(w.People) == 0 {
		return w, fmt.Errorf("%s has nobody in it", path)
	}
	return w, nil
}

// Of returns the wages of some people, in their order.
func (w Wages) Of(people []string) []float64 {
	wages := make([]float64, len(people))
	for i, person := range people {
		wages[i] = w.Weekly[person]
	}
	return wages
}

// Mean returns the real mean of the wages of a group, when those above a limit count as the limit.
func (w Wages) Mean(limit float64, group func(partTime bool) bool) float64 {
	sum, n := 0.0, 0.0
	for _, person := range w.People {
		if group(w.PartTime[person]) {
			sum, n = sum+min(w.Weekly[person], limit), n+1
		}
	}
	return sum / n
}
