package rrchain

import (
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// truthAbove represents ε = ∞ as the level above, which is the true value itself.
const truthAbove = -1

// law identifies the distribution of the response at one level of a chain given its neighbours, in
// nano-nats. below is 0 if there is no level below, because uniform noise is a response at ε = 0.
// above is truthAbove if there is no level above, because the true value is a response at ε = ∞.
type law struct {
	m                int64
	below, at, above int64
}

// ratio is r = λ(ε₁)/λ(ε₂), the probability that a response is kept on the way down from ε₂ to ε₁,
// with its complement. Each is computed without cancellation.
type ratio struct{ keep, redraw exact.Interval }

// weights returns enclosures of the probabilities of the law, as [exact.NewMixture] needs them: the
// first value is the response above, and the second one is the response below.
//
// Let r₁ be the ratio from above to here, r₂ the ratio from here to below, and r₃ = r₁r₂. Let h and
// l be the responses above and below. The channels of Lemma 3.1 and Bayes' rule give Pr(o) ∝
// (r₁[o=h] + (1−r₁)/m) · (r₂[o=l] + (1−r₂)/m). For h ≠ l this is
//
//	h with r₁(1−r₂)/(1−r₃), l with (1−r₁)r₂/(1−r₃), else uniform.
//
// For h = l, with D = r₃ + (1−r₃)/m, it is uniform with (1−r₁)(1−r₂)/(mD) and else h.
func (l law) weights(prec uint) exact.Weights {
	one, m := exact.Int(1), exact.Int(l.m)
	below, at := exact.Exp(l.below, prec), exact.Exp(l.at, prec)
	var fromAbove, acrossBoth ratio // r₁ and r₃
	if l.above == truthAbove {
		fromAbove, acrossBoth = l.retention(at), l.retention(below)
	} else {
		above := exact.Exp(l.above, prec)
		fromAbove, acrossBoth = l.ratio(at, above), l.ratio(below, above)
	}
	toBelow := l.ratio(below, at) // r₂

	pAbove := fromAbove.keep.Mul(toBelow.redraw).Quo(acrossBoth.redraw)
	pBelow := fromAbove.redraw.Mul(toBelow.keep).Quo(acrossBoth.redraw)
	scale := m.Mul(acrossBoth.keep).Add(acrossBoth.redraw) // mD
	uniform := fromAbove.redraw.Mul(toBelow.redraw).Quo(scale)
	return exact.Weights{First: pAbove, Either: pAbove.Add(pBelow), Same: one.Sub(uniform)}
}

// ratio returns λ(ε₁)/λ(ε₂) and its complement for e1 = e^ε₁ and e2 = e^ε₂ with ε₁ < ε₂, where λ(ε)
// = (e^ε−1)/(e^ε+m−1).
func (l law) ratio(e1, e2 exact.Interval) ratio {
	one, m, others := exact.Int(1), exact.Int(l.m), exact.Int(l.m-1)
	scale := e1.Add(others).Mul(e2.Sub(one))
	return ratio{
		keep:   e1.Sub(one).Mul(e2.Add(others)).Quo(scale),
		redraw: m.Mul(e2.Sub(e1)).Quo(scale),
	}
}

// retention returns λ(ε)/λ(∞) = λ(ε) and its complement for e = e^ε. It is the ratio from the true
// value to a response.
func (l law) retention(e exact.Interval) ratio {
	one, m, others := exact.Int(1), exact.Int(l.m), exact.Int(l.m-1)
	scale := e.Add(others)
	return ratio{keep: e.Sub(one).Quo(scale), redraw: m.Quo(scale)}
}

// maxCached is the number of laws that a sampler caches. It is far more than the levels in use at a
// time. It is small enough that a stream of new ε from outside cannot fill the memory (a law takes
// about 200 bytes).
const maxCached = 4096

// Sampler draws responses. A draw compares a uniform real number with thresholds. The bits of the
// number come one by one from the operating system's generator, and the thresholds are kept in
// verified intervals. The law of a draw is therefore exactly the law of the formulas, at every ε
// from 10⁻⁹ to 1,000. The running time does not depend on the true value. A Sampler caches the
// thresholds of recent levels.
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
	laws   map[law]*exact.Mixture // at most maxCached
	recent [16]struct {           // a cache that is read before laws, by law.slot
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

// upwards returns the law of a response at an ε given the response below and the true value. below
// is 0 if there is no response below.
func upwards(m int, below, at privacy.Epsilon) law {
	return law{int64(m), below.Nano(), at.Nano(), truthAbove}
}

// between returns the law of a response at an ε given the responses below and above. below is 0 if
// there is no response below.
func between(m int, below, at, above privacy.Epsilon) law {
	return law{int64(m), below.Nano(), at.Nano(), above.Nano()}
}

// draw returns a response under the law l. above is the response above, or the true value if the
// law is for the true value. below is the response below. If there is no level below, its response
// has no weight and may be any value.
func (s *Sampler) draw(l law, above, below int) int {
	return int(s.mixture(l).Draw(s.source(), uint32(above), uint32(below)))
}

// mixture returns the thresholds of a law. It reads a small cache first, because the lookup in the
// map takes longer than a draw.
func (s *Sampler) mixture(l law) *exact.Mixture {
	r := &s.recent[l.slot()]
	if r.law != l {
		r.law, r.mix = l, s.cachedMixture(l)
	}
	return r.mix
}

// slot returns the index of a law in the small cache, from 0 to 15. It is the top bits of a
// product with 2⁶⁴ divided by the golden ratio, which spreads similar numbers.
func (l law) slot() uint64 {
	return uint64(l.below+3*l.at+5*l.above+7*l.m) * 0x9e3779b97f4a7c15 >> 60
}

// cachedMixture returns the thresholds of a law from the map. If they are missing, it computes and
// stores them. If the map is full, it begins an empty one.
func (s *Sampler) cachedMixture(l law) *exact.Mixture {
	mix, ok := s.laws[l]
	if !ok {
		if s.laws == nil || len(s.laws) >= maxCached {
			s.laws = make(map[law]*exact.Mixture)
		}
		mix = exact.NewMixture(uint32(l.m), l.weights)
		s.laws[l] = mix
	}
	return mix
}
