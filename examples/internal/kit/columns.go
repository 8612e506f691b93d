// Package kit has code for several examples: data with the true values to compare with, tables, and
// a ledger server that is killed and restarted.
package kit

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strings"
)

// columns reads the columns of these names from a CSV file. It returns a row for each row of the
// file, without the header.
func columns(path string, names ...string) ([][]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w (run from the top of the repository)", err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) == 0 {
		rows = [][]string{nil}
	}
	var places []int
	for _, name := range names {
		places = append(places, slices.Index(rows[0], name))
	}
	if slices.Contains(places, -1) {
		return nil, fmt.Errorf("%s: no columns %s", path, strings.Join(names, " and "))
	}
	picked := make([][]string, 0, len(rows)-1)
	for _, row := range rows[1:] {
		values := make([]string, len(places))
		for i, place := range places {
			values[i] = row[place]
		}
		picked = append(picked, values)
	}
	return picked, nil
}
