package model

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/trial/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/policy"
)

// Invariant 5: key and request seen before: the recorded result, byte for byte; key seen with another
// request: a typed conflict. Nothing is drawn or charged twice.

// mutation is a call with an idempotency key.
type mutation func(l kit.Book) (any, error)

// mutations returns one call of each kind, to be made in this order of the names.
func mutations(t *kit.T) map[string]mutation {
	ctx := t.Context()
	return map[string]mutation{
		"1 define": func(l kit.Book) (any, error) {
			return nil, l.DefineQuestion(ctx, "k1", kit.Vote())
		},
		"2 enroll": func(l kit.Book) (any, error) {
			return l.Enroll(ctx, ledger.EnrollRequest{Key: "k2", Question: "vote", Objects: []string{"bob", "ann"}, Policy: policy.Fixed(kit.Eps(t, "2")), Cap: kit.Eps(t, "3")})
		},
		"3 release": func(l kit.Book) (any, error) { return l.Release(ctx, kit.ReleaseOf(t, "k3", "ann", "0.5")) },
		"4 raise":   func(l kit.Book) (any, error) { return l.Raise(ctx, kit.Order(t, "k4", "1", "bob", "ann")) },
		"5 degrade": func(l kit.Book) (any, error) { return l.Release(ctx, kit.ReleaseOf(t, "k5", "bob", "0.25")) },
		"6 partial": func(l kit.Book) (any, error) {
			r := kit.Order(t, "k6", "1", "ann", "zoe", "bob")
			r.Partial = true
			return l.Raise(ctx, r)
		},
		"7 all": func(l kit.Book) (any, error) { return l.Raise(ctx, kit.Order(t, "k7", "2")) },
	}
}

// The order in which a request names its objects is no part of it.
func TestTheOrderOfObjectsDoesNotMatter(t *testing.T) {
	kit.Anywhere(t, testTheOrderOfObjectsDoesNotMatter)
}

func testTheOrderOfObjectsDoesNotMatter(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "1", "ann", "bob")
	first := kit.CarryOut(t, l, kit.Order(t, "k", "0.5", "ann", "bob"))
	if again := kit.CarryOut(t, l, kit.Order(t, "k", "0.5", "bob", "ann")); !reflect.DeepEqual(first, again) {
		t.Errorf("%+v, then %+v", first, again)
	}
}

// What a caller gives as a list is not written to: its order is the caller's.
func TestRequestsAreNotModified(t *testing.T) {
	kit.Anywhere(t, testRequestsAreNotModified)
}

func testRequestsAreNotModified(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "1", "ann", "bob")
	names := []string{"bob", "ann"}
	kit.CarryOut(t, l, kit.Order(t, "k", "0.5", names...))
	if names[0] != "bob" {
		t.Errorf("the caller's list is now %q", names)
	}
}

// The same for an order over many, and with the other mutating calls among the crowd.
func TestKeysUsedByManyAtOnceActOnce(t *testing.T) {
	kit.Anywhere(t, testKeysUsedByManyAtOnceActOnce)
}

func testKeysUsedByManyAtOnceActOnce(t *kit.T) {
	l := kit.NewLedger(t)
	kit.Define(t, l, kit.Vote())
	calls := mutations(t)
	delete(calls, "1 define")
	for _, name := range kit.SortedKeys(calls) {
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
	if all := kit.Events(t, l); kit.CountKind(all, "released") != 1+2+1+2 || kit.CountKind(all, "settled") != 1+len(calls) {
		t.Errorf("%d released, %d settled", kit.CountKind(all, "released"), kit.CountKind(all, "settled"))
	}
	kit.WantClean(t, l, ledger.VerifyRequest{})
}

func TestAKeyIsNotGoodForAnotherRequest(t *testing.T) {
	kit.Anywhere(t, testAKeyIsNotGoodForAnotherRequest)
}

func testAKeyIsNotGoodForAnotherRequest(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "3", "ann", "bob")
	kit.Define(t, l, ledger.Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: ledger.Direct})
	kit.Enroll(t, l, "smoker", "3", "ann", "bob")
	used := kit.Order(t, "used", "0.5", "ann", "bob")
	kit.CarryOut(t, l, used)
	for name, call := range conflicts(t, l, used) {
		kit.Unchanged(t, l, func() {
			if err := call(); err == nil {
				t.Errorf("%s: the key is good for another request", name)
			} else {
				kit.WantErr(t, err, ledger.ErrKeyConflict)
			}
		})
	}
	kit.CarryOut(t, l, used) // and is still good for its own
}

// conflicts are requests with the key of another one, each different in one respect.
func conflicts(t *kit.T, l kit.Book, used ledger.RaiseRequest) map[string]func() error {
	ctx := t.Context()
	raise := func(change func(*ledger.RaiseRequest)) func() error {
		r := used
		r.Truth = kit.Never(t)
		change(&r)
		return func() error { _, err := l.Raise(ctx, r); return err }
	}
	return map[string]func() error{
		"ε":           raise(func(r *ledger.RaiseRequest) { r.Epsilon = kit.Eps(t, "0.500000001") }),
		"question":    raise(func(r *ledger.RaiseRequest) { r.Question = "smoker" }),
		"objects":     raise(func(r *ledger.RaiseRequest) { r.Objects = []string{"ann"} }),
		"all objects": raise(func(r *ledger.RaiseRequest) { r.Objects, r.All = nil, true }),
		"partial":     raise(func(r *ledger.RaiseRequest) { r.Partial = true }),
		"release":     func() error { _, err := l.Release(ctx, kit.ReleaseOf(t, used.Key, "ann", "0.5")); return err },
		"enroll": func() error {
			_, err := l.Enroll(ctx, ledger.EnrollRequest{Key: used.Key, Question: "vote", Objects: []string{"ann", "bob"}, Cap: kit.Boundless()})
			return err
		},
		"define": func() error { return l.DefineQuestion(ctx, used.Key, kit.Vote()) },
	}
}

func TestADigestHoldsNoTruth(t *testing.T) { kit.Anywhere(t, testADigestHoldsNoTruth) }

func testADigestHoldsNoTruth(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "3", "ann")
	r := kit.ReleaseOf(t, "k", "ann", "0.5")
	first := kit.Release(t, l, r)
	r.Truth = kit.SameTruth("no") // a liar with the same key gets the same answer, and no conflict
	if again := kit.Release(t, l, r); again != first {
		t.Errorf("%v, then %v", first, again)
	}
}

// A refused call does not burn its key: when the reason is gone, the same call works.
func TestARefusedKeyIsStillFree(t *testing.T) {
	kit.Anywhere(t, testARefusedKeyIsStillFree)
}

func testARefusedKeyIsStillFree(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "1", "ann")
	late := kit.ReleaseOf(t, "late", "bob", "0.5")
	mute := kit.ReleaseOf(t, "mute", "ann", "0.5")
	mute.Truth = kit.SameTruth("")
	kit.Unchanged(t, l, func() {
		for _, r := range []ledger.ReleaseRequest{late, mute} {
			_, err := l.Release(t.Context(), r)
			kit.Refusals(t, err)
		}
	})
	kit.Enroll(t, l, "vote", "1", "bob")
	kit.Release(t, l, late)
	mute.Truth = kit.SameTruth("yes")
	kit.Release(t, l, mute)

	// After the refusal the key may even be used for something else.
	over := kit.Order(t, "over", "2", "ann")
	_, err := l.Raise(t.Context(), over)
	kit.Refusals(t, err)
	kit.CarryOut(t, l, kit.Order(t, "over", "1", "ann"))
	_, err = l.Raise(t.Context(), over)
	kit.WantErr(t, err, ledger.ErrKeyConflict)
}

// The result of a partial answer is that of its own panel, also when a later answer was about fewer.
func TestARepeatedPartialAnswerIsAsItWas(t *testing.T) {
	kit.Anywhere(t, testARepeatedPartialAnswerIsAsItWas)
}

func testARepeatedPartialAnswerIsAsItWas(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "9", "ann", "bob")
	kit.Enroll(t, l, "vote", "0.6", "cid")
	r := kit.Inquire(t, "1", "majority:yes", "0.5", kit.Ballots("ann"), "ann", "bob", "cid")
	r.Partial = true
	first := kit.AnswerTo(t, l, r)
	dearer := r
	dearer.Key, dearer.Epsilon = "2", kit.Eps(t, "1") // which cid cannot pay
	kit.AnswerTo(t, l, dearer)
	if again := kit.AnswerTo(t, l, r); !reflect.DeepEqual(first, again) {
		t.Errorf("%+v, then %+v", first, again)
	}
	cheaper := r
	cheaper.Key, cheaper.Epsilon = "3", kit.Eps(t, "0.25") // from the one at 0.5, which was about three
	if got := kit.AnswerTo(t, l, cheaper); got.Objects != first.Objects {
		t.Errorf("an answer about %d objects comes from one about %d", got.Objects, first.Objects)
	}
}

// Two different requests race for one key: one of them has it, in all its callers' eyes.
func TestOfTwoRequestsWithOneKeyOneWins(t *testing.T) {
	kit.Anywhere(t, testOfTwoRequestsWithOneKeyOneWins)
}

func testOfTwoRequestsWithOneKeyOneWins(t *kit.T) {
	l := kit.Voters(t, kit.NewLedger(t), "3", "ann")
	failed := race(t, 32, func(i int) error {
		_, err := l.Release(t.Context(), kit.ReleaseOf(t, "k", "ann", []string{"0.5", "0.75"}[i%2]))
		return err
	})
	if len(failed) != 16 {
		t.Errorf("%d callers failed, want 16", len(failed))
	}
	for _, err := range failed {
		kit.WantErr(t, err, ledger.ErrKeyConflict)
	}
	if n := kit.CountKind(kit.Events(t, l), "released"); n != 1 {
		t.Errorf("%d draws", n)
	}
}

// fieldOf returns what an idempotency conflict says.
func fieldOf(t *kit.T, err error) string {
	t.Helper()
	var conflict *ledger.KeyConflictError
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
	kit.Anywhere(t, testAConflictNamesTheFieldThatDiffers)
}

func testAConflictNamesTheFieldThatDiffers(t *kit.T) {
	ctx := t.Context()
	limit := int64(10_000)
	sale := func(t *kit.T) ledger.SellRequest {
		r := kit.Purchase(t, "the key", "acme", "0.5", "ann", "bob")
		r.MaxPrice = &limit
		return r
	}
	l := kit.Sellers(t, kit.Open(t, ledger.Options{}), "5", "5", "ann", "bob")
	kit.Sell(t, l, sale(t))
	for field, change := range map[string]func(*ledger.SellRequest){
		"Buyer":    func(r *ledger.SellRequest) { r.Buyer = "acme's rival" },
		"Epsilon":  func(r *ledger.SellRequest) { r.Epsilon = kit.Eps(t, "0.25") },
		"Objects":  func(r *ledger.SellRequest) { r.Objects = []string{"ann"} },
		"QuoteID":  func(r *ledger.SellRequest) { r.QuoteID = "another" },
		"MaxPrice": func(r *ledger.SellRequest) { r.MaxPrice = nil },
		"Partial":  func(r *ledger.SellRequest) { r.Partial = true },
	} {
		r := sale(t)
		change(&r)
		_, err := l.Sell(ctx, r)
		if got := fieldOf(t, err); got != field {
			t.Errorf("another %s is told as %q", field, got)
		}
	}
	_, err := l.Raise(ctx, kit.Order(t, "the key", "0.5", "ann", "bob"))
	if got := fieldOf(t, err); got != "Kind" {
		t.Errorf("another kind of request is told as %q", got)
	}
}

func TestAConflictNamesItsKey(t *testing.T) {
	kit.Anywhere(t, testAConflictNamesItsKey)
}

func testAConflictNamesItsKey(t *kit.T) {
	l := kit.NewLedger(t)
	kit.Must(t, l.DefineQuestion(t.Context(), "the key", kit.Vote()))
	var conflict *ledger.KeyConflictError
	err := l.DefineQuestion(t.Context(), "the key", kit.Smoker())
	if !errors.As(err, &conflict) || conflict.Key != "the key" || !errors.Is(err, ledger.ErrKeyConflict) || !strings.Contains(err.Error(), `"the key"`) {
		t.Errorf("the conflict is %v", err)
	}
	_, err = l.Answer(t.Context(), ledger.AnswerRequest{Key: "2", Question: "vote", Query: "winner", Epsilon: kit.Eps(t, "1"), Objects: kit.Crowd(ledger.MaxPanel + 1)})
	if !errors.Is(err, ledger.ErrInvalid) || !strings.Contains(err.Error(), "divide it into several") {
		t.Errorf("an answer about too many is refused by %v", err)
	}
}
