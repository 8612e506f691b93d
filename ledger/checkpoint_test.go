package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// logKey returns a key pair that depends on its arguments only.
func logKey(t testing.TB, name string, seed byte) (note.Signer, note.Verifier, string) {
	t.Helper()
	secret, public, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 64)), name)
	must(t, err)
	signer := check.Value(note.NewSigner(secret))(t)
	verifier := check.Value(note.NewVerifier(public))(t)
	return signer, verifier, public
}

// fileWithLogKey creates a ledger file whose log has a key, with voters in it, and returns the
// options to open it.
func fileWithLogKey(t testing.TB, objects ...string) (path string, options Options) {
	t.Helper()
	signer, verifier, public := logKey(t, "sluice-test", 1)
	path = filepath.Join(tests.TempDir(t), "ledger.db")
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD", LogKey: public}))
	options = Options{Signer: signer, Verifiers: note.VerifierList(verifier)}
	l := open(t, path, options)
	closed(t, voters(t, l, "5", objects...))
	return path, options
}

func checkpointOf(t testing.TB, l *Ledger) []byte {
	t.Helper()
	return check.Value(l.Checkpoint(t.Context()))(t)
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data := check.Value(os.ReadFile(from))(t)
	must(t, os.WriteFile(to, data, 0o600))
}

func TestCheckpoint_SignedNote_HasSizeAndRootOfLog(t *testing.T) {
	path, options := fileWithLogKey(t, "ann")
	l := open(t, path, options)
	signed := checkpointOf(t, l)
	head := check.Value(evidence.OpenCheckpoint(signed, options.Verifiers))(t)
	now := check.Value(l.Head(t.Context(), 0))(t)
	check.That(t, head == now && head.Origin == "sluice-test" && head.Origin == l.About().Origin &&
		head.Events == stats(t, l).Events, "the checkpoint says %+v, the ledger is at %+v", head, now)
	want := fmt.Sprintf("sluice-test\n%d\n%s\n\n— sluice-test ", head.Events, head.Root)
	check.That(t, strings.HasPrefix(string(signed), want), "the checkpoint is %q, want it to begin %q", signed, want)
	// The root is that of the tree computed from the leaves alone.
	var leaves []tlog.Hash
	must(t, l.engine.View(t.Context(), func(s *state.State) error {
		for number := uint64(1); number <= s.Counters.Events; number++ {
			ev, err := s.Event(number)
			if err != nil {
				return err
			}
			leaves = append(leaves, ev.Leaf())
		}
		return nil
	}))
	check.Equal(t, rootOf(leaves), head.Root, "the root of the leaves")
}

// rootOf returns the root of leaves, by the definition of RFC 6962, section 2.1.
func rootOf(leaves []tlog.Hash) tlog.Hash {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	return tlog.NodeHash(rootOf(leaves[:k]), rootOf(leaves[k:]))
}

func TestCheckpoint_NoOrAnotherSigner_IsRefused(t *testing.T) {
	path, options := fileWithLogKey(t, "ann")
	l := open(t, path, Options{})
	wantErr(t, check.Err(l.Checkpoint(t.Context())), api.ErrNoSigner)
	closed(t, l)
	options.Signer, _, _ = logKey(t, "sluice-another", 1)
	wantErr(t, check.Err(Open(t.Context(), path, options)), api.ErrInvalid)
	wantErr(t, Create(t.Context(), filepath.Join(tests.TempDir(t), "x.db"), CreateOptions{Currency: "USD", LogKey: "no key"}), api.ErrInvalid)
}

// Without a log key the log is named after the ledger's id.
func TestOrigin_WithoutLogKey_IsLedgerID(t *testing.T) {
	about := newLedger(t).About()
	check.That(t, about.Origin == "sluice-"+about.ID, "the origin is %q", about.Origin)
}

// A file that does not continue the log of the checkpoint is refused as a rollback, in each way it
// can differ.
func TestOpen_NotContinuationOfCheckpoint_IsRollback(t *testing.T) {
	path, options := fileWithLogKey(t, "ann", "bob")
	old := filepath.Join(tests.TempDir(t), "old.db")
	copyFile(t, path, old)

	l := open(t, path, options)
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	newest := checkpointOf(t, l)
	closed(t, l)
	forked := filepath.Join(tests.TempDir(t), "forked.db")
	copyFile(t, old, forked)
	f := open(t, forked, options)
	release(t, f, releaseOf(t, "1", "ann", "0.5"))
	release(t, f, releaseOf(t, "2", "bob", "0.5"))
	closed(t, f)
	same := filepath.Join(tests.TempDir(t), "same.db")
	copyFile(t, old, same)
	f = open(t, same, options)
	release(t, f, releaseOf(t, "1", "ann", "0.5"))
	closed(t, f)
	stranger, strange := fileWithLogKey(t, "ann")
	other := open(t, stranger, strange)
	foreign := checkpointOf(t, other)
	closed(t, other)

	options.Checkpoint = newest
	closed(t, open(t, path, options)) // the ledger itself
	for name, file := range map[string]string{"an older copy": old, "a fork that has grown longer": forked, "a fork as long": same, "another ledger": stranger} {
		_, err := Open(t.Context(), file, options)
		var rolledBack *api.RollbackError
		if !errors.As(err, &rolledBack) {
			t.Errorf("%s: got the error %v, want a RollbackError", name, err)
			continue
		}
		check.That(t, rolledBack.Checkpoint.Events != 0 && strings.Contains(err.Error(), "rolled back"),
			"%s: %v", name, err)
	}
	options.Checkpoint = foreign
	_, err := Open(t.Context(), path, options)
	check.That(t, errors.As(err, new(*api.RollbackError)), "a checkpoint of another ledger: got the error %v", err)
}

func TestOpen_CheckpointNotVerified_IsErrCheckpoint(t *testing.T) {
	path, options := fileWithLogKey(t, "ann")
	l := open(t, path, options)
	signed := checkpointOf(t, l)
	closed(t, l)
	_, impostor, _ := logKey(t, "sluice-test", 2)
	for name, o := range map[string]Options{
		"no keys":      {Checkpoint: signed},
		"another key":  {Checkpoint: signed, Verifiers: note.VerifierList(impostor)},
		"no note":      {Checkpoint: []byte("sluice-test\n1\n"), Verifiers: options.Verifiers},
		"empty":        {Checkpoint: []byte{}, Verifiers: options.Verifiers},
		"altered size": {Checkpoint: bytes.Replace(signed, []byte("\n5\n"), []byte("\n4\n"), 1), Verifiers: options.Verifiers},
	} {
		check.Need(t, name != "altered size" || !bytes.Equal(o.Checkpoint, signed), "the checkpoint is %q", signed)
		_, err := Open(t.Context(), path, o)
		check.That(t, errors.Is(err, api.ErrCheckpoint), "%s: got the error %v, want ErrCheckpoint", name, err)
	}
}

// Invariant 10: the log only grows. Between any two sizes there is a consistency proof that
// verifies.
func TestConsistency_AnyTwoSizes_IsProven(t *testing.T) {
	l := voters(t, newLedger(t), "5", crowd(9)...)
	last := stats(t, l).Events
	var heads []api.Head
	for size := uint64(1); size <= last; size++ {
		head := check.Value(l.Head(t.Context(), size))(t)
		heads = append(heads, head)
	}
	for from := uint64(1); from <= last; from++ {
		for to := from; to <= last; to++ {
			proof := check.Value(l.Consistency(t.Context(), from, to))(t)
			must(t, tlog.CheckTree(proof, int64(to), heads[to-1].Root, int64(from), heads[from-1].Root))
			check.That(t, to <= from || tlog.CheckTree(proof, int64(to), heads[to-1].Root, int64(from), heads[to-1].Root) != nil,
				"logs of %d and %d events have the same root", from, to)
		}
	}
	for _, bad := range [][2]uint64{{0, 1}, {2, 1}, {1, last + 1}, {1, 1 << 63}} {
		wantErr(t, check.Err(l.Consistency(t.Context(), bad[0], bad[1])), api.ErrInvalid)
	}
	wantErr(t, check.Err(l.Head(t.Context(), last+1)), api.ErrInvalid)
}

// Leaves are salted: the same events have another root in another ledger.
func TestLeaf_SameEvent_DependsOnSalt(t *testing.T) {
	log := soundLog(t)
	first, second := log[4], log[4]
	second.Salt[0] ^= 1
	check.That(t, first.Leaf() != second.Leaf(), "the leaf does not depend on the salt")
	l := newLedger(t)
	voters(t, l, "1", "ann", "bob")
	seen := map[event.Salt]bool{}
	for _, ev := range logOf(t, pairs(t, l.engine.Store)) {
		check.That(t, !seen[ev.Salt] && ev.Salt != (event.Salt{}),
			"event %d has the salt %x of another", ev.Number, ev.Salt)
		seen[ev.Salt] = true
	}
}

// openPublishing opens a ledger in memory that publishes checkpoints.
func openPublishing(t *testing.T, p Publishing) *Ledger {
	t.Helper()
	signer, _, public := logKey(t, "sluice-test", 1)
	s := &kv.Memory{}
	beginWithKey(t, s, public)
	return openMemory(t, s, Options{Signer: signer, Publish: p})
}

// fakeWitness is a witness that keeps the sizes of published checkpoints.
type fakeWitness struct {
	mu      sync.Mutex
	failing bool
	all     []uint64
}

func (w *fakeWitness) take(_ context.Context, signed []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing {
		return errors.New("the witness is away")
	}
	var size uint64
	_, err := fmt.Sscanf(strings.Split(string(signed), "\n")[1], "%d", &size)
	w.all = append(w.all, size)
	return err
}

func (w *fakeWitness) fail(failing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = failing
}

func (w *fakeWitness) got() []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

func TestPublishing_EventsReached_PublishesCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var witness fakeWitness
		l := openPublishing(t, Publishing{To: witness.take, Events: 4})
		synctest.Wait() // size 1, when the ledger opens
		voters(t, l, "5", "ann", "bob")
		synctest.Wait()
		release(t, l, releaseOf(t, "1", "ann", "1"))
		synctest.Wait()
		closed(t, l)
		got := witness.got()
		check.That(t, len(got) == 3 && got[0] == 1 && got[2] == 8, "checkpoints were published at %d; want three, the first at 1, the last at 8", got)
	})
}

func TestPublishing_IntervalElapsed_PublishesIfGrown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var witness fakeWitness
		l := openPublishing(t, Publishing{To: witness.take, Interval: time.Hour})
		voters(t, l, "5", "ann")
		synctest.Wait()
		began := len(witness.got())
		time.Sleep(5 * time.Hour) // nothing new after the first
		if got := witness.got(); len(got) > began+1 {
			t.Errorf("checkpoints were published at %d although nothing was new", got)
		}
		release(t, l, releaseOf(t, "1", "ann", "1"))
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		got := witness.got()
		check.That(t, got[len(got)-1] == 7, "checkpoints were published at %d, want the last one at 7", got)
		closed(t, l)
		if len(witness.got()) != len(got) {
			t.Errorf("Close published a checkpoint again: %d", witness.got())
		}
	})
}

// A witness that fails delays no request, and gets the newest checkpoint when it works again.
func TestPublishing_WitnessFails_RetriesWithNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var witness fakeWitness
		witness.fail(true)
		l := openPublishing(t, Publishing{Events: 1, To: witness.take})
		voters(t, l, "5", "ann")
		time.Sleep(10 * time.Minute)
		witness.fail(false)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		got := witness.got()
		check.That(t, len(got) == 1 && got[0] == stats(t, l).Events, "checkpoints were published at %d, want only the newest", got)
		closed(t, l)
	})
}

// A witness that hangs does not keep the ledger from closing.
func TestClose_WitnessHangs_Returns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openPublishing(t, Publishing{Events: 1, To: func(ctx context.Context, _ []byte) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		synctest.Wait()
		closed(t, l)
	})
}

func TestPublishing_WithoutSigner_IsErrNoSigner(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	wantErr(t, check.Err(openStore(t.Context(), s, Options{Publish: Publishing{To: func(context.Context, []byte) error { return nil }}})), api.ErrNoSigner)
}
