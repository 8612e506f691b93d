package ledger

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/rrchain"
)

// What one transaction draws is bounded, because others wait for it.
func TestAnOrderOfTooManyBitsIsInvalid(t *testing.T) {
	l := inMemory(t, Options{})
	define(t, l, Question{Name: "home", Values: valuesOf(vocabulary.MaxUnaryValues), Encoding: Unary})
	enroll(t, l, "home", "9", "ann")
	most := mostWork / vocabulary.MaxUnaryValues
	o := purchase(t, "", "acme", "1", crowd(most+1)...).Order
	o.Question = "home"
	_, err := l.Quote(t.Context(), o)
	wantErr(t, err, ErrInvalid)
	o.Objects = crowd(most)
	if q, err := l.Quote(t.Context(), o); err != nil || len(q.Refused) != most {
		t.Errorf("%d objects, none of whom is enrolled: %d refused, %v", most, len(q.Refused), err)
	}
}

// A sale that nobody waits for any more is given up between two draws, and nothing has happened.
func TestASaleIsGivenUpBetweenDraws(t *testing.T) {
	l := inMemory(t, Options{})
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "3"), "3", crowd(5)...)
	ctx, cancel := context.WithCancel(t.Context())
	l.engine.Chances.Sampler = rrchain.ReplaySampler(exact.ReplayBits(func(p []byte) {
		cancel()
		_, _ = rand.Read(p)
	}))
	unchanged(t, l.engine.Store, func() {
		_, err := l.Sell(ctx, purchase(t, "k", "acme", "1"))
		wantErr(t, err, context.Canceled)
	})
	l.engine.Chances.Sampler = rrchain.NewSampler()
	if s := sell(t, l, purchase(t, "k", "acme", "1")); s.Draws != 5 {
		t.Errorf("the same request again came to %+v", s)
	}
}

// An audit writes its counts before they fill the memory, by their number: a tally of bits has many.
func TestAnAuditCountsTheBitsInMemory(t *testing.T) {
	s := &state.State{Tallies: map[state.TallyKey]*state.Tally{}}
	for i := range 3 {
		s.Tallies[state.TallyKey{Value: uint32(i)}] = &state.Tally{Bits: make([]state.Tallied, 100*i)}
	}
	if n := s.CountedInMemory(); n != 3+300 {
		t.Errorf("%d counts, want 303", n)
	}
}
