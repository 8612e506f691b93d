package exact

import (
	"encoding/binary"
	"math/big"
	"math/bits"
	"testing"
)

const ones = ^uint64(0)

// tape is a stream of bits that a test writes: some words, then one word for ever. It counts the
// words read.
type tape struct {
	Bits
	words, pages int
}

// load replaces the content of the tape. The words go to the end of the first page, because filling
// the page would take longer.
func (t *tape) load(tail uint64, words ...uint64) {
	t.words, t.pages, t.used = len(words), 0, page-8*len(words)
	for i, word := range words {
		binary.BigEndian.PutUint64(t.buf[t.used+8*i:], word)
	}
	t.fill = func(p []byte) {
		t.pages++
		for i := 0; i < len(p); i += 8 {
			binary.BigEndian.PutUint64(p[i:], tail)
		}
	}
}

// read returns how many words were read.
func (t *tape) read() int { return t.words + t.pages*page/8 - (page-t.used)/8 }

// The tests draw from mixtures over few values or many, for the values first and second. A draw of
// neither returns third, because that is the uniform value on the tape.
const (
	first  = 1
	second = 2
	third  = 5
)

// few and many are numbers of values. Both are powers of two, so that the uniform value is a number
// of whole bits.
const few, many = 1 << 3, 1 << 20

// specimen is a mixture with its thresholds from an independent computation, to 512 bits or more.
type specimen struct {
	name                string
	weights             func(prec uint) Weights
	first, either, same *big.Float
	*Mixture
}

func newSpecimen(name string, weights func(prec uint) Weights, first, either, same *big.Float) specimen {
	return specimen{name, weights, first, either, same, NewMixture(few, weights)}
}

// ofMany is the same specimen over many values.
func (s specimen) ofMany() specimen {
	s.name, s.Mixture = s.name+", many values", NewMixture(many, s.weights)
	return s
}

// specimens returns mixtures with irrational thresholds, equal and different; with rational
// thresholds of finite and infinite binary expansions; with 0 and 1; and with thresholds so close
// to a short binary fraction that their intervals contain it.
func specimens() []specimen {
	list := []specimen{
		responseSpecimen("response at ε=1, m=2", 2, 1_000_000_000),
		responseSpecimen("response at ε=0.589, m=4", 4, 589_000_000),
		responseSpecimen("response at ε=10⁻⁹, m=3", 3, 1),
		responseSpecimen("response at ε=12, m=2²⁰", 1<<20, 12_000_000_000),
		rationalSpecimen("all 0", 0, 1, 0, 1, 0, 1),
		rationalSpecimen("all 1", 1, 1, 1, 1, 1, 1),
		rationalSpecimen("1/4, 1/3, 1", 1, 4, 1, 3, 1, 1),
		rationalSpecimen("0, 2/3, 1/4", 0, 1, 2, 3, 1, 4),
		rationalSpecimen("2/3, 3/4, 1/8", 2, 3, 3, 4, 1, 8),
		closeSpecimen(),
	}
	e := taylor(1_000_000_000, 600)
	one := big.NewFloat(1)
	list = append(list, newSpecimen("1/e, e/(e+1), 1−1/e", func(prec uint) Weights {
		e, one := Exp(1_000_000_000, prec), Int(1)
		return Weights{First: one.Quo(e), Either: e.Quo(e.Add(one)), Same: one.Sub(one.Quo(e))}
	}, quo(one, e), quo(e, sum(e, one)), sum(one, new(big.Float).Neg(quo(one, e)))))
	for _, s := range list {
		list = append(list, s.ofMany())
	}
	return list
}

// response returns the weights of a randomized response at ε = nano·10⁻⁹ on m values: the true
// value with probability λ = (e^ε − 1)/(e^ε + m − 1), otherwise a uniform value.
func response(m, nano int64) func(prec uint) Weights {
	return func(prec uint) Weights {
		e := Exp(nano, prec)
		λ := e.Sub(Int(1)).Quo(e.Add(Int(m - 1)))
		return Weights{First: λ, Either: λ, Same: λ}
	}
}

func responseSpecimen(name string, m, nano int64) specimen {
	e := taylor(nano, 600)
	λ := quo(sum(e, big.NewFloat(-1)), sum(e, big.NewFloat(float64(m-1))))
	return newSpecimen(name, response(m, nano), λ, λ, λ)
}

// rationalSpecimen has the thresholds a/b, c/d and e/f.
func rationalSpecimen(name string, a, b, c, d, e, f int64) specimen {
	weights := func(prec uint) Weights {
		return Weights{fraction(a, b, prec), fraction(c, d, prec), fraction(e, f, prec)}
	}
	exact := func(a, b int64) *big.Float { return quo(big.NewFloat(float64(a)), big.NewFloat(float64(b))) }
	return newSpecimen(name, weights, exact(a, b), exact(c, d), exact(e, f))
}

// closeSpecimen has the thresholds 1/4 − 2⁻²⁰⁰, 1/4 + 2⁻²⁰⁰ and 1/2 + 2⁻³⁰⁰ in intervals as wide as
// their precision allows.
func closeSpecimen() specimen {
	quarter := big.NewFloat(0.25)
	first := sum(quarter, new(big.Float).Neg(powerOfTwo(-200)))
	either := sum(quarter, powerOfTwo(-200))
	same := sum(big.NewFloat(0.5), powerOfTwo(-300))
	weights := func(prec uint) Weights {
		around := func(x *big.Float) Interval {
			width := powerOfTwo(-int(prec))
			return Interval{sum(x, new(big.Float).Neg(width)), sum(x, width)}
		}
		return Weights{around(first), around(either), around(same)}
	}
	return newSpecimen("1/4 ± 2⁻²⁰⁰, 1/2 + 2⁻³⁰⁰", weights, first, either, same)
}

// fraction encloses a/b, exactly when it has a finite binary expansion.
func fraction(a, b int64, prec uint) Interval {
	numerator := new(big.Float).SetPrec(prec).SetInt64(a)
	return Interval{numerator, numerator}.Quo(Int(b))
}

func quo(x, y *big.Float) *big.Float { return new(big.Float).SetPrec(640).Quo(x, y) }
func sum(x, y *big.Float) *big.Float { return new(big.Float).SetPrec(640).Add(x, y) }

// pair is a way to draw from a mixture: with two different values or with equal ones.
type pair struct {
	name   string
	second uint32
	sides  []side
}

// side is one real threshold of a draw, with a function that returns whether U was below it.
type side struct {
	name  string
	at    *big.Float
	below func(value uint32) bool
}

func (s specimen) pairs() []pair {
	isFirst := func(value uint32) bool { return value == first }
	isEither := func(value uint32) bool { return value != third }
	return []pair{
		{"different", second, []side{{"First", s.first, isFirst}, {"Either", s.either, isEither}}},
		{"equal", first, []side{{"Same", s.same, isFirst}}},
	}
}

// at draws with a U that begins with the given words and continues with tail for ever.
func (s specimen) at(t *tape, second uint32, tail uint64, u ...uint64) uint32 {
	s.write(t, third, tail, u...)
	return s.Draw(&t.Bits, first, second)
}

// write puts the words of a draw on the tape: one real number that begins with the bits of the
// uniform value and continues with those of U.
func (s specimen) write(t *tape, value, tail uint64, u ...uint64) {
	width := bits.Len64(s.m - 1)
	list, before := make([]uint64, len(u)), value
	for i, word := range u {
		list[i] = before<<(64-width) | word>>width
		before = word
	}
	list = append(list, before<<(64-width)|tail>>width)
	t.load(bits.RotateLeft64(tail, -width), list...)
}

// eachThreshold runs a subtest for every threshold of every specimen.
func eachThreshold(t *testing.T, check func(t *testing.T, at *big.Float, below decider)) {
	for _, s := range specimens() {
		for _, p := range s.pairs() {
			for _, side := range p.sides {
				t.Run(s.name+"/"+p.name+"/"+side.name, func(t *testing.T) {
					var bits tape
					check(t, side.at, func(tail uint64, u ...uint64) bool {
						return side.below(s.at(&bits, p.second, tail, u...))
					})
				})
			}
		}
	}
}
