package rappor

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

// filterSum is the law of a sum over cohorts plus a normal addend. In each cohort, a filter is
// drawn at random, and the values of a row at its set bits are summed. Values are integers in a
// unit, so the law is a finite sum, without any approximation except for the normal addend.
type filterSum struct {
	bits, hashes int
	unit         float64
	values       []int   // cohort by cohort
	normal       float64 // the standard deviation of the normal addend, in this unit
}

// The unit is the smaller of ofValues times the root mean square of the values, and ofSum times the
// standard deviation of their sum. Rounding then adds at most 1.3 % to the variance of both the
// observed sum and the sums it is compared with. Equal rounded sums differ by at most 4 % of a
// standard deviation. For many values, or a large addend, the unit need not be below finest times
// the deviation.
const ofValues, ofSum, finest = 0.4, 0.04, 0.0025

// leastUnit replaces smaller units, for which rounding errors are larger than the values.
const leastUnit = 1e-12

// newFilterSum returns the law of the sum of a table's values at random bits, with an element for
// each bit of each cohort, rounded to a unit. variance is the variance of the normal addend.
func newFilterSum(p Params, table []float64, variance float64) *filterSum {
	square := floats.Dot(table, table)
	deviation := math.Sqrt(square*p.spread() + variance)
	unit := min(ofValues*math.Sqrt(square/float64(len(table))), ofSum*math.Sqrt(square*p.spread()))
	unit = max(unit, finest*deviation, leastUnit)
	l := &filterSum{p.Bits, p.Hashes, unit, make([]int, len(table)), math.Sqrt(variance) / unit}
	for i, x := range table {
		l.values[i] = int(math.RoundToEven(x / unit))
	}
	return l
}

// at returns the sum of the values at some bits, in the unit.
func (l *filterSum) at(ones []int) int {
	sum := 0
	for _, i := range ones {
		sum += l.values[i]
	}
	return sum
}

// tail returns the probability that the sum is at least `at`, in the unit. The result may be too
// large by up to loss.
func (l *filterSum) tail(at int, loss float64) float64 {
	if 2*l.hashes > l.bits { // fewer drawn values take less work
		rest, all := l.unset()
		return rest.tail(at-all, loss)
	}
	if at > l.largest() {
		return 0
	}
	reach := int(window*l.deviation()) + 1 // the range of sums in which chances are computed
	w := newWalk(reach, max(reach, at), loss/float64(len(l.values)/l.bits+1))
	for row := range slices.Chunk(l.values, l.bits) {
		w.step(l.cohort(row))
	}
	if l.normal > 0 {
		w.step(roundedNormal(l.normal))
	}
	return w.tail(at)
}

// largest returns an upper bound of all sums, in the unit. It counts the normal addend up to window
// deviations.
func (l *filterSum) largest() int {
	sum := int(window*l.normal) + 1
	for row := range slices.Chunk(l.values, l.bits) {
		sum += l.hashes * slices.Max(row)
	}
	return sum
}

// unset returns the same law in terms of the bits that are not set. The sum at the set bits is all,
// the sum of all values, plus the sum under the law rest, whose values are negated.
func (l *filterSum) unset() (rest *filterSum, all int) {
	rest = &filterSum{l.bits, l.bits - l.hashes, l.unit, make([]int, len(l.values)), l.normal}
	for i, x := range l.values {
		rest.values[i] = -x
		all += x
	}
	return rest, all
}

// deviation returns the standard deviation of the sum, in the unit.
func (l *filterSum) deviation() float64 {
	square := 0.0
	for _, x := range l.values {
		square += float64(x) * float64(x)
	}
	return math.Sqrt(square*Params{Bits: l.bits, Hashes: l.hashes}.spread() + l.normal*l.normal)
}

// cohort returns the law of the sum of `hashes` of the values of one cohort, drawn at random
// without replacement. Equal values are drawn together, as a group. It is a dynamic program over
// the groups.
func (l *filterSum) cohort(values []int) probabilities {
	low, high := slices.Min(values), slices.Max(values)
	groups := make([]int, high-low+1) // the number of values that equal low + index
	for _, x := range values {
		groups[x-low]++
	}
	// ways holds the chances by the number of drawn values, and by their sum minus that many times
	// the lowest value.
	ways := make([][]float64, l.hashes+1)
	for drawn := range ways {
		ways[drawn] = make([]float64, drawn*(high-low)+1)
	}
	ways[0][0] = 1
	most := len(values) // the largest group that addGroup adds at once
	if len(ways) > fewHashes {
		most = largestGroup
	}
	for x, size := range groups {
		for ; size > 0; size -= most {
			addGroup(ways, x, min(size, most), float64(l.hashes)/float64(l.bits))
		}
	}
	sums := ways[l.hashes]
	floats.Scale(1/floats.Sum(sums), sums)
	return probabilities{low * l.hashes, sums}
}

// Without a factor for values that are not drawn, sums of chances grow to at most 4^hashes. For
// more than fewHashes hashes, addGroup applies the factor, and groups have at most largestGroup
// values. The factor is then at least 2^−largestGroup.
const fewHashes, largestGroup = 256, 512

// addGroup adds a group of `size` equal values to ways, which is described in [filterSum.cohort]. x
// is the value minus the lowest one. Each value is drawn with the given probability, independently
// of the others. The condition that exactly `hashes` values are drawn makes this a draw without
// replacement. A common factor has no effect on the result.
func addGroup(ways [][]float64, x, size int, probability float64) {
	none, odds := 1.0, probability/(1-probability) // none: the factor for drawing no value of the group
	if len(ways) > fewHashes {
		none = math.Pow(1-probability, float64(size))
	}
	for after := len(ways) - 1; after >= 0; after-- { // from the top, because ways with fewer drawn values are read
		if none < 1 {
			floats.Scale(none, ways[after])
		}
		chance := none
		for n := 1; n <= min(size, after); n++ {
			chance *= float64(size-n+1) / float64(n) * odds
			before := ways[after-n]
			floats.AddScaled(ways[after][n*x:n*x+len(before)], chance, before)
		}
	}
}

// probabilities are the probabilities of the numbers first, first+1 and so on.
type probabilities struct {
	first int
	of    []float64
}

// roundedNormal returns the law of a normal number with mean 0 and a standard deviation, rounded to
// an integer.
func roundedNormal(deviation float64) probabilities {
	reach := int(window*deviation) + 1
	of := make([]float64, 2*reach+1)
	normal := distuv.Normal{Mu: 0, Sigma: deviation}
	for i := range of {
		x := math.Abs(float64(i - reach))
		of[i] = normal.Survival(x-0.5) - normal.Survival(x+0.5)
	}
	return probabilities{-reach, of}
}

// walk is the law of a sum while numbers are added to it. It keeps only the range that matters.
// Chances far below the range are moved up to it, and chances far above count as beyond everything.
// A tail can thus become larger, but never smaller.
type walk struct {
	low        int       // the number that now[0] belongs to
	now, next  []float64 // chances; only the indexes from … upTo are valid
	from, upTo int
	beyond     float64
	loss       float64 // the probability that is moved at either end at each step
}

// window is the least number of standard deviations that a walk covers in each direction.
const window = 9

// newWalk returns a walk for sums from −down to up that starts at 0. loss is the probability that
// each step may move, half of it at either end.
func newWalk(down, up int, loss float64) *walk {
	w := &walk{low: -down, now: make([]float64, down+up+1), next: make([]float64, down+up+1), loss: loss / 2}
	w.from, w.upTo = down, down+1
	w.now[down] = 1
	return w
}

// step adds an independent number with the law c to the sum. It is a convolution.
func (w *walk) step(c probabilities) {
	last := len(w.now) - 1
	from := min(max(w.from+c.first, 0), last)
	upTo := max(min(w.upTo+c.first+len(c.of)-1, last+1), from+1)
	clear(w.next[from:upTo])
	for i, chance := range c.of {
		if chance > 0 {
			w.move(c.first+i, chance)
		}
	}
	w.now, w.next = w.next, w.now
	w.from, w.upTo = from, upTo
	w.trim()
}

// move adds, with some chance, the present law moved by a number to the next law. The part below
// the range is added to its lowest sum, and the part above to beyond.
func (w *walk) move(by int, chance float64) {
	from := min(max(w.from, -by), w.upTo)
	upTo := max(min(w.upTo, len(w.now)-by), from)
	if w.from < from {
		w.next[0] += chance * floats.Sum(w.now[w.from:from])
	}
	if upTo < w.upTo {
		w.beyond += chance * floats.Sum(w.now[upTo:w.upTo])
	}
	if from < upTo {
		floats.AddScaled(w.next[from+by:upTo+by], chance, w.now[from:upTo])
	}
}

// trim moves the chances at both ends that are too small to matter: at the lower end up by one sum,
// one by one, and at the upper end to beyond.
func (w *walk) trim() {
	for moved := 0.0; w.upTo > w.from+1; {
		moved += w.now[w.upTo-1]
		if moved > w.loss {
			break
		}
		w.upTo--
		w.beyond += w.now[w.upTo]
	}
	for w.from+1 < w.upTo && w.now[w.from] <= w.loss {
		w.now[w.from+1] += w.now[w.from]
		w.from++
	}
}

// tail returns the probability that the sum is at least `at`.
func (w *walk) tail(at int) float64 {
	from := min(max(at-w.low, w.from), w.upTo)
	return min(w.beyond+floats.Sum(w.now[from:w.upTo]), 1)
}

// spread returns h(k−h)/(k(k−1)): the variance of the product of a random filter and any vector of
// length 1 whose elements sum to 0.
func (p Params) spread() float64 {
	k, h := float64(p.Bits), float64(p.Hashes)
	return h * (k - h) / (k * (k - 1))
}
