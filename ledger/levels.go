package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// levels visits one recorded level of each chain of a question, in the order of the objects' names.
type levels struct {
	Engine   *engine.Engine  // of the ledger
	Question *event.Question // the question whose chains are read
	Epsilon  privacy.Epsilon // visit the level at exactly this ε
	Current  bool            // visit the highest level instead
}

// levelBatch has the levels that one snapshot read. Its memory is reused for the next batch.
type levelBatch struct {
	stored []byte         // records, concatenated: key, payload and checksum of each
	ends   []storedRecord // one for each record in stored
	next   []byte         // the key of the next record; empty at the end
	err    error          // why reading stopped, or nil
	panic  any            // the panic that stopped reading, or nil

	names   []byte // of the objects that have the level, concatenated
	levels  []foundLevel
	rows    []rrchain.Bits // the unary responses, in order
	checked chan struct{}  // receives a value when the batch is checked
}

// storedRecord describes a record in levelBatch.stored: the length of its key, and the offset of
// its end.
type storedRecord struct{ key, end int }

// foundLevel is a level without its buyers. It has no pointers, because many of them are written on
// one core and read on another while the garbage collector runs.
type foundLevel struct {
	nameEnd int // the end of the object's name in names
	epsilon privacy.Epsilon
	index   int // as in event.Value; inRows for the next of the unary responses
	event   uint64
}

// inRows is the index of a level whose response is in rows.
const inRows = -1

// A batch has levelsRead records, few enough for the processor's cache, or maxStored bytes of
// records. The last record may exceed maxStored.
const (
	levelsRead = 1 << 10
	maxStored  = 1 << 19
)

// levelsAhead is the number of batches. One is read, one is visited and some are checked. The
// others compensate for different speeds of these three steps.
const levelsAhead = 8

// namesPerString is the number of names that share the memory of one string. A string for each name
// would take as long as reading and checking the chains. If more names shared a string, a caller
// that keeps one name would keep all of them in memory.
const namesPerString = 64

// Each calls visit for each object that has the requested level, until visit returns false. It
// calls visit outside of any snapshot. visit must not keep the level.
//
// The records after the first batch are read and checked in the background. visit runs only on the
// goroutine of the caller, so it need not be safe for concurrent use. The result does not depend on
// the number of processors.
func (l levels) Each(ctx context.Context, visit func(name string, at *state.Level) bool) error {
	first := newLevelBatch()
	l.read(ctx, first, state.ChainKey(l.Question.Number, ""))
	l.check(first)
	more, err := first.visit(visit)
	if err != nil || !more || len(first.next) == 0 {
		return err
	}
	r := l.readOn(ctx, first.next)
	defer r.stop()
	for b := range r.batches {
		<-b.checked
		more, err := b.visit(visit)
		if err != nil || !more || len(b.next) == 0 {
			return err
		}
		r.free <- b
	}
	// The channel was closed before the end of the question, which only happens if ctx has ended.
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.New("reading chains in the background ended before the end of the question")
}

// Page calls visit for at most limit objects whose names are after the name after; "" means all. It
// reads one batch. next is the name after which the next part begins, and "" at the end of the
// list. Page may visit fewer objects than the limit, or none, before the end. An error of visit
// ends it. visit must not keep the level.
func (l levels) Page(
	ctx context.Context, after string, limit int, visit func(name string, at *state.Level) error,
) (next string, err error) {
	from := state.ChainKey(l.Question.Number, after)
	if after != "" {
		// This is the first key after the key of that name.
		from = append(from, 0)
	}
	b := newLevelBatch()
	l.read(ctx, b, from)
	l.check(b)
	var fault error
	last, visited := "", 0
	more, err := b.visit(func(name string, at *state.Level) bool {
		if visited == limit {
			return false
		}
		last, visited = name, visited+1
		fault = visit(name, at)
		return fault == nil
	})
	if err = cmp.Or(err, fault); err != nil {
		return "", err
	}
	switch {
	case !more: // the limit was reached inside the batch
		return strings.Clone(last), nil
	case len(b.next) > 0:
		return b.lastName(), nil
	}
	return "", nil
}

// lastName returns the name of the object of the last record in the batch, which may not have the
// requested level.
func (b *levelBatch) lastName() string {
	start := 0
	if n := len(b.ends); n > 1 {
		start = b.ends[n-2].end
	}
	const question = 4 // the number of bytes of the question's number, which is before the name
	return string(b.stored[start+question : start+b.ends[len(b.ends)-1].key])
}

// newLevelBatch returns an empty batch.
func newLevelBatch() *levelBatch { return &levelBatch{checked: make(chan struct{}, 1)} }

// visit calls visit for each level of the batch. more is false if visit returned false. err is the
// error with which the batch was read or checked. It panics if reading or checking the batch did.
func (b *levelBatch) visit(visit func(name string, at *state.Level) bool) (more bool, err error) {
	if b.panic != nil {
		panic(b.panic)
	}
	if b.err != nil {
		return false, b.err
	}
	var at state.Level
	start, rows := 0, b.rows
	// rows has the unary responses that are not visited yet. One string has the names of a chunk.
	for some := range slices.Chunk(b.levels, namesPerString) {
		names := string(b.names[start:some[len(some)-1].nameEnd])
		for i := range some {
			found := &some[i]
			at.Epsilon, at.Event = found.epsilon, found.event
			switch {
			case found.index == inRows:
				at.Response, rows = event.Value{Bits: rows[0]}, rows[1:]
			case at.Response.IsUnary(): // the previous response was unary, which happens only in a damaged file
				at.Response = event.Value{Index: found.index}
			default:
				at.Response.Index = found.index
			}
			n := found.nameEnd - start
			if !visit(names[:n], &at) {
				return false, nil
			}
			names, start = names[n:], found.nameEnd
		}
	}
	return true, nil
}

// levelReader reads and checks batches in the background, in order.
type levelReader struct {
	batches chan *levelBatch // in order; the last ones may not be checked yet
	free    chan *levelBatch // batches to be reused
	cancel  context.CancelFunc
}

// readOn starts to read and check batches in the background, from the key next on. The caller must
// call stop.
func (l levels) readOn(ctx context.Context, next []byte) *levelReader {
	ctx, cancel := context.WithCancel(ctx)
	r := &levelReader{make(chan *levelBatch, levelsAhead), make(chan *levelBatch, levelsAhead), cancel}
	for range levelsAhead {
		r.free <- newLevelBatch()
	}
	go l.run(ctx, r, bytes.Clone(next))
	return r
}

// run reads batches from the key next to the end of the question, and starts to check each. It
// blocks only between snapshots, so that no snapshot lives long.
func (l levels) run(ctx context.Context, r *levelReader, next []byte) {
	defer close(r.batches)
	for len(next) > 0 {
		select {
		case <-ctx.Done():
			return
		case b := <-r.free:
			l.read(ctx, b, next)
			next = append(next[:0], b.next...)
			r.batches <- b // does not block, because the channel has capacity for all batches
			go l.check(b)
		}
	}
}

// stop cancels the reader, and waits until nothing runs in the background. The channel is closed
// when run has ended.
func (r *levelReader) stop() {
	r.cancel()
	for b := range r.batches {
		<-b.checked
	}
}

// read fills a batch with the stored records of the question from a key on, and sets b.next. A
// panic is kept in b.panic, and continues where the batch is visited.
func (l levels) read(ctx context.Context, b *levelBatch, from []byte) {
	*b = levelBatch{
		stored: b.stored[:0], ends: b.ends[:0], next: b.next[:0], names: b.names[:0], levels: b.levels[:0],
		rows: b.rows[:0], checked: b.checked,
	}
	defer func() { b.panic = recover() }()
	b.err = l.Engine.View(ctx, func(s *state.State) error {
		return s.Scan(state.BucketChains, from, func(key, value []byte) bool {
			// A key begins with the number of the question, in 4 bytes.
			if len(key) < 4 || binary.BigEndian.Uint32(key) != l.Question.Number {
				return false
			}
			if len(b.ends) == levelsRead || len(b.stored) >= maxStored {
				b.next = append(b.next, key...)
				return false
			}
			b.stored = append(append(b.stored, key...), value...)
			b.ends = append(b.ends, storedRecord{len(key), len(b.stored)})
			return true
		})
	})
}

// check verifies the checksum of each record of a batch, decodes the whole record, and keeps the
// requested level. It sets b.err at the first damaged record. At the end it sends to b.checked.
func (l levels) check(m *levelBatch) {
	defer func() {
		if p := recover(); p != nil {
			m.panic = p
		}
		m.checked <- struct{}{}
	}()
	if m.err != nil || m.panic != nil {
		return
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	var head wire.Sums
	names, levels := m.names, slices.Grow(m.levels, len(m.ends))[:len(m.ends)]
	start, n := 0, 0
	for _, r := range m.ends {
		record := m.stored[start:r.end]
		start = r.end
		key, value := record[:r.key], record[r.key:]
		// Key and payload are adjacent in memory, so their checksum takes a third of the time of
		// Unseal.
		end := len(record) - wire.SumLength
		begun := head.Head(state.BucketChains, r.key)
		if end < r.key || crc32.Update(begun, table, record[:end]) != binary.BigEndian.Uint32(record[end:]) {
			// Unseal returns an error that describes the damage.
			if _, m.err = wire.Unseal(state.BucketChains, key, value); m.err != nil {
				return
			}
		}
		payload := record[r.key:end:end]
		into := &levels[n]
		var found bool
		if found, m.err = l.pick(m, payload, into); m.err != nil {
			return
		}
		if found {
			names = append(names, key[4:]...)
			into.nameEnd = len(names)
			n++
		}
	}
	m.names, m.levels = names, levels[:n]
}

// pick decodes the payload of a chain, and stores the requested level in into. A unary response is
// appended to b.rows. It returns false if the chain does not have that level.
func (l levels) pick(b *levelBatch, payload []byte, into *foundLevel) (found bool, err error) {
	d := wire.Decoder{Rest: payload}
	var c state.Chain
	_, levels := c.DecodeHead(&d)
	var one, taken state.Level
	for range levels {
		state.SkipHolders(&d, state.DecodeLevel(&d, &one))
		if l.Current || one.Epsilon == l.Epsilon {
			found, taken = true, one
		}
	}
	if err := d.Done(); err != nil || !found {
		return false, err
	}
	*into = foundLevel{epsilon: taken.Epsilon, index: taken.Response.Index, event: taken.Event}
	if taken.Response.IsUnary() {
		into.index, b.rows = inRows, append(b.rows, taken.Response.Bits)
	}
	return true, nil
}
