package mechanism

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/pace"
)

// randomPlace returns some law, with ε of any size, at some distance.
func randomPlace(random *rand.Rand) placed {
	nano := int64(1)
	for range random.IntN(12) {
		nano *= 10
	}
	l := scoreLaw{at: nano + random.Int64N(9*nano)}
	if random.IntN(2) == 0 {
		l.below = random.Int64N(l.at)
	}
	if random.IntN(2) == 0 {
		l.above = l.at + 1 + random.Int64N(l.at)
	}
	p := placed{shapes: newShape, law: l, known: map[uint]terms{}}
	switch random.IntN(4) {
	case 1:
		p.distance = random.Int64N(10)
	case 2:
		p.distance = random.Int64N(1 + 5_000_000_000/l.at)
	case 3:
		p.distance = random.Int64N(1 << 60)
	}
	return p
}

// A guess is right, whatever the law and the distance: else a draw would take thirty times as long now and then, and when tells something.
// Where U begins with many equal bits, 64 of them do not tell, and it may be wrong.
func TestGuessesAreRight(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	wrong, tries := 0, pace.Tries(200, 2000, 20_000)
	for range tries {
		p, word := randomPlace(random), random.Uint64()
		bits := exact.ReplayBits(func(b []byte) {
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			binary.BigEndian.PutUint64(b, word)
		})
		if guess, want := p.guess(word), exact.DrawInteger(bits, nil, p.cumulative); guess != want {
			wrong++
			t.Logf("%+v at distance %d, U = %#x…: guessed %d, drawn %d", p.law, p.distance, word, guess, want)
		}
	}
	check.That(t, wrong <= tries/1000, "%d of %d guesses are wrong", wrong, tries)
}

// What is remembered of laws is bounded, and a sampler draws the same from one that it has forgotten.
func TestWhatIsKeptOfLawsIsBounded(t *testing.T) {
	s := new(Sampler)
	first := s.shapeOf(scoreLaw{at: 1e9}, 192)
	check.That(t, s.shapeOf(scoreLaw{at: 1e9}, 192) == first, "a law is made twice")
	for n := range int64(3 * mostKept) {
		s.shapeOf(scoreLaw{at: 2e9 + n}, 192)
		s.curveAt(curved{epsilonOf(t, fmt.Sprintf("1.%03d", n)), 3, 192})
	}
	check.That(t, len(s.shapes) <= mostKept && len(s.curves) <= mostKept,
		"%d and %d laws are kept", len(s.shapes), len(s.curves))
	again := s.shapeOf(scoreLaw{at: 1e9}, 192)
	a, b := again.left.Float64(), first.left.Float64()
	check.That(t, again != first && a == b, "a law that was forgotten is another one: %v, %v", a, b)
}
