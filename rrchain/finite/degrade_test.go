package finite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/lp"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// byProgram finds a channel by the linear program, without the attempt to redraw.
func byProgram(t testing.TB, higher, lower *Matrix) (*Matrix, error) {
	t.Helper()
	optimum, err := must(channelProgram(higher, lower)).Maximize(t.Context(), nil)
	return channelFrom(higher, lower, optimum, err)
}

// wantEqual reports a matrix that is not exactly as wanted.
func wantEqual(t *testing.T, name string, got *Matrix, want func(from, to int) *big.Rat) {
	t.Helper()
	for from := range got.inputs {
		for to := range got.outputs {
			if w := want(from, to); got.at(from, to).Cmp(w) != 0 {
				t.Errorf("%s: from %d to %d with probability %v, want %v", name, from, to, got.at(from, to), w)
				return
			}
		}
	}
}

// retention of randomized response: λ = (E−1)/(E+m−1).
func retention(m int, odds *big.Rat) *big.Rat {
	return over(minus(odds, integer(1)), plus(odds, integer(m-1)))
}

// Channel and kernel must be the closed forms of the papers, in rational numbers.
func TestDegradation_RandomizedResponse_HasTheClosedForms(t *testing.T) {
	for m := 2; m <= 8; m++ {
		for _, pair := range [][2]string{{"2", "4"}, {"11/10", "6/5"}, {"3/2", "1000"}, {"5/4", "1000000001/800000000"}} {
			name := fmt.Sprintf("m=%d, E=%s and %s", m, pair[0], pair[1])
			odds1, odds2 := rat(pair[0]), rat(pair[1])
			lower, higher := randomized(m, odds1), randomized(m, odds2)
			f := family(t, lower, higher)

			// The channel keeps the value with (1+(m−1)s)/m and moves to each other value with
			// (1−s)/m, where s = λ₁/λ₂.
			s := over(retention(m, odds1), retention(m, odds2))
			channel := func(from, to int) *big.Rat {
				if from == to {
					return over(plus(integer(1), times(integer(m-1), s)), integer(m))
				}
				return over(minus(integer(1), s), integer(m))
			}
			wantEqual(t, name+", channel", f.channels[0], channel)
			wantEqual(t, name+", channel by linear program", must(byProgram(t, higher, lower)), channel)

			levels := f.Epsilons()
			for truth := range m {
				for last := range m {
					kernel := must(f.Kernel(levels[0], levels[1], truth, last))
					for next, p := range kernel {
						if want := gradual(m, odds1, odds2, truth, last, next); p.Cmp(want) != 0 {
							t.Fatalf("%s: from %d to %d with the truth %d: %v, want %v", name, last, next, truth, p, want)
						}
					}
				}
			}
		}
	}
}

// gradual returns the kernel of pan2024 Eq. (50) and (54), as printed, from the last response to
// the next, with E = e^ε.
func gradual(m int, odds1, odds2 *big.Rat, truth, last, next int) *big.Rat {
	one, others := integer(1), integer(m-1)
	rise, scale := minus(odds2, one), times(minus(odds2, one), plus(odds2, others))
	stays := minus(over(odds2, rise), over(times(over(odds2, odds1), plus(odds1, others)), scale)) // p_aa
	rights := over(minus(times(odds2, odds2), times(odds1, odds2)), scale)                         // p_ba
	persists := minus(over(odds1, rise), over(plus(odds1, others), scale))                         // p_bb
	switch {
	case last == truth && next == truth:
		return stays
	case last == truth:
		return over(minus(one, stays), others)
	case next == truth:
		return rights
	case next == last:
		return persists
	default:
		return over(minus(one, plus(rights, persists)), integer(m-2))
	}
}

// Kernel must agree with rrchain.NewKernel, for E so close to e^ε that the difference is
// negligible.
func TestKernel_RandomizedResponse_AgreesWithRrchain(t *testing.T) {
	for m := 2; m <= 8; m++ {
		for _, pair := range [][2]string{{"0.5", "1"}, {"0.001", "5"}, {"1", "1.000001"}, {"2", "20"}} {
			from, to := eps(pair[0]), eps(pair[1])
			f := family(t, randomized(m, power(from)), randomized(m, power(to)))
			want := must(rrchain.NewKernel(m, from, to))
			for _, c := range []struct {
				name              string
				truth, last, next int
				want              float64
			}{
				{"PAA", 0, 0, 0, want.PAA}, {"PBA", 0, 1, 0, want.PBA}, {"PBB", 0, 1, 1, want.PBB},
				{"PBC", 0, 1, m - 1, want.PBC}, {"1−PAA", 1, 1, 0, want.OneMinusPAA / float64(m-1)},
			} {
				if c.name == "PBC" && m == 2 {
					continue
				}
				kernel := must(f.Kernel(from, to, c.truth, c.last))
				if got, _ := kernel[c.next].Float64(); math.Abs(got-c.want) > 1e-12*c.want {
					t.Errorf("m=%d, ε=%v to %v: %s = %v, want %v", m, from, to, c.name, got, c.want)
				}
			}
		}
	}
}

// power returns a fraction that is below e^ε by less than 2⁻²⁰⁰ of it.
func power(epsilon privacy.Epsilon) *big.Rat {
	low, _ := exact.Exp(epsilon.Nano(), 200).Bounds()
	odds, _ := low.Rat(nil)
	return odds
}

// bitwise returns the channel that keeps each bit of an output's number with the retention λ₁/λ₂ of
// m = 2.
func bitwise(m int, odds1, odds2 *big.Rat) *Matrix {
	s := over(retention(2, odds1), retention(2, odds2))
	flip := over(minus(integer(1), s), integer(2))
	rows := make([][]*big.Rat, 1<<m)
	for from := range rows {
		for to := range 1 << m {
			p := integer(1)
			for v := range m {
				if (from^to)>>v&1 == 1 {
					p.Mul(p, flip)
				} else {
					p.Mul(p, minus(integer(1), flip))
				}
			}
			rows[from] = append(rows[from], p)
		}
	}
	return matrix(rows...)
}

// NewFamily finds a channel for whole rows of bits. An rrchain.Chain in unary encoding uses another
// channel, bit by bit. With that channel, the kernel is that of such a chain.
func TestUnaryEncoding_BitwiseChannel_HasTheChainKernel(t *testing.T) {
	for m := 2; m <= 4; m++ {
		for _, pair := range [][2]string{{"2", "4"}, {"5/4", "3/2"}} {
			odds1, odds2 := rat(pair[0]), rat(pair[1])
			lower, higher := unary(m, odds1), unary(m, odds2)
			f := family(t, lower, higher)
			check.That(t, higher.then(f.channels[0]).equal(lower),
				"m=%d: the channel of NewFamily does not map to the lower level", m)
			f.channels[0] = bitwise(m, odds1, odds2)
			check.That(t, higher.then(f.channels[0]).equal(lower),
				"m=%d: the bitwise channel does not map to the lower level", m)
			for last := range 1 << m {
				for truth := range m {
					kernel := must(f.Kernel(f.epsilons[0], f.epsilons[1], truth, last))
					for next, p := range kernel {
						if want := unaryKernel(m, odds1, odds2, truth, last, next); p.Cmp(want) != 0 {
							t.Fatalf("m=%d, truth %d, from %b to %b: %v, want %v", m, truth, last, next, p, want)
						}
					}
				}
			}
		}
	}
}

// unaryKernel returns the kernel of an rrchain.Chain in unary encoding. The hidden bit of the true
// value is drawn from the last response, all other bits are 0, and every bit is raised by the
// kernel for m = 2.
func unaryKernel(m int, odds1, odds2 *big.Rat, truth, last, next int) *big.Rat {
	sum := new(big.Rat)
	for coin := range 2 {
		agrees := over(integer(1), plus(odds1, integer(1)))
		if last>>truth&1 == coin {
			agrees.Mul(agrees, odds1)
		}
		for v := range m {
			hidden := 0
			if v == truth {
				hidden = coin
			}
			agrees.Mul(agrees, gradual(2, odds1, odds2, hidden, last>>v&1, next>>v&1))
		}
		sum.Add(sum, agrees)
	}
	return sum
}

// wantGame checks by multiplication that the gains of the error's game prove it.
func wantGame(t *testing.T, name string, higher, lower *Matrix, err error) {
	t.Helper()
	var no *NotDegradationError
	if !errors.As(err, &no) || !errors.Is(err, privacy.ErrInvalid) {
		t.Errorf("%s: %v; want a NotDegradationError", name, err)
		return
	}
	low, high := new(big.Rat), new(big.Rat)
	for x := range lower.inputs {
		for o := range lower.outputs {
			low.Add(low, times(no.Gain[x][o], lower.At(x, o)))
		}
	}
	for seen := range higher.outputs {
		var best *big.Rat
		for guess := range lower.outputs {
			gain := new(big.Rat)
			for x := range higher.inputs {
				gain.Add(gain, times(higher.At(x, seen), no.Gain[x][guess]))
			}
			if best == nil || gain.Cmp(best) > 0 {
				best = gain
			}
		}
		high.Add(high, best)
	}
	if low.Cmp(no.Lower) != 0 || high.Cmp(no.Higher) != 0 || low.Cmp(high) <= 0 {
		t.Errorf("%s: the lower mechanism gains %v, said to be %v; the higher one %v, said to be %v",
			name, low, no.Lower, high, no.Higher)
	}
}

func TestDegradation_NoChannel_ReturnsAGame(t *testing.T) {
	three := func(text string) *Matrix { return randomized(3, rat(text)) }
	for _, c := range []struct {
		name          string
		higher, lower *Matrix
	}{
		{"the wrong way round", three("2"), three("3")},
		{"by a little", three("2"), three("2000000001/1000000000")},
		{"the lower one returns the true value", three("1000"), matrixOf("1 0 0", "0 1 0", "0 0 1")},
		{"the higher one is independent of the input", matrixOf("1/2 1/2", "1/2 1/2"), randomized(2, rat("11/10"))},
		{"unary encoding from randomized response", randomized(4, rat("3")), unary(4, rat("2"))},
		{"randomized response from unary encoding", unary(3, rat("3")), three("29/10")},
		{"randomized response from Hadamard response", hadamard(3, rat("3")), three("11/4")},
		{"distinguishes inputs that the higher one does not",
			matrixOf("3/4 1/4", "1/4 3/4", "1/4 3/4"), three("11/10")},
		{"a negative retention that is too large",
			matrixOf("3/5 2/5", "2/5 3/5"), matrixOf("1/5 4/5", "4/5 1/5")},
		{"a retention below 1, with a rest below 0",
			matrixOf("3/5 2/5", "2/5 3/5"), matrixOf("1/4 3/4", "3/20 17/20")},
	} {
		channel, err := degradation(t.Context(), c.higher, c.lower)
		check.That(t, channel == nil, "%s: a channel", c.name)
		wantGame(t, c.name, c.higher, c.lower, err)
	}
}

// These pairs have a channel that does not keep all outputs with the same probability.
func TestDegradation_ByLinearProgram_FindsAChannel(t *testing.T) {
	for _, c := range []struct {
		name          string
		higher, lower *Matrix
	}{
		{"the same", randomized(3, rat("2")), randomized(3, rat("2"))},
		{"the opposite", randomized(2, rat("2")), randomized(2, rat("1/2"))},
		{"both independent of the input", matrixOf("1/2 1/2", "1/2 1/2"), matrixOf("1/3 2/3", "1/3 2/3")},
		{"the lower one independent of the input", randomized(2, rat("5")), matrixOf("1/3 1/3 1/3", "1/3 1/3 1/3")},
		{"outputs that never happen",
			matrixOf("3/4 0 1/4", "1/4 0 3/4"),
			matrixOf("2/5 3/5 0", "3/5 2/5 0")},
		{"an output twice", matrixOf("3/8 3/8 1/4", "1/8 1/8 3/4"), randomized(2, rat("2"))},
		{"an output in two parts", randomized(2, rat("3")), matrixOf("3/8 3/8 1/4", "1/8 1/8 3/4")},
		{"the truth", matrixOf("1 0", "0 1"), randomized(2, rat("7"))},
	} {
		channel, err := degradation(t.Context(), c.higher, c.lower)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		wantChannel(t, c.name, channel, c.higher, c.lower)
	}
}

// wantChannel checks that a channel is a valid matrix and maps the higher mechanism to the lower
// one.
func wantChannel(t *testing.T, name string, channel, higher, lower *Matrix) {
	t.Helper()
	rows := make([][]*big.Rat, channel.inputs)
	for from := range rows {
		rows[from] = lawOf(channel, from)
	}
	_, err := NewMatrix(rows)
	check.That(t, err == nil, "%s: %v", name, err)
	for x := range higher.inputs {
		for o := range lower.outputs {
			sum := new(big.Rat)
			for middle := range higher.outputs {
				sum.Add(sum, times(higher.At(x, middle), channel.At(middle, o)))
			}
			check.That(t, sum.Cmp(lower.At(x, o)) == 0,
				"%s: input %d leads to %d with probability %v, want %v", name, x, o, sum, lower.At(x, o))
		}
	}
}

// Random mechanisms are degraded by random channels, and a channel must be found. The reverse
// direction must be refused. Then the lower mechanism is changed a little, and the proof of the
// answer is checked, for either answer.
func TestDegradation_RandomPairs_HaveProvenAnswers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	still, gone := 0, 0
	for i := range 60 {
		inputs, outputs, fewer := 2+random.IntN(3), 2+random.IntN(4), 2+random.IntN(4)
		higher := randomMatrix(random, inputs, outputs)
		lower := higher.then(randomMatrix(random, outputs, fewer))
		name := fmt.Sprintf("pair %d", i)
		channel, err := degradation(t.Context(), higher, lower)
		check.Need(t, err == nil, "%s: %v", name, err)
		wantChannel(t, name, channel, higher, lower)

		_, err = degradation(t.Context(), lower, higher)
		wantGame(t, name+", back", lower, higher, err)

		spoilt := lower.then(matrix(spoil(random, fewer)...))
		if channel, err = degradation(t.Context(), higher, spoilt); err == nil {
			still++
			wantChannel(t, name+", mixed", channel, higher, spoilt)
		}
		x := random.IntN(inputs)
		bit := times(rat("1/2"), lower.p[x*fewer])
		lower.p[x*fewer].Sub(lower.p[x*fewer], bit)
		lower.p[x*fewer+1].Add(lower.p[x*fewer+1], bit)
		lower = newMatrix(inputs, fewer, lower.p)
		if channel, err = degradation(t.Context(), higher, lower); err == nil {
			wantChannel(t, name+", spoilt", channel, higher, lower)
		} else {
			gone++
			wantGame(t, name+", spoilt", higher, lower, err)
		}
	}
	check.That(t, still == 60 && gone >= 10 && gone != 60,
		"%d of 60 mixed and %d of 60 spoilt mechanisms are degradations", still, 60-gone)
}

// spoil returns a channel that keeps most outputs unchanged.
func spoil(random *rand.Rand, outputs int) [][]*big.Rat {
	rows := make([][]*big.Rat, outputs)
	for from := range rows {
		moved := random.IntN(outputs)
		for to := range outputs {
			p := new(big.Rat)
			if to == from {
				p.Add(p, rat("99/100"))
			}
			if to == moved {
				p.Add(p, rat("1/100"))
			}
			rows[from] = append(rows[from], p)
		}
	}
	return rows
}

func TestDegradation_InvalidMatrices_AreRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	two, three := randomized(2, rat("2")), randomized(3, rat("2"))
	wide := make([]*big.Rat, 65)
	for o := range wide {
		wide[o] = rat("1/65")
	}
	for _, c := range []struct {
		name          string
		higher, lower *Matrix
	}{
		{"other inputs", two, three},
		{"no higher one", nil, two},
		{"no lower one", two, nil},
		{"an empty one", &Matrix{}, two},
		{"a channel of 65 by 65", matrix(wide, wide), matrix(wide, wide)},
		{"a linear program of 64 by 64", randomMatrix(random, 2, 64), randomMatrix(random, 2, 64)},
	} {
		channel, err := degradation(t.Context(), c.higher, c.lower)
		var no *NotDegradationError
		check.That(t, channel == nil && errors.Is(err, privacy.ErrInvalid) && !errors.As(err, &no),
			"%s: %v, %v", c.name, channel, err)
	}
}

// A channel of 64 by 64 is found for a design, which needs no linear program.
func TestDegradation_LargestChannel_NeedsNoProgram(t *testing.T) {
	higher, lower := hadamard(63, rat("3")), hadamard(63, rat("2"))
	channel := must(degradation(t.Context(), higher, lower))
	check.That(t, higher.then(channel).equal(lower), "the channel is wrong")
}

// The channel between two matrices with long denominators has their product as its denominator. The
// JSON of such a family could not be read again.
func TestDegradation_ChannelOfTooManyBits_IsRefused(t *testing.T) {
	inUnits := func(count, units *big.Int) *Matrix {
		p := new(big.Rat).SetFrac(count, units)
		q := minus(integer(1), p)
		return matrix([]*big.Rat{p, q}, []*big.Rat{q, p})
	}
	power := func(base, exponent int64) *big.Int {
		return new(big.Int).Exp(big.NewInt(base), big.NewInt(exponent), nil)
	}
	third, half := power(3, 5000), power(2, 8000)
	higher := inUnits(new(big.Int).Sub(third, big.NewInt(7)), third)
	lower := inUnits(new(big.Int).Sub(half, power(3, 5000)), half)
	for name, channel := range map[string]func() (*Matrix, error){
		"kept or redrawn":   func() (*Matrix, error) { return degradation(t.Context(), higher, lower) },
		"by linear program": func() (*Matrix, error) { return byProgram(t, higher, lower) },
	} {
		var no *NotDegradationError
		if channel, err := channel(); channel != nil || !errors.Is(err, privacy.ErrInvalid) || errors.As(err, &no) || errors.Is(err, privacy.ErrNoCertificate) {
			t.Errorf("%s: %v, %v", name, channel, err)
		}
	}
}

// A linear program without a proven answer, or with a wrong one, must not give a channel.
func TestChannelFrom_NoOrWrongProof_IsNoCertificate(t *testing.T) {
	two := randomized(2, rat("2"))
	if _, err := channelFrom(two, two, nil, privacy.ErrNoCertificate); !errors.Is(err, privacy.ErrNoCertificate) || errors.Is(err, privacy.ErrInvalid) {
		t.Errorf("without a certificate: %v", err)
	}
	flat := matrixOf("1/2 1/2", "1/2 1/2")
	for _, c := range []struct {
		m     *Matrix
		wrong []*big.Rat
	}{
		{two, fractions("1/2", "1/2", "1/2", "1/2")}, // a channel that does not map two to itself
		{flat, fractions("2", "-1", "-1", "2")},      // maps flat to itself, but is not a channel
	} {
		channel, err := channelFrom(c.m, c.m, &lp.Optimum{X: c.wrong}, nil)
		check.That(t, channel == nil && errors.Is(err, privacy.ErrNoCertificate), "with a wrong answer: %v, %v", channel, err)
	}
}

// The channel that keeps or redraws must be found for pairs that have one, and only for these.
func TestRedraw_AgreesWithLinearProgram(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for i := range 30 {
		higher := randomMatrix(random, 3, 3)
		rest := lawOf(randomMatrix(random, 2, 3), 0)
		keep := big.NewRat(random.Int64N(11), 10)
		rows := make([][]*big.Rat, 3)
		for x := range rows {
			for o, p := range lawOf(higher, x) {
				rows[x] = append(rows[x], plus(times(keep, p), times(minus(integer(1), keep), rest[o])))
			}
		}
		lower := matrix(rows...)
		channel := redraw(higher, lower)
		check.Need(t, channel != nil, "pair %d: no channel", i)
		wantChannel(t, fmt.Sprintf("pair %d", i), channel, higher, lower)
		_, err := byProgram(t, higher, lower)
		check.That(t, err == nil, "pair %d: by linear program: %v", i, err)
		other := randomMatrix(random, 3, 3)
		check.That(t, redraw(higher, other) == nil, "pair %d: a channel to something else", i)
	}
}

func TestDegradation_ContextEnded_ReturnsItsError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	higher, lower := subsets(4, 1, rat("6")), subsets(4, 2, rat("3/2"))
	check.Must(t, check.Err(degradation(t.Context(), higher, lower)))
	m, err := degradation(ctx, higher, lower)
	check.That(t, errors.Is(err, context.Canceled) && m == nil, "Degradation: %v, %v", m, err)
	f, err := NewFamily(ctx, lower, higher)
	check.That(t, errors.Is(err, context.Canceled) && f == nil, "NewFamily: %v, %v", f, err)
}
