package ledger

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/scratch"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Problem is one difference that [Ledger.Verify] found.
type Problem struct {
	// Kind says what it is about:
	//   file        how the file keeps its records: what cannot be read, or is not as it was written
	//   checkpoint  the log is not a continuation of the checkpoint
	//   event       an event is missing, damaged, or cannot follow on those before it
	//   tree        a hash of the tree is not that of the event, or of the hashes below it
	//   ledger      what the ledger was created with, its format, its truth key
	//   clock       events lie in the future: a clock was wrong when they were written, or is now
	//   counters    the sums over the log, the revenue among them
	//   question, policy, object, chain, answers, buyer, sale, request, tally, stranger
	//               the stored record of one of them
	Kind string `json:"kind"`
	// Event is the event concerned. Of a record it is the last one known to have changed it; 0 is none.
	Event    uint64 `json:"event,omitempty"`
	Object   string `json:"object,omitempty"`
	Question string `json:"question,omitempty"`
	Text     string `json:"text"` // value by value: "spent is 0.5, the events say 0.7"
}

// The kinds of problems that are not those of one bucket.
const (
	problemFile       = "file"
	problemCheckpoint = "checkpoint"
	problemEvent      = "event"
	problemTree       = "tree"
	problemLedger     = "ledger"
	problemCounters   = "counters"
	problemClock      = "clock"
)

// VerifyRequest says how to verify. The zero value verifies, and counts the problems.
type VerifyRequest struct {
	// Checkpoints are signed by one of the keys in Verifiers. The log must extend each of them.
	Checkpoints [][]byte
	Verifiers   note.Verifiers
	// Report is called for each problem, in the order found. It may use the ledger.
	Report func(Problem)
	// Progress is called now and then with the number of events read and of those known to be there.
	Progress func(done, total uint64)
}

// Verification tells what was verified.
type Verification struct {
	evidence.Head        // the log
	Objects       uint64 `json:"objects"`
	Problems      uint64 `json:"problems"` // 0 if all is as it should be
}

// Verify makes the whole state anew from the events alone, and compares it with what is stored: the tree hash
// by hash, and then every chain, level, balance, price, sum, tally, answer and idempotency record, value by
// value. It checks each event against those before it, by the same rules by which events are recorded: budgets
// and ceilings, prices and terms of sale, how each response came about, what belongs together. It reports
// every difference, not only the first.
//
// What no problem proves: the log is one that this package can have written; the state is what it says; no
// byte of a record was changed, and no event dropped, repeated or moved, by anybody who did not write the
// whole rest of the log anew, tree hashes and state included. Against that, and against an older copy of the
// file, only a checkpoint helps that is kept elsewhere: with it, no event before it was changed by anybody, or
// replaced by another. An event before it may have been erased, and to whom erased events belonged cannot be told:
// whoever writes the file by other means than this package could erase somebody's events in the name of somebody
// else who is forgotten. An earlier statement about the object shows that, or the receipt of a buyer.
// Verify needs no secret and no truth. So it does not tell whether responses were drawn from the truth, nor
// whether the draws were random, nor who is behind an object; and of what was forgotten there is left only
// what [Ledger.Forget] says.
//
// Events that lie more than five minutes ahead of the clock ([Options.Now]) are a problem, which names the first of them and
// says how many there are: sales that are dated by then are closed for good, and reservations have lapsed.
//
// It reads in short snapshots, writes nothing, and can run beside anything else, on a ledger opened for
// reading, too. Its memory does not grow with the log: what does not fit goes to temporary files. Damaged
// parts of the file are reported and left out. An error says that the audit could not be carried out:
// [ErrCheckpoint] for a checkpoint that cannot be trusted, [ErrClosed], [ErrStopped], the error of ctx, those
// of disks.
func (l *Ledger) Verify(ctx context.Context, r VerifyRequest) (Verification, error) {
	return l.verify(ctx, r, usualPace())
}

// pace bounds what the audit does at a time.
type pace struct {
	memory   int // bytes of the state that are kept in memory, about; the heap grows to about three times that
	events   int // that a step folds
	bytes    int // of these events
	records  int // that a step compares
	batch    int // events that are decoded together
	problems int // after which a step ends: they are kept until then
}

// usualPace keeps snapshots to fractions of a second. With more memory a large log is not verified much faster.
func usualPace() pace {
	return pace{memory: 64 << 20, events: 1 << 16, bytes: 16 << 20, records: 1 << 17, batch: 64, problems: 10_000}
}

func (l *Ledger) verify(ctx context.Context, r VerifyRequest, at pace) (done Verification, err error) {
	a := &auditor{ledger: l, request: r, pace: at, seen: map[faultID]bool{}}
	if err := a.trust(); err != nil {
		return done, err
	}
	if a.scratch, err = scratch.New("", at.memory); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, a.scratch.Close()) }()
	a.decoder = startDecoder()
	defer a.decoder.stop()
	if err := a.begin(); err != nil {
		return done, err
	}
	for !a.done {
		if err := a.step(ctx); err != nil {
			return done, fmt.Errorf("verify: %w", err)
		}
	}
	return Verification{a.head, a.fold.Counters.Objects, a.problems}, nil
}

// auditor is a Verify being carried out. Each step reads one snapshot: it folds more of the log and then, once
// it has caught up with the snapshot, compares more of what is stored with the fold. So every record is
// compared with the fold of exactly the events that it was stored with.
type auditor struct {
	ledger  *Ledger
	request VerifyRequest
	pace    pace
	trusted []evidence.Head // checkpoints by rising size, those still to come
	scratch *scratch.Scratch
	source  *foldStore
	fold    *state.State
	decoder *decodeWorker
	behind  []byte // where to read events on
	tree    treeCheck
	latest  event.Kind // of the last event that could be read
	loose   bool       // the sale in the counters is only assumed to be open
	total   uint64     // events known to be there
	at      place      // where the comparison is
	done    bool
	head    evidence.Head

	horizon  time.Time   // what lies behind it is in the future
	early    uint64      // events that do
	earliest event.Event // the first of them

	found    []Problem // by this step
	problems uint64    // told before
	seen     map[faultID]bool
}

// mostAhead is how far the clocks of hosts and auditors may be apart.
const mostAhead = 5 * time.Minute

// mostFaults is how many faults of the file are remembered.
const mostFaults = 10_000

// faultID is a fault of the file, to report it once.
type faultID struct{ bucket, from, text string }

// place is one among all records: those of the bucket with this index, from a key on.
type place struct {
	bucket int
	from   []byte
}

// trust reads the checkpoints.
func (a *auditor) trust() error {
	origin := a.ledger.about.Origin()
	for _, signed := range a.request.Checkpoints {
		c, err := evidence.OpenCheckpoint(signed, a.request.Verifiers)
		if err != nil {
			return err
		}
		if c.Origin != origin {
			a.reportRollback(evidence.RollbackError{Checkpoint: c, Ledger: evidence.Head{Origin: origin}})
			continue
		}
		a.trusted = append(a.trusted, c)
	}
	slices.SortStableFunc(a.trusted, func(c, d evidence.Head) int { return cmp.Compare(c.Events, d.Events) })
	return nil
}

// begin makes the empty state that the log is folded into.
func (a *auditor) begin() error {
	a.source = &foldStore{scratch: a.scratch}
	format := binary.BigEndian.AppendUint16([]byte(formatName), formatVersion)
	if err := a.scratch.Put(state.BucketMeta, []byte(state.KeyFormat), format); err != nil {
		return err
	}
	a.fold = &state.State{Reader: a.source, Writer: a.source, Plain: true, Levels: state.LevelPage{Page: make([]state.Level, 256)}, Known: &state.Cache{}, Near: make([]state.NearTally, 1<<state.NearBits)}
	a.checkTrusted()
	return nil
}

// step reads one snapshot. What it found is told outside of it.
func (a *auditor) step(ctx context.Context) error {
	a.horizon = a.ledger.clock().Add(mostAhead)
	err := a.ledger.inspect(ctx, a.fault, func(r kv.Reader) error {
		a.source.log = r
		caughtUp, err := a.foldSome(ctx, r)
		if err != nil || !caughtUp {
			return err
		}
		return a.compareSome(r)
	})
	if err == nil {
		err = a.ledger.commits.awaitSeen(ctx, a.fold.Counters.Events)
	}
	if err != nil {
		return err
	}
	a.tell()
	return nil
}

func (a *auditor) tell() {
	a.problems += uint64(len(a.found))
	if a.request.Report != nil {
		for _, p := range a.found {
			a.request.Report(p)
		}
	}
	a.found = nil
	if a.request.Progress != nil {
		done := a.fold.Counters.Events
		a.request.Progress(done, max(done, a.total))
	}
}

func (a *auditor) report(p Problem) {
	p.Object = strings.Clone(p.Object) // it may share its memory with many others
	a.found = append(a.found, p)
}

func (a *auditor) full() bool { return len(a.found) >= a.pace.problems }

// fault reports a part of the file that cannot be read, once.
func (a *auditor) fault(f kv.Fault) {
	id := faultID{f.Bucket, string(f.From), f.Text}
	if a.seen[id] {
		return
	}
	if len(a.seen) >= mostFaults {
		clear(a.seen)
	}
	a.seen[id] = true
	text := f.Text
	if f.Bucket != "" {
		text += fmt.Sprintf(", in the bucket %q", f.Bucket)
	}
	p := a.about(f.Bucket, f.From)
	p.Kind = problemFile
	p.Text = text
	a.report(p)
}

// inspect runs fn on a snapshot, of a damaged file too.
func (l *Ledger) inspect(ctx context.Context, fault func(kv.Fault), fn func(kv.Reader) error) error {
	if err := errors.Join(ctx.Err(), l.commits.check()); err != nil {
		return err
	}
	last := l.last.Load()
	look := func(r kv.Reader) error {
		if s, err := state.ReadState(r); err == nil && s.Counters.Events > 0 { // else the file is damaged, which is for fn to say
			if err := last.check(s.Counters.Position); err != nil {
				return err
			}
		}
		return fn(r)
	}
	var err error
	if from, ok := l.store.(kv.Inspector); ok {
		err = from.Inspect(fault, look)
	} else {
		err = l.store.View(look)
	}
	l.stopIfOverwritten(err)
	if stopped := l.commits.check(); err != nil && stopped != nil {
		return stopped // the store was closed before the snapshot was taken
	}
	return err
}

// awaitSeen waits until a commit that a snapshot may have shown is durable. Unlike awaitDurable it does not
// wait for events that nobody is writing: the log may have been tampered with.
func (c *committer) awaitSeen(ctx context.Context, event uint64) error {
	err := c.await(ctx, func() bool { return c.durable >= event || c.failure != nil || !c.leading })
	if err != nil {
		return err
	}
	return c.check()
}

func (a *auditor) reportRollback(e evidence.RollbackError) {
	a.report(Problem{Kind: problemCheckpoint, Event: e.Checkpoint.Events, Text: e.Error()})
}

// checkTrusted holds the tree against the checkpoints of its size, and those that it has gone past.
func (a *auditor) checkTrusted() {
	for len(a.trusted) > 0 && a.trusted[0].Events <= a.tree.size {
		c := a.trusted[0]
		a.trusted = a.trusted[1:]
		root, known := a.tree.root()
		switch failure := (evidence.RollbackError{Checkpoint: c, Ledger: evidence.Head{Origin: c.Origin, Events: c.Events, Root: root}}); {
		case c.Events < a.tree.size || !known:
			a.report(Problem{Kind: problemCheckpoint, Event: c.Events, Text: fmt.Sprintf("the checkpoint of %d events cannot be compared: events are missing", c.Events)})
		case root != c.Root:
			a.reportRollback(failure)
		}
	}
}

// finish ends the audit, at the end of the log and of what is stored.
func (a *auditor) finish() {
	a.reportMissing(a.fold.Counters.Events+1, a.total)
	a.checkEnd()
	a.checkClock()
	for _, c := range a.trusted {
		a.reportRollback(evidence.RollbackError{Checkpoint: c, Ledger: evidence.Head{Origin: c.Origin, Events: a.tree.size}})
	}
	root, known := a.tree.root()
	if !known {
		root = tlog.Hash{}
	}
	a.head = evidence.Head{Origin: a.ledger.about.Origin(), Events: a.tree.size, Root: root}
	a.done = true
}

// note counts an event that lies in the future.
func (a *auditor) note(ev *event.Event) {
	if !ev.Time.After(a.horizon) {
		return
	}
	if a.early++; a.early == 1 {
		a.earliest = event.Event{Number: ev.Number, Time: ev.Time}
	}
}

// checkClock reports the events that lie in the future.
func (a *auditor) checkClock() {
	if a.early > 0 {
		a.report(Problem{Kind: problemClock, Event: a.earliest.Number, Text: fmt.Sprintf("%d events lie in the future, from event %d of %s on; the clock says %s",
			a.early, a.earliest.Number, a.earliest.Time.Format(time.RFC3339Nano), a.ledger.clock().UTC().Format(time.RFC3339Nano))})
	}
}

// checkEnd reports a log that ends in the midst of what belongs together, or has erased events that no forgotten
// event accounts for.
func (a *auditor) checkEnd() {
	n := a.fold.Counters
	if n.Events > 0 && !endsTransaction(a.latest) {
		a.report(Problem{Kind: problemEvent, Event: n.Events, Text: fmt.Sprintf("the log ends with an event of the kind %s; that of a whole request ends with its settled event", a.latest)})
	}
	if n.Erased != (state.Erasure{}) {
		a.report(Problem{Kind: problemEvent, Event: n.Events, Text: fmt.Sprintf("%d events are erased, which sold for %d and cost %d nano-nats, and nobody was forgotten for them", n.Erased.Events, n.Erased.Earned, n.Erased.Spent)})
		n.Erased = state.Erasure{}
	}
	if err := n.CheckWhole(); err != nil {
		a.report(Problem{Kind: problemEvent, Event: n.Events, Text: "the log ends in the midst of what belongs together: " + reason(err)})
	}
}

// endsTransaction tells whether an event of a kind may be the last one of a log.
func endsTransaction(k event.Kind) bool {
	return k == event.KindSettled || k == event.KindCreated || k == event.KindTruthKey || k == event.KindNoiseKey
}

// reason is the text of an error that says why something cannot be.
func reason(err error) string {
	return strings.ReplaceAll(err.Error(), ErrCorrupt.Error()+": ", "")
}
