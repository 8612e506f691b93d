package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
)

// These tests change each byte of a file, and drop, move or repeat each event of a log. The audit
// finds it.

// writeSmallLedger writes a ledger with few events, but at least one of each kind.
func writeSmallLedger(t testing.TB, s kv.Store) {
	t.Helper()
	begin(t, s)
	clock := newClock(epoch())
	l := check.Value(openStore(t.Context(), s, Options{Now: clock.read}))(t)
	l.engine.Chances.Values, l.requests.Sampler, l.engine.Salts = steadySampler(), medians(), steadySalts(2)
	must(t, l.useKeys(t.Context(), truthKey(), nil, api.NoiseKeys{}))
	terms := policy.Market{Max: eps(t, "2"), Prices: []policy.Price{{Epsilon: eps(t, "2"), Amount: 200}}}
	p := check.Value(terms.Policy())(t)
	define(t, l, vote())
	enrollUnder(t, l, "vote", p, "2", "ann", "bob")
	release(t, l, releaseOf(t, "raise", "ann", "1"))
	release(t, l, releaseOf(t, "degrade", "ann", "0.25"))
	raise(t, l, partial(raiseOf(t, "partial", "1", "ann", "zoe")))
	answerTo(t, l, answerRequest(t, "fresh", "majority:yes", "0.5", ballots("bob"), "bob"))
	sell(t, l, purchase(t, "sale", "acme", "1", "ann", "bob"))
	held := purchase(t, "", "acme", "1.5", "bob").Order
	reserve(t, l, api.ReserveRequest{Key: "hold", Order: held, For: time.Hour})
	must(t, l.Cancel(t.Context(), "cancel", 2))
	reserve(t, l, api.ReserveRequest{Key: "hold again", Order: held, For: time.Hour})
	makeStatement(t, l, "bob")
	define(t, l, home(9))
	enrollUnder(t, l, "home", p, "2", "ann", "cid")
	raise(t, l, homesOf(t, "homes", "0.5"))
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave", Object: "ann"}))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "ann"}))
	makeStatement(t, l, "ann")
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave, too", Object: "bob"}))
	must(t, l.useKeys(t.Context(), nil, nil, noiseKeys("2026")))
	enroll(t, l, "vote", "9", "eve", "dan")
	release(t, l, releaseOf(t, "keyed", "eve", "1"))
	answerTo(t, l, answerRequest(t, "score", "majority:yes", "0.5", ballots("eve"), "eve", "dan"))
	answerTo(t, l, answerRequest(t, "raised", "majority:yes", "1", ballots("eve"), "eve", "dan"))
	answerTo(t, l, answerRequest(t, "between", "majority:yes", "0.75", mustNotAsk(t), "eve", "dan"))
	must(t, check.Err(l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: "more", Question: "vote", Objects: []string{"eve"}, Cap: eps(t, "9.5"), Consent: "agreed"})))
	must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "move on", Question: "vote", Object: "eve"}))
	release(t, l, releaseOf(t, "by chance", "eve", "0.5"))
}

// smallFile returns the file of that ledger, without unused pages.
func smallFile(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "first.db")
	must(t, bolt.Create(path, func(kv.Writer) error { return nil }))
	file := check.Value(bolt.Open(path, false))(t)
	writeSmallLedger(t, file)
	compact := filepath.Join(t.TempDir(), "ledger.db")
	must(t, file.CopyTo(t.Context(), compact, kv.Records, nil, nil))
	must(t, file.Close())
	return check.Value(os.ReadFile(compact))(t)
}

func TestSmallLedger_HasEveryKindAndBucket(t *testing.T) {
	s := &kv.Memory{}
	writeSmallLedger(t, s)
	l := openMemory(t, s, Options{})
	wantClean(t, l, api.VerifyRequest{})
	written, erased := map[event.Kind]bool{}, 0
	for _, ev := range logOf(t, pairs(t, s)) {
		written[ev.Change.Kind()] = true
		if ev.Erased != nil {
			erased++
		}
	}
	for k := event.Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		check.That(t, written[k], "no event of the kind %s", k)
	}
	filled := map[string]bool{}
	for _, p := range pairs(t, s) {
		filled[p.bucket] = true
	}
	check.That(t, len(filled) == len(bucketNames()) && erased != 0,
		"records in %d buckets, %d events are erased", len(filled), erased)
	t.Logf("%d events", stats(t, l).Events)
}

// damager changes bytes of a file of its own, opens it and verifies it.
type damager struct {
	t        *testing.T
	path     string
	file     *os.File
	original []byte
	records  []pair
	doing    atomic.Pointer[string]
	watchdog *time.Timer
}

func newDamager(t *testing.T, original []byte, records []pair) *damager {
	t.Helper()
	// In memory if possible, because opening a changed file syncs it.
	d := &damager{t: t, path: filepath.Join(tests.TempDir(t), "ledger.db"), original: original, records: records}
	must(t, os.WriteFile(d.path, original, 0o600))
	file := check.Value(os.OpenFile(d.path, os.O_RDWR, 0))(t)
	d.file = file
	t.Cleanup(func() { d.file.Close() })
	d.watchdog = time.AfterFunc(time.Hour, func() { panic("hangs with " + *d.doing.Load()) })
	t.Cleanup(func() { d.watchdog.Stop() })
	return d
}

// flip changes the bytes [from, to) and reports whether Open or the audit notices. If not, all
// records must be as they were.
func (d *damager) flip(from, to int, mask byte) (noticed bool) {
	what := fmt.Sprintf("bytes %d to %d (page %d) xor %#02x", from, to-1, from/os.Getpagesize(), mask)
	d.doing.Store(&what)
	d.watchdog.Reset(patience)
	changed := slices.Clone(d.original[from:to])
	for i := range changed {
		changed[i] ^= mask
	}
	d.write(changed, from)
	defer d.write(d.original[from:to], from)
	l, err := Open(context.Background(), d.path, Options{ReadOnly: true})
	if err != nil {
		return true
	}
	defer l.Close()
	done, err := l.Verify(d.t.Context(), api.VerifyRequest{})
	if err != nil {
		d.t.Errorf("%s: %v", what, err) // damage is a problem, not an error
	}
	if done.Problems > 0 {
		return true
	}
	d.wantUnchanged(l.engine.Store, what)
	return false
}

func (d *damager) write(b []byte, at int) {
	if _, err := d.file.WriteAt(b, int64(at)); err != nil {
		d.t.Error(err)
	}
}

// wantUnchanged checks that all records are what they were.
func (d *damager) wantUnchanged(s kv.Store, what string) {
	wantSameRecords(d.t, what+" was not noticed", pairs(d.t, s), d.records)
	err := s.View(func(r kv.Reader) error {
		for _, p := range d.records {
			value, err := r.Get(p.bucket, p.key)
			if err != nil || string(value) != string(p.value) {
				return fmt.Errorf("record %s %x is now %x, error %w", p.bucket, p.key, value, err)
			}
		}
		return nil
	})
	check.That(d.t, err == nil, "%s was not noticed: %v", what, err)
}

// damageInParallel calls work for the parts [0, n) of the file, in parallel.
func damageInParallel(t *testing.T, n int, work func(d *damager, part int)) {
	t.Helper()
	original := smallFile(t)
	records := recordsOf(t, original)
	var next atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		d := newDamager(t, original, records)
		group.Go(func() {
			for part := int(next.Add(1)) - 1; part < n && !t.Failed(); part = int(next.Add(1)) - 1 {
				work(d, part)
			}
		})
	}
	group.Wait()
}

func recordsOf(t *testing.T, file []byte) []pair {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, os.WriteFile(path, file, 0o600))
	s := check.Value(bolt.Open(path, true))(t)
	defer s.Close()
	return pairs(t, s)
}

// A changed byte of the file is found, or changes no record. A store grows by 1 MiB at a time, but
// a copy of its records ends with the last page in use, so every byte can be tried. A quick run
// tries one or two of every seventh block. Blocks in which no change is noticed are not used, and
// are not tried byte by byte.
func TestVerify_AnyByteAltered_IsFoundOrHarmless(t *testing.T) {
	const block = 64
	size, stride, step := len(smallFile(t)), oneIn(41), oneIn(7)
	turn := rand.IntN(step)
	var tried, found, unused atomic.Int64
	damageInParallel(t, size/block, func(d *damager, part int) {
		if part%step != turn {
			return
		}
		from := part * block
		if !d.flip(from, from+block, 0xa5) {
			unused.Add(block)
			return
		}
		for at := from + part%stride; at < from+block; at += stride {
			tried.Add(1)
			if d.flip(at, at+1, byte(1+at*7%255)) {
				found.Add(1)
			}
		}
	})
	t.Logf("%d bytes: %d unused; of %d others %d were found", size, unused.Load(), tried.Load(), found.Load())
	check.That(t, unused.Load() != 0 && found.Load()*10 >= tried.Load()*9, "too few bytes are unused, or too few changes are found")
}

// The same with more masks for the structure of the file: the headers of all pages, and the
// elements of branch pages. A few bits there make a page number lead elsewhere, or in a circle.
func TestVerify_PageHeaderAltered_IsFoundOrHarmless(t *testing.T) {
	page := os.Getpagesize()
	size := len(smallFile(t))
	step := oneIn(61)
	branches := atomic.Int64{}
	damageInParallel(t, size/page, func(d *damager, part int) {
		const head = 16
		at := part * page
		length := head
		if kind := binary.NativeEndian.Uint16(d.original[at+8:]); kind == 1 {
			branches.Add(1)
			length += 16 * int(binary.NativeEndian.Uint16(d.original[at+10:]))
		}
		for i := at; i < at+length; i++ {
			for mask := 1; mask < 256; mask++ {
				single := mask&(mask-1) == 0
				if (single || mask < 32) && (mask+i)%step == 0 {
					d.flip(i, i+1, byte(mask))
				}
			}
		}
	})
	check.That(t, branches.Load() != 0, "the file has no branch page")
}

// If the newer of the two meta pages is damaged, bbolt silently uses the older one, which is a
// sound state without the last transaction. The audit reports that this transaction may be missing.
func TestVerify_MetaPageDamaged_ReportsPossibleRollback(t *testing.T) {
	for page := range 2 {
		path := votersFile(t, "5", "ann")
		l := open(t, path, Options{})
		release(t, l, releaseOf(t, "1", "ann", "0.5"))
		closed(t, l)
		data, err := os.ReadFile(path)
		must(t, err)
		data[page*os.Getpagesize()+40] ^= 4
		must(t, os.WriteFile(path, data, 0o600))
		l, err = Open(t.Context(), path, Options{ReadOnly: true})
		if errors.Is(err, api.ErrJournal) {
			continue // the state before Close, which needs the journal
		}
		must(t, err)
		defer l.Close()
		found := findings(t, l, api.VerifyRequest{})
		want := api.Finding{Kind: "file", Text: fmt.Sprintf("meta page %d is damaged: the last transaction may be missing", page)}
		check.That(t, slices.Equal(found, []api.Finding{want}), "the audit finds %+v, want %+v", found, want)
	}
}

// eventsOf returns the entries of all events.
func eventsOf(t testing.TB, s kv.Store) (log []event.Entry) {
	t.Helper()
	for _, p := range pairs(t, s) {
		if p.bucket != state.BucketEvents {
			continue
		}
		payload := check.Value(unsealed(p))(t)
		n := check.Value(event.DecodeEntry(binary.BigEndian.Uint64(p.key), payload))(t)
		log = append(log, n)
	}
	return log
}

// putEvents replaces all events by these entries, numbered from 1.
func putEvents(t testing.TB, s kv.Store, log []event.Entry) {
	t.Helper()
	must(t, s.Update(func(w kv.Writer) error {
		var keys [][]byte
		err := w.Scan(state.BucketEvents, nil, func(key, _ []byte) bool { keys = append(keys, slices.Clone(key)); return true })
		for _, key := range keys {
			err = errors.Join(err, w.Delete(state.BucketEvents, key))
		}
		for i, n := range log {
			key := state.EventKey(uint64(i + 1))
			err = errors.Join(err, w.Put(state.BucketEvents, key, wire.Seal(state.BucketEvents, key, n.Encode())))
		}
		return err
	}))
}

// rebuildTree computes all hashes of the tree again, as an attacker who rewrites the log would.
func rebuildTree(t testing.TB, log []event.Entry) []event.Entry {
	t.Helper()
	edge := &merkle.Frontier{}
	for i := range log {
		hashes := check.Value(edge.Append(log[i].Leaf()))(t)
		log[i].Hashes = hashes
	}
	return log
}

// eventMoves returns the ways to drop, swap or repeat the event at an index.
func eventMoves() map[string]func(log []event.Entry, at int) []event.Entry {
	return map[string]func([]event.Entry, int) []event.Entry{
		"dropped": func(log []event.Entry, at int) []event.Entry { return slices.Delete(log, at, at+1) },
		"swapped with the next": func(log []event.Entry, at int) []event.Entry {
			next := (at + 1) % len(log)
			log[at], log[next] = log[next], log[at]
			return log
		},
		"repeated at once":      func(log []event.Entry, at int) []event.Entry { return slices.Insert(log, at, log[at]) },
		"repeated at the end":   func(log []event.Entry, at int) []event.Entry { return append(log, log[at]) },
		"put over the next one": func(log []event.Entry, at int) []event.Entry { log[(at+1)%len(log)] = log[at]; return log },
	}
}

// Events are moved in each of the ways, with valid checksums; a quick run tries some of them. Even
// if all hashes of the tree are computed again, the audit finds it. Only two erased events can
// change places without a finding, and then a checkpoint shows it.
func TestVerify_EventMovedOrRepeated_IsFound(t *testing.T) {
	tries, stride := 0, oneIn(47)
	for name, tellSome := range map[string]func(*testing.T, kv.Store){"little": func(t *testing.T, s kv.Store) { writeSmallLedger(t, s) }, "rich": writeGoldenLedger} {
		original := &kv.Memory{}
		tellSome(t, original)
		log, trusted, stored := eventsOf(t, original), trustedHead(t, original), pairs(t, original)
		for i, how := range sortedKeys(eventMoves()) {
			for j, tree := range sortedKeys(hashRewrites(log)) {
				for at := (3*i + j) % stride; at < len(log); at += stride {
					tries++
					s := fill(t, stored)
					l := openMemory(t, s, Options{})
					putEvents(t, s, hashRewrites(log)[tree](t, eventMoves()[how](slices.Clone(log), at)))
					what := fmt.Sprintf("%s: event %d (%s) %s, %s", name, at+1, log[at].Change.Kind(), how, tree)
					erased := log[at].Erased != nil && log[(at+1)%len(log)].Erased != nil
					found := findings(t, l, api.VerifyRequest{})
					check.That(t, len(found) != 0 || erased && tree == newTree, "%s: the audit finds nothing", what)
					found = findings(t, l, trusted)
					check.That(t, len(found) != 0, "%s: the audit with a checkpoint finds nothing", what)
				}
			}
		}
	}
	t.Logf("%d tries", tries)
}

const newTree = "with a new tree"

// hashRewrites returns ways to set the hashes of moved events.
func hashRewrites(places []event.Entry) map[string]func(testing.TB, []event.Entry) []event.Entry {
	return map[string]func(testing.TB, []event.Entry) []event.Entry{
		"with their hashes":    func(_ testing.TB, log []event.Entry) []event.Entry { return log },
		"without their hashes": func(_ testing.TB, log []event.Entry) []event.Entry { return withHashesOf(log, places) },
		newTree:                rebuildTree,
	}
}

// trustedHead returns a request to verify a ledger against a checkpoint of its log as it is now.
func trustedHead(t testing.TB, s kv.Store) api.VerifyRequest {
	t.Helper()
	l := openMemory(t, s, Options{})
	signer, verifier, _ := logKey(t, l.About().Origin, 1)
	l.documents.Signer = signer
	return api.VerifyRequest{Checkpoints: [][]byte{checkpointOf(t, l)}, Verifiers: note.VerifierList(verifier)}
}

// withHashesOf gives each event the hashes of the original event at its index, or zero hashes after
// the last one.
func withHashesOf(log, places []event.Entry) []event.Entry {
	for i := range log {
		if i < len(places) {
			log[i].Hashes = places[i].Hashes
		} else {
			log[i].Hashes = make([]tlog.Hash, merkle.Completes(uint64(i)))
		}
	}
	return log
}
