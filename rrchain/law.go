package rrchain

import (
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// truthAbove stands for ε = ∞ as the level above: the truth itself.
const truthAbove = -1

// law names the distribution of the response at one level of a chain given its neighbours, in
// nano-nats: below is 0 where there is none (uniform noise is a response at ε = 0), and above is
// truthAbove where there is none (the truth is a response at ε = ∞).
type law struct {
	m                int64
	below, at, above int64
}

// ratio is r = λ(ε₁)/λ(ε₂), the probability of being kept on the way down from ε₂ to ε₁, with its
// complement, each computed without cancellation.
type ratio struct{ keep, redraw exact.Interval }

// weights returns the probabilities of the law. With r₁ from above to here, r₂ from here to below,
// r₃ = r₁r₂, and h, l the responses above and below, the channels of Lemma 3.1 and Bayes' rule give
// Pr(o) ∝ (r₁[o=h] + (1−r₁)/m) · (r₂[o=l] + (1−r₂)/m). For h ≠ l that is
//
//	h with r₁(1−r₂)/(1−r₃), l with (1−r₁)r₂/(1−r₃), else uniform;
//
// and for h = l, with D = r₃ + (1−r₃)/m, it is uniform with (1−r₁)(1−r₂)/(mD) and else h.
func (l law) weights(prec uint) exact.Weights {
	one, m := exact.Int(1), exact.Int(l.m)
	below, at := exact.Exp(l.below, prec), exact.Exp(l.at, prec)
	var fromAbove, acrossBoth ratio
	if l.above == truthAbove {
		fromAbove, acrossBoth = l.retention(at), l.retention(below)
	} else {
		above := exact.Exp(l.above, prec)
		fromAbove, acrossBoth = l.ratio(at, above), l.ratio(below, above)
	}
	toBelow := l.ratio(below, at)

	pAbove := fromAbove.keep.Mul(toBelow.redraw).Quo(acrossBoth.redraw)
	pBelow := fromAbove.redraw.Mul(toBelow.keep).Quo(acrossBoth.redraw)
	scale := m.Mul(acrossBoth.keep).Add(acrossBoth.redraw) // mD
	uniform := fromAbove.redraw.Mul(toBelow.redraw).Quo(scale)
	return exact.Weights{First: pAbove, Either: pAbove.Add(pBelow), Same: one.Sub(uniform)}
}

// ratio takes e^ε₁ and e^ε₂ with ε₁ < ε₂.
func (l law) ratio(e1, e2 exact.Interval) ratio {
	one, m, others := exact.Int(1), exact.Int(l.m), exact.Int(l.m-1)
	scale := e1.Add(others).Mul(e2.Sub(one))
	return ratio{
		keep:   e1.Sub(one).Mul(e2.Add(others)).Quo(scale),
		redraw: m.Mul(e2.Sub(e1)).Quo(scale),
	}
}

// retention is the ratio λ(ε)/λ(∞) = λ(ε).
func (l law) retention(e exact.Interval) ratio {
	one, m, others := exact.Int(1), exact.Int(l.m), exact.Int(l.m-1)
	scale := e.Add(others)
	return ratio{keep: e.Sub(one).Quo(scale), redraw: m.Quo(scale)}
}

// cached is how many laws a sampler keeps: many more than the levels in use at a time, and few
// enough that ever new ε from outside cannot fill the memory (a law is about 200 bytes).
const cached = 4096

// Sampler draws responses. A draw compares a uniform real number, revealed bit by bit from the
// operating system's generator, with thresholds held in verified intervals, so its law is exactly
// that of the formulas, at every ε from 10⁻⁹ to 1,000; and its running time does not depend on the
// truth. It keeps the thresholds of recent levels.
//
// The zero value is ready to use. A Sampler is not safe for concurrent use; it is cheap, so make
// one for each goroutine. It must not be copied after the first draw: copies share one stream of
// random bits, and two of them used at the same time could draw from the same bits.
type Sampler struct {
	// Random returns uniform bits; nil is the operating system's generator. Only tests set it, before
	// the first draw: if another party can predict the bits, each response reveals the truth.
	Random interface {
		// Uint64 returns the next 64 bits.
		Uint64() uint64
	}

	bits   *exact.Bits
	laws   map[law]*exact.Mixture
	recent [16]struct { // where a law is looked for first, in its place
		law law
		mix *exact.Mixture
	}
}

// source returns the random bits of the sampler.
func (s *Sampler) source() *exact.Bits {
	if s.bits == nil {
		s.bits = exact.BitsFrom(s.Random)
	}
	return s.bits
}

// upwards is the law of a response at an ε given the one below and the truth.
func upwards(m int, below, at privacy.Epsilon) law {
	return law{int64(m), below.Nano(), at.Nano(), truthAbove}
}

// between is the law of a response at an ε given the ones below and above.
func between(m int, below, at, above privacy.Epsilon) law {
	return law{int64(m), below.Nano(), at.Nano(), above.Nano()}
}

// draw returns a response under l, given the responses above (or the truth) and below. Where there
// is no level below, its response has no weight and any value will do.
func (s *Sampler) draw(l law, above, below int) int {
	return int(s.mixture(l).Draw(s.source(), uint32(above), uint32(below)))
}

// mixture returns the thresholds of a law. Finding them in the map takes longer than a draw.
func (s *Sampler) mixture(l law) *exact.Mixture {
	r := &s.recent[l.place()]
	if r.law != l {
		r.law, r.mix = l, s.kept(l)
	}
	return r.mix
}

// place returns the place of a law among the recent ones, from 0 to 15: the top bits of a product
// with 2⁶⁴ divided by the golden ratio, which spreads numbers that are alike.
func (l law) place() uint64 {
	return uint64(l.below+3*l.at+5*l.above+7*l.m) * 0x9e3779b97f4a7c15 >> 60
}

// kept returns the thresholds of a law from the map, and puts them there first if need be.
func (s *Sampler) kept(l law) *exact.Mixture {
	mix, ok := s.laws[l]
	if !ok {
		if s.laws == nil || len(s.laws) >= cached {
			s.laws = make(map[law]*exact.Mixture)
		}
		mix = exact.NewMixture(uint32(l.m), l.weights)
		s.laws[l] = mix
	}
	return mix
}
