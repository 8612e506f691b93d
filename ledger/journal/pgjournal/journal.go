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

// Journal is a handle of a journal in PostgreSQL.
type Journal struct {
	*settings
	ledger, id [16]byte
	life       context.Context // ends with the handle
	die        context.CancelFunc

	mu      sync.Mutex
	refusal error      // what every call returns: the journal was closed, or has stopped
	idle    []*session // for whoever comes next
	loose   sync.WaitGroup

	trimming, writing lock.Lock // the first is taken before the second

	// The rest is used by who holds writing.
	writer  *session // nil as long as there is none
	claimed uint64   // the term that Claim returned: groups have it, and segments are named by it
	term    uint64   // the term in the database, 0 before Claim; higher than claimed once an outcome was resolved
	end     journal.Position
	number  uint64   // of the last segment begun
	segment *segment // where groups go; nil if the next one begins another
	fresh   *segment // begun, but its key does not lie with enough hosts yet
	unsaid  bool     // the mark of this host does not say what was told last
	teller  *teller  // of the others' marks; nil before Claim
}

var _ journal.Follower = (*Journal)(nil)

// segment is a part of the journal that is encrypted under one key.
type segment struct {
	id     keyholder.Segment
	key    keyholder.Key
	cipher cipher.AEAD
	begin  journal.Position
	stored bool // the database knows of it
	groups int
	bytes  int
}

// The largest segments. With so many groups the chance that two nonces are the same is below 2⁻⁵⁰.
const (
	mostGroups = 1 << 20
	mostBytes  = 64 << 20
)

func newJournal(s *settings, ledger [16]byte) *Journal {
	j := &Journal{settings: s, ledger: ledger, trimming: lock.New(), writing: lock.New()}
	j.life, j.die = context.WithCancel(context.Background())
	return j
}

// Name is "postgres:" and 32 hexadecimal digits.
func (j *Journal) Name() string { return "postgres:" + hex.EncodeToString(j.id[:]) }

// limited returns a context that ends with another one, with the handle, and when it takes too
// long.
func (j *Journal) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.Timeout,
		fmt.Errorf("%w: it took longer than %v", context.DeadlineExceeded, j.Timeout))
	stop := context.AfterFunc(j.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// ready says whether a call may go on.
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

// call makes a request of a handle that is neither closed nor stopped, within the time that a
// request may take.
func (j *Journal) call(ctx context.Context, request func(context.Context) error) error {
	if err := j.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := j.limited(ctx)
	defer cancel()
	return j.done(request(ctx))
}

// stop stops the handle, and returns why.
func (j *Journal) stop(why error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refusal == nil {
		j.refusal = fmt.Errorf("%w: %v", journal.ErrStopped, why)
	}
	return why
}

// done returns what a call returns that has met an error, or none: if the handle was closed
// meanwhile, that.
func (j *Journal) done(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil && errors.Is(j.refusal, errClosed) {
		return j.refusal
	}
	return err
}

// errClosed is what the calls of a closed handle return.
var errClosed = fmt.Errorf("%w: close was called", journal.ErrStopped)

// Close is [journal.Journal.Close].
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
	j.die()
	j.trimming <- struct{}{} // who was in it ends soon
	j.writing <- struct{}{}
	defer j.trimming.Leave()
	defer j.writing.Leave()
	j.teller.end()
	j.loose.Wait()
	for _, s := range append(idle, j.writer) {
		s.close()
	}
	return nil
}

// using does something on a session, and keeps that for the next one if it is as good as before.
func (j *Journal) using(ctx context.Context, do func(*session) error) error {
	s, err := j.borrow(ctx)
	if err != nil {
		return err
	}
	err = do(s)
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

// change is [session.change] on a session of its own.
func (j *Journal) change(ctx context.Context, sql string, args ...any) (n int64, err error) {
	err = j.using(ctx, func(s *session) (err error) {
		n, err = s.change(ctx, sql, args...)
		return err
	})
	return n, err
}

// borrow returns a session that nobody else uses.
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

// view is what is known of a journal at an instant, but for its groups.
type view struct {
	id       [16]byte
	term     uint64
	end      journal.Position
	begin    journal.Position
	erased   journal.Position // up to here the keys are destroyed, too
	conceded uint64           // marks of lower terms do not count
	begun    uint64           // changes with each segment that is begun
	host     string           // that has claimed it
	known    bool             // a group ends at the position that was asked for, or the journal begins there
	segments []span           // those that are not trimmed, in order
	bases    []base
}

// span is where a segment begins, as JSON of a row of the table of segments.
type span struct {
	Events uint64
	keyholder.Segment
}

// base is what a host has said that it has, as the JSON of a look.
type base struct {
	Host    string
	Events  uint64
	Seconds int64 // since it has said so; -1 if it had the journal, and has not followed since
}

// left reports whether the host had the journal, and has not followed since: Trim must leave what
// that base lacks, but the disk that has it may be lost.
func (b base) left() bool { return b.Seconds < 0 }

// look returns what is known of the journal now.
func (j *Journal) look(ctx context.Context, at journal.Position) (v view, err error) {
	err = j.using(ctx, func(s *session) (err error) {
		v, err = j.lookBy(ctx, s, at)
		if err == nil && v.id != j.id {
			err = j.replacedBy(v)
		}
		return err
	})
	return v, err
}

// replacedBy returns the error of another journal in the place of this one.
func (j *Journal) replacedBy(v view) error {
	return fmt.Errorf("%w: the ledger has another journal there, postgres:%x", journal.ErrForked, v.id)
}

func (j *Journal) lookBy(ctx context.Context, s *session, at journal.Position) (v view, err error) {
	if !fits(at) {
		at = journal.Position{} // which is not known, either
	}
	var standby bool
	err = s.ask(ctx, lookSQL, []any{j.ledger, at.Events, at.Root[:]}, &standby, (*zeronull.UUID)(&v.id),
		(*number)(&v.term), (*number)(&v.end.Events), (*root)(&v.end.Root),
		(*number)(&v.begin.Events), (*root)(&v.begin.Root), (*number)(&v.erased.Events), (*root)(&v.erased.Root),
		(*number)(&v.conceded), (*number)(&v.begun), (*zeronull.Text)(&v.host), &v.known, &v.segments, &v.bases)
	switch {
	case err != nil:
		return v, err
	case standby:
		return v, fmt.Errorf("%w: it has become a standby", errServer)
	case v.id == [16]byte{}:
		return v, fmt.Errorf("%w: there is no journal of ledger %v in schema %s", fs.ErrNotExist, uuid.UUID(j.ledger),
			j.Schema)
	}
	return v, nil
}

// where says how a position lies to the journal: nil if a group ends there, or the journal begins.
func (v *view) where(at journal.Position) error {
	switch {
	case at.Events < v.begin.Events:
		return fmt.Errorf("%w: it begins with %v; asked for is %v", journal.ErrTrimmed, v.begin, at)
	case at.Events > v.end.Events:
		return fmt.Errorf("%w: it leads from %v to %v; asked for is %v", journal.ErrLost, v.begin, v.end, at)
	case !v.known:
		return fmt.Errorf("%w: no group ends with %v", journal.ErrForked, at)
	}
	return nil
}

// Append is [journal.Journal.Append]. The context counts also while the database is waited for: if
// it ends then, the append is uncertain. If the connection breaks, or no answer comes within
// [Options.Timeout], Append finds out whether the group is in the journal before it returns, for
// which it takes as long again at most.
func (j *Journal) Append(caller context.Context, g journal.Group) error {
	if err := j.ready(caller); err != nil {
		return err
	}
	ctx, cancel := j.limited(caller)
	defer cancel()
	if err := j.writing.Take(ctx); err != nil {
		return j.done(fmt.Errorf("%w: %w", journal.ErrRejected, err))
	}
	defer j.writing.Leave()
	if err := j.ready(ctx); err != nil {
		return err
	}
	if j.term == 0 || g.Term != j.claimed {
		return fmt.Errorf("%w: %d, not %d", journal.ErrFenced, j.claimed, g.Term)
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
		err = j.resolve(caller, g, frames, unknown.cause)
	}
	return err
}

// prepare sees to a session, a segment and a mark, before anything is sent.
func (j *Journal) prepare(ctx context.Context, g journal.Group) error {
	if j.unsaid {
		if err := j.say(ctx); err != nil {
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

// say notes with this host how far somebody was told.
func (j *Journal) say(ctx context.Context) error {
	err := j.Keys.Mark(ctx, j.Name(), keyholder.Mark{Term: j.term, Position: j.end})
	if j.unsaid = err != nil; err != nil {
		return fmt.Errorf("how far somebody was told cannot be noted: %w", err)
	}
	return nil
}

// send appends a group. An [*unknownError] says that the group may be in the journal, or come into
// it.
func (j *Journal) send(ctx context.Context, g journal.Group, frames []frame) error {
	var steps []step
	for i := range frames {
		f := &frames[i]
		args := []any{
			j.ledger, j.id, g.Term, g.Before.Events, g.Before.Root[:], g.After.Events, g.After.Root[:],
			f.of, f.segment.Term, f.segment.Number, f.body, j.term,
		}
		if i == 0 {
			steps = append(steps, step{appendSQL, append(args, j.Synchronous, !j.segment.stored)})
		} else {
			steps = append(steps, step{frameSQL, append(args, f.number)})
		}
	}
	changed, err := j.writer.together(ctx, steps)
	switch {
	case err == nil && changed:
		j.appended(g, frames)
		return nil
	case err == nil || j.writer.refused(ctx, err):
		return j.rejected(ctx, g, err)
	}
	return j.unknown(ctx, err)
}

// appended notes that a group is there.
func (j *Journal) appended(g journal.Group, frames []frame) {
	j.end = g.After
	s := j.segment
	s.stored = true
	s.groups++
	for _, f := range frames {
		s.bytes += len(f.body)
	}
	// also if the handle is being closed: somebody will be told
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = j.say(ctx) // else the next append says it, or is none
	j.teller.tell(keyholder.Mark{Term: j.term, Position: j.end})
}

// rejected says why a group was not appended. The same session is asked where the journal ends:
// that answer comes behind all others.
func (j *Journal) rejected(ctx context.Context, g journal.Group, refusal error) error {
	v, err := j.lookBy(ctx, j.writer, g.Before)
	switch {
	case err != nil:
		return j.unknown(ctx, errors.Join(refusal, err))
	case v.id != j.id || v.term != j.term:
		return j.fencedBy(v, v.term > j.term && v.lacks(g.Before))
	case v.end == g.After:
		return j.unknown(ctx, errors.Join(refusal, errors.New("it was not done, and is there")))
	case v.end != g.Before:
		return endsElsewhere(v.end, g)
	case refusal != nil:
		return fmt.Errorf("%w: %w", journal.ErrRejected, refusal)
	}
	j.writer.close() // another session may be as it should be
	j.writer = nil
	return fmt.Errorf("%w: %w", journal.ErrRejected, j.unfit())
}

// fencedBy returns why a journal is not that of this handle any more: [journal.ErrFenced] or, if it
// was put back to what it was before, [journal.ErrRestored]. It is lost if it lacks what this
// handle appended.
func (j *Journal) fencedBy(v view, lost bool) error {
	switch {
	case v.id != j.id:
		return fmt.Errorf("%w: %w: another journal, postgres:%x, is in its place", journal.ErrFenced,
			journal.ErrRestored, v.id)
	case v.term < j.term || lost:
		return fmt.Errorf("%w: its term is %d, by host %s, and it ends with %v; this host has term %d, and %v",
			journal.ErrRestored, v.term, v.host, v.end, j.term, j.end)
	}
	return fmt.Errorf("%w: %d, by host %s; this one has %d", journal.ErrFenced, v.term, v.host, j.term)
}

// endsElsewhere returns the [journal.ErrRestored] of a group that the journal's end does not lead
// to.
func endsElsewhere(end journal.Position, g journal.Group) error {
	return fmt.Errorf("%w: in the database it ends with %v, not with %v: it has lost something, or another program "+
		"has written to it", journal.ErrRestored, end, g.Before)
}

// lacks reports whether the journal does not have what it had at a position. [view.where] was asked
// about that.
func (v *view) lacks(at journal.Position) bool {
	err := v.where(at)
	return err != nil && !errors.Is(err, journal.ErrTrimmed)
}

// unfit says why a statement changed nothing although the journal is as this handle knows it: the
// commit would not be as durable as it must be.
func (j *Journal) unfit() error {
	if j.Synchronous {
		return errors.New("the database does not wait for a standby (synchronous_standby_names), or not for its disk")
	}
	return errors.New("the settings of the session are not those that it was given; " + poolMode)
}

// Settle is [journal.Journal.Settle].
func (j *Journal) Settle(ctx context.Context) error {
	return j.call(ctx, func(ctx context.Context) error {
		return j.using(ctx, func(s *session) error { return j.settleBy(ctx, s) })
	})
}

// settleBy commits something, so that everything that was committed before is as durable as that.
func (j *Journal) settleBy(ctx context.Context, s *session) error {
	n, err := s.change(ctx, settleSQL, j.ledger, j.id)
	if err == nil && n != 1 {
		err = fmt.Errorf("%w: the journal is gone, or the settings of the session are; %s", journal.ErrLost, poolMode)
	}
	return err
}

// holders are all hosts, this one first.
func (j *Journal) holders() []keyholder.Holder {
	return slices.Concat([]keyholder.Holder{j.Keys}, j.Others)
}
