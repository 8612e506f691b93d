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

// levels passes one recorded level of each chain of a question on, in the order of the objects'
// names.
type levels struct {
	Engine   *engine.Engine  // of the ledger
	Question *event.Question // whose chains are read
	Epsilon  privacy.Epsilon // which level: the one at exactly this ε
	Current  bool            // the highest, instead
}

// levelBatch is what one snapshot had of the levels, in memory that is used again for the next.
type levelBatch struct {
	stored []byte         // records, one behind the other: key, payload and checksum
	ends   []storedRecord // of them
	next   []byte         // the key to go on from; empty at the end
	err    error          // why there are no more
	panic  any            // likewise

	names   []byte // of those who have the level, one behind the other
	levels  []foundLevel
	rows    []rrchain.Bits // the responses that are rows of bits
	checked chan struct{}  // gets one when all of these are there
}

type storedRecord struct{ key, end int }

// foundLevel is a level without its buyers. There are no pointers in it: many of them are written
// by one core and read by another, while the garbage collector runs.
type foundLevel struct {
	nameEnd int // in names
	epsilon privacy.Epsilon
	index   int // as in value; or aRow, for the next one
	event   uint64
}

const aRow = -1

// A batch has levelsRead records, which is few enough for the processor's cache, or mostStored
// bytes of them; the last may reach beyond.
const (
	levelsRead = 1 << 10
	mostStored = 1 << 19
)

// levelsAhead is how many batches there are: one is read, one is visited, some are checked, and the
// others make up for it that cores come to these three at their own times.
const levelsAhead = 8

// sharing is how many names share the memory of one text: to make each on its own would take as
// long as to read and check the chains, and if more did, a name that somebody keeps would keep all
// of those.
const sharing = 64

// Each calls visit outside of any snapshot, until it returns false. visit must not keep the level.
//
// Records behind the first batch are read and checked in the background. Only visit is called where
// each is, so that it need not be safe for concurrent use, and what it gets does not depend on how
// many processors there are.
func (x levels) Each(ctx context.Context, visit func(name string, at *state.Level) bool) error {
	first := newLevelBatch()
	x.read(ctx, first, state.ChainKey(x.Question.Number, ""))
	x.check(first)
	on, err := first.visit(visit)
	if err != nil || !on || len(first.next) == 0 {
		return err
	}
	r := x.readOn(ctx, first.next)
	defer r.stop()
	for b := range r.batches {
		<-b.checked
		on, err := b.visit(visit)
		if err != nil || !on || len(b.next) == 0 {
			return err
		}
		r.free <- b
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.New("reading in the background ended early")
}

// Page calls visit for at most limit objects after a name, "" for all. It reads one batch: next is
// the name after which the next part begins, "" at the end of the list, and there may be fewer
// objects than the limit, or none, before it. visit must not keep the level.
func (x levels) Page(
	ctx context.Context, after string, limit int, visit func(name string, at *state.Level) error,
) (next string, err error) {
	from := state.ChainKey(x.Question.Number, after)
	if after != "" {
		from = append(from, 0) // the first key that is greater
	}
	b := newLevelBatch()
	x.read(ctx, b, from)
	x.check(b)
	var fault error
	last, visited := "", 0
	on, err := b.visit(func(name string, at *state.Level) bool {
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
	case !on:
		return strings.Clone(last), nil
	case len(b.next) > 0:
		return b.lastName(), nil
	}
	return "", nil
}

// lastName returns the name of the last object that was read.
func (b *levelBatch) lastName() string {
	start := 0
	if n := len(b.ends); n > 1 {
		start = b.ends[n-2].end
	}
	const question = 4 // bytes of its number, before the name
	return string(b.stored[start+question : start+b.ends[len(b.ends)-1].key])
}

func newLevelBatch() *levelBatch { return &levelBatch{checked: make(chan struct{}, 1)} }

// visit passes on what is in a batch, or what went wrong in making it.
func (b *levelBatch) visit(visit func(name string, at *state.Level) bool) (on bool, err error) {
	if b.panic != nil {
		panic(b.panic)
	}
	if b.err != nil {
		return false, b.err
	}
	var at state.Level
	start, rows := 0, b.rows
	for some := range slices.Chunk(b.levels, sharing) {
		names := string(b.names[start:some[len(some)-1].nameEnd])
		for i := range some {
			found := &some[i]
			at.Epsilon, at.Event = found.epsilon, found.event
			switch {
			case found.index == aRow:
				at.Response, rows = event.Value{Bits: rows[0]}, rows[1:]
			case at.Response.IsUnary(): // the one before, in a damaged file
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

// levelReader reads and checks batches in the background, one after the other.
type levelReader struct {
	batches chan *levelBatch // in order, perhaps not checked yet
	free    chan *levelBatch // to be used again
	cancel  context.CancelFunc
}

// readOn begins with the batch at a key. Who calls it must call stop.
func (x levels) readOn(ctx context.Context, next []byte) *levelReader {
	ctx, cancel := context.WithCancel(ctx)
	r := &levelReader{make(chan *levelBatch, levelsAhead), make(chan *levelBatch, levelsAhead), cancel}
	for range levelsAhead {
		r.free <- newLevelBatch()
	}
	go x.run(ctx, r, bytes.Clone(next))
	return r
}

// run never waits in the midst of a snapshot.
func (x levels) run(ctx context.Context, r *levelReader, next []byte) {
	defer close(r.batches)
	for len(next) > 0 {
		select {
		case <-ctx.Done():
			return
		case b := <-r.free:
			x.read(ctx, b, next)
			next = append(next[:0], b.next...)
			r.batches <- b // there is room for all
			go x.check(b)
		}
	}
}

// stop waits until nothing runs in the background.
func (r *levelReader) stop() {
	r.cancel()
	for b := range r.batches {
		<-b.checked
	}
}

// read fills a batch with the records from a key on, as they are. What panics in the background
// goes on where it is visited.
func (x levels) read(ctx context.Context, b *levelBatch, from []byte) {
	*b = levelBatch{
		stored: b.stored[:0], ends: b.ends[:0], next: b.next[:0], names: b.names[:0], levels: b.levels[:0],
		rows: b.rows[:0], checked: b.checked,
	}
	defer func() { b.panic = recover() }()
	b.err = x.Engine.View(ctx, func(s *state.State) error {
		return s.Scan(state.BucketChains, from, func(key, value []byte) bool {
			if len(key) < 4 || binary.BigEndian.Uint32(key) != x.Question.Number {
				return false
			}
			if len(b.ends) == levelsRead || len(b.stored) >= mostStored {
				b.next = append(b.next, key...)
				return false
			}
			b.stored = append(append(b.stored, key...), value...)
			b.ends = append(b.ends, storedRecord{len(key), len(b.stored)})
			return true
		})
	})
}

// check holds each record of a batch against its checksum, decodes all of it, and keeps the level
// that is wanted.
func (x levels) check(b *levelBatch) {
	defer func() {
		if p := recover(); p != nil {
			b.panic = p
		}
		b.checked <- struct{}{}
	}()
	if b.err != nil || b.panic != nil {
		return
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	var head wire.Sums
	names, levels := b.names, slices.Grow(b.levels, len(b.ends))[:len(b.ends)]
	start, n := 0, 0
	for _, r := range b.ends {
		record := b.stored[start:r.end]
		start = r.end
		key, value := record[:r.key], record[r.key:]
		// Key and payload are side by side: so this is Unseal, in a third of the time.
		end := len(record) - wire.SumLength
		begun := head.Head(state.BucketChains, r.key)
		if end < r.key || crc32.Update(begun, table, record[:end]) != binary.BigEndian.Uint32(record[end:]) {
			if _, b.err = wire.Unseal(state.BucketChains, key, value); b.err != nil { // which says what is wrong
				return
			}
		}
		payload := record[r.key:end:end]
		into := &levels[n]
		var found bool
		if found, b.err = x.pick(b, payload, into); b.err != nil {
			return
		}
		if found {
			names = append(names, key[4:]...)
			into.nameEnd = len(names)
			n++
		}
	}
	b.names, b.levels = names, levels[:n]
}

// pick decodes a chain, and takes the level that is wanted, if there is one.
func (x levels) pick(b *levelBatch, payload []byte, into *foundLevel) (found bool, err error) {
	d := wire.Decoder{Rest: payload}
	var c state.Chain
	_, levels := c.DecodeHead(&d)
	var one, taken state.Level
	for range levels {
		state.SkipHolders(&d, state.DecodeLevel(&d, &one))
		if x.Current || one.Epsilon == x.Epsilon {
			found, taken = true, one
		}
	}
	if err := d.Done(); err != nil || !found {
		return false, err
	}
	*into = foundLevel{epsilon: taken.Epsilon, index: taken.Response.Index, event: taken.Event}
	if taken.Response.IsUnary() {
		into.index, b.rows = aRow, append(b.rows, taken.Response.Bits)
	}
	return true, nil
}
