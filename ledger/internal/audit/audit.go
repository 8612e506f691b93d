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

// The kinds of findings. Findings about the records of a bucket have the kind bucketKind.
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

// Ledger is a ledger to audit.
type Ledger interface {
	// Origin returns the name of the log in its checkpoints.
	Origin() string
	// Now returns the time of the ledger's clock.
	Now() time.Time
	// Inspect runs fn on a snapshot, even of a damaged file. It calls fault for each part of the
	// file that cannot be read.
	Inspect(ctx context.Context, fault func(kv.Fault), fn func(kv.Reader) error) error
}

// Request has the parameters of an audit. The zero value only counts the findings.
type Request struct {
	Checkpoints    [][]byte                 // signed checkpoints that the log must extend
	Verifiers      note.Verifiers           // the keys for Checkpoints
	Report         func(Finding)            // called for each finding, in the order found
	Progress       func(done, total uint64) // called with the number of events read and of events known to exist
	Exhausted      bool                     // whether to count objects whose budget is exhausted
	MissingJournal string                   // the name of the journal without which the ledger is open, or ""
}

// Finding is one difference between the log and what is stored. Its fields are documented at
// [api.Finding].
type Finding struct {
	Kind     string // kind of thing that it concerns, such as "object"
	Event    uint64 // number of an event, 0 for none
	Object   string // name of an object, if it concerns one
	Question string // name of a question, if it concerns one
	Text     string // for people
}

// Result has the results of an audit.
type Result struct {
	api.Head
	Objects   uint64 // objects in the log
	Problems  uint64 // number of findings
	Exhausted uint64 // objects that have spent their whole cap, if Request.Exhausted was set
}

// Run folds the log of a ledger again and compares the result with what is stored. It returns an
// error only if the audit could not be completed; differences are findings.
func Run(ctx context.Context, l Ledger, r Request, at Pace) (done Result, err error) {
	a := &auditor{
		ended:    func() error { return errs.Context(ctx) },
		ledger:   l,
		request:  r,
		pace:     at,
		reported: map[faultID]bool{},
		events:   pipeline{newBatch(), newBatch()},
	}
	if err := a.openCheckpoints(); err != nil {
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

// Pace limits the work and the memory of the audit. A step is the work in one snapshot of the
// ledger.
type Pace struct {
	// Memory is about how many bytes of the state are kept in memory before they are spilled.
	// During a spill, up to as many again are in memory. With garbage, the heap grows to about four
	// times Memory.
	Memory   int
	Events   int    // that one step folds
	Bytes    int    // of the events that one step folds
	Records  int    // that one step compares
	Batch    int    // events that are decoded together
	Problems int    // findings after which a step ends, because they are kept until then
	Rest     func() // called after each batch of events or records
}

// Usual returns the pace for production. It limits snapshots to fractions of a second. More memory
// would not make the audit of a large log much faster. Rest lets other goroutines use the
// processor. Without it, commits would repeatedly be delayed by some ten milliseconds.
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

// folded returns the empty store that the state of the fold is kept in. What exceeds p.Memory is
// spilled to a temporary file.
func (p Pace) folded() (*memtable.Table, error) {
	return memtable.Over(bolt.NewTemporary(""), memtable.Options{Limit: int64(p.Memory), Newest: true})
}

// auditor is an audit in progress. Each step reads one snapshot. It folds more of the log. When the
// fold has all events of the snapshot, it compares more of the stored records with the fold. So
// every record is compared with the fold of exactly the events that it was stored with.
type auditor struct {
	ended     func() error // returns the error of the context, once that has ended
	ledger    Ledger
	request   Request
	pace      Pace
	trusted   []api.Head      // checkpoints not reached yet, in ascending order of their sizes
	folded    *memtable.Table // the records of the fold
	source    *foldStore      // the store of fold: reads events from the log, and keeps the other records in folded
	fold      *state.State    // the state that the events read so far result in
	events    pipeline        // batches of events between reading and folding
	nextKey   []byte          // the key of the next event to read
	tree      treeCheck       // the Merkle tree of the events read so far
	latest    event.Kind      // the kind of the last event that could be read
	isAssumed bool            // the open sale in the counters is only assumed, see openAssumed
	total     uint64          // number of events known to exist
	position  place           // where the comparison continues
	done      bool            // the whole log is folded, and everything is compared
	head      api.Head        // of the log, once done

	horizon      time.Time   // later events are in the future
	futureEvents uint64      // number of events in the future
	firstFuture  event.Event // the first of these

	found    []Finding // findings of this step
	problems uint64    // findings of earlier steps
	reported map[faultID]bool

	exhausted uint64 // objects that have spent their whole cap
}

// mostAhead is the tolerated difference between the clocks of hosts and auditors.
const mostAhead = 5 * time.Minute

// mostFaults limits the faults of the file that are remembered in auditor.reported.
const mostFaults = 10_000

// faultID identifies a fault of the file, so that it is reported only once.
type faultID struct{ bucket, from, text string }

// place is a position among all records: a key in the bucket with an index.
type place struct {
	bucket int
	from   []byte
}

// openCheckpoints opens the checkpoints of the request, and keeps those of this log in a.trusted,
// sorted by size. It reports those of other logs. It returns an error for a checkpoint that cannot
// be trusted.
func (a *auditor) openCheckpoints() error {
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

// begin writes the record of the format to the empty store, and creates the state that the log is
// folded into. It also compares the checkpoints of an empty log.
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

// step does the next part of the audit in one snapshot. It folds more of the log or, once the fold
// has all events of the snapshot, compares more of the stored records. It reports its findings
// after the snapshot is closed, so that a slow Report does not keep the snapshot open.
func (a *auditor) step(ctx context.Context) error {
	a.horizon = a.ledger.Now().Add(mostAhead)
	err := a.ledger.Inspect(ctx, a.fault, func(r kv.Reader) error {
		a.source.log = r
		caughtUp, err := a.foldSome(ctx, r)
		// The log may grow between two steps, so each step folds first.
		if err != nil || !caughtUp {
			return err
		}
		return a.source.update(func() error { return a.compareSome(r) })
	})
	if err != nil {
		return err
	}
	a.flushFindings()
	return nil
}

// flushFindings passes the findings of a step to Report, and the number of events to Progress.
func (a *auditor) flushFindings() {
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

// report adds a finding to those of this step.
func (a *auditor) report(p Finding) {
	p.Object = strings.Clone(p.Object) // the name may share memory with many other names
	a.found = append(a.found, p)
}

// reportEvent reports a fault of the log at an event.
func (a *auditor) reportEvent(number uint64, format string, args ...any) {
	a.report(Finding{Kind: problemEvent, Event: number, Text: fmt.Sprintf(format, args...)})
}

// isFull reports whether a step must end because it has many findings.
func (a *auditor) isFull() bool { return len(a.found) >= a.pace.Problems }

// fault reports a part of the file that cannot be read, unless it was reported before.
func (a *auditor) fault(f kv.Fault) {
	id := faultID{f.Bucket, string(f.From), f.Text}
	if a.reported[id] {
		return
	}
	// Bounds the memory. Then a fault may be reported a second time.
	if len(a.reported) >= mostFaults {
		clear(a.reported)
	}
	a.reported[id] = true
	text := f.Text
	if f.Bucket != "" {
		text += fmt.Sprintf(", in the bucket %q", f.Bucket)
	}
	p := a.about(f.Bucket, f.From)
	p.Kind = problemFile
	p.Text = text
	a.report(p)
}

// reportRollback reports that the log, which has the head found, does not extend the checkpoint c.
func (a *auditor) reportRollback(c, found api.Head) {
	e := api.RollbackError{Checkpoint: c, Ledger: found}
	a.report(Finding{Kind: problemCheckpoint, Event: e.Checkpoint.Events, Text: e.Error()})
}

// checkTrusted is called each time the tree has grown. It compares the tree with the checkpoint of
// its size, and reports a difference. It also reports the checkpoints that cannot be compared,
// because the events at their size are missing.
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

// finish completes the audit, after the whole log was folded and all records were compared. It
// reports what only the end of the log shows, and sets the head of the result.
func (a *auditor) finish() {
	a.reportMissing(a.fold.Counters.Events+1, a.total)
	a.checkEnd()
	a.checkClock()
	// These checkpoints have more events than the log.
	for _, c := range a.trusted {
		a.reportRollback(c, api.Head{Origin: c.Origin, Events: a.tree.size})
	}
	a.checkJournal()
	root, known := a.tree.root()
	if !known {
		root = tlog.Hash{} // the root of a log with missing events
	}
	a.head = api.Head{Origin: a.ledger.Origin(), Events: a.tree.size, Root: root}
	a.done = true
}

// noteFuture counts an event if it is in the future, and keeps the first one. An event is in the
// future if it is more than mostAhead after the ledger's clock.
func (a *auditor) noteFuture(ev *event.Event) {
	if !ev.Time.After(a.horizon) {
		return
	}
	if a.futureEvents++; a.futureEvents == 1 {
		a.firstFuture = event.Event{Number: ev.Number, Time: ev.Time}
	}
}

// checkClock reports the events that are in the future.
func (a *auditor) checkClock() {
	if a.futureEvents > 0 {
		first, now := a.firstFuture.Time, a.horizon.Add(-mostAhead).UTC() // the time of the clock
		text := fmt.Sprintf("%d events are in the future, from event %d of %s on; the clock says %s",
			a.futureEvents, a.firstFuture.Number, first.Format(time.RFC3339Nano), now.Format(time.RFC3339Nano))
		a.report(Finding{Kind: ProblemClock, Event: a.firstFuture.Number, Text: text})
	}
}

// checkJournal reports that the log may continue in a missing journal, because an audit of the file
// alone is no audit of the ledger.
func (a *auditor) checkJournal() {
	if name := a.request.MissingJournal; name != "" {
		text := fmt.Sprintf("the journal %s is missing: the log is verified up to event %d, the last checkpoint of "+
			"the file; later events are only in the journal, and their number is unknown", name, a.tree.size)
		a.report(Finding{Kind: problemJournal, Event: a.tree.size, Text: text})
	}
}

// checkEnd reports a log that ends inside a request, or with erased events that no forgotten event
// accounts for.
func (a *auditor) checkEnd() {
	n := a.fold.Counters
	if n.Events > 0 && !endsTransaction(a.latest) {
		a.reportEvent(n.Events,
			"the log ends with an event of the kind %s, but a complete request ends with its settled event", a.latest)
	}
	if n.Erased != (state.Erasure{}) {
		a.reportEvent(n.Events,
			"%d events are erased, which sold for %d and cost %d nano-nats, but no forgotten event accounts for them",
			n.Erased.Events, n.Erased.Earned, n.Erased.Spent)
		// n is a copy. CheckWhole should not report the erased events again.
		n.Erased = state.Erasure{}
	}
	if err := n.CheckWhole(); err != nil {
		a.reportEvent(n.Events, "the log ends inside a request: %s", reason(err))
	}
}

// endsTransaction reports whether an event of a kind may be the last one of a log.
func endsTransaction(k event.Kind) bool {
	return k == event.KindSettled || k == event.KindCreated || k == event.KindTruthKey || k == event.KindNoiseKey
}

// reason returns the text of an error without the prefix of ErrCorrupt.
func reason(err error) string {
	return strings.ReplaceAll(err.Error(), errs.ErrCorrupt.Error()+": ", "")
}
