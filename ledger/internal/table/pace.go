package table

import "time"

// paceStep is how long an update, or a checkpoint, waits until it looks again whether it may go on.
const paceStep = time.Millisecond

// keepPace has an update wait while a checkpoint falls behind: else all would have to wait for its end when there is no more room. writing is held.
func (t *Table) keepPace() {
	for t.outrun() {
		time.Sleep(paceStep)
	}
}

// outrun tells whether the room that is left fills faster than the checkpoint that runs goes on. Where there is none left, all wait anyway.
func (t *Table) outrun() bool {
	c, s := t.current.Load(), t.stage.Load()
	return c.frozen != nil && s != nil && outruns(c.active.size(), t.room(c.frozen), t.options.Limit, s.at(time.Now())) && t.stopped() == nil
}

// room is how many bytes may be in the active layer over a frozen one: twice the limit in all, but never less than the limit.
func (t *Table) room(frozen *layer) int64 {
	return max(t.options.Limit, 2*t.options.Limit-frozen.size())
}

// outruns is [Table.outrun] for a layer of a size with so much room, over one that is being written, of which a share is done. All of the room but
// a quarter of the limit is given to updates bit by bit, as the checkpoint goes on, so that each waits for little. Twice the limit is three fifths full
// at least when anybody waits.
func outruns(size, room, limit int64, done float64) bool {
	const kept = 0.75 // of the limit, when the checkpoint begins
	rest := kept * float64(limit) * (1 - done)
	return size < room && float64(size) > float64(room)-rest
}

// takeTime has a checkpoint that nobody waits for pause after a transaction, as long as it is ahead of the updates: then others feel
// little of it.
func (t *Table) takeTime() {
	for waited := time.Duration(0); waited < longestPause && t.hurry.Load() == 0 && t.ahead(); waited += paceStep {
		time.Sleep(paceStep)
	}
}

// longestPause is how long at most. So a checkpoint ends although nobody updates.
const longestPause = 5 * time.Millisecond

// ahead tells whether more of the checkpoint is done than of the active layer is filled.
func (t *Table) ahead() bool {
	s := t.stage.Load()
	return s != nil && s.at(time.Now()) > float64(t.current.Load().active.size())/float64(t.options.Limit)
}

// stage is a transaction of a checkpoint. How far the checkpoint is, is told as a share of the time that all of it takes.
type stage struct {
	from, to float64 // when it begins, and when it ends
	begun    time.Time
	expected time.Duration // that it takes; 0 if nobody knows
}

// allAside is how far a checkpoint is when all is aside: that takes about so much of its time.
const allAside = 0.2

// at returns how far the checkpoint is. While a transaction runs that is a guess, so that who waits need not wait for its end.
func (s *stage) at(now time.Time) float64 {
	if s.expected <= 0 {
		return s.from
	}
	return s.from + (s.to-s.from)*min(1, float64(now.Sub(s.begun))/float64(s.expected))
}

// unknownEffort is how long a record of a bucket is expected to take of which none was put into its place yet.
const unknownEffort = 2 * time.Microsecond

// effort is how long a checkpoint takes to put everything into its place, reckoned by the one before. Records of one bucket lie close
// together, and each of another changes a page of its own.
type effort struct {
	each      map[string]time.Duration // that a record of a bucket took before
	all, done time.Duration            // as expected
	records   map[string]int           // that are in their places
	took      map[string]time.Duration
}

// effortFor returns what is expected of a checkpoint that has written a layer aside.
func effortFor(l *layer, each map[string]time.Duration) *effort {
	e := &effort{each: each, records: map[string]int{}, took: map[string]time.Duration{}}
	for name, n := range l.lengths() {
		e.all += e.expects(name, n)
	}
	return e
}

// expects returns how long some records of a bucket are likely to take.
func (e *effort) expects(bucket string, records int) time.Duration {
	each, known := e.each[bucket]
	if !known {
		each = unknownEffort
	}
	return each * time.Duration(records)
}

// begin returns the stage in which some records of a bucket are put into their places.
func (e *effort) begin(bucket string, records int) *stage {
	expected := e.expects(bucket, records)
	return &stage{from: e.share(e.done), to: e.share(e.done + expected), begun: time.Now(), expected: expected}
}

// end notes how long they took, and returns the stage behind them.
func (e *effort) end(bucket string, records int, took time.Duration) *stage {
	e.done += e.expects(bucket, records)
	e.records[bucket] += records
	e.took[bucket] += took
	return &stage{from: e.share(e.done)}
}

// share returns how far the checkpoint is when so much is done of what is to be put into its place.
func (e *effort) share(done time.Duration) float64 {
	return allAside + (1-allAside)*min(1, float64(done)/float64(max(e.all, 1)))
}

// learned returns how long a record of each bucket took.
func (e *effort) learned() map[string]time.Duration {
	each := map[string]time.Duration{}
	for bucket, took := range e.took {
		each[bucket] = max(took/time.Duration(max(e.records[bucket], 1)), 1)
	}
	return each
}
