package rappor

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
)

// setting is a kind of survey of 1,000 clients. Some share of them has strings of the list, each
// half as common as the one before, and the rest have strings that are not on it. Half of the
// candidates have no clients.
type setting struct {
	params     Params
	epsilon    string
	candidates int
	listed     float64
	unlisted   int // the number of strings outside of the list
}

// people returns the number of clients with each string. Every survey has different strings, so
// that their hashes are independent.
func (x setting) people(number int) (listed []string, people population) {
	listed, people = names(fmt.Sprint("listed ", number), x.candidates), population{}
	left, share := 1000, x.listed
	for _, s := range listed[:x.candidates/2] {
		share /= 2
		people[s] = int(1000 * share)
		left -= people[s]
	}
	if x.listed == 1 {
		people[listed[0]] += left
		return listed, people
	}
	for i, s := range names(fmt.Sprint("unlisted ", number), x.unlisted) {
		people[s] = (left - i + x.unlisted - 1) / x.unlisted
	}
	return listed, people
}

// promises compares the results of some surveys with the true shares.
type promises struct {
	alarms  int
	covered []float64 // by survey, the share of candidates whose interval holds the true share
	others  int       // surveys whose interval of the others holds their share
}

func (all *promises) note(x setting, number int) {
	listed, people := x.people(number)
	tally := survey(seeded(uint64(number)), x.params, eps(x.epsilon), people, nil)
	result, err := tally.Decode(listed, 0.95)
	if err != nil { // candidates with the same filters, where there are few
		return
	}
	covered, others, alarms := 0.0, 1000, 0
	for _, s := range result.Shares {
		truth := float64(people[s.String]) / 1000
		others -= people[s.String]
		if holds(s.Frequency, truth, 1) {
			covered += 1 / float64(len(listed))
		}
		if s.Significant && truth == 0 {
			alarms = 1
		}
	}
	all.alarms += alarms
	all.covered = append(all.covered, covered)
	if holds(result.Others, float64(others)/1000, 1) {
		all.others++
	}
}

// check compares the results with the documented promises.
func (all *promises) check(t *testing.T, name string) {
	n := len(all.covered)
	if n < 30 {
		return
	}
	stattest.Share(all.alarms, n, 0, 0.05).Holds(t, "%s: surveys with a false alarm", name)
	stattest.Mean(all.covered, 0.95, math.Inf(1)).Holds(t, "%s: intervals that hold the truth", name)
	stattest.Share(all.others, n, 0.95, 1).Holds(t, "%s: intervals of the others that hold the truth", name)
}

// With a common string outside of the list, little noise and few cohorts, errors are far from
// normal. Student's distribution would cause false alarms in 12 % of the surveys of the fourth
// kind, and cover only in 89 % of the last kind.
func TestDecode_FewCohorts_KeepsItsPromises(t *testing.T) {
	for i, x := range []setting{
		{Params{1, 64, 1}, "8", 6, 0.5, 1},
		{Params{1, 256, 2}, "8", 12, 0.5, 1},
		{Params{2, 128, 1}, "8", 12, 0.5, 1},
		{Params{4, 16, 1}, "8", 12, 0, 1},
		{Params{8, 16, 1}, "8", 12, 0, 1},
		{Params{8, 64, 1}, "8", 12, 0, 1},
	} {
		if i%testenv.Tries(2, 1, 1) != 1%testenv.Tries(2, 1, 1) { // the quick form has the kinds that the comment names
			continue
		}
		var all promises
		for number := range testenv.Tries(80, 200, 2000) / testenv.Step(4) {
			all.note(x, number)
		}
		all.check(t, fmt.Sprintf("%+v", x))
	}
}

// grid returns settings for all cohorts, bits, hashes, ε and shares of the list.
func grid() (all []setting) {
	for _, cohorts := range []int{1, 2, 3, 4, 6, 8, 12, 16, 32, 64} {
		for _, bits := range []int{8, 16, 32, 64, 128, 256} {
			for _, hashes := range []int{1, 2, 3, 4} {
				for _, epsilon := range []string{"0.5", "2", "4", "8"} {
					for i, listed := range []float64{0, 0.5, 0.9, 1} {
						candidates := min(12, max(2, cohorts*(bits-1)/3))
						unlisted := 1 + len(all)/7%2*9 // 1, or 10
						all = append(all, setting{Params{cohorts, bits, hashes}, epsilon, candidates, listed, unlisted + i%2})
					}
				}
			}
		}
	}
	return all
}

// The deep form makes one survey of every thirteenth kind of the grid, and the quick one of every
// fifty-ninth. The long form makes three of each kind, 11,520 in total. The promises are checked
// for the surveys of each number of cohorts, of bits and so on.
func TestDecode_GridOfSettings_KeepsItsPromises(t *testing.T) {
	groups := map[string]*promises{}
	for i, x := range grid() {
		if i%testenv.Tries(59, 13*testenv.Step(3), 1) != 0 {
			continue
		}
		var here promises
		for number := range testenv.Scale(1, 3) {
			here.note(x, number*len(grid())+i)
		}
		for _, name := range []string{
			"all", fmt.Sprint("cohorts ", x.params.Cohorts), fmt.Sprint("bits ", x.params.Bits), fmt.Sprint("hashes ", x.params.Hashes),
			"ε " + x.epsilon, fmt.Sprint("listed ", x.listed), fmt.Sprint("unlisted ", x.unlisted),
			fmt.Sprint("cohorts ", x.params.Cohorts, ", bits ", x.params.Bits),
			fmt.Sprint("cohorts ", x.params.Cohorts, ", ε ", x.epsilon, ", listed ", x.listed),
		} {
			if groups[name] == nil {
				groups[name] = new(promises)
			}
			groups[name].add(here)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		groups[name].check(t, name)
	}
}

func (all *promises) add(more promises) {
	all.alarms += more.alarms
	all.covered = append(all.covered, more.covered...)
	all.others += more.others
}

// With 16 or more cohorts, errors are nearly normal. Decode must find at least 97 % of the strings
// that Student's distribution with the standard errors would find. (With these seeds it is 98 to 99
// %.)
func TestDecode_ManyCohorts_FindsAsMuchAsStudent(t *testing.T) {
	for i, x := range []setting{
		{Params{16, 32, 1}, "4", 12, 0.9, 10}, {Params{16, 64, 2}, "8", 12, 0.9, 10}, {Params{32, 32, 1}, "2", 12, 0.9, 10},
	} {
		if i%testenv.Tries(3, 1, 1) != 0 {
			continue
		}
		found, student := 0, 0
		for number := range 60 {
			listed, people := x.people(number)
			tally := survey(seeded(uint64(number)), x.params, eps(x.epsilon), people, nil)
			var p []float64
			for _, s := range decode(tally, listed, 0.95).Shares {
				p = append(p, distuv.StudentsT{Sigma: 1, Nu: float64(x.params.Cohorts*(x.params.Bits-1) - len(listed))}.Survival(s.Estimate/s.StdErr))
				if s.Significant && people[s.String] > 0 {
					found++
				}
			}
			for _, corrected := range holm(p) {
				if corrected <= 0.05 {
					student++
				}
			}
		}
		t.Logf("%+v: %d found, by Student's distribution %d", x, found, student)
		check.That(t, float64(found) >= 0.97*float64(student),
			"%+v: %d found, by Student's distribution %d", x, found, student)
	}
}
