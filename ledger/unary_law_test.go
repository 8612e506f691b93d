package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Invariant 4 for rows of bits, by enumeration, as market_law_test.go does it for values: whatever the order of sales,
// the responses at each level are optimized unary encodings at its ε, and all together tell what the highest tells.
//
// A sale of m bits has 2ᵐ outcomes. Of the code under test it is taken for granted that a draw of a bit reads one word,
// which is written here as two: which half of all words it is in, and where in that; that before the bits there is a draw of the coin, whose
// first bit is the lowest of a word if there is no response yet; and that a first word has at most one threshold in each
// of some parts of all words. That each bit depends on its own word and the coin alone is checked at random words. The
// ledger is opened anew for each sale, and nothing of the coin is stored: it is drawn again, from the last response.

// unaryTree is the enumeration of one order of sales; see tree. Outcomes are numbers with the bits of the responses.
type unaryTree struct {
	*tree
	random *rand.Rand
}

const (
	unaryThreshold = 36 // to how many bits a threshold is located
	parts          = 16 // of all words, in each of which a bit changes at most once
)

func enumerateUnary(t *testing.T, m int, onFile bool, levels ...string) *unaryTree {
	t.Helper()
	tr := &unaryTree{seedling(t, m, onFile, levels, outcomeLaw{
		1 << m,
		func(outcome int) (text string) {
			for v := range m {
				text += string('0' + byte(outcome>>v&1))
			}
			return text
		},
		func(epsilon privacy.Epsilon, truth, outcome int) float64 { return encoded(m, epsilon, truth, outcome) },
		func(levels []privacy.Epsilon, truth int, o []int) float64 { return unaryLaw(m, levels, truth, o) },
	}), rand.New(rand.NewPCG(1, uint64(m)))}
	root, l := tr.plant()
	define(t, l, Question{Name: "q", Values: valuesOf(m), Encoding: Unary})
	enrollUnder(t, l, "q", market(t, "3"), "3", "ann")
	tr.shut(l)
	tr.grow(root)
	return tr
}

// coinWords are what a draw of the coin reads: none for a derived response.
type coinWords []uint64

// bitWords are the words of each bit, as where in a half and which half.
type bitWords [][2]uint64

// probe returns the outcome that the next sale would record, and undoes the sale.
func (tr *unaryTree) probe(l *Ledger, n int, truth TruthFunc, coin coinWords, row bitWords) (outcome int) {
	tr.probes++
	outcome = -1
	u := l.engine.Store.(*undone)
	u.look = func(w kv.Writer) {
		s, err := state.Snapshot(w)
		must(tr, err)
		c, _, err := s.Chain(1, "ann")
		must(tr, err)
		if at, found := c.At(tr.levels[n]); found && at.Response.Bits.Len() == tr.m {
			outcome = 0
			for v := range at.Response.Bits.Ones() {
				outcome |= 1 << v
			}
		}
	}
	l.engine.Chances.Sampler = fedWith(coin, row)
	_, err := l.Sell(tr.Context(), tr.order(n, truth))
	u.look = nil
	if !errors.Is(err, errUndone) || outcome < 0 {
		tr.Fatalf("a probe came to %d, %v", outcome, err)
	}
	return outcome
}

// fedWith returns a sampler that reads these words, and then zeros.
func fedWith(coin coinWords, row bitWords) *rrchain.Sampler {
	words := slices.Clone([]uint64(coin))
	if len(coin) == 2 { // a draw, of two values
		words = []uint64{drawWord(2, coin[0], coin[1])}
	}
	for _, pair := range row {
		words = append(words, drawWord(2, pair[0], pair[1]))
	}
	return rrchain.ReplaySampler(exact.ReplayBits(func(p []byte) {
		clear(p)
		for i, word := range words {
			binary.BigEndian.PutUint64(p[8*i:], word)
		}
		words = nil
	}))
}

// bitChoices are words that choose 0 and 1.
func bitChoices() [2]uint64 { return [2]uint64{1 << 62, 3 << 62} }

// all are the same two words for every bit.
func (tr *unaryTree) all(word, choice uint64) bitWords {
	return slices.Repeat(bitWords{{word, choice}}, tr.m)
}

// stretch is a range of words, up to its end, within which a bit is the same.
type stretch struct {
	end uint64
	bit int
}

// rows are, for each bit and each choice, the stretches of its first word.
type rows [][2][]stretch

func (r rows) bit(v int, words [2]uint64) int {
	for _, s := range r[v][words[1]>>63] {
		if words[0] <= s.end {
			return s.bit
		}
	}
	return -1
}

// probability returns the probability that a bit is set.
func (r rows) probability(v int) (p float64) {
	for choice := range 2 {
		from := uint64(0)
		for _, s := range r[v][choice] {
			p += float64(s.bit) * (float64(s.end-from) + 1) / (1 << 65)
			from = s.end + 1
		}
	}
	return p
}

// measureRows finds the stretches of all bits, given what the coin reads.
func (tr *unaryTree) measureRows(l *Ledger, n int, truth TruthFunc, coin coinWords) rows {
	tr.Helper()
	r := make(rows, tr.m)
	for c, choice := range bitChoices() {
		known := map[uint64]int{}
		at := func(word uint64) int {
			outcome, seen := known[word]
			if !seen {
				outcome = tr.probe(l, n, truth, coin, tr.all(word, choice))
				known[word] = outcome
			}
			return outcome
		}
		for v := range tr.m {
			r[v][c] = stretches(func(word uint64) int { return at(word) >> v & 1 })
		}
	}
	// Each bit reads its own words.
	for range 10 {
		row, want := make(bitWords, tr.m), 0
		for v := range row {
			row[v] = [2]uint64{tr.random.Uint64(), tr.random.Uint64()}
			want |= r.bit(v, row[v]) << v
		}
		if got := tr.probe(l, n, truth, coin, row); got != want {
			tr.Errorf("with the words %x there come the bits %b, where %b were measured", row, got, want)
		}
	}
	return r
}

// stretches finds where a bit changes.
func stretches(at func(word uint64) int) (all []stretch) {
	from, is := uint64(0), at(0)
	for i := uint64(1); i <= parts; i++ {
		end := i*(1<<64/parts) - 1
		if next := at(from); next != is {
			all = append(all, stretch{from - 1, is})
			is = next
		}
		if last := at(end); last != is {
			same, other := from, end
			for other-same > 1<<(64-unaryThreshold) {
				if middle := same + (other-same)/2; at(middle) == is {
					same = middle
				} else {
					other = middle
				}
			}
			all = append(all, stretch{other - 1, is})
			is = last
		}
		from = end + 1
	}
	return append(all, stretch{math.MaxUint64, is})
}

// way is one of the two faces of the coin: with what probability it comes, words that lead to it, and what comes then.
type way struct {
	p    float64
	coin coinWords
	rows rows
}

// measure returns the ways in which the next sale may come about.
func (tr *unaryTree) measure(l *Ledger, n int, free bool, v int) []way {
	tr.Helper()
	truth := tr.truth(free, v)
	look := func(p float64, coin coinWords) way { return way{p, coin, tr.measureRows(l, n, truth, coin)} }
	switch {
	case free:
		return []way{look(1, nil)}
	case n == 0:
		for range 10 { // of the word, only the lowest bit counts
			word, row := tr.random.Uint64(), tr.all(tr.random.Uint64(), tr.random.Uint64())
			if tr.probe(l, n, truth, coinWords{word}, row) != tr.probe(l, n, truth, coinWords{word & 1}, row) {
				tr.Errorf("the coin reads more of %x than the lowest bit", word)
			}
		}
		return []way{look(0.5, coinWords{0}), look(0.5, coinWords{1})}
	}
	// The coin is the last response's bit below a threshold, and else chosen.
	choices := bitChoices()
	kept, other := look(0, coinWords{0, choices[0]}), look(0, coinWords{math.MaxUint64, choices[0]})
	if kept.rows.probability(v) == other.rows.probability(v) {
		other = look(0, coinWords{math.MaxUint64, choices[1]})
	}
	telling, found := tr.telling(kept.rows, other.rows, v)
	if !found {
		tr.Fatal("the coin makes no difference")
	}
	at := func(choice uint64) func(word uint64) int {
		return func(word uint64) int {
			return tr.probe(l, n, truth, coinWords{word, choice}, slices.Repeat(bitWords{telling}, tr.m)) >> v & 1
		}
	}
	changes := stretches(at(other.coin[1]))
	if never := stretches(at(choices[0] ^ choices[1] ^ other.coin[1])); len(changes) != 2 || len(never) != 1 {
		tr.Errorf("the coin changes %d times with one choice, and %d times with the other", len(changes)-1, len(never)-1)
	}
	other.p = (1 - float64(changes[0].end)/(1<<64)) / 2
	kept.p = 1 - other.p
	return []way{kept, other}
}

// telling returns the words of a bit for which the two faces of the coin give different responses, as far from any
// threshold as can be.
func (tr *unaryTree) telling(one, two rows, v int) (best [2]uint64, found bool) {
	width := uint64(0)
	for _, choice := range bitChoices() {
		var ends []uint64
		for _, s := range slices.Concat(one[v][choice>>63], two[v][choice>>63]) {
			ends = append(ends, s.end)
		}
		slices.Sort(ends)
		from := uint64(0)
		for _, end := range ends {
			words := [2]uint64{from + (end-from)/2, choice}
			if end > from && end-from > width && one.bit(v, words) != two.bit(v, words) {
				best, width, found = words, end-from, true
			}
			from = end
		}
	}
	return best, found
}

// probability returns the probability of an outcome.
func probability(ways []way, outcome int) (sum float64) {
	for _, w := range ways {
		p := w.p
		for v := range w.rows {
			if q := w.rows.probability(v); outcome>>v&1 == 1 {
				p *= q
			} else {
				p *= 1 - q
			}
		}
		sum += p
	}
	return sum
}

// grow measures the next sale at a node for every truth, and makes it for every outcome.
func (tr *unaryTree) grow(at node) {
	tr.Helper()
	n := len(at.responses)
	l, _ := tr.open(at.place)
	if n == len(tr.levels) {
		tr.leaf(at, l)
		tr.shut(l)
		return
	}
	free := slices.ContainsFunc(tr.levels[:n], tr.levels[n].Less)
	given := [][]way{tr.measure(l, n, free, 0)}
	for truth := 1; truth < tr.m; truth++ {
		ways := given[0] // what asks nobody is the same for every truth
		if !free {
			ways = tr.measure(l, n, false, truth)
		}
		given = append(given, ways)
	}
	tr.shut(l)
	for outcome := range tr.outcomes {
		child := node{responses: append(slices.Clone(at.responses), outcome)}
		for truth := range tr.m {
			child.given = append(child.given, at.given[truth]*probability(given[truth], outcome))
		}
		child.place = tr.copied(at.place, fmt.Sprint(child.responses))
		row := tr.all(math.MaxUint64, 0) // where every bit is chosen
		for v := range row {
			row[v][1] = bitChoices()[outcome>>v&1]
		}
		tr.sell(child, free, fedWith(given[0][0].coin, row))
		tr.grow(child)
	}
}

// unaryLaw is the probability of rows of bits at rising ε, by math.md: each bit but the true value's is a chain of
// randomized responses to 0; that one, to a fair coin.
func unaryLaw(m int, levels []privacy.Epsilon, truth int, outcomes []int) float64 {
	p, o := 1.0, make([]int, len(outcomes))
	for v := range m {
		for i, outcome := range outcomes {
			o[i] = outcome >> v & 1
		}
		if v == truth {
			p *= (jointLaw(2, levels, 0, o) + jointLaw(2, levels, 1, o)) / 2
		} else {
			p *= jointLaw(2, levels, 0, o)
		}
	}
	return p
}

// encoded is the probability of a row of bits at one ε, as Wang et al. (2017) have it.
func encoded(m int, epsilon privacy.Epsilon, truth, outcome int) float64 {
	p, q := 0.5, 1/(math.Exp(epsilon.Float64())+1)
	for v := range m {
		switch isSet := outcome>>v&1 == 1; {
		case v == truth:
			continue
		case isSet:
			p *= q
		default:
			p *= 1 - q
		}
	}
	return p
}

// On a file, which is closed and opened between the first response and the raise.
func TestTheJointLawOfBitsOnDisk(t *testing.T) {
	enumerateUnary(t, 2, true, "0.5", "1.5").wantLaw()
}

// Raised, degraded, inserted and raised again, in several orders.
func TestTheJointLawOfBitsInAnyOrder(t *testing.T) {
	orders := [][]string{{"0.5", "1.5", "1"}, {"2", "1", "0.5"}, {"1", "0.5", "2"}}
	for i := 0; i < len(orders); i += oneIn(len(orders)) {
		enumerateUnary(t, 2, false, orders[i]...).wantLaw()
	}
}

func TestTheJointLawOfThreeBits(t *testing.T) {
	orders := [][]string{{"2", "0.5"}, {"0.5", "2"}}
	for i := 0; i < len(orders); i += oneIn(len(orders)) {
		enumerateUnary(t, 3, false, orders[i]...).wantLaw()
	}
}

// The comparison notices a law that is wrong by little: an ε that is 0.001 off; a coin that is drawn anew, and not from
// the last response; and bits that are drawn independently at each level.
func TestTheComparisonOfUnaryLawsNotices(t *testing.T) {
	levels := []privacy.Epsilon{eps(t, "0.5"), eps(t, "1")}
	off := []privacy.Epsilon{eps(t, "0.5"), eps(t, "1.001")}
	coin := func(o []int) (p float64) { // of one value, the true one: a raise for a fair coin from whatever was
		for was := range 2 {
			for is := range 2 {
				p += 0.25 * firstResponse(2, 0.5, was, o[0]) * kernel(2, 0.5, 1, is, o[0], o[1])
			}
		}
		return p
	}
	histories(2, 2, func(o []int) {
		right := unaryLaw(1, levels, 0, o)
		if near(right, unaryLaw(1, off, 0, o)) || near(right, coin(o)) || near(right, 0.25) {
			t.Errorf("outcomes %v: another law passes", o)
		}
	})
}

// The law of many objects, drawn from the operating system's randomness, with the ledger opened anew between requests:
// of the true value's bit and of all others, how often each combination comes at four levels. Each of the 32 counts is
// binomial, but for the coins independent of each other; by Chernoff's bound a count as far off as D is less likely
// than 2·exp(−n·D), D the divergence from the law. The bound here makes a false alarm less likely than 32·2·e⁻²⁷ = 10⁻¹⁰.
func TestTheLawOfManyRowsOfBits(t *testing.T) {
	const objects, values, levels = 3000, 30, 4
	s := &kvtest.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{})
	define(t, l, home(values))
	enroll(t, l, "home", "9", crowd(objects)...)
	for i, epsilon := range []string{"1", "2", "0.5", "1.5"} { // drawn, raised, degraded, inserted
		carryOut(t, l, homesOf(t, fmt.Sprint(i), epsilon))
		l = openMemory(t, s, Options{})
	}
	rising := []privacy.Epsilon{eps(t, "0.5"), eps(t, "1"), eps(t, "1.5"), eps(t, "2")}
	var ofTruth, ofOthers [1 << levels]int
	seen := make(map[string][]string, objects)
	for _, epsilon := range rising {
		for name, r := range responses(t, l, "home", epsilon) {
			seen[name] = append(seen[name], r.Value)
		}
	}
	for _, rows := range seen {
		for v := range values {
			history := 0
			for i, row := range rows {
				history |= int(row[v]-'0') << i
			}
			if v == 2 {
				ofTruth[history]++
			} else {
				ofOthers[history]++
			}
		}
	}
	o := make([]int, levels)
	for history := range 1 << levels {
		for i := range o {
			o[i] = history >> i & 1
		}
		zero, one := jointLaw(2, rising, 0, o), jointLaw(2, rising, 1, o)
		wantBinomial(t, fmt.Sprintf("the true value's bits %04b", history), ofTruth[history], objects, (zero+one)/2)
		wantBinomial(t, fmt.Sprintf("other bits %04b", history), ofOthers[history], objects*(values-1), zero)
	}
}

// wantBinomial fails if a count is further off than one in 2·e²⁷ is.
func wantBinomial(t *testing.T, what string, count, n int, p float64) {
	t.Helper()
	share := float64(count) / float64(n)
	term := func(a, b float64) float64 {
		if a == 0 {
			return 0
		}
		return a * math.Log(a/b)
	}
	if d := float64(n) * (term(share, p) + term(1-share, 1-p)); d > 27 {
		t.Errorf("%s: %d of %d, want about %.1f: n·D is %.1f", what, count, n, p*float64(n), d)
	}
}
