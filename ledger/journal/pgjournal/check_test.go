package pgjournal

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

func failed3[T, U any](_ T, _ U, err error) error { return err }
