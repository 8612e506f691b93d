package market

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// values are the answers to both questions, in the order in which they are counted.
func values() []string { return []string{yes, no} }

// answer is what a buyer holds of one person.
type answer struct {
	epsilon privacy.Epsilon
	value   string
}

// answers is what one buyer, or several who pool, hold about a question, by person. Of each person only
// the highest level is kept: the lower ones say nothing that it does not say.
type answers map[string]answer

func (a answers) add(person string, one answer) {
	if a[person].epsilon.Less(one.epsilon) {
		a[person] = one
	}
}

// held returns what some buyers hold about a question, together.
func (b *books) held(question string, buyers ...string) answers {
	all := answers{}
	for _, sale := range b.sales {
		if sale.Question == question && slices.Contains(buyers, sale.Buyer) {
			all.addSale(b, sale.Number)
		}
	}
	return all
}

// addSale adds what was delivered in a sale.
func (a answers) addSale(b *books, sale uint64) {
	for _, one := range b.deliveries[sale] {
		a.add(one.Object, answer{one.Epsilon, one.Value})
	}
}

// of keeps the answers of some people.
func (a answers) of(people []string) answers {
	some := answers{}
	for _, person := range people {
		if one, held := a[person]; held {
			some[person] = one
		}
	}
	return some
}

// people returns those who answered.
func (a answers) people() []string { return slices.Sorted(maps.Keys(a)) }

// share estimates the share of "yes" among those who answered.
func (a answers) share() (estimate.Frequency, error) {
	byLevel := map[privacy.Epsilon][]int64{}
	for _, one := range a {
		if byLevel[one.epsilon] == nil {
			byLevel[one.epsilon] = make([]int64, len(values()))
		}
		byLevel[one.epsilon][slices.Index(values(), one.value)]++
	}
	var counts []estimate.Counts
	for _, level := range slices.SortedFunc(maps.Keys(byLevel), privacy.Epsilon.Compare) {
		counts = append(counts, estimate.Counts{Epsilon: level, ByValue: byLevel[level]})
	}
	shares, err := estimate.Frequencies(estimate.Options{Confidence: 0.95}, counts...)
	if err != nil {
		return estimate.Frequency{}, err
	}
	return shares[0], nil
}

// shareAmong estimates the share of "yes" among more people than answered. Who sells was drawn at random,
// which adds the variance of a sample of that size.
func (a answers) shareAmong(people int) (share, margin float64, err error) {
	f, err := a.share()
	if err != nil {
		return 0, 0, err
	}
	p := min(max(f.Estimate, 0), 1)
	sampling := p * (1 - p) * (1/float64(len(a)) - 1/float64(people))
	return f.Estimate, 1.96 * math.Sqrt(f.StdErr*f.StdErr+sampling), nil
}

// printEstimates shows what three purchases tell about each region.
func (m *market) printEstimates(b *books) error {
	fmt.Fprintln(m.out, "\nESTIMATES   The share of \"yes\" as buyers estimate it, with a 95 % interval for the noise in the answers and")
	fmt.Fprintln(m.out, "the chance of who sells, beside the real share. To be unbiased, an estimate may pass 100 %.")
	columns := []wish{{buyer: atlas, epsilon: privacy.MustEpsilon("0.5")}, {buyer: cobalt, epsilon: privacy.MustEpsilon("0.7")}, {buyer: atlas, epsilon: privacy.MustEpsilon("1")}}
	table := m.table()
	fmt.Fprint(table, left("region")+"\tquestion\tpeople\treal share\t")
	for _, c := range columns {
		fmt.Fprintf(table, "%s at ε = %s\t", c.buyer, c.epsilon)
	}
	fmt.Fprintln(table)
	for _, question := range questions() {
		for _, region := range m.people.Regions() {
			people := m.people.Members(region)
			fmt.Fprintf(table, "%s\t%s\t%d\t%.1f %%\t", left(region), question, len(people), 100*m.realShare(question, people))
			for _, c := range columns {
				cell, err := m.estimate(b, wish{c.buyer, question, c.epsilon, region})
				if err != nil {
					return err
				}
				fmt.Fprintf(table, "%s\t", cell)
			}
			fmt.Fprintln(table)
		}
	}
	return table.Flush()
}

// realShare returns the real share of "yes".
func (m *market) realShare(question string, people []string) float64 {
	return float64(m.people.Counts(question, people)[0]) / float64(len(people))
}

// estimate says what a purchase tells about a region; "" if it was not made.
func (m *market) estimate(b *books, w wish) (string, error) {
	all := answers{}
	for _, p := range m.purchases {
		if p.buyer == w.buyer && p.question == w.question && p.epsilon == w.epsilon {
			for _, sale := range p.sales {
				all.addSale(b, sale.Number)
			}
		}
	}
	people := m.people.Members(w.region)
	some := all.of(people)
	if len(some) == 0 {
		return "–", nil
	}
	share, margin, err := some.shareAmong(len(people))
	return fmt.Sprintf("%.1f ± %.1f %%", 100*share, 100*margin), err
}
