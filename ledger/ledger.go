package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/documents"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/mechanism"
)

// Options are the settings of an open ledger. The zero value is ready for use.
type Options struct {
	// Logger gets one line for each request that is committed (debug), for each refusal (info) and
	// for each failure (error). A line has, where they apply, the idempotency key, the buyer, the
	// sale, and the first and last event. It also has the number of requests in the commit and its
	// duration. Failures of the journal and of checkpoints are logged, too. Lines are written from
	// several goroutines, outside of commits. A panic of the logger's writer or of a hook is
	// reported in the same way as zerolog reports an error of a writer. The zero value writes
	// nothing. No line contains a true value.
	Logger zerolog.Logger
	// Observer gets numbers about each commit, refusal and audit. nil costs nothing. See also
	// [Ledger.Health].
	Observer observe.Observer
	// Now is the clock; nil means [time.Now]. It is read when a request is submitted, outside of
	// the commit. It may jump. Times in the log never go back. What policies allow depends on the
	// clock, even if the log is ahead of it. The first and last day of a sale, and the expiry of
	// reservations, depend on the time of the log.
	Now func() time.Time
	// ClockLeap is how far the clock may be ahead of the log's last event when an event is written;
	// 0 means 366 days. If the clock is further ahead, a request returns a [*api.ClockError] before
	// it is decided, unless ClockAhead confirms the clock. A single event with a wrong time would
	// let every reservation expire, and close every dated sale, for good.
	//
	// Reads use the time of the clock, and change nothing. The ledger knows no clock but Now. A
	// host that writes every day can set a few days here, to notice a wrong clock sooner.
	ClockLeap time.Duration
	// ClockAhead is an operator's confirmation that the clock is right up to this time. It is
	// needed after a long time without events, for example. It must come from a person who has
	// checked the time, never from a clock. It is needed only once, because the next event then has
	// the new time.
	ClockAhead time.Time
	// TruthKey, if set, makes the ledger keep a keyed hash of each chain's true value. The ledger
	// then refuses to raise the chain for another value, with the same refusal as without a true
	// value ([api.NoTruth]). Only the caller learns which value has changed (see
	// [api.RaiseResult]). [Ledger.BeginEpoch] begins a new chain about the new value.
	//
	// TruthKey is at least 16 bytes long, secret, and stays with the host: the file has only what
	// identifies it. Once a ledger has been opened with a key, Open refuses any other
	// ([api.ErrTruthKey]). If it is opened without the key, the ledger draws nothing from true
	// values ([api.NoTruthKey]), but still resells and derives responses. Chains that were drawn
	// before a key was set are bound at their next raise.
	TruthKey []byte
	// NoiseKey, if set, draws the responses of new chains from a key of the host. A lost file can
	// then be rebuilt with the same responses. [api.NoiseKeys] documents what that costs.
	NoiseKey api.NoiseKeys
	// TruthTimeout is the longest time that one call of a [api.TruthFunc] may take; 0 sets no
	// limit. After that time the call's context ends, a value that it returns later is not used,
	// and the request fails with [api.ErrTruthFailed] without any change. The ledger still waits
	// for a source that ignores its context.
	TruthTimeout time.Duration
	// Signer signs checkpoints, receipts and statements; the key stays with the host. nil signs
	// nothing. Its name must be [api.About.Origin]. It may be a different key from the one that the
	// ledger was created with; then verifiers need the verifier of the new key. The ledger verifies
	// a signature before it returns it if the key is the log key or one of Verifiers. Otherwise the
	// host must verify it.
	Signer note.Signer
	// Checkpoint is the newest checkpoint that the host has, and Verifiers are the keys that may
	// have signed it. If the file does not extend it, for example because the file is an older
	// copy, Open returns a [*api.RollbackError] before anything can be drawn. nil checks nothing.
	Checkpoint []byte
	Verifiers  note.Verifiers // the keys for Checkpoint; may include the Signer's
	// Publish sets when checkpoints are signed without a request, and which function receives them.
	// It requires a Signer.
	Publish Publishing
	// ReadOnly opens the file for reading. Several processes may do so at a time, if none writes.
	ReadOnly bool
	// WithoutJournal, with ReadOnly, opens a file whose journal is missing. The ledger is then as
	// the last checkpoint of the file left it. Later events are missing, and their number is
	// unknown. [api.About.MissingJournal] has the name of the journal, and [Ledger.Verify] reports
	// it. A copy names the journal too, so that Open without this option refuses the copy like the
	// file. Nothing is signed.
	//
	// If the journal exists, it is read as usual, and refused if it does not belong to the file.
	// WithoutJournal does not search for a journal elsewhere: leave Journal unset.
	WithoutJournal bool
	// Standby opens the ledger for reading and follows the host that has claimed the Journal. The
	// journal must be one that several hosts can open ([journal.Follower]), and must already exist.
	// The file must be a copy of that host's file ([Ledger.Backup]). What that host commits can be
	// read here soon after, and is written to this file. The journal may destroy what this file
	// has.
	//
	// [Ledger.TakeOver] makes this host the one that writes. Until then, calls that change
	// something return [api.ErrReadOnly]. Each result names the event that it is as of. If the
	// journal cannot be read for some time, the standby returns what it has, tries again, and logs
	// that. If the journal is not what it was, the standby stops ([api.ErrStopped]).
	Standby bool
	// Memory is the approximate number of bytes of recent commits that are kept in memory; 0 means
	// 64 MiB. They are written to the file in the background. They are durable nevertheless, in the
	// journal. Commits are throttled so that there is never twice as much, unless a single request
	// is that large. After a crash, Open folds up to that much again. Writing them takes about 100
	// MiB in addition, or less if Memory is lower (docs/performance.md has figures).
	Memory int64
	// Journal, if set, opens the journal of the ledger at another location than beside the file.
	// The journal can then survive the loss of this machine. If there is no journal yet, and the
	// file names none, the function creates one that begins where the file ends. For a standby it
	// creates none. After the ledger was first opened for writing with it, the file names the
	// journal, and can only be opened with it.
	//
	// Open for writing claims the journal. From then on no other process continues with it, and no
	// older copy of the file draws a second time. Open for reading folds its events in memory.
	// [Ledger.Forget] trims the journal, which documents what happens to the bytes. The ledger
	// closes it. The function gets the context of [Open], which may end before the ledger is
	// closed. The journal must not depend on it after the function returns. Package pgjournal,
	// below ledger/journal, keeps a journal in PostgreSQL.
	Journal func(context.Context, journal.Wanted) (journal.Journal, error)
}

// Ledger is an open ledger. Its methods may be called concurrently; calls that change it share
// commits. The caller must close it.
type Ledger struct {
	engine    engine.Engine
	rules     rules.Rules
	documents documents.Maker
	// requests executes the requests that change the ledger.
	requests request.Executor

	publisher *documents.Publisher // nil if nothing is published
	objects   sync.Pool            // of *objectReader, reused by later reads
	file      string               // the resolved path of the file; "" in memory
	// options are kept for TakeOver, which opens the ledger again.
	options      Options
	reservations openReservations // counts the reservations that hold budget, for Health
	takingOver   sync.Mutex
}

// CreateOptions are the permanent settings of a new ledger. The zero value is ready for use.
type CreateOptions struct {
	// Currency is the code of the currency of all prices, 1 to 256 bytes; "" means USD.
	Currency string
	// LogKey is the verifier key, in the form of [note.NewVerifier], of the key that signs the log;
	// "" means none. It is recorded, and its name becomes the name of the log. A verifier should
	// get the key from the host, not from the file.
	LogKey string
}

// Create makes a new, empty ledger file. A symbolic link to a file that does not exist is followed.
// Create returns [fs.ErrExist] if the file exists already, or if the journal of another ledger is
// beside it. It returns [api.ErrInvalid] for invalid options, an empty path, and the path of a
// ledger's key, journal or other file. At any moment there is either no file or a complete one.
//
// The ledger begins at the time of this machine's clock, and its log never goes back. A ledger that
// was created while the clock was far ahead is useless and must be created again ([Ledger.Verify]
// reports it).
func Create(ctx context.Context, path string, options CreateOptions) error {
	if err := errs.Context(ctx); err != nil {
		return err
	}
	if _, err := note.NewVerifier(options.LogKey); err != nil && options.LogKey != "" {
		return errs.Invalid("LogKey: %w", err)
	}
	backend := request.BackendOf(ctx)
	fill := func(w kv.Writer) error { return format(w, backend.Now(), options) }
	if backend.Store != nil {
		return backend.Store.Update(fill)
	}
	resolved, err := newFile(path, "")
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return bolt.Create(resolved, fill)
}

// format writes the first records of a ledger to an empty store: the format, and the event that
// creates the ledger at the time now.
func format(w kv.Writer, now time.Time, options CreateOptions) error {
	currency := options.Currency
	if currency == "" {
		currency = "USD"
	}
	if err := errors.Join(event.CheckName("currency", currency), event.CheckTime(now)); err != nil {
		return err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("ledger id: %w", err)
	}
	version := binary.BigEndian.AppendUint16([]byte(state.FormatName), state.FormatVersion)
	if err := w.Put(state.BucketMeta, []byte(state.KeyFormat), version); err != nil {
		return err
	}
	s, err := state.Begin(w, now)
	if err != nil {
		return err
	}
	created := &event.Created{ID: id, Currency: currency, LogKey: options.LogKey}
	if _, _, err := fold.Record(s, []event.Change{created}); err != nil {
		return err
	}
	return fold.Flush(s)
}

// Open opens the ledger in an existing file and locks it against other processes. A relative path
// and symbolic links are resolved once: the working directory may change later. If a link refers to
// another file later, calls return [api.ErrReplaced].
//
// From the first change on, a directory beside the real file, named like it with .journal appended,
// has what was committed last. [Ledger.Close] writes it to the file and removes the directory. A
// crash leaves the directory. Open for writing then first updates the file, which takes some
// microseconds for each event. Open for reading updates only its memory, and writes nothing. If
// file and journal do not belong together, Open returns [api.ErrJournal]. The directory may be a
// symbolic link. The journal may also be elsewhere ([Options.Journal]).
//
// If the file is a copy of the one that was last written to, it may have been copied during a
// write. Open then verifies it first, like [Ledger.Verify], if it is opened for writing or has a
// journal. A copy that is inconsistent is [api.ErrCorrupt].
//
// Open returns [fs.ErrNotExist], [api.ErrInUse], [api.ErrCorrupt], [api.ErrJournal],
// [api.ErrVersion], [api.ErrTruthKey], [api.ErrNoiseKey], [api.ErrCheckpoint], [*api.RollbackError]
// or [api.ErrInvalid] as they apply. An ErrInUse is returned within a second. If a function of the
// host panics, the panic continues after everything is released.
//
// Two copies of a ledger that are both drawn from release two independent responses of the same
// objects. On Linux, ErrInUse is therefore also returned if a copy of the ledger is open for
// writing; the text names the process. A copy is a file with the same [api.About.ID]. This is
// detected only within a network namespace of one machine, and containers commonly have their own.
// The other process counts only if it runs as the same user, as root, or as the owner of the file
// at path. Any other user might only want to block the ledger.
//
// Copies that two other users have open are not detected. No copy is detected if another user has
// taken the name of the lock; Options.Logger then gets a warning. The same is true if a process may
// not create a Unix socket. [Options.Checkpoint] protects against these copies, and against copies
// on other machines or opened one after the other.
//
// If ctx ends before the ledger is open, Open releases what it has, and returns the error of ctx.
// After Open has returned, ctx has no effect.
//
// Open for writing may have claimed a journal elsewhere ([Options.Journal]) even if it returns an
// error. The host that had the ledger then stops ([api.ErrStopped]), and this host has not opened
// it. Nothing that was committed is lost. Open the ledger again, here or on another host.
func Open(ctx context.Context, path string, options Options) (l *Ledger, err error) {
	if err := errs.Context(ctx); err != nil {
		return nil, err
	}
	backend := request.BackendOf(ctx)
	if backend.Store != nil {
		l, err = openStore(ctx, backend.Store, options)
	} else {
		l, err = openFile(ctx, path, options, backend.Apart)
	}
	if err != nil {
		return nil, err
	}
	l.requests.DrawBy(backend.Draws)
	return l, nil
}

// openFile opens the ledger in a file. If apart is true, the file is treated like one on another
// machine: copies of it that are open on this machine are not detected.
func openFile(ctx context.Context, path string, options Options, apart bool) (l *Ledger, err error) {
	if options.Standby && options.Journal == nil {
		return nil, errs.Invalid("open %s: a standby needs a journal to follow", path)
	}
	s, err := bolt.Open(path, options.ReadOnly && !options.Standby)
	if err != nil {
		return nil, err
	}
	defer func() {
		// This also runs when a function of the host has panicked.
		if l == nil {
			err = fmt.Errorf("open %s: %w", path, errors.Join(err, s.Close()))
		}
	}()
	return openClaimed(ctx, s, journals(s.Path(), options), options, s.Path(), apart)
}

// openClaimed opens the ledger in the store s of the file at path. If it is opened for writing and
// apart is false, openClaimed claims the ledger on this machine before anything is written. A
// damaged copy is reported before the error that another copy is open. After an error, the caller
// must close the store.
func openClaimed(
	ctx context.Context, s kv.Store, j engine.Journals, options Options, path string, apart bool,
) (*Ledger, error) {
	l, err := readStore(ctx, s, j, options)
	if err == nil && !l.engine.ReadOnly && !apart {
		l.engine.Claim, err = engine.ClaimLedger(l.documents.About.ID, path, &l.engine.Log)
	}
	if err != nil {
		return nil, err
	}
	l.file = path
	// release closes the journal and gives up the claim. It also runs if a function of the host
	// panics in begin.
	release := func() { err = errors.Join(err, l.engine.Abort()) }
	if err = callback.OrClean(func() error { return l.begin(ctx, options) }, release); err != nil {
		release()
		return nil, err
	}
	return l, nil
}

// openStore opens the ledger in a store that cannot be copied, and whose commits are durable
// without a journal.
func openStore(ctx context.Context, s kv.Store, options Options) (*Ledger, error) {
	if options.Journal != nil || options.Standby {
		return nil, errs.Invalid("a ledger in memory has no journal: leave Options.Journal and Options.Standby unset")
	}
	l, err := readStore(ctx, s, nil, options)
	if err != nil {
		return nil, err
	}
	return l, l.begin(ctx, options)
}

// readStore creates the ledger for a store, checks the options, and reads the first records. j
// finds the journal; it is nil for a store without one. It writes nothing. Events that are only in
// the journal are not read yet.
func readStore(
	ctx context.Context, s kv.Store, j engine.Journals, options Options,
) (l *Ledger, err error) {
	options.ReadOnly = options.ReadOnly || options.Standby
	l = &Ledger{
		options: options,
		rules:   rules.Rules{ReadOnly: options.ReadOnly, Patience: options.TruthTimeout},
	}
	l.requests.Engine, l.requests.Rules, l.requests.MaxTrueValues = &l.engine, &l.rules, rules.MaxTrueValues
	l.requests.Sampler = new(mechanism.Sampler)
	l.documents.Engine, l.documents.Signer, l.documents.Known = &l.engine, options.Signer, options.Verifiers
	if err := options.check(); err != nil {
		return nil, err
	}
	l.engine.Room, l.engine.Standby, l.engine.Observer = options.Memory, options.Standby, options.Observer
	l.engine.WithoutJournal = options.WithoutJournal
	leap := engine.ClockLeap{Allowed: options.ClockLeap, Confirmed: options.ClockAhead}
	if err := l.engine.Begin(s, j, options.Logger, options.Now, options.ReadOnly, leap); err != nil {
		return nil, err
	}
	err = l.engine.View(ctx, func(s *state.State) (err error) {
		if l.documents.About, err = readHead(s); err != nil {
			return err
		}
		journal, err := s.Payload(state.BucketMeta, []byte(state.KeyJournal))
		// If the file names a journal, its later events are not read yet, and begin makes this
		// check.
		if err == nil && journal == nil {
			err = l.checkTrusted(s, options)
		}
		return err
	})
	if err == nil {
		l.engine.SetLedger(l.documents.About.ID)
		l.requests.ID, l.requests.Currency = l.documents.About.ID, l.documents.About.Currency
		err = l.documents.CheckSigner()
	}
	return l, err
}

// check returns [api.ErrInvalid] for settings that are never possible.
func (o *Options) check() error {
	switch {
	case o.Memory < 0:
		return errs.Invalid("Options.Memory is %d bytes: it must not be negative", o.Memory)
	case o.TruthTimeout < 0:
		return errs.Invalid("Options.TruthTimeout is %v: it must not be negative; 0 sets no limit", o.TruthTimeout)
	case o.WithoutJournal && (!o.ReadOnly || o.Standby || o.Journal != nil || o.Signer != nil):
		return errs.Invalid("Options.WithoutJournal needs ReadOnly, and excludes Standby, Journal and Signer")
	}
	return errs.NilPointers("Options.", "Observer", o.Observer, "Signer", o.Signer, "Verifiers", o.Verifiers)
}

// begin completes the opening of a ledger that [readStore] has read. It folds the events that are
// only in the journal, checks the checkpoint of the host, and sets the host's keys. New keys are
// recorded. Then it starts publishing.
func (l *Ledger) begin(ctx context.Context, options Options) error {
	var truthKey []byte
	err := l.engine.Recover(ctx, engine.Checks{Audit: l.auditCopy, Admit: func(s *state.State) (err error) {
		l.engine.SetDurable(s.Counters.Position)
		// A log that ends inside a transaction can still be read, but not continued.
		if !l.engine.ReadOnly {
			err = s.Counters.CheckWhole()
		}
		if err == nil {
			err = l.checkTrusted(s, options)
		}
		if err == nil {
			truthKey, err = s.Payload(state.BucketMeta, []byte(state.KeyTruthKey))
			// The record is only valid during this transaction.
			truthKey = bytes.Clone(truthKey)
		}
		return err
	}})
	if err != nil {
		return err
	}
	if err := l.useKeys(ctx, options.TruthKey, truthKey, options.NoiseKey); err != nil {
		return err
	}
	return l.startPublishing(options.Publish)
}

// useKeys checks the host's keys against the keys of the ledger, and records new keys: all of them,
// or none. truth is the host's truth key, or nil. check is the record by which the ledger
// recognizes its truth key; it is nil if the ledger has none.
func (l *Ledger) useKeys(ctx context.Context, truth, check []byte, noise api.NoiseKeys) error {
	var fresh []event.Change
	if l.rules.HasTruthKey = check != nil || truth != nil; truth != nil {
		set, err := l.rules.UseTruthKey(l.documents.About.ID, truth, check)
		if err != nil {
			return err
		}
		fresh = append(fresh, set...)
	}
	known, err := engine.Read(ctx, &l.engine, (*state.State).NoiseKeys)
	if err != nil {
		return err
	}
	set, err := l.rules.UseNoiseKeys(noise, known)
	if err != nil {
		return err
	}
	if fresh = append(fresh, set...); len(fresh) == 0 || l.engine.ReadOnly {
		return nil
	}
	_, _, err = l.engine.Submit(ctx, func(*state.State) ([]event.Change, error) { return fresh, nil })
	return err
}

// checkTrusted checks that the log extends the host's checkpoint. It returns a [*api.RollbackError]
// if not, and nil without a checkpoint.
func (l *Ledger) checkTrusted(s *state.State, options Options) error {
	if options.Checkpoint == nil {
		return nil
	}
	trusted, err := evidence.OpenCheckpoint(options.Checkpoint, options.Verifiers)
	if err != nil {
		return err
	}
	return l.documents.CheckExtends(s, trusted)
}

// readHead reads the record that describes the ledger. It returns [api.ErrCorrupt] if there is
// none.
func readHead(s *state.State) (event.About, error) {
	head, found, err := state.Lookup(s, state.BucketMeta, []byte(state.KeyAbout), event.DecodeAbout)
	if err != nil || !found {
		return head, errs.Corrupt(err, "the first record is missing")
	}
	return head, nil
}

// Close waits for running commits, writes them to the file, removes the journal, and releases the
// file. Later calls return [api.ErrClosed]. If Close fails, or the ledger has stopped, the journal
// is kept, and the next [Open] continues from it.
func (l *Ledger) Close() error {
	if !l.engine.Queue.Close() {
		return api.ErrClosed
	}
	l.publisher.Close()
	return l.engine.Close()
}

// About returns the settings that the ledger was created with.
func (l *Ledger) About() api.About {
	a := &l.documents.About
	return api.About{
		ID: uuid.UUID(a.ID).String(), Created: a.At, Currency: a.Currency, LogKey: a.LogKey, Origin: a.Origin(),
		MissingJournal: l.engine.MissingJournal,
	}
}
