package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

// LostError is returned if a later position was acknowledged than the journal holds. Possible
// causes are a database that was restored from an older backup, or a failover to a standby that
// lagged. It is a [journal.ErrLost], or a [journal.ErrForked] if the journal has other events at
// that position.
type LostError struct {
	End          journal.Position // where the journal ends
	Acknowledged journal.Position // the latest position that is known to be acknowledged
	Host         string           // the host whose mark has that position
}

// Error describes which events are lost, and what the operator can do. Either the journal ends
// before the acknowledged position, or it has other events up to there.
func (e *LostError) Error() string {
	const then = "restore the database that has them; only if there is none, accept the loss (AcceptLoss): lost " +
		"responses may then be drawn a second time"
	if e.Acknowledged.Events > e.End.Events {
		return fmt.Sprintf("%v: host %s acknowledged up to event %d (root %x); the journal ends with event %d "+
			"(root %x), so events %d to %d are lost; %s",
			journal.ErrLost, e.Host, e.Acknowledged.Events, e.Acknowledged.Root[:], e.End.Events, e.End.Root[:],
			e.End.Events+1, e.Acknowledged.Events, then)
	}
	return fmt.Sprintf("%v: host %s acknowledged up to event %d (root %x); the journal has other events up to "+
		"there, and ends with event %d (root %x); %s",
		journal.ErrForked, e.Host, e.Acknowledged.Events, e.Acknowledged.Root[:], e.End.Events, e.End.Root[:], then)
}

// Unwrap returns [journal.ErrLost] or [journal.ErrForked].
func (e *LostError) Unwrap() error {
	if e.Acknowledged.Events > e.End.Events {
		return journal.ErrLost
	}
	return journal.ErrForked
}

// Claim implements [journal.Journal.Claim]. It takes the journal only if this host can continue it.
// First, this host must have the key of every segment, or get it from another host
// ([keyholder.ErrNoKey]). Second, the journal must have everything that was acknowledged
// ([LostError]).
func (j *Journal) Claim(ctx context.Context) (term uint64, end journal.Position, err error) {
	err = j.call(ctx, func(ctx context.Context) error {
		if err := j.writing.Lock(ctx); err != nil {
			return err
		}
		defer j.writing.Unlock()
		if err := j.ready(ctx); err != nil {
			return err
		}
		if err := j.claim(ctx); err != nil {
			j.term = 0
			return fmt.Errorf("claim the journal: %w", err)
		}
		term, end = j.term, j.end
		return nil
	})
	return term, end, err
}

// claim takes the journal for this handle, and records the end that it found with the key holders.
// The current writer may begin segments concurrently, which makes an attempt fail with errMoved.
// Then claim tries again, with the marks that the hosts have recorded since. It gives up after
// [mostTries] attempts during which no segment was begun, or when ctx ends. The caller must hold
// the writing lock.
func (j *Journal) claim(ctx context.Context) error {
	j.writer.close() // so that this handle sends no more statements of an earlier term
	j.writer, j.segment, j.fresh = nil, nil, nil
	seen, err := j.askMarks(ctx)
	if err != nil {
		return err
	}
	// begun is the counter of segments and cuts that take has read in this try. before is that of
	// the try in which it last changed; tries is the number of tries since then.
	for tries, before := 1, uint64(0); ; tries++ {
		begun, err := j.take(ctx, seen)
		if err == nil {
			break
		}
		if tries == mostTries || !errors.Is(err, errMoved) {
			return err
		}
		if begun != before { // the writer has begun a segment: try again, until this host is faster
			tries, before = 0, begun
			if seen, err = j.askMarks(ctx); err != nil { // what was acknowledged since then must be in the journal, too
				return err
			}
		}
	}
	j.number = 0 // segments are numbered within a term
	if j.sender == nil {
		j.startMarkSender()
	}
	j.sender.send(keyholder.Mark{Term: j.term, Position: j.end})
	return j.recordMark(ctx)
}

// mostTries limits the tries of a claim during which no segment was begun.
const mostTries = 20

// errMoved is returned if the term was not raised. Nothing has changed then.
var errMoved = errors.New("the journal is gone, or was changed concurrently, or the session has lost its settings; " +
	poolMode)

// orMoved returns errMoved if err says that the key of the segment id is destroyed, and the journal
// no longer has that segment. Then it was trimmed concurrently, and the caller can try again. It
// returns err unchanged in all other cases. If it cannot read the journal, it adds that error to
// err.
func (j *Journal) orMoved(ctx context.Context, id keyholder.Segment, err error) error {
	if !errors.Is(err, keyholder.ErrDestroyed) {
		return err
	}
	v, failed := j.readView(ctx, journal.Position{})
	if failed != nil {
		return errors.Join(err, failed)
	}
	if slices.ContainsFunc(v.segments, func(s span) bool { return s.Segment == id }) {
		return err
	}
	return fmt.Errorf("%w: %w", errMoved, err)
}

// take makes one attempt to take the journal, if this host can continue it. seen is what the hosts
// have recorded about the journal. It returns the counter of segments that were begun and of cuts,
// as it was when the attempt began.
//
// It returns errMoved if the counter has changed since, because this host may lack the key of a new
// segment. On success j.writer, j.term and j.end are set.
func (j *Journal) take(ctx context.Context, seen []answer[acknowledged]) (begun uint64, err error) {
	v, err := j.readView(ctx, journal.Position{})
	if err != nil {
		return 0, err
	}
	accept, err := j.checkLoss(ctx, v, seen)
	if err != nil {
		return 0, err
	}
	for _, s := range v.segments { // key also stores on this host a copy of each key that it lacks
		if _, err := j.key(ctx, s.Segment); err != nil {
			return v.begun, j.orMoved(ctx, s.Segment, err)
		}
	}
	highest := uint64(0)
	for _, host := range seen {
		highest = max(highest, host.found.term)
	}
	if j.writer, err = j.borrow(ctx); err != nil {
		return 0, err
	}
	if err := j.raise(ctx, v, highest, accept); err != nil {
		j.writer.close()
		j.writer = nil
		return v.begun, err
	}
	return v.begun, nil
}

// acknowledged is what a host has recorded about the journal.
type acknowledged struct {
	mark keyholder.Mark // the highest mark
	term uint64         // the highest term of any call
}

// askMarks asks all hosts what they have recorded about the journal, and returns the answers of
// those that can be reached. It returns an error only if the key holder of this host fails.
func (j *Journal) askMarks(ctx context.Context) (all []answer[acknowledged], err error) {
	for i, a := range ask(ctx, patience, j.holders(),
		func(ctx context.Context, h keyholder.Holder) (a acknowledged, err error) {
			a.mark, a.term, err = h.Seen(ctx, j.Name())
			return a, err
		}) {
		if i == 0 && a.err != nil { // the first one is this host
			return nil, a.err
		}
		if a.err == nil {
			all = append(all, a)
		}
	}
	return all, nil
}

// checkLoss compares the marks that the hosts have recorded with the journal. It returns false and
// nil if the journal has everything that was acknowledged. If it lacks something, checkLoss returns
// a [*LostError]. If [Options.AcceptLoss] is the end of the journal, it then returns true and nil
// instead.
func (j *Journal) checkLoss(ctx context.Context, v view, seen []answer[acknowledged]) (accept bool, err error) {
	for _, host := range seen {
		m := host.found.mark
		if m.Term == 0 || m.Term < v.conceded || m.Position.Events < v.begin.Events {
			continue // no mark; or the loss was accepted; or it was trimmed, so bases have it
		}
		// This view also shows whether a group ends at the mark.
		at, err := j.readView(ctx, m.Position)
		if err != nil {
			return false, err
		}
		if at.begin.Events > m.Position.Events || at.checkPosition(m.Position) == nil {
			continue
		}
		lost := &LostError{End: at.end, Acknowledged: m.Position, Host: host.of.Name()}
		if j.AcceptLoss == nil || *j.AcceptLoss != v.end {
			return false, lost
		}
		accept = true
	}
	return accept, nil
}

// raise raises the term in the database above the present one and above highest, which makes this
// handle the writer. It returns errMoved, and has changed nothing, in three cases: a segment was
// begun since the view v, the journal is gone, or the session has lost its settings.
//
// accept means that the operator accepts a loss: then marks of lower terms do not count any more,
// and the journal must still end where v shows.
func (j *Journal) raise(ctx context.Context, v view, highest uint64, accept bool) error {
	var term uint64
	var end journal.Position
	args := []any{j.ledger, j.id, highest, accept, j.Host, v.end.Events, v.end.Root[:], v.begun}
	claimed := j.releaseBlockers(ctx, j.writer.pid)
	err := j.writer.ask(ctx, claimSQL, args, (*number)(&term), (*number)(&end.Events), (*root)(&end.Root))
	claimed()
	if err == nil && term == 0 {
		err = errMoved
	}
	if err != nil {
		return err
	}
	j.term, j.claimed, j.end = term, term, end
	return nil
}

// releaseEvery is how often a waiting claim ends sessions that block it.
const releaseEvery = 250 * time.Millisecond

// releaseBlockers ends the sessions of hosts that hang inside a transaction that blocks the session
// of the server process pid. It works in the background, every [releaseEvery], until the returned
// function is called.
//
// A host that stopped between BEGIN and COMMIT locks the head of the journal, its row in the table
// heads, which the claim must change. The server rolls its transaction back, so a late COMMIT
// changes nothing. That host then resolves the outcome of its append as usual.
func (j *Journal) releaseBlockers(ctx context.Context, pid int32) (over func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(releaseEvery):
			}
			// If this fails, the claim waits until the server ends the transaction.
			_, _ = j.change(ctx, releaseSQL, pid)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}
