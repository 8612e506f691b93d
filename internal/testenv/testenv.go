// Package testenv returns how much the tests of this module are to try, and what the machine offers
// them. Only tests import it, and the packages in internal/trial, which serve tests.
package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// Tests have three forms. The quick form runs with "go test ./..." and must find the faults that a
// change causes. The deep form tries more cases, and runs before a change is merged. The long form
// takes hours, and runs only on request.
const (
	deep     = "SLUICE_DEEP"     // if set in the environment, tests run in their deep form, as in .ci/run
	long     = "SLUICE_LONG"     // if set in the environment, tests run in their long form
	complete = "SLUICE_COMPLETE" // if set in the environment, no test may be skipped
)

// Long returns whether tests run in their long form: SLUICE_LONG is set in the environment.
func Long() bool { return os.Getenv(long) != "" }

// Deep returns whether tests run in their deep form or in their long one.
func Deep() bool { return os.Getenv(deep) != "" || Long() }

// Scale returns quick in the quick and the deep form of tests, and long in the long form.
func Scale(quick, long int) int { return Tries(quick, quick, long) }

// Tries returns how many cases a test tries: the argument for the form in which tests run.
func Tries(quick, deep, long int) int {
	switch {
	case Long():
		return long
	case Deep():
		return deep
	}
	return quick
}

// Short returns whether a test is to try even fewer cases than its form says: with -short, and
// under the race detector. The race detector makes tests six to ten times as slow, and finds
// nothing in a test of a single goroutine.
func Short() bool { return Race == 1 || testing.Short() }

// Step returns the step in which a test goes through a list of similar cases: short if [Short]
// returns true, and else 1, which is every case. With a step above 1, the test should begin at a
// different case in each list, so that over many lists it tries cases of each kind.
func Step(short int) int {
	if Short() {
		return short
	}
	return 1
}

// Stride is [Step] for a test whose quick form does not try every case, either. It returns quick in
// the quick form, and 1 in the deep and the long form. If [Short] returns true, it returns the
// larger one of quick and short, in any form.
func Stride(quick, short int) int {
	if Short() {
		return max(quick, short)
	}
	return Tries(quick, 1, 1)
}

// TempDir returns an empty directory for files that need not survive a restart of the machine. It
// is in memory where that is possible, because tests spend most of their time on syncing files to a
// disk. The directory and its contents are removed when the test ends.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sluice-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Unsupported ends a test that cannot run on this machine, with the reason. The test is skipped. If
// SLUICE_COMPLETE is set, as in .ci/run, it fails.
func Unsupported(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(complete) != "" {
		t.Fatalf("cannot be tested on this machine: %s", why)
	}
	t.Skipf("NOT TESTED ON THIS MACHINE: %s", why)
}

// Command returns the path of a command that a test needs. If the command is not installed, the
// test ends as with [Unsupported].
func Command(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Unsupported(t, err.Error())
	}
	return path
}
