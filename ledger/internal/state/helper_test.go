package state

import (
	"errors"
	"testing"

	"github.com/sluicedp/sluice/privacy"
)

func nano(t testing.TB, n int64) privacy.Epsilon {
	t.Helper()
	e, err := privacy.EpsilonFromNano(n)
	must(t, err)
	return e
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got the error %v, want %v", err, target)
	}
}
