package finite

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Sampler draws responses of families. A draw compares a uniform real number with the rational
// thresholds of its law. The bits of the number come one by one from the operating system's
// generator. A draw therefore has exactly the probabilities of the matrices. The running time does
// not depend on the true value, except with a probability below 2⁻⁵⁰. A Sampler caches the
// thresholds of recent laws.
//
// The zero value is ready to use. A Sampler is not safe for concurrent use. It is cheap, so create
// one for each goroutine. It must not be copied after the first draw: copies share one stream of
// random bits, and two copies used at the same time could draw from the same bits.
type Sampler struct {
	// Random returns uniform bits; nil means the operating system's generator. Only tests set it,
	// before the first draw: if another party can predict the bits, each response reveals the true
	// value.
	Random interface {
		// Uint64 returns the next 64 bits.
		Uint64() uint64
	}

	bits   *exact.Bits
	tables map[lawKey]*table
	cells  int // the number of cells in all tables
}

// Raise draws the response at an ε above the ε of the last one, or a first response if last is the
// zero Level. The cost of all responses together rises to the new ε. truth is the number of the
// input. It must be the same in every call, and is not stored. Raise returns [privacy.ErrInvalid]
// unless both ε are levels of the family, the new one is higher, and the last response can occur at
// its level.
func (s *Sampler) Raise(f *Family, last rrchain.Level[int], to privacy.Epsilon, truth int) (rrchain.Level[int], error) {
	if err := f.checkTruth(truth); err != nil {
		return rrchain.Level[int]{}, err
	}
	p, err := f.place(last, to, f.truth())
	if err != nil {
		return rrchain.Level[int]{}, err
	}
	return s.draw(lawKey{family: f, place: p}, truth)
}

// Between draws the response at an ε between two levels, or below the lowest level if below is the
// zero Level. It costs nothing and needs no true value. It returns [privacy.ErrInvalid] unless all
// three ε are levels of the family, in this order, and the responses can occur together.
func (s *Sampler) Between(f *Family, below, above rrchain.Level[int], at privacy.Epsilon) (rrchain.Level[int], error) {
	top := f.find(above.Epsilon)
	if top < 0 {
		return rrchain.Level[int]{}, invalid("ε = %v is not a level of the family", above.Epsilon)
	}
	if err := f.checkResponse(above.Response, top); err != nil {
		return rrchain.Level[int]{}, err
	}
	p, err := f.place(below, at, top)
	if err != nil {
		return rrchain.Level[int]{}, err
	}
	return s.draw(lawKey{family: f, place: p, upper: above.Response}, 0)
}

// place returns the [place] of a draw at an ε. below is the response below, or the zero Level if
// there is none. above is the index of the level above, or [Family.truth]. It returns
// [privacy.ErrInvalid] unless the levels rise in this order and the response below is possible.
func (f *Family) place(below rrchain.Level[int], at privacy.Epsilon, above int) (place, error) {
	p := place{below: none, at: f.find(at), above: above}
	if p.at < 0 || p.at >= above {
		return p, invalid("ε = %v is not a level of the family below the response above", at)
	}
	if below == (rrchain.Level[int]{}) {
		return p, nil
	}
	p.below, p.lower = f.find(below.Epsilon), below.Response
	if p.below < 0 || p.below >= p.at {
		return p, invalid("ε = %v is not a level of the family below ε = %v", below.Epsilon, at)
	}
	return p, f.checkResponse(below.Response, p.below)
}

// lawKey is everything that the laws of a draw depend on, except the true value. upper is the
// response at the level above, and there is one law. If the level above is the true value, upper is
// 0, and there is a law for each true value.
type lawKey struct {
	family *Family
	place
	upper int
}

// uppers returns the outputs at the level above for which there are laws: only c.upper, or all true
// values if the level above is the true value.
func (c lawKey) uppers() []int {
	if c.above != c.family.truth() {
		return []int{c.upper}
	}
	truths := make([]int, c.family.levels[0].inputs)
	for x := range truths {
		truths[x] = x
	}
	return truths
}

// draw returns a response by the law with the given index among the laws of c. The index is the
// true value if there is a law for each true value, and otherwise 0. draw reads the same memory for
// all laws, because the law may depend on the true value.
func (s *Sampler) draw(c lawKey, law int) (rrchain.Level[int], error) {
	t, err := s.table(c)
	if err != nil {
		return rrchain.Level[int]{}, err
	}
	if s.bits == nil {
		s.bits = exact.BitsFrom(s.Random)
	}
	u := s.bits.Uint64()
	response, isUndecided := t.rank(law, u)
	if isUndecided {
		response, err = s.refine(c, law, u)
	}
	return rrchain.Level[int]{Epsilon: c.family.epsilons[c.at], Response: response}, err
}

// refine returns what [table.rank] would return for a uniform number that begins with u, with as
// many more bits as needed. Unlike the table, it compares with the exact thresholds.
func (s *Sampler) refine(c lawKey, law int, u uint64) (int, error) {
	laws, err := c.family.laws(c.place, c.uppers())
	if err != nil {
		return 0, err
	}
	sums := laws[law]
	last := len(sums) - 1
	return exact.DrawRank(s.bits, u, last, func(prec uint) []exact.Interval {
		thresholds := make([]exact.Interval, last)
		for o, sum := range sums[:last] {
			thresholds[o] = exact.Rational(new(big.Rat).SetFrac(sum, sums[last]), prec)
		}
		return thresholds
	}), nil
}

// cachedCells limits the number of thresholds that a sampler caches. It is far more than the laws
// in use at a time. It is small enough (8 MiB) that a stream of new responses from outside cannot
// fill the memory. tableCells is the overhead of a table, in cells.
const (
	cachedCells = 1 << 20
	tableCells  = 24
)

// table returns the table of the laws of c, from the cache or computed. If the cache is full, it is
// emptied first.
func (s *Sampler) table(c lawKey) (*table, error) {
	if t, ok := s.tables[c]; ok {
		return t, nil
	}
	laws, err := c.family.laws(c.place, c.uppers())
	if err != nil {
		return nil, err
	}
	t := newTable(laws)
	size := len(t.cells) + tableCells
	if s.tables == nil || s.cells+size > cachedCells {
		s.tables, s.cells = make(map[lawKey]*table), 0
	}
	s.tables[c] = t
	s.cells += size
	return t, nil
}

// table holds some laws on the same outputs. A law has a threshold for each output but the last:
// the probability of this output and those before it. The table has the first 64 bits of each
// threshold, a cell: ⌊t·2⁶⁴⌋ for the threshold t. A uniform number U is below t if its first 64
// bits are below the cell, and not below t if they are above it. If they are equal, it is
// undecided.
type table struct {
	laws, thresholds int
	cells            []uint64 // by law, then threshold
}

// newTable computes the table of cumulative laws whose last number represents 1, as [Family.laws]
// returns them.
func newTable(laws [][]*big.Int) *table {
	t := &table{laws: len(laws), thresholds: len(laws[0]) - 1}
	for _, law := range laws {
		whole := law[t.thresholds]
		for _, sum := range law[:t.thresholds] {
			cell := new(big.Int).Lsh(sum, 64)
			if cell.Quo(cell, whole); !cell.IsUint64() { // the threshold is 1
				cell.SetUint64(math.MaxUint64)
			}
			t.cells = append(t.cells, cell.Uint64())
		}
	}
	return t
}

// rank returns the output that U selects by a law. It is the number of thresholds of the law that
// U, whose first 64 bits are u, is not below. If isUndecided is true, 64 bits are not enough and
// the rank may be wrong. It reads all laws, so that its memory accesses do not depend on the law.
func (t *table) rank(law int, u uint64) (rank int, isUndecided bool) {
	undecided := uint64(0)
	for o := range t.thresholds {
		cell := uint64(0)
		for l := range t.laws {
			// The mask is all ones for the law, and zero for the others.
			cell |= t.cells[l*t.thresholds+o] & exact.EqualMask(uint64(l), uint64(law))
		}
		_, below := bits.Sub64(u, cell, 0)
		rank += int(1 - below)
		undecided |= exact.EqualMask(u, cell)
	}
	return rank, undecided != 0
}
