package model

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger/api"
)

// Must ends a test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantErr fails unless an error is another one, or wraps it.
func WantErr(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got the error %v, want %v", err, target)
	}
}

// Refusals returns what a call was refused for.
func Refusals(t testing.TB, err error) []api.Refusal {
	t.Helper()
	var refused *api.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got the error %v, want a RefusedError", err)
	}
	return refused.Refused
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// WantChanged fails unless a request was refused for the changed truths of these people, and for nothing else.
func WantChanged(t testing.TB, err error, names ...string) {
	t.Helper()
	var refused *api.RefusedError
	if !errors.As(err, &refused) || !slices.Equal(refused.TruthChanged, names) {
		t.Fatalf("%v, want one for the changed truths of %q", err, names)
	}
	var plain []string
	for _, r := range refused.Refused {
		plain = append(plain, r.Object)
		if r != (api.Refusal{Object: r.Object, Reason: api.NoTruth, Asked: r.Asked, Remedy: api.RemedyTruth, Largest: r.Largest}) {
			t.Errorf("a changed truth is refused as %+v", r)
		}
	}
	if !slices.Equal(plain, names) || strings.Contains(err.Error(), "chang") {
		t.Errorf("%v for %q", err, names)
	}
}
