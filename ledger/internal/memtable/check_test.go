package memtable

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// wantErr checks that err wraps want, or is nil if that is.
func wantErr(t testing.TB, err, want error, format string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf(format+": %v; want %v", append(args, err, want)...)
	}
}

func failed[T any](_ T, err error) error { return err }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check reports err, unless it is nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// wantFailure reports text if err is nil.
func wantFailure(t testing.TB, err error, text string, args ...any) {
	t.Helper()
	if err == nil {
		t.Errorf(text, args...)
	}
}

// wantEqual checks that what format describes is want.
func wantEqual[T comparable](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf(format+": %v; want %v", append(args, got, want)...)
	}
}

// wantSame checks that the list that format describes is want.
func wantSame[T comparable](t testing.TB, got, want []T, format string, args ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf(format+": %v; want %v", append(args, got, want)...)
	}
}

// reaching returns what calls do at one step of a checkpoint.
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
