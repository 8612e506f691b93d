package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
)

// foldStore is the store that the audit folds the log into. It reads events from the snapshot that
// is being folded. The writes of an event are pending until the whole event was applied. Records in
// this store have no checksums.
type foldStore struct {
	state   *memtable.Table
	writer  kv.Writer // of the update of the state in progress, or nil
	log     kv.Reader
	pending []pendingWrite
	buf     []byte // the keys and values of pending writes
	failure error  // the first error of the state; the audit cannot continue after it
}

// pendingWrite is a pending put or delete. Its key and value are in foldStore.buf, between these
// offsets.
type pendingWrite struct {
	bucket          string
	key, value, end int
	deleted         bool
}

// update runs fn in a transaction of the state, which is committed if fn returns nil. Writes that
// are applied and scans need one.
func (f *foldStore) update(fn func() error) error {
	return f.state.Update(func(w kv.Writer) error {
		f.writer = w
		defer func() { f.writer = nil }()
		return fn()
	})
}

// stored returns a record of the state, without pending writes, or nil if there is none.
func (f *foldStore) stored(bucket string, key []byte) ([]byte, error) {
	if f.writer != nil {
		return f.writer.Get(bucket, key)
	}
	return f.copied(bucket, key)
}

// copied is stored outside an update. It returns a copy, because the record is only valid during
// the read.
func (f *foldStore) copied(bucket string, key []byte) (value []byte, err error) {
	err = f.state.View(func(r kv.Reader) error {
		found, err := r.Get(bucket, key)
		value = bytes.Clone(found)
		return err
	})
	return value, err
}

// Get implements kv.Reader. It returns events from the log, and other records as the pending writes
// leave them.
func (f *foldStore) Get(bucket string, key []byte) ([]byte, error) {
	if bucket == state.BucketEvents {
		return f.event(key)
	}
	// The last write to a key applies.
	for i := len(f.pending) - 1; i >= 0; i-- {
		if w := &f.pending[i]; w.bucket == bucket && bytes.Equal(f.buf[w.key:w.value], key) {
			return f.valueOf(w), nil
		}
	}
	value, err := f.stored(bucket, key)
	return value, f.recordFailure(err)
}

// valueOf returns the value of a pending write, nil for a delete.
func (f *foldStore) valueOf(w *pendingWrite) []byte {
	if w.deleted {
		return nil
	}
	return f.buf[w.value:w.end:w.end]
}

// event returns the payload of the record of an event, or nil if there is none. It does not check
// the checksum, because a wrong one was reported when the event was folded.
func (f *foldStore) event(key []byte) ([]byte, error) {
	value, err := f.log.Get(state.BucketEvents, key)
	if err != nil || value == nil {
		return nil, err
	}
	if len(value) < wire.SumLength {
		return wire.Unseal(state.BucketEvents, key, value) // returns the error for a value that is too short
	}
	return value[:len(value)-wire.SumLength], nil
}

// Scan implements kv.Reader, inside an update. It does not see pending writes: no event scans when
// it is applied.
func (f *foldStore) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	return f.recordFailure(f.writer.Scan(bucket, from, visit))
}

// Put implements kv.Writer. The write is pending until applyPending.
func (f *foldStore) Put(bucket string, key, value []byte) error {
	at := len(f.buf)
	f.buf = append(append(f.buf, key...), value...)
	f.pending = append(f.pending, pendingWrite{bucket: bucket, key: at, value: at + len(key), end: len(f.buf)})
	return nil
}

// Delete implements kv.Writer. The write is pending until applyPending.
func (f *foldStore) Delete(bucket string, key []byte) error {
	at := len(f.buf)
	f.buf = append(f.buf, key...)
	f.pending = append(f.pending, pendingWrite{bucket, at, len(f.buf), len(f.buf), true})
	return nil
}

// applyPending executes the pending writes.
func (f *foldStore) applyPending() error {
	for i := range f.pending {
		var err error
		w := &f.pending[i]
		if key := f.buf[w.key:w.value]; w.deleted {
			err = f.writer.Delete(w.bucket, key)
		} else {
			err = f.writer.Put(w.bucket, key, f.valueOf(w))
		}
		if err != nil {
			return f.recordFailure(err)
		}
	}
	f.discardPending()
	return nil
}

// discardPending discards the pending writes.
func (f *foldStore) discardPending() {
	f.pending, f.buf = f.pending[:0], f.buf[:0]
}

// recordFailure keeps err in f.failure if it is the first error of the state, and returns it.
func (f *foldStore) recordFailure(err error) error {
	if err != nil && f.failure == nil {
		f.failure = err
	}
	return err
}

// eventBatch is a batch of events. Their bytes are copied, because a read of the file may fail in
// ways that only the goroutine with the snapshot can handle. Records are added, then decoded in the
// background, and then applied.
type eventBatch struct {
	buf     []byte
	records []rawEvent  // where the records are in buf
	events  []readEvent // the decoded events, in the same order
	reader  event.Reader
	decoded chan struct{} // receives an element when the events are decoded
}

// rawEvent has the offsets of a record's key and value in eventBatch.buf.
type rawEvent struct{ key, value, end int }

// readEvent is a decoded event. Batches reuse it, together with the memory of the hashes in its
// entry.
type readEvent struct {
	number  uint64
	entry   event.Entry
	leaf    tlog.Hash
	hashes  []tlog.Hash // nil if they cannot be decoded
	damaged bool        // the checksum is wrong
	invalid error       // why it cannot be decoded, or nil
}

// batchBytes is the number of bytes after which a batch is full, for any number of events.
const batchBytes = 256 << 10

// newBatch returns an empty batch.
func newBatch() *eventBatch {
	return &eventBatch{reader: event.Reader{Texts: &wire.Texts{}}, decoded: make(chan struct{}, 1)}
}

// add copies a record into the batch.
func (b *eventBatch) add(key, value []byte) {
	at := len(b.buf)
	b.buf = append(append(b.buf, key...), value...)
	b.records = append(b.records, rawEvent{at, at + len(key), len(b.buf)})
}

// isFull reports whether the batch has enough events or bytes.
func (b *eventBatch) isFull(events int) bool {
	return len(b.records) >= events || len(b.buf) >= batchBytes
}

// decode checks, decodes and hashes the events of the batch, and then sends to b.decoded. It runs
// in a goroutine of its own. All checksums start from the same value, because all records have the
// same bucket and key length.
func (b *eventBatch) decode() {
	n, head := len(b.records), wire.ChecksumHead(state.BucketEvents, len(state.EventKey(0)))
	b.events = slices.Grow(b.events[:0], n)[:n]
	table := crc32.MakeTable(crc32.Castagnoli)
	for i, r := range b.records {
		// The end of the payload. A value that is too short for a checksum has no payload.
		payload := max(r.value, r.end-wire.SumLength)
		sum := crc32.Update(head, table, b.buf[r.key:payload]) // key and payload are adjacent in buf
		sealed := r.end-payload == wire.SumLength && binary.BigEndian.Uint32(b.buf[payload:]) == sum
		b.events[i].read(binary.BigEndian.Uint64(b.buf[r.key:]), b.buf[r.value:payload:payload], sealed, &b.reader)
	}
	b.decoded <- struct{}{}
}

// read decodes as much of an event as possible. sealed reports whether its checksum is right. An
// event that only has a wrong checksum is decoded as well: the tree shows whether it has changed.
// Of an event that cannot be decoded, only the hashes at the end of the payload are read.
func (e *readEvent) read(number uint64, payload []byte, sealed bool, r *event.Reader) {
	e.number, e.hashes, e.damaged = number, nil, !sealed
	if e.invalid = e.entry.Read(e.number, payload, r); e.invalid == nil {
		e.leaf, e.hashes = r.Leaf(), e.entry.Hashes
		return
	}
	e.leaf = tlog.Hash{}
	d := &wire.Decoder{Rest: payload[max(0, len(payload)-tlog.HashSize*merkle.Completes(e.number-1)):]}
	if hashes := event.DecodeHashes(d, e.number, nil); d.Done() == nil {
		e.hashes = hashes
	}
}

// pipeline decodes one batch in the background while the batch before it is applied.
type pipeline struct{ next, decoding *eventBatch } // the batch that is being filled, and the one before it

// push starts to decode the batch that was filled, and applies the batch before it. That one is
// empty afterwards, and is filled next. push does nothing if no event was added.
func (p *pipeline) push(a *auditor) error {
	if len(p.next.records) == 0 {
		return nil
	}
	go p.next.decode()
	a.pace.Rest()
	p.next, p.decoding = p.decoding, p.next
	return p.next.apply(a)
}

// drain applies the last batch that was pushed.
func (p *pipeline) drain(a *auditor) error { return p.decoding.apply(a) }

// apply waits until a batch is decoded, applies its events in one update, and empties it. An empty
// batch has not been decoded, and is not waited for.
func (b *eventBatch) apply(a *auditor) error {
	if len(b.records) == 0 {
		return nil
	}
	<-b.decoded
	err := a.source.update(func() error {
		for i := range b.events {
			if err := a.add(&b.events[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.buf, b.records, b.events = b.buf[:0], b.records[:0], b.events[:0]
	return nil
}

// treeCheck recomputes the Merkle tree of RFC 6962 as the log is read. A subtree of level k has 2^k
// leaves. Like the bits of a binary counter, the bits of size show which levels have a complete
// subtree without a right neighbour. The tree consists of these, the largest first.
type treeCheck struct {
	size  uint64        // number of leaves, including those with unknown hashes
	left  [64]tlog.Hash // by level: the root of the complete subtree without a right neighbour, if there is one
	known uint64        // the levels, as bits, at which left is known
}

// wrongHash is a stored hash of a subtree that differs from the hash of its two halves.
type wrongHash struct {
	level     int
	got, want tlog.Hash
}

// add adds a leaf with the hashes that are stored with it, and returns those that are wrong.
// hashes[k] is the root of the subtree of level k that ends with the leaf, and hashes[0] is the
// hash of the leaf. Each is compared with the hash of its halves: the subtree in left, and
// hashes[k−1].
func (t *treeCheck) add(hashes []tlog.Hash) (wrong []wrongHash) {
	for level := 1; level < len(hashes); level++ {
		if t.known>>(level-1)&1 == 0 { // the left half is unknown
			continue
		}
		if want := merkle.HashNode(t.left[level-1], hashes[level-1]); want != hashes[level] {
			wrong = append(wrong, wrongHash{level, hashes[level], want})
		}
	}
	// Only the largest subtree that the leaf completes has no right neighbour yet. A wrong hash is
	// kept as it is stored, so that it is reported only once.
	top := len(hashes) - 1
	t.left[top] = hashes[top]
	t.known |= 1 << top
	t.size++
	return wrong
}

// skip continues at a size, after leaves whose hashes are unknown. It marks the subtrees of the
// larger tree that contain such leaves as unknown.
func (t *treeCheck) skip(size uint64) {
	for level := range t.left {
		// size>>level<<level is the number of leaves up to the end of the subtree of this level.
		if size>>level&1 == 1 && size>>level<<level > t.size {
			t.known &^= 1 << level
		}
	}
	t.size = size
}

// root returns the root of the whole tree. known is false if it depends on unknown hashes. It joins
// the complete subtrees from the smallest, which is the rightmost, to the largest.
func (t *treeCheck) root() (root tlog.Hash, known bool) {
	if t.size == 0 {
		root, _ = tlog.TreeHash(0, nil)
		return root, true
	}
	for level := range t.left {
		switch {
		case t.size>>level&1 == 0: // the tree has no subtree of this level
		case t.known>>level&1 == 0:
			return root, false
		case !known:
			root, known = t.left[level], true
		default:
			root = merkle.HashNode(t.left[level], root)
		}
	}
	return root, known
}

// adopted copies a stored record into the fold, and returns it decoded. found is false if the fold
// has a record with this key, or if no record is stored that can be decoded.
func adopted[T any](a *auditor, bucket string, key []byte, decode func([]byte) (T, error)) (record T, found bool) {
	if made, err := a.fold.Payload(bucket, key); err != nil || made != nil {
		return record, false
	}
	record, found, err := state.Lookup(&state.State{Reader: a.source.log}, bucket, key, decode)
	if err != nil || !found {
		return record, false
	}
	value, err := a.source.log.Get(bucket, key)
	if err != nil {
		return record, false
	}
	_ = a.source.Put(bucket, key, value[:len(value)-wire.SumLength]) // Put cannot fail: the write is only pending
	return record, true
}

// foldSome folds the next events of the snapshot r, up to the limits of the pace. It returns true
// if it has folded all events of the snapshot. If the events cannot be read to the end, it reports
// this, and returns true as well, so that the records are compared.
func (a *auditor) foldSome(ctx context.Context, r kv.Reader) (caughtUp bool, err error) {
	stored, counters := &state.State{Reader: r}, []byte(state.KeyCounters)
	if c, _, err := state.Lookup(stored, state.BucketMeta, counters, state.DecodeCounters); err == nil {
		a.total = c.Events
	}
	p := &a.events
	// The scan below clears it when a limit is reached.
	caughtUp = true
	var last []byte
	read, size := 0, 0
	scan := r.Scan(state.BucketEvents, a.nextKey, func(key, value []byte) bool {
		if read == a.pace.Events || size >= a.pace.Bytes || a.isFull() {
			caughtUp = false
			return false
		}
		last, read, size = append(last[:0], key...), read+1, size+len(value)
		if len(key) != len(state.EventKey(0)) {
			a.report(Finding{Kind: problemEvent, Text: fmt.Sprintf("a record with the key %x among the events", key)})
			return true
		}
		p.next.add(key, value)
		if p.next.isFull(a.pace.Batch) {
			err = p.push(a)
		}
		if read%state.CheckEvery == 0 {
			err = errors.Join(err, ctx.Err())
		}
		return err == nil
	})
	if err == nil {
		err = errors.Join(p.push(a), p.drain(a))
	}
	if err != nil {
		return false, err
	}
	if last != nil {
		a.nextKey = append(last, 0) // the first key after the last one read
	}
	if scan != nil {
		next := a.fold.Counters.Events + 1
		text := fmt.Sprintf("the events from %d on cannot be read: %s", next, reason(scan))
		a.fault(kv.Fault{Bucket: state.BucketEvents, From: state.EventKey(next), Text: text})
		caughtUp = true
	}
	if caughtUp {
		a.closeAssumed()
	}
	// The comparison needs all records, and the tallies in memory must not grow without limit.
	if caughtUp || a.fold.CountedInMemory() > a.pace.Records {
		err = a.source.update(a.flush)
	}
	return caughtUp, err
}

// flush writes the tallies and the counters, which the fold keeps in memory, to its records.
func (a *auditor) flush() error {
	a.fold.Counters.Root, _ = a.tree.root() // unknown where events are missing, which is reported
	if err := fold.Flush(a.fold); err != nil {
		return err
	}
	a.fold.ForgetTallies()
	return a.source.applyPending()
}

// add adds an event to the tree and to the fold. Faults of the event are reported, and the audit
// continues after it. An error means that the audit cannot continue.
func (a *auditor) add(e *readEvent) error {
	a.checkNumber(e)
	a.checkTree(e)
	n := &e.entry
	if e.invalid == nil && n.Change != nil {
		a.latest = n.Change.Kind()
		a.noteFuture(&n.Event)
	}
	switch {
	case e.number == 0:
		return nil
	case e.invalid != nil:
		a.reportEvent(e.number, "%s", reason(e.invalid))
		// Without this event, the rest of its request cannot be compared.
		a.fold.Counters.Events, a.fold.Counters.InProgress = e.number, state.InProgress{IsIncomplete: true}
		return nil
	case e.damaged:
		a.report(a.eventProblem(n.Event, "its checksum is wrong"))
	}
	applied, err := a.applyEvent(&n.Event)
	if err != nil || !applied {
		return err
	}
	a.checkLinks(n)
	return nil
}

// checkNumber reports the events that are missing before this one, and makes the fold and the tree
// continue after them. It also reports an event with the number 0.
func (a *auditor) checkNumber(e *readEvent) {
	next := a.fold.Counters.Events + 1
	switch {
	case e.number == 0:
		a.reportEvent(0, "there is an event 0, but events are numbered from 1")
		return
	case e.number == next:
		return
	}
	a.reportMissing(next, e.number-1)
	a.fold.Counters.Events, a.fold.Counters.InProgress = e.number-1, state.InProgress{IsIncomplete: true}
	a.tree.skip(e.number - 1)
	a.checkTrusted()
}

// reportMissing reports that a range of events is missing, of which both ends are included. It does
// nothing if to is below from.
func (a *auditor) reportMissing(from, to uint64) {
	switch {
	case from == to:
		a.reportEvent(from, "event %d is missing", from)
	case from < to:
		a.reportEvent(from, "the events %d to %d are missing", from, to)
	}
}

// checkTree adds the hashes that are stored with an event to the tree, and reports wrong ones. Each
// is compared with the stored hashes below it, so that a wrong hash is reported where it is. Then
// the tree is compared with the checkpoints.
func (a *auditor) checkTree(e *readEvent) {
	if e.number == 0 || e.number > merkle.MaxSize {
		return
	}
	if e.invalid == nil && e.leaf != e.hashes[0] {
		text := fmt.Sprintf("the leaf is %s, that of the event is %s", e.hashes[0], e.leaf)
		a.report(Finding{Kind: problemTree, Event: e.number, Object: event.ObjectOf(e.entry.Event), Text: text})
	}
	if e.hashes == nil {
		a.tree.skip(e.number)
	} else {
		for _, w := range a.tree.add(e.hashes) {
			text := fmt.Sprintf("the hash of the %d events up to here is %s, the hashes below it give %s",
				uint64(1)<<w.level, w.got, w.want)
			a.report(Finding{Kind: problemTree, Event: e.number, Text: text})
		}
	}
	a.checkTrusted()
}

// checkLinks checks how an event is linked to the event before it about the same object. After a
// forgotten event, it also checks that the linked events are erased.
func (a *auditor) checkLinks(n *event.Entry) {
	l := a.fold.Linked
	if n.Previous != l.Previous {
		text := fmt.Sprintf("the event before it about the same object is %d, the events say %d",
			n.Previous, l.Previous)
		a.report(a.eventProblem(n.Event, text))
	}
	// An event may have been erased after it was folded, so its current record decides.
	for _, left := range []struct {
		number uint64
		text   string
	}{
		{l.Erase, "not all events about it"},
		{l.EraseRequests, "not all events about it"},
		{l.EraseNamed, "not all requests that may name it"},
	} {
		if left.number == 0 {
			continue
		}
		if before, err := a.fold.Entry(left.number); err == nil && before.Erased == nil {
			text := fmt.Sprintf("the object is forgotten, but %s are erased: the last of them is event %d",
				left.text, left.number)
			p := a.eventProblem(n.Event, text)
			p.Event = left.number
			a.report(p)
		}
	}
}

// applyEvent applies an event to the fold. If that is impossible, it reports why, and tries again
// after it has adjusted the fold as if the event were right. Thus later events are not reported for
// the same reason. applied is false if the event could not be applied even then, and was skipped.
// The audit cannot continue after err.
func (a *auditor) applyEvent(ev *event.Event) (applied bool, err error) {
	a.prepareAssumed(ev.Change)
	fault, err := a.tryApply(ev)
	// The event may refer to a definition that no event has, but that is stored.
	if fault != nil && a.adopt(*ev) {
		fault, err = a.tryApply(ev)
	}
	if err != nil || fault == nil {
		return err == nil, err
	}
	a.report(a.eventProblem(*ev, reason(fault)))
	a.tolerate(*ev)
	again, err := a.tryApply(ev)
	if err != nil || again == nil {
		return err == nil, err
	}
	// fault is why the event was not applied first, and again why not after the adjustments.
	if again.Error() != fault.Error() {
		a.report(a.eventProblem(*ev, reason(again)))
	}
	return false, a.skipEvent(*ev)
}

// tryApply applies an event completely, or not at all. fault is why the event is not possible. The
// audit cannot continue after err.
func (a *auditor) tryApply(ev *event.Event) (fault, err error) {
	s := a.fold
	before := s.Counters
	s.Levels.Clear()
	fault = fold.Apply(s, *ev) // writes to the pending writes of a.source
	if a.source.failure != nil {
		return nil, a.source.failure
	}
	if fault != nil {
		s.Counters, s.LastBuyer = before, state.NumberedName{}
		s.ForgetSales()
		s.UndoRecounts()
		a.source.discardPending()
		return fault, nil
	}
	s.Recounts = s.Recounts[:0]
	// The state may remember only what an applied event has created.
	s.Durable.Questions, s.Durable.Policies = s.Counters.Questions, s.Counters.Policies
	return nil, a.source.applyPending()
}

// skipEvent counts and links an event that cannot be applied, without its other effects. A sale or
// reservation is assumed to exist, because the events of its objects follow. It is recorded as far
// as its event describes it.
func (a *auditor) skipEvent(ev event.Event) error {
	s := a.fold
	s.Counters.Events, s.Counters.Last = ev.Number, ev.Time
	s.Counters.InProgress = state.InProgress{IsIncomplete: true}
	if err := a.linkSkipped(ev); err != nil {
		return err
	}
	var d event.Deal
	status := state.SaleSold
	switch c := ev.Change.(type) {
	case *event.SaleMade:
		d = c.Deal
	case *event.Reserved:
		d, status = c.Deal, state.SaleReserved
	default:
		return nil
	}
	if d.Sale == 0 || d.Objects == 0 {
		return nil
	}
	ordinal := a.orderSkipped(d)
	s.Counters.Sales = max(s.Counters.Sales, d.Sale)
	a.openAssumed(d.Sale)
	r := state.Sale{
		Status: status, Buyer: d.Buyer, Ordinal: ordinal, Question: d.Question, Epsilon: d.Epsilon,
		Objects: d.Objects, Price: d.Price, Refused: d.Refused, Event: ev.Number,
	}
	if c, ok := ev.Change.(*event.Reserved); ok {
		r.Expires, r.Granted = c.Expires, ev.Number
	}
	if err := s.PutSale(d.Sale, r); err != nil {
		return err
	}
	return a.source.applyPending()
}

// orderSkipped returns the ordinal of a skipped sale among the orders of its buyer, and records the
// order. If the sale was reserved before, that is the ordinal of the reservation. It returns 0 for
// a buyer that no event defines.
func (a *auditor) orderSkipped(d event.Deal) uint64 {
	if d.Sale <= a.fold.Counters.Sales {
		if before, err := a.fold.Sale(d.Sale); err == nil {
			return before.Ordinal
		}
	}
	ordinal, err := a.fold.AddOrder(d.Buyer, d.Sale)
	if err != nil {
		return 0
	}
	return ordinal
}

// linkSkipped makes a skipped event the last one about its object, because the next event about the
// object refers to it. It does nothing if the object is unknown, or for a forgotten event.
func (a *auditor) linkSkipped(ev event.Event) error {
	name := event.ObjectOf(ev)
	_, known, err := a.fold.Object(name)
	if err == nil && !known {
		_, known, err = a.fold.Stranger(name)
	}
	if err == nil && known && ev.Change.Kind() != event.KindForgotten {
		_, settled := ev.Change.(*event.Settled)
		err = a.fold.LinkName(name, ev.Number, settled)
	}
	return errors.Join(err, a.source.applyPending())
}

// openAssumed makes a sale the open one whose objects and sums are unknown. Its sums are set so
// high that any object fits.
func (a *auditor) openAssumed(number uint64) {
	const plenty = math.MaxInt64
	a.isAssumed = true
	tally := event.SaleTally{Draws: plenty, Resales: plenty, Degradations: plenty, Insertions: plenty, Upgrades: plenty}
	a.fold.Counters.Open = state.Opened{Sale: number, Objects: plenty, Price: plenty, Tally: tally}
}

// closeAssumed ends the assumed sale, if there is one.
func (a *auditor) closeAssumed() {
	if a.isAssumed {
		a.isAssumed, a.fold.Counters.Open = false, state.Opened{}
	}
}

// prepareAssumed ends the assumed sale before a change that is not one of its objects.
func (a *auditor) prepareAssumed(c event.Change) {
	if number, is := event.ShareOf(c); !is || number != a.fold.Counters.Open.Sale {
		a.closeAssumed()
	}
}

// tolerate adjusts the counters, and what an event depends on, so that the event can be applied
// although a check failed. The request in progress is marked as incomplete, so that its settled
// event is not compared with it.
func (a *auditor) tolerate(ev event.Event) {
	n := &a.fold.Counters
	if ev.Time.Before(n.Last) {
		n.Last = ev.Time
	}
	if number, is := event.ShareOf(ev.Change); is {
		a.openAssumed(number)
	} else {
		a.isAssumed, n.Open = false, state.Opened{}
	}
	if _, is := ev.Change.(*event.Charged); !is {
		n.Charges = state.Charges{}
	}
	n.InProgress = state.InProgress{IsIncomplete: true}
	if _, is := ev.Change.(*event.ObjectRefused); !is {
		n.Refused, n.Unsettled, n.Answer = 0, 0, state.Answering{}
	}
	switch c := ev.Change.(type) {
	case *event.Released:
		a.tolerateTruth(c.Question, c.Object)
	case *event.Charged:
		a.tolerateTruth(c.Question, c.Object)
	case *event.Sold:
		if r, err := a.fold.Sale(c.Sale); err == nil {
			a.tolerateTruth(r.Question, c.Object)
		}
	case *event.NoiseKeySet:
		n.Noises = max(n.Noises, c.Number-1)
	case *event.QuestionDefined:
		n.Questions = max(n.Questions, c.Number-1)
	case *event.PolicyDefined:
		n.Policies = max(n.Policies, c.Number-1)
	case *event.BuyerNamed:
		n.Buyers = max(n.Buyers, c.Number-1)
	case *event.Answered:
		if c.Method == event.MethodFresh || c.Method == event.MethodRaise {
			n.Charges = state.Charges{Objects: c.Objects, Erased: c.Objects}
		}
	case *event.Settled:
		n.Refused, n.Unsettled = c.Refused, c.Sale
	case *event.Reserved:
		n.Sales = max(n.Sales, c.Sale-1)
	case *event.SaleMade:
		if _, err := a.fold.Sale(c.Sale); err != nil { // otherwise the sale was reserved, and counted then
			n.Sales = c.Sale - 1
		}
	}
}

// tolerateTruth binds a chain to some true value, unless it is bound, so that a draw from it is
// possible.
func (a *auditor) tolerateTruth(question uint32, name string) {
	if c, found, err := a.fold.Chain(question, name); err == nil && found && c.Bound == nil {
		c.Bound = &event.Tag{}
		// A failure is recorded in foldStore.
		_ = errors.Join(a.fold.PutChain(question, name, c), a.source.applyPending())
	}
}

// adopt copies the stored definitions that an event refers to and no event defines, so that the
// rest can be audited. It reports each of them. It returns true if it has copied any.
func (a *auditor) adopt(ev event.Event) bool {
	// The numbers of what the event refers to; under is the policy. 0 is none.
	question, under, buyer := event.QuestionOf(ev), uint32(0), uint32(0)
	var found []bool
	switch c := ev.Change.(type) {
	case *event.Enrolled:
		under = c.Policy
	case *event.Reserved:
		buyer = c.Buyer
	case *event.SaleMade:
		buyer = c.Buyer
	default:
		// For an object of a sale, the sale has the question and the buyer.
		number, is := event.ShareOf(ev.Change)
		sold := is && a.adoptSale(ev, number)
		if r, err := a.fold.Sale(number); is && err == nil {
			question, buyer = r.Question, r.Buyer
		}
		if ch, found, err := a.fold.Chain(question, event.ObjectOf(ev)); err == nil && found {
			under = ch.Policy
		}
		found = append(found, sold)
	}
	found = append(found, a.adoptQuestion(ev, question), a.adoptPolicy(ev, under), a.adoptBuyer(ev, buyer))
	switch c := ev.Change.(type) {
	case *event.TruthBound:
		found = append(found, a.adoptTruthKey(ev))
	case *event.Forgotten:
		for _, r := range c.Chains {
			found = append(found, a.adoptQuestion(ev, r.Question), a.adoptPolicy(ev, r.Policy))
		}
	}
	return slices.Contains(found, true)
}

// adoptQuestion copies the stored definition of a question into the fold, if no event defines it,
// and reports that. It returns false if nothing was copied. The functions adopt… below do the same
// for other definitions.
func (a *auditor) adoptQuestion(ev event.Event, number uint32) bool {
	q, found := adopted(a, state.BucketQuestions, state.NumberKey(number), event.DecodeQuestion)
	if !found {
		return false
	}
	a.fold.Counters.Questions = max(a.fold.Counters.Questions, number)
	adopted(a, state.BucketQuestions, state.NameKey(q.Name), state.DecodeNumber32)
	a.reportAdopted(ev, fmt.Sprintf("question %d", number))
	return true
}

// adoptPolicy is [auditor.adoptQuestion] for a policy.
func (a *auditor) adoptPolicy(ev event.Event, number uint32) bool {
	p, found := adopted(a, state.BucketPolicies, state.PolicyNumberKey(number), policy.Parse)
	if !found {
		return false
	}
	a.fold.Counters.Policies = max(a.fold.Counters.Policies, number)
	adopted(a, state.BucketPolicies, state.PolicyJSONKey(wire.HashText(p.String())), state.DecodeNumber32)
	a.reportAdopted(ev, fmt.Sprintf("policy %d", number))
	return true
}

// adoptBuyer is [auditor.adoptQuestion] for a buyer. Its counts begin at 0.
func (a *auditor) adoptBuyer(ev event.Event, number uint32) bool {
	b, found := adopted(a, state.BucketBuyers, state.NumberKey(number), state.DecodeBuyer)
	if !found {
		return false
	}
	a.fold.Counters.Buyers = max(a.fold.Counters.Buyers, number)
	b.Orders, b.Sold, b.Paid = 0, 0, 0 // the events recompute these
	_ = a.fold.PutBuyer(number, b)     // a failure is recorded in foldStore
	adopted(a, state.BucketBuyers, state.NameKey(b.Name), state.DecodeNumber32)
	a.reportAdopted(ev, fmt.Sprintf("buyer %d", number))
	return true
}

// adoptSale is [auditor.adoptQuestion] for a sale or reservation, of which ev is about an object.
// It restores the status that the sale had when its objects were sold or held.
func (a *auditor) adoptSale(ev event.Event, number uint64) bool {
	r, found := adopted(a, state.BucketSales, state.EventKey(number), state.DecodeSale)
	if !found {
		return false
	}
	if r.Status = state.SaleSold; ev.Change.Kind() == event.KindHeld {
		r.Status, r.Event = state.SaleReserved, r.Granted
		if r.Expires.IsZero() { // the reservation was sold since, without the objects that were refused
			r.Objects += r.Refused
			r.Expires = time.Unix(0, math.MaxInt64).UTC()
		}
	}
	a.adoptOrder(number, r)
	_ = a.fold.PutSale(number, r)
	a.fold.Counters.Sales = max(a.fold.Counters.Sales, number)
	a.openAssumed(number)
	a.reportAdopted(ev, fmt.Sprintf("sale %d", number))
	return true
}

// adoptOrder copies the stored entry of a sale in the list of the orders of its buyer.
func (a *auditor) adoptOrder(number uint64, r state.Sale) {
	b, err := a.fold.Buyer(r.Buyer)
	stored, found := adopted(a, state.BucketOrders, state.OrderKey(r.Buyer, r.Ordinal), state.DecodeNumber64)
	if err == nil && found && stored == number {
		b.Orders = max(b.Orders, r.Ordinal)
		_ = a.fold.PutBuyer(r.Buyer, b)
	}
}

// adoptTruthKey copies the stored check of the truth key into the fold, if no event sets the key,
// and reports that. It returns false if nothing was copied.
func (a *auditor) adoptTruthKey(ev event.Event) bool {
	// The check is not decoded.
	asItIs := func(payload []byte) ([]byte, error) { return payload, nil }
	_, found := adopted(a, state.BucketMeta, []byte(state.KeyTruthKey), asItIs)
	if found {
		a.fold.TruthKey = state.TruthKeyUnknown
		a.reportAdopted(ev, "the truth key")
	}
	return found
}

// reportAdopted reports that no event defines something, and that the stored definition is used.
func (a *auditor) reportAdopted(ev event.Event, what string) {
	_ = a.source.applyPending() // a failure is recorded in foldStore
	a.report(a.eventProblem(ev, "no event defines "+what+"; the stored definition is used"))
}

// eventProblem returns a finding about an event, with its object and question. Its text begins with
// the kind of the event.
func (a *auditor) eventProblem(ev event.Event, text string) Finding {
	text = fmt.Sprintf("%s: %s", ev.Change.Kind(), text)
	p := Finding{Kind: problemEvent, Event: ev.Number, Object: event.ObjectOf(ev), Text: text}
	if number := event.QuestionOf(ev); number != 0 {
		p.Question = a.questionName(number)
	}
	return p
}

// questionName returns the name of the question with a number from the folded events, or "" if no
// event defines it.
func (a *auditor) questionName(number uint32) string {
	if q, err := a.fold.Question(number); err == nil {
		return q.Name
	}
	return ""
}
