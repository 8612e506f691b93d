package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
)

func forget(t testing.TB, l *Ledger, object string) {
	t.Helper()
	// The key stays in the log, so it must not contain the object's name.
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: fmt.Sprintf("forget %x", wire.HashText(object)), Object: object}))
}

// eventfulFile creates a ledger file with events of every kind about an object.
func eventfulFile(t *testing.T, object string) (path string, options Options) {
	t.Helper()
	path = create(t)
	options = Options{TruthKey: truthKey()}
	l := open(t, path, options)
	define(t, l, vote())
	raise(t, l, func() api.RaiseRequest { // refused before it is enrolled
		r := raiseOf(t, "too early", "1", object, "ann")
		enroll(t, l, "vote", "8", "ann")
		r.Partial = true
		return r
	}())
	enrollUnder(t, l, "vote", market(t, "4"), "8", "bob", object)
	release(t, l, releaseOf(t, "raise", object, "1"))
	release(t, l, releaseOf(t, "degrade", object, "0.5"))
	sell(t, l, purchase(t, "sale", "acme", "2", object, "bob"))
	sell(t, l, purchase(t, "resale", "beta", "2", object))
	query := answerRequest(t, "query", "majority:yes", "0.25", ballots("bob", object), "bob", object)
	query.AcceptLoss = true
	answerTo(t, l, query)
	reserve(t, l, api.ReserveRequest{Key: "hold", Order: purchase(t, "", "acme", "3", object, "bob").Order, For: time.Hour})
	must(t, check.Err(l.Raise(t.Context(), partial(raiseOf(t, "too much", "9", object, "bob")))))
	dearer := market(t, "3.5", func(m *policy.Market) { m.Floor = 333 })
	must(t, check.Err(l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: "not agreed", Question: "vote", Objects: []string{object, "bob"}, Cap: eps(t, "9"), Partial: true})))
	must(t, check.Err(l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: "agreed", Question: "vote", Objects: []string{object}, Policy: &dearer, Cap: eps(t, "9"), Consent: "a letter by " + object})))
	closed(t, l)
	return path, options
}

// secretsOf returns the salts and private bytes of all events about an object.
func secretsOf(t *testing.T, l *Ledger, name string) (secrets [][]byte) {
	t.Helper()
	for _, ev := range logOf(t, pairs(t, l.engine.Store)) {
		if c, ok := ev.Change.(event.Personal); ok && c.About() == name {
			secrets = append(secrets, bytes.Clone(ev.Salt[:]), hiddenBytes(ev))
		}
	}
	return secrets
}

// secretsOfSeveral returns the salts and private bytes of all events about several objects.
func secretsOfSeveral(t *testing.T, l *Ledger) (secrets [][]byte) {
	t.Helper()
	for _, ev := range logOf(t, pairs(t, l.engine.Store)) {
		end, isEnd := ev.Change.(*event.Settled)
		if isEnd && end.Named || ev.Change.Kind() == event.KindAnswered {
			secrets = append(secrets, bytes.Clone(ev.Salt[:]), hiddenBytes(ev))
		}
	}
	return secrets
}

// After Forget and Compact the file has none of the private bytes of the events. It has the
// object's name only where its spent budget is recorded.
func TestForget_ThenCompact_DestroysEveryByte(t *testing.T) {
	const name = "the one to be forgotten"
	path, options := eventfulFile(t, name)
	l := open(t, path, options)
	secrets := append(secretsOf(t, l, name), secretsOfSeveral(t, l)...) // all of which name it
	check.Need(t, len(secrets) >= 2*10, "only %d secrets", len(secrets))
	before := check.Value(os.ReadFile(path))(t)
	for _, secret := range secrets {
		check.Need(t, bytes.Contains(before, secret), "%x is not in the file to begin with", secret)
	}
	forget(t, l, name)
	auditStore(t, l.engine.Store)
	must(t, l.Compact(t.Context(), nil))
	after := check.Value(os.ReadFile(path))(t)
	for _, secret := range secrets {
		check.That(t, !bytes.Contains(after, secret), "%x is still in the file", secret)
	}
	// The object, its enrollment in the question, its chain, and the event that forgot it. bbolt
	// may repeat a key in a branch page, but a file of this size has none.
	check.Equal(t, bytes.Count(after, []byte(name)), 4, "how often the file has the name")
	for _, ev := range events(t, l) {
		check.That(t, ev.Object() != name || ev.Kind() == "forgotten", "the log still says %+v", ev)
	}
	check.That(t, strings.Count(fmt.Sprint(pairs(t, l.engine.Store)), fmt.Sprintf("%x", name)) == 4,
		"a record names the object")
	found := check.Value(l.Verify(t.Context(), api.VerifyRequest{}))(t)
	check.That(t, found.Problems == 0, "the audit finds %+v", found)
}

// Forget leaves the old bytes in unused pages of the file. Copies that are made afterwards do not
// have them.
func TestCopy_AfterForget_HasNoSecrets(t *testing.T) {
	const name = "the one to be forgotten"
	path, options := eventfulFile(t, name)
	l := open(t, path, options)
	secrets := append(secretsOf(t, l, name), secretsOfSeveral(t, l)...) // all of which name it
	forget(t, l, name)
	for what, copyTo := range copiers(l) {
		t.Run(what, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "copy.db")
			made := check.Value(copyTo(t.Context(), copied, nil))(t)
			wantNoSecrets(t, path, copied, secrets)
			if data := mustRead(t, copied); made.Bytes != int64(len(data)) || made.Events != stats(t, l).Events {
				t.Errorf("%+v of %d bytes", made, len(data))
			}
			wantClean(t, open(t, copied, Options{ReadOnly: true, Now: options.Now}), api.VerifyRequest{})
		})
	}
}

// If a process dies inside Forget, only the journal says that the object is forgotten, and the file
// still has its records. A copy made by a read-only ledger does not have them.
func TestCopy_ReadOnlyAfterInterruptedForget_HasNoSecrets(t *testing.T) {
	l, f, path, names := heldVoters(t, 9)
	must(t, l.engine.Checkpoint())
	secrets := secretsOf(t, l, names[0])
	held, forgot := newGate(t), make(chan error, 1)
	f.hold.Store(held)
	go func() { forgot <- l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: names[0]}) }()
	held.wait(t)
	crashed := crashCopy(t, path)
	held.open()
	must(t, <-forgot)
	reader := open(t, crashed, Options{ReadOnly: true})
	for what, copyTo := range copiers(reader) {
		t.Run(what, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "copy.db")
			must(t, check.Err(copyTo(t.Context(), copied, nil)))
			wantNoSecrets(t, crashed, copied, secrets)
		})
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	return check.Value(os.ReadFile(path))(t)
}

func copiers(l *Ledger) map[string]func(context.Context, string, func(done, total int)) (api.Copied, error) {
	return map[string]func(context.Context, string, func(done, total int)) (api.Copied, error){"Backup": l.Backup, "CompactTo": l.CompactTo}
}

// wantNoSecrets checks that a file still has some of the secrets, and its copy none.
func wantNoSecrets(t *testing.T, path, copied string, secrets [][]byte) {
	t.Helper()
	original, data, old := mustRead(t, path), mustRead(t, copied), 0
	for _, secret := range secrets {
		if bytes.Contains(original, secret) {
			old++
		}
		check.That(t, !bytes.Contains(data, secret), "%x is in the copy", secret)
	}
	check.That(t, old != 0, "the file itself has none of the bytes: the test shows nothing")
}

// A request whose response was erased returns ErrForgotten when it is repeated, and draws nothing.
func TestForget_RequestRepeated_IsNotDrawnAgain(t *testing.T) {
	l := voters(t, newLedger(t), "9", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "1"))
	whole := raiseOf(t, "both", "2", "ann", "bob")
	first := raise(t, l, whole)
	forget(t, l, "ann")
	again := releaseBy(releaseOf(t, "1", "ann", "1"), mustNotAsk(t))
	wantErr(t, check.Err(l.Release(t.Context(), again)), api.ErrForgotten)
	// The same holds when the object is enrolled again, with another response at that ε.
	enroll(t, l, "vote", "9", "ann")
	release(t, l, releaseOf(t, "2", "ann", "1"))
	wantErr(t, check.Err(l.Release(t.Context(), again)), api.ErrForgotten)
	whole.Truth = mustNotAsk(t)
	if same := raise(t, l, whole); same.Drawn != first.Drawn || same.First != first.First || same.Last != first.Last {
		t.Errorf("%+v became %+v", first, same)
	}
}

func TestForget_KeyReused_IsIdempotentOrConflict(t *testing.T) {
	l := voters(t, newLedger(t), "9", "ann", "bob")
	wantErr(t, l.Forget(t.Context(), api.ObjectRequest{Key: "k", Object: "zoe"}), api.ErrUnknown)
	wantErr(t, l.Forget(t.Context(), api.ObjectRequest{Key: "k", Object: ""}), api.ErrInvalid)
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "k", Object: "ann"}))
	n := stats(t, l).Events
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "k", Object: "ann"}))
	wantErr(t, l.Forget(t.Context(), api.ObjectRequest{Key: "k", Object: "bob"}), &api.KeyConflictError{})
	check.That(t, stats(t, l).Events == n, "the same key forgot twice")
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "k2", Object: "ann"})) // nothing is left to forget
	check.That(t, stats(t, l).Events == n+1 && countKind(events(t, l), "forgotten") == 1,
		"nothing was forgotten once more")
}

func TestForget_ObjectOnlyRefused_ErasesItsName(t *testing.T) {
	l := voters(t, newLedger(t), "9", "ann")
	r := partial(raiseOf(t, "1", "1", "ann", "not enrolled"))
	raise(t, l, r)
	forget(t, l, "not enrolled")
	for _, p := range pairs(t, l.engine.Store) {
		check.That(t, (!bytes.Contains(p.value, []byte("not enrolled")) || p.bucket == state.BucketEvents) && !bytes.Contains(p.key, []byte("not enrolled")),
			"still there: %s", p)
	}
	same := raise(t, l, r)
	check.That(t, len(same.Refused) == 0 && same.Unlisted == 1 && same.Drawn == 1, "%+v", same)
	left := leftOut(t, l, "1", 0)
	check.That(t, len(left) == 0, "the log still refuses %+v", left)
	auditStore(t, l.engine.Store)
	wantErr(t, l.Forget(t.Context(), api.ObjectRequest{Key: "again", Object: "not enrolled"}), api.ErrUnknown)
}

// The capture of a reservation leaves out an object that was forgotten, as it does one that has
// withdrawn.
func TestCapture_ReservedObjectForgotten_IsLeftOut(t *testing.T) {
	l := sellers(t, newLedger(t), "2", "3", "ann", "bob")
	r := reserve(t, l, api.ReserveRequest{Key: "r", Order: purchase(t, "", "acme", "1", "ann", "bob").Order, For: time.Hour})
	forget(t, l, "ann")
	_, err := l.Capture(t.Context(), api.CaptureRequest{Key: "whole", Reservation: r.Number, Truth: sameTruth("yes")})
	got := refusals(t, err)
	check.That(t, len(got) == 1 && got[0].Reason == api.Withdrawn && got[0].Object == "", "%+v", got)
	s := check.Value(l.Capture(t.Context(), api.CaptureRequest{Key: "rest", Reservation: r.Number, Partial: true, Truth: sameTruth("yes")}))(t)
	check.That(t, s.Objects == 1 && s.Price == 100 && s.Refund == 100, "%+v", s)
	auditStore(t, l.engine.Store)
	auditMarket(t, l)
}

// A request in parts goes on after the last object of a part is forgotten, and draws nothing twice.
func TestRaise_LastObjectOfPartForgotten_GoesOn(t *testing.T) {
	path := votersFile(t, "9", crowd(2*state.PartSize+10)...)
	l, s := openShim(t, path, Options{})
	parts := 0
	s.set(func() error {
		if parts++; parts == 3 {
			return errors.New("the disk is full")
		}
		return nil
	}, nil)
	r := raiseOf(t, "large", "1")
	check.Need(t, check.Err(l.Raise(t.Context(), r)) != nil, "nothing failed")
	s.set(nil, nil)
	at := crowd(2 * state.PartSize)[2*state.PartSize-1]
	forget(t, l, at)
	done := raise(t, l, r)
	check.That(t, done.Drawn == 2*state.PartSize+10 && done.Reused == 0, "%+v", done)
	auditStore(t, l.engine.Store)
	check.Equal(t, len(responses(t, l, "vote", eps(t, "1"))), 2*state.PartSize+9, "responses")
}

// Backups.

func TestBackup_Records_EqualThoseOfLedger(t *testing.T) {
	path, options := eventfulFile(t, "ann of the backup")
	l := open(t, path, options)
	copied := path + ".backup"
	made := check.Value(l.Backup(t.Context(), copied, nil))(t)
	before := pairs(t, l.engine.Store)
	file := check.Value(bolt.Open(copied, true))(t)
	wantSameRecords(t, "the backup", pairs(t, file), before)
	must(t, file.Close())
	info := check.Value(os.Stat(copied))(t)
	if made.Bytes != info.Size() || made.Events != stats(t, l).Events || info.Mode().Perm() != 0o600 {
		t.Errorf("%+v of %d bytes, mode %v", made, info.Size(), info.Mode())
	}
	wantErr(t, check.Err(l.Backup(t.Context(), copied, nil)), os.ErrExist)
}

// A backup made during writes is that of one instant. It has every request that was acknowledged
// before it began.
func TestBackup_ConcurrentWrites_IsOneInstant(t *testing.T) {
	l := voters(t, newLedger(t), "9", crowd(64)...)
	ctx, stop := context.WithCancel(t.Context())
	begun := make(chan struct{})
	writing := async(func() (int, error) {
		n := 0
		for ; ctx.Err() == nil; n++ {
			r := releaseOf(t, fmt.Sprint("write ", n), crowd(64)[n%64], fmt.Sprintf("0.%03d", 1+n/64))
			_, err := l.Release(context.WithoutCancel(ctx), r)
			if n == 0 {
				close(begun)
			}
			if err != nil {
				return n, err
			}
		}
		return n, nil
	})
	<-begun
	dir := tests.TempDir(t)
	for i := range 4 {
		before := stats(t, l).Events
		copyTo := l.Backup
		if i%2 == 1 {
			copyTo = l.CompactTo
		}
		made := check.Value(copyTo(t.Context(), fmt.Sprintf("%s/%d.db", dir, i), nil))(t)
		check.That(t, made.Events >= before, "a backup of %d events, after %d were acknowledged", made.Events, before)
		must(t, l.Compact(t.Context(), nil))
	}
	stop()
	got := await(t, writing)
	check.That(t, got.err == nil, "%d writes, then %v", got.value, got.err)
	auditStore(t, l.engine.Store)
	left := check.Value(os.ReadDir(dir))(t)
	check.That(t, len(left) == 4, "the directory holds %v", left)
}

// The backup of a ledger that does not verify returns ErrCorrupt and leaves no file.
func TestBackup_DamagedLedger_IsCorrupt(t *testing.T) {
	path := votersFile(t, "9", "ann")
	l := open(t, path, Options{})
	o := state.Object{Cap: eps(t, "9"), Chains: 1, Spent: eps(t, "0.5"), Links: state.Links{Latest: 4, Events: 1}}
	putRecord(t, l.engine.Store, state.BucketObjects, state.ObjectKey("ann"), o.Encode())
	copied := path + ".backup"
	wantErr(t, check.Err(l.Backup(t.Context(), copied, nil)), api.ErrCorrupt)
	_, err := os.Stat(copied)
	check.That(t, errors.Is(err, os.ErrNotExist), "there is a backup: %v", err)
}

// Attacks on Forget and its audit.

// refold writes a ledger with this log, as an operator could who has the source of this package.
func refold(t testing.TB, log []event.Event) *kv.Memory {
	t.Helper()
	s := &kv.Memory{}
	must(t, replay(s, log))
	return s
}

// spentLog returns the log of a ledger in which ann has spent all of its budget, and options with a
// checkpoint of it.
func spentLog(t *testing.T) (log []event.Event, trusted Options) {
	t.Helper()
	signer, verifier, public := logKey(t, "sluice-test", 1)
	s := &kv.Memory{}
	beginWithKey(t, s, public)
	l := openMemory(t, s, Options{Signer: signer})
	voters(t, l, "1", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "1"))
	trusted = Options{Checkpoint: checkpointOf(t, l), Verifiers: note.VerifierList(verifier)}
	return logOf(t, pairs(t, s)), trusted
}

// eraseReleases erases the releases in a log, and the events that settle them.
func eraseReleases(log []event.Event) (erased uint64) {
	for i, ev := range log {
		c, alone := ev.Change.(*event.Settled)
		if ev.Change.Kind() == event.KindReleased || alone && c.Alone && c.Object == "ann" {
			log[i] = event.Entry{Event: ev}.Erase().Event
			erased++
		}
	}
	return erased
}

// auditAndOpen returns the problems that an audit against a checkpoint finds, and the error of
// opening the ledger with it.
func auditAndOpen(t *testing.T, s kv.Store, trusted Options) (problems []api.Finding, first error) {
	t.Helper()
	read := trusted
	read.ReadOnly = true
	l := openMemory(t, s, read)
	must(t, check.Err(l.Verify(t.Context(), api.VerifyRequest{
		Checkpoints: [][]byte{trusted.Checkpoint}, Verifiers: trusted.Verifiers, Report: func(p api.Finding) { problems = append(problems, p) },
	})))
	_, first = openStore(t.Context(), s, trusted)
	return problems, first
}

func TestVerify_EventsErasedWithoutForget_IsFound(t *testing.T) {
	log, trusted := spentLog(t)
	eraseReleases(log)
	problems, err := auditAndOpen(t, refold(t, log), trusted)
	check.That(t, len(problems) != 0, "ann's budget is restored, and the audit does not find it")
	wantErr(t, err, api.ErrCorrupt)
}

// A forgotten event of an object that was only mentioned does not account for erased responses.
func TestApply_StrangerForgottenForErasedResponses_IsCorrupt(t *testing.T) {
	log, _ := spentLog(t)
	erased := eraseReleases(log)
	last := log[len(log)-1]
	log = append(log, event.Event{Number: last.Number + 1, Time: last.Time, Change: &event.Forgotten{Object: "stranger", Events: erased}, Salt: event.Salt{1}})
	err := replay(&kv.Memory{}, log)
	check.That(t, errors.Is(err, api.ErrCorrupt), "got the error %v, want ErrCorrupt", err)
}

// The audit finds a log that ends inside a request, wherever it is cut.
func TestVerify_LogCutInsideRequest_IsFound(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{}), "5", "5", "ann", "bob")
	sell(t, l, partialSale(purchase(t, "s", "acme", "1", "ann", "bob", "zoe")))
	log := logOf(t, pairs(t, s))
	for n := 2; n < len(log); n++ {
		switch log[n-1].Change.(type) {
		case *event.Settled, *event.Created, *event.TruthKeySet:
			continue // shorter, but with whole requests: only a checkpoint shows it
		}
		cut := openMemory(t, refold(t, log[:n]), Options{ReadOnly: true})
		found := check.Value(cut.Verify(t.Context(), api.VerifyRequest{}))(t)
		if found.Problems == 0 {
			t.Errorf("cut after event %d (%s): no problem", n, log[n-1].Change.Kind())
		}
	}
}

// A digest confirms a guess of its request, so it is erased with the object.
func TestForget_DigestOfRequest_IsErased(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "5", "5", "ann", "bob")
	release(t, l, releaseOf(t, "released", "ann", "0.7"))
	sell(t, l, purchase(t, "sold", "acme", "1.3", "ann"))
	raised := event.RaiseRequest("vote", eps(t, "0.7"), false, []string{"ann"}, false)
	order := event.NewForm("sell")
	order.Field("Buyer").Text("acme")
	order.Field("Question").Text("vote")
	order.Field("Epsilon").Epsilon(eps(t, "1.3"))
	order.Objects([]string{"ann"}, false)
	order.Field("QuoteID").Flag(false)
	order.Field("MaxPrice").Flag(false)
	order.Field("Partial").Flag(false)
	digests := [][32]byte{raised.Digest, order.Finish().Digest}
	where := func(digest [32]byte) (n int) {
		for _, p := range pairs(t, l.engine.Store) {
			n += bytes.Count(p.value, digest[:])
		}
		return n
	}
	for i, digest := range digests {
		if where(digest) != 1 {
			t.Errorf("digest %d is in the ledger %d times to begin with, want once, in its event", i, where(digest))
		}
	}
	forget(t, l, "ann")
	for i, digest := range digests {
		check.That(t, where(digest) == 0, "digest %d is still there", i)
	}
	wantErr(t, check.Err(l.Sell(t.Context(), purchase(t, "sold", "acme", "1.3", "ann"))), api.ErrForgotten)
	auditStore(t, l.engine.Store)
}

// stopAfterFirstPart runs a request until its first part is done.
func stopAfterFirstPart(t *testing.T, run func(context.Context, func(done, total int)) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	err := run(ctx, func(int, int) { cancel() })
	check.Need(t, errors.Is(err, context.Canceled), "the request was not cut short: %v", err)
}

// A repeated request in parts continues after the last object that it has processed, even if that
// was forgotten. Objects that have left since are not enrolled again.
func TestEnroll_RepeatedAfterForget_BringsNoObjectBack(t *testing.T) {
	l := newLedger(t)
	define(t, l, vote())
	names := crowd(state.PartSize + 10)
	r := api.EnrollRequest{Key: "e", Question: "vote", Objects: names, Cap: eps(t, "5")}
	stopAfterFirstPart(t, func(ctx context.Context, p func(done, total int)) error {
		r := r
		r.Progress = p
		return check.Err(l.Enroll(ctx, r))
	})
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: names[0]}))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: names[1]}))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "g", Object: names[state.PartSize-1]}))
	got := check.Value(l.Enroll(t.Context(), r))(t)
	check.That(t, got.Enrolled == len(names) && got.Already == 0, "%+v of %d", got, len(names))
	for _, i := range []int{0, 1, state.PartSize - 1} {
		check.That(t, objectOf(t, l, names[i]).Chains[0].Withdrawn,
			"%s had left, and is enrolled again without its own request", names[i])
	}
	auditStore(t, l.engine.Store)
}

func TestRaise_RepeatedAfterForget_ChargesNoObjectTwice(t *testing.T) {
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprint("all ", all), func(t *testing.T) {
			names := crowd(state.PartSize + 10)
			l := voters(t, newLedger(t), "5", names...)
			r := raiseOf(t, "r", "1", names...)
			if all {
				r = raiseOf(t, "r", "1")
			}
			stopAfterFirstPart(t, func(ctx context.Context, p func(done, total int)) error {
				r := r
				r.Progress = p
				return check.Err(l.Raise(ctx, r))
			})
			gone := names[state.PartSize-2 : state.PartSize]
			for i, name := range gone {
				must(t, l.Forget(t.Context(), api.ObjectRequest{Key: fmt.Sprint("f", i), Object: name}))
			}
			must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: gone})))
			got := raise(t, l, r)
			check.That(t, got.Drawn == len(names) && got.Reused == 0, "%+v of %d", got, len(names))
			wantSpent(t, l, "1", gone...) // charged by one raise
			auditStore(t, l.engine.Store)
		})
	}
}

// An absurd number of objects in a record is corrupt, and does not determine how much memory is
// allocated.
func TestSaleRecord_AbsurdObjectCount_IsCorrupt(t *testing.T) {
	for name, call := range map[string]func(*Ledger) error{
		"sale":    func(l *Ledger) error { return check.Err(l.Sale(t.Context(), 1)) },
		"receipt": func(l *Ledger) error { return check.Err(l.Receipt(t.Context(), 1)) },
		"commit": func(l *Ledger) error {
			return check.Err(l.Capture(t.Context(), api.CaptureRequest{Key: "c", Reservation: 2, Truth: sameTruth("yes")}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, options := fileWithLogKey(t, "bob")
			l := open(t, path, options)
			enrollUnder(t, l, "vote", market(t, "5"), "5", "ann")
			sell(t, l, purchase(t, "k", "acme", "1", "ann"))
			reserve(t, l, api.ReserveRequest{Key: "r", Order: purchase(t, "", "acme", "2", "ann").Order, For: time.Hour})
			for n := uint64(1); n <= 2; n++ {
				var r state.Sale
				must(t, l.engine.View(t.Context(), func(s *state.State) (err error) { r, err = s.Sale(n); return err }))
				r.Objects = 1 << 60
				putRecord(t, l.engine.Store, state.BucketSales, state.EventKey(n), r.Encode())
			}
			wantErr(t, call(l), api.ErrCorrupt)
		})
	}
}

// The responses of a forgotten object are in no list, because the difference to an earlier list
// would reveal them.
func TestResponses_ForgottenObjects_AreLeftOut(t *testing.T) {
	l := voters(t, newLedger(t), "9", crowd(5)...)
	raise(t, l, raiseOf(t, "1", "1"))
	forget(t, l, crowd(5)[3])
	got := responses(t, l, "vote", eps(t, "1"))
	_, there := got[crowd(5)[3]]
	check.That(t, len(got) == 4 && !there, "%v", got)
}
