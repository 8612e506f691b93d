package mechanism

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

// countGraph is an explicit graph whose vertices are datasets with their counts.
type countGraph struct {
	*graph.Graph
	rel    relation
	counts [][]int64
	sizes  []int64 // the number of records of each vertex
	number map[string]int
}

// compositionGraph has all datasets of from … to records over m values, as counts. Only addRemove
// joins different sizes.
func compositionGraph(t testing.TB, rel relation, m int, from, to int64) *countGraph {
	t.Helper()
	cg := &countGraph{rel: rel, number: map[string]int{}}
	for n := from; n <= to; n++ {
		for counts := range compositions(n, m) {
			cg.number[fmt.Sprint(counts)] = len(cg.counts)
			cg.counts = append(cg.counts, counts)
			cg.sizes = append(cg.sizes, n)
		}
	}
	var err error
	if cg.Graph, err = graph.New(len(cg.counts), cg.edges()); err != nil {
		t.Fatal(err)
	}
	return cg
}

func (cg *countGraph) edges() iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for v, counts := range cg.counts {
			for near := range countNeighbors(counts, cg.rel) {
				w, ok := cg.number[fmt.Sprint(near)] // not there if beyond the largest size
				if ok && v < w && !yield(v, w) {
					return
				}
			}
		}
	}
}

// compositions yields every way to write n as an ordered sum of m counts.
func compositions(n int64, m int) iter.Seq[[]int64] {
	var extend func(prefix []int64, rest int64, yield func([]int64) bool) bool
	extend = func(prefix []int64, rest int64, yield func([]int64) bool) bool {
		if len(prefix) == m-1 {
			return yield(append(slices.Clone(prefix), rest))
		}
		for count := range rest + 1 {
			if !extend(append(slices.Clone(prefix), count), rest-count, yield) {
				return false
			}
		}
		return true
	}
	return func(yield func([]int64) bool) { extend(nil, n, yield) }
}

// countNeighbors yields the counts after one record has changed its value, or was added or removed.
func countNeighbors(counts []int64, rel relation) iter.Seq[[]int64] {
	moved := func(from, to int) []int64 {
		near := slices.Clone(counts)
		if from >= 0 {
			near[from]--
		}
		if to >= 0 {
			near[to]++
		}
		return near
	}
	return func(yield func([]int64) bool) {
		for from := -1; from < len(counts); from++ {
			for to := -1; to < len(counts); to++ {
				substituted := from >= 0 && to >= 0
				if from == to || from >= 0 && counts[from] == 0 || substituted != (rel == substitution) {
					continue
				}
				if !yield(moved(from, to)) {
					return
				}
			}
		}
	}
}

// orderByDefinition is the rainbow as the documentation of the constructors defines it, computed in
// another way than by the package.
func orderByDefinition(q Query, counts []int64) []int {
	answer := func(yes bool) []int {
		if yes {
			return []int{answerYes, answerNo}
		}
		return []int{answerNo, answerYes}
	}
	switch q.kind {
	case kindMajority:
		var rest int64
		for value, count := range counts {
			if value != q.value {
				rest += count
			}
		}
		return answer(counts[q.value] > rest)
	case kindThreshold:
		return answer(counts[q.value] >= q.threshold)
	}
	order := make([]int, len(counts))
	for value, count := range counts {
		rank := 0
		for other, c := range counts {
			if c > count || c == count && other < value {
				rank++
			}
		}
		order[rank] = value
	}
	if q.kind == kindWinner {
		slices.Sort(order[1:])
	}
	return order
}

// preferencesOf numbers the rainbows of all vertices.
func (cg *countGraph) preferencesOf(t testing.TB, q Query) *graph.Preferences {
	t.Helper()
	var orders [][]int
	numbers := map[string]uint32{}
	of := make([]uint32, len(cg.counts))
	for v, counts := range cg.counts {
		order := orderByDefinition(q, counts)
		name := fmt.Sprint(order)
		if _, seen := numbers[name]; !seen {
			numbers[name] = uint32(len(orders))
			orders = append(orders, order)
		}
		of[v] = numbers[name]
	}
	return check.Value(graph.NewPreferences(q.Outputs(len(cg.counts[0])), orders, of))(t)
}

func (cg *countGraph) places(t testing.TB, q Query) []Place {
	t.Helper()
	places := make([]Place, len(cg.counts))
	for v, counts := range cg.counts {
		places[v] = mustPlace(t, q, counts, cg.rel)
	}
	return places
}

func mustPlace(t testing.TB, q Query, counts []int64, rel relation) Place {
	t.Helper()
	place, err := q.place(counts, rel)
	check.Need(t, err == nil, "%v at %v, %v: %v", q, counts, rel, err)
	return place
}

// queriesOf are all queries on m values, with thresholds from below the least count to above the
// largest.
func queriesOf(m int, largest int64) []Query {
	queries := []Query{plurality(), winner()}
	for value := range m {
		queries = append(queries, majority(value))
		for t := int64(-1); t <= largest+2; t++ {
			queries = append(queries, threshold(value, t))
		}
	}
	return queries
}

const (
	mostRecords = 8
	// truncatedAt is the size of the largest dataset in the explicit graphs of addRemove, which are
	// finite parts of the infinite graph. A distance d at a dataset of n records is correct if
	// n+d+1 is at most truncatedAt. A missing vertex can only make distances too large. If the true
	// distance were less, its path would add fewer than d records, and be in the finite part too.
	truncatedAt = 18
)

// queryGraphs yields the explicit graphs on 2, 3 and 4 values on which everything is tested.
func queryGraphs(t *testing.T, test func(*testing.T, *countGraph)) {
	for m := 2; m <= 4; m++ {
		for n := range int64(mostRecords + 1) {
			t.Run(fmt.Sprintf("substitution/m=%d/n=%d", m, n), func(t *testing.T) {
				test(t, compositionGraph(t, substitution, m, n, n))
			})
		}
		t.Run(fmt.Sprintf("add-remove/m=%d", m), func(t *testing.T) {
			test(t, compositionGraph(t, addRemove, m, 0, truncatedAt))
		})
	}
}

func TestQueryPlace_AgreesWithExplicitGraph(t *testing.T) {
	queryGraphs(t, func(t *testing.T, cg *countGraph) {
		for _, q := range queriesOf(len(cg.counts[0]), mostRecords) {
			p := cg.preferencesOf(t, q)
			distances := check.Value(cg.Graph.Distances(p))(t)
			for v, got := range cg.places(t, q) {
				d := int64(distances[v])
				if !cg.trusts(t, v, d) {
					continue
				}
				check.That(t, got.Distance == d && slices.Equal(got.Order, p.Order(v)) && got.Color() == p.Color(v),
					"%v at %v: %+v, want order %v at %d", q, cg.counts[v], got, p.Order(v), d)
			}
		}
	})
}

// trusts reports whether a distance is that of the infinite graph too. All datasets of up to
// mostRecords must have such a distance.
func (cg *countGraph) trusts(t *testing.T, v int, distance int64) bool {
	t.Helper()
	within := cg.rel == substitution || cg.sizes[v]+distance+1 <= truncatedAt
	check.Need(t, within || cg.sizes[v] > mostRecords,
		"truncated too early for distance %d at %v", distance, cg.counts[v])
	return within
}

func TestPlacePosition_Neighbours_DifferByAtMostOne(t *testing.T) {
	queryGraphs(t, func(t *testing.T, cg *countGraph) {
		for _, q := range queriesOf(len(cg.counts[0]), mostRecords) {
			places := cg.places(t, q)
			for v, place := range places {
				z, ok := place.Position()
				want := len(place.Order) == 2 && place.Distance != unreachable
				check.Need(t, ok == want, "%v at %v: position is there: %v", q, cg.counts[v], ok)
				if !ok {
					continue
				}
				check.That(t, (z >= 0) == (place.Color() == 1) && max(z, -z-1) == place.Distance,
					"%v at %v: position %d of %+v", q, cg.counts[v], z, place)
				for _, w := range cg.Neighbors(v) {
					if near, ok := places[w].Position(); !ok || near-z > 1 || z-near > 1 {
						t.Errorf("%v: position %d at %v and %d, %v at %v", q, z, cg.counts[v], near, ok, cg.counts[w])
					}
				}
			}
		}
	})
}

// answers returns the laws that Draw has at all vertices.
func (cg *countGraph) answers(places []Place, epsilon privacy.Epsilon) graph.Table {
	byDistance := map[int64][]float64{}
	table := make(graph.Table, len(places))
	for v, place := range places {
		law, known := byDistance[place.Distance]
		if !known && place.Distance >= 0 {
			law = lawAt(epsilon, len(place.Order), uint64(place.Distance))
		} else if !known {
			law = append([]float64{1}, make([]float64, len(place.Order)-1)...)
		}
		byDistance[place.Distance] = law
		table[v] = make([]float64, len(law))
		for rank, output := range place.Order {
			table[v][output] = law[rank]
		}
	}
	return table
}

func TestDraw_OnAllDatasets_IsPrivate(t *testing.T) {
	queryGraphs(t, func(t *testing.T, cg *countGraph) {
		for _, q := range queriesOf(len(cg.counts[0]), mostRecords) {
			places := cg.places(t, q)
			for _, epsilon := range []string{"1", "0.1", "3"}[:testenv.Tries(1, 3, 3)] {
				e := epsilonOf(t, epsilon)
				err := cg.answers(places, e).Check(cg.Graph, graph.Privacy{Epsilon: e.Float64()})
				check.Need(t, err == nil, "%v: %v", q, err)
			}
		}
	})
}

// The test before must fail for distances that are one too large.
func TestDraw_WrongDistance_IsNotPrivate(t *testing.T) {
	cg := compositionGraph(t, substitution, 3, 8, 8)
	for _, q := range []Query{majority(0), winner(), plurality()} {
		places := cg.places(t, q)
		table := cg.answers(places, epsilonOf(t, "1"))
		for v := range places {
			places[v].Distance++
		}
		noticed := 0
		for v, law := range cg.answers(places, epsilonOf(t, "1")) {
			spoilt := slices.Clone(table)
			spoilt[v] = law
			if spoilt.Check(cg.Graph, graph.Privacy{Epsilon: 1}) != nil {
				noticed++
			}
		}
		check.That(t, noticed >= len(places)/2,
			"%v: of %d wrong distances, only %d are noticed", q, len(places), noticed)
	}
}

// The documentation states this for plurality and winner. With randomized response on the boundary,
// the first probability is at least 1/(1+e^ε) if e^(2ε) ≥ k−1. Then the probabilities of all other
// outputs shrink equally. Otherwise earlier outputs gain from later ones.
func TestQuery_WrongOutputs_FollowOrderOnlyForSmallEpsilon(t *testing.T) {
	for k := 3; k <= 12; k++ {
		edge := math.Log(float64(k-1)) / 2
		for _, factor := range []float64{0.25, 0.5, 0.9, 1.001, 1.5, 4} {
			dp, spread := graph.Privacy{Epsilon: factor * edge}, 0.0
			law, err := dp.RandomizedResponse(k)
			for range 40 {
				check.Must(t, err)
				for j := 2; j < k; j++ {
					check.Need(t, law[j] <= law[j-1]+1e-13,
						"k=%d, ε=%v: errors %v are out of order", k, factor*edge, law[1:])
				}
				spread = max(spread, law[1]-law[k-1])
				law, err = dp.Law(law, 1)
			}
			uniform := spread < 1e-13
			check.That(t, uniform == (factor > 1), "k=%d, ε=%v: errors spread by %v", k, factor*edge, spread)
		}
	}
}

// sequences returns all datasets of n people who each have one of the given values. The value −1
// means that the person takes no part.
func sequences(n, lowest, m int) [][]int {
	all := [][]int{nil}
	for range n {
		var longer [][]int
		for _, sequence := range all {
			for value := lowest; value < m; value++ {
				longer = append(longer, append(slices.Clone(sequence), value))
			}
		}
		all = longer
	}
	return all
}

// Counts suffice, because they map datasets to counts by a morphism: neighbours become neighbours,
// and each neighbour of the counts is the image of a neighbour of the dataset. So paths can be
// mapped and lifted, and distances are equal. In a dataset of all n people, no person is left to be
// added.
func TestQueryPlace_CountsAlone_HaveTheSameDistances(t *testing.T) {
	countsOf := func(dataset []int, m int) []int64 {
		counts := make([]int64, m)
		for _, value := range dataset {
			if value >= 0 {
				counts[value]++
			}
		}
		return counts
	}
	for _, rel := range []relation{substitution, addRemove} {
		lowest := 0
		if rel == addRemove {
			lowest = -1
		}
		for m := 2; m <= 3; m++ {
			for n := range 7 {
				for _, dataset := range sequences(n, lowest, m) {
					got, want := map[string]bool{}, map[string]bool{}
					for person, value := range dataset {
						for other := lowest; other < m; other++ {
							if other == value || rel == addRemove && value >= 0 && other >= 0 {
								continue // comes with a value or goes, but does not change it
							}
							near := slices.Clone(dataset)
							near[person] = other
							got[fmt.Sprint(countsOf(near, m))] = true
						}
					}
					counts := countsOf(dataset, m)
					for near := range countNeighbors(counts, rel) {
						if size, err := records(near); err == nil && size <= int64(n) {
							want[fmt.Sprint(near)] = true
						}
					}
					check.Need(t, maps.Equal(got, want),
						"a dataset of counts %v has neighbours of counts %v, want %v", counts, got, want)
				}
			}
		}
	}
}

// An addition or removal changes a difference of counts by 1, and a substitution by 2.
func TestQueryPlace_Substitution_HalvesTheDistance(t *testing.T) {
	for n := range int64(mostRecords + 1) {
		for counts := range compositions(n, 4) {
			for _, q := range queriesOf(4, mostRecords) {
				one, two := mustPlace(t, q, counts, addRemove), mustPlace(t, q, counts, substitution)
				if two.Distance == unreachable {
					continue
				}
				want := one.Distance
				if q.kind != kindThreshold {
					want /= 2
				}
				check.That(t, two.Distance == want && slices.Equal(one.Order, two.Order),
					"%v at %v: %+v and %+v", q, counts, one, two)
			}
		}
	}
}

func TestQueryPlace_Winner_IsNoNearerThanPlurality(t *testing.T) {
	for m := 2; m <= 4; m++ {
		for counts := range compositions(mostRecords, m) {
			for _, rel := range []relation{substitution, addRemove} {
				ranked, won := mustPlace(t, plurality(), counts, rel), mustPlace(t, winner(), counts, rel)
				same := slices.Equal(ranked.Order, won.Order) && ranked.Distance == won.Distance
				check.That(t, won.Distance >= ranked.Distance && won.Color() == ranked.Color() && (m != 2 || same),
					"at %v, %v: ranking %+v, winner %+v", counts, rel, ranked, won)
			}
		}
	}
}

func TestQueryPlace_LargeCounts_DoNotOverflow(t *testing.T) {
	const big = int64(1) << 62
	for _, test := range []struct {
		q       Query
		counts  []int64
		rel     relation
		d, z    int64
		ok      bool
		ranking []int
	}{
		{majority(0), []int64{big, big - 1}, addRemove, 0, 0, true, []int{1, 0}},
		{majority(1), []int64{big, big - 1}, addRemove, 1, -2, true, []int{0, 1}},
		{majority(0), []int64{math.MaxInt64, 0}, addRemove, math.MaxInt64 - 1, math.MaxInt64 - 1, true, []int{1, 0}},
		{majority(1), []int64{math.MaxInt64, 0}, addRemove, math.MaxInt64, math.MinInt64, true, []int{0, 1}},
		{majority(0), []int64{math.MaxInt64, 0}, substitution, big - 1, big - 1, true, []int{1, 0}},
		{majority(1), []int64{math.MaxInt64, 0}, substitution, big - 1, -big, true, []int{0, 1}},
		{threshold(1, math.MaxInt64), []int64{0, 0}, addRemove, math.MaxInt64 - 1, -math.MaxInt64, true, []int{0, 1}},
		{threshold(0, 1), []int64{math.MaxInt64, 0}, substitution, math.MaxInt64 - 1, math.MaxInt64 - 1, true, []int{1, 0}},
		{threshold(0, math.MinInt64), []int64{math.MaxInt64, 0}, addRemove, unreachable, 0, false, []int{1, 0}},
		{threshold(0, math.MinInt64), []int64{math.MaxInt64, 0}, substitution, unreachable, 0, false, []int{1, 0}},
		{plurality(), []int64{0, big, 0}, addRemove, 0, 0, false, []int{1, 0, 2}},
		{plurality(), []int64{0, math.MaxInt64}, addRemove, math.MaxInt64 - 1, math.MaxInt64 - 1, true, []int{1, 0}},
		{winner(), []int64{0, big, 0}, addRemove, big - 1, 0, false, []int{1, 0, 2}},
		{winner(), []int64{0, big, 0}, substitution, big/2 - 1, 0, false, []int{1, 0, 2}},
	} {
		got := mustPlace(t, test.q, test.counts, test.rel)
		z, ok := got.Position()
		check.That(t, got.Distance == test.d && z == test.z && ok == test.ok && slices.Equal(got.Order, test.ranking),
			"%v at %v, %v: %+v at position %d, %v", test.q, test.counts, test.rel, got, z, ok)
	}
}

// Ties must keep the order of values also among many values, for which the sort uses another
// method.
func TestQueryPlace_ManyTies_KeepTheOrder(t *testing.T) {
	counts := make([]int64, 200)
	for value := range counts {
		counts[value] = int64(value * 37 % 4)
	}
	for _, q := range []Query{plurality(), winner()} {
		place := mustPlace(t, q, counts, addRemove)
		check.That(t, slices.Equal(place.Order, orderByDefinition(q, counts)) && place.Distance == 0,
			"%v: %+v", q, place)
	}
}

func TestQueryPlace_DocumentedExample_HasItsDistances(t *testing.T) {
	counts := []int64{500, 300, 11, 11}
	d := mustPlace(t, winner(), counts, addRemove).Distance
	check.That(t, d == 200, "winner: distance %d", d)
	check.Equal(t, mustPlace(t, plurality(), counts, addRemove).Distance, 0, "plurality: distance")
}

func TestQueryPlace_InvalidQueryOrCounts_IsRefused(t *testing.T) {
	two := []int64{2468, 1357}
	for name, test := range map[string]struct {
		q      Query
		counts []int64
		rel    relation
	}{
		"zero query":         {Query{}, two, addRemove},
		"no values":          {plurality(), nil, addRemove},
		"one value":          {majority(0), []int64{2468}, addRemove},
		"too many values":    {plurality(), make([]int64, maxOutputs+1), addRemove},
		"negative value":     {majority(-1), two, addRemove},
		"value out of range": {threshold(2, 1), two, addRemove},
		"negative count":     {winner(), []int64{2468, -1357}, substitution},
		"too many records":   {plurality(), []int64{math.MaxInt64, 2468}, substitution},
	} {
		t.Run(name, func(t *testing.T) {
			place, err := test.q.place(test.counts, test.rel)
			check.Need(t, errors.Is(err, privacy.ErrInvalid) && place.Order == nil, "%+v, %v", place, err)
			check.That(t, !strings.Contains(err.Error(), "2468") && !strings.Contains(err.Error(), "1357"),
				"%q contains a count", err)
		})
	}
}

func TestQueryPlace_LeavesTheCountsUnchanged(t *testing.T) {
	counts := []int64{1, 5, 3}
	for _, q := range queriesOf(3, 5) {
		mustPlace(t, q, counts, substitution)
	}
	check.That(t, slices.Equal(counts, []int64{1, 5, 3}), "%v", counts)
}

// FuzzQueryPlace checks places at sizes that no explicit graph can hold. Distances are those to the
// boundary if and only if three conditions hold: a distance is 0 where a neighbour has another
// rainbow; it differs by at most 1 between neighbours of one region; and a distance above 0 has a
// smaller neighbour.
func FuzzQueryPlace(f *testing.F) {
	f.Add([]byte{5, 0, 0, 3, 0, 0}, uint8(1), 0, int64(0), false)
	f.Add([]byte{1, 62, 0, 1, 61, 1, 0, 0, 9}, uint8(3), 0, int64(0), true)
	f.Add([]byte{1, 62, 0, 255, 0, 0}, uint8(2), 1, int64(250), false)
	f.Add([]byte{7, 0, 0, 7, 0, 0, 8, 0, 0, 0, 0, 0}, uint8(4), 0, int64(0), false)
	f.Add([]byte{7, 0, 0, 0, 0, 255}, uint8(4), 0, int64(0), false)
	f.Add([]byte{}, uint8(0), -1, int64(math.MinInt64), false)
	f.Fuzz(func(t *testing.T, data []byte, kind uint8, value int, threshold int64, add bool) {
		q, rel := Query{queryKind(kind % 5), value, threshold}, relation(add)
		if q.kind == kindPlurality || q.kind == kindWinner {
			q.value = 0
		}
		counts := countsFrom(data)
		place, err := q.place(counts, rel)
		if err != nil {
			check.Need(t, errors.Is(err, privacy.ErrInvalid), "%v", err)
			return
		}
		check.Need(t, slices.Equal(place.Order, orderByDefinition(q, counts)) &&
			len(place.Order) == q.Outputs(len(counts)), "%v at %v: order %v", q, counts, place.Order)
		mustFitNeighbors(t, q, counts, rel, place)
	})
}

// countsFrom reads up to eight counts, of three bytes each: a number, how often to double it, and
// what to add, below 0 too.
func countsFrom(data []byte) (counts []int64) {
	for ; len(data) >= 3 && len(counts) < 8; data = data[3:] {
		counts = append(counts, int64(data[0])<<(data[1]%63)+int64(int8(data[2])))
	}
	return counts
}

func mustFitNeighbors(t *testing.T, q Query, counts []int64, rel relation, place Place) {
	t.Helper()
	leaves, nearer, all := false, false, true
	for near := range countNeighbors(counts, rel) {
		next, err := q.place(near, rel)
		if err != nil {
			all = false // there are more records than an int64 counts
			continue
		}
		switch same := slices.Equal(next.Order, place.Order); {
		case !same:
			leaves = true
		case next.Distance == place.Distance-1:
			nearer = true
		case next.Distance < place.Distance-1 || next.Distance > place.Distance+1:
			t.Fatalf("%v, %v: %+v at %v, %+v at %v", q, rel, place, counts, next, near)
		}
	}
	switch {
	case leaves != (place.Distance == 0) && (leaves || all),
		nearer != (place.Distance > 0) && all,
		place.Distance < unreachable:
		t.Fatalf("%v, %v: %+v at %v; leaves %v, nearer %v", q, rel, place, counts, leaves, nearer)
	}
}

func BenchmarkQueryPlace(b *testing.B) {
	counts := make([]int64, maxOutputs)
	for value := range counts {
		counts[value] = int64(value * 7919 % 1000)
	}
	for _, q := range []Query{majority(1), plurality(), winner()} {
		b.Run(fmt.Sprint(q), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				check.Must(b, check.Err(q.place(counts, substitution)))
			}
		})
	}
}
