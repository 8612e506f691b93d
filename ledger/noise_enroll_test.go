package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/sluicedp/sluice/ledger/api"
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
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "bob", Question: "vote", Objects: []string{"ann", "bob"}, Cap: eps(t, "4")})
	if !errors.Is(err, api.ErrNoiseKey) {
		t.Errorf("somebody was enrolled without a key: %v", err)
	}
	_, err = l.Release(t.Context(), api.ReleaseRequest{Key: "ann", Question: "vote", Object: "ann", Epsilon: eps(t, "1"), Truth: sameTruth("yes")})
	var refused *api.RefusedError
	if !errors.As(err, &refused) || refused.Refused[0].Reason != api.NoNoiseKey {
		t.Errorf("a response without the key: %v", err)
	}
	enroll(t, l, "vote", "4", "ann") // is nothing new
	closed(t, l)

	l = open(t, path, Options{NoiseKey: noiseKeys("")})
	enroll(t, l, "vote", "4", "bob")
	if c := chainOf(t, l, 1, "bob"); c.Noise != 0 {
		t.Errorf("a chain that was to have no key has number %d", c.Noise)
	}
}

// TestARefusedOpenLeavesTheFileAlone opens a ledger with two new keys, one of which cannot be.
func TestARefusedOpenLeavesTheFileAlone(t *testing.T) {
	path := create(t)
	closed(t, open(t, path, Options{NoiseKey: noiseKeys("2026")}))
	before, err := os.ReadFile(path)
	must(t, err)
	wrong := api.NoiseKeys{Current: "2026", Key: func(string) ([]byte, error) { return theNoiseKey("another"), nil }}
	_, err = Open(t.Context(), path, Options{TruthKey: truthKey(), NoiseKey: wrong})
	wantErr(t, err, api.ErrNoiseKey)
	after, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the file is another one")
	}
	closed(t, open(t, path, Options{TruthKey: []byte(fmt.Sprint("another key of ", 16, " bytes")), NoiseKey: noiseKeys("2026")}))
}
