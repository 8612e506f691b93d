package ledger

import (
	"errors"
	"strings"
	"testing"
)

// TestNobodyBeginsWithoutAKeyByMistake opens a ledger that has used a noise key without any: chains could begin there
// that no key will ever bind. Whoever means that says so.
func TestNobodyBeginsWithoutAKeyByMistake(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{NoiseKey: noiseKeys("2026")})
	define(t, l, vote())
	enroll(t, l, "vote", "4", "ann")
	closed(t, l)

	l = open(t, path, Options{})
	_, err := l.Enroll(t.Context(), EnrollRequest{Key: "bob", Question: "vote", Objects: []string{"ann", "bob"}})
	if !errors.Is(err, ErrNoiseKey) {
		t.Errorf("somebody was enrolled without a key: %v", err)
	}
	_, err = l.Release(t.Context(), ReleaseRequest{Key: "ann", Question: "vote", Object: "ann", Epsilon: eps(t, "1"), Truth: TruthOf("yes")})
	if !errors.Is(err, ErrNoiseKey) || !strings.Contains(err.Error(), `"2026"`) {
		t.Errorf("a response without the key, or an error that does not name it: %v", err)
	}
	enroll(t, l, "vote", "4", "ann") // is nothing new
	closed(t, l)

	l = open(t, path, Options{NoiseKey: noiseKeys("")})
	enroll(t, l, "vote", "4", "bob")
	if c := chainOf(t, l, 1, "bob"); c.noise != 0 {
		t.Errorf("a chain that was to have no key has number %d", c.noise)
	}
}
