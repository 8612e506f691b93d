package memtable

import (
	"context"
	"maps"
	"time"
)

// pollStep is the interval at which a waiting update or checkpoint checks whether it may
// continue.
const pollStep = time.Millisecond

// throttle delays an update while the checkpoint is too slow for the updates. Otherwise the memory
// would fill up, and all updates would wait for the end of the checkpoint. writing must be held.
func (t *Table) throttle() {
	for t.mustThrottle() {
		time.Sleep(pollStep)
	}
}

// mustThrottle reports whether the free capacity fills faster than the current checkpoint
// progresses. It returns false if no checkpoint writes, or the table has stopped. It also returns
// false if no capacity is free, because awaitCapacity waits then.
func (t *Table) mustThrottle() bool {
	c, s := t.current.Load(), t.stage.Load()
	return c.frozen != nil && s != nil && t.stopped() == nil &&
		exceedsShare(c.active.size(), t.capacity(c.frozen), t.options.Limit, s.done(time.Now()))
}

// capacity returns the capacity in bytes of the active layer over a frozen one. Both together may
// have twice the limit, but the active layer always may have the limit.
func (t *Table) capacity(frozen *layer) int64 {
	return max(t.options.Limit, 2*t.options.Limit-frozen.size())
}

// exceedsShare is [Table.mustThrottle] for an active layer of the given size and capacity, in
// bytes. done is the share of the frozen layer that is written, 0 to 1. limit is Options.Limit.
//
// At the beginning of the checkpoint three quarters of the limit are held back. Updates get them
// bit by bit as the checkpoint progresses, so that each update waits only a little. Updates wait
// only if at least three fifths of twice the limit are in use.
func exceedsShare(size, capacity, limit int64, done float64) bool {
	const reserved = 0.75 // of the limit, when the checkpoint begins
	stillReserved := reserved * float64(limit) * (1 - done)
	return size < capacity && float64(size) > float64(capacity)-stillReserved
}

// AwaitCapacity waits while the free capacity is reserved for other callers. A caller that makes
// one large update after another calls it before each of them. It returns when the checkpoint has
// progressed far enough. So other callers find some free capacity between two large updates, and
// need not wait. It returns ctx.Err() if ctx ends first.
func (t *Table) AwaitCapacity(ctx context.Context) error {
	t.waiters.Add(1) // otherwise the checkpoint might pause until this caller updates: a deadlock
	defer t.waiters.Add(-1)
	for t.isCrowded() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollStep):
		}
	}
	return nil
}

// isCrowded reports whether the filled share of the active layer is larger than the share of the
// current checkpoint that is done. It returns false if no checkpoint writes, or the table has
// stopped.
func (t *Table) isCrowded() bool {
	s := t.stage.Load()
	return s != nil && t.filled() > s.done(time.Now()) && t.stopped() == nil
}

// filled returns the size of the active layer as a share of the limit.
func (t *Table) filled() float64 {
	return float64(t.current.Load().active.size()) / float64(t.options.Limit)
}

// pauseIfAhead pauses a checkpoint after a transaction, as long as the checkpoint is ahead of the
// updates and no caller waits for it. So other transactions are hardly delayed.
func (t *Table) pauseIfAhead() {
	for paused := time.Duration(0); paused < longestPause && t.waiters.Load() == 0 && t.isAhead(); paused += pollStep {
		time.Sleep(pollStep)
	}
}

// longestPause limits each pause, so that a checkpoint ends even if there are no updates.
const longestPause = 5 * time.Millisecond

// isAhead reports whether the share of the checkpoint that is done is larger than the filled share
// of the active layer. A checkpoint must be writing.
func (t *Table) isAhead() bool {
	return t.stage.Load().done(time.Now()) > t.filled()
}

// stage is the progress of a checkpoint, with the expected progress of the current transaction.
type stage struct {
	from, to float64 // shares that are done at the beginning and at the end of the transaction
	begun    time.Time
	expected time.Duration // duration of the transaction; 0 if none runs
}

// done returns the share of the checkpoint that is done, 0 to 1. During a transaction it is an
// estimate, linear in time, so that waiting updates need not wait for the end of the transaction.
func (s *stage) done(now time.Time) float64 {
	if s.expected <= 0 {
		return s.from
	}
	return s.from + (s.to-s.from)*min(1, float64(now.Sub(s.begun))/float64(s.expected))
}

const (
	// unknownEffort is the expected time for a record of a bucket for which few records were
	// measured.
	unknownEffort = 2 * time.Microsecond
	// maxEffort limits the expected time for a record. A measured time may be longer, because a
	// disk may hang.
	maxEffort = 200 * time.Microsecond
	// fewRecords is the number of records below which a measurement is ignored: the fixed cost of a
	// transaction would be most of it.
	fewRecords = 64
)

// efforts are the expected times for one record, by bucket. The times differ: the records of one
// bucket may be close together, while each record of another bucket changes a page of its own. The
// time for [Staging] is that of staging a record.
type efforts map[string]time.Duration

// effort estimates the share of a checkpoint that is done, from the times that earlier checkpoints
// took. It also measures the current one.
type effort struct {
	each      efforts        // expected time for one record, by bucket
	all, done time.Duration  // expected time for the whole checkpoint, and for what is written
	records   map[string]int // number of records written to each bucket
	took      efforts        // measured time for all of these
}

// effortFor returns the expected effort of a checkpoint of a layer: to stage each record, and then
// to write it to its bucket. each are the times that earlier checkpoints took.
func effortFor(l *layer, each efforts) *effort {
	e := &effort{each: each, records: map[string]int{}, took: efforts{}}
	e.all = e.expected(Staging, l.length())
	for name, n := range l.lengths() {
		e.all += e.expected(name, n)
	}
	return e
}

// expected returns the expected time to write some records to a bucket.
func (e *effort) expected(bucket string, records int) time.Duration {
	each, known := e.each[bucket]
	if !known {
		each = unknownEffort
	}
	return each * time.Duration(records)
}

// begin returns the stage of a transaction, which begins now, that writes so many records to a
// bucket.
func (e *effort) begin(bucket string, records int) *stage {
	expected := e.expected(bucket, records)
	return &stage{from: e.share(e.done), to: e.share(e.done + expected), begun: time.Now(), expected: expected}
}

// count adds so many records of a bucket to what is done, and returns the stage after them.
func (e *effort) count(bucket string, records int) *stage {
	e.done += e.expected(bucket, records)
	return &stage{from: e.share(e.done)}
}

// end is count, and also stores the time that the transaction took.
func (e *effort) end(bucket string, records int, took time.Duration) *stage {
	e.records[bucket] += records
	e.took[bucket] += took
	return e.count(bucket, records)
}

// share returns done, an expected time, as a share of the expected time for the whole checkpoint: 0
// to 1.
func (e *effort) share(done time.Duration) float64 {
	return min(1, float64(done)/float64(max(e.all, 1)))
}

// nextEfforts returns the expected times for the next checkpoint. For a bucket to which this
// checkpoint wrote fewer than [fewRecords], they are the earlier ones. For any other bucket, they
// are measured, and at most [maxEffort].
func (e *effort) nextEfforts() efforts {
	each := efforts{}
	maps.Copy(each, e.each)
	for bucket, took := range e.took {
		if n := e.records[bucket]; n >= fewRecords {
			each[bucket] = min(max(took/time.Duration(n), 1), maxEffort)
		}
	}
	return each
}
