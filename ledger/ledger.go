package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Options are the settings of an open ledger. The zero value is ready for use.
type Options struct {
	// Logger gets one line a commit (debug), and one for each refusal (info) and failure (error). The
	// zero value is silent. No line contains a true value.
	Logger zerolog.Logger
	// Now is the clock; nil means [time.Now]. It may jump. Times in the log never run back; what policies
	// allow is what they allowed by the time the clock says, even if the log is ahead of it.
	Now func() time.Time
	// ClockLeap is how far the clock may be ahead of the log's last event for anything to be written; 0 is 366 days. A
	// clock further ahead is refused with a [*ClockError], before a request is decided, unless ClockAhead says that it is
	// right: one event by a wrong clock would let every reservation lapse, and close every dated sale, for good.
	// Reads show what would be at the time that the clock says, and change nothing.
	ClockLeap time.Duration
	// ClockAhead is a person's word that the clock is right up to this time, after a ledger was left alone for long, say. It
	// must come from a person who has looked, never from a clock. It is needed once: what is then written moves the log on.
	ClockAhead time.Time
	// TruthKey, if set, makes the ledger keep a keyed hash of each chain's true value and refuse to
	// raise the chain for another value, as if there were none ([NoTruth]; the caller is told whose value has changed, see
	// [RaiseResult]; [Ledger.BeginEpoch] begins anew about the new one). It is at least 16 bytes long, secret, and stays with the host: the file holds only what recognizes it.
	// Once a ledger has been opened with a key, Open refuses any other ([ErrTruthKey]); opened without it, the ledger
	// draws nothing from truths ([NoTruthKey]), and goes on to sell again and to derive. Chains drawn from before are
	// bound at their next raise.
	TruthKey []byte
	// NoiseKey, if set, draws the responses of new chains from a key of the host's, so that a lost file can be made
	// again with the same responses: read first what that costs.
	NoiseKey NoiseKeys
	// TruthTimeout is how long one call of a [TruthFunc] may take. Its context ends then; what it returns
	// later is not used, and the request fails without any change. 0 sets no limit. A source that does not
	// heed its context is waited for all the same.
	TruthTimeout time.Duration
	// Signer signs checkpoints, receipts and statements; the key stays with the host. Its name must be
	// [About.Origin]. It may be another key than the one the ledger was created with: then those who verify need
	// that one's verifier. nil signs nothing.
	Signer note.Signer
	// Checkpoint is the newest checkpoint that the host has, from wherever it keeps them, and Verifiers are
	// the keys that it may be signed by. If the file is not a continuation of it, an older copy, say, Open
	// refuses with a [*RollbackError] before anything can be drawn. nil checks nothing.
	Checkpoint []byte
	Verifiers  note.Verifiers
	// Publish says when checkpoints are signed without being asked for, and who gets them. It needs a Signer.
	Publish Publishing
	// ReadOnly opens the file for reading; several processes may do so at a time, if none writes.
	ReadOnly bool
}

// About tells what a ledger was created with.
type About struct {
	ID       string    `json:"id"`       // a random UUID
	Created  time.Time `json:"created"`  // by the clock of the machine
	Currency string    `json:"currency"` // such as "USD"
	LogKey   string    `json:"log_key"`  // the verifier key of the log, if the host gave one
	Origin   string    `json:"origin"`   // what checkpoints call the log: the name of that key, or one made of the ID
}

// Ledger is an open ledger. Its methods may be called concurrently; calls that change it share
// commits. Close it when done.
type Ledger struct {
	store  kv.Store
	log    zerolog.Logger
	clock  func() time.Time
	about  event.About
	binder *binder // nil without a truth key
	bound  bool    // the ledger has a truth key, whether or not it was opened with it
	only   bool    // read-only
	// patience is how long a source of truths may take for a batch; 0 for ever.
	patience time.Duration
	leap     leap

	signer    note.Signer
	publisher *publisher // nil if nothing is published

	commits committer
	last    atomic.Pointer[mark] // of the last commit, or where the log ended when the file was opened
	noise   noises               // does not change after Open
	sampler *rrchain.Sampler     // used by the one goroutine that commits
	outputs *finite.Sampler      // likewise, for questions with a mechanism of their own
	queries *mechanism.Sampler   // likewise
	holds   holds
	known   state.Cache
	views   views
	// mostTold is the constant of that name, or a test's.
	mostTold int
	desk     state.Desk     // used by the one goroutine that commits
	recent   *state.Recency // likewise
	edge     *merkle.Edge   // of the log as committed last, used by the one goroutine that commits; nil if not known
	salts    func([]byte)   // fills memory for some salts; nil for random bytes
	claim    *claim         // on the id, so that no copy is open for writing too; nil if this one is not, or has no file
}

// Create makes a new, empty ledger file. It returns [fs.ErrExist] when there is a file already. At
// any moment there is either no file or a whole one. It bears the time of this machine's clock, and no log runs back: a
// ledger made by a clock that is far ahead is of no use, and to be made again ([Ledger.Verify] tells). currency is the code of the currency that
// prices are in ("" for USD); logKey is the verifier key, in the form of [note.NewVerifier], of the key by which
// the host signs the log, or "" for none. It is recorded, and its name becomes the log's; whoever verifies
// should have the key from the host, not from the file.
func Create(path, currency, logKey string) error {
	if _, err := note.NewVerifier(logKey); err != nil && logKey != "" {
		return errs.Invalid("the log key: %w", err)
	}
	return bolt.Create(path, func(w kv.Writer) error { return format(w, time.Now(), currency, logKey) })
}

// format writes the beginning of a ledger to an empty store.
func format(w kv.Writer, now time.Time, currency, logKey string) error {
	if currency == "" {
		currency = "USD"
	}
	if err := errors.Join(names.Check("currency", currency), event.CheckTime(now)); err != nil {
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
	if _, _, err := fold.Record(s, []event.Change{&event.Created{ID: id, Currency: currency, LogKey: logKey}}); err != nil {
		return err
	}
	return fold.Flush(s)
}

// Open opens the ledger in an existing file and locks it against other processes. It returns
// [fs.ErrNotExist], [ErrInUse], [ErrCorrupt], [ErrVersion], [ErrTruthKey], [ErrNoiseKey], [ErrCheckpoint], [*RollbackError] or
// [ErrInvalid] as they apply. An ErrInUse comes within a second.
//
// Two copies of a ledger that are both drawn from tell two independent responses about the same people. So, on Linux,
// ErrInUse also meets who opens a ledger for writing while a copy of it, a file with the same [About.ID], is open for
// writing, in this process or another; the text says in which. That reaches as far as a network namespace of one
// machine, and containers commonly have their own. Any user of the machine who knows the ID can cause it. Where a
// process may not make a Unix socket, no copy is noticed. Against copies elsewhere, or opened one after the other,
// there is [Options.Checkpoint].
func Open(path string, options Options) (*Ledger, error) {
	s, err := bolt.Open(path, options.ReadOnly)
	if err != nil {
		return nil, err
	}
	l, err := openClaimed(s, options)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Join(err, s.Close()))
	}
	return l, nil
}

// openClaimed opens the ledger in a file and, if it is for writing, claims it before anything is written. What is wrong
// with a copy is told before that another one is open.
func openClaimed(s kv.Store, options Options) (*Ledger, error) {
	l, truthKey, err := readStore(s, options)
	if err == nil && !l.only {
		l.claim, err = claimLedger(l.about.ID)
	}
	if err != nil {
		return nil, err
	}
	if err := l.begin(options, truthKey); err != nil {
		return nil, errors.Join(err, l.claim.release())
	}
	return l, nil
}

// openStore opens the ledger in a store that nobody can have a copy of.
func openStore(s kv.Store, options Options) (*Ledger, error) {
	l, truthKey, err := readStore(s, options)
	if err != nil {
		return nil, err
	}
	return l, l.begin(options, truthKey)
}

// readStore reads what every ledger begins with, and the check of its truth key, if any. It writes nothing.
func readStore(s kv.Store, options Options) (l *Ledger, truthKey []byte, err error) {
	l = &Ledger{store: s, mostTold: mostTold, recent: state.NewRecency(), log: options.Logger, clock: options.Now, only: options.ReadOnly, patience: options.TruthTimeout, leap: leap{options.ClockLeap, options.ClockAhead}, signer: options.Signer, sampler: rrchain.NewSampler(), outputs: finite.NewSampler(), queries: mechanism.NewSampler()}
	if l.clock == nil {
		l.clock = time.Now
	}
	if err := errors.Join(l.leap.check(), s.View(state.CheckVersion)); err != nil {
		return nil, nil, err
	}
	l.commits.durable = math.MaxUint64 // nothing is being committed yet
	err = l.view(context.Background(), func(s *state.State) (err error) {
		l.about, truthKey, err = readHead(s)
		l.commits.durable = s.Counters.Events
		l.last.Store(&mark{Position: s.Counters.Position})
		if err == nil && !l.only {
			err = s.Counters.CheckWhole()
		}
		if err == nil && options.Checkpoint != nil {
			err = l.checkTrusted(s, options)
		}
		return err
	})
	if err == nil {
		err = l.checkSigner()
	}
	return l, truthKey, err
}

// begin sets the host's keys, which may write, and begins to publish.
func (l *Ledger) begin(options Options, truthKey []byte) error {
	if err := l.useKeys(options.TruthKey, truthKey, options.NoiseKey); err != nil {
		return err
	}
	return l.startPublishing(options.Publish)
}

// useKeys checks the host's keys against the ledger's, and makes those that are new the ledger's: all of them, or none.
// check recognizes the ledger's truth key; nil if it has none.
func (l *Ledger) useKeys(truth, check []byte, noise NoiseKeys) error {
	var fresh []event.Change
	if l.bound = check != nil || truth != nil; truth != nil {
		set, err := l.useTruthKey(truth, check)
		if err != nil {
			return err
		}
		fresh = append(fresh, set...)
	}
	set, err := l.useNoiseKeys(noise)
	if err != nil {
		return err
	}
	if fresh = append(fresh, set...); len(fresh) == 0 || l.only {
		return nil
	}
	_, _, err = l.submit(context.Background(), func(*state.State) ([]event.Change, error) { return fresh, nil })
	return err
}

// checkTrusted holds the log against the host's checkpoint.
func (l *Ledger) checkTrusted(s *state.State, options Options) error {
	trusted, err := evidence.OpenCheckpoint(options.Checkpoint, options.Verifiers)
	if err != nil {
		return err
	}
	return l.checkExtends(s, trusted)
}

// readHead reads what stands at the head of every ledger, and the check of its truth key, if any.
func readHead(s *state.State) (head event.About, check []byte, err error) {
	head, found, err := state.Lookup(s, state.BucketMeta, []byte(state.KeyAbout), event.DecodeAbout)
	if err != nil || !found {
		return head, nil, errs.Corrupt(err, "the first record is missing")
	}
	check, err = s.Payload(state.BucketMeta, []byte(state.KeyTruthKey))
	return head, check, err
}

// useTruthKey checks a truth key. It returns the change that makes it the ledger's, unless it is.
func (l *Ledger) useTruthKey(key, check []byte) (set []event.Change, err error) {
	if len(key) < minTruthKey {
		return nil, errs.Invalid("a truth key of %d bytes; it has at least %d", len(key), minTruthKey)
	}
	l.binder = &binder{key: slices.Clone(key), ledger: l.about.ID}
	ours := l.binder.check()
	switch {
	case check == nil:
		return []event.Change{&event.TruthKeySet{Check: ours}}, nil
	case string(check) != string(ours[:]):
		return nil, ErrTruthKey
	}
	return nil, nil
}

// Close waits for running commits and releases the file. Calls made afterwards return [ErrClosed].
func (l *Ledger) Close() error {
	if !l.commits.close() {
		return ErrClosed
	}
	l.publisher.close()
	return errors.Join(l.store.Close(), l.claim.release())
}

// About returns what the ledger was created with.
func (l *Ledger) About() About {
	return About{ID: uuid.UUID(l.about.ID).String(), Created: l.about.At, Currency: l.about.Currency, LogKey: l.about.LogKey, Origin: l.about.Origin()}
}

// questionByName returns a question, or ErrUnknown.
func (l *Ledger) questionByName(s *state.State, name string) (*event.Question, error) {
	number, found, err := s.QuestionNumber(name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("question %.256q: %w", name, ErrUnknown)
	}
	return s.Question(number)
}
