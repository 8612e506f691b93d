package ledger

import (
	"context"
	"errors"
	"iter"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/observe"
)

// hookedJournal calls a hook in each of its methods.
type hookedJournal struct {
	journal.Follower
	hooks map[string]*hook
}

// journalMethods returns the names of all methods of a host's journal.
func journalMethods() (names []string) {
	for i := range reflect.TypeFor[journal.Follower]().NumMethod() {
		names = append(names, reflect.TypeFor[journal.Follower]().Method(i).Name)
	}
	return names
}

// at calls the hook of a method, and returns the journal.
func (j hookedJournal) at(method string) journal.Follower {
	j.hooks[method].call()
	return j.Follower
}

func (j hookedJournal) Name() string { return j.at("Name").Name() }
func (j hookedJournal) Close() error { return j.at("Close").Close() }

func (j hookedJournal) Claim(ctx context.Context) (uint64, journal.Position, error) {
	return j.at("Claim").Claim(ctx)
}

func (j hookedJournal) Append(ctx context.Context, g journal.Group) error {
	return j.at("Append").Append(ctx, g)
}

func (j hookedJournal) Read(ctx context.Context, at journal.Position) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) { j.at("Read").Read(ctx, at)(yield) }
}

func (j hookedJournal) Trim(ctx context.Context, through journal.Position) error {
	return j.at("Trim").Trim(ctx, through)
}

func (j hookedJournal) Settle(ctx context.Context) error { return j.at("Settle").Settle(ctx) }

func (j hookedJournal) Await(ctx context.Context, at journal.Position) error {
	return j.at("Await").Await(ctx, at)
}

func (j hookedJournal) Folded(ctx context.Context, through journal.Position) error {
	return j.at("Folded").Folded(ctx, through)
}

func (j hookedJournal) Head(ctx context.Context) (journal.Head, error) { return j.at("Head").Head(ctx) }

// hookedHosts are a ledger and its standby; one of the two has a journal with hooks.
type hookedHosts struct {
	*hostPair
	hooks   map[string]*hook
	log     *journalLog
	options Options // of the host with the hooks
	path    string  // of its file
	l       *Ledger // on the host with the hooks
}

// newHookedHosts puts the hooks on the standby, or else on the leader.
func newHookedHosts(t *testing.T, standby bool) *hookedHosts {
	t.Helper()
	h := &hookedHosts{hostPair: newHostPair(t, crowd(9)...), hooks: map[string]*hook{}, log: &journalLog{}}
	for _, name := range journalMethods() {
		h.hooks[name] = &hook{}
	}
	host := "a"
	if standby {
		host, h.path = "b", h.file
	} else {
		h.path = filepath.Join(testenv.TempDir(t), "a.db")
		must(t, check.Err(h.a.Backup(t.Context(), h.path, nil)))
		closed(t, h.a)
	}
	h.options = h.hostPair.options(host)
	find := h.options.Journal
	h.options.Logger = zerolog.New(h.log)
	h.options.Journal = func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		j, err := find(ctx, w)
		if err != nil {
			return nil, err
		}
		return hookedJournal{j.(journal.Follower), h.hooks}, nil
	}
	h.l = open(t, h.path, h.options)
	if standby {
		h.catchUp(h.l)
	} else {
		h.a = h.l
	}
	return h
}

// awaitStandby waits until the standby has all events, and the journal knows it.
func (h *hookedHosts) awaitStandby(t *testing.T) {
	t.Helper()
	events := stats(t, h.a).Events
	must(t, h.l.engine.Queue.AwaitEvent(t.Context(), events))
	eventually(t, func() bool { return h.journal.Bases()["b"] >= events }, "the standby is not known to have %d events", events)
}

// reads checks that the host with the hooks can be read.
func (h *hookedHosts) reads() error { return check.Err(h.l.Object(context.Background(), crowd(9)[0])) }

// block makes a method block. The first function it returns waits until the method is called, and
// the second one unblocks it.
func (h *hookedHosts) block(method string) (called func(), goOn func()) {
	entered, let := make(chan struct{}), make(chan struct{})
	h.hooks[method].set(func() {
		close(entered)
		<-let
	})
	return func() { <-entered }, sync.OnceFunc(func() { close(let) })
}

// wantPanicError checks that err is the PanicError of a method of the journal.
func wantPanicError(t *testing.T, err error, method string) {
	t.Helper()
	if of, is := errors.AsType[*api.PanicError](err); !is || of.Function != "Journal."+method || of.Value != "the host's own" {
		t.Errorf("got the error %v, want a PanicError of Journal.%s", err, method)
	}
}

func panicOfHost() { panic("the host's own") }

// journalTests returns a test for each method of a host's journal. docs/howto/embed.md has the same
// table.
func journalTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"Name":  testJournalName,
		"Claim": testJournalInOpen("Claim", Options{}),
		"Settle": func(t *testing.T) {
			testJournalInOpen("Settle", Options{ReadOnly: true})(t)
			testJournalOfStandby("Settle")(t)
		},
		"Read":   func(t *testing.T) { testJournalInOpen("Read", Options{})(t); testJournalOfStandby("Read")(t) },
		"Await":  testJournalOfStandby("Await"),
		"Folded": testJournalOfStandby("Folded"),
		"Head":   testJournalHead,
		"Append": testJournalAppend,
		"Trim":   testJournalTrim,
		"Close":  func(t *testing.T) { testJournalClose(t, false); testJournalClose(t, true) },
	}
}

func TestHostJournal_PanicsOrBlocks_AffectsOnlyWhatIsDocumented(t *testing.T) {
	tests := journalTests()
	if got := slices.Sorted(maps.Keys(tests)); !slices.Equal(got, journalMethods()) {
		t.Errorf("there are tests of %q; a journal has %q", got, journalMethods())
	}
	for method, test := range tests {
		t.Run(method, func(t *testing.T) {
			t.Parallel() // a standby tries again after a second
			test(t)
		})
	}
}

// testJournalName tests that Open returns a panic of Name as its error.
func testJournalName(t *testing.T) {
	h := newHookedHosts(t, false)
	closed(t, h.l)
	h.hooks["Name"].set(panicOfHost)
	wantPanicError(t, check.Err(Open(t.Context(), h.path, h.options)), "Name")
	closed(t, open(t, h.path, h.options))
}

// testJournalInOpen tests that a panic of the method inside Open continues in the caller, and that
// file and journal are released.
func testJournalInOpen(method string, how Options) func(*testing.T) {
	return func(t *testing.T) {
		h := newHookedHosts(t, false)
		release(t, h.l, releaseOf(t, "r", crowd(9)[0], "2"))
		closed(t, h.l)
		o := h.options
		o.ReadOnly = how.ReadOnly
		h.hooks[method].set(panicOfHost)
		panicked, err := catchPanic(func() error { return check.Err(Open(t.Context(), h.path, o)) })
		check.That(t, panicked == "the host's own", "recovered %v, error %v; want the panic", panicked, err)
		closed(t, open(t, h.path, h.options))
	}
}

// testJournalOfStandby tests that a panic is logged, and that the standby tries again. The method
// may read the ledger. While it blocks, both hosts answer.
func testJournalOfStandby(method string) func(*testing.T) {
	return func(t *testing.T) {
		h := newHookedHosts(t, true)
		h.hooks[method].set(panicOfHost)
		release(t, h.a, releaseOf(t, "1", crowd(9)[1], "1"))
		h.log.await(t, "Journal."+method+" panicked: the host's own")
		h.awaitStandby(t)

		inner := make(chan error, 1)
		h.hooks[method].set(func() { inner <- h.reads() })
		release(t, h.a, releaseOf(t, "2", crowd(9)[2], "1"))
		err := <-inner
		check.That(t, err == nil, "a read within %s: %v", method, err)
		h.awaitStandby(t)

		called, goOn := h.block(method)
		defer goOn()
		release(t, h.a, releaseOf(t, "3", crowd(9)[3], "1"))
		called()
		wantUsable(t, h.a)
		must(t, await(t, async(func() (any, error) { return nil, h.reads() })).err)
		if method == "Folded" {
			must(t, h.l.engine.Queue.AwaitEvent(t.Context(), stats(t, h.a).Events)) // only what may be trimmed waits
		}
		goOn()
		h.awaitStandby(t)
		closed(t, h.l)
	}
}

// testJournalAppend tests that a panic stops the ledger. While the method blocks, the ledger can be
// read.
func testJournalAppend(t *testing.T) {
	h := newHookedHosts(t, false)
	called, goOn := h.block("Append")
	defer goOn()
	wrote := async(func() (api.Response, error) { return h.l.Release(t.Context(), releaseOf(t, "1", crowd(9)[1], "1")) })
	called()
	must(t, await(t, async(func() (any, error) { return nil, h.reads() })).err)
	goOn()
	must(t, await(t, wrote).err)
	h.hooks["Append"].set(panicOfHost)
	_, err := h.l.Release(t.Context(), releaseOf(t, "2", crowd(9)[2], "1"))
	wantErr(t, err, api.ErrStopped)
	wantPanicError(t, err, "Append")
	_ = h.l.Close() // it says again why it stopped
	closed(t, open(t, h.path, h.options))
}

// testJournalTrim tests that a panic stops the ledger, like other errors after which the journal
// may accept nothing more. The method may read the ledger. While it blocks, requests are answered,
// and Close waits.
func testJournalTrim(t *testing.T) {
	h := newHookedHosts(t, false)
	person := crowd(9)
	inner := make(chan error, 1)
	h.hooks["Trim"].set(func() { inner <- h.reads() })
	release(t, h.l, releaseOf(t, "1", person[1], "1"))
	must(t, h.l.engine.Checkpoint())
	if err := <-inner; err != nil {
		t.Errorf("a read within Trim: %v", err)
	}
	called, goOn := h.block("Trim")
	defer goOn()
	release(t, h.l, releaseOf(t, "2", person[2], "1"))
	must(t, await(t, async(func() (any, error) { return nil, h.l.engine.Checkpoint() })).err)
	called()
	wantUsable(t, h.l)
	goOn()
	closed(t, h.l)

	h.l = open(t, h.path, h.options)
	release(t, h.l, releaseOf(t, "3", person[3], "1"))
	h.hooks["Trim"].set(panicOfHost)
	if err := h.l.engine.Checkpoint(); err != nil {
		wantPanicError(t, err, "Trim") // the journal is trimmed in the background, perhaps before the checkpoint returns
	}
	h.log.await(t, "Journal.Trim panicked: the host's own")
	_, err := h.l.Release(t.Context(), releaseOf(t, "4", person[4], "1"))
	wantErr(t, err, api.ErrStopped)
	wantPanicError(t, err, "Trim")
	_ = h.l.Close() // it says again why it stopped
	h.l = open(t, h.path, h.options)
	release(t, h.l, releaseOf(t, "4", person[4], "1"))
	closed(t, h.l)
}

// testJournalHead tests that after a panic Health does not know which host has the ledger. While
// the method blocks, requests are answered.
func testJournalHead(t *testing.T) {
	h := newHookedHosts(t, false)
	h.hooks["Head"].set(panicOfHost)
	got := hostHealth(t, h.l)
	check.That(t, !got.Answered, "after a panic Health reports %+v, want an unknown host", got)
	called, goOn := h.block("Head")
	defer goOn()
	asked := async(func() (observe.Health, error) { return h.l.Health(t.Context()) })
	called()
	wantUsable(t, h.l)
	goOn()
	must(t, await(t, asked).err)
	closed(t, h.l)
}

// testJournalClose tests that Close returns a panic as its error, and releases the file and the
// claim nevertheless.
func testJournalClose(t *testing.T, standby bool) {
	h := newHookedHosts(t, standby)
	h.hooks["Close"].set(panicOfHost)
	panicked, err := catchPanic(h.l.Close)
	check.That(t, panicked == nil, "Close panics: %v", panicked)
	wantPanicError(t, err, "Close")
	closed(t, open(t, h.path, h.options))
}

// A value given by TruthOf is used for one object only, in one request or in several.
func TestTruthOf_SecondObject_IsErrTruthSource(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
	both := raiseOf(t, "both", "1", "ann", "bob")
	both.Truth = api.TruthOf("yes")
	wantErr(t, check.Err(l.Raise(t.Context(), both)), api.ErrTruthSource)
	o := objectOf(t, l, "ann")
	check.That(t, o.Spent.IsZero(), "ann has spent %s", o.Spent)
	one := api.TruthOf("yes")
	r := releaseBy(releaseOf(t, "ann", "ann", "1"), one)
	release(t, l, r)
	r = releaseOf(t, "ann again", "ann", "2")
	r.Truth = one
	release(t, l, r)
	both = raiseOf(t, "rest", "1.5", "ann", "bob") // only bob needs a true value
	both.Truth = one
	wantErr(t, check.Err(l.Raise(t.Context(), both)), api.ErrTruthSource)
	o = objectOf(t, l, "bob")
	check.That(t, o.Spent.IsZero(), "bob has spent %s", o.Spent)
}

// A request whose context ends while its source runs returns the error of that context. A deadline
// of the source's own is a failure of the source.
func TestTruthFunc_ContextEnds_IsNoSourceFailure(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthTimeout: time.Hour}), "9", "ann")
	ctx, cancel := context.WithCancel(t.Context())
	r := releaseOf(t, "k", "ann", "1")
	r.Truth = func(context.Context, string, []string) ([]string, error) {
		cancel()
		return nil, errors.New("interrupted")
	}
	_, err := l.Release(ctx, r)
	wantErr(t, err, context.Canceled)
	check.That(t, !errors.Is(err, api.ErrTruthFailed),
		"the end of the context is reported as a failure of the source: %v", err)
	own := &deadlineError{}
	r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, own }
	_, err = l.Release(t.Context(), r)
	wantErr(t, err, api.ErrTruthFailed)
	found := new(deadlineError)
	check.That(t, !errors.Is(err, context.DeadlineExceeded) && errors.Is(err, own) && errors.As(err, &found), "%v", err)
}

// deadlineError is an error of a source that wraps the source's own deadline.
type deadlineError struct{}

func (*deadlineError) Error() string { return "the database took too long" }
func (*deadlineError) Unwrap() error { return context.DeadlineExceeded }

// fakeSigner is a signer whose result a test chooses.
type fakeSigner struct {
	note.Signer
	sign func(message []byte) ([]byte, error)
}

func (s *fakeSigner) Sign(message []byte) ([]byte, error) { return s.sign(message) }

// A failure of the signer is ErrSigner, and no checkpoint that does not verify is returned.
func TestCheckpoint_SignerFails_IsErrSigner(t *testing.T) {
	right, verifier, public := logKey(t, "log.example", 1)
	wrong, _, _ := logKey(t, "log.example", 2)
	broken := errors.New("the device is locked")
	for name, c := range map[string]struct {
		sign func([]byte) ([]byte, error)
		want error
	}{
		"error":       {func([]byte) ([]byte, error) { return nil, broken }, broken},
		"garbage":     {func([]byte) ([]byte, error) { return []byte("garbage"), nil }, api.ErrSigner},
		"nothing":     {func([]byte) ([]byte, error) { return nil, nil }, api.ErrSigner},
		"another key": {wrong.Sign, api.ErrSigner},
	} {
		for known, options := range map[string]Options{"log key": {}, "Verifiers": {Verifiers: note.VerifierList(verifier)}} {
			t.Run(name+"/"+known, func(t *testing.T) {
				options.Signer = &fakeSigner{right, c.sign}
				recorded := public
				if known == "Verifiers" {
					_, _, recorded = logKey(t, "log.example", 3)
				}
				l := openMemory(t, createdStore(t, recorded), options)
				signed, err := l.Checkpoint(t.Context())
				wantErr(t, err, api.ErrSigner)
				wantErr(t, err, c.want)
				check.That(t, !errors.Is(err, api.ErrCheckpoint) && signed == nil, "got the checkpoint %q, error %v", signed, err)
			})
		}
	}
}

// createdStore returns a new ledger in memory, with a log key or without.
func createdStore(t *testing.T, logKey string) kv.Store {
	s := &kv.Memory{}
	beginWithKey(t, s, logKey)
	return s
}

type silentObserver struct{}

func (*silentObserver) Committed(observe.Commit) {}
func (*silentObserver) Audited(observe.Audit)    {}
func (*silentObserver) Refused(observe.Refusal)  {}

// Invalid options are refused by Open, and do not fail in a later commit.
func TestOpen_InvalidOption_IsErrInvalid(t *testing.T) {
	for name, options := range map[string]Options{
		"TruthTimeout": {TruthTimeout: -time.Second},
		"Observer":     {Observer: (*silentObserver)(nil)},
		"Signer":       {Signer: (*fakeSigner)(nil)},
	} {
		_, err := openStore(t.Context(), createdStore(t, ""), options)
		wantErr(t, err, api.ErrInvalid)
		check.That(t, err == nil || strings.Contains(err.Error(), name), "%s: %v", name, err)
	}
}

// A nil context gives ErrInvalid, never a panic.
func TestEveryCall_NilContext_IsErrInvalid(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann")
	var none context.Context
	for name, call := range everyCallWith(none, t, l) {
		err := panicAsError(call)
		check.That(t, errors.Is(err, api.ErrInvalid), "%s: %v", name, err)
	}
}
