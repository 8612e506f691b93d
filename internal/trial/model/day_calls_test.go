package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
)

const (
	dayPath  = "SLUICE_TEST_DAY_PATH"  // tells a process that it is the host
	dayTold  = "SLUICE_TEST_DAY_TOLD"  // the file of what was told before
	dayRound = "SLUICE_TEST_DAY_ROUND" // how often it was started
	dayCalls = 320
)

// dayReply is what a call of the day came to.
type dayReply struct {
	N      int
	Result json.RawMessage
	Err    string
	Closed uint64 // the number of the reservation that was granted, if it is not open any more
}

// day is a host's day: its calls, one after the other, each at its own minute. What it calls for depends on
// nothing but the number of the call and what came of those before.
type day struct {
	ledger   *ledger.Ledger
	clock    *ledgertest.Clock
	truth    api.TruthFunc
	reserved map[int]api.Reservation // by the number of the call
	guests   []string                // who came for a while, and are forgotten
}

// dawn is later than the creation of any file of the test.
func dawn() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

// dayPolicies are by question; that of the diary is not for sale, and comes by itself. One sells less, for more.
func dayPolicies() (map[string]policy.Policy, error) {
	level := func(tenths int64) policy.Price {
		return policy.Price{Epsilon: epsilonOf(tenths * 100_000_000), Amount: 7 * tenths}
	}
	sold, err := policy.Market{Max: epsilonOf(2_000_000_000), Prices: []policy.Price{level(5), level(20)}, Floor: 3}.Policy()
	if err != nil {
		return nil, err
	}
	growing, err := policy.Linear(epsilonOf(200_000_000), epsilonOf(2_000_000_000), dawn(), dawn().Add(dayCalls*time.Minute), epsilonOf(100_000_000))
	if err != nil {
		return nil, err
	}
	both, err := policy.Min(growing, sold)
	if err != nil {
		return nil, err
	}
	less, err := policy.Market{Max: epsilonOf(1_500_000_000), Prices: []policy.Price{level(5), level(20)}, Floor: 60}.Policy()
	return map[string]policy.Policy{"vote": both, "smoker": sold, "diary": growing, "less": less}, err
}

// call makes the n-th call of the day.
func (d *day) call(n int) (result any, err error) {
	d.clock.Set(dawn().Add(time.Duration(n) * time.Minute))
	ctx, random, key := context.Background(), rand.New(rand.NewPCG(uint64(n), 42)), fmt.Sprint("call ", n)
	terms, err := dayPolicies()
	if err != nil {
		return nil, err
	}
	question := []string{"vote", "smoker"}[random.IntN(2)]
	names := Crowd(12)
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:1+random.IntN(5)]
	o := api.Order{Buyer: []string{"acme", "zeta", "hooli"}[random.IntN(3)], Question: question, Epsilon: epsilonOf(int64(1+min(random.IntN(20), random.IntN(20))) * 100_000_000), Objects: names}
	some := random.IntN(3) > 0
	switch {
	case n == 0:
		return nil, d.ledger.DefineQuestion(ctx, key, Vote())
	case n == 1:
		return nil, d.ledger.DefineQuestion(ctx, key, api.Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: api.Direct})
	case n == 2:
		return nil, d.ledger.DefineQuestion(ctx, key, api.Question{Name: "diary", Values: []string{"yes", "no"}, Encoding: api.Direct})
	case n < 6:
		q := []string{"vote", "smoker", "diary"}[n%3]
		return d.ledger.Enroll(ctx, api.EnrollRequest{Key: key, Question: q, Objects: Crowd(12), Policy: terms[q], Cap: epsilonOf(5_000_000_000)})
	}
	switch pick := random.IntN(100); {
	case pick < 34:
		return d.delivered(d.ledger.Sell(ctx, api.SellRequest{Key: key, Order: o, Partial: some, Truth: d.truth}))
	case pick < 37:
		guest := fmt.Sprint("guest ", n)
		done, err := d.ledger.Enroll(ctx, api.EnrollRequest{Key: key, Question: "diary", Objects: []string{guest, "friend of " + guest}, Policy: terms["diary"], Cap: epsilonOf(5_000_000_000)})
		d.guests = append(d.guests, guest)
		return done, err
	case pick < 40 && len(d.guests) > 0:
		guest := d.guests[0]
		d.guests = d.guests[1:]
		return nil, d.ledger.Forget(ctx, key, guest)
	case pick < 60:
		r, err := d.ledger.Reserve(ctx, api.ReserveRequest{Key: key, Order: o, For: time.Duration(1+random.IntN(40)) * time.Minute, Partial: some})
		var closed *api.ReservationError
		if errors.As(err, &closed) {
			r.Number = closed.Number
		}
		if err == nil || closed != nil {
			d.reserved[n] = r
		}
		return r, err
	case pick < 75:
		return d.delivered(d.ledger.Capture(ctx, api.CaptureRequest{Key: key, Reservation: d.someReservation(n, random), Partial: some, Truth: d.truth}))
	case pick < 79:
		return nil, d.ledger.Cancel(ctx, key, d.someReservation(n, random))
	case pick < 80:
		p := terms[[]string{"less", "smoker"}[random.IntN(2)]]
		return d.ledger.ChangeTerms(ctx, api.ChangeTermsRequest{Key: key, Question: question, Objects: names, Policy: &p, Cap: epsilonOf(int64(3+random.IntN(3)) * 1_000_000_000), Partial: some, Consent: []string{"", "agreed"}[random.IntN(2)]})
	case pick < 82:
		return nil, d.ledger.Withdraw(ctx, key, names[0])
	case pick < 88:
		return d.ledger.Enroll(ctx, api.EnrollRequest{Key: key, Question: question, Objects: Crowd(12), Policy: terms[question], Cap: epsilonOf(5_000_000_000)})
	case pick < 94:
		return d.ledger.Advance(ctx, api.AdvanceRequest{Key: key, Truth: d.truth})
	default:
		r := api.ReleaseRequest{Key: key, Question: question, Object: names[0], Epsilon: o.Epsilon}
		if some {
			r.Truth = d.truth
		} else {
			r.TrueValue = voteOfTheDay(names[0])
		}
		return d.ledger.Release(ctx, r)
	}
}

// someReservation returns the number of one of the latest reservations, or one that there is not.
func (d *day) someReservation(n int, random *rand.Rand) uint64 {
	for back := 1 + random.IntN(8); back < 40; back++ {
		if r, made := d.reserved[n-back]; made {
			return r.Number
		}
	}
	return 1 << 40
}

// delivered returns a sale with everything it delivers.
func (d *day) delivered(s api.Sale, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	all, err := collectPart(d.ledger.Deliveries(context.Background(), s.Number))
	return struct {
		Sale       api.Sale
		Deliveries []api.Delivery
	}{s, all}, err
}

// votesOfTheDay are the host's truths.
func votesOfTheDay(_ context.Context, _ string, objects []string) (values []string, err error) {
	for _, name := range objects {
		values = append(values, voteOfTheDay(name))
	}
	return values, nil
}

func voteOfTheDay(name string) string { return []string{"yes", "no"}[int(name[len(name)-1])%2] }

func newDay(path string) (*day, error) {
	d := &day{clock: ledgertest.NewClock(dawn()), reserved: map[int]api.Reservation{}}
	var err error
	d.ledger, err = ledger.Open(context.Background(), path, ledger.Options{Now: d.clock.Now, ClockAhead: dawn().AddDate(0, 0, 1)})
	return d, err
}

// live makes all calls of the day and passes what each came to to tell. Calls told before are repeated
// without their truths, except those that failed: nobody repeats what was refused.
func (d *day) live(before map[int]dayReply, tell func(dayReply)) {
	for n := range dayCalls {
		old, told := before[n]
		if told && old.Err != "" {
			continue
		}
		d.truth = votesOfTheDay
		if told {
			d.truth = func(context.Context, string, []string) ([]string, error) { return nil, errors.New("asked again") }
		}
		result, err := d.call(n)
		one := dayReply{N: n}
		var closed *api.ReservationError
		if errors.As(err, &closed) && told {
			one.Closed = closed.Number
		} else if err != nil {
			one.Err = err.Error()
		}
		if one.Result, err = json.Marshal(result); err != nil {
			one.Err = err.Error()
		}
		tell(one)
	}
}

func collectPart[T any](all func(func(T, error) bool)) (items []T, err error) {
	all(func(item T, fault error) bool {
		if err = fault; fault == nil {
			items = append(items, item)
		}
		return fault == nil
	})
	return items, err
}
