package model

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// Invariant 8: by default an order sells to all its objects or to none; asked to be partial, it says
// exactly whom it left out and why.

func TestAnOrderSellsToAllOrToNone(t *testing.T) {
	Anywhere(t, testAnOrderSellsToAllOrToNone)
}

func testAnOrderSellsToAllOrToNone(t *T) {
	for name, spoil := range map[string]func(*T, Book, *api.RaiseRequest){
		"one not enrolled": func(t *T, l Book, r *api.RaiseRequest) { r.Objects = append(r.Objects, "zoe") },
		"one over the cap": func(t *T, l Book, r *api.RaiseRequest) {
			s := ReleaseOf(t, "s", "dot", "0.5")
			s.Question = "smoker"
			Release(t, l, s)
		},
		"one without truth": func(t *T, l Book, r *api.RaiseRequest) { r.Truth = ListOf("yes", "no", "", "yes") },
		"one unknown truth": func(t *T, l Book, r *api.RaiseRequest) {
			r.Truth = ListOf("yes", "no", "?", "yes")
		},
		"truths fail": func(t *T, l Book, r *api.RaiseRequest) {
			r.Truth = func(context.Context, string, []string) ([]string, error) {
				return nil, errors.New("the disk is on fire")
			}
		},
	} {
		t.Run(name, func(t *T) {
			l := Voters(t, Open(t, ledger.Options{}), "1", "ann", "bob", "cid", "dot")
			Define(t, l, Smoker())
			Enroll(t, l, "smoker", "1", "dot")
			r := Order(t, "k", "0.75", "ann", "bob", "cid", "dot")
			spoil(t, l, &r)
			Unchanged(t, l, func() {
				if _, err := l.Raise(t.Context(), r); err == nil {
					t.Error("it was carried out")
				}
			})
		})
	}
}

func TestAPartialOrderLeavesOutExactlyTheRefused(t *testing.T) {
	Anywhere(t, testAPartialOrderLeavesOutExactlyTheRefused)
}

func testAPartialOrderLeavesOutExactlyTheRefused(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann", "bob", "cid", "dot")
	Define(t, l, Smoker())
	Enroll(t, l, "smoker", "1", "bob")
	s := ReleaseOf(t, "s", "bob", "0.5")
	s.Question = "smoker"
	Release(t, l, s)
	Release(t, l, ReleaseOf(t, "0", "ann", "0.75"))
	r := Order(t, "k", "0.75", "ann", "bob", "cid", "dot", "zoe")
	r.Partial, r.Truth = true, ListOf("yes", "") // of cid and dot, who alone can need theirs
	before := Stats(t, l).Events
	got := CarryOut(t, l, r)
	want := api.RaiseResult{Drawn: 1, Reused: 1, First: before + 1, Last: before + 5, Refused: []api.Refusal{
		{Object: "bob", Reason: api.ObjectCap, Ceiling: Eps(t, "1"), Spent: Eps(t, "0.5"), Asked: Eps(t, "0.75"), Cost: Eps(t, "0.75"), Remaining: Eps(t, "0.5"), Remedy: api.RemedyLess, Largest: Eps(t, "0.5")},
		{Object: "dot", Reason: api.NoTruth, Asked: Eps(t, "0.75"), Remedy: api.RemedyTruth},
		{Object: "zoe", Reason: api.NotEnrolled, Asked: Eps(t, "0.75"), Remedy: api.RemedyEnrolling},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	r.Truth = Never(t)
	if again := CarryOut(t, l, r); !reflect.DeepEqual(again, want) {
		t.Errorf("got %+v the second time", again)
	}
	if found := Responses(t, l, "vote", Eps(t, "0.75")); len(found) != 2 || found["cid"].Value == "" || found["ann"].Value == "" {
		t.Errorf("sold to %v", found)
	}
}

func TestWhomARequestIsForMustBeClear(t *testing.T) {
	Anywhere(t, testWhomARequestIsForMustBeClear)
}

func testWhomARequestIsForMustBeClear(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann")
	raise := func(change func(*api.RaiseRequest)) func() error {
		return func() error {
			r := Order(t, "k", "0.5", "ann")
			r.Truth = Never(t)
			change(&r)
			_, err := l.Raise(t.Context(), r)
			return err
		}
	}
	enrol := func(objects ...string) func() error {
		return func() error {
			_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "k", Question: "vote", Objects: objects, Cap: Boundless()})
			return err
		}
	}
	for name, call := range map[string]func() error{
		"nobody":            raise(func(r *api.RaiseRequest) { r.Objects = nil }),
		"empty list":        raise(func(r *api.RaiseRequest) { r.Objects = []string{} }),
		"names and all":     raise(func(r *api.RaiseRequest) { r.All = true }),
		"empty and all":     raise(func(r *api.RaiseRequest) { r.Objects, r.All = []string{}, true }),
		"twice":             raise(func(r *api.RaiseRequest) { r.Objects = []string{"ann", "bob", "ann"} }),
		"enrol nobody":      enrol(),
		"enrol twice":       enrol("bob", "ann", "bob"),
		"enrol a non-name":  enrol("bob", ""),
		"release of nobody": func() error { _, err := l.Release(t.Context(), ReleaseOf(t, "k", "", "0.5")); return err },
	} {
		Unchanged(t, l, func() {
			if err := call(); !errors.Is(err, api.ErrInvalid) {
				t.Errorf("%s: got the error %v", name, err)
			}
		})
	}
}

// An order for all of nobody is carried out, and sells to nobody.
func TestAnOrderForNobodyYetEnrolled(t *testing.T) {
	Anywhere(t, testAnOrderForNobodyYetEnrolled)
}

func testAnOrderForNobodyYetEnrolled(t *T) {
	l := Open(t, ledger.Options{})
	Define(t, l, Vote())
	r := Order(t, "k", "0.5")
	r.Truth = Never(t)
	first := CarryOut(t, l, r)
	Enroll(t, l, "vote", "1", "ann")
	if again := CarryOut(t, l, r); !reflect.DeepEqual(first, again) || first.Drawn != 0 {
		t.Errorf("%+v, then %+v", first, again)
	}
}

// A context that has ended stops a call before it does anything.
func TestAnEndedContextStopsEveryCall(t *testing.T) {
	Anywhere(t, testAnEndedContextStopsEveryCall)
}

func testAnEndedContextStopsEveryCall(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "1", "ann")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Unchanged(t, l, func() {
		_, err := l.Release(ctx, ReleaseOf(t, "k", "ann", "0.5"))
		WantErr(t, err, context.Canceled)
		_, err = l.Enroll(ctx, api.EnrollRequest{Key: "k", Question: "vote", Objects: []string{"bob"}, Cap: Boundless()})
		WantErr(t, err, context.Canceled)
		WantErr(t, l.DefineQuestion(ctx, "k", Smoker()), context.Canceled)
		_, err = l.Object(ctx, "ann")
		WantErr(t, err, context.Canceled)
		_, err = l.Questions(ctx)
		WantErr(t, err, context.Canceled)
		WantErr(t, firstError(l.Events(ctx, 1)), context.Canceled)
		WantErr(t, firstError(l.Responses(ctx, "vote", Eps(t, "1"))), context.Canceled)
	})
}

func firstError[T any](all func(func(T, error) bool)) (first error) {
	all(func(_ T, err error) bool {
		first = err
		return err == nil
	})
	return first
}
