package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/journal"
)

// unknownError is returned if it is unknown whether a group was appended. It has the cause.
type unknownError struct{ cause error }

// Error returns the text of the cause.
func (e *unknownError) Error() string { return e.cause.Error() }

// unknown closes the session of an append whose outcome is unknown, and returns an [*unknownError].
// Its cause is err, with the reason why ctx has ended if it has.
func (j *Journal) unknown(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	j.writer.close()
	j.writer = nil
	return &unknownError{err}
}

// resolve finds out whether the journal has a group whose outcome is unknown. It returns the result
// of Append: nil if the journal has the group, [journal.ErrRejected] if not. To do so, it raises
// the term. That waits for a transaction that is still appending the group, and fences a statement
// that arrives later. So the end that is returned with the new term is final.
//
// If resolve cannot raise the term, the handle stops. After ErrFenced or ErrRestored it does not
// stop, because then it is known that the journal does not have the group. cause is why the outcome
// was unknown.
func (j *Journal) resolve(ctx context.Context, g journal.Group, frames []frame, cause error) error {
	end, err := j.raiseOwn(ctx, g)
	switch {
	case errors.Is(err, journal.ErrFenced), errors.Is(err, journal.ErrRestored):
		return fmt.Errorf("%w; before: %v", err, cause)
	case err != nil:
		return fmt.Errorf("whether the journal has the group is unknown until the journal is opened again: %w",
			j.stop(errors.Join(cause, err)))
	}
	// This host must record the new term before anything else is appended. If the journal has the
	// group, appended does that.
	j.markOutdated = true
	switch end {
	case g.After:
		j.appended(g, frames)
		return nil
	case g.Before:
		return fmt.Errorf("%w: %w; the journal was read again, and does not have the group", journal.ErrRejected, cause)
	}
	return endsElsewhere(end, g)
}

// The first and the longest wait before a failed attempt to raise the term is repeated.
const (
	raiseFirst = 20 * time.Millisecond
	raiseMost  = time.Second
)

// raiseOwn raises the term of this handle's claim, and returns where the journal ends. It tries
// again, each time on another session, until [Options.Timeout] is over.
//
// Three errors end that early. ErrFenced: another handle has claimed the journal, which does not
// have the group g. errTaken: another handle has claimed the journal, which may have the group.
// ErrRestored: the database has an earlier state of the journal, or another journal.
func (j *Journal) raiseOwn(ctx context.Context, g journal.Group) (end journal.Position, err error) {
	ctx, cancel := j.limited(ctx)
	defer cancel()
	highest := j.term // the highest term that attempts with lost answers may have set
	for wait := raiseFirst; ; wait = min(2*wait, raiseMost) {
		s, err := j.borrow(ctx)
		if err == nil {
			end, err = j.raiseBy(ctx, s, g, highest)
			highest++ // the attempt may have set the term to highest + 1, even if its answer was lost
		}
		if err == nil {
			return end, nil
		}
		s.close()
		if errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrRestored) || errors.Is(err, errTaken) {
			return end, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return end, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// errTaken is returned if another handle has claimed the journal, which may have the group.
var errTaken = errors.New("the journal is claimed under another term")

// raiseBy raises the term to highest + 1 on a session, which becomes the writer's on success, and
// returns where the journal ends. highest is the highest term that earlier attempts may have set.
// Each attempt sets a higher term than the attempts before it, so that an attempt that arrives late
// changes nothing.
//
// The errors are those of [Journal.raiseOwn]. After any other error, such as one of the connection,
// another attempt may succeed.
func (j *Journal) raiseBy(ctx context.Context, s *session, g journal.Group, highest uint64) (end journal.Position,
	err error) {
	var term uint64
	args := []any{j.ledger, j.id, j.term, highest, j.Host, j.Synchronous}
	if err := s.ask(ctx, raiseSQL, args, (*number)(&term), (*number)(&end.Events), (*root)(&end.Root)); err != nil {
		return end, err
	}
	if term != 0 {
		j.term, j.writer = term, s
		return end, nil
	}
	// The statement changed nothing. The view says why.
	v, err := j.readViewBy(ctx, s, g.After)
	switch {
	case err != nil:
		return end, err
	case v.id == j.id && v.term >= j.term && v.term <= highest && v.host == j.Host:
		return end, j.unfitError() // the claim is still that of this handle
	case v.known || g.After.Events < v.begin.Events:
		return end, fmt.Errorf("%w: %v", errTaken, j.fencedBy(v, false))
	}
	return end, j.fencedBy(v, false)
}
