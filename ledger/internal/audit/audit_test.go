package audit

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

func TestIsRecord_ChangedRecord_IsRefused(t *testing.T) {
	for _, bucket := range []string{state.BucketChains, state.BucketMeta, state.BucketObjects} {
		var sums wire.Sums
		for round := range 2 {
			for length := range 200 {
				key, payload := bytes.Repeat([]byte{'k'}, length), []byte("payload")
				stored := wire.Seal(bucket, key, bytes.Clone(payload))
				if !isRecord(&sums, bucket, key, stored, payload) {
					t.Fatalf("%s, round %d: the checksum with a key of %d bytes is refused", bucket, round, length)
				}
				for at := range stored {
					stored[at] ^= 1
					if isRecord(&sums, bucket, key, stored, payload) {
						t.Fatalf("%s: a record with a changed byte %d is accepted", bucket, at)
					}
					stored[at] ^= 1
				}
				if length > 0 && isRecord(&sums, bucket, key[1:], stored, payload) || isRecord(&sums, bucket, key, stored[:3], nil) {
					t.Fatalf("%s: the record of another key, or a shortened one, is accepted", bucket)
				}
				if length > 0 && isRecord(&sums, bucket, append([]byte{'l'}, key[1:]...), stored, payload) {
					t.Fatalf("%s: the record of another key of the same length is accepted", bucket)
				}
			}
		}
	}
	format := binary.BigEndian.AppendUint16([]byte(state.FormatName), state.FormatVersion)
	if key := []byte(state.KeyFormat); !isRecord(new(wire.Sums), state.BucketMeta, key, format, format) || isRecord(new(wire.Sums), state.BucketMeta, key, wire.Seal(state.BucketMeta, key, format), format) {
		t.Error("the record of the format is refused without a checksum, or accepted with one")
	}
}

func TestTreeCheck_AnySize_AgreesWithTlog(t *testing.T) {
	tree := &treeCheck{}
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			out[i] = stored[index]
		}
		return out, nil
	})
	for n := range int64(300) {
		hashes, err := tlog.StoredHashes(n, []byte{byte(n), byte(n >> 8)}, reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
		if wrong := tree.add(hashes); wrong != nil {
			t.Errorf("leaf %d: wrong hashes %v", n, wrong)
		}
		want, err := tlog.TreeHash(n+1, reader)
		if err != nil {
			t.Fatal(err)
		}
		if root, known := tree.root(); !known || root != want {
			t.Fatalf("the root of %d leaves is %v, want %v", n+1, root, want)
		}
	}
	// With missing leaves, no hash is reported as wrong, and no wrong root is returned.
	const size = 40
	want, err := tlog.TreeHash(size, reader)
	if err != nil {
		t.Fatal(err)
	}
	for from := range int64(size) {
		for to := from; to <= size; to++ {
			tree := &treeCheck{}
			for n := range int64(size) {
				if n < from || n >= to {
					tree.skip(uint64(n))
					at := tlog.StoredHashIndex(0, n)
					if wrong := tree.add(stored[at : at+int64(merkle.Completes(uint64(n)))]); wrong != nil {
						t.Errorf("leaf %d without %d to %d: wrong hashes %v", n, from, to, wrong)
					}
				}
			}
			tree.skip(size)
			if root, known := tree.root(); known && root != want {
				t.Fatalf("without %d to %d the root is %v", from, to, root)
			}
		}
	}
}
