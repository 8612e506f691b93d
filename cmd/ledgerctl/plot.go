package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/internal/chart"
	"github.com/sluicedp/sluice/ledger/api"
)

// What a picture of an estimate has space for.
const (
	mostValues  = 30
	mostLetters = 28 // of a value's name
)

// plot shows an estimate: a group of bars for each value, and in it a bar for each ε.
type plot struct {
	whole      api.Estimate   // everybody counts once
	levels     []api.Estimate // by rising ε: of the objects that answered at that ε
	recorded   int            // how many levels there are, shown or not
	few        int            // how many of them are left out because few people are at them
	values     []int          // the numbers of the values shown, from the top
	confidence float64
}

// newPlot reads what the picture of an estimate shows besides it. Of a file all is of one instant,
// because it cannot be written while it is open for reading; a served ledger may change between the
// requests.
func newPlot(ctx context.Context, l book, r api.EstimateRequest, whole api.Estimate) (*plot, error) {
	p := &plot{whole: whole, recorded: 1, values: shownValues(whole.Values), confidence: r.Confidence}
	if !r.Epsilon.IsZero() {
		return p, p.add(whole)
	}
	recorded, err := api.Collect(l.Levels(ctx, r.Question))
	if err != nil {
		return nil, err
	}
	shown, few := shownLevels(recorded)
	p.recorded, p.few = len(recorded), few
	for _, at := range shown {
		r.Epsilon = at.Epsilon
		level, err := l.Estimate(ctx, r)
		if r.Include != nil && errors.Is(err, api.ErrNoResponses) { // all there are of other people
			p.recorded--
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := p.add(level); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// add adds a level. A server may return anything.
func (p *plot) add(level api.Estimate) error {
	if len(level.Levels) == 0 || len(level.Values) != len(p.whole.Values) {
		return fmt.Errorf("an estimate of %d values at %d ε, where %d values at one are expected", len(level.Values),
			len(level.Levels), len(p.whole.Values))
	}
	p.levels = append(p.levels, level)
	return nil
}

// fewest is the part of the responses of the fullest level that another one must have to be shown:
// the intervals of one with fewer would be ten times as wide, and make the others too small to see.
const fewest = 0.01

// shownLevels returns all levels that are not too empty if they are few, and else the first, the
// last and some between, evenly; and how many are too empty.
func shownLevels(all []api.LevelCount) (levels []api.LevelCount, few int) {
	most := int64(0)
	for _, l := range all {
		most = max(most, l.N)
	}
	for _, l := range all {
		if float64(l.N) >= fewest*float64(most) {
			levels = append(levels, l)
		}
	}
	if few = len(all) - len(levels); len(levels) <= chart.MaxRows {
		return levels, few
	}
	shown := make([]api.LevelCount, chart.MaxRows)
	for i := range shown {
		shown[i] = levels[i*(len(levels)-1)/(len(shown)-1)]
	}
	return shown, few
}

// shownValues returns the numbers of all values in their order if they are few, and else of those
// with the largest estimates, falling.
func shownValues(values []api.ValueEstimate) []int {
	shown := make([]int, len(values))
	for v := range shown {
		shown[v] = v
	}
	if len(shown) <= mostValues {
		return shown
	}
	slices.SortStableFunc(shown, func(a, b int) int { return cmp.Compare(values[b].Estimate, values[a].Estimate) })
	return shown[:mostValues]
}

// shortened makes a name fit on a line of a picture: the middle of a long one is left out.
func shortened(name string, most int) string {
	letters := []rune(chart.Printable(name))
	if len(letters) <= most {
		return string(letters)
	}
	tail := most / 3
	return string(letters[:most-tail-1]) + "…" + string(letters[len(letters)-tail:])
}

// notes say what the bars are, and what is left out.
func (p *plot) notes(numbered bool) (lines []string) {
	covers := "these people"
	if p.whole.Covers == "population" {
		covers = "a population that they represent"
	}
	lines = append(lines, fmt.Sprintf("The thin lines are %.4g %% intervals for %s.", 100*p.confidence, covers))
	if p.pools() {
		lines = append(lines,
			"The diamond counts each person once, at the highest ε; the levels are "+p.whole.Method+".")
	}
	if n := len(p.levels); n < p.recorded {
		but := ""
		if p.few > 0 {
			but = "; not those of few people"
		}
		lines = append(lines, fmt.Sprintf("%d of %d levels of ε are shown%s.", n, p.recorded, but))
	}
	if n, all := len(p.values), len(p.whole.Values); n < all {
		lines = append(lines, fmt.Sprintf("The %d values with the largest estimates are shown, and %d are not.", n,
			all-n))
	}
	if numbered {
		lines = append(lines, "Numbers in parentheses are the places of long names in the list of values.")
	}
	return lines
}

// pools reports whether the estimate of everybody is another one than that of the highest ε.
func (p *plot) pools() bool { return len(p.whole.Levels) > 1 }

// labels returns the names of the values shown. Shortening can make two names equal: these get the
// numbers of their values, and numbered is true.
func (p *plot) labels() (names []string, numbered bool) {
	alike := map[string]int{}
	for _, v := range p.values {
		name := shortened(p.whole.Values[v].Value, mostLetters)
		names = append(names, name)
		alike[name]++
	}
	for i, v := range p.values {
		if alike[names[i]] > 1 {
			names[i], numbered = fmt.Sprintf("%s (%d)", names[i], v+1), true
		}
	}
	return names, numbered
}

// chart returns the picture: a row for each level, and one for everybody.
func (p *plot) chart() chart.Bars {
	names, numbered := p.labels()
	out := chart.Bars{
		Title: fmt.Sprintf("Estimated shares of the values of %q", shortened(p.whole.Question, 2*mostLetters)),
		Axis:  "share, %", Groups: names, Notes: p.notes(numbered),
	}
	row := func(name string, e api.Estimate) chart.Series {
		s := chart.Series{Name: name}
		for _, v := range p.values {
			at := e.Values[v]
			percent := chart.Interval{Low: 100 * at.Low, Value: 100 * at.Estimate, High: 100 * at.High}
			s.Values = append(s.Values, percent)
		}
		return s
	}
	for _, level := range p.levels {
		name := fmt.Sprintf("ε = %s, n = %d", level.Levels[0].Epsilon, level.N)
		out.Series = append(out.Series, row(name, level))
	}
	if p.pools() {
		all := row(fmt.Sprintf("all, n = %d", p.whole.N), p.whole)
		all.Diamond = true
		out.Series = append(out.Series, all)
	}
	return out
}
