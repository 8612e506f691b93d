package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/policy"
)

// Invariant 5: the same key with the same request returns the recorded result, byte for byte; the
// same key with another request returns a typed conflict. Nothing is drawn or charged twice.

// mutation is a call with an idempotency key.
type mutation func(l LedgerAPI) (any, error)

// mutations returns one call of each kind, to be made in the order of their names.
func mutations(t *T) map[string]mutation {
	ctx := t.Context()
	return map[string]mutation{
		"1 define": func(l LedgerAPI) (any, error) {
			return nil, l.DefineQuestion(ctx, "k1", Vote())
		},
		"2 enroll": func(l LedgerAPI) (any, error) {
			return l.Enroll(ctx, api.EnrollRequest{Key: "k2", Question: "vote", Objects: []string{"bob", "ann"}, Policy: policy.Fixed(Eps(t, "2")), Cap: Eps(t, "3")})
		},
		"3 release": func(l LedgerAPI) (any, error) { return l.Release(ctx, ReleaseOf(t, "k3", "ann", "0.5")) },
		"4 raise":   func(l LedgerAPI) (any, error) { return l.Raise(ctx, RaiseOf(t, "k4", "1", "bob", "ann")) },
		"5 degrade": func(l LedgerAPI) (any, error) { return l.Release(ctx, ReleaseOf(t, "k5", "bob", "0.25")) },
		"6 partial": func(l LedgerAPI) (any, error) {
			r := RaiseOf(t, "k6", "1", "ann", "zoe", "bob")
			r.Partial = true
			return l.Raise(ctx, r)
		},
		"7 all": func(l LedgerAPI) (any, error) { return l.Raise(ctx, RaiseOf(t, "k7", "2")) },
	}
}

// Each of these calls, made concurrently with the same key, takes effect once and returns the same
// result.
func (anyLedger) Key_UsedConcurrently_ActsOnce(t *T) {
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
			check.That(t, reflect.DeepEqual(one, results[0]),
				"%s: one caller got %+v, another %+v", name, results[0], one)
		}
	}
	// 2 raised at 0.5 and 1, one degraded, two raised at 2; the define above settled once more.
	if all := Events(t, l); CountKind(all, "released") != 1+2+1+2 || CountKind(all, "settled") != 1+len(calls) {
		t.Errorf("%d released, %d settled", CountKind(all, "released"), CountKind(all, "settled"))
	}
	WantClean(t, l, api.VerifyRequest{})
}

func (anyLedger) Key_OtherRequest_IsAConflict(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "3", "ann", "bob")
	Define(t, l, api.Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: "direct"})
	Enroll(t, l, "smoker", "3", "ann", "bob")
	used := RaiseOf(t, "used", "0.5", "ann", "bob")
	Raise(t, l, used)
	for name, call := range conflicts(t, l, used) {
		WantUnchanged(t, l, func() {
			if err := call(); err == nil {
				t.Errorf("%s: the key is accepted for another request", name)
			} else {
				check.Is(t, err, &api.KeyConflictError{})
			}
		})
	}
	Raise(t, l, used) // the key still works for its own request
}

// conflicts returns requests with the key of another request. Each differs in one respect.
func conflicts(t *T, l LedgerAPI, used api.RaiseRequest) map[string]func() error {
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
			return check.Err(l.Enroll(ctx, api.EnrollRequest{Key: used.Key, Question: "vote", Objects: []string{"ann", "bob"}, Cap: NoCap()}))
		},
		"define": func() error { return l.DefineQuestion(ctx, used.Key, Vote()) },
	}
}

func (anyLedger) Key_OtherTrueValue_IsTheSameRequest(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "3", "ann")
	r := ReleaseOf(t, "k", "ann", "0.5")
	first := Release(t, l, r)
	r.Truth = SameTruth("no") // another true value with the same key gets the same response, and no conflict
	again := Release(t, l, r)
	check.That(t, again == first, "%v, then %v", first, again)
}

// A refused call does not use up its key: when the reason is gone, the same call works.
func (anyLedger) Key_OfRefusedRequest_StaysFree(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann")
	late := ReleaseOf(t, "late", "bob", "0.5")
	mute := ReleaseOf(t, "mute", "ann", "0.5")
	mute.Truth = SameTruth("")
	WantUnchanged(t, l, func() {
		for _, r := range []api.ReleaseRequest{late, mute} {
			Refusals(t, check.Err(l.Release(t.Context(), r)))
		}
	})
	Enroll(t, l, "vote", "1", "bob")
	Release(t, l, late)
	mute.Truth = SameTruth("yes")
	Release(t, l, mute)

	// After the refusal, the key may even be used for another request.
	over := RaiseOf(t, "over", "2", "ann")
	Refusals(t, check.Err(l.Raise(t.Context(), over)))
	Raise(t, l, RaiseOf(t, "over", "1", "ann"))
	check.Is(t, check.Err(l.Raise(t.Context(), over)), &api.KeyConflictError{})
}

// Two different requests are made concurrently with one key. One of them gets it, and all callers
// see the same.
func (anyLedger) Key_TwoRequestsConcurrently_OneWins(t *T) {
	l := Voters(t, NewLedger(t), "3", "ann")
	failed := race(t, 32, func(i int) error {
		return check.Err(l.Release(t.Context(), ReleaseOf(t, "k", "ann", []string{"0.5", "0.75"}[i%2])))
	})
	check.That(t, len(failed) == 16, "%d callers failed, want 16", len(failed))
	for _, err := range failed {
		check.Is(t, err, &api.KeyConflictError{})
	}
	n := CountKind(Events(t, l), "released")
	check.That(t, n == 1, "%d draws", n)
}

// fieldOf returns the field that an idempotency conflict names.
func fieldOf(t *T, err error) string {
	t.Helper()
	var conflict *api.KeyConflictError
	check.Need(t, errors.As(err, &conflict) && conflict.Key == "the key", "the conflict is %v", err)
	if named := conflict.Field; named != "" && named != "Kind" && !strings.HasSuffix(err.Error(), "differs in "+named) {
		t.Errorf("a difference in %s is reported as %v", named, err)
	}
	return conflict.Field
}

// A conflict names the first field that differs, also for a request that was executed in parts, and
// for one before the file was opened again.
func (anyLedger) KeyConflict_NamesTheDifferentField(t *T) {
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
		got := fieldOf(t, check.Err(l.Sell(ctx, r)))
		check.That(t, got == field, "another %s is reported as %q", field, got)
	}
	if got := fieldOf(t, check.Err(l.Raise(ctx, RaiseOf(t, "the key", "0.5", "ann", "bob")))); got != "Kind" {
		t.Errorf("another kind of request is reported as %q", got)
	}
}

func (anyLedger) KeyConflict_NamesTheKey(t *T) {
	l := NewLedger(t)
	check.Must(t, l.DefineQuestion(t.Context(), "the key", Vote()))
	var conflict *api.KeyConflictError
	err := l.DefineQuestion(t.Context(), "the key", Smoker())
	if !errors.As(err, &conflict) || conflict.Key != "the key" || !strings.Contains(err.Error(), `"the key"`) {
		t.Errorf("the conflict is %v", err)
	}
	_, err = l.Answer(t.Context(), api.AnswerRequest{Key: "2", Question: "vote", Query: "winner", Epsilon: Eps(t, "1"), Objects: Crowd(api.MaxPanel + 1)})
	check.That(t, errors.Is(err, api.ErrInvalid) && strings.Contains(err.Error(), "divide it into several"),
		"an answer about too many objects is refused with %v", err)
}

// Invariant 8: by default an order sells to all its objects or to none. A partial order lists
// exactly the objects that it excludes, and why.

func (anyLedger) Raise_OneObjectRefused_ChangesNothing(t *T) {
	for name, spoil := range map[string]func(*T, LedgerAPI, *api.RaiseRequest){
		"one not enrolled": func(t *T, l LedgerAPI, r *api.RaiseRequest) { r.Objects = append(r.Objects, "zoe") },
		"one over the cap": func(t *T, l LedgerAPI, r *api.RaiseRequest) {
			s := ReleaseOf(t, "s", "dot", "0.5")
			s.Question = "smoker"
			Release(t, l, s)
		},
		"one without truth": func(t *T, l LedgerAPI, r *api.RaiseRequest) { r.Truth = ListOf("yes", "no", "", "yes") },
		"one unknown truth": func(t *T, l LedgerAPI, r *api.RaiseRequest) {
			r.Truth = ListOf("yes", "no", "?", "yes")
		},
		"truths fail": func(t *T, l LedgerAPI, r *api.RaiseRequest) {
			r.Truth = func(context.Context, string, []string) ([]string, error) {
				return nil, errors.New("the disk is on fire")
			}
		},
	} {
		t.Run(name, func(t *T) {
			l := Voters(t, Open(t, ledger.Options{}), "1", "ann", "bob", "cid", "dot")
			Define(t, l, Smoker())
			Enroll(t, l, "smoker", "1", "dot")
			r := RaiseOf(t, "k", "0.75", "ann", "bob", "cid", "dot")
			spoil(t, l, &r)
			WantUnchanged(t, l, func() {
				_, err := l.Raise(t.Context(), r)
				check.That(t, err != nil, "the order was executed")
			})
		})
	}
}

func (anyLedger) Request_UnclearObjects_IsRefused(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann")
	raise := func(change func(*api.RaiseRequest)) func() error {
		return func() error {
			r := RaiseOf(t, "k", "0.5", "ann")
			r.Truth = Never(t)
			change(&r)
			return check.Err(l.Raise(t.Context(), r))
		}
	}
	enrol := func(objects ...string) func() error {
		return func() error {
			return check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "k", Question: "vote", Objects: objects, Cap: NoCap()}))
		}
	}
	for name, call := range map[string]func() error{
		"no objects":           raise(func(r *api.RaiseRequest) { r.Objects = nil }),
		"empty list":           raise(func(r *api.RaiseRequest) { r.Objects = []string{} }),
		"names and all":        raise(func(r *api.RaiseRequest) { r.All = true }),
		"empty and all":        raise(func(r *api.RaiseRequest) { r.Objects, r.All = []string{}, true }),
		"twice":                raise(func(r *api.RaiseRequest) { r.Objects = []string{"ann", "bob", "ann"} }),
		"enroll no objects":    enrol(),
		"enroll twice":         enrol("bob", "ann", "bob"),
		"enroll an empty name": enrol("bob", ""),
		"release of no object": func() error { _, err := l.Release(t.Context(), ReleaseOf(t, "k", "", "0.5")); return err },
	} {
		WantUnchanged(t, l, func() {
			if err := call(); !errors.Is(err, api.ErrInvalid) {
				t.Errorf("%s: got the error %v", name, err)
			}
		})
	}
}

// A context that has ended stops a call before it does anything.
func (anyLedger) Call_ContextEnded_DoesNothing(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	WantUnchanged(t, l, func() {
		check.Is(t, check.Err(l.Release(ctx, ReleaseOf(t, "k", "ann", "0.5"))), context.Canceled)
		check.Is(t, check.Err(l.Enroll(ctx, api.EnrollRequest{Key: "k", Question: "vote", Objects: []string{"bob"}, Cap: NoCap()})), context.Canceled)
		check.Is(t, l.DefineQuestion(ctx, "k", Smoker()), context.Canceled)
		check.Is(t, check.Err(l.Object(ctx, "ann")), context.Canceled)
		check.Is(t, check.Err(api.Collect(l.Questions(ctx))), context.Canceled)
		check.Is(t, firstError(l.Events(ctx, 1)), context.Canceled)
		check.Is(t, firstError(l.Responses(ctx, "vote", Eps(t, "1"))), context.Canceled)
	})
}

func firstError[T any](all func(func(T, error) bool)) (first error) {
	all(func(_ T, err error) bool {
		first = err
		return err == nil
	})
	return first
}

// Invariant 3: for an (object, question, ε) there is one response, for ever, for every buyer.

// maxName is the largest length of a name in bytes.
const mostOfAName = 256

// Invariant 11 for the parameters of calls: absurd names and sizes return ErrInvalid, and change
// nothing.

func goodNames() []string {
	return []string{"a", strings.Repeat("a", mostOfAName), strings.Repeat("é", mostOfAName/2), "null", `"`, `\`, "'; DROP TABLE objects; --", "../../etc/passwd", "q", "n"}
}

func badNames() []string {
	return []string{"", " ", "\u00a0", "\U0010ffff", strings.Repeat("a", mostOfAName+1), strings.Repeat("é", mostOfAName/2) + "x", "a\x00", "\x00", "a\nb", "\t", "\x1b[31m", "\x7f", "\u0085", "\xff", "a\xc3", "\xed\xa0\x80", strings.Repeat("x", 1<<20)}
}

// nameFields returns the fields that take a name, each as a call that uses it.
func nameFields(t testing.TB, l LedgerAPI) map[string]func(name string) error {
	ctx, n := t.Context(), 0
	fresh := func() string { n++; return fmt.Sprint("key ", n) }
	enroll := func(key, object string) error {
		return check.Err(l.Enroll(ctx, api.EnrollRequest{Key: key, Question: "vote", Objects: []string{object}, Cap: NoCap()}))
	}
	define := func(key, name, value string) error {
		return l.DefineQuestion(ctx, key, api.Question{Name: name, Values: []string{"other", value}, Encoding: "direct"})
	}
	return map[string]func(name string) error{
		"question":   func(name string) error { return define(fresh(), name, "a") },
		"value":      func(name string) error { return define(fresh(), fresh(), name) },
		"define key": func(name string) error { return define(name, fresh(), "a") },
		"object":     func(name string) error { return enroll(fresh(), name) },
		"enroll key": func(name string) error { return enroll(name, fresh()) },
		"raise key":  func(name string) error { _, err := l.Raise(ctx, RaiseOf(t, name, "0.5", "ann")); return err },
	}
}

func (anyLedger) Name_GoodOrBad_IsAcceptedOrRefused(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "9", "ann")
	for field, use := range nameFields(t, l) {
		for _, name := range badNames() {
			WantUnchanged(t, l, func() {
				if err := use(name); !errors.Is(err, api.ErrInvalid) {
					t.Errorf("%s %.20q (%d bytes): got the error %v", field, name, len(name), err)
				} else if len(err.Error()) > 4096 {
					t.Errorf("%s: the error has %d bytes", field, len(err.Error()))
				}
			})
		}
		for _, name := range goodNames() {
			// A key that another field has used is valid, but conflicts.
			if err := use(name); err != nil && !errors.Is(err, &api.KeyConflictError{}) {
				t.Errorf("%s %.20q (%d bytes): %v", field, name, len(name), err)
			}
		}
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Unusual valid names work in every call, next to each other.
func (anyLedger) Name_UnusualObjects_AreDistinguished(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "9", goodNames()...)
	for i, name := range goodNames() {
		r := Release(t, l, ReleaseOf(t, fmt.Sprint(i), name, fmt.Sprint("0.", i+1)))
		o := ObjectOf(t, l, name)
		check.That(t, r.Object == name && len(o.Chains) == 1 && o.Spent == r.Epsilon, "%.20q: %+v, %+v", name, r, o)
	}
	WantClean(t, l, api.VerifyRequest{})
}

func (anyLedger) DefineQuestion_FewerThanTwoValues_IsRefused(t *T) {
	l := Open(t, ledger.Options{})
	for name, values := range map[string][]string{
		"none": nil, "one": {"a"}, "twice": {"a", "b", "a"}, "empty": {"a", ""}, "too many": make([]string, (1<<20)+1),
	} {
		WantUnchanged(t, l, func() {
			err := l.DefineQuestion(t.Context(), "k", api.Question{Name: "q", Values: values})
			check.That(t, errors.Is(err, api.ErrInvalid), "%s: got the error %v", name, err)
		})
	}
	check.Must(t, l.DefineQuestion(t.Context(), "k", api.Question{Name: "q", Values: []string{"a", "A"}, Encoding: "direct"}))
}

// A question with 70,000 values, such as postcodes, is stored and read, and its last value is a
// response.
func (anyLedger) DefineQuestion_ManyValues_IsStored(t *T) {
	const many = 70_000
	values := make([]string, many)
	for i := range values {
		values[i] = fmt.Sprintf("postcode %d", i)
	}
	store := NewStorage(t)
	l := store.Open(t, ledger.Options{})
	q := api.Question{Name: "home", Values: values}
	Define(t, l, q)
	Enroll(t, l, "home", "1000", "ann")
	check.Must(t, l.Close())
	l = store.Open(t, ledger.Options{})
	all := check.Value(api.Collect(l.Questions(t.Context())))(t)
	check.That(t, len(all) == 1 && slices.Equal(all[0].Values, values), "the question was read with other values")
	r := api.ReleaseRequest{Key: "k", Question: "home", Object: "ann", Epsilon: Eps(t, "1000"), Truth: SameTruth(values[many-1])}
	if got := Release(t, l, r); got.Value != values[many-1] { // any other value has a probability below 1e-400
		t.Errorf("got %q", got.Value)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Changes of the caller's list after the call do not change a question.
func (anyLedger) DefineQuestion_CallerChangesValues_HasNoEffect(t *T) {
	l := Open(t, ledger.Options{})
	values := []string{"yes", "no"}
	Define(t, l, api.Question{Name: "q", Values: values})
	values[0] = "maybe"
	all := check.Value(api.Collect(l.Questions(t.Context())))(t)
	all[0].Values[1] = "never"
	Enroll(t, l, "q", "1000", "ann")
	r := api.ReleaseRequest{Key: "k", Question: "q", Object: "ann", Epsilon: Eps(t, "1000"), Truth: SameTruth("yes")}
	got := Release(t, l, r)
	check.That(t, got.Value == "yes", "got %q", got.Value)
}

// Invariant 12: event times never decrease. A clock that jumps back releases nothing early and
// breaks nothing.

// wantOrderedTimes checks the times in the log, and returns the last one.
func wantOrderedTimes(t *T, l LedgerAPI) (last time.Time) {
	t.Helper()
	for _, ev := range Events(t, l) {
		check.That(t, !ev.Time.Before(last), "event %d at %v comes after one at %v", ev.Number, ev.Time, last)
		if last = ev.Time; last.Location() != time.UTC {
			t.Errorf("event %d is in the zone %v", ev.Number, last.Location())
		}
	}
	return last
}

func (anyLedger) Events_ClockJumps_TimesNeverDecrease(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Voters(t, Open(t, ledger.Options{Now: clock.Now}), "9", "ann")
	highest := ledgertest.Begin()
	for i, jump := range []time.Duration{time.Hour, -20 * 365 * 24 * time.Hour, time.Minute, 0, -time.Nanosecond, 3 * time.Hour, -100 * 365 * 24 * time.Hour, 4 * time.Hour} {
		now := ledgertest.Begin().Add(jump).In(time.FixedZone("there", 7200))
		clock.Set(now)
		if now.After(highest) {
			highest = now
		}
		Release(t, l, ReleaseOf(t, fmt.Sprint(i), "ann", fmt.Sprintf("0.%d", i+1)))
		last := wantOrderedTimes(t, l)
		check.That(t, last.Equal(highest), "the log's time is %v, want the latest time of the clock, %v", last, highest)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// The latest time is stored in the log, so that a new process knows it.
func (anyLedger) Events_LedgerReopened_TimesNeverDecrease(t *T) {
	store := VotersStorage(t, "9", "ann")
	future := time.Now().Add(50 * 365 * 24 * time.Hour)
	l := store.Open(t, ledger.Options{Now: func() time.Time { return future }, ClockAhead: future})
	Release(t, l, ReleaseOf(t, "1", "ann", "0.5"))
	check.Must(t, l.Close())
	l = store.Open(t, ledger.Options{})
	Release(t, l, ReleaseOf(t, "2", "ann", "1"))
	last := wantOrderedTimes(t, l)
	check.That(t, last.Equal(future), "the log's time went from %[2]v back to %[1]v", last, future)
}

func (anyLedger) Events_ClockBefore1970_TimesNeverDecrease(t *T) {
	for _, now := range []time.Time{{}, time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1677, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(-1, 0)} {
		clock := ledgertest.NewClock(now)
		l := Voters(t, Open(t, ledger.Options{Now: clock.Now}), "9", "ann")
		Release(t, l, ReleaseOf(t, "1", "ann", "0.5"))
		last := wantOrderedTimes(t, l)
		check.That(t, last.Equal(ledgertest.Begin()), "with the clock at %v the log's time is %v", now, last)
		clock.Set(ledgertest.Begin())
		WantClean(t, l, api.VerifyRequest{})
	}
}

// wantClockError fails unless an error reports how far the clock is ahead of which event.
func wantClockError(t *T, err error, clock, last time.Time) {
	t.Helper()
	var ahead *api.ClockError
	if !errors.As(err, &ahead) || !errors.Is(err, api.ErrClock) || !ahead.Clock.Equal(clock) || !ahead.Last.Equal(last) || ahead.Leap != 366*24*time.Hour {
		t.Errorf("the error is %v; the clock is at %v, the last event at %v", err, clock, last)
	}
}

// The clock is far ahead of a market with a dated sale and a reservation. No request writes
// anything, or is refused for good. Recorded results are returned again.
func (anyLedger) Clock_FarAhead_ChangesNothing(t *T) {
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := Open(t, ledger.Options{Now: clock.Now})
	Define(t, l, Vote())
	dated := Market(t, "2", func(m *policy.Market) { m.Until = ledgertest.Begin().AddDate(0, 1, 0) })
	EnrollUnder(t, l, "vote", dated, "5", "ann", "bob")
	held := Reserve(t, l, api.ReserveRequest{Key: "held", Order: Purchase(t, "", "acme", "0.5", "ann").Order, For: 24 * time.Hour})
	sold := Sell(t, l, Purchase(t, "sold", "bolt", "0.5", "bob"))

	far := time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC)
	clock.Set(far)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"define": func() error { return l.DefineQuestion(ctx, "1", Smoker()) },
		"enroll": func() error {
			return check.Err(l.Enroll(ctx, api.EnrollRequest{Key: "2", Question: "vote", Objects: []string{"cid"}, Cap: Eps(t, "1")}))
		},
		"release": func() error { return check.Err(l.Release(ctx, ReleaseOf(t, "3", "ann", "0.25"))) },
		"raise":   func() error { return check.Err(l.Raise(ctx, RaiseOf(t, "4", "0.25", "ann", "bob"))) },
		"sell":    func() error { return check.Err(l.Sell(ctx, Purchase(t, "5", "acme", "0.5", "ann"))) },
		"reserve": func() error {
			return check.Err(l.Reserve(ctx, api.ReserveRequest{Key: "6", Order: Purchase(t, "", "acme", "0.5", "ann").Order, For: time.Hour}))
		},
		"commit": func() error {
			return check.Err(l.Capture(ctx, api.CaptureRequest{Key: "7", Reservation: held.Number, Truth: SameTruth("yes")}))
		},
		"cancel": func() error { return l.Cancel(ctx, "8", held.Number) },
		"advance": func() error {
			return check.Err(l.Advance(ctx, api.AdvanceRequest{Key: "9", Truth: SameTruth("yes")}))
		},
		"answer": func() error {
			return check.Err(l.Answer(ctx, api.AnswerRequest{Key: "10", Question: "vote", Query: "winner", Epsilon: Eps(t, "0.1"), All: true, Truth: SameTruth("yes")}))
		},
		"withdraw": func() error { return l.Withdraw(ctx, api.ObjectRequest{Key: "11", Object: "ann"}) },
		"forget":   func() error { return l.Forget(ctx, api.ObjectRequest{Key: "12", Object: "ann"}) },
	} {
		WantUnchanged(t, l, func() {
			t.Log(name)
			wantClockError(t, call(), far, ledgertest.Begin())
		})
	}
	again := Sell(t, l, Purchase(t, "sold", "bolt", "0.5", "bob"))
	check.That(t, bytes.Equal(Text(t, again), Text(t, sold)), "an earlier sale is returned as %+v", again)
	quoted := check.Value(l.Quote(ctx, Purchase(t, "", "cryo", "0.5", "bob").Order))(t)
	check.That(t, len(quoted.Refused) == 1 && quoted.Refused[0].Reason == api.SaleClosed,
		"the quote should show that the sale is closed: %+v", quoted)

	clock.Set(ledgertest.Begin().Add(time.Hour)) // the clock is corrected, and nothing has changed
	made, err := l.Capture(ctx, api.CaptureRequest{Key: "7", Reservation: held.Number, Truth: SameTruth("yes")})
	check.That(t, err == nil && made.Objects == 1, "the reservation: %+v, %v", made, err)
	Sell(t, l, Purchase(t, "5", "cryo", "0.5", "ann"))
	WantClean(t, l, api.VerifyRequest{})
}

// A ledger that was not used for two years continues after a person has confirmed the clock once.
func (anyLedger) Clock_AfterLongIdleTime_IsConfirmedOnce(t *T) {
	clock, store := ledgertest.NewClock(ledgertest.Begin()), NewStorage(t)
	check.Must(t, Voters(t, store.Open(t, ledger.Options{Now: clock.Now}), "9", "ann").Close())
	for _, step := range []struct {
		after time.Duration
		ahead time.Time
		fine  bool
	}{
		{366*24*time.Hour + 1, time.Time{}, false},
		{731 * 24 * time.Hour, time.Time{}, false},
		{731 * 24 * time.Hour, ledgertest.Begin().Add(731*24*time.Hour - 1), false}, // not as far as that
		{731 * 24 * time.Hour, ledgertest.Begin().Add(731 * 24 * time.Hour), true},
		{731*24*time.Hour + 1, time.Time{}, true}, // the log's time is there now
		{(731 + 366) * 24 * time.Hour, time.Time{}, true},
	} {
		now := ledgertest.Begin().Add(step.after)
		clock.Set(now)
		l := store.Open(t, ledger.Options{Now: clock.Now, ClockAhead: step.ahead})
		last := Events(t, l)[Stats(t, l).Events-1].Time
		_, err := l.Release(t.Context(), ReleaseOf(t, now.String()+step.ahead.String(), "ann", "0.5"))
		if step.fine {
			check.Must(t, err)
		} else {
			wantClockError(t, err, now, last)
		}
		check.Must(t, l.Close())
	}
	check.Is(t, check.Err(store.Try(ledger.Options{ClockLeap: -1})), api.ErrInvalid)
	// Opening the ledger may write, and is refused as well.
	clock.Set(ledgertest.Begin().AddDate(50, 0, 0))
	check.Is(t, check.Err(store.Try(ledger.Options{Now: clock.Now, TruthKey: TruthKey()})), api.ErrClock)
}

// The laws of raised answers and of keyed responses, as a ledger returns them. The random bits are
// fixed, so that each run has the same result.

func square(x float64) float64 { return x * x }

// lattice is a distribution on the integers from −ends to ends. The rest has a probability below
// 1e-13.
type lattice []float64

const ends = 80

func (l lattice) at(k int) float64 {
	if k < -ends || k > ends {
		return 0
	}
	return l[k+ends]
}

// geometric returns two-sided geometric noise at ε.
func geometric(e float64) lattice {
	l, alpha := make(lattice, 2*ends+1), math.Exp(-e)
	for k := -ends; k <= ends; k++ {
		l[k+ends] = (1 - alpha) / (1 + alpha) * math.Pow(alpha, math.Abs(float64(k)))
	}
	return l
}

// widening returns the difference of the noise at a lower ε and that at a higher one: the quotient
// of their generating functions (1−α)²/((1−αt)(1−α/t)).
func widening(low, high float64) lattice {
	l, g, alpha := make(lattice, 2*ends+1), geometric(low), math.Exp(-high)
	for k := -ends; k <= ends; k++ {
		l[k+ends] = ((1+alpha*alpha)*g.at(k) - alpha*(g.at(k-1)+g.at(k+1))) / square(1-alpha)
	}
	return l
}

// answersLaw returns the joint probability of the answers at three rising ε, for a position.
func answersLaw(position int, e [3]float64) map[string]float64 {
	law := map[string]float64{}
	word := func(y int) string {
		if y >= 0 {
			return "yes "
		}
		return "no "
	}
	top, second, first := geometric(e[2]), widening(e[1], e[2]), widening(e[0], e[1])
	// up returns the probability that first leads from y to "yes".
	up := func(y int) (p float64) {
		for k := -ends; k <= ends; k++ {
			if y+k >= 0 {
				p += first.at(k)
			}
		}
		return p
	}
	cached := map[int]float64{}
	for k3 := -ends; k3 <= ends; k3++ {
		for k2 := -ends; k2 <= ends; k2++ {
			y3, y2 := position+k3, position+k3+k2
			p := top.at(k3) * second.at(k2)
			yes, known := cached[y2]
			if !known {
				yes = up(y2)
				cached[y2] = yes
			}
			law["yes "+word(y2)+word(y3)] += p * yes
			law["no "+word(y2)+word(y3)] += p * (1 - yes)
		}
	}
	total := 0.0
	for _, p := range law {
		total += p
	}
	for cell := range law {
		law[cell] /= total // the rest beyond the ends
	}
	return law
}

// At each level the answer at distance d is wrong with probability e^(−εd)/(1+e^ε), however it was
// made. The answers at three levels together are those of scores of which only the highest depends
// on the true values. The middle one is raised in one half of the cases, and inserted in the other.
func TestRaisedAnswers_FollowTheirLaw(t *testing.T) {
	const values = 90
	panels := testenv.Tries(2, 12/testenv.Step(6), 12)
	q := api.Question{Name: "vote", Encoding: "direct"}
	for i := range values {
		q.Values = append(q.Values, fmt.Sprint("v", i))
	}
	levels, at := []string{"0.4", "0.7", "1.1"}, [3]float64{0.4, 0.7, 1.1}
	random := ledgertest.Draws{Queries: queriesOf(77)}
	together, wrong := map[int]map[string]int{}, map[[2]int]map[string]int{}
	for panel := range panels {
		l, names := ledgertest.With(t, ledgertest.Settings{Draws: random}).Ledger, []string{"ann", "bob", "cy"}
		Define(t, l, q)
		Enroll(t, l, q.Name, "1000", names...)
		for value := 1; value < values; value++ {
			threshold := 1 + value%3 // no object has the value, so the distance is d = threshold − 1
			query := fmt.Sprintf("threshold:v%d:%d", value, threshold)
			cell := map[string]string{}
			order := []int{0, 1, 2}
			if (panel+value)%2 == 0 {
				order = []int{0, 2, 1}
			}
			for _, i := range order {
				r := AnswerOf(t, fmt.Sprint(query, i), query, levels[i], SameTruth("v0"), names...)
				cell[levels[i]] = AnswerTo(t, l, r).Answer
				if level := [2]int{threshold, i}; wrong[level] == nil {
					wrong[level] = map[string]int{}
				}
				wrong[[2]int{threshold, i}][cell[levels[i]]]++
			}
			if together[threshold] == nil {
				together[threshold] = map[string]int{}
			}
			together[threshold][cell["0.4"]+" "+cell["0.7"]+" "+cell["1.1"]+" "]++
		}
		WantSpent(t, l, "97.9", names...) // 1.1 for each query
	}
	for threshold, counts := range together {
		law := answersLaw(-threshold, at)
		stattest.Cells(counts, law).Holds(t, "at distance %d", threshold-1)
		for i, e := range at {
			p := math.Exp(-e*float64(threshold-1)) / (1 + math.Exp(e))
			if marginal := shareOfYes(law, i); math.Abs(marginal-p) > 1e-9 {
				t.Errorf("the reference law has an error probability of %g at ε=%g, want %g", marginal, e, p)
			}
			one := wrong[[2]int{threshold, i}]
			stattest.Share(one["yes"], one["yes"]+one["no"], p, p).Holds(t, "at distance %d and ε=%g", threshold-1, e)
		}
	}
}

// shareOfYes returns the probability that the answer at a level is yes.
func shareOfYes(law map[string]float64, level int) (share float64) {
	for cell, p := range law {
		if strings.Fields(cell)[level] == "yes" {
			share += p
		}
	}
	return share
}

// chainLaw returns the joint probability of the responses of a chain at three rising ε, for a true
// value. Each response is the one above it with the retention between them, and else uniform.
func chainLaw(t *testing.T, q api.Question, truth int, levels [3]string) map[string]float64 {
	t.Helper()
	m := len(q.Values)
	keep := func(epsilon string) float64 {
		grown := math.Exp(Eps(t, epsilon).Float64())
		return (grown - 1) / (grown + float64(m) - 1)
	}
	move := func(stays float64, from, to int) float64 {
		p := (1 - stays) / float64(m)
		if from == to {
			p += stays
		}
		return p
	}
	law := map[string]float64{}
	for low := range m {
		for mid := range m {
			for high := range m {
				p := move(keep(levels[2]), truth, high) * move(keep(levels[1])/keep(levels[2]), high, mid) * move(keep(levels[0])/keep(levels[1]), mid, low)
				law[fmt.Sprint(q.Values[low], " ", q.Values[mid], " ", q.Values[high])] = p
			}
		}
	}
	return law
}

// The responses of many objects under one key follow the law of a chain, in any order of the
// levels.
func TestKeyedResponses_FollowTheLawOfAChain(t *testing.T) {
	names, q, levels := Crowd(testenv.Tries(2_000, 20_000/testenv.Step(20), 20_000)), Vote(), [3]string{"0.5", "1.25", "2"}
	for truth, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}} {
		l := Open(t, ledger.Options{NoiseKey: NoiseKeys(fmt.Sprint("law ", truth))})
		Define(t, l, q)
		Enroll(t, l, q.Name, "9", names...)
		var at [3]map[string]api.Response
		for _, i := range order {
			Raise(t, l, api.RaiseRequest{Key: levels[i], Question: q.Name, Epsilon: Eps(t, levels[i]), All: true, Truth: SameTruth(q.Values[truth])})
			at[i] = Responses(t, l, q.Name, Eps(t, levels[i]))
		}
		counts := map[string]int{}
		for _, name := range names {
			counts[fmt.Sprint(at[0][name].Value, " ", at[1][name].Value, " ", at[2][name].Value)]++
		}
		stattest.Cells(counts, chainLaw(t, q, truth, levels)).Holds(t, "in the order %v", order)
	}
}

// The same holds in unary encoding: at each level the bit of the true value is set with probability
// 1/2, and every other with 1/(1+e^ε), independently.
func TestKeyedUnaryResponses_FollowTheirLaw(t *testing.T) {
	names := Crowd(testenv.Tries(2_000, 20_000/testenv.Step(20), 20_000))
	q := api.Question{Name: "vote", Values: []string{"a", "b", "c"}, Encoding: "unary"}
	l := Open(t, ledger.Options{NoiseKey: NoiseKeys("law")})
	Define(t, l, q)
	Enroll(t, l, q.Name, "9", names...)
	for _, epsilon := range []string{"2", "0.5", "1"} {
		r := api.RaiseRequest{Key: epsilon, Question: q.Name, Epsilon: Eps(t, epsilon), All: true, Truth: SameTruth("b")}
		Raise(t, l, r)
		law, counts := map[string]float64{}, map[string]int{}
		set := 1 / (1 + math.Exp(r.Epsilon.Float64()))
		for pattern := range 8 {
			p, on := 0.5, []string{}
			for value, name := range q.Values {
				if pattern>>value&1 == 1 {
					on = append(on, name)
				}
				if name != "b" {
					p *= []float64{1 - set, set}[pattern>>value&1]
				}
			}
			law[strings.Join(on, ",")] = p
		}
		for _, response := range Responses(t, l, q.Name, r.Epsilon) {
			counts[setBits(response.Value, q)]++
		}
		stattest.Cells(counts, law).Holds(t, "at ε=%s", epsilon)
	}
}

// setBits returns the values whose bits are set in a response.
func setBits(bits string, q api.Question) string {
	var on []string
	for value, name := range q.Values {
		if bits[value] == '1' {
			on = append(on, name)
		}
	}
	return strings.Join(on, ",")
}

// queriesOf returns a sampler with repeatable random bits.
func queriesOf(seed byte) *mechanism.Sampler {
	random := rand.NewChaCha8([32]byte{seed})
	return &mechanism.Sampler{Random: exact.ReplayBits(func(p []byte) { _, _ = random.Read(p) })}
}
