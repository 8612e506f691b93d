package ledger

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/batch"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// Invariant 5: key and request seen before: the recorded result, byte for byte; key seen with another
// request: a typed conflict. Nothing is drawn or charged twice.

// mutation is a call with an idempotency key.
type mutation func(l *Ledger) (any, error)

// mutations returns one call of each kind, to be made in this order of the names.
func mutations(t *testing.T) map[string]mutation {
	ctx := t.Context()
	return map[string]mutation{
		"1 define": func(l *Ledger) (any, error) {
			return nil, l.DefineQuestion(ctx, "k1", vote())
		},
		"2 enroll": func(l *Ledger) (any, error) {
			return l.Enroll(ctx, EnrollRequest{Key: "k2", Question: "vote", Objects: []string{"bob", "ann"}, Policy: policy.Fixed(eps(t, "2")), Cap: eps(t, "3")})
		},
		"3 release": func(l *Ledger) (any, error) { return l.Release(ctx, releaseOf(t, "k3", "ann", "0.5")) },
		"4 raise":   func(l *Ledger) (any, error) { return l.Raise(ctx, order(t, "k4", "1", "bob", "ann")) },
		"5 degrade": func(l *Ledger) (any, error) { return l.Release(ctx, releaseOf(t, "k5", "bob", "0.25")) },
		"6 partial": func(l *Ledger) (any, error) {
			r := order(t, "k6", "1", "ann", "zoe", "bob")
			r.Partial = true
			return l.Raise(ctx, r)
		},
		"7 all": func(l *Ledger) (any, error) { return l.Raise(ctx, order(t, "k7", "2")) },
	}
}

func sortedNames[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	return sortedBy(names, func(name string) string { return name })
}

func TestTheSameKeyGivesTheSameResult(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{})
	calls, first := mutations(t), map[string]any{}
	for _, name := range sortedNames(calls) {
		result, err := calls[name](l)
		must(t, err)
		first[name] = result
	}
	before := pairs(t, l.engine.Store)
	for range 2 {
		for name, call := range calls {
			again, err := call(l)
			if err != nil || !reflect.DeepEqual(again, first[name]) {
				t.Errorf("%s: %+v at first, then %+v, %v", name, first[name], again, err)
			}
		}
		closed(t, l)
		l = open(t, path, Options{})
	}
	same(t, "stored after repetitions", pairs(t, l.engine.Store), before)
}

// The order in which a request names its objects is no part of it.
func TestTheOrderOfObjectsDoesNotMatter(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", "ann", "bob")
	first := carryOut(t, l, order(t, "k", "0.5", "ann", "bob"))
	if again := carryOut(t, l, order(t, "k", "0.5", "bob", "ann")); !reflect.DeepEqual(first, again) {
		t.Errorf("%+v, then %+v", first, again)
	}
}

// What a caller gives as a list is not written to: its order is the caller's.
func TestRequestsAreNotModified(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", "ann", "bob")
	names := []string{"bob", "ann"}
	carryOut(t, l, order(t, "k", "0.5", names...))
	if names[0] != "bob" {
		t.Errorf("the caller's list is now %q", names)
	}
}

func TestAKeyUsedByManyAtOnceDrawsOnce(t *testing.T) {
	const callers = 32
	l, s := openShim(t, votersFile(t, "3", crowd(50)...), Options{})
	before := s.commits.Load()
	got := make([]Response, callers)
	failed := race(t, callers, func(i int) (err error) {
		got[i], err = l.Release(t.Context(), releaseOf(t, "k", "person-00007", "0.5"))
		return err
	})
	for _, err := range failed {
		t.Error(err)
	}
	for _, one := range got {
		if one != got[0] {
			t.Fatalf("one caller got %v, another %v", got[0], one)
		}
	}
	if n := s.commits.Load() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	if n := countKind(events(t, l), "released"); n != 1 {
		t.Errorf("%d draws", n)
	}
	auditStore(t, s)
}

// The same for an order over many, and with the other mutating calls among the crowd.
func TestKeysUsedByManyAtOnceActOnce(t *testing.T) {
	l := newLedger(t)
	define(t, l, vote())
	calls := mutations(t)
	delete(calls, "1 define")
	for _, name := range sortedNames(calls) {
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
	if all := events(t, l); countKind(all, "released") != 1+2+1+2 || countKind(all, "settled") != 1+len(calls) {
		t.Errorf("%d released, %d settled", countKind(all, "released"), countKind(all, "settled"))
	}
	auditStore(t, l.engine.Store)
}

func TestAKeyIsNotGoodForAnotherRequest(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "3", "ann", "bob")
	define(t, l, Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: Direct})
	enroll(t, l, "smoker", "3", "ann", "bob")
	used := order(t, "used", "0.5", "ann", "bob")
	carryOut(t, l, used)
	for name, call := range conflicts(t, l, used) {
		unchanged(t, l.engine.Store, func() {
			if err := call(); err == nil {
				t.Errorf("%s: the key is good for another request", name)
			} else {
				wantErr(t, err, ErrKeyConflict)
			}
		})
	}
	carryOut(t, l, used) // and is still good for its own
}

// conflicts are requests with the key of another one, each different in one respect.
func conflicts(t *testing.T, l *Ledger, used RaiseRequest) map[string]func() error {
	ctx := t.Context()
	raise := func(change func(*RaiseRequest)) func() error {
		r := used
		r.Truth = never(t)
		change(&r)
		return func() error { _, err := l.Raise(ctx, r); return err }
	}
	return map[string]func() error{
		"ε":           raise(func(r *RaiseRequest) { r.Epsilon = eps(t, "0.500000001") }),
		"question":    raise(func(r *RaiseRequest) { r.Question = "smoker" }),
		"objects":     raise(func(r *RaiseRequest) { r.Objects = []string{"ann"} }),
		"all objects": raise(func(r *RaiseRequest) { r.Objects, r.All = nil, true }),
		"partial":     raise(func(r *RaiseRequest) { r.Partial = true }),
		"release":     func() error { _, err := l.Release(ctx, releaseOf(t, used.Key, "ann", "0.5")); return err },
		"enroll": func() error {
			_, err := l.Enroll(ctx, EnrollRequest{Key: used.Key, Question: "vote", Objects: []string{"ann", "bob"}, Cap: boundless()})
			return err
		},
		"define": func() error { return l.DefineQuestion(ctx, used.Key, vote()) },
	}
}

// Names run together differently must not make the same request.
func TestDigestsKeepFieldsApart(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, names := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc"}, {"a", "b", "c"}, {"\x02ab", "c"}} {
		for _, question := range []string{"", "ab", "a"} {
			x := &raise{request: RaiseRequest{Question: question, Epsilon: eps(t, "1")}, panel: batch.Panel{Names: names}}
			sum := x.form().Digest
			text := fmt.Sprintf("%q of %q", question, names)
			if twin, twice := seen[sum]; twice {
				t.Errorf("%s and %s have one digest", text, twin)
			}
			seen[sum] = text
		}
	}
}

func TestADigestHoldsNoTruth(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "3", "ann")
	r := releaseOf(t, "k", "ann", "0.5")
	first := release(t, l, r)
	r.Truth = TruthOf("no") // a liar with the same key gets the same answer, and no conflict
	if again := release(t, l, r); again != first {
		t.Errorf("%v, then %v", first, again)
	}
}

// A refused call does not burn its key: when the reason is gone, the same call works.
func TestARefusedKeyIsStillFree(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", "ann")
	late := releaseOf(t, "late", "bob", "0.5")
	mute := releaseOf(t, "mute", "ann", "0.5")
	mute.Truth = TruthOf("")
	unchanged(t, l.engine.Store, func() {
		for _, r := range []ReleaseRequest{late, mute} {
			_, err := l.Release(t.Context(), r)
			refusals(t, err)
		}
	})
	enroll(t, l, "vote", "1", "bob")
	release(t, l, late)
	mute.Truth = TruthOf("yes")
	release(t, l, mute)

	// After the refusal the key may even be used for something else.
	over := order(t, "over", "2", "ann")
	_, err := l.Raise(t.Context(), over)
	refusals(t, err)
	carryOut(t, l, order(t, "over", "1", "ann"))
	_, err = l.Raise(t.Context(), over)
	wantErr(t, err, ErrKeyConflict)
}

// The result of a partial answer is that of its own panel, also when a later answer was about fewer.
func TestARepeatedPartialAnswerIsAsItWas(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
	enroll(t, l, "vote", "0.6", "cid")
	r := inquire(t, "1", "majority:yes", "0.5", ballots("ann"), "ann", "bob", "cid")
	r.Partial = true
	first := answerTo(t, l, r)
	dearer := r
	dearer.Key, dearer.Epsilon = "2", eps(t, "1") // which cid cannot pay
	answerTo(t, l, dearer)
	if again := answerTo(t, l, r); !reflect.DeepEqual(first, again) {
		t.Errorf("%+v, then %+v", first, again)
	}
	cheaper := r
	cheaper.Key, cheaper.Epsilon = "3", eps(t, "0.25") // from the one at 0.5, which was about three
	if got := answerTo(t, l, cheaper); got.Objects != first.Objects {
		t.Errorf("an answer about %d objects comes from one about %d", got.Objects, first.Objects)
	}
}

// Two different requests race for one key: one of them has it, in all its callers' eyes.
func TestOfTwoRequestsWithOneKeyOneWins(t *testing.T) {
	l := voters(t, newLedger(t), "3", "ann")
	failed := race(t, 32, func(i int) error {
		_, err := l.Release(t.Context(), releaseOf(t, "k", "ann", []string{"0.5", "0.75"}[i%2]))
		return err
	})
	if len(failed) != 16 {
		t.Errorf("%d callers failed, want 16", len(failed))
	}
	for _, err := range failed {
		wantErr(t, err, ErrKeyConflict)
	}
	if n := countKind(events(t, l), "released"); n != 1 {
		t.Errorf("%d draws", n)
	}
}

// fieldOf returns what an idempotency conflict says.
func fieldOf(t *testing.T, err error) string {
	t.Helper()
	var conflict *KeyConflictError
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
	ctx := t.Context()
	limit := int64(10_000)
	sale := func(t *testing.T) SellRequest {
		r := purchase(t, "the key", "acme", "0.5", "ann", "bob")
		r.MaxPrice = &limit
		return r
	}
	l := sellers(t, inMemory(t, Options{}), "5", "5", "ann", "bob")
	sell(t, l, sale(t))
	for field, change := range map[string]func(*SellRequest){
		"Buyer":    func(r *SellRequest) { r.Buyer = "acme's rival" },
		"Epsilon":  func(r *SellRequest) { r.Epsilon = eps(t, "0.25") },
		"Objects":  func(r *SellRequest) { r.Objects = []string{"ann"} },
		"QuoteID":  func(r *SellRequest) { r.QuoteID = "another" },
		"MaxPrice": func(r *SellRequest) { r.MaxPrice = nil },
		"Partial":  func(r *SellRequest) { r.Partial = true },
	} {
		r := sale(t)
		change(&r)
		_, err := l.Sell(ctx, r)
		if got := fieldOf(t, err); got != field {
			t.Errorf("another %s is told as %q", field, got)
		}
	}
	_, err := l.Raise(ctx, order(t, "the key", "0.5", "ann", "bob"))
	if got := fieldOf(t, err); got != "Kind" {
		t.Errorf("another kind of request is told as %q", got)
	}
}

func TestAConflictOfALongRequestNamesTheField(t *testing.T) {
	names := crowd(state.PartSize + 10)
	l := voters(t, inMemory(t, Options{}), "3", names...)
	carryOut(t, l, order(t, "the key", "0.5", names...))
	_, err := l.Raise(t.Context(), order(t, "the key", "0.75", names...))
	if got := fieldOf(t, err); got != "Epsilon" {
		t.Errorf("another ε is told as %q", got)
	}
	_, err = l.Raise(t.Context(), order(t, "the key", "0.5", names[1:]...))
	if got := fieldOf(t, err); got != "Objects" {
		t.Errorf("other objects are told as %q", got)
	}
}

// Marks are kept with the digest, and go with it.
func TestNoMarksTellWhatWasForgotten(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "5", "5", "ann", "bob")
	release(t, l, releaseOf(t, "released", "ann", "0.7"))
	must(t, l.Forget(t.Context(), "f", "ann"))
	for _, n := range eventsOf(t, l.engine.Store) {
		if c, is := n.Change.(*event.Settled); is && c.Key == "released" && (c.Marks != event.Marks{} || n.Erased == nil) {
			t.Errorf("what is kept of the request is %+v", c)
		}
	}
}

func TestAConflictNamesItsKey(t *testing.T) {
	l := newLedger(t)
	must(t, l.DefineQuestion(t.Context(), "the key", vote()))
	var conflict *KeyConflictError
	err := l.DefineQuestion(t.Context(), "the key", smoker())
	if !errors.As(err, &conflict) || conflict.Key != "the key" || !errors.Is(err, ErrKeyConflict) || !strings.Contains(err.Error(), `"the key"`) {
		t.Errorf("the conflict is %v", err)
	}
	_, err = l.Answer(t.Context(), AnswerRequest{Key: "2", Question: "vote", Query: "winner", Epsilon: eps(t, "1"), Objects: crowd(MaxPanel + 1)})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "divide it into several") {
		t.Errorf("an answer about too many is refused by %v", err)
	}
}
