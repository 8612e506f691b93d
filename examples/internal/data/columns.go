// Package data reads the data that the examples are about, counts the truth to compare with, and
// prints tables.
package data

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// columns reads some columns of a CSV file, without its header.
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
		return nil, fmt.Errorf("%s is empty", path)
	}
	picked, err := pick(rows, names)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return picked, nil
}

func pick(rows [][]string, names []string) ([][]string, error) {
	var places []int
	for _, name := range names {
		places = append(places, slices.Index(rows[0], name))
	}
	if slices.Contains(places, -1) {
		return nil, errors.New("no columns " + strings.Join(names, " and "))
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
