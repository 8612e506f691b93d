package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// BenchmarkVerify compares the audit, on one core, with the least that any audit of the log does: it reads all events,
// checks their checksums, and hashes each into the tree.
func BenchmarkVerify(b *testing.B) {
	usualGarbage(b)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	path := filepath.Join(b.TempDir(), "ledger.db")
	bigLedger(b, path, 120_000)
	l := open(b, path, Options{ReadOnly: true})
	_, events := scanned(b, l)
	var p turns
	for b.Loop() {
		p.bare = append(p.bare, timed(b, func() error { return hashEvents(l) }))
		p.ours = append(p.ours, timed(b, func() error {
			done, err := l.Verify(b.Context(), api.VerifyRequest{})
			check.That(b, err != nil || (done.Problems == 0 && done.Events == events), "%+v", done)
			return err
		}))
	}
	p.report(b, "bare", int(events))
	b.ReportMetric(float64(events)/p.ours[len(p.ours)/2].Seconds(), "events/s")
}

// hashEvents reads all events and computes the hashes that came with them, from the bytes as they are.
func hashEvents(l *Ledger) error {
	var left [64]tlog.Hash // by level, the last complete subtree with no right neighbour yet
	return l.engine.Store.View(func(r kv.Reader) error {
		var fault error
		err := r.Scan(state.BucketEvents, nil, func(key, value []byte) bool {
			fault = hashEvent(&left, binary.BigEndian.Uint64(key), key, value)
			return fault == nil
		})
		return errors.Join(err, fault)
	})
}

func hashEvent(left *[64]tlog.Hash, number uint64, key, value []byte) error {
	payload, err := wire.Unseal(state.BucketEvents, key, value)
	if err != nil {
		return err
	}
	d := &wire.Decoder{Rest: payload}
	d.U8()      // the form: all events are whole
	d.Uvarint() // the event before it
	public := d.Take(d.Uvarint())
	kept := sha256.Sum256(d.Take(d.Uvarint()))
	hash := merkle.HashLeaf(append(append(make([]byte, 0, 128), public...), kept[:]...))
	top := merkle.Completes(number-1) - 1
	for level := range top {
		hash = merkle.HashNode(left[level], hash)
	}
	left[top] = hash
	if string(d.Rest[top*tlog.HashSize:]) != string(hash[:]) {
		return errors.New("the hash of an event is not what was stored")
	}
	return d.Err
}
