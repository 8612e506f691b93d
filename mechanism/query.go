package mechanism

import (
	"cmp"
	"math"
	"slices"
)

// maxOutputs is the largest number of outputs that a query may have.
const maxOutputs = 1 << 10

// unreachable is the distance of a dataset if there is no boundary.
const unreachable = -1

// relation defines which datasets are neighbours.
type relation bool

const (
	substitution relation = false // one record has another value
	addRemove    relation = true  // one record is added or removed
)

// The outputs of a majority and a threshold.
const (
	answerNo  = 0
	answerYes = 1
)

// Query is a question about all records of a dataset, each of which holds one of the values 0 …
// m−1. Its regions and their boundaries follow from the count of each value, so no graph of the m^n
// datasets is needed. The map from a dataset to its counts is a morphism that preserves rainbows
// and distances (doliveira2021 Definition 3, zhou2022 Theorem 3).
//
// [ParseQuery] creates queries. They can be compared with ==. The zero Query is invalid.
//
//   - A majority asks whether more than half of all records hold a value. In a tie, and for no
//     records, the answer is no. Its outputs are 0 for no and 1 for yes.
//   - A threshold asks whether at least t records hold a value. Its outputs are 0 for no and 1 for
//     yes. If t ≤ 0 the answer is yes for every dataset: there is no boundary, the distance is −1,
//     and the true answer reveals nothing. If t exceeds the number of records, the same holds for
//     [Query.Place] only, because there every dataset has the same number of records. For
//     [Query.PlaceAddRemove], which hides that number, the answer no reveals something: there is a
//     boundary, and the answer is drawn.
//   - A plurality asks which value is the most frequent. Its outputs are the values. The rainbow
//     of a dataset ranks the values by their counts. Of equally frequent values, the one with the
//     lower number is first.
//   - A winner asks the same, with the same outputs and the same true answer. But only a change of
//     the most frequent value leads to another region. Its rainbow has that value first and all the
//     others in order of their numbers.
//
// # Plurality or winner
//
// Under a plurality, every exchange of two neighbouring ranks leads to another region, even of the
// last two. Two rare values that are almost equally frequent keep a dataset near its boundary,
// where the true answer has the lowest probability. The possible benefit is that errors favour the
// values that are truly second, third and so on. With randomized response on the boundary this is
// so only for e^(2ε) < k−1. Otherwise errors are uniform.
//
// Under a winner, a dataset is never nearer to its boundary, and mostly much farther away. For the
// same ε and boundary law, the true answer is therefore at least as probable. With 500, 300, 11 and
// 11 records, one added or removed, the distance is 200 instead of 0. With randomized response on
// the boundary and e^(2ε) ≥ k−1, errors are uniform, as for a plurality. For smaller ε they favour
// values with lower numbers, regardless of their counts. With two values both queries are the same.
// Prefer winner unless ε is that small and it matters how wrong a wrong answer is.
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

// Validate returns [privacy.ErrInvalid] unless the query is valid for records with the given number
// of values. The number must be from 2 to 1,024, and a majority or threshold must be of one of the
// values.
func (q Query) Validate(values int) error {
	switch {
	case q.kind == 0:
		return invalid("the query is the zero value; create it with ParseQuery")
	case values < 2 || values > maxOutputs:
		return invalid("%d values; 2 to %d are possible", values, maxOutputs)
	case q.value < 0 || q.value >= values:
		return invalid("value %d of the query is not one of 0 to %d", q.value, values-1)
	}
	return nil
}

// Outputs returns k, the number of outputs, for records with the given number of values. It is 2,
// or the number of values for a plurality and a winner.
func (q Query) Outputs(values int) int {
	if q.kind == kindPlurality || q.kind == kindWinner {
		return values
	}
	return 2
}

// Place is the position of a dataset in the graph of all datasets. It is computed from the true
// data and is not private: the answer of a mechanism may be published, a Place may not.
type Place struct {
	// Order is the rainbow: all outputs, the true answer first.
	Order []int
	// Distance is the number of steps from neighbour to neighbour to the boundary of the dataset's
	// region. It is 0 if some neighbour has another rainbow, and −1 if no dataset has. At −1 the
	// optimal answer is the true one: all datasets have the same answer, so it reveals nothing. A
	// distance is valid for the neighbours that it was computed for: those of [Query.Place] or
	// [Query.PlaceAddRemove].
	Distance int64
}

// Color returns the true answer.
func (p Place) Color() int { return p.Order[0] }

// Position returns the signed position z of a query with two outputs: the distance d if the true
// answer is 1, and −(d+1) if it is 0. So the true answer is 1 if and only if z ≥ 0, and the
// positions of neighbours differ by at most 1. It returns z = 0 and false if the query has more
// outputs or no boundary. Without a boundary the true answer needs no noise.
func (p Place) Position() (z int64, ok bool) {
	switch {
	case len(p.Order) != 2 || p.Distance == unreachable:
		return 0, false
	case p.Color() == 1:
		return p.Distance, true
	}
	return -p.Distance - 1, true
}

// Place returns the rainbow of a dataset, and its distance to the boundary. counts holds the number
// of records with each of the values 0 … len(counts)−1. Two datasets are neighbours if one record
// has another value. The number of records is the same for all datasets, and is not hidden. Place
// is exact and takes O(m) time, or O(m log m) for a plurality.
//
// It returns [privacy.ErrInvalid] if the query does not pass [Query.Validate], a count is negative
// or all counts together exceed 2^63−1. No error contains a count.
func (q Query) Place(counts []int64) (Place, error) { return q.place(counts, substitution) }

// PlaceAddRemove is [Query.Place] for another relation: two datasets are neighbours if one has one
// more record than the other. Datasets of every size, including the empty one, are possible, so the
// number of records is hidden too.
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

// records returns the sum of the counts. The counts are true data and must not get into the error.
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

// rank returns the rainbow and the slack. The slack is the amount by which the difference of two
// counts, or of a count and a constant, may shrink before the rainbow changes.
func (q Query) rank(counts []int64, n int64) (order []int, slack int64) {
	switch q.kind {
	case kindMajority:
		count := counts[q.value]
		return yesFrom(count - (n - count) - 1)
	case kindThreshold:
		return yesFrom(counts[q.value] - max(q.threshold, 0)) // a negative threshold is like 0, and cannot overflow
	case kindPlurality:
		return ranking(counts)
	}
	return winnerOf(counts)
}

// yesFrom returns the rainbow with yes first if margin ≥ 0, and no first otherwise, with its slack.
func yesFrom(margin int64) (order []int, slack int64) {
	if margin >= 0 {
		return []int{answerYes, answerNo}, margin
	}
	return []int{answerNo, answerYes}, -(margin + 1)
}

// ranking returns the values ranked by their counts. The slack is the least slack between two
// neighbouring ranks, because the slack between more distant ranks is at least the sum of the
// slacks in between.
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

// slackOf returns the amount by which the lead of one value over another may shrink before the
// other overtakes it. In a tie, the value with the lower number leads.
func slackOf(counts []int64, first, second int) int64 {
	lead := counts[first] - counts[second]
	if second < first {
		lead--
	}
	return lead
}

// distance converts slack to steps. A record added or removed changes one count, and so a
// difference of counts by 1. A substitution of the follower for the leader changes it by 2, and is
// always possible while the lead is positive. A lead of 0 ends with any record that changes to the
// follower. The difference of a count and a threshold changes by at most 1 in either case. The step
// that exceeds the slack leaves the region, so the boundary is one step before it.
func (q Query) distance(slack, n int64, rel relation) int64 {
	switch {
	case q.constant(n, rel):
		return unreachable
	case rel == substitution && q.kind != kindThreshold:
		return slack / 2
	}
	return slack
}

// constant returns true if all datasets that steps can reach have the same rainbow. This is so for
// the dataset without records under substitution, which is the only one, and for a threshold that
// no count can reach or miss. In all other cases, any true answer can be reached from any dataset.
func (q Query) constant(n int64, rel relation) bool {
	if rel == substitution && n == 0 {
		return true
	}
	return q.kind == kindThreshold && (q.threshold <= 0 || rel == substitution && q.threshold > n)
}
