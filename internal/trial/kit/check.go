package kit

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger"
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
func Refusals(t testing.TB, err error) []ledger.Refusal {
	t.Helper()
	var refused *ledger.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got the error %v, want a RefusedError", err)
	}
	return refused.Refused
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
