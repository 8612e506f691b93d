package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Invariant 4 for rows of bits, by enumeration, as for values below: in any order of sales, the
// responses at each level are optimized unary encodings at its ε, and all together reveal what the
// highest reveals.
//
// A sale of m bits has 2ᵐ outcomes. The test assumes this of the code: a draw of a bit reads one
// word, which is written here as two, which half of all words it is in, and where in that half.
// Before the bits there is a draw of the coin. If there is no response yet, the coin is the lowest
// bit of a word. A first word has at most one threshold in each of some parts of all words. That
// each bit depends only on its own word and the coin is checked at random words. The ledger is
// opened again for each sale, and the coin is not stored: it is drawn again, from the last
// response.

// unaryTree is the enumeration of one order of sales; see tree. Outcomes are numbers with the bits
// of the responses.
type unaryTree struct {
	*tree
	random *rand.Rand
}

const (
	unaryThreshold = 36 // the precision of a threshold, in bits
	parts          = 16 // the number of parts of all words in each of which a bit changes at most once
)

func enumerateUnary(t *testing.T, m int, onFile bool, levels ...string) *unaryTree {
	t.Helper()
	tr := &unaryTree{newTree(t, m, onFile, levels, outcomeLaw{
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
	root, l := tr.newRoot()
	Define(t, l, api.Question{Name: "q", Values: ValuesOf(m), Encoding: "unary"})
	EnrollUnder(t, l, "q", Market(t, "3"), "3", "ann")
	tr.closeLedger(l)
	tr.grow(root)
	return tr
}

// coinWords are the words that a draw of the coin reads: none for a derived response.
type coinWords []uint64

// bitWords are the words of each bit: the position in a half, and which half.
type bitWords [][2]uint64

// probe returns the outcome that the next sale would record.
func (tr *unaryTree) probe(at nodeStorage, n int, truth api.TruthFunc, coin coinWords, row bitWords) (outcome int) {
	tr.Helper()
	text := tr.sellInCopy(at, n, truth, fedWith(coin, row))
	check.Need(tr, len(text) == tr.m && strings.Trim(text, "01") == "", "the next sale would record %q, which is not a response", text)
	for v := range tr.m {
		outcome |= int(text[v]-'0') << v
	}
	return outcome
}

// fedWith returns a sampler that reads these words, and then zeros.
func fedWith(coin coinWords, row bitWords) ledgertest.Draws {
	words := slices.Clone([]uint64(coin))
	if len(coin) == 2 { // a draw of two values
		words = []uint64{drawWord(2, coin[0], coin[1])}
	}
	for _, pair := range row {
		words = append(words, drawWord(2, pair[0], pair[1]))
	}
	return ledgertest.Draws{Values: &rrchain.Sampler{Random: exact.ReplayBits(func(p []byte) {
		clear(p)
		for i, word := range words {
			binary.BigEndian.PutUint64(p[8*i:], word)
		}
		words = nil
	})}}
}

// bitChoices returns words that choose 0 and 1.
func bitChoices() [2]uint64 { return [2]uint64{1 << 62, 3 << 62} }

// all returns the same two words for every bit.
func (tr *unaryTree) all(word, choice uint64) bitWords {
	return slices.Repeat(bitWords{{word, choice}}, tr.m)
}

// stretch is a range of words up to an end, within which a bit has one value.
type stretch struct {
	end uint64
	bit int
}

// stretchRows are the stretches of the first word, for each bit and each choice.
type stretchRows [][2][]stretch

func (r stretchRows) bit(v int, words [2]uint64) int {
	for _, s := range r[v][words[1]>>63] {
		if words[0] <= s.end {
			return s.bit
		}
	}
	return -1
}

// probability returns the probability that a bit is set.
func (r stretchRows) probability(v int) (p float64) {
	for choice := range 2 {
		from := uint64(0)
		for _, s := range r[v][choice] {
			p += float64(s.bit) * (float64(s.end-from) + 1) / (1 << 65)
			from = s.end + 1
		}
	}
	return p
}

// measureRows finds the stretches of all bits, for given words of the coin.
func (tr *unaryTree) measureRows(where nodeStorage, n int, truth api.TruthFunc, coin coinWords) stretchRows {
	tr.Helper()
	r := make(stretchRows, tr.m)
	for c, choice := range bitChoices() {
		known := map[uint64]int{}
		at := func(word uint64) int {
			outcome, seen := known[word]
			if !seen {
				outcome = tr.probe(where, n, truth, coin, tr.all(word, choice))
				known[word] = outcome
			}
			return outcome
		}
		for v := range tr.m {
			r[v][c] = tr.stretches(func(word uint64) int { return at(word) >> v & 1 })
		}
	}
	// Each bit depends only on its own words.
	for range 10 {
		row, want := make(bitWords, tr.m), 0
		for v := range row {
			row[v] = [2]uint64{tr.random.Uint64(), tr.random.Uint64()}
			want |= r.bit(v, row[v]) << v
		}
		got := tr.probe(where, n, truth, coin, row)
		check.That(tr, got == want, "the words %x result in the bits %b, and the measurement in %b", row, got, want)
	}
	return r
}

// stretches finds where a bit changes.
func (tr *tree) stretches(at func(word uint64) int) (all []stretch) {
	from, is := uint64(0), at(0)
	for i := uint64(1); i <= parts; i++ {
		end := i*(1<<64/parts) - 1
		if next := at(from); next != is {
			all = append(all, stretch{from - 1, is})
			is = next
		}
		if last := at(end); last != is {
			other := tr.change(from, end, 1<<(64-unaryThreshold), func(word uint64) bool { return at(word) == is })
			all = append(all, stretch{other - 1, is})
			is = last
		}
		from = end + 1
	}
	return append(all, stretch{math.MaxUint64, is})
}

// way is one of the two results of the coin: its probability, words that lead to it, and the bits
// that follow.
type way struct {
	p    float64
	coin coinWords
	rows stretchRows
}

// measure returns the ways in which the next sale may happen.
func (tr *unaryTree) measure(where nodeStorage, n int, free bool, v int) []way {
	tr.Helper()
	truth := tr.truth(free, v)
	measured := func(p float64, coin coinWords) way { return way{p, coin, tr.measureRows(where, n, truth, coin)} }
	switch {
	case free:
		return []way{measured(1, nil)}
	case n == 0:
		for range 10 { // only the lowest bit of the word matters
			word, row := tr.random.Uint64(), tr.all(tr.random.Uint64(), tr.random.Uint64())
			if tr.probe(where, n, truth, coinWords{word}, row) != tr.probe(where, n, truth, coinWords{word & 1}, row) {
				tr.Errorf("the coin depends on more of %x than the lowest bit", word)
			}
		}
		return []way{measured(0.5, coinWords{0}), measured(0.5, coinWords{1})}
	}
	// The coin is the last response's bit below a threshold, and else chosen.
	choices := bitChoices()
	kept, other := measured(0, coinWords{0, choices[0]}), measured(0, coinWords{math.MaxUint64, choices[0]})
	if kept.rows.probability(v) == other.rows.probability(v) {
		other = measured(0, coinWords{math.MaxUint64, choices[1]})
	}
	words, found := tr.distinguishing(kept.rows, other.rows, v)
	check.Need(tr, found, "the response does not depend on the coin")
	at := func(choice uint64) func(word uint64) int {
		return func(word uint64) int {
			return tr.probe(where, n, truth, coinWords{word, choice}, slices.Repeat(bitWords{words}, tr.m)) >> v & 1
		}
	}
	changes := tr.stretches(at(other.coin[1]))
	if never := tr.stretches(at(choices[0] ^ choices[1] ^ other.coin[1])); len(changes) != 2 || len(never) != 1 {
		tr.Errorf("the coin changes %d times with one choice, and %d times with the other", len(changes)-1, len(never)-1)
	}
	other.p = (1 - float64(changes[0].end)/(1<<64)) / 2
	kept.p = 1 - other.p
	return []way{kept, other}
}

// distinguishing returns the words of a bit for which the two results of the coin give different
// responses, as far from any threshold as possible.
func (tr *unaryTree) distinguishing(one, two stretchRows, v int) (best [2]uint64, found bool) {
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

// grow measures the next sale at a node for every true value, and makes it for every outcome.
func (tr *unaryTree) grow(at node) {
	tr.Helper()
	n := len(at.responses)
	if n == len(tr.levels) {
		tr.leaf(at)
		at.place.removed(tr)
		return
	}
	free := slices.ContainsFunc(tr.levels[:n], tr.levels[n].Less)
	given := [][]way{tr.measure(at.place, n, free, 0)}
	for truth := 1; truth < tr.m; truth++ {
		ways := given[0] // a sale that requests no true value is the same for each
		if !free {
			ways = tr.measure(at.place, n, false, truth)
		}
		given = append(given, ways)
	}
	for outcome := range tr.outcomes {
		child := node{responses: append(slices.Clone(at.responses), outcome)}
		for truth := range tr.m {
			child.given = append(child.given, at.given[truth]*probability(given[truth], outcome))
		}
		child.place = at.place.copied(tr, fmt.Sprint(child.responses))
		row := tr.all(math.MaxUint64, 0) // words for which every bit is chosen
		for v := range row {
			row[v][1] = bitChoices()[outcome>>v&1]
		}
		tr.sell(child, free, fedWith(given[0][0].coin, row))
		tr.grow(child)
	}
	at.place.removed(tr)
}

// unaryLaw returns the probability of rows of bits at rising ε, by math.md: each bit, except that
// of the true value, is a chain of randomized responses to 0; that bit, to a fair coin.
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

// encoded returns the probability of a row of bits at one ε, as in Wang et al. (2017).
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
func TestUnarySales_OnDisk_HaveTheJointLaw(t *testing.T) {
	enumerateUnary(t, 2, true, fewer(1, "0.5", "1.5")...).wantLaw()
}

// Raised, degraded, inserted and raised again, in several orders.
func TestUnarySales_SeveralOrders_HaveTheJointLaw(t *testing.T) {
	orders := [][]string{{"0.5", "1.5", "1"}, {"2", "1", "0.5"}, {"1", "0.5", "2"}}
	for i := someOf(orders); i < len(orders); i += testenv.Stride(len(orders), len(orders)) {
		enumerateUnary(t, 2, false, fewer(1, orders[i]...)...).wantLaw()
	}
}

func TestUnarySales_ThreeBits_HaveTheJointLaw(t *testing.T) {
	orders := [][]string{{"2", "0.5"}, {"0.5", "2"}}
	for i := someOf(orders); i < len(orders); i += testenv.Stride(len(orders), len(orders)) {
		enumerateUnary(t, 3, false, fewer(1, orders[i]...)...).wantLaw()
	}
}

// The comparison detects a law that is slightly wrong: an ε that is off by 0.001; a coin that is
// drawn again, and not derived from the last response; and bits that are drawn independently at
// each level.
func TestNear_SlightlyWrongUnaryLaw_IsDetected(t *testing.T) {
	levels := []privacy.Epsilon{Eps(t, "0.5"), Eps(t, "1")}
	off := []privacy.Epsilon{Eps(t, "0.5"), Eps(t, "1.001")}
	coin := func(o []int) (p float64) { // of the true value: a raise for a fair coin from any last response
		for was := range 2 {
			for is := range 2 {
				p += 0.25 * firstResponse(2, 0.5, was, o[0]) * kernel(2, 0.5, 1, is, o[0], o[1])
			}
		}
		return p
	}
	histories(2, 2, func(o []int) {
		right := unaryLaw(1, levels, 0, o)
		check.That(t, !near(right, unaryLaw(1, off, 0, o)) && !near(right, coin(o)) && !near(right, 0.25),
			"outcomes %v: the comparison accepts another law", o)
	})
}

// The law of many objects, drawn from the operating system's randomness, with the ledger opened
// again between requests. It counts the combinations of the true value's bit, and of all other
// bits, at four levels.
func TestUnaryResponses_ManyObjects_FollowTheirLaw(t *testing.T) {
	const objects, values, levels = 3000, 30, 4
	l := ledgertest.New(t)
	Define(t, l.Ledger, Home(values))
	Enroll(t, l.Ledger, "home", "9", Crowd(objects)...)
	for i, epsilon := range []string{"1", "2", "0.5", "1.5"} { // drawn, raised, degraded, inserted
		Raise(t, l.Ledger, HomesOf(t, fmt.Sprint(i), epsilon))
		l.Reopen()
	}
	rising := []privacy.Epsilon{Eps(t, "0.5"), Eps(t, "1"), Eps(t, "1.5"), Eps(t, "2")}
	ofTruth, ofOthers := map[int]int{}, map[int]int{} // by the bits at all levels
	seen := make(map[string][]string, objects)
	for _, epsilon := range rising {
		for name, r := range Responses(t, l.Ledger, "home", epsilon) {
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
	lawOfTruth, lawOfOthers, o := map[int]float64{}, map[int]float64{}, make([]int, levels)
	for history := range 1 << levels {
		for i := range o {
			o[i] = history >> i & 1
		}
		zero, one := jointLaw(2, rising, 0, o), jointLaw(2, rising, 1, o)
		lawOfTruth[history], lawOfOthers[history] = (zero+one)/2, zero
	}
	stattest.Cells(ofTruth, lawOfTruth).Holds(t, "the true value's bits")
	stattest.Cells(ofOthers, lawOfOthers).Holds(t, "other bits")
}

// Invariant 4, by enumeration: in any order of sales, all responses together have the law of
// math.md, sections 2 and 3, and together reveal what the highest level alone reveals.
//
// The histories of one chain form a tree: at each node the ledger has sold some levels, and the
// next sale has m outcomes. Their probabilities are measured: Ledger.Sell is called with one 64-bit
// word after another in the sampler, each time in a copy of the ledger, and bisection finds the
// words at which the response changes. Then the sale is made, once for each outcome, in a copy of
// the ledger. The test assumes only that a draw reads one word, and that a stretch of words whose
// ends have the same response has at most one threshold. The words are divided into m parts of
// equal size, one for each choice; in each part a word gives the position.

// tree is the enumeration of one order of sales.
type tree struct {
	*testing.T
	outcomeLaw
	m       int
	onFile  bool // a bbolt file for each node; otherwise in memory
	levels  []privacy.Epsilon
	choices []uint64             // for each value, a word in its part of all words
	changes []uint64             // words between which the response was found to change
	found   map[string][]float64 // by the responses, in the order of rising ε: the probability for each true value
	probes  int
	sales   int
}

// outcomeLaw is the law of the responses of one encoding. Outcomes of a sale are numbers from 0.
type outcomeLaw struct {
	outcomes int // of each sale
	text     func(outcome int) string
	alone    func(epsilon privacy.Epsilon, truth, outcome int) float64         // the law of a single response
	joint    func(levels []privacy.Epsilon, truth int, outcomes []int) float64 // the law of all responses at rising ε
}

// node is a history: the responses so far, its probability for each true value, and its ledger.
type node struct {
	responses []int
	given     []float64
	place     nodeStorage
}

// thresholdBits is the precision of a threshold, in bits.
const thresholdBits = 44

func newTree(t *testing.T, m int, onFile bool, levels []string, k outcomeLaw) *tree {
	t.Helper()
	tr := &tree{T: t, outcomeLaw: k, m: m, onFile: onFile, found: map[string][]float64{}}
	for _, text := range levels {
		tr.levels = append(tr.levels, Eps(t, text))
	}
	return tr
}

// newRoot returns a root, with its ledger open.
func (tr *tree) newRoot() (node, *ledger.Ledger) {
	tr.Helper()
	root := node{given: slices.Repeat([]float64{1}, tr.m)}
	root.place = newNodeStorage(tr, tr.onFile)
	return root, tr.open(root.place, ledgertest.Draws{})
}

func enumerate(t *testing.T, m int, onFile bool, levels ...string) *tree {
	t.Helper()
	tr := newTree(t, m, onFile, levels, outcomeLaw{
		m, ValueName,
		func(epsilon privacy.Epsilon, truth, o int) float64 {
			return firstResponse(m, epsilon.Float64(), truth, o)
		},
		func(levels []privacy.Epsilon, truth int, o []int) float64 { return jointLaw(m, levels, truth, o) },
	})
	for v := range m {
		word, _ := bits.Div64(uint64(2*v+1), 0, uint64(2*m)) // the middle of the v-th of m equal stretches
		tr.choices = append(tr.choices, word)
	}
	root, l := tr.newRoot()
	q := api.Question{Name: "q"}
	for v := range m {
		q.Values = append(q.Values, ValueName(v))
	}
	Define(t, l, q)
	EnrollUnder(t, l, "q", Market(t, "3", func(m *policy.Market) { m.Stride = Eps(t, "0.1") }), "3", "ann")
	tr.closeLedger(l)
	tr.grow(root)
	return tr
}

// nodeStorage stores the ledger of a node.
type nodeStorage interface {
	open(ledgertest.Draws) (*ledger.Ledger, error)
	copied(t testing.TB, name string) nodeStorage
	removed(testing.TB)
}

// newNodeStorage returns storage with a new ledger.
func newNodeStorage(t testing.TB, onFile bool) nodeStorage {
	t.Helper()
	origin := ledgertest.Origin{Currency: "EUR"}
	if onFile {
		path := filepath.Join(testenv.TempDir(t), "ledger.db")
		check.Must(t, ledgertest.NewFile(path, origin))
		return file(path)
	}
	memory := check.Value(ledgertest.NewMemory(origin))(t)
	return inMemory{memory}
}

// opened opens the ledger with its default samplers.
func opened(t testing.TB, at nodeStorage) *ledger.Ledger {
	t.Helper()
	return check.Value(at.open(ledgertest.Draws{}))(t)
}

// inMemory is storage in memory.
type inMemory struct{ memory *ledgertest.Memory }

func (p inMemory) open(d ledgertest.Draws) (*ledger.Ledger, error) {
	p.memory.Draws = d
	return p.memory.Open(ledger.Options{Now: ledgertest.Begin})
}

func (p inMemory) copied(testing.TB, string) nodeStorage { return inMemory{p.memory.Copy()} }
func (inMemory) removed(testing.TB)                      {}

// file is storage on disk.
type file string

func (p file) open(d ledgertest.Draws) (*ledger.Ledger, error) {
	return ledgertest.OpenFile(string(p), d, ledger.Options{})
}

func (p file) copied(t testing.TB, name string) nodeStorage {
	t.Helper()
	content := check.Value(os.ReadFile(string(p)))(t)
	path := filepath.Join(filepath.Dir(string(p)), "ledger"+name+".db")
	check.Must(t, os.WriteFile(path, content, 0o600))
	return file(path)
}

func (p file) removed(t testing.TB) {
	t.Helper()
	check.Must(t, os.Remove(string(p)))
}

// open opens the ledger of a node with samplers.
func (tr *tree) open(at nodeStorage, d ledgertest.Draws) *ledger.Ledger {
	tr.Helper()
	return check.Value(at.open(d))(tr)
}

// closeLedger closes a ledger.
func (tr *tree) closeLedger(l *ledger.Ledger) {
	tr.Helper()
	check.Must(tr, l.Close())
}

// sellInCopy sells the next level in a copy of the ledger, and returns the response.
func (tr *tree) sellInCopy(at nodeStorage, n int, truth api.TruthFunc, d ledgertest.Draws) string {
	tr.Helper()
	tr.probes++
	probed := at.copied(tr, "probe")
	l := tr.open(probed, d)
	sold := Sell(tr, l, tr.order(n, truth))
	got := Delivered(tr, l, sold.Number)["ann"]
	check.Must(tr, l.Close())
	probed.removed(tr)
	return got.Value
}

// order returns the order of the n-th level. Buyers alternate.
func (tr *tree) order(n int, truth api.TruthFunc) api.SellRequest {
	return api.SellRequest{Key: fmt.Sprint("sale ", n), Order: api.Order{
		Buyer: []string{"acme", "zeta"}[n%2], Question: "q", Epsilon: tr.levels[n], Objects: []string{"ann"},
	}, Truth: truth}
}

// seeing returns a sampler in which every draw from m values reads the same word.
func seeing(m int, word, choice uint64) ledgertest.Draws {
	return ledgertest.Draws{Values: &rrchain.Sampler{Random: exact.ReplayBits(func(p []byte) {
		for i := 0; i < len(p); i += 8 {
			binary.BigEndian.PutUint64(p[i:], drawWord(m, word, choice))
		}
	})}}
}

// drawWord returns the word of a draw from m values, few enough for one word. It is the word of the
// real number (k+U)/m, where U is given by u except for its last bits, and k is the value chosen by
// choice.
func drawWord(m int, u, choice uint64) uint64 {
	const last = 1<<16 - 1 // too near to the next value: rounding could matter
	k, _ := bits.Mul64(choice, uint64(m))
	word, _ := bits.Div64(k, u&^last|1<<15, uint64(m))
	return word
}

// probe returns the response that the next sale would record.
func (tr *tree) probe(at nodeStorage, n int, truth api.TruthFunc, word, choice uint64) (response int) {
	tr.Helper()
	text := tr.sellInCopy(at, n, truth, seeing(tr.m, word, choice))
	for response := range tr.m {
		if tr.text(response) == text {
			return response
		}
	}
	tr.Fatalf("the next sale would record %q, which is not a response", text)
	return -1
}

// change returns a word with another response than the first, at most width above a word with the
// same response. It first tries earlier changes, because many nodes have the same.
func (tr *tree) change(first, last, width uint64, same func(word uint64) bool) uint64 {
	look := func(word uint64) {
		if same(word) {
			first = word
		} else {
			last = word
		}
	}
	for _, word := range tr.changes {
		if first < word && word < last {
			look(word)
		}
	}
	if last-first > width {
		for last-first > width {
			look(first + (last-first)/2)
		}
		tr.changes = append(tr.changes, first, last)
	}
	return last
}

// measure returns the probability of each response to the next sale, and words that lead to it.
func (tr *tree) measure(where nodeStorage, n int, truth api.TruthFunc) (p []float64, lead [][2]uint64) {
	p, lead = make([]float64, tr.m), make([][2]uint64, tr.m)
	for _, choice := range tr.choices {
		at := func(word uint64) int { return tr.probe(where, n, truth, word, choice) }
		add := func(response int, from, to uint64) { // all words in the range lead to the response
			p[response] += (float64(to-from) + 1) / (1 << 64) / float64(tr.m)
			lead[response] = [2]uint64{from + (to-from)/2, choice}
		}
		const stretches = 4
		from, is := uint64(0), at(0)
		for i := uint64(1); i <= stretches; i++ {
			end := i*(1<<64/stretches) - 1
			for last := at(end); last != is; is = at(from) {
				other := tr.change(from, end, 1<<(64-thresholdBits), func(word uint64) bool { return at(word) == is })
				add(is, from, other-1)
				from = other
			}
			add(is, from, end)
			from = end + 1
		}
	}
	return p, lead
}

// grow measures the next sale at a node for every true value, and makes it for every outcome.
func (tr *tree) grow(at node) {
	tr.Helper()
	n := len(at.responses)
	if n == len(tr.levels) {
		tr.leaf(at)
		at.place.removed(tr)
		return
	}
	free := slices.ContainsFunc(tr.levels[:n], tr.levels[n].Less)
	first, lead := tr.measure(at.place, n, tr.truth(free, 0))
	given := [][]float64{first}
	for truth := 1; truth < tr.m; truth++ {
		p := first // a sale that requests no true value is the same for each
		if !free {
			p, _ = tr.measure(at.place, n, tr.truth(free, truth))
		}
		given = append(given, p)
	}
	for response := range tr.m {
		child := node{responses: append(slices.Clone(at.responses), response)}
		for truth := range tr.m {
			child.given = append(child.given, at.given[truth]*given[truth][response])
		}
		child.place = at.place.copied(tr, fmt.Sprint(child.responses))
		tr.sell(child, free, seeing(tr.m, lead[response][0], lead[response][1]))
		tr.grow(child)
	}
	at.place.removed(tr)
}

// truth returns the source of true values of a sale. It must not be called if the sale is free.
func (tr *tree) truth(free bool, v int) api.TruthFunc {
	if free {
		return Never(tr)
	}
	return SameTruth(ValueName(v))
}

// sell makes the sale that leads to a node.
func (tr *tree) sell(child node, free bool, draws ledgertest.Draws) {
	tr.Helper()
	tr.sales++
	n := len(child.responses) - 1
	l := tr.open(child.place, draws)
	defer tr.closeLedger(l)
	before := ObjectOf(tr, l, "ann")
	sold := Sell(tr, l, tr.order(n, tr.truth(free, 0)))
	after, got := ObjectOf(tr, l, "ann"), Delivered(tr, l, sold.Number)["ann"]
	check.Need(tr, got.Value == tr.text(child.responses[n]) && got.Epsilon == tr.levels[n],
		"want the responses %v, the buyer got %+v", child.responses, got)
	cost := after.Spent.Nano() - before.Spent.Nano()
	if free && (sold.Draws != 0 || cost != 0) || !free && (sold.Draws != 1 || after.Spent != tr.levels[n]) {
		tr.Errorf("responses %v: %d draws for ε=%s cost %d nano-nats", child.responses, sold.Draws, tr.levels[n], cost)
	}
}

// leaf records the probabilities of a whole history. All buyers get what one bought, without a true
// value.
func (tr *tree) leaf(at node) {
	tr.Helper()
	l := tr.open(at.place, ledgertest.Draws{})
	defer tr.closeLedger(l)
	rising := make([]int, 0, len(tr.levels))
	for _, epsilon := range tr.rising() {
		rising = append(rising, at.responses[slices.Index(tr.levels, epsilon)])
	}
	tr.found[fmt.Sprint(rising)] = at.given
	for n := range tr.levels {
		r := tr.order(n, Never(tr))
		r.Key, r.Buyer = "again "+r.Key, []string{"zeta", "acme", "initech"}[n%3]
		again := Sell(tr, l, r)
		if got := Delivered(tr, l, again.Number)["ann"]; again.Resales != 1 || got.Value != tr.text(at.responses[n]) {
			tr.Errorf("after the responses %v, %q got %+v", at.responses, r.Buyer, got)
		}
	}
	top := slices.MaxFunc(tr.levels, privacy.Epsilon.Compare)
	o := ObjectOf(tr, l, "ann")
	check.That(tr, o.Spent == top && o.Chains[0].Epsilon == top, "after the responses %v, %s is spent, want the highest ε", at.responses, o.Spent)
	AuditAll(tr, l)
}

func (tr *tree) rising() []privacy.Epsilon {
	return slices.SortedFunc(slices.Values(tr.levels), privacy.Epsilon.Compare)
}

// The formulas of math.md, sections 1 and 2, for a true value and values of m.

func firstResponse(m int, epsilon float64, truth, o int) float64 {
	if o == truth {
		return math.Exp(epsilon) / (math.Exp(epsilon) + float64(m) - 1)
	}
	return 1 / (math.Exp(epsilon) + float64(m) - 1)
}

func kernel(m int, e1, e2 float64, truth, o1, o2 int) float64 {
	others := float64(m - 1)
	scale := math.Expm1(e2) * (math.Exp(e2) + others)
	rise := math.Exp(e1) * math.Expm1(e2-e1) // e^ε₂ − e^ε₁
	leave := others * math.Expm1(e2-e1) / scale
	toTruth, toThird := math.Exp(e2)*rise/scale, 0.0
	if m > 2 {
		toThird = rise / scale
	}
	switch {
	case o1 == truth && o2 == truth:
		return 1 - leave
	case o1 == truth:
		return leave / others
	case o2 == truth:
		return toTruth
	case o2 == o1:
		return 1 - toTruth - float64(m-2)*toThird
	default:
		return toThird
	}
}

// jointLaw returns the probability of responses at rising ε: the first response, and kernels
// upwards.
func jointLaw(m int, levels []privacy.Epsilon, truth int, o []int) float64 {
	p := firstResponse(m, levels[0].Float64(), truth, o[0])
	for i := 1; i < len(o); i++ {
		p *= kernel(m, levels[i-1].Float64(), levels[i].Float64(), truth, o[i-1], o[i])
	}
	return p
}

// histories passes every list of n responses of m to visit.
func histories(m, n int, visit func(o []int)) {
	o := make([]int, n)
	for {
		visit(o)
		i := n - 1
		for ; i >= 0 && o[i] == m-1; i-- {
			o[i] = 0
		}
		if i < 0 {
			return
		}
		o[i]++
	}
}

// near returns whether two probabilities are equal, absolutely and relatively.
func near(a, b float64) bool {
	return math.Abs(a-b) < 1e-10 && math.Abs(a-b) <= 1e-8*math.Max(a, b)
}

// wantLaw compares everything measured with math.md.
func (tr *tree) wantLaw() {
	tr.Helper()
	levels, largest := tr.rising(), 0.0
	top := levels[len(levels)-1]
	sums := make([]float64, tr.m)
	type at struct{ level, truth, response int }
	marginal := map[at]float64{}
	histories(tr.outcomes, len(levels), func(o []int) {
		got := tr.found[fmt.Sprint(o)]
		check.Need(tr, got != nil, "no history has the responses %v", o)
		for truth, p := range got {
			want := tr.joint(levels, truth, o)
			check.That(tr, near(p, want), "truth %d, responses %v: measured %.15g, want %.15g", truth, o, p, want)
			sums[truth] += p
			for level, response := range o {
				marginal[at{level, truth, response}] += p
			}
			// All responses reveal as much of the true value as the highest one (Lemma 3.1).
			for other, q := range got {
				alone := tr.alone(top, truth, o[len(o)-1]) / tr.alone(top, other, o[len(o)-1])
				if math.Abs(p/q-alone) > 1e-8*alone {
					tr.Errorf("responses %v: the likelihood ratio of the true values %d and %d is %.12g, want that of the highest alone, %.12g", o, truth, other, p/q, alone)
				}
				largest = max(largest, p/q)
			}
		}
	})
	for truth, sum := range sums {
		check.That(tr, near(sum, 1), "truth %d: the probabilities add up to %.15g", truth, sum)
	}
	for at, p := range marginal {
		if want := tr.alone(levels[at.level], at.truth, at.response); !near(p, want) {
			tr.Errorf("true value %d: %q has probability %.15g at ε=%s, want %.15g", at.truth, tr.text(at.response), p, levels[at.level], want)
		}
	}
	// The loss is the highest ε, not the sum.
	if want := math.Exp(top.Float64()); math.Abs(largest-want) > 1e-8*want {
		tr.Errorf("the largest ratio of likelihoods is %.12g, want %.12g", largest, want)
	}
	tr.Logf("%d histories of %d sales on m=%d, %d probes; the largest ratio is %.10g", len(tr.found), tr.sales, tr.m, tr.probes, largest)
}

// fewer omits the last levels, except in the deep form.
func fewer(out int, levels ...string) []string {
	if testenv.Short() || !testenv.Deep() {
		return levels[:len(levels)-out]
	}
	return levels
}

// someOf returns the number of the first order to try. The quick form tries one order, another one
// in each run.
func someOf(orders [][]string) int {
	return rand.IntN(testenv.Stride(len(orders), len(orders)))
}

// The order of the example in math.md: up, up, between, up, between. Each sale is made by Sell on a
// bbolt file.
func TestSales_OrderOfTheExample_HaveTheJointLaw(t *testing.T) {
	enumerate(t, 2, true, fewer(3, "0.5", "1", "0.7", "2", "0.6")...).wantLaw()
}

// The same with three values, where responses can be wrong in two ways. Each node is in memory, and
// the last level is omitted, because it would make 364 nodes, which take 5 s, and 40 s with the
// race detector.
func TestSales_ThreeValues_HaveTheJointLaw(t *testing.T) {
	enumerate(t, 3, false, fewer(1, "0.5", "1", "0.7", "2")...).wantLaw()
}

// Other orders have the same law: downwards, and down, up and between in turn.
func TestSales_OtherOrders_HaveTheJointLaw(t *testing.T) {
	for _, levels := range [][]string{{"2", "1", "0.7", "0.6", "0.5"}, {"1", "0.5", "2", "0.6", "0.7"}, {"0.7", "0.6", "2", "0.5", "1"}} {
		enumerate(t, 2, false, fewer(2, levels...)...).wantLaw()
	}
}

// The comparison detects a law that is slightly wrong: an ε that is off by 0.001, and levels that
// are drawn independently.
func TestNear_SlightlyWrongLaw_IsDetected(t *testing.T) {
	levels := []privacy.Epsilon{Eps(t, "0.5"), Eps(t, "1")}
	off := []privacy.Epsilon{Eps(t, "0.5"), Eps(t, "1.001")}
	histories(2, 2, func(o []int) {
		right := jointLaw(2, levels, 0, o)
		if near(right, jointLaw(2, off, 0, o)) || near(right, firstResponse(2, 0.5, 0, o[0])*firstResponse(2, 1, 0, o[1])) {
			t.Errorf("responses %v: the comparison accepts another law", o)
		}
	})
}
