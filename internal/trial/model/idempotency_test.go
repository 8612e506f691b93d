package model

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
)

// Invariant 5: key and request seen before: the recorded result, byte for byte; key seen with another
// request: a typed conflict. Nothing is drawn or charged twice.

// mutation is a call with an idempotency key.
type mutation func(l Book) (any, error)

// mutations returns one call of each kind, to be made in this order of the names.
func mutations(t *T) map[string]mutation {
	ctx := t.Context()
	return map[string]mutation{
		"1 define": func(l Book) (any, error) {
			return nil, l.DefineQuestion(ctx, "k1", Vote())
		},
		"2 enroll": func(l Book) (any, error) {
			return l.Enroll(ctx, api.EnrollRequest{Key: "k2", Question: "vote", Objects: []string{"bob", "ann"}, Policy: policy.Fixed(Eps(t, "2")), Cap: Eps(t, "3")})
		},
		"3 release": func(l Book) (any, error) { return l.Release(ctx, ReleaseOf(t, "k3", "ann", "0.5")) },
		"4 raise":   func(l Book) (any, error) { return l.Raise(ctx, Order(t, "k4", "1", "bob", "ann")) },
		"5 degrade": func(l Book) (any, error) { return l.Release(ctx, ReleaseOf(t, "k5", "bob", "0.25")) },
		"6 partial": func(l Book) (any, error) {
			r := Order(t, "k6", "1", "ann", "zoe", "bob")
			r.Partial = true
			return l.Raise(ctx, r)
		},
		"7 all": func(l Book) (any, error) { return l.Raise(ctx, Order(t, "k7", "2")) },
	}
}

// The order in which a request names its objects is no part of it.
func TestTheOrderOfObjectsDoesNotMatter(t *testing.T) {
	Anywhere(t, testTheOrderOfObjectsDoesNotMatter)
}

func testTheOrderOfObjectsDoesNotMatter(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann", "bob")
	first := CarryOut(t, l, Order(t, "k", "0.5", "ann", "bob"))
	if again := CarryOut(t, l, Order(t, "k", "0.5", "bob", "ann")); !reflect.DeepEqual(first, again) {
		t.Errorf("%+v, then %+v", first, again)
	}
}

// What a caller gives as a list is not written to: its order is the caller's.
func TestRequestsAreNotModified(t *testing.T) {
	Anywhere(t, testRequestsAreNotModified)
}

func testRequestsAreNotModified(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann", "bob")
	names := []string{"bob", "ann"}
	CarryOut(t, l, Order(t, "k", "0.5", names...))
	if names[0] != "bob" {
		t.Errorf("the caller's list is now %q", names)
	}
}

// The same for an order over many, and with the other mutating calls among the crowd.
func TestKeysUsedByManyAtOnceActOnce(t *testing.T) {
	Anywhere(t, testKeysUsedByManyAtOnceActOnce)
}

func testKeysUsedByManyAtOnceActOnce(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	calls := mutations(t)
	delete(calls, "1 define")
	for _, name := range SortedKeys(calls) {
		results := make([]any, 16)
		for _, err := range race(t, len(results), func(i int) (err error) {
			results[i], err = calls[name](l)
			return err
		}) {
			t.Errorf("%s: %v", name, err)
		}
		for _, one := range results {
			if !reflect.DeepEqual(one, results[0]) {
				t.Errorf("%s: one caller got %+v, another %+v", name, results[0], one)
			}
		}
	}
	// 2 raised at 0.5 and 1, one degraded, two raised at 2; the define above settled once more.
	if all := Events(t, l); CountKind(all, "released") != 1+2+1+2 || CountKind(all, "settled") != 1+len(calls) {
		t.Errorf("%d released, %d settled", CountKind(all, "released"), CountKind(all, "settled"))
	}
	WantClean(t, l, api.VerifyRequest{})
}

func TestAKeyIsNotGoodForAnotherRequest(t *testing.T) {
	Anywhere(t, testAKeyIsNotGoodForAnotherRequest)
}

func testAKeyIsNotGoodForAnotherRequest(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "3", "ann", "bob")
	Define(t, l, api.Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: api.Direct})
	Enroll(t, l, "smoker", "3", "ann", "bob")
	used := Order(t, "used", "0.5", "ann", "bob")
	CarryOut(t, l, used)
	for name, call := range conflicts(t, l, used) {
		Unchanged(t, l, func() {
			if err := call(); err == nil {
				t.Errorf("%s: the key is good for another request", name)
			} else {
				WantErr(t, err, api.ErrKeyConflict)
			}
		})
	}
	CarryOut(t, l, used) // and is still good for its own
}

// conflicts are requests with the key of another one, each different in one respect.
func conflicts(t *T, l Book, used api.RaiseRequest) map[string]func() error {
	ctx := t.Context()
	raise := func(change func(*api.RaiseRequest)) func() error {
		r := used
		r.Truth = Never(t)
		change(&r)
		return func() error { _, err := l.Raise(ctx, r); return err }
	}
	return map[string]func() error{
		"ε":           raise(func(r *api.RaiseRequest) { r.Epsilon = Eps(t, "0.500000001") }),
		"question":    raise(func(r *api.RaiseRequest) { r.Question = "smoker" }),
		"objects":     raise(func(r *api.RaiseRequest) { r.Objects = []string{"ann"} }),
		"all objects": raise(func(r *api.RaiseRequest) { r.Objects, r.All = nil, true }),
		"partial":     raise(func(r *api.RaiseRequest) { r.Partial = true }),
		"release":     func() error { _, err := l.Release(ctx, ReleaseOf(t, used.Key, "ann", "0.5")); return err },
		"enroll": func() error {
			_, err := l.Enroll(ctx, api.EnrollRequest{Key: used.Key, Question: "vote", Objects: []string{"ann", "bob"}, Cap: Boundless()})
			return err
		},
		"define": func() error { return l.DefineQuestion(ctx, used.Key, Vote()) },
	}
}

func TestADigestHoldsNoTruth(t *testing.T) { Anywhere(t, testADigestHoldsNoTruth) }

func testADigestHoldsNoTruth(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "3", "ann")
	r := ReleaseOf(t, "k", "ann", "0.5")
	first := Release(t, l, r)
	r.Truth = SameTruth("no") // a liar with the same key gets the same answer, and no conflict
	if again := Release(t, l, r); again != first {
		t.Errorf("%v, then %v", first, again)
	}
}

// A refused call does not burn its key: when the reason is gone, the same call works.
func TestARefusedKeyIsStillFree(t *testing.T) {
	Anywhere(t, testARefusedKeyIsStillFree)
}

func testARefusedKeyIsStillFree(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann")
	late := ReleaseOf(t, "late", "bob", "0.5")
	mute := ReleaseOf(t, "mute", "ann", "0.5")
	mute.Truth = SameTruth("")
	Unchanged(t, l, func() {
		for _, r := range []api.ReleaseRequest{late, mute} {
			_, err := l.Release(t.Context(), r)
			Refusals(t, err)
		}
	})
	Enroll(t, l, "vote", "1", "bob")
	Release(t, l, late)
	mute.Truth = SameTruth("yes")
	Release(t, l, mute)

	// After the refusal the key may even be used for something else.
	over := Order(t, "over", "2", "ann")
	_, err := l.Raise(t.Context(), over)
	Refusals(t, err)
	CarryOut(t, l, Order(t, "over", "1", "ann"))
	_, err = l.Raise(t.Context(), over)
	WantErr(t, err, api.ErrKeyConflict)
}

// The result of a partial answer is that of its own panel, also when a later answer was about fewer.
func TestARepeatedPartialAnswerIsAsItWas(t *testing.T) {
	Anywhere(t, testARepeatedPartialAnswerIsAsItWas)
}

func testARepeatedPartialAnswerIsAsItWas(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "9", "ann", "bob")
	Enroll(t, l, "vote", "0.6", "cid")
	r := Inquire(t, "1", "majority:yes", "0.5", Ballots("ann"), "ann", "bob", "cid")
	r.Partial = true
	first := AnswerTo(t, l, r)
	dearer := r
	dearer.Key, dearer.Epsilon = "2", Eps(t, "1") // which cid cannot pay
	AnswerTo(t, l, dearer)
	if again := AnswerTo(t, l, r); !reflect.DeepEqual(first, again) {
		t.Errorf("%+v, then %+v", first, again)
	}
	cheaper := r
	cheaper.Key, cheaper.Epsilon = "3", Eps(t, "0.25") // from the one at 0.5, which was about three
	if got := AnswerTo(t, l, cheaper); got.Objects != first.Objects {
		t.Errorf("an answer about %d objects comes from one about %d", got.Objects, first.Objects)
	}
}

// Two different requests race for one key: one of them has it, in all its callers' eyes.
func TestOfTwoRequestsWithOneKeyOneWins(t *testing.T) {
	Anywhere(t, testOfTwoRequestsWithOneKeyOneWins)
}

func testOfTwoRequestsWithOneKeyOneWins(t *T) {
	l := Voters(t, NewLedger(t), "3", "ann")
	failed := race(t, 32, func(i int) error {
		_, err := l.Release(t.Context(), ReleaseOf(t, "k", "ann", []string{"0.5", "0.75"}[i%2]))
		return err
	})
	if len(failed) != 16 {
		t.Errorf("%d callers failed, want 16", len(failed))
	}
	for _, err := range failed {
		WantErr(t, err, api.ErrKeyConflict)
	}
	if n := CountKind(Events(t, l), "released"); n != 1 {
		t.Errorf("%d draws", n)
	}
}

// fieldOf returns what an idempotency conflict says.
func fieldOf(t *T, err error) string {
	t.Helper()
	var conflict *api.KeyConflictError
	if !errors.As(err, &conflict) || conflict.Key != "the key" {
		t.Fatalf("the conflict is %v", err)
	}
	if named := conflict.Field; named != "" && named != "Kind" && !strings.HasSuffix(err.Error(), "differs in "+named) {
		t.Errorf("a difference in %s is told as %v", named, err)
	}
	return conflict.Field
}

// A conflict names the first field that differs, also from a request that was carried out in parts, and from one before the
// file was opened again.
func TestAConflictNamesTheFieldThatDiffers(t *testing.T) {
	Anywhere(t, testAConflictNamesTheFieldThatDiffers)
}

func testAConflictNamesTheFieldThatDiffers(t *T) {
	ctx := t.Context()
	limit := int64(10_000)
	sale := func(t *T) api.SellRequest {
		r := Purchase(t, "the key", "acme", "0.5", "ann", "bob")
		r.MaxPrice = &limit
		return r
	}
	l := Sellers(t, Open(t, ledger.Options{}), "5", "5", "ann", "bob")
	Sell(t, l, sale(t))
	for field, change := range map[string]func(*api.SellRequest){
		"Buyer":    func(r *api.SellRequest) { r.Buyer = "acme's rival" },
		"Epsilon":  func(r *api.SellRequest) { r.Epsilon = Eps(t, "0.25") },
		"Objects":  func(r *api.SellRequest) { r.Objects = []string{"ann"} },
		"QuoteID":  func(r *api.SellRequest) { r.QuoteID = "another" },
		"MaxPrice": func(r *api.SellRequest) { r.MaxPrice = nil },
		"Partial":  func(r *api.SellRequest) { r.Partial = true },
	} {
		r := sale(t)
		change(&r)
		_, err := l.Sell(ctx, r)
		if got := fieldOf(t, err); got != field {
			t.Errorf("another %s is told as %q", field, got)
		}
	}
	_, err := l.Raise(ctx, Order(t, "the key", "0.5", "ann", "bob"))
	if got := fieldOf(t, err); got != "Kind" {
		t.Errorf("another kind of request is told as %q", got)
	}
}

func TestAConflictNamesItsKey(t *testing.T) {
	Anywhere(t, testAConflictNamesItsKey)
}

func testAConflictNamesItsKey(t *T) {
	l := NewLedger(t)
	Must(t, l.DefineQuestion(t.Context(), "the key", Vote()))
	var conflict *api.KeyConflictError
	err := l.DefineQuestion(t.Context(), "the key", Smoker())
	if !errors.As(err, &conflict) || conflict.Key != "the key" || !errors.Is(err, api.ErrKeyConflict) || !strings.Contains(err.Error(), `"the key"`) {
		t.Errorf("the conflict is %v", err)
	}
	_, err = l.Answer(t.Context(), api.AnswerRequest{Key: "2", Question: "vote", Query: "winner", Epsilon: Eps(t, "1"), Objects: Crowd(api.MaxPanel + 1)})
	if !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), "divide it into several") {
		t.Errorf("an answer about too many is refused by %v", err)
	}
}
