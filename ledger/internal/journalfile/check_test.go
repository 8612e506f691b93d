package journalfile

import (
	"errors"
	"testing"
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

// wantEqual checks that what format describes is want.
func wantEqual[T comparable](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf(format+": %v; want %v", append(args, got, want)...)
	}
}

func failed3[T, U any](_ T, _ U, err error) error { return err }
