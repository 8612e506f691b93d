package audit

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// The kinds of problems that are not those of one bucket.
const (
	problemFile       = "file"
	problemCheckpoint = "checkpoint"
	problemEvent      = "event"
	problemTree       = "tree"
	problemLedger     = "ledger"
	problemCounters   = "counters"
	problemJournal    = "journal"
	ProblemClock      = "clock"
)

// Ledger is the ledger that is audited.
type Ledger interface {
	// Origin is what its checkpoints call the log.
	Origin() string
	// Now is what its clock says.
	Now() time.Time
	// Inspect runs fn on a snapshot, of a damaged file too, and tells what of it cannot be read.
	Inspect(ctx context.Context, fault func(kv.Fault), fn func(kv.Reader) error) error
}

// Request says how to audit. The zero value counts what is wrong.
type Request struct {
	Checkpoints [][]byte                 // signed, that the log must extend
	Verifiers   note.Verifiers           // the keys for Checkpoints
	Report      func(Finding)            // is called for each finding, in the order found
	Progress    func(done, total uint64) // is called with the number of events read and of those known to be there
	Exhausted   bool                     // whether to count whose budget is exhausted
	Missing     string                   // the name of the journal without which the ledger is open, or ""
}

// Finding is one difference between the log and what is stored. Its fields are
// documented at [api.Finding].
type Finding struct {
	Kind     string // what it is about, such as "object"
	Event    uint64 // by number, 0 for none
	Object   string // by name, if it is about one
	Question string // by name, if it is about one
	Text     string // for people
}

// Result tells what was audited.
type Result struct {
	api.Head
	Objects   uint64 // how many the log has
	Problems  uint64 // how many findings
	Exhausted uint64 // objects that have spent their whole cap, if that was asked for
}

// Run folds the log of a ledger anew and compares what comes out with what is stored.
func Run(ctx context.Context, l Ledger, r Request, at Pace) (done Result, err error) {
	a := &auditor{
		ended:   func() error { return errs.Context(ctx) },
		ledger:  l,
		request: r,
		pace:    at,
		seen:    map[faultID]bool{},
		events:  pipeline{newBatch(), newBatch()},
	}
	if err := a.trust(); err != nil {
		return done, err
	}
	if a.folded, err = at.folded(); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, a.folded.Close()) }()
	if err := a.begin(); err != nil {
		return done, err
	}
	for !a.done {
		if err := a.step(ctx); err != nil {
			return done, fmt.Errorf("verify: %w", err)
		}
	}
	return Result{a.head, a.fold.Counters.Objects, a.problems, a.exhausted}, nil
}

// Pace bounds what the audit does at a time.
type Pace struct {
	// Memory is about how many bytes of the state are kept in memory before they are spilled. While they are
	// written there may be as many again, and with its garbage the heap grows to about four times Memory.
	Memory   int
	Events   int    // that a step folds
	Bytes    int    // of these events
	Records  int    // that a step compares
	Batch    int    // events that are decoded together
	Problems int    // after which a step ends: they are kept until then
	Rest     func() // called after as many events or records as are in a batch
}

// Usual keeps snapshots to fractions of a second. With more memory a large log is not verified much
// faster. Whoever waits for a processor gets it in between: else commits would be late by some ten
// milliseconds, again and again.
func Usual() Pace {
	return Pace{
		Memory:   64 << 20,
		Events:   1 << 16,
		Bytes:    16 << 20,
		Records:  1 << 17,
		Batch:    256,
		Problems: 10_000,
		Rest:     runtime.Gosched,
	}
}

// folded returns the empty state that the log is folded into. Its memtable is spilled to a
// temporary file.
func (p Pace) folded() (*memtable.Table, error) {
	return memtable.Over(bolt.NewTemporary(""), memtable.Options{Limit: int64(p.Memory), Newest: true})
}

// auditor is a Verify being carried out. Each step reads one snapshot: it folds more of the log and
// then, once it has caught up with the snapshot, compares more of what is stored with the fold. So
// every record is compared with the fold of exactly the events that it was stored with.
type auditor struct {
	ended   func() error // the error of the context, once that has ended
	ledger  Ledger
	request Request
	pace    Pace
	trusted []api.Head // checkpoints by rising size, those still to come
	folded  *memtable.Table
	source  *foldStore
	fold    *state.State
	events  pipeline
	behind  []byte // where to read events on
	tree    treeCheck
	latest  event.Kind // of the last event that could be read
	loose   bool       // the sale in the counters is only assumed to be open
	total   uint64     // events known to be there
	at      place      // where the comparison is
	done    bool
	head    api.Head

	horizon  time.Time   // what lies behind it is in the future
	early    uint64      // events that do
	earliest event.Event // the first of them

	found    []Finding // by this step
	problems uint64    // told before
	seen     map[faultID]bool

	exhausted uint64 // objects that can spend nothing more
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
	origin := a.ledger.Origin()
	for _, signed := range a.request.Checkpoints {
		c, err := evidence.OpenCheckpoint(signed, a.request.Verifiers)
		if err != nil {
			return err
		}
		if c.Origin != origin {
			a.reportRollback(c, api.Head{Origin: origin})
			continue
		}
		a.trusted = append(a.trusted, c)
	}
	slices.SortStableFunc(a.trusted, func(c, d api.Head) int { return cmp.Compare(c.Events, d.Events) })
	return nil
}

// begin makes the empty state that the log is folded into.
func (a *auditor) begin() error {
	a.source = &foldStore{state: a.folded}
	format := binary.BigEndian.AppendUint16([]byte(state.FormatName), state.FormatVersion)
	err := a.folded.Update(func(w kv.Writer) error {
		return w.Put(state.BucketMeta, []byte(state.KeyFormat), format)
	})
	if err != nil {
		return err
	}
	a.fold = &state.State{
		Reader: a.source,
		Writer: a.source,
		Plain:  true,
		Levels: state.LevelPage{Page: make([]state.Level, 256)},
		Known:  &state.Cache{All: true},
	}
	a.checkTrusted()
	return nil
}

// step reads one snapshot. What it found is told outside of it.
func (a *auditor) step(ctx context.Context) error {
	a.horizon = a.ledger.Now().Add(mostAhead)
	err := a.ledger.Inspect(ctx, a.fault, func(r kv.Reader) error {
		a.source.log = r
		caughtUp, err := a.foldSome(ctx, r)
		if err != nil || !caughtUp {
			return err
		}
		return a.source.update(func() error { return a.compareSome(r) })
	})
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

func (a *auditor) report(p Finding) {
	p.Object = strings.Clone(p.Object) // it may share its memory with many others
	a.found = append(a.found, p)
}

// reportEvent reports what is wrong with the log at an event.
func (a *auditor) reportEvent(number uint64, format string, args ...any) {
	a.report(Finding{Kind: problemEvent, Event: number, Text: fmt.Sprintf(format, args...)})
}

func (a *auditor) full() bool { return len(a.found) >= a.pace.Problems }

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

// reportRollback reports that the log does not extend a checkpoint.
func (a *auditor) reportRollback(c, found api.Head) {
	e := api.RollbackError{Checkpoint: c, Ledger: found}
	a.report(Finding{Kind: problemCheckpoint, Event: e.Checkpoint.Events, Text: e.Error()})
}

// checkTrusted holds the tree against the checkpoints of its size, and those that it has gone past.
func (a *auditor) checkTrusted() {
	for len(a.trusted) > 0 && a.trusted[0].Events <= a.tree.size {
		c := a.trusted[0]
		a.trusted = a.trusted[1:]
		root, known := a.tree.root()
		switch {
		case c.Events < a.tree.size || !known:
			text := fmt.Sprintf("the checkpoint of %d events cannot be compared: events are missing", c.Events)
			a.report(Finding{Kind: problemCheckpoint, Event: c.Events, Text: text})
		case root != c.Root:
			a.reportRollback(c, api.Head{Origin: c.Origin, Events: c.Events, Root: root})
		}
	}
}

// finish ends the audit, at the end of the log and of what is stored.
func (a *auditor) finish() {
	a.reportMissing(a.fold.Counters.Events+1, a.total)
	a.checkEnd()
	a.checkClock()
	for _, c := range a.trusted {
		a.reportRollback(c, api.Head{Origin: c.Origin, Events: a.tree.size})
	}
	a.checkJournal()
	root, known := a.tree.root()
	if !known {
		root = tlog.Hash{}
	}
	a.head = api.Head{Origin: a.ledger.Origin(), Events: a.tree.size, Root: root}
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
		first, now := a.earliest.Time, a.horizon.Add(-mostAhead).UTC()
		text := fmt.Sprintf("%d events lie in the future, from event %d of %s on; the clock says %s",
			a.early, a.earliest.Number, first.Format(time.RFC3339Nano), now.Format(time.RFC3339Nano))
		a.report(Finding{Kind: ProblemClock, Event: a.earliest.Number, Text: text})
	}
}

// checkJournal reports that the log may go on in a journal that is missing: an audit of the file
// alone is not one of the ledger.
func (a *auditor) checkJournal() {
	if name := a.request.Missing; name != "" {
		text := fmt.Sprintf("the journal %s is missing: this is the log up to event %d, where the file was last "+
			"brought up to date; what only the journal has is not verified, and unknown in number", name, a.tree.size)
		a.report(Finding{Kind: problemJournal, Event: a.tree.size, Text: text})
	}
}

// checkEnd reports a log that ends in the midst of what belongs together, or has erased events that
// no forgotten event accounts for.
func (a *auditor) checkEnd() {
	n := a.fold.Counters
	if n.Events > 0 && !endsTransaction(a.latest) {
		a.reportEvent(n.Events,
			"the log ends with an event of the kind %s; that of a whole request ends with its settled event", a.latest)
	}
	if n.Erased != (state.Erasure{}) {
		a.reportEvent(n.Events,
			"%d events are erased, which sold for %d and cost %d nano-nats, and nobody was forgotten for them",
			n.Erased.Events, n.Erased.Earned, n.Erased.Spent)
		n.Erased = state.Erasure{}
	}
	if err := n.CheckWhole(); err != nil {
		a.reportEvent(n.Events, "the log ends in the midst of what belongs together: %s", reason(err))
	}
}

// endsTransaction tells whether an event of a kind may be the last one of a log.
func endsTransaction(k event.Kind) bool {
	return k == event.KindSettled || k == event.KindCreated || k == event.KindTruthKey || k == event.KindNoiseKey
}

// reason is the text of an error that says why something cannot be.
func reason(err error) string {
	return strings.ReplaceAll(err.Error(), errs.ErrCorrupt.Error()+": ", "")
}
