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
	// for each failure (error). They tell the idempotency key, the buyer, the sale, the first and
	// the last event, how many requests shared the commit and how long it took, as far as there are
	// such. Failures of the journal and of checkpoints are told, too. Lines come from several
	// goroutines, outside of commits. A panic of its writer or of a hook is reported as zerolog
	// reports the error of a writer. The zero value is silent. No line contains a true value.
	Logger zerolog.Logger
	// Observer is told of each commit, refusal and audit, in numbers. nil costs nothing. See
	// [Ledger.Health], too.
	Observer observe.Observer
	// Now is the clock; nil means [time.Now]. It is read when a request is handed in, outside of
	// the commit. It may jump. Times in the log never run back; what policies allow is what they
	// allowed by the time the clock says, even if the log is ahead of it. The first and last day of
	// a sale, and reservations and what comes of them, go by the log's time.
	Now func() time.Time
	// ClockLeap is how far the clock may be ahead of the log's last event for anything to be
	// written; 0 is 366 days. A clock further ahead is refused with a [*api.ClockError], before a
	// request is decided, unless ClockAhead says that it is right: one event by a wrong clock would
	// let every reservation lapse, and close every dated sale, for good. Reads show what would be
	// at the time that the clock says, and change nothing. The ledger knows no clock but Now: a
	// host that writes every day sets some days here, to notice a wrong clock sooner.
	ClockLeap time.Duration
	// ClockAhead is a person's word that the clock is right up to this time, after a ledger was
	// left alone for long, say. It must come from a person who has looked, never from a clock. It
	// is needed once: what is then written moves the log on.
	ClockAhead time.Time
	// TruthKey, if set, makes the ledger keep a keyed hash of each chain's true value and refuse to
	// raise the chain for another value, as if there were none ([api.NoTruth]; the caller is told whose
	// value has changed, see [api.RaiseResult]; [Ledger.BeginEpoch] begins anew about the new one). It
	// is at least 16 bytes long, secret, and stays with the host: the file holds only what
	// recognizes it. Once a ledger has been opened with a key, Open refuses any other
	// ([api.ErrTruthKey]); opened without it, the ledger draws nothing from truths ([api.NoTruthKey]), and
	// goes on to sell again and to derive. Chains drawn from before are bound at their next raise.
	TruthKey []byte
	// NoiseKey, if set, draws the responses of new chains from a key of the host's, so that a lost
	// file can be made again with the same responses: read first what that costs.
	NoiseKey api.NoiseKeys
	// TruthTimeout is how long one call of an [api.TruthFunc] may take. Then its context ends, what
	// it returns later is not used, and the request fails with [api.ErrTruthFailed] and without any
	// change. 0 sets no limit. The ledger waits for a source that ignores its context all the same.
	TruthTimeout time.Duration
	// Signer signs checkpoints, receipts and statements; the key stays with the host. Its name must
	// be [api.About.Origin]. It may be another key than the one the ledger was created with: then those
	// who verify need that one's verifier. A signature is verified before it is handed out if the
	// key is the log key or one of Verifiers; else the host must see to it. nil signs nothing.
	Signer note.Signer
	// Checkpoint is the newest checkpoint that the host has, from wherever it keeps them, and
	// Verifiers are the keys that it may be signed by. If the file is not a continuation of it, an
	// older copy, say, Open refuses with a [*api.RollbackError] before anything can be drawn. nil
	// checks nothing.
	Checkpoint []byte
	Verifiers  note.Verifiers // the keys for Checkpoint; may have the Signer's
	// Publish says when checkpoints are signed without being asked for, and who gets them. It needs
	// a Signer.
	Publish Publishing
	// ReadOnly opens the file for reading; several processes may do so at a time, if none writes.
	ReadOnly bool
	// WithoutJournal, with ReadOnly, opens a file whose journal is missing as the last checkpoint
	// left it: what only the journal has is missing, and unknown in number. [api.About.MissingJournal]
	// says so, [Ledger.Verify] reports it, and a copy is refused as the file is. Nothing is signed.
	// A journal that is there is read as usual, and refused if it is not the file's. A journal
	// elsewhere is not looked for: leave Journal out.
	WithoutJournal bool
	// Standby opens the ledger for reading, and follows the host that has the Journal, which must
	// be one that hosts can follow ([journal.Follower]): what that one commits is shown here soon
	// after, and comes into the file, which must be a copy of that one's ([Ledger.Backup]). There
	// must be a journal already. What this file has, the journal may destroy. [Ledger.TakeOver]
	// goes on with the ledger here. Calls that change something return [api.ErrReadOnly]. Each result
	// says as of which event it is. When the journal cannot be read for a while, the standby shows
	// what it has and tries again, and the log says so; when it is not what it was, the standby
	// stops ([api.ErrStopped]).
	Standby bool
	// Memory is how many bytes of what was committed last are kept in memory, about, until they are
	// written to the file in the background; 0 is 64 MiB. They are durable all the same, in the
	// journal. Commits wait before there is twice as much, unless a single request is so large.
	// After a crash Open folds so much again. To write them takes some 100 MiB besides, or less
	// with less memory (docs/performance.md has figures).
	Memory int64
	// Journal, if set, opens the journal of the ledger where it is kept instead of beside the file,
	// so that it may outlive this machine. If there is none yet, nor does the file name one, it
	// makes one that begins where the file ends, but not for a standby. Once the ledger was opened
	// for writing so, the file names the journal, and is opened with it alone. Open for writing
	// claims it: no other process goes on with it, and no older copy of the file draws a second
	// time. Open for reading folds what is there, in memory. [Ledger.Forget] trims it; what becomes
	// of the bytes, the journal says. The ledger closes it. Its context is that of [Open], which may
	// end before the ledger is closed; the journal must not depend on it after the function returns.
	// Package pgjournal, below ledger/journal, keeps one in PostgreSQL.
	Journal func(context.Context, journal.Wanted) (journal.Journal, error)
}

// Ledger is an open ledger. Its methods may be called concurrently; calls that change it share
// commits. Close it when done.
type Ledger struct {
	engine    engine.Engine
	rules     rules.Rules
	documents documents.Maker
	// requests executes those that change the ledger.
	requests request.Executor

	publisher *documents.Publisher // nil if nothing is published
	objects   sync.Pool            // of *objectReader, for the next reader
	file      string               // its path, resolved; "" in memory
	// options are those of a standby, for who takes over.
	options      Options
	reservations openReservations // that hold
	takingOver   sync.Mutex
}

// CreateOptions are what a ledger is created with, for good. The zero value is ready for use.
type CreateOptions struct {
	// Currency is the code of the currency that prices are in, 1 to 256 bytes; "" for USD.
	Currency string
	// LogKey is the verifier key, in the form of [note.NewVerifier], of the key by which the host
	// signs the log; "" for none. It is recorded, and its name becomes the log's; whoever verifies
	// should have the key from the host, not from the file.
	LogKey string
}

// Create makes a new, empty ledger file. A symbolic link to a file that does not exist is followed.
// It returns [fs.ErrExist] when there is a file already, or the journal of another ledger beside
// it, and [api.ErrInvalid] for options that cannot be, an empty path, and the path of a ledger's key,
// journal or other file. At any moment there is either no file or a whole one. It bears the time of
// this machine's clock, and no log runs back: a ledger made by a clock that is far ahead is of no
// use, and to be made again ([Ledger.Verify] tells).
func Create(ctx context.Context, path string, options CreateOptions) error {
	if err := errs.Context(ctx); err != nil {
		return err
	}
	if _, err := note.NewVerifier(options.LogKey); err != nil && options.LogKey != "" {
		return errs.Invalid("the log key: %w", err)
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

// format writes the beginning of a ledger to an empty store.
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
// and symbolic links are resolved once: the working directory may change later. A link that leads
// elsewhere later is an [api.ErrReplaced]. From the first change on a directory with the name of the
// real file and .journal after it holds what was committed last; [Ledger.Close] brings the file up
// to date and removes it. After a crash it is left: opened for writing, the ledger is brought up to
// date first, which takes some microseconds for each event; opened for reading, in memory, and
// nothing is written. File and journal that do not belong together are [api.ErrJournal]. The directory
// may be a symbolic link. The journal may also be elsewhere ([Options.Journal]).
//
// A file that is not the one which was written to last, but a copy of it, is verified first, as by
// [Ledger.Verify], if it is opened for writing or has a journal: it may have been copied while it
// was written to. What does not hold together is [api.ErrCorrupt].
//
// It returns [fs.ErrNotExist], [api.ErrInUse], [api.ErrCorrupt], [api.ErrJournal], [api.ErrVersion], [api.ErrTruthKey],
// [api.ErrNoiseKey], [api.ErrCheckpoint], [*api.RollbackError] or [api.ErrInvalid] as they apply. An ErrInUse comes
// within a second. If a function of the host panics, the panic continues when all is released.
//
// Two copies of a ledger that are both drawn from release two independent responses of the same
// objects. So, on Linux, ErrInUse is also returned if a copy of the ledger, a file with the same
// [api.About.ID], is open for writing; the text names the process. That reaches as far as a network
// namespace of one machine, and containers commonly have their own. It counts only if that process
// runs as the same user, as root, or as the owner of the file at path: any other user may only want
// to block the ledger. Copies opened by two other users are not noticed, nor any where another user
// has taken the name (Options.Logger gets a warning) or a process may not make a Unix socket.
// Against these, and copies elsewhere or opened one after the other, there is [Options.Checkpoint].
//
// If ctx ends before the ledger is open, Open releases what it has, and returns the error of ctx.
// Afterwards the end of ctx means nothing.
//
// Open for writing may have claimed a journal elsewhere ([Options.Journal]) when it returns an
// error: the host that had the ledger then stops ([api.ErrStopped]), and this one has not opened it.
// Nothing that was committed is lost. Open it again, here or on another host.
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

// openFile opens the ledger in a file. If apart, the file counts as one on another machine: copies
// of it that are open here are not noticed.
func openFile(ctx context.Context, path string, options Options, apart bool) (l *Ledger, err error) {
	if options.Standby && options.Journal == nil {
		return nil, errs.Invalid("open %s: a standby needs a journal to follow", path)
	}
	s, err := bolt.Open(path, options.ReadOnly && !options.Standby)
	if err != nil {
		return nil, err
	}
	defer func() {
		if l == nil { // also when a function of the host has panicked
			err = fmt.Errorf("open %s: %w", path, errors.Join(err, s.Close()))
		}
	}()
	return openClaimed(ctx, s, journals(s.Path(), options), options, s.Path(), apart)
}

// openClaimed opens the ledger in a file and, if it is for writing and not apart, claims it before
// anything is written. A fault of a copy is reported before the fact that another one is open.
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
	release := func() { err = errors.Join(err, l.engine.LetGo()) }
	if err = callback.OrClean(func() error { return l.begin(ctx, options) }, release); err != nil {
		release()
		return nil, err
	}
	return l, nil
}

// openStore opens the ledger in a store that nobody can have a copy of, and whose commits are
// durable by themselves.
func openStore(ctx context.Context, s kv.Store, options Options) (*Ledger, error) {
	if options.Journal != nil || options.Standby {
		return nil, errs.Invalid("a ledger in memory has no journal, and none to follow")
	}
	l, err := readStore(ctx, s, nil, options)
	if err != nil {
		return nil, err
	}
	return l, l.begin(ctx, options)
}

// readStore reads what every ledger begins with. It writes nothing.
func readStore(
	ctx context.Context, s kv.Store, j engine.Journals, options Options,
) (l *Ledger, err error) {
	options.ReadOnly = options.ReadOnly || options.Standby
	l = &Ledger{
		options: options,
		rules:   rules.Rules{ReadOnly: options.ReadOnly, Patience: options.TruthTimeout},
	}
	l.requests.Engine, l.requests.Rules, l.requests.MostTold = &l.engine, &l.rules, rules.MostTold
	l.requests.Sampler = new(mechanism.Sampler)
	l.documents.Engine, l.documents.Signer, l.documents.Known = &l.engine, options.Signer, options.Verifiers
	if err := options.check(); err != nil {
		return nil, err
	}
	l.engine.Room, l.engine.Standby, l.engine.Observer = options.Memory, options.Standby, options.Observer
	l.engine.Alone = options.WithoutJournal
	leap := engine.Leap{Allowed: options.ClockLeap, Confirmed: options.ClockAhead}
	if err := l.engine.Begin(s, j, options.Logger, options.Now, options.ReadOnly, leap); err != nil {
		return nil, err
	}
	err = l.engine.View(ctx, func(s *state.State) (err error) {
		if l.documents.About, err = readHead(s); err != nil {
			return err
		}
		journal, err := s.Payload(state.BucketMeta, []byte(state.KeyJournal))
		if err == nil && journal == nil { // else it is not all there yet
			err = l.checkTrusted(s, options)
		}
		return err
	})
	if err == nil {
		l.engine.Of(l.documents.About.ID)
		l.requests.ID, l.requests.Currency = l.documents.About.ID, l.documents.About.Currency
		err = l.documents.CheckSigner()
	}
	return l, err
}

// check refuses settings that cannot be.
func (o *Options) check() error {
	switch {
	case o.Memory < 0:
		return errs.Invalid("Options.Memory is %d bytes", o.Memory)
	case o.TruthTimeout < 0:
		return errs.Invalid("Options.TruthTimeout is %v; 0 sets no limit", o.TruthTimeout)
	case o.WithoutJournal && (!o.ReadOnly || o.Standby || o.Journal != nil || o.Signer != nil):
		return errs.Invalid("Options.WithoutJournal is for ReadOnly, without Standby, Journal and Signer")
	}
	return errs.NilPointers("Options.", "Observer", o.Observer, "Signer", o.Signer, "Verifiers", o.Verifiers)
}

// begin brings the ledger to where its journal ends, sets the host's keys, which may write, and
// begins to publish.
func (l *Ledger) begin(ctx context.Context, options Options) error {
	var truthKey []byte
	err := l.engine.Recover(ctx, engine.Checks{Audit: l.auditCopy, Admit: func(s *state.State) (err error) {
		l.engine.Found(s.Counters.Position)
		if !l.engine.ReadOnly {
			err = s.Counters.CheckWhole()
		}
		if err == nil {
			err = l.checkTrusted(s, options)
		}
		if err == nil {
			truthKey, err = s.Payload(state.BucketMeta, []byte(state.KeyTruthKey))
			truthKey = bytes.Clone(truthKey) // it is needed when other transactions have come
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

// useKeys checks the host's keys against the ledger's, and makes those that are new the ledger's:
// all of them, or none. check recognizes the ledger's truth key; nil if it has none.
func (l *Ledger) useKeys(ctx context.Context, truth, check []byte, noise api.NoiseKeys) error {
	var fresh []event.Change
	if l.rules.Bound = check != nil || truth != nil; truth != nil {
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

// checkTrusted holds the log against the host's checkpoint, if there is one.
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

// readHead reads what stands at the head of every ledger.
func readHead(s *state.State) (event.About, error) {
	head, found, err := state.Lookup(s, state.BucketMeta, []byte(state.KeyAbout), event.DecodeAbout)
	if err != nil || !found {
		return head, errs.Corrupt(err, "the first record is missing")
	}
	return head, nil
}

// Close waits for running commits, brings the file up to date, removes the journal, and releases
// the file. Calls made afterwards return [api.ErrClosed]. If Close fails, or the ledger has stopped,
// the journal stays, and the next [Open] goes on from it.
func (l *Ledger) Close() error {
	if !l.engine.Queue.Close() {
		return api.ErrClosed
	}
	l.publisher.Close()
	return l.engine.Close()
}

// About returns what the ledger was created with.
func (l *Ledger) About() api.About {
	a := &l.documents.About
	return api.About{
		ID: uuid.UUID(a.ID).String(), Created: a.At, Currency: a.Currency, LogKey: a.LogKey, Origin: a.Origin(),
		MissingJournal: l.engine.Missing,
	}
}
