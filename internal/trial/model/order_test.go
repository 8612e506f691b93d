package model

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/sluicedp/sluice/internal/trial/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// Invariant 8: by default an order sells to all its objects or to none; asked to be partial, it says
// exactly whom it left out and why.

func TestAnOrderSellsToAllOrToNone(t *testing.T) {
	kit.Anywhere(t, testAnOrderSellsToAllOrToNone)
}

func testAnOrderSellsToAllOrToNone(t *kit.T) {
	for name, spoil := range map[string]func(*kit.T, kit.Book, *ledger.RaiseRequest){
		"one not enrolled": func(t *kit.T, l kit.Book, r *ledger.RaiseRequest) { r.Objects = append(r.Objects, "zoe") },
		"one over the cap": func(t *kit.T, l kit.Book, r *ledger.RaiseRequest) {
			s := kit.ReleaseOf(t, "s", "dot", "0.5")
			s.Question = "smoker"
			kit.Release(t, l, s)
		},
		"one without truth": func(t *kit.T, l kit.Book, r *ledger.RaiseRequest) { r.Truth = kit.ListOf("yes", "no", "", "yes") },
		"one unknown truth": func(t *kit.T, l kit.Book, r *ledger.RaiseRequest) {
			r.Truth = kit.ListOf("yes", "no", "?", "yes")
		},
		"truths fail": func(t *kit.T, l kit.Book, r *ledger.RaiseRequest) {
			r.Truth = func(context.Context, string, []string) ([]string, error) {
				return nil, errors.New("the disk is on fire")
			}
		},
	} {
		t.Run(name, func(t *kit.T) {
			l := kit.Voters(t, kit.Open(t, ledger.Options{}), "1", "ann", "bob", "cid", "dot")
			kit.Define(t, l, kit.Smoker())
			kit.Enroll(t, l, "smoker", "1", "dot")
			r := kit.Order(t, "k", "0.75", "ann", "bob", "cid", "dot")
			spoil(t, l, &r)
			kit.Unchanged(t, l, func() {
				if _, err := l.Raise(t.Context(), r); err == nil {
					t.Error("it was carried out")
				}
			})
		})
	}
}

func TestAPartialOrderLeavesOutExactlyTheRefused(t *testing.T) {
	kit.Anywhere(t, testAPartialOrderLeavesOutExactlyTheRefused)
}

func testAPartialOrderLeavesOutExactlyTheRefused(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "1", "ann", "bob", "cid", "dot")
	kit.Define(t, l, kit.Smoker())
	kit.Enroll(t, l, "smoker", "1", "bob")
	s := kit.ReleaseOf(t, "s", "bob", "0.5")
	s.Question = "smoker"
	kit.Release(t, l, s)
	kit.Release(t, l, kit.ReleaseOf(t, "0", "ann", "0.75"))
	r := kit.Order(t, "k", "0.75", "ann", "bob", "cid", "dot", "zoe")
	r.Partial, r.Truth = true, kit.ListOf("yes", "") // of cid and dot, who alone can need theirs
	before := kit.Stats(t, l).Events
	got := kit.CarryOut(t, l, r)
	want := ledger.RaiseResult{Drawn: 1, Reused: 1, First: before + 1, Last: before + 5, Refused: []ledger.Refusal{
		{Object: "bob", Reason: ledger.ObjectCap, Ceiling: kit.Eps(t, "1"), Spent: kit.Eps(t, "0.5"), Asked: kit.Eps(t, "0.75"), Cost: kit.Eps(t, "0.75"), Remaining: kit.Eps(t, "0.5"), Remedy: vocabulary.RemedyLess, Largest: kit.Eps(t, "0.5")},
		{Object: "dot", Reason: ledger.NoTruth, Asked: kit.Eps(t, "0.75"), Remedy: vocabulary.RemedyTruth},
		{Object: "zoe", Reason: ledger.NotEnrolled, Asked: kit.Eps(t, "0.75"), Remedy: vocabulary.RemedyEnrolling},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	r.Truth = kit.Never(t)
	if again := kit.CarryOut(t, l, r); !reflect.DeepEqual(again, want) {
		t.Errorf("got %+v the second time", again)
	}
	if found := kit.Responses(t, l, "vote", kit.Eps(t, "0.75")); len(found) != 2 || found["cid"].Value == "" || found["ann"].Value == "" {
		t.Errorf("sold to %v", found)
	}
}

func TestWhomARequestIsForMustBeClear(t *testing.T) {
	kit.Anywhere(t, testWhomARequestIsForMustBeClear)
}

func testWhomARequestIsForMustBeClear(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "1", "ann")
	raise := func(change func(*ledger.RaiseRequest)) func() error {
		return func() error {
			r := kit.Order(t, "k", "0.5", "ann")
			r.Truth = kit.Never(t)
			change(&r)
			_, err := l.Raise(t.Context(), r)
			return err
		}
	}
	enrol := func(objects ...string) func() error {
		return func() error {
			_, err := l.Enroll(t.Context(), ledger.EnrollRequest{Key: "k", Question: "vote", Objects: objects, Cap: kit.Boundless()})
			return err
		}
	}
	for name, call := range map[string]func() error{
		"nobody":            raise(func(r *ledger.RaiseRequest) { r.Objects = nil }),
		"empty list":        raise(func(r *ledger.RaiseRequest) { r.Objects = []string{} }),
		"names and all":     raise(func(r *ledger.RaiseRequest) { r.All = true }),
		"empty and all":     raise(func(r *ledger.RaiseRequest) { r.Objects, r.All = []string{}, true }),
		"twice":             raise(func(r *ledger.RaiseRequest) { r.Objects = []string{"ann", "bob", "ann"} }),
		"enrol nobody":      enrol(),
		"enrol twice":       enrol("bob", "ann", "bob"),
		"enrol a non-name":  enrol("bob", ""),
		"release of nobody": func() error { _, err := l.Release(t.Context(), kit.ReleaseOf(t, "k", "", "0.5")); return err },
	} {
		kit.Unchanged(t, l, func() {
			if err := call(); !errors.Is(err, ledger.ErrInvalid) {
				t.Errorf("%s: got the error %v", name, err)
			}
		})
	}
}

// An order for all of nobody is carried out, and sells to nobody.
func TestAnOrderForNobodyYetEnrolled(t *testing.T) {
	kit.Anywhere(t, testAnOrderForNobodyYetEnrolled)
}

func testAnOrderForNobodyYetEnrolled(t *kit.T) {
	l := kit.Open(t, ledger.Options{})
	kit.Define(t, l, kit.Vote())
	r := kit.Order(t, "k", "0.5")
	r.Truth = kit.Never(t)
	first := kit.CarryOut(t, l, r)
	kit.Enroll(t, l, "vote", "1", "ann")
	if again := kit.CarryOut(t, l, r); !reflect.DeepEqual(first, again) || first.Drawn != 0 {
		t.Errorf("%+v, then %+v", first, again)
	}
}

// A context that has ended stops a call before it does anything.
func TestAnEndedContextStopsEveryCall(t *testing.T) {
	kit.Anywhere(t, testAnEndedContextStopsEveryCall)
}

func testAnEndedContextStopsEveryCall(t *kit.T) {
	l := kit.Voters(t, kit.Open(t, ledger.Options{}), "1", "ann")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	kit.Unchanged(t, l, func() {
		_, err := l.Release(ctx, kit.ReleaseOf(t, "k", "ann", "0.5"))
		kit.WantErr(t, err, context.Canceled)
		_, err = l.Enroll(ctx, ledger.EnrollRequest{Key: "k", Question: "vote", Objects: []string{"bob"}, Cap: kit.Boundless()})
		kit.WantErr(t, err, context.Canceled)
		kit.WantErr(t, l.DefineQuestion(ctx, "k", kit.Smoker()), context.Canceled)
		_, err = l.Object(ctx, "ann")
		kit.WantErr(t, err, context.Canceled)
		_, err = l.Questions(ctx)
		kit.WantErr(t, err, context.Canceled)
		kit.WantErr(t, firstError(l.Events(ctx, 1)), context.Canceled)
		kit.WantErr(t, firstError(l.Responses(ctx, "vote", kit.Eps(t, "1"))), context.Canceled)
	})
}

func firstError[T any](all func(func(T, error) bool)) (first error) {
	all(func(_ T, err error) bool {
		first = err
		return err == nil
	})
	return first
}
