package finite

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Sampler draws responses of families. A draw compares a uniform real number, revealed bit by bit
// from the operating system's generator, with the rational thresholds of its law, so it has exactly
// the probabilities of the matrices. How long it takes does not depend on the truth, except with
// probability below 2⁻⁵⁰. A Sampler keeps the thresholds of recent laws.
//
// The zero value is ready to use. A Sampler is not safe for concurrent use; it is cheap, so make
// one for each goroutine. It must not be copied after the first draw: copies share one stream of
// random bits, and two of them used at the same time could draw from the same bits.
type Sampler struct {
	// Random returns uniform bits; nil is the operating system's generator. Only tests set it,
	// before the first draw: if another party can predict the bits, each response reveals the
	// truth.
	Random interface {
		// Uint64 returns the next 64 bits.
		Uint64() uint64
	}

	bits   *exact.Bits
	tables map[source]*table
	cells  int // of all tables
}

// Raise draws the response at an ε above that of the last one, or a first one if that is the zero
// Level. The cost of all of them rises to ε. truth is the number of the input; it must be the same
// in every call and is not kept. Raise returns [privacy.ErrInvalid] unless both ε are levels of the
// family, to the higher one, and the last response one that can occur at its level.
func (s *Sampler) Raise(f *Family, last rrchain.Level[int], to privacy.Epsilon, truth int) (rrchain.Level[int], error) {
	if err := f.checkTruth(truth); err != nil {
		return rrchain.Level[int]{}, err
	}
	p, err := f.place(last, to, f.truth())
	if err != nil {
		return rrchain.Level[int]{}, err
	}
	return s.draw(source{family: f, place: p}, truth)
}

// Between draws the response at an ε between those of two others or, if below is the zero Level,
// below the lowest one. It is free: it needs no truth. It returns [privacy.ErrInvalid] unless all
// are levels of the family, in this order, and the responses can occur together.
func (s *Sampler) Between(f *Family, below, above rrchain.Level[int], at privacy.Epsilon) (rrchain.Level[int], error) {
	top := f.find(above.Epsilon)
	if top < 0 {
		return rrchain.Level[int]{}, invalid("ε = %v is no level of the family", above.Epsilon)
	}
	if err := f.checkResponse(above.Response, top); err != nil {
		return rrchain.Level[int]{}, err
	}
	p, err := f.place(below, at, top)
	if err != nil {
		return rrchain.Level[int]{}, err
	}
	return s.draw(source{family: f, place: p, upper: above.Response}, 0)
}

// place finds the levels of a draw.
func (f *Family) place(below rrchain.Level[int], at privacy.Epsilon, above int) (place, error) {
	p := place{below: none, at: f.find(at), above: above}
	if p.at < 0 || p.at >= above {
		return p, invalid("ε = %v is no level of the family below the one above", at)
	}
	if below == (rrchain.Level[int]{}) {
		return p, nil
	}
	p.below, p.lower = f.find(below.Epsilon), below.Response
	if p.below < 0 || p.below >= p.at {
		return p, invalid("ε = %v is no level of the family below ε = %v", below.Epsilon, at)
	}
	return p, f.checkResponse(below.Response, p.below)
}

// source is what the law of a draw depends on, but for the truth. upper is the response at the
// level above; where that is the truth, it is 0, and there is a law for each truth.
type source struct {
	family *Family
	place
	upper int
}

// uppers returns the responses above, or truths, that there are laws for.
func (c source) uppers() []int {
	if c.above != c.family.truth() {
		return []int{c.upper}
	}
	truths := make([]int, c.family.levels[0].inputs)
	for x := range truths {
		truths[x] = x
	}
	return truths
}

// draw returns a response by one of the laws of a source. The memory that it looks at is the same
// for all of them: the law may be that of the truth.
func (s *Sampler) draw(c source, law int) (rrchain.Level[int], error) {
	t, err := s.table(c)
	if err != nil {
		return rrchain.Level[int]{}, err
	}
	if s.bits == nil {
		s.bits = exact.BitsFrom(s.Random)
	}
	u := s.bits.Uint64()
	response, open := t.rank(law, u)
	if open {
		response, err = s.refine(c, law, u)
	}
	return rrchain.Level[int]{Epsilon: c.family.epsilons[c.at], Response: response}, err
}

// refine draws as [table.rank] does, from a number that begins with u, with as many more bits as it
// takes.
func (s *Sampler) refine(c source, law int, u uint64) (int, error) {
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

// cachedCells is how many thresholds a sampler keeps: many more than the laws in use at a time, and
// few enough (8 MiB) that ever new responses from outside cannot fill the memory. A table takes the
// room of tableCells more.
const (
	cachedCells = 1 << 20
	tableCells  = 24
)

// table returns the thresholds of a source.
func (s *Sampler) table(c source) (*table, error) {
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
		s.tables, s.cells = make(map[source]*table), 0
	}
	s.tables[c] = t
	s.cells += size
	return t, nil
}

// table is some laws on the same outputs as the first 64 bits of a uniform number U see them. U is
// below the threshold t of an output if its first bits are below ⌊t·2⁶⁴⌋, not below it if they are
// above, and undecided if they are equal.
type table struct {
	laws, thresholds int
	cells            []uint64 // by law, then threshold
}

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

// rank counts the thresholds of a law that U, whose first bits are u, is not below. It looks at all
// laws.
func (t *table) rank(law int, u uint64) (rank int, open bool) {
	undecided := uint64(0)
	for o := range t.thresholds {
		cell := uint64(0)
		for l := range t.laws {
			cell |= t.cells[l*t.thresholds+o] & exact.EqualMask(uint64(l), uint64(law))
		}
		_, below := bits.Sub64(u, cell, 0)
		rank += int(1 - below)
		undecided |= exact.EqualMask(u, cell)
	}
	return rank, undecided != 0
}
