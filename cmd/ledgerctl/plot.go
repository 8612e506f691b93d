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

// Limits of the picture of an estimate.
const (
	mostValues  = 30 // values of the question that are shown
	mostLetters = 28 // of the name of a value
)

// plot is the picture of an estimate: a group of bars for each value, with a bar for each ε.
type plot struct {
	whole      api.Estimate   // with each object once
	levels     []api.Estimate // of the objects that answered at each ε, by rising ε
	recorded   int            // number of levels, shown or not
	few        int            // number of levels that are left out because they have few people
	values     []int          // the numbers of the values shown, from the top
	confidence float64
}

// newPlot reads the estimates for the picture: whole, which the caller has, and one for each level.
// If the request names an ε, whole is the only one. In a file all are of one instant, because no
// process can write it while it is open for reading. A served ledger may change between the
// requests.
func newPlot(ctx context.Context, l backend, r api.EstimateRequest, whole api.Estimate) (*plot, error) {
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
		if r.Include != nil && errors.Is(err, api.ErrNoResponses) { // only people who are not included
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

// add adds a level. It checks the estimate, because a server may return anything.
func (p *plot) add(level api.Estimate) error {
	if len(level.Levels) == 0 || len(level.Values) != len(p.whole.Values) {
		return fmt.Errorf("the server returned an estimate of %d values at %d ε, not of %d values at one ε",
			len(level.Values), len(level.Levels), len(p.whole.Values))
	}
	p.levels = append(p.levels, level)
	return nil
}

// fewest is the smallest number of responses of a level that is shown, relative to the level with
// the most. The intervals of a level with fewer would be ten times as wide, and make the others too
// small.
const fewest = 0.01

// shownLevels returns the levels to show, and the number of levels with too few people. If more
// than [chart.MaxRows] levels have enough people, it returns the first, the last, and evenly spaced
// ones.
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

// shownValues returns the numbers of all values in their order, or, if there are too many, of those
// with the largest estimates in descending order.
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

// shortened returns a name of at most most characters. If the name is longer, "…" replaces its
// middle.
func shortened(name string, most int) string {
	letters := []rune(chart.Printable(name))
	if len(letters) <= most {
		return string(letters)
	}
	tail := most / 3
	return string(letters[:most-tail-1]) + "…" + string(letters[len(letters)-tail:])
}

// notes returns notes on the meaning of the bars, and on what is left out. numbered means that some
// names were shortened to equal texts and have numbers (see labels).
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

// pools reports whether the estimate of all people combines several levels.
func (p *plot) pools() bool { return len(p.whole.Levels) > 1 }

// labels returns the names of the values shown. If shortening makes names equal, these names get
// the numbers of their values, and numbered is true.
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

// chart returns the picture: a row for each level, and one for all people.
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
