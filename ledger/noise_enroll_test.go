package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// TestEnroll_NoiseKeyOmitted_IsErrNoiseKey opens a ledger that has used a noise key without any: chains
// could begin there that no key will ever bind. Whoever means that says so.
func TestEnroll_NoiseKeyOmitted_IsErrNoiseKey(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{NoiseKey: noiseKeys("2026")})
	define(t, l, vote())
	enroll(t, l, "vote", "4", "ann")
	closed(t, l)

	l = open(t, path, Options{})
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "bob", Question: "vote", Objects: []string{"ann", "bob"}, Cap: eps(t, "4")})
	check.That(t, errors.Is(err, api.ErrNoiseKey), "somebody was enrolled without a key: %v", err)
	_, err = l.Release(t.Context(), api.ReleaseRequest{Key: "ann", Question: "vote", Object: "ann", Epsilon: eps(t, "1"), Truth: sameTruth("yes")})
	var refused *api.RefusedError
	check.That(t, errors.As(err, &refused) && refused.Refused[0].Reason == api.NoNoiseKey,
		"a response without the key: %v", err)
	enroll(t, l, "vote", "4", "ann") // is nothing new
	closed(t, l)

	l = open(t, path, Options{NoiseKey: noiseKeys("")})
	enroll(t, l, "vote", "4", "bob")
	c := chainOf(t, l, 1, "bob")
	check.That(t, c.Noise == 0, "a chain that was to have no key has number %d", c.Noise)
}

// TestOpen_WrongNoiseKey_LeavesTheFileUnchanged opens a ledger with two new keys, one of which cannot be.
func TestOpen_WrongNoiseKey_LeavesTheFileUnchanged(t *testing.T) {
	path := create(t)
	closed(t, open(t, path, Options{NoiseKey: noiseKeys("2026")}))
	before := check.Value(os.ReadFile(path))(t)
	wrong := api.NoiseKeys{Current: "2026", Key: func(string) ([]byte, error) { return theNoiseKey("another"), nil }}
	wantErr(t, check.Err(Open(t.Context(), path, Options{TruthKey: truthKey(), NoiseKey: wrong})), api.ErrNoiseKey)
	after := check.Value(os.ReadFile(path))(t)
	check.That(t, bytes.Equal(before, after), "the file is another one")
	closed(t, open(t, path, Options{TruthKey: []byte(fmt.Sprint("another key of ", 16, " bytes")), NoiseKey: noiseKeys("2026")}))
}
