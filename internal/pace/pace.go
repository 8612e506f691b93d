// Package pace tells the tests of this module how much to try, and lets none be left out in
// silence. Only tests import it, and the packages below internal/trial, which serve tests.
package pace

import (
	"os"
	"os/exec"
	"testing"
)

// Tests have three forms. The quick one runs with "go test ./...", and shall find what a change
// breaks; the deep one runs before a change lands; the long one, which takes hours, now and then.
const (
	deep     = "SLUICE_DEEP"     // in the environment: tests take their deep forms, as in .ci/run
	long     = "SLUICE_LONG"     // in the environment: tests take their long forms
	complete = "SLUICE_COMPLETE" // in the environment: nothing may be left out
)

// Long tells whether the long forms of tests are asked for: SLUICE_LONG is set in the environment.
func Long() bool { return os.Getenv(long) != "" }

// Deep tells whether the deep forms of tests are asked for, or the long ones.
func Deep() bool { return os.Getenv(deep) != "" || Long() }

// Scale returns how much to try of something whose deep form is the quick one: so much in that, and
// so much in the long one.
func Scale(quick, thorough int) int { return Tries(quick, quick, thorough) }

// Tries returns how much to try of something in the quick form of a test, in the deep one, and in
// the long one.
func Tries(quick, deep, long int) int {
	switch {
	case Long():
		return long
	case Deep():
		return deep
	}
	return quick
}

// Hurried tells whether the quick forms of tests are to be quicker still: under -short, and under
// the race detector, which makes them six to ten times as slow, and in which a test in a single
// goroutine finds nothing that it does not find without.
func Hurried() bool { return Race == 1 || testing.Short() }

// Step returns how many of an enumeration of like cases a test takes at a time: 1, and if hurried
// as many as given, at least
// 1. Whoever takes steps lets their places vary, so that cases of each kind are met somewhere.
func Step(hurried int) int {
	if Hurried() {
		return hurried
	}
	return 1
}

// Stride is [Step] for an enumeration of which the quick form takes every so-manieth case, and the
// deep one all.
func Stride(quick, hurried int) int {
	if Hurried() {
		return max(quick, hurried)
	}
	return Tries(quick, 1, 1)
}

// Scratch returns an empty directory for files that need not outlive the machine, in memory where
// that is possible: on a disk, to sync them is most of the time of a test. It is removed with what
// is in it when the test ends.
func Scratch(t testing.TB) string {
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

// Impossible ends a test that this machine cannot do, and says why. The test is skipped; where
// SLUICE_COMPLETE is set, as in .ci/run, it fails.
func Impossible(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(complete) != "" {
		t.Fatalf("cannot be tested on this machine: %s", why)
	}
	t.Skipf("NOT TESTED ON THIS MACHINE: %s", why)
}

// Command returns the path of a command that a test needs. A test on a machine without it ends.
func Command(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Impossible(t, err.Error())
	}
	return path
}
