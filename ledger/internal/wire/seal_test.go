package wire

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// FuzzUnseal checks that Unseal accepts only the output of Seal, and only under its key.
func FuzzUnseal(f *testing.F) {
	f.Add("chains", []byte("key"), []byte("payload"))
	f.Add("", []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, bucket string, key, value []byte) {
		payload, err := Unseal(bucket, key, value)
		if err != nil {
			if !errors.Is(err, errs.ErrCorrupt) {
				t.Errorf("got the error %v", err)
			}
			value = Seal(bucket, key, bytes.Clone(value))
			payload, err = Unseal(bucket, key, value)
			if err != nil {
				t.Fatal(err)
			}
		}
		if again := Seal(bucket, key, bytes.Clone(payload)); !bytes.Equal(again, value) {
			t.Errorf("%x unseals to %x, which seals to %x", value, payload, again)
		}
		if _, err := Unseal(bucket, append(bytes.Clone(key), 0), value); err == nil {
			t.Error("a record is accepted under another key")
		}
	})
}

// The cache of Sums returns the right checksum for changing buckets and key lengths.
func TestSums_ChangingBucketsAndKeys_CachesTheRightHead(t *testing.T) {
	var head Sums
	for _, r := range []struct {
		bucket     string
		key, value []byte
	}{
		{"chains", []byte("ann"), []byte("1")}, {"chains", []byte("bob"), []byte("1")}, {"events", []byte("bob"), []byte("1")},
		{"events", []byte("anna"), []byte("1")}, {"chains", []byte("anna"), nil}, {"chains", nil, []byte("1")},
	} {
		value := Seal(r.bucket, r.key, slices.Clone(r.value))
		if payload, err := head.Unseal(r.bucket, r.key, value); err != nil || string(payload) != string(r.value) {
			t.Errorf("%q in %s: %q (%v)", r.key, r.bucket, payload, err)
		}
		value[len(value)-1] ^= 1
		_, err := head.Unseal(r.bucket, r.key, value)
		if !errors.Is(err, errs.ErrCorrupt) {
			t.Errorf("got the error %v", err)
		}
	}
}
