package kit

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
)

// Name is a first name, and the number of children who were given it.
type Name struct {
	Name  string // in the spelling of the data
	Count int    // above 0
}

// ReadNames reads a CSV file with the columns name, sex and count. It adds up the sexes, and
// returns each name once, the most common first, and equally common names in alphabetical order.
func ReadNames(path string) ([]Name, error) {
	rows, err := columns(path, "name", "sex", "count")
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no names", path)
	}
	counts := map[string]int{}
	for i, row := range rows {
		count, err := strconv.Atoi(row[2])
		if err != nil || count <= 0 {
			return nil, fmt.Errorf("%s: row %d: %q is not a count", path, i+1, row[2])
		}
		counts[row[0]] += count
	}
	all := make([]Name, 0, len(counts))
	for name, count := range counts {
		all = append(all, Name{name, count})
	}
	slices.SortFunc(all, func(a, b Name) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// Births returns the total number of births.
func Births(all []Name) int {
	births := 0
	for _, name := range all {
		births += name.Count
	}
	return births
}

// DrawBirths draws n births, in proportion to the counts of the names. The seed is fixed, so that
// the true values are the same in every run. The draws of the clients have no fixed seed.
func DrawBirths(all []Name, n int) []string {
	upTo, total := make([]int, len(all)), 0
	for i, name := range all {
		total += name.Count
		upTo[i] = total
	}
	random := rand.New(rand.NewPCG(2016, 1))
	drawn := make([]string, n)
	for i := range drawn {
		drawn[i] = all[sort.SearchInts(upTo, random.IntN(total)+1)].Name
	}
	return drawn
}

// NameShares returns the share of each name among births.
func NameShares(births []string) map[string]float64 {
	shares := map[string]float64{}
	for _, name := range births {
		shares[name] += 1 / float64(len(births))
	}
	return shares
}

// InventedNames returns names that no child has.
func InventedNames() []string {
	return []string{
		"Zyxwella", "Quordon", "Blivette", "Thrumble", "Oxnard", "Vespasiana", "Grubnik", "Plimsoll", "Wuzzleton",
		"Fernquist", "Yodlewin", "Krakatoa", "Snorbert", "Ploverine", "Dwindleton", "Muskrattle", "Jibberon",
		"Higgsbosa", "Umbrage", "Cloudette",
	}
}
