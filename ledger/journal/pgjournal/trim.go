package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

const (
	sweepRows = 2000             // rows that one transaction removes
	keepTime  = 10 * time.Second // for a host to destroy keys
)

// Trim implements [journal.Journal.Trim]. It goes as far as every other host has folded that
// follows or had the journal. At least [Options.Bases] of them must follow. It succeeds when all
// holders have destroyed the keys. Any other obstacle, such as a database that does not answer, is
// also returned as a [*journal.HeldError].
func (j *Journal) Trim(ctx context.Context, through journal.Position) error {
	return j.call(ctx, func(ctx context.Context) error { return j.trim(ctx, through) })
}

// trim runs one Trim at a time. It returns an ErrRejected, such as ErrFenced, and an ErrCorrupt
// unchanged. Every other error leaves the journal sound, and becomes the reason of a HeldError.
func (j *Journal) trim(ctx context.Context, through journal.Position) error {
	if err := j.trimming.Lock(ctx); err != nil {
		return err
	}
	defer j.trimming.Unlock()
	t := &trim{Journal: j, through: through}
	err := t.run(ctx)
	if errors.Is(err, journal.ErrFenced) && t.overtaken() { // the fence is this handle's own, and no error
		err = errors.New("the outcome of an append was resolved during the trim, which raised the term; the next " +
			"trim continues")
	}
	if err == nil || errors.Is(err, journal.ErrRejected) || errors.Is(err, errs.ErrCorrupt) {
		return err
	}
	return &journal.HeldError{Through: t.erased, Wanted: through, Reason: err}
}

// trim is one call of Trim.
type trim struct {
	*Journal
	through journal.Position // the position that Trim was called with
	term    uint64           // Journal.term when the trim began
	// below is the first segment of this claim that may not be in the database yet. Keys from it on
	// are not destroyed.
	below  keyholder.Segment
	erased journal.Position // up to here everything is destroyed
}

// run does the steps of a trim: it decides how far to go, cuts the journal there, and destroys the
// keys. It returns nil if everything up to t.through is destroyed. Otherwise t.erased is how far
// that is so, and the error says what prevents the rest.
func (t *trim) run(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	if err := t.awaitCut(ctx); err != nil {
		return err
	}
	v, err := t.readView(ctx, t.through)
	if err != nil {
		return err
	}
	t.erased = v.erased
	switch {
	case v.term != t.term:
		return fmt.Errorf("%w: term %d, by host %s; this handle has %d", journal.ErrFenced, v.term, v.host, t.term)
	case t.through.Events <= v.erased.Events:
		return nil
	case t.through.Events >= v.begin.Events: // what is before the begin cannot be checked any more
		if err := v.checkPosition(t.through); err != nil {
			return err
		}
	}
	var held error // why the cut did not go as far as was requested
	if t.through.Events > v.begin.Events {
		var goal uint64
		goal, held = t.allowed(v)
		if err := t.cut(ctx, v, goal); err != nil {
			return err
		}
	}
	if err := t.destroy(ctx); err != nil {
		return errors.Join(held, err)
	}
	return held
}

// overtaken reports whether this handle itself raised the term after the trim began, by which it
// found out the outcome of an append ([Journal.resolve]).
func (t *trim) overtaken() bool {
	t.writing <- struct{}{}
	defer t.writing.Unlock()
	return t.term != 0 && t.Journal.term > t.term
}

// begin sets t.term and t.below. If the segment that groups are appended to has groups that will be
// trimmed, the next append begins another one. So no group is added to the segment during the trim.
// begin returns [journal.ErrFenced] if this handle has not claimed the journal.
func (t *trim) begin(ctx context.Context) error {
	if err := t.writing.Lock(ctx); err != nil {
		return err
	}
	defer t.writing.Unlock()
	if err := t.ready(ctx); err != nil {
		return err
	}
	if t.term = t.Journal.term; t.term == 0 {
		return journal.ErrFenced
	}
	if s := t.segment; s != nil && s.begin.Events < t.through.Events {
		t.segment = nil
	}
	// The database may have no row yet for the segment that is appended to, and has none for the
	// one whose key is being stored. Their keys must stay.
	t.below = keyholder.Segment{Term: t.claimed, Number: t.number + 1}
	for _, s := range []*segment{t.segment, t.fresh} {
		if s != nil {
			t.below.Number = min(t.below.Number, s.id.Number)
		}
	}
	return nil
}

// awaitCut waits until no transaction is changing the head of the journal. An earlier cut may still
// be in progress, because its connection broke while it waited for a standby. Its changes are
// invisible until it ends, and the visible state decides which keys are destroyed.
func (t *trim) awaitCut(ctx context.Context) error {
	return t.using(ctx, func(s *session) error {
		if err := s.command(ctx, "BEGIN"); err != nil {
			return err
		}
		if _, err := s.change(ctx, lockSQL, t.ledger); err != nil {
			return err
		}
		return s.command(ctx, "ROLLBACK") // releases the lock: only the wait was needed
	})
}

// allowed returns the event goal up to which Trim may go now: to t.through if all other hosts have
// folded that far, and enough of them follow. Otherwise held has the reasons, and goal is the begin
// of a segment, or of the journal, so that no segment must be split.
func (t *trim) allowed(v view) (goal uint64, held error) {
	others, least := 0, t.through.Events // how many other hosts follow, and how far all others have folded
	for _, b := range v.bases {
		if b.Host == t.Host { // the caller of Trim has everything up to t.through in its file
			continue
		}
		if !b.hadJournal() {
			others++
		}
		if b.Events < t.through.Events {
			least = min(least, b.Events)
			held = errors.Join(held, b.lagError())
		}
	}
	if others < t.Bases {
		return v.begin.Events, errors.Join(held,
			fmt.Errorf("%d other hosts have a base of their own, %d are needed", others, t.Bases))
	}
	if held == nil {
		return t.through.Events, nil
	}
	goal = v.begin.Events
	for _, s := range v.segments { // the last segment that begins at the event least, or before it
		if s.Events <= least {
			goal = max(goal, s.Events)
		}
	}
	return goal, held
}

// lagError returns the error for a base that does not have everything that is to be trimmed.
func (b base) lagError() error {
	if b.hadJournal() {
		return fmt.Errorf("host %s had the journal, and its base has only up to event %d; it has not followed since: "+
			"start it with --standby, or dismiss it", b.Host, b.Events)
	}
	return fmt.Errorf("host %s has folded only up to event %d, as it reported %v ago", b.Host, b.Events,
		time.Duration(b.Seconds)*time.Second)
}

// cut makes the journal begin after the event goal, and removes the segments before that from the
// table of segments. If goal is within a segment, cut first encrypts the rest of that segment under
// a new key, because the old key will be destroyed. It does nothing if the journal begins there, or
// later. The frames before goal stay until [trim.sweep].
func (t *trim) cut(ctx context.Context, v view, goal uint64) error {
	if goal <= v.begin.Events {
		return nil
	}
	dead, last := v.before(goal) // segments to remove; the last of them, if it has groups after goal
	var again *resealed          // these groups under a new key; nil if there are none
	if last != nil {             // then goal is t.through, from which reseal reads: see allowed
		var err error
		if again, err = t.reseal(ctx, v.after(*last)); err != nil {
			return err
		}
	}
	return t.using(ctx, func(s *session) error { return t.cutBy(ctx, s, goal, dead, again) })
}

// before returns the segments that have groups up to the event goal. dead has for each of them the
// event after which it begins. last is the last of these segments if it also has groups after goal;
// otherwise it is nil.
func (v *view) before(goal uint64) (dead []uint64, last *span) {
	for i, s := range v.segments {
		if s.Events >= goal {
			break
		}
		dead = append(dead, s.Events)
		if v.after(s) > goal {
			last = &v.segments[i]
		}
	}
	return dead, last
}

// after returns the event with which a segment ends: where the next segment begins, or where the
// journal ends.
func (v *view) after(s span) uint64 {
	i := slices.Index(v.segments, s) + 1
	if i < len(v.segments) {
		return v.segments[i].Events
	}
	return v.end.Events
}

// resealed are the groups from a position within a segment to the end of that segment, encrypted
// under a key of their own. They become the segment id.
type resealed struct {
	id     keyholder.Segment
	frames []frame
}

// reseal encrypts the groups from t.through up to the event end, where its segment ends, under the
// key of a new segment. It changes nothing in the database. [trim.begin] has made sure that no
// group is added to that segment any more.
func (t *trim) reseal(ctx context.Context, end uint64) (*resealed, error) {
	if err := t.writing.Lock(ctx); err != nil {
		return nil, err
	}
	s, err := t.beginSegment(ctx)
	t.writing.Unlock()
	if err != nil {
		return nil, err
	}
	again := &resealed{id: s.id}
	for g, err := range t.Read(ctx, t.through) {
		if err != nil {
			return nil, err
		}
		frames, err := framesOf(g, s.id, s.cipher, t.Journal.id)
		if err != nil {
			return nil, err
		}
		if again.frames = append(again.frames, frames...); g.After.Events >= end {
			break
		}
	}
	return again, nil
}

// cutBy makes all changes of a cut in one transaction. It moves the begin of the journal to goal,
// and removes the segments that begin at dead. If again is not nil, it replaces the frames that
// again has. It also records that this host has everything up to t.through.
//
// It returns [journal.ErrFenced], and has changed nothing, if the first statement changes no row,
// for example because another term is in the database.
func (t *trim) cutBy(ctx context.Context, s *session, goal uint64, dead []uint64, again *resealed) error {
	var steps []step
	add := func(sql string, more ...any) { // the first arguments are the same in all statements
		steps = append(steps, step{sql, slices.Concat([]any{t.ledger, t.Journal.id, t.term}, more)})
	}
	add(cutSQL, goal, dead)
	if again != nil {
		add(splitSQL, goal, again.id.Term, again.id.Number)
		for _, f := range again.frames {
			add(resealSQL, f.group.Before.Events, f.number, f.segment.Term, f.segment.Number, f.body)
		}
	}
	// Once another host has claimed the journal, the base of this one counts, too, until it is
	// dismissed.
	add(leftSQL, t.through.Events, t.through.Root[:])
	changed, err := s.inTransaction(ctx, steps)
	if err == nil && !changed {
		err = fmt.Errorf("%w: the journal was not cut at event %d", journal.ErrFenced, goal)
	}
	return err
}

// destroy removes the frames before the begin of the journal. Then it makes all holders destroy the
// keys of the segments that are gone, records in the database how far that is done, and sets
// t.erased. It does nothing if the keys up to the begin are destroyed already. If a holder fails,
// it returns the errors of all holders that failed, and the next trim tries again.
func (t *trim) destroy(ctx context.Context) error {
	v, err := t.readView(ctx, t.through)
	if err != nil {
		return err
	}
	if v.begin.Events <= v.erased.Events { // [trim.run] has set t.erased from an earlier view
		return nil
	}
	if err := t.sweep(ctx); err != nil {
		return err
	}
	var live []keyholder.Segment
	for _, s := range v.segments {
		live = append(live, s.Segment)
	}
	var all error
	for _, a := range ask(ctx, keepTime, t.holders(), func(ctx context.Context, h keyholder.Holder) (struct{}, error) {
		return struct{}{}, h.Keep(ctx, t.Name(), t.below, live)
	}) {
		if a.err != nil {
			all = errors.Join(all, fmt.Errorf("keys may be left on host %s: %w", a.of.Name(), a.err))
		}
	}
	if all != nil {
		return all
	}
	n, err := t.change(ctx, erasedSQL, t.ledger, t.Journal.id, t.term, v.begin.Events, v.begin.Root[:])
	if err == nil && n != 1 {
		err = journal.ErrFenced
	}
	if err != nil {
		return err
	}
	t.erased = v.begin
	return nil
}

// sweep removes the frames before the begin of the journal, [sweepRows] in each transaction. When
// it returns nil, the begin of the journal and the resealed frames are durable; no key may be
// destroyed earlier. It returns ErrCorrupt if a remaining frame's segment is not in the table of
// segments, because the key of that frame would be destroyed.
func (t *trim) sweep(ctx context.Context) error {
	return t.using(ctx, func(s *session) error {
		for n := int64(sweepRows); n == sweepRows; {
			var err error
			if n, err = s.change(ctx, sweepSQL, t.ledger, sweepRows); err != nil {
				return err
			}
		}
		if err := t.settleBy(ctx, s); err != nil {
			return err
		}
		n, err := s.change(ctx, straySQL, t.ledger)
		if err == nil && n != 0 {
			err = fmt.Errorf("%w: %d frames belong to no segment", errs.ErrCorrupt, n)
		}
		return err
	})
}
