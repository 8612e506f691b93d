// Package check has the checks of tests, so that each check is one line. It imports only package
// privacy, so that the tests of all other packages can use it.
package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/sluicedp/sluice/privacy"
)

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// OK fails the test if err is not nil.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Error(err)
	}
}

// Is fails the test unless err is target or wraps it. The optional context is a format and its
// arguments, and says which case is checked.
func Is(t testing.TB, err, target error, context ...any) {
	if !errors.Is(err, target) {
		t.Helper()
		of := ""
		if len(context) > 0 {
			of = fmt.Sprintf(context[0].(string)+": ", context[1:]...)
		}
		t.Errorf("%sgot the error %v, want %v", of, err, target)
	}
}

// WantErr fails the test unless err is want or wraps it. A want of nil means no error. The message
// begins with what was done, formatted with args.
func WantErr(t testing.TB, err, want error, what string, args ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("%s: %v; want %v", fmt.Sprintf(what, args...), err, want)
	}
}

// Value returns the value of a call that also returns an error. An error ends the test:
//
//	sale := check.Value(l.Sell(ctx, request))(t)
func Value[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return value
	}
}

// Err returns the error of a call that also returns a value.
func Err[T any](_ T, err error) error { return err }

// Err2 is [Err] of a call that also returns two values.
func Err2[T, U any](_ T, _ U, err error) error { return err }

// Equal fails the test unless got equals want. The message begins with what they are, formatted
// with args.
func Equal[T comparable](t testing.TB, got, want T, what string, args ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(what, args...), got, want)
	}
}

// That fails the test unless ok. The arguments are those of [testing.T.Errorf]. They are evaluated
// even if ok.
func That(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// Need ends the test unless ok. The arguments are those of [testing.T.Fatalf]. They are evaluated
// even if ok.
func Need(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// Eps parses an ε.
func Eps(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	return Value(privacy.ParseEpsilon(text))(t)
}

// Vectors returns the rows of a file of reference numbers (testdata/README.md). The test ends if
// there are fewer than least.
func Vectors[Row any](t testing.TB, path string, least int) []Row {
	t.Helper()
	var file struct{ Rows []Row }
	Must(t, json.Unmarshal(Value(os.ReadFile(path))(t), &file))
	Need(t, len(file.Rows) >= least, "%s has %d rows", path, len(file.Rows))
	return file.Rows
}

// Allocated returns how many bytes a call allocates, including those that are freed again.
func Allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
