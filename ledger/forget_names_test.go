package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// These tests are about what remains of a forgotten object in requests that named it together with
// others.

// jointRequest is a request about several objects.
type jointRequest struct {
	key, epsilon string
	send         func(l *Ledger, key, epsilon string, names []string) (any, error)
}

// jointRequests returns requests of every kind that names several objects, in an order in which
// they can be made.
func jointRequests(t *testing.T) []jointRequest {
	t.Helper()
	dearer := market(t, "4", func(m *policy.Market) { m.Floor = 333 })
	enrol := func(l *Ledger, key, limit string, names []string) (any, error) {
		return l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: "vote", Objects: names, Policy: market(t, "4"), Cap: eps(t, limit)})
	}
	raise := func(partial bool) func(*Ledger, string, string, []string) (any, error) {
		return func(l *Ledger, key, epsilon string, names []string) (any, error) {
			r := raiseOf(t, key, epsilon, names...)
			r.Partial = partial
			return l.Raise(t.Context(), r)
		}
	}
	answer := func(partial bool, more ...string) func(*Ledger, string, string, []string) (any, error) {
		return func(l *Ledger, key, epsilon string, names []string) (any, error) {
			r := answerRequest(t, key, "majority:yes", epsilon, sameTruth("yes"), append(more, names...)...)
			r.Partial, r.AcceptLoss = partial, true
			return l.Answer(t.Context(), r)
		}
	}
	terms := func(l *Ledger, key, limit string, names []string) (any, error) {
		return l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: key, Question: "vote", Objects: names, Policy: &dearer, Cap: eps(t, limit), Consent: "yes"})
	}
	quoted := ""
	return []jointRequest{
		{"enrolled", "8", enrol},
		{"enrolled before", "8", enrol},
		{"enrolled under terms", "8", func(l *Ledger, key, limit string, names []string) (any, error) {
			each := func(string) (policy.Policy, privacy.Epsilon) { return market(t, "4"), eps(t, limit) }
			return l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: "vote", Objects: names, Terms: each, Partial: true})
		}},
		{"raised", "0.5", raise(false)},
		{"raised before", "0.5", raise(false)},
		{"raised too high", "7", raise(true)},
		{"sold", "1", func(l *Ledger, key, epsilon string, names []string) (any, error) {
			return l.Sell(t.Context(), purchase(t, key, "acme", epsilon, names...))
		}},
		{"sold as quoted", "1", func(l *Ledger, key, epsilon string, names []string) (any, error) {
			r := purchase(t, key, "zeta", epsilon, names...)
			if quoted == "" {
				q := check.Value(l.Quote(t.Context(), r.Order))(t)
				quoted = q.ID
			}
			r.QuoteID = quoted
			return l.Sell(t.Context(), r)
		}},
		{"reserved", "2", func(l *Ledger, key, epsilon string, names []string) (any, error) {
			return l.Reserve(t.Context(), api.ReserveRequest{Key: key, Order: purchase(t, "", "acme", epsilon, names...).Order, For: time.Hour})
		}},
		{"answered", "0.25", answer(false)},
		{"answer raised", "0.5", answer(false)},
		{"answer derived", "0.375", answer(false)},
		{"answered before", "0.375", answer(true)},
		{"answered without dan", "0.25", answer(true, "dan")},
		{"terms changed", "8", terms},
		{"terms changed before", "8", terms},
	}
}

// jointLedger returns a ledger on which all joint requests about ann, an object and cid were made,
// with repeatable random bits.
func jointLedger(t *testing.T, s *kv.Memory, object string, requests []jointRequest) *Ledger {
	t.Helper()
	begin(t, s)
	l := openMemory(t, s, Options{Now: epoch, TruthKey: truthKey()})
	l.engine.Chances.Values, l.requests.Sampler = steadySampler(), queriesOf(1)
	define(t, l, vote())
	for _, r := range requests {
		must(t, check.Err(r.send(l, r.key, r.epsilon, []string{"ann", object, "cid"})))
	}
	return l
}

// Two ledgers that differ only in the name of one object have the same records once it is
// forgotten, except for the name itself and hashes whose salts are destroyed. So no guess of a name
// can be confirmed.
func TestForget_NamedWithOthers_NoRecordDependsOnName(t *testing.T) {
	var left [2][]string
	var whole [2]string
	for i, name := range []string{"bob", "bud"} {
		s := &kv.Memory{}
		l := jointLedger(t, s, name, jointRequests(t))
		whole[i] = strings.Join(withoutSalts(t, s, name), "\n")
		forget(t, l, name)
		left[i] = withoutSalts(t, s, name)
		auditStore(t, s)
	}
	check.That(t, whole[0] != whole[1], "nothing depended on the name to begin with")
	for i := range max(len(left[0]), len(left[1])) {
		if i >= len(left[0]) || i >= len(left[1]) || left[0][i] != left[1][i] {
			t.Fatalf("the ledgers differ in\n%s\n%s", left[0][i:][:1], left[1][i:][:1])
		}
	}
}

// withoutSalts returns the records of a ledger without an object's name, salts, and hashes made
// with salts.
func withoutSalts(t *testing.T, s *kv.Memory, name string) (all []string) {
	t.Helper()
	secret := map[string]string{name: "<name>", fmt.Sprintf("%x", wire.HashText(name)): "<key of the test>"}
	for _, p := range pairs(t, s) {
		payload := check.Value(unsealed(p))(t)
		switch {
		case p.bucket == state.BucketEvents:
			number := uint64(0)
			for _, b := range p.key {
				number = number<<8 | uint64(b)
			}
			n := check.Value(event.DecodeEntry(number, payload))(t)
			if end, is := n.Change.(*event.Settled); is && strings.HasPrefix(end.Key, "forget ") {
				end.Digest, end.Marks = [32]byte{}, event.Marks{} // of the request to forget, which names the object for good
			}
			if n.Hashes, n.Salt = nil, (event.Salt{}); n.Erased != nil {
				n.Erased = &event.Commitment{}
			}
			payload = n.Encode()
		case p.bucket == state.BucketMeta && string(p.key) == state.KeyCounters:
			c := check.Value(state.DecodeCounters(payload))(t)
			c.Root = [32]byte{}
			payload = c.Encode()
		case p.bucket == state.BucketMeta && string(p.key) == state.KeyAbout:
			continue // the ledger's ID is random
		}
		text := fmt.Sprintf("%s %q %q", p.bucket, p.key, payload)
		for from, to := range secret {
			text = strings.ReplaceAll(text, from, to)
		}
		all = append(all, text)
	}
	return all
}

// A repeated request that named a forgotten object with others returns the recorded result without
// the object. It is a conflict if it differs in anything but names, or names another number of
// objects.
func TestForget_JointRequestRepeated_IsRecognizedWithoutNames(t *testing.T) {
	s := &kv.Memory{}
	requests := jointRequests(t)
	l := jointLedger(t, s, "bob", requests)
	names := []string{"ann", "bob", "cid"}
	conflict := func(r jointRequest, field, epsilon string, names ...string) {
		t.Helper()
		_, err := r.send(l, r.key, epsilon, names)
		wantErr(t, err, &api.KeyConflictError{})
		check.That(t, strings.HasSuffix(fmt.Sprint(err), "differs in "+field),
			"%s: %v, want a difference in %s", r.key, err, field)
	}
	enroll(t, l, "vote", "8", "eve")
	last := jointRequest{"of others", "0.5", func(l *Ledger, key, epsilon string, names []string) (any, error) {
		return l.Sell(t.Context(), purchase(t, key, "acme", epsilon, names...))
	}}
	_, err := last.send(l, last.key, last.epsilon, []string{"ann", "cid"})
	must(t, err)
	before := map[string]any{}
	for _, r := range requests {
		if before[r.key], err = r.send(l, r.key, r.epsilon, names); err != nil {
			t.Errorf("%s: %v", r.key, err)
		}
		if r.key != "sold as quoted" && r.key != "enrolled under terms" { // for which another object changes other fields, too
			conflict(r, "Objects", r.epsilon, "ann", "bob", "eve")
		}
		conflict(r, "Objects", r.epsilon, "ann", "bob")
	}
	events := stats(t, l).Events
	forget(t, l, "bob")
	for _, r := range requests {
		after, err := r.send(l, r.key, r.epsilon, names)
		check.That(t, err == nil, "%s: %v", r.key, err)
		if want := fmt.Sprint(before[r.key]); r.key != "raised too high" && fmt.Sprint(after) != want {
			t.Errorf("%s: %v, and before the object was forgotten %s", r.key, after, want)
		}
		check.That(t, !strings.Contains(fmt.Sprint(after), "bob"), "%s: %v", r.key, after)
		conflict(r, "Objects", r.epsilon, "ann", "bob")
		switch {
		case r.key == "enrolled under terms": // which has no other field
		case r.epsilon == "8":
			conflict(r, "Cap", "7", names...)
		default:
			conflict(r, "Epsilon", "0.625", names...)
		}
	}
	conflict(last, "Objects", last.epsilon, "ann", "eve") // it did not name the object
	n := stats(t, l).Events
	check.That(t, n == events+2, "the repetitions recorded %d events", n-events-2)
	auditStore(t, s)
}

// After an object of a panel is forgotten, no answer about the panel is free any more: the object
// may return with another value.
func TestForget_ObjectInPanel_LeavesNoAnswerToDeriveFrom(t *testing.T) {
	l := jointLedger(t, &kv.Memory{}, "bob", jointRequests(t))
	forget(t, l, "bob")
	r := answerRequest(t, "new", "majority:yes", "0.25", mustNotAsk(t), "ann", "bob", "cid")
	refused := refusals(t, check.Err(l.Answer(t.Context(), r)))
	check.That(t, len(refused) == 1 && refused[0].Object == "bob", "%+v", refused)
	var kept int
	for _, p := range pairs(t, l.engine.Store) {
		if p.bucket == state.BucketAnswers {
			kept++
		}
	}
	check.That(t, kept == 0, "%d panels are recorded", kept)
}

// A request in parts is settled part by part. Its digest of all its objects is erased with any of
// them, even with one that no part has processed yet.
func TestForget_RequestInParts_IsErasedWithAnyObject(t *testing.T) {
	for _, which := range []int{0, state.PartSize + 5} {
		l := newLedger(t)
		define(t, l, vote())
		names := crowd(state.PartSize + 10)
		enroll(t, l, "vote", "5", names...)
		r := raiseOf(t, "r", "1", names...)
		stopAfterFirstPart(t, func(ctx context.Context, p func(done, total int)) error {
			r := r
			r.Progress = p
			return check.Err(l.Raise(ctx, r))
		})
		sum := event.RaiseRequest("vote", r.Epsilon, false, names, false).Objects.Digest
		has := func() bool {
			return slices.ContainsFunc(pairs(t, l.engine.Store), func(p pair) bool { return bytes.Contains(p.value, sum[:]) })
		}
		check.Need(t, has(), "the digest is not in the ledger to begin with")
		forget(t, l, names[which])
		check.That(t, !has(), "object %d is forgotten, and the digest is still there", which)
		auditStore(t, l.engine.Store)
	}
}

// Objects are forgotten in random order, between requests about several of them. The state stays
// the fold of the log.
func TestForget_ManyInAnyOrder_LeavesASoundLog(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := &kv.Memory{}
	begin(t, s)
	names := crowd(12)
	l := sellers(t, openMemory(t, s, Options{Now: epoch}), "4", "9", names...)
	for i := range 60 {
		some := slices.Clone(names)
		random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		some = some[:2+random.IntN(3)]
		key, epsilon := fmt.Sprint("k", i), fmt.Sprintf("0.%d", 1+random.IntN(4))
		switch random.IntN(5) {
		case 0:
			_, _ = l.Raise(t.Context(), partial(raiseOf(t, key, epsilon, some...)))
		case 1:
			_, _ = l.Sell(t.Context(), partialSale(purchase(t, key, "acme", epsilon, some...)))
		case 2, 3:
			r := answerRequest(t, key, "majority:yes", "0.0"+epsilon[2:], ballots(some[0]), some...)
			r.Partial, r.AcceptLoss = true, true
			_, _ = l.Answer(t.Context(), r)
		case 4:
			must(t, l.Forget(t.Context(), api.ObjectRequest{Key: key, Object: some[0]}))
			must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: key + " back", Question: "vote", Objects: some[:1], Policy: market(t, "4")})))
		}
	}
	auditStore(t, s)
	wantClean(t, l, api.VerifyRequest{})
}

// Names and panels are erased if and only if an event about one of the objects is erased. A request
// without such an event needs an object that is forgotten later.
func TestApply_NamesErasedForNoObject_IsRefused(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{Now: epoch}), "4", "9", "ann", "bob", "cid")
	sell(t, l, purchase(t, "sold", "acme", "0.5", "ann", "bob"))
	sell(t, l, purchase(t, "sold to others", "acme", "0.5", "bob", "cid"))
	raise(t, l, raiseOf(t, "raised before", "0.5", "ann", "bob"))
	for key, names := range map[string][]string{"answered": {"ann", "bob"}, "answered about others": {"bob", "cid"}} {
		r := answerRequest(t, key, "majority:yes", "0.25", sameTruth("yes"), names...)
		r.AcceptLoss = true
		answerTo(t, l, r)
	}
	before := logOf(t, pairs(t, s))
	forget(t, l, "ann")
	after := logOf(t, pairs(t, s))
	settled := func(key string) int {
		return indexOf(t, before, func(c event.Change) bool { end, is := c.(*event.Settled); return is && end.Key == key })
	}
	whole := func(at int) []event.Event {
		log := slices.Clone(after)
		log[at] = before[at]
		return log
	}
	must(t, replayWhole(&kv.Memory{}, before))
	must(t, replayWhole(&kv.Memory{}, after))
	for name, one := range map[string]struct {
		log []event.Event
		why string
	}{
		"names, without an event":             {erasedAt(before, settled("sold")), "no event about one of them is"},
		"names of others":                     {erasedAt(after, settled("sold to others")), "no event about one of them is"},
		"names that an erased event is about": {whole(settled("sold")), "are not erased"},
		"a panel, without a charge":           {erasedAt(before, settled("answered")-1), "no event about one of them is"},
		"a panel of others":                   {erasedAt(after, settled("answered about others")-1), "no event about one of them is"},
		"a panel with an erased charge":       {whole(settled("answered") - 1), "the panel of event"},
		"names, and none is forgotten":        {erasedAt(before, settled("raised before")), "erased events"},
	} {
		t.Run(name, func(t *testing.T) { wantForged(t, replayWhole(&kv.Memory{}, one.log), one.why) })
	}
}

// A key whose settled event has the answer about another panel does not return that answer.
func TestAnswer_KeySettledWithAnotherPanel_IsConflict(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "5", "ann", "bob", "cid", "dan")
	answerTo(t, l, answerRequest(t, "1", "majority:yes", "1", ballots("ann"), "ann", "bob"))
	asked := event.PanelRequest{Question: "vote", Query: "majority:yes", Epsilon: eps(t, "1"), Objects: 2, Panel: event.PanelOf([]string{"cid", "dan"})}
	wantUnwritable(t, l, false, func(s *state.State) []event.Change {
		return []event.Change{settledAs(s, asked.Identity(), func(c *event.Settled) { c.Counts[event.Reused], c.Answer = 1, answeredEvent(t, l) })}
	})
	wantErr(t, check.Err(l.Answer(t.Context(), answerRequest(t, "K", "majority:yes", "1", mustNotAsk(t), "cid", "dan"))), &api.KeyConflictError{})
}

// heldFile is a store whose updates are counted, and can be blocked and made to fail.
type heldFile struct {
	kv.Store
	updates atomic.Int64
	hold    atomic.Pointer[gate]
	let     atomic.Int64 // how many pass before the gate blocks the others
	fault   atomic.Pointer[error]
}

func (f *heldFile) Update(fn func(kv.Writer) error) error {
	f.updates.Add(1)
	if g := f.hold.Load(); g != nil && f.let.Add(-1) < 0 {
		_ = g.pass()
	}
	return f.Store.Update(func(w kv.Writer) error {
		err := fn(w)
		if fault := f.fault.Load(); err == nil && fault != nil {
			err = *fault
		}
		return err
	})
}

// fail makes updates fail with err, or succeed if it is nil.
func (f *heldFile) fail(err error) {
	if f.fault.Store(&err); err == nil {
		f.fault.Store(nil)
	}
}

func openHeld(t testing.TB, path string, o Options) (*Ledger, *heldFile) {
	t.Helper()
	f := &heldFile{Store: check.Value(bolt.Open(path, false))(t)}
	return openOver(t, f, besideFile(path), o), f
}

// heldVoters returns a ledger of n objects, each with a response, whose file can be blocked.
func heldVoters(t testing.TB, n int) (l *Ledger, f *heldFile, path string, names []string) {
	t.Helper()
	names = crowd(n)
	path = votersFile(t, "9", names...)
	l, f = openHeld(t, path, Options{})
	releaseEach(t, l, "1", names...)
	return l, f, path, names
}

// Concurrent calls of Forget share checkpoints: all that come during one checkpoint need one more
// together.
func TestForget_Concurrent_SharesCheckpoints(t *testing.T) {
	l, f, path, names := heldVoters(t, 51)
	before := stats(t, l).Events
	forget(t, l, names[50])
	each := stats(t, l).Events - before
	secrets := [][]byte{}
	for _, name := range names[:50] {
		secrets = append(secrets, secretsOf(t, l, name)...)
	}
	before, updates := stats(t, l).Events, f.updates.Load()
	held := newGate(t)
	f.hold.Store(held)
	var group sync.WaitGroup
	failed := make(chan error, 50)
	for _, name := range names[:50] {
		group.Go(func() { failed <- l.Forget(t.Context(), api.ObjectRequest{Key: "forget " + name, Object: name}) })
	}
	eventually(t, func() bool { return l.engine.Queue.DurableEvents() >= before+50*each }, "fewer than %d events more", 50*each)
	f.hold.Store(nil)
	held.open()
	group.Wait()
	for range names[:50] {
		must(t, <-failed)
	}
	n := f.updates.Load() - updates
	check.That(t, n <= 2, "%d checkpoints for 50 objects; most calls came during the first one", n)
	if n := secretsBeside(t, path, secrets); n > 0 {
		t.Errorf("%d of %d secrets are left beside the file", n, len(secrets))
	}
	wantClean(t, l, api.VerifyRequest{})
}

// When Forget returns, the journal has nothing of the object, even while other callers write to it
// and checkpoints are made all the time.
func TestForget_ConcurrentWriters_JournalHasNoSecrets(t *testing.T) {
	names := crowd(40)
	path := votersFile(t, "900", names...)
	l := open(t, path, Options{Memory: 4 << 10})
	var group sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r := releaseOf(t, fmt.Sprint("writer ", w, " ", i), names[20+w], fmt.Sprintf("%d.%03d", 1+i/1000, i%1000))
				if _, err := l.Release(t.Context(), r); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i, name := range names[:20] {
		release(t, l, releaseOf(t, fmt.Sprint(i), name, "1"))
		secrets := secretsOf(t, l, name)
		forget(t, l, name)
		n := secretsBeside(t, path, append(secrets, []byte(name)))
		check.That(t, n == 0 && len(secrets) >= 4, "of %d secrets of %s %d are beside the file", len(secrets), name, n)
	}
	close(stop)
	group.Wait()
	wantClean(t, l, api.VerifyRequest{})
}

// If the ledger is closed during Forget, Forget returns ErrClosed, or nil only when the bytes are
// destroyed.
func TestForget_ConcurrentClose_DoesNotReturnTooEarly(t *testing.T) {
	l, f, path, names := heldVoters(t, 3)
	secrets := secretsOf(t, l, names[0])
	ofForget, ofClose := newGate(t), newGate(t) // their checkpoints
	f.hold.Store(ofForget)
	forgot, closing := make(chan error, 1), make(chan error, 1)
	go func() { forgot <- l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: names[0]}) }()
	ofForget.wait(t)
	f.hold.Store(ofClose)
	go func() { closing <- l.Close() }()
	eventually(t, func() bool { return !namesJournal(t, l) }, "the ledger is not closed")
	ofForget.open()
	ofClose.wait(t)
	err := <-forgot
	if n := secretsBeside(t, path, secrets); err == nil && n > 0 || err != nil && !errors.Is(err, api.ErrClosed) {
		t.Errorf("Forget returns %v, and %d of %d secrets are in the journal", err, n, len(secrets))
	}
	ofClose.open()
	must(t, <-closing)
	check.Equal(t, secretsBeside(t, path, secrets), 0, "secrets that are left beside a file that was closed")
}

// slowContext is a context whose Err waits for something else before it returns an error.
type slowContext struct {
	context.Context
	await func()
}

func (c slowContext) Err() error {
	err := c.Context.Err()
	if err != nil {
		c.await()
	}
	return err
}

// If the context ends when the checkpoint is already complete, Forget succeeds, because nothing is
// left to erase.
func TestForget_ContextEndsAfterErasure_Succeeds(t *testing.T) {
	l, f, _, names := heldVoters(t, 1)
	checkpoint := newGate(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	late := slowContext{ctx, func() {
		checkpoint.open()
		if err := l.engine.Checkpoint(); err != nil { // it waits until the journal is trimmed by the one before
			t.Error(err)
		}
	}}
	f.hold.Store(checkpoint)
	forgot := make(chan error, 1)
	go func() { forgot <- l.Forget(late, api.ObjectRequest{Key: "forget", Object: names[0]}) }()
	checkpoint.wait(t)
	cancel()
	must(t, <-forgot)
}

// Calls that wait for a compaction return when their context ends. Forget has recorded its event by
// that time, and its error says that the bytes are not destroyed yet.
func TestForget_ContextEndsDuringCompact_Returns(t *testing.T) {
	names := crowd(3)
	path := votersFile(t, "9", names...)
	l := open(t, path, Options{})
	releaseEach(t, l, "1", names...)
	secrets := secretsOf(t, l, names[0])
	held, compacted := newGate(t), make(chan error, 1)
	file, _ := l.engine.Copier()
	go func() { compacted <- file.Compact(t.Context(), func(int64, int64) { _ = held.pass() }) }()
	held.wait(t)
	before := l.engine.Queue.DurableEvents()
	forgot := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { forgot <- l.Forget(ctx, api.ObjectRequest{Key: "forget", Object: names[0]}) }()
	must(t, l.engine.Queue.AwaitEvent(t.Context(), before+1))
	cancel()
	err := wantContextError(t, "Forget", forgot)
	kept, is := errors.AsType[*journal.HeldError](err)
	check.That(t, is && kept.Through.Events <= before && kept.Wanted.Events > before, "Forget returns %v", err)
	for what, call := range map[string]func(context.Context) error{
		"Compact":   func(ctx context.Context) error { return l.Compact(ctx, nil) },
		"CompactTo": func(ctx context.Context) error { return check.Err(l.CompactTo(ctx, path+".copy", nil)) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		_ = wantContextError(t, what, done)
		cancel()
	}
	held.open()
	must(t, <-compacted)
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: names[0]}))
	check.Equal(t, secretsBeside(t, path, secrets), 0, "secrets that are left beside the file")
}

// wantContextError waits for a call whose context has ended, or soon does, and returns its error.
func wantContextError(t testing.TB, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		check.That(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded),
			"%s, whose context has ended, returns %v", what, err)
		return err
	case <-time.After(patience):
		t.Fatalf("%s goes on although its context has ended", what)
	}
	return nil
}

// If Close comes between the two steps of Forget, the event is recorded and the bytes are not
// destroyed: the second step returns ErrClosed.
func TestErase_LedgerClosed_IsErrClosed(t *testing.T) {
	l, _, _, _ := heldVoters(t, 1)
	must(t, l.Close())
	err := l.engine.Erase(t.Context())
	check.That(t, errors.Is(err, api.ErrClosed), "a ledger that is closed erases: %v", err)
}

// namesJournal reports whether the file names a journal, or will after the next checkpoint.
func namesJournal(t testing.TB, l *Ledger) (named bool) {
	t.Helper()
	must(t, l.engine.Store.View(func(r kv.Reader) error {
		name, err := r.Get(state.BucketMeta, []byte(state.KeyJournal))
		named = name != nil
		return err
	}))
	return named
}
