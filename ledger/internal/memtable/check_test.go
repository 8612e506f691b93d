package memtable

import (
	"slices"
	"testing"
	"time"
)

// wantSame checks that got equals want. format describes the list.
func wantSame[T comparable](t testing.TB, got, want []T, format string, args ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf(format+": %v; want %v", append(args, got, want)...)
	}
}

// reaching returns an Options.Step that calls do at one step of a checkpoint.
func reaching(step Step, do func()) func(Step) {
	return func(now Step) {
		if now == step {
			do()
		}
	}
}

// stillWaits ends the test with text if c is ready within 20 milliseconds.
func stillWaits[T any](t testing.TB, c <-chan T, text string) {
	t.Helper()
	select {
	case <-c:
		t.Fatal(text)
	case <-time.After(20 * time.Millisecond):
	}
}
