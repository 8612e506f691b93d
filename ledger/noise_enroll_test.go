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

// A ledger that has used a noise key is opened without one. A chain that began now could never be
// bound to a key, so the host must say explicitly that it wants none.
func TestEnroll_NoiseKeyOmitted_IsErrNoiseKey(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{NoiseKey: noiseKeys("2026")})
	define(t, l, vote())
	enroll(t, l, "vote", "4", "ann")
	closed(t, l)

	l = open(t, path, Options{})
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "bob", Question: "vote", Objects: []string{"ann", "bob"}, Cap: eps(t, "4")})
	check.That(t, errors.Is(err, api.ErrNoiseKey), "an object was enrolled without a key: %v", err)
	_, err = l.Release(t.Context(), api.ReleaseRequest{Key: "ann", Question: "vote", Object: "ann", Epsilon: eps(t, "1"), Truth: sameTruth("yes")})
	var refused *api.RefusedError
	check.That(t, errors.As(err, &refused) && refused.Refused[0].Reason == api.NoNoiseKey,
		"a response without the key: %v", err)
	enroll(t, l, "vote", "4", "ann") // which is enrolled already
	closed(t, l)

	l = open(t, path, Options{NoiseKey: noiseKeys("")})
	enroll(t, l, "vote", "4", "bob")
	c := chainOf(t, l, 1, "bob")
	check.That(t, c.Noise == 0, "a chain that was to have no key has number %d", c.Noise)
}

// A ledger is opened with a new truth key and a wrong noise key.
func TestOpen_WrongNoiseKey_LeavesTheFileUnchanged(t *testing.T) {
	path := create(t)
	closed(t, open(t, path, Options{NoiseKey: noiseKeys("2026")}))
	before := check.Value(os.ReadFile(path))(t)
	wrong := api.NoiseKeys{Current: "2026", Key: func(string) ([]byte, error) { return theNoiseKey("another"), nil }}
	wantErr(t, check.Err(Open(t.Context(), path, Options{TruthKey: truthKey(), NoiseKey: wrong})), api.ErrNoiseKey)
	after := check.Value(os.ReadFile(path))(t)
	check.That(t, bytes.Equal(before, after), "the file has changed")
	closed(t, open(t, path, Options{TruthKey: []byte(fmt.Sprint("another key of ", 16, " bytes")), NoiseKey: noiseKeys("2026")}))
}
