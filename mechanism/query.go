package mechanism

import (
	"cmp"
	"math"
	"slices"
)

// maxOutputs is the largest number of outputs that a query may have.
const maxOutputs = 1 << 10

// unreachable is the distance of a dataset from a boundary that does not exist.
const unreachable = -1

// relation says which datasets are neighbours.
type relation bool

const (
	substitution relation = false // one record has another value
	addRemove    relation = true  // one record more or one less
)

// The outputs of a majority and a threshold.
const (
	answerNo  = 0
	answerYes = 1
)

// Query is a question about all records of a dataset, each of which holds one of the values 0 …
// m−1. Its regions and their boundaries follow from the count of each value, so that no graph of
// the m^n datasets is needed: to replace a dataset by its counts is a morphism that keeps rainbows
// and distances (doliveira2021 Definition 3, zhou2022 Theorem 3).
//
// [ParseQuery] makes queries. They are compared with ==. The zero Query asks nothing and is
// invalid.
//
//   - A majority asks whether more than half of all records hold a value. In a tie, and of no
//     records, they do not. Its outputs are 0 for no and 1 for yes.
//   - A threshold asks whether at least t records hold a value. Its outputs are 0 for no and 1 for
//     yes. If t ≤ 0 the answer is yes for every dataset: there is no boundary, the distance is −1,
//     and the true answer reveals nothing. If t exceeds the number of records, the same holds for
//     [Query.Place] only, because there every dataset has the same number of records. For
//     [Query.PlaceAddRemove], which hides that number, the answer no reveals something: there is a
//     boundary, and the answer is drawn.
//   - A plurality asks which value is the commonest. Its outputs are the values, and a dataset's
//     rainbow ranks them by their counts; of equally common values the one with the lower number
//     comes first.
//   - A winner asks the same, with the same outputs and the same true answer. But only a change of
//     the commonest value leads into another region: a rainbow has that value first and all the
//     others in order of their numbers.
//
// # Plurality or winner
//
// Under a plurality every exchange of two places in the ranking, even of the last two, leads into
// another region: two rare values that are about as common keep a dataset near its boundary, where
// the true answer is least likely. What that may buy are errors that favour the values that are
// truly second, third and so on; but with randomized response on the boundary they do so only for
// e^(2ε) < k−1, and are uniform otherwise.
//
// Under a winner a dataset is never nearer its boundary, and mostly much farther, so that for the
// same ε and boundary law the true answer is at least as likely. With 500, 300, 11 and 11 records,
// one added or removed, the distance is 200 instead of 0. With randomized response on the boundary
// and e^(2ε) ≥ k−1 errors are uniform, as they are for a plurality; for smaller ε they favour
// values of lower numbers, without regard to their counts. With two values both queries are the
// same. Prefer winner unless ε is that small and it matters how wrong a wrong answer is.
type Query struct {
	kind      queryKind
	value     int
	threshold int64
}

type queryKind uint8

const (
	kindMajority queryKind = iota + 1
	kindThreshold
	kindPlurality
	kindWinner
)

func majority(value int) Query { return Query{kind: kindMajority, value: value} }

func threshold(value int, t int64) Query {
	return Query{kind: kindThreshold, value: value, threshold: t}
}

func plurality() Query { return Query{kind: kindPlurality} }

func winner() Query { return Query{kind: kindWinner} }

// Validate returns [privacy.ErrInvalid] unless the query can be asked of records with the given
// number of values: from 2 to 1,024, and with a majority or threshold of one of them.
func (q Query) Validate(values int) error {
	switch {
	case q.kind == 0:
		return invalid("a query that asks nothing")
	case values < 2 || values > maxOutputs:
		return invalid("%d values; 2 to %d are possible", values, maxOutputs)
	case q.value < 0 || q.value >= values:
		return invalid("there is no value %d among %d", q.value, values)
	}
	return nil
}

// Outputs returns k, the number of outputs, for records with the given number of values: 2, or for
// a plurality and a winner the number of values.
func (q Query) Outputs(values int) int {
	if q.kind == kindPlurality || q.kind == kindWinner {
		return values
	}
	return 2
}

// Place is where a dataset lies in the graph of all datasets. It is computed from the truth and not
// private: the answer of a mechanism may be published, a Place may not.
type Place struct {
	// Order is the rainbow: all outputs, the true answer first.
	Order []int
	// Distance is the number of steps from neighbour to neighbour to the boundary of the dataset's
	// region: 0 if some neighbour has another rainbow, and −1 if no dataset has. At −1 the optimal
	// answer is the true one: all datasets have the same, so it reveals nothing. A distance holds
	// for the neighbours that it was computed for: those of [Query.Place] or
	// [Query.PlaceAddRemove].
	Distance int64
}

// Color returns the true answer.
func (p Place) Color() int { return p.Order[0] }

// Position returns the signed position z of a query with two outputs: the distance d if the true
// answer is 1, and −(d+1) if it is 0. So the true answer is 1 if and only if z ≥ 0,
// and neighbours differ by at most 1. It reports false, with z = 0, if the query has more outputs
// or no boundary; without a boundary the true answer needs no noise.
func (p Place) Position() (z int64, ok bool) {
	switch {
	case len(p.Order) != 2 || p.Distance == unreachable:
		return 0, false
	case p.Color() == 1:
		return p.Distance, true
	}
	return -p.Distance - 1, true
}

// Place returns the rainbow of a dataset, and its distance to the boundary, from the number of
// records that hold each of the values 0 … len(counts)−1. Two datasets are neighbours if one record
// has another value; the number of records is the same for all, and is not hidden. Place is exact
// and takes O(m) time, for a plurality O(m log m).
//
// It returns [privacy.ErrInvalid] if the query does not pass [Query.Validate], a count is negative
// or all counts together exceed 2^63−1. No error has a count in it.
func (q Query) Place(counts []int64) (Place, error) { return q.place(counts, substitution) }

// PlaceAddRemove is [Query.Place] where two datasets are neighbours if one has one record more.
// Datasets of every size, also the empty one, take part, so that the number of records is hidden
// too.
func (q Query) PlaceAddRemove(counts []int64) (Place, error) { return q.place(counts, addRemove) }

func (q Query) place(counts []int64, rel relation) (Place, error) {
	if err := q.Validate(len(counts)); err != nil {
		return Place{}, err
	}
	n, err := records(counts)
	if err != nil {
		return Place{}, err
	}
	order, slack := q.rank(counts, n)
	return Place{order, q.distance(slack, n, rel)}, nil
}

// records adds up counts. The counts are truths and must not get into the error.
func records(counts []int64) (n int64, err error) {
	for value, count := range counts {
		if count < 0 {
			return 0, invalid("the count of value %d is negative", value)
		}
		if count > math.MaxInt64-n {
			return 0, invalid("there are more than 2^63−1 records")
		}
		n += count
	}
	return n, nil
}

// rank returns the rainbow and the slack: by how much the difference of two counts, or of a count
// and a constant, may shrink before the rainbow changes.
func (q Query) rank(counts []int64, n int64) (order []int, slack int64) {
	switch q.kind {
	case kindMajority:
		count := counts[q.value]
		return yesFrom(count - (n - count) - 1)
	case kindThreshold:
		return yesFrom(counts[q.value] - max(q.threshold, 0)) // below 0 as at 0, without overflow
	case kindPlurality:
		return ranking(counts)
	}
	return winnerOf(counts)
}

// yesFrom answers yes from a margin of 0 upwards.
func yesFrom(margin int64) (order []int, slack int64) {
	if margin >= 0 {
		return []int{answerYes, answerNo}, margin
	}
	return []int{answerNo, answerYes}, -(margin + 1)
}

// ranking has the least slack between two places next to each other: that between more distant ones
// is at least the sum of the slacks in between.
func ranking(counts []int64) (order []int, slack int64) {
	order = inOrder(len(counts))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	slack = int64(math.MaxInt64)
	for i := 1; i < len(order); i++ {
		slack = min(slack, slackOf(counts, order[i-1], order[i]))
	}
	return order, slack
}

func winnerOf(counts []int64) (order []int, slack int64) {
	first := slices.Index(counts, slices.Max(counts)) // the lowest number wins a tie
	order = slices.Insert(slices.Delete(inOrder(len(counts)), first, first+1), 0, first)
	slack = int64(math.MaxInt64)
	for _, other := range order[1:] {
		slack = min(slack, slackOf(counts, first, other))
	}
	return order, slack
}

// inOrder returns the numbers from 0 to n−1.
func inOrder(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// slackOf returns by how much the lead of one value over another may shrink before the other
// overtakes it, which it does in a tie if it has the lower number.
func slackOf(counts []int64, first, second int) int64 {
	lead := counts[first] - counts[second]
	if second < first {
		lead--
	}
	return lead
}

// distance turns slack into steps. A record added or removed changes one count, hence a difference
// of counts by 1. A substitution from the leader to the follower changes it by 2, and is always
// possible while the lead is positive; a lead of 0 ends with any record that changes to the
// follower. But the difference of a count and a threshold changes by at most 1 in either case. A
// region is left with the step that exceeds the slack, and the boundary lies one step before that.
func (q Query) distance(slack, n int64, rel relation) int64 {
	switch {
	case q.constant(n, rel):
		return unreachable
	case rel == substitution && q.kind != kindThreshold:
		return slack / 2
	}
	return slack
}

// constant reports whether all datasets that steps can reach have the same rainbow: those of no
// records by substitution are one alone, and a threshold may be beyond all counts. In all other
// cases any true answer can be reached from any dataset.
func (q Query) constant(n int64, rel relation) bool {
	if rel == substitution && n == 0 {
		return true
	}
	return q.kind == kindThreshold && (q.threshold <= 0 || rel == substitution && q.threshold > n)
}
