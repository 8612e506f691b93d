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

// LostError says that somebody was told more than the journal holds: the database was restored from
// an older backup, say, or failed over to a standby that lagged. It is a [journal.ErrLost], or a
// [journal.ErrForked] if the journal has gone another way since.
type LostError struct {
	End  journal.Position // where the journal ends
	Told journal.Position // how far somebody was told
	Host string           // which host knows that
}

// Error says which events are lost, and what can be done.
func (e *LostError) Error() string {
	const then = "bring back the database that has them; only if nobody can, accept the loss (AcceptLoss): whoever " +
		"was told them is then asked again"
	if e.Told.Events > e.End.Events {
		return fmt.Sprintf("%v: by %s, somebody was told up to event %d (root %x); the journal ends with event %d "+
			"(root %x), so events %d to %d are lost; %s",
			journal.ErrLost, e.Host, e.Told.Events, e.Told.Root[:], e.End.Events, e.End.Root[:], e.End.Events+1,
			e.Told.Events, then)
	}
	return fmt.Sprintf("%v: by %s, somebody was told up to event %d (root %x); the journal has other events up to "+
		"there, and ends with event %d (root %x); %s",
		journal.ErrForked, e.Host, e.Told.Events, e.Told.Root[:], e.End.Events, e.End.Root[:], then)
}

// Unwrap returns the sort of the error.
func (e *LostError) Unwrap() error {
	if e.Told.Events > e.End.Events {
		return journal.ErrLost
	}
	return journal.ErrForked
}

// Claim is [journal.Journal.Claim]. Before it takes the journal from anybody, it sees to it that
// this host can go on with it: it has the key of every segment, or gets it from another host
// ([keyholder.ErrNoKey]); and the journal has all that somebody was told ([LostError]).
func (j *Journal) Claim(ctx context.Context) (term uint64, end journal.Position, err error) {
	err = j.call(ctx, func(ctx context.Context) error {
		if err := j.writing.Take(ctx); err != nil {
			return err
		}
		defer j.writing.Leave()
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

func (j *Journal) claim(ctx context.Context) error {
	j.writer.close() // nothing of an earlier term is under way from here, but in the database
	j.writer, j.segment, j.fresh = nil, nil, nil
	seen, err := j.seen(ctx)
	if err != nil {
		return err
	}
	for tries, before := 1, uint64(0); ; tries++ {
		begun, err := j.take(ctx, seen)
		if err == nil {
			break
		}
		if tries == mostTries || !errors.Is(err, errMoved) {
			return err
		}
		if begun != before { // whoever has the journal goes on, however often: the next try may be the faster one
			tries, before = 0, begun
			if seen, err = j.seen(ctx); err != nil { // also what was told meanwhile must be there
				return err
			}
		}
	}
	j.number = 0
	if j.teller == nil {
		j.startTelling()
	}
	j.teller.tell(keyholder.Mark{Term: j.term, Position: j.end})
	return j.say(ctx)
}

// mostTries is how often a claim begins again although no segment was begun meanwhile.
const mostTries = 20

// errMoved says that the term was not raised, and nothing else has happened.
var errMoved = errors.New("the journal is gone, has gone on meanwhile, or the settings of the session are not those " +
	"that it was given; " + poolMode)

// orMoved is errMoved in place of an error, if that is because a segment was trimmed meanwhile.
func (j *Journal) orMoved(ctx context.Context, id keyholder.Segment, err error) error {
	if !errors.Is(err, keyholder.ErrDestroyed) {
		return err
	}
	v, failed := j.look(ctx, journal.Position{})
	if failed != nil {
		return errors.Join(err, failed)
	}
	if slices.ContainsFunc(v.segments, func(s span) bool { return s.Segment == id }) {
		return err
	}
	return fmt.Errorf("%w: %w", errMoved, err)
}

// take takes the journal, if this host can go on with what is there, and returns how many segments
// were begun before. One that is begun meanwhile is errMoved: its key may not lie here.
func (j *Journal) take(ctx context.Context, seen []answer[acknowledged]) (begun uint64, err error) {
	v, err := j.look(ctx, journal.Position{})
	if err != nil {
		return 0, err
	}
	accept, err := j.missed(ctx, v, seen)
	if err != nil {
		return 0, err
	}
	for _, s := range v.segments {
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

// acknowledged is what a host knows of the journal.
type acknowledged struct {
	mark keyholder.Mark // the highest
	term uint64         // the highest of any call
}

// seen asks all hosts what they know of the journal. This host must answer, the others need not.
func (j *Journal) seen(ctx context.Context) (all []answer[acknowledged], err error) {
	for i, a := range ask(ctx, patience, j.holders(),
		func(ctx context.Context, h keyholder.Holder) (a acknowledged, err error) {
			a.mark, a.term, err = h.Seen(ctx, j.Name())
			return a, err
		}) {
		if i == 0 && a.err != nil {
			return nil, a.err
		}
		if a.err == nil {
			all = append(all, a)
		}
	}
	return all, nil
}

// missed says whether the journal holds less than somebody was told. It tells whether that is to be
// accepted.
func (j *Journal) missed(ctx context.Context, v view, seen []answer[acknowledged]) (accept bool, err error) {
	for _, host := range seen {
		m := host.found.mark
		if m.Term == 0 || m.Term < v.conceded || m.Position.Events < v.begin.Events {
			continue // nobody was told; or it was accepted; or who has the rest has folded it
		}
		at, err := j.look(ctx, m.Position)
		if err != nil {
			return false, err
		}
		if at.begin.Events > m.Position.Events || at.where(m.Position) == nil {
			continue
		}
		lost := &LostError{End: at.end, Told: m.Position, Host: host.of.Name()}
		if j.AcceptLoss == nil || *j.AcceptLoss != v.end {
			return false, lost
		}
		accept = true
	}
	return accept, nil
}

// raise raises the term.
func (j *Journal) raise(ctx context.Context, v view, highest uint64, accept bool) error {
	var term uint64
	var end journal.Position
	args := []any{j.ledger, j.id, highest, accept, j.Host, v.end.Events, v.end.Root[:], v.begun}
	claimed := j.releasing(ctx, j.writer.pid)
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

// releaseEvery is how often a claim that waits looks for a session that it can end.
const releaseEvery = 250 * time.Millisecond

// releasing ends, until the function that it returns is called, the sessions of hosts that hang
// inside a transaction which blocks a session: a host that stopped between BEGIN and COMMIT holds
// the head of the journal. Its transaction is rolled back, so its COMMIT, however late, changes
// nothing; it then finds out as usual what became of its append.
func (j *Journal) releasing(ctx context.Context, pid int32) (over func()) {
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
