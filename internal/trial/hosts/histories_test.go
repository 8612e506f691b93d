package hosts

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
)

// Many clients do everything there is to do, at the same time; and there is an order in which one would have been told the same.
func TestHistoriesAreLinearizable(t *testing.T) {
	seeds, length := pace.Tries(6, 24, 200), pace.Scale(2000, 20_000)
	first, calls, met := 0, 0, map[string]int{}
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		if first, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		seeds = 1
	}
	for seed := first; seed < first+seeds; seed++ {
		t.Run("seed "+strconv.Itoa(seed), func(t *testing.T) {
			began := time.Now()
			x := newTrial(t, uint64(seed), length, everything())
			x.run(t.Context())
			ran := time.Since(began)
			if err := x.check(t.Context()); err != nil {
				t.Fatalf("seed %d, %d calls (again with SLUICE_SEED=%d): %v", seed, length, seed, err)
			}
			t.Logf("%d calls in %v, checked in %v", len(x.told), ran, time.Since(began)-ran)
			x.outcomes(met)
			calls += len(x.told)
		})
	}
	t.Logf("%d calls: %v", calls, met)
	if seeds > 1 {
		wantOutcomes(t, met)
	}
}

// outcomes counts what calls came to, in words.
func (x *trial) outcomes(n map[string]int) {
	carriedOut := map[int]record{}
	for _, r := range x.told {
		refused := slices.Concat(r.reply.Enrolled.Refused, r.reply.Changed.Refused, r.reply.Raised.Refused, r.reply.Sale.Refused, r.reply.Reservation.Refused, r.reply.Quote.Refused)
		for _, one := range r.reply.Advanced.Questions {
			refused = append(refused, one.Refused...)
		}
		var whole *api.RefusedError
		switch {
		case r.err == nil:
			n[r.what]++
		case errors.As(r.err, &whole):
			n[r.what+" refused"]++
			refused = append(refused, whole.Refused...)
		case errors.Is(r.err, context.Canceled):
			n["given up"]++
		default:
			n[r.what+" impossible"]++
		}
		for _, one := range refused {
			n[string(one.Reason)+", "+string(one.Remedy)+" helps"]++
		}
		for _, one := range r.reply.Deliveries {
			n["by "+one.Method]++
		}
		if r.err != nil || r.mereReading() {
			continue
		}
		if other, repeated := carriedOut[r.number]; !repeated {
			carriedOut[r.number] = r
		} else if other.from < r.till && r.from < other.till {
			n["twice at the same time"]++
		} else {
			n["twice"]++
		}
	}
}

// wantOutcomes reports what a test wants to have met and has not. The rarest come about some 25 times in the quick form, most
// hundreds of times.
func wantOutcomes(t *testing.T, n map[string]int) {
	t.Helper()
	for _, one := range []string{
		"enroll", "withdraw", "release", "release refused", "raise", "raise refused", "advance", "sell", "sell refused",
		"reserve", "reserve refused", "commit", "commit refused", "commit impossible", "cancel", "cancel impossible", "answer",
		"answer refused", "terms", "terms refused", "enroll refused", "object", "object impossible", "responses", "quote", "receipt", "twice", "twice at the same time",
		"by raise", "by resale", "by degrade", "by insert",
		"not-enrolled, enrolling helps", "withdrawn, enrolling helps",
		"chain-ceiling, nothing helps", "chain-ceiling, less helps", "chain-ceiling, waiting helps",
		"object-cap, nothing helps", "object-cap, less helps", "object-cap, waiting helps",
		"not-on-offer, less helps", "holders-full, less helps", "holders-full, waiting helps",
		"needs-consent, consent helps", "cap-differs, terms helps", "policy-differs, terms helps",
	} {
		if n[one] == 0 {
			t.Errorf("never met: %s", one)
		}
	}
}
