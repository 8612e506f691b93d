package main

import (
	"strings"
	"testing"
	"time"
)

// A time of --at more than five minutes ahead of this machine's clock needs --clock-ahead. The
// clock advances during the test, so that a time under the limit stays under it.
func TestAt_AheadOfTheClock_NeedsConfirmation(t *testing.T) {
	for _, test := range []struct {
		ahead   time.Duration
		confirm bool
		want    int
	}{
		{-time.Hour, false, 0},
		{4 * time.Minute, false, 0},
		{90 * time.Minute, false, 2},
		{90 * time.Minute, true, 0},
	} {
		db, people := newLedger(t, 1, `{"kind":"fixed","ceiling":"2"}`)
		at := time.Now().Add(test.ahead).UTC().Format(time.RFC3339Nano)
		args := []string{"--db", db, "advance", "--truth", people, "--at", at}
		if test.confirm {
			args = append(args, "--clock-ahead", at)
		}
		code, _, stderr := invoke(t, args...)
		if code != test.want {
			t.Errorf("%v ahead, confirmed %v: exit code %d, want %d; stderr %q", test.ahead, test.confirm, code, test.want, stderr)
		}
		if warned := strings.Contains(stderr, "warning"); warned != test.confirm {
			t.Errorf("%v ahead, confirmed %v: stderr %q", test.ahead, test.confirm, stderr)
		}
	}
}
