package memtable

import (
	"context"
	"maps"
	"time"
)

// paceStep is how long an update, or a checkpoint, waits until it looks again whether it may go on.
const paceStep = time.Millisecond

// keepPace has an update wait while a checkpoint falls behind: else all would have to wait for its
// end when there is no more room. writing is held.
func (t *Table) keepPace() {
	for t.outrun() {
		time.Sleep(paceStep)
	}
}

// outrun tells whether the room that is left fills faster than the checkpoint that runs goes on.
// Where there is none left, all wait anyway.
func (t *Table) outrun() bool {
	c, s := t.current.Load(), t.stage.Load()
	return c.frozen != nil && s != nil && t.stopped() == nil &&
		outruns(c.active.size(), t.room(c.frozen), t.options.Limit, s.at(time.Now()))
}

// room is how many bytes may be in the active layer over a frozen one: twice the limit in all, but
// never less than the limit.
func (t *Table) room(frozen *layer) int64 {
	return max(t.options.Limit, 2*t.options.Limit-frozen.size())
}

// outruns is [Table.outrun] for a layer of a size with so much room, over one that is being
// written, of which a share is done. All of the room but a quarter of the limit is given to updates
// bit by bit, as the checkpoint goes on, so that each waits for little. Twice the limit is three
// fifths full at least when anybody waits.
func outruns(size, room, limit int64, done float64) bool {
	const kept = 0.75 // of the limit, when the checkpoint begins
	rest := kept * float64(limit) * (1 - done)
	return size < room && float64(size) > float64(room)-rest
}

// AwaitRoom waits while the room that is left is for others: whoever makes one large update after
// another calls it before each. It gets room as the checkpoint goes on, and those who come in
// between find some more, so that they do not wait behind it.
func (t *Table) AwaitRoom(ctx context.Context) error {
	t.hurry.Add(1) // else each would wait for the other
	defer t.hurry.Add(-1)
	for t.isCrowded() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(paceStep):
		}
	}
	return nil
}

// isCrowded tells whether more of the active layer is filled than of the checkpoint that runs is
// done.
func (t *Table) isCrowded() bool {
	s := t.stage.Load()
	return s != nil && t.filled() > s.at(time.Now()) && t.stopped() == nil
}

// filled returns how much of the limit is in the active layer, as a share.
func (t *Table) filled() float64 {
	return float64(t.current.Load().active.size()) / float64(t.options.Limit)
}

// takeTime has a checkpoint that nobody waits for pause after a transaction, as long as it is ahead
// of the updates: then others feel little of it.
func (t *Table) takeTime() {
	for waited := time.Duration(0); waited < longestPause && t.hurry.Load() == 0 && t.ahead(); waited += paceStep {
		time.Sleep(paceStep)
	}
}

// longestPause is how long at most. So a checkpoint ends although nobody updates.
const longestPause = 5 * time.Millisecond

// ahead tells whether more of the checkpoint is done than of the active layer is filled.
func (t *Table) ahead() bool {
	return t.stage.Load().at(time.Now()) > t.filled()
}

// stage is how far a checkpoint is, and what the transaction that runs, if one does, adds to that.
type stage struct {
	from, to float64 // when the transaction begins, and when it ends
	begun    time.Time
	expected time.Duration // that it takes; 0 if none runs
}

// at returns how far the checkpoint is. While a transaction runs that is a guess, so that who waits
// need not wait for its end.
func (s *stage) at(now time.Time) float64 {
	if s.expected <= 0 {
		return s.from
	}
	return s.from + (s.to-s.from)*min(1, float64(now.Sub(s.begun))/float64(s.expected))
}

const (
	// unknownEffort is how long a record of a bucket is expected to take of which few were put into
	// their places yet.
	unknownEffort = 2 * time.Microsecond
	// mostEffort is how long it is expected to take at most. It may have taken longer, for a disk
	// may hang.
	mostEffort = 200 * time.Microsecond
	// fewRecords are so few that what a transaction takes by itself is most of what they took.
	fewRecords = 64
)

// efforts are how long a record takes, by the bucket into which it is put: those of one lie close
// together, and each of another changes a page of its own. That of [Aside] is what it takes to
// write a record aside.
type efforts map[string]time.Duration

// effort is how long a checkpoint takes, reckoned by those before it.
type effort struct {
	each      efforts
	all, done time.Duration  // as expected
	records   map[string]int // that were put into each bucket
	took      efforts        // all of these
}

// effortFor returns what is expected of a checkpoint of a layer.
func effortFor(l *layer, each efforts) *effort {
	e := &effort{each: each, records: map[string]int{}, took: efforts{}}
	e.all = e.expects(Aside, l.length())
	for name, n := range l.lengths() {
		e.all += e.expects(name, n)
	}
	return e
}

// expects returns how long it is likely to take to put some records into a bucket.
func (e *effort) expects(bucket string, records int) time.Duration {
	each, known := e.each[bucket]
	if !known {
		each = unknownEffort
	}
	return each * time.Duration(records)
}

// begin returns the stage in which some records are put into a bucket.
func (e *effort) begin(bucket string, records int) *stage {
	expected := e.expects(bucket, records)
	return &stage{from: e.share(e.done), to: e.share(e.done + expected), begun: time.Now(), expected: expected}
}

// pass returns the stage behind that.
func (e *effort) pass(bucket string, records int) *stage {
	e.done += e.expects(bucket, records)
	return &stage{from: e.share(e.done)}
}

// end is pass, and notes how long they took.
func (e *effort) end(bucket string, records int, took time.Duration) *stage {
	e.records[bucket] += records
	e.took[bucket] += took
	return e.pass(bucket, records)
}

// share returns how far the checkpoint is when so much is done.
func (e *effort) share(done time.Duration) float64 {
	return min(1, float64(done)/float64(max(e.all, 1)))
}

// learned returns how long a record takes, with what this checkpoint has shown.
func (e *effort) learned() efforts {
	each := efforts{}
	maps.Copy(each, e.each)
	for bucket, took := range e.took {
		if n := e.records[bucket]; n >= fewRecords {
			each[bucket] = min(max(took/time.Duration(n), 1), mostEffort)
		}
	}
	return each
}
