package pgjournal

import (
	"context"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/sluicedp/sluice/ledger/internal/lock"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

// Journal is a handle of a journal in PostgreSQL. Several goroutines may use it at once.
type Journal struct {
	*settings
	ledger, id [16]byte
	ctx        context.Context // ends with the handle
	cancel     context.CancelFunc

	mu         sync.Mutex
	refusal    error      // the error of every call, once the journal was closed or has stopped
	idle       []*session // sessions that the next calls can use
	goroutines sync.WaitGroup

	trimming, writing lock.Lock // lock order: trimming before writing

	// The fields below may be used only by the goroutine that holds the writing lock.
	writer       *session // nil if no session is assigned yet
	claimed      uint64   // the term that Claim returned: groups have it, and segments are named by it
	term         uint64   // the term in the database, 0 before Claim; higher than claimed after an outcome was resolved
	end          journal.Position
	number       uint64      // of the segment that was begun last
	segment      *segment    // that groups are appended to; nil if the next group begins a new one
	fresh        *segment    // begun, but not enough hosts have stored its key yet
	markOutdated bool        // the mark on this host does not cover what was acknowledged last
	sender       *markSender // sends marks to the other hosts; nil before Claim
}

var _ journal.Follower = (*Journal)(nil)

// segment is a part of the journal that is encrypted under one key.
type segment struct {
	id     keyholder.Segment
	key    keyholder.Key
	cipher cipher.AEAD
	begin  journal.Position
	stored bool // the database has a row for it
	groups int  // that were appended to it
	bytes  int  // of their sealed frames
}

// The limits of a segment. With this many groups, the probability that two nonces are equal is
// below 2⁻⁵⁰.
const (
	mostGroups = 1 << 20
	mostBytes  = 64 << 20
)

// newJournal returns a handle that is not connected yet.
func newJournal(s *settings, ledger [16]byte) *Journal {
	j := &Journal{settings: s, ledger: ledger, trimming: lock.New(), writing: lock.New()}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	return j
}

// Name returns "postgres:" and 32 hexadecimal digits.
func (j *Journal) Name() string { return "postgres:" + hex.EncodeToString(j.id[:]) }

// limited returns a context that ends with ctx, with the handle, or after [Options.Timeout]. In the
// last case its cause says how long that is. The caller must call the returned function when the
// call is over.
func (j *Journal) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.Timeout,
		fmt.Errorf("%w: it took longer than %v", context.DeadlineExceeded, j.Timeout))
	stop := context.AfterFunc(j.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// ready returns a [journal.ErrStopped] if the handle was closed or has stopped, and a
// [journal.ErrRejected] if ctx has ended.
func (j *Journal) ready(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refusal != nil {
		return j.refusal
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrRejected, err)
	}
	return nil
}

// call runs a request if the handle is neither closed nor stopped, for at most [Options.Timeout].
// If the request fails because the handle is closed concurrently, the error is errClosed.
func (j *Journal) call(ctx context.Context, request func(context.Context) error) error {
	if err := j.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := j.limited(ctx)
	defer cancel()
	return j.done(request(ctx))
}

// stop stops the handle: every later call but Close returns [journal.ErrStopped] with the reason
// why. If the handle has stopped before, the first reason remains. stop returns why.
func (j *Journal) stop(why error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refusal == nil {
		j.refusal = fmt.Errorf("%w: %v", journal.ErrStopped, why)
	}
	return why
}

// done returns the result of a call that ended with err. If the call failed and the handle was
// closed concurrently, the result is errClosed.
func (j *Journal) done(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil && errors.Is(j.refusal, errClosed) {
		return j.refusal
	}
	return err
}

// errClosed is the error of every call of a closed handle.
var errClosed = fmt.Errorf("%w: close was called", journal.ErrStopped)

// Close implements [journal.Journal.Close]. It ends the calls in progress, sends the last mark to
// the other hosts, and closes all sessions.
func (j *Journal) Close() error {
	j.mu.Lock()
	closed := errors.Is(j.refusal, errClosed)
	j.refusal = errClosed
	idle := j.idle
	j.idle = nil
	j.mu.Unlock()
	if closed {
		return nil
	}
	j.cancel()
	j.trimming <- struct{}{} // wait for the current holder, which ends soon because its context has ended
	j.writing <- struct{}{}
	defer j.trimming.Unlock()
	defer j.writing.Unlock()
	j.sender.end() // under the writing lock, because the holder of that lock sends marks
	j.goroutines.Wait()
	for _, s := range append(idle, j.writer) {
		s.close()
	}
	return nil
}

// using runs do on a session, and returns its error. It keeps the session for later calls if the
// session is still usable. That is so after success, and after an error with which the server has
// refused a statement ([session.refused]).
func (j *Journal) using(ctx context.Context, do func(*session) error) error {
	s, err := j.borrow(ctx)
	if err != nil {
		return err
	}
	err = do(s)
	// fs.ErrExist is the result of create if the ledger has a journal: the session is sound then.
	if err != nil && !s.refused(ctx, err) && !errors.Is(err, fs.ErrExist) {
		s.close()
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refusal != nil || len(j.idle) >= 4 || s.conn.IsClosed() {
		s.close()
	} else {
		j.idle = append(j.idle, s)
	}
	return err
}

// change runs a statement that changes rows on a borrowed session, and returns how many it changed
// ([session.change]).
func (j *Journal) change(ctx context.Context, sql string, args ...any) (n int64, err error) {
	err = j.using(ctx, func(s *session) (err error) {
		n, err = s.change(ctx, sql, args...)
		return err
	})
	return n, err
}

// borrow returns a session for exclusive use: an idle one that is alive, or a new one. The caller
// keeps it, closes it, or adds it to j.idle.
func (j *Journal) borrow(ctx context.Context) (*session, error) {
	for {
		j.mu.Lock()
		var s *session
		if n := len(j.idle); n > 0 {
			s, j.idle = j.idle[n-1], j.idle[:n-1]
		}
		j.mu.Unlock()
		if s == nil {
			return j.dial(ctx)
		}
		if s.alive(ctx) {
			return s, nil
		}
		s.close()
	}
}

// view is what the database records about a journal at an instant, except its groups.
type view struct {
	id       [16]byte
	term     uint64
	end      journal.Position
	begin    journal.Position
	erased   journal.Position // up to here the keys are destroyed, too
	conceded uint64           // marks of lower terms do not count
	begun    uint64           // changes with each segment that is begun, and with each cut
	host     string           // the host that has claimed the journal last
	known    bool             // a group ends at the requested position, or the journal begins there
	segments []span           // the segments that are not trimmed, in order
	bases    []base           // of all hosts that follow or had the journal
}

// span is a segment and the event after which it begins, as JSON of a row of the table of segments.
type span struct {
	Events uint64
	keyholder.Segment
}

// base is how far the ledger file of a host (its base) reaches, as the database knows it. It is
// JSON in the result of viewSQL.
type base struct {
	Host    string
	Events  uint64
	Seconds int64 // since the host reported it; -1 if it had the journal, and has not followed since
}

// hadJournal reports whether the host had the journal earlier, and has not followed since. Trim
// must keep what its base lacks. The base does not count for [Options.Bases], because the disk that
// has it may be lost.
func (b base) hadJournal() bool { return b.Seconds < 0 }

// readView reads the current view of the journal, and whether a group ends at a position. Errors:
// [fs.ErrNotExist] if the ledger has no journal, [journal.ErrForked] if it has another one than
// this handle, errServer, errors of the database.
func (j *Journal) readView(ctx context.Context, at journal.Position) (v view, err error) {
	err = j.using(ctx, func(s *session) (err error) {
		v, err = j.readViewBy(ctx, s, at)
		if err == nil && v.id != j.id {
			err = j.replacedBy(v)
		}
		return err
	})
	return v, err
}

// replacedBy returns the error for a view that shows another journal in the place of this one.
func (j *Journal) replacedBy(v view) error {
	return fmt.Errorf("%w: the database has another journal of this ledger, postgres:%x", journal.ErrForked, v.id)
}

// readViewBy is [Journal.readView] on a given session. It does not check whether the journal is the
// one of this handle: the caller compares v.id, if it knows the id already.
func (j *Journal) readViewBy(ctx context.Context, s *session, at journal.Position) (v view, err error) {
	if !fits(at) {
		at = journal.Position{} // no group ends at a position that the database cannot store
	}
	var standby bool // the server, which was the primary when the session began
	err = s.ask(ctx, viewSQL, []any{j.ledger, at.Events, at.Root[:]}, &standby, (*zeronull.UUID)(&v.id),
		(*number)(&v.term), (*number)(&v.end.Events), (*root)(&v.end.Root),
		(*number)(&v.begin.Events), (*root)(&v.begin.Root), (*number)(&v.erased.Events), (*root)(&v.erased.Root),
		(*number)(&v.conceded), (*number)(&v.begun), (*zeronull.Text)(&v.host), &v.known, &v.segments, &v.bases)
	switch {
	case err != nil:
		return v, err
	case standby:
		return v, fmt.Errorf("%w: it has become a standby", errServer)
	case v.id == [16]byte{}: // NULL: the statement returns a row even without a journal
		return v, fmt.Errorf("%w: there is no journal of ledger %v in schema %s", fs.ErrNotExist, uuid.UUID(j.ledger),
			j.Schema)
	}
	return v, nil
}

// checkPosition returns nil if a group ends at a position, or the journal begins there. Otherwise
// it returns [journal.ErrTrimmed], [journal.ErrLost] or [journal.ErrForked]. The view must have
// been read for that position.
func (v *view) checkPosition(at journal.Position) error {
	switch {
	case at.Events < v.begin.Events:
		return fmt.Errorf("%w: it begins with %v, after the requested %v", journal.ErrTrimmed, v.begin, at)
	case at.Events > v.end.Events:
		return fmt.Errorf("%w: it ends with %v, before the requested %v", journal.ErrLost, v.end, at)
	case !v.known:
		return fmt.Errorf("%w: no group ends with %v", journal.ErrForked, at)
	}
	return nil
}

// Append implements [journal.Journal.Append]. If the caller's context ends while the database
// works, the append is uncertain. If the connection breaks, or no answer comes within
// [Options.Timeout], Append first finds out whether the group is in the journal. That takes at most
// another Timeout.
func (j *Journal) Append(caller context.Context, g journal.Group) error {
	if err := j.ready(caller); err != nil {
		return err
	}
	ctx, cancel := j.limited(caller)
	defer cancel()
	if err := j.writing.Lock(ctx); err != nil {
		return j.done(fmt.Errorf("%w: %w", journal.ErrRejected, err))
	}
	defer j.writing.Unlock()
	if err := j.ready(ctx); err != nil { // the handle may have stopped during the wait for the lock
		return err
	}
	if j.term == 0 || g.Term != j.claimed {
		return fmt.Errorf("%w: this handle has term %d, the group %d", journal.ErrFenced, j.claimed, g.Term)
	}
	if g.Before != j.end || !g.Fits() || !fits(g.After) {
		return fmt.Errorf("%w: it ends with %v; the group has %d records from %v to %v", journal.ErrOrder, j.end,
			len(g.Records), g.Before, g.After)
	}
	if err := j.prepare(ctx, g); err != nil {
		return j.done(fmt.Errorf("%w: %w", journal.ErrRejected, err))
	}
	frames, err := framesOf(g, j.segment.id, j.segment.cipher, j.id)
	if err != nil {
		return err
	}
	err = j.send(ctx, g, frames)
	if unknown, is := errors.AsType[*unknownError](err); is {
		// With the context of the caller, because the time limit of ctx may be over already.
		err = j.resolve(caller, g, frames, unknown.cause)
	}
	return err
}

// prepare does what must be done before a group is sent to the database. It records on this host
// what was acknowledged before, if that is not recorded yet. It sets j.segment to one that can take
// the group, and j.writer to a live session. After an error nothing was sent.
func (j *Journal) prepare(ctx context.Context, g journal.Group) error {
	if j.markOutdated {
		if err := j.recordMark(ctx); err != nil {
			return err
		}
	}
	if err := j.prepareSegment(ctx, g); err != nil {
		return err
	}
	if j.writer != nil && j.writer.alive(ctx) {
		return nil
	}
	j.writer.close()
	j.writer = nil
	s, err := j.borrow(ctx)
	if err == nil {
		j.writer = s
	}
	return err
}

// recordMark records with the key holder of this host that everything up to j.end was acknowledged.
// If that fails, it sets j.markOutdated, and the next append tries again before it sends anything.
func (j *Journal) recordMark(ctx context.Context) error {
	err := j.Keys.Mark(ctx, j.Name(), keyholder.Mark{Term: j.term, Position: j.end})
	if j.markOutdated = err != nil; err != nil {
		return fmt.Errorf("record the acknowledged position: %w", err)
	}
	return nil
}

// send appends a group in one transaction, which has a statement for each frame. It returns nil if
// the group was appended. After an [*unknownError], the group may be in the journal, or may still
// arrive there. After any other error, it is not in the journal ([Journal.rejected]).
func (j *Journal) send(ctx context.Context, g journal.Group, frames []frame) error {
	var steps []step
	for i := range frames {
		f := &frames[i]
		args := []any{
			j.ledger, j.id, g.Term, g.Before.Events, g.Before.Root[:], g.After.Events, g.After.Root[:],
			f.of, f.segment.Term, f.segment.Number, f.body, j.term,
		}
		if i == 0 { // this step also moves the end of the journal, and adds the row of a new segment
			steps = append(steps, step{appendSQL, append(args, j.Synchronous, !j.segment.stored)})
		} else {
			steps = append(steps, step{frameSQL, append(args, f.number)})
		}
	}
	changed, err := j.writer.inTransaction(ctx, steps)
	switch {
	case err == nil && changed:
		j.appended(g, frames)
		return nil
	case err == nil || j.writer.refused(ctx, err): // err is nil if the head was not as this handle knows it
		return j.rejected(ctx, g, err)
	}
	return j.unknown(ctx, err)
}

// appended updates the handle after a group was appended, and records the new end with the key
// holder of this host. The other hosts get that mark in the background.
func (j *Journal) appended(g journal.Group, frames []frame) {
	j.end = g.After
	s := j.segment
	s.stored = true
	s.groups++
	for _, f := range frames {
		s.bytes += len(f.body)
	}
	// The context is independent of the handle: if it is being closed, the group is acknowledged
	// all the same.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = j.recordMark(ctx) // on failure, the next append records it first, or is rejected
	j.sender.send(keyholder.Mark{Term: j.term, Position: j.end})
}

// rejected returns why a group was not appended. refusal is the error of the server, or nil if the
// statement changed no row. rejected reads the journal on the same session, because the answer
// comes after all earlier ones. If that fails, or shows the group, it returns an [*unknownError].
func (j *Journal) rejected(ctx context.Context, g journal.Group, refusal error) error {
	v, err := j.readViewBy(ctx, j.writer, g.Before)
	switch {
	case err != nil:
		return j.unknown(ctx, errors.Join(refusal, err))
	case v.id != j.id || v.term != j.term:
		return j.fencedBy(v, v.term > j.term && v.lacks(g.Before))
	case v.end == g.After:
		return j.unknown(ctx, errors.Join(refusal, errors.New("it changed nothing, but the journal has the group")))
	case v.end != g.Before:
		return endsElsewhere(v.end, g)
	case refusal != nil:
		return fmt.Errorf("%w: %w", journal.ErrRejected, refusal)
	}
	j.writer.close() // another session may have the right settings
	j.writer = nil
	return fmt.Errorf("%w: %w", journal.ErrRejected, j.unfitError())
}

// fencedBy returns why this handle may no longer append to the journal that a view shows:
// [journal.ErrFenced] if the journal was claimed again, or [journal.ErrRestored] if an earlier
// state was restored. If another journal is in its place, the error is both. The caller sets lost
// if the journal lacks what this handle appended.
func (j *Journal) fencedBy(v view, lost bool) error {
	switch {
	case v.id != j.id:
		return fmt.Errorf("%w: %w: another journal, postgres:%x, is in its place", journal.ErrFenced,
			journal.ErrRestored, v.id)
	case v.term < j.term || lost:
		return fmt.Errorf("%w: it has term %d, by host %s, and ends with %v; this handle has term %d, and %v",
			journal.ErrRestored, v.term, v.host, v.end, j.term, j.end)
	}
	return fmt.Errorf("%w: term %d, by host %s; this handle has %d", journal.ErrFenced, v.term, v.host, j.term)
}

// endsElsewhere returns the [journal.ErrRestored] for a journal that does not end where a group
// begins.
func endsElsewhere(end journal.Position, g journal.Group) error {
	return fmt.Errorf("%w: in the database it ends with %v, not with %v: it has lost events, or another program has "+
		"written to it", journal.ErrRestored, end, g.Before)
}

// lacks reports whether the journal no longer has a position that it once had. The view must have
// been read for that position.
func (v *view) lacks(at journal.Position) bool {
	err := v.checkPosition(at)
	return err != nil && !errors.Is(err, journal.ErrTrimmed)
}

// unfitError returns why a statement changed nothing although the journal is as this handle knows
// it: the commit would not be as durable as required.
func (j *Journal) unfitError() error {
	if j.Synchronous {
		return errors.New("the database does not wait for a standby (synchronous_standby_names), or not for its disk")
	}
	return errors.New("the session has lost its settings; " + poolMode)
}

// Settle implements [journal.Journal.Settle].
func (j *Journal) Settle(ctx context.Context) error {
	return j.call(ctx, func(ctx context.Context) error {
		return j.using(ctx, func(s *session) error { return j.settleBy(ctx, s) })
	})
}

// settleBy commits a message to the database's log, so that everything that was committed before is
// as durable as that message. It returns [journal.ErrLost] if the journal is gone, or if the
// session no longer waits until commits are durable.
func (j *Journal) settleBy(ctx context.Context, s *session) error {
	n, err := s.change(ctx, settleSQL, j.ledger, j.id)
	if err == nil && n != 1 {
		err = fmt.Errorf("%w: the journal is gone, or the session has lost its settings; %s", journal.ErrLost, poolMode)
	}
	return err
}

// holders returns the key holders of all hosts, this host's first.
func (j *Journal) holders() []keyholder.Holder {
	return slices.Concat([]keyholder.Holder{j.Keys}, j.Others)
}
