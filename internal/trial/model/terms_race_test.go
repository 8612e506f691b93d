package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// minds is how many change them, and buy, and forget, at the same time; each does so many things one after the other.
const minds, things = 64, 20

// Sellers change their minds while everybody reserves, buys, raises, and is forgotten. The log adds up, event by event, with the terms of
// each instant; and nothing is lost: who asks again under the same key is told the same.
func TestMindsChangeAtTheFair(t *testing.T) { Anywhere(t, testMindsChangeAtTheFair) }

func testMindsChangeAtTheFair(t *T) {
	f := newFair(t)
	f.objects = f.objects[:12]
	var told sync.Map // keys of changes, to what they came to
	for _, err := range race(t, minds, func(i int) error {
		for n := range things {
			if err := f.pardon(f.minds(&told, fmt.Sprintf("caller %d, thing %d", i, n), rand.New(rand.NewPCG(uint64(i), uint64(n))))); err != nil {
				return err
			}
		}
		return nil
	}) {
		t.Error(err)
	}
	AuditAll(t, f.ledger)
	told.Range(func(key, before any) bool {
		r := before.(changedMind)
		again, err := f.ledger.ChangeTerms(t.Context(), r.asked)
		if errors.Is(err, api.ErrForgotten) {
			return true
		}
		if Must(t, err); len(r.done.Refused)+r.done.Unlisted == 0 && !reflect.DeepEqual(again, r.done) {
			t.Errorf("%v came to %+v, and again to %+v", key, r.done, again)
		}
		if again.Changed != r.done.Changed || again.Unchanged != r.done.Unchanged || len(again.Refused)+again.Unlisted != len(r.done.Refused)+r.done.Unlisted {
			t.Errorf("%v came to %+v, and again to %+v", key, r.done, again)
		}
		return true
	})
	kinds := map[string]int{}
	for _, ev := range Events(t, f.ledger) {
		kinds[ev.Kind()]++
	}
	for _, kind := range []string{"terms", "held", "sold", "forgotten", "refused", "withdrawn", "released"} {
		if kinds[kind] == 0 {
			t.Errorf("there is no event of the kind %s", kind)
		}
	}
	WantClean(t, f.ledger, api.VerifyRequest{})
	t.Log(kinds, f.refused.Load())
}

// changedMind is a change of terms and what it came to.
type changedMind struct {
	asked api.ChangeTermsRequest
	done  api.ChangeTermsResult
}

// minds does one thing.
func (f *fair) minds(told *sync.Map, key string, random *rand.Rand) error {
	o := f.order(random)
	switch n := random.IntN(100); {
	case n < 24:
		return f.changesMind(told, key, o, random)
	case n < 55:
		_, err := f.ledger.Sell(f.Context(), api.SellRequest{Key: key, Order: o, Partial: random.IntN(2) == 0, Truth: f.truth})
		return err
	case n < 75:
		r, err := f.ledger.Reserve(f.Context(), api.ReserveRequest{Key: key, Order: o, For: time.Hour, Partial: random.IntN(2) == 0})
		if err != nil {
			return err
		}
		s, err := f.ledger.Capture(f.Context(), api.CaptureRequest{Key: key + " paid", Reservation: r.Number, Partial: random.IntN(2) == 0, Truth: f.truth})
		if err == nil && (s.Price > r.Price || s.Price+s.Refund != r.Price) {
			return fmt.Errorf("%+v was reserved, %+v was sold", r, s)
		}
		return err
	case n < 80:
		return f.leaves(key, o.Objects[0], o.Question, random)
	case n < 83:
		return f.ledger.Forget(f.Context(), key, o.Objects[0])
	case n < 93:
		_, err := f.ledger.Enroll(f.Context(), api.EnrollRequest{Key: key, Question: o.Question, Objects: f.objects, Partial: true, Terms: func(object string) (policy.Policy, privacy.Epsilon) { return f.agreed(object, o.Question) }})
		return err
	default:
		_, err := f.ledger.Release(f.Context(), api.ReleaseRequest{Key: key, Question: o.Question, Object: o.Objects[0], Epsilon: o.Epsilon, Truth: f.truth})
		if errors.Is(err, api.ErrForgotten) {
			return nil
		}
		return err
	}
}

// changesMind puts some under other terms, twice at the same time.
func (f *fair) changesMind(told *sync.Map, key string, o api.Order, random *rand.Rand) error {
	p := Market(f, []string{"0.5", "2", "2"}[random.IntN(3)], func(m *policy.Market) { m.Floor = int64(random.IntN(2) * 70) })
	r := api.ChangeTermsRequest{Key: key, Question: o.Question, Objects: o.Objects, Policy: &p, Partial: random.IntN(3) > 0}
	if random.IntN(2) == 0 {
		r.Cap = Eps(f, []string{"0.7", "5", "5"}[random.IntN(3)])
	}
	if random.IntN(3) > 0 {
		r.Consent = "agreed: " + key
	}
	results, errs := make([]api.ChangeTermsResult, 2), make([]error, 2)
	var both sync.WaitGroup
	for i := range results {
		both.Go(func() { results[i], errs[i] = f.ledger.ChangeTerms(f.Context(), r) })
	}
	both.Wait()
	for i, err := range errs {
		if errors.Is(err, api.ErrForgotten) { // since the other one
			errs[i] = nil
		}
		if err != nil {
			continue
		}
		if before, twice := told.LoadOrStore(key, changedMind{r, results[i]}); twice && before.(changedMind).done.Changed != results[i].Changed {
			return fmt.Errorf("%s came to %+v and %+v", key, before, results[i])
		}
	}
	return errors.Join(errs...)
}

// agreed returns the terms that an object is under, until it agrees to others.
func (f *fair) agreed(object, question string) (policy.Policy, privacy.Epsilon) {
	o := ObjectOf(f, f.ledger, object)
	for _, c := range o.Chains {
		if c.Question == question {
			return *c.Policy, o.Cap
		}
	}
	return policy.Policy{}, o.Cap
}
