package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// levelScan passes one recorded level of each chain of a question on, in the order of the objects' names.
type levelScan struct {
	ledger   *Ledger
	question *question
	epsilon  privacy.Epsilon // which level: the one at exactly this ε
	current  bool            // the highest, instead
}

// levelBatch is what one snapshot had of the levels, in memory that is used again for the next.
type levelBatch struct {
	stored []byte         // records, one behind the other: key, payload and checksum
	ends   []storedRecord // of them
	next   []byte         // the key to go on from; empty at the end
	err    error          // why there are no more
	panic  any            // likewise

	names   []byte // of those who have the level, one behind the other
	levels  []namedLevel
	checked chan struct{} // gets one when names and levels are there
}

type storedRecord struct{ key, end int }

type namedLevel struct {
	nameEnd int // in names
	level
}

// A batch has levelsRead records, which is few enough for the processor's cache, or mostStored bytes of them; the last may
// reach beyond.
const (
	levelsRead = 1 << 10
	mostStored = 1 << 20
)

// levelsAhead is how many batches there are: one is read, one is visited, and two may be checked, which takes little longer
// than to read one.
const levelsAhead = 4

// sharing is how many names share the memory of one text: to make each on its own would take as long as to read and
// check the chains, and if more did, a name that somebody keeps would keep all of those.
const sharing = 64

// each calls visit outside of any snapshot, until it returns false. visit must not keep the level.
//
// Records behind the first batch are read and checked in the background. Only visit is called where each is, so that it
// need not be safe for concurrent use, and what it gets does not depend on how many processors there are.
func (x levelScan) each(ctx context.Context, visit func(name string, at *level) bool) error {
	first := newLevelBatch()
	x.read(ctx, first, chainKey(x.question.number, ""))
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

func newLevelBatch() *levelBatch { return &levelBatch{checked: make(chan struct{}, 1)} }

// visit passes on what is in a batch, or what went wrong in making it.
func (b *levelBatch) visit(visit func(name string, at *level) bool) (on bool, err error) {
	if b.panic != nil {
		panic(b.panic)
	}
	if b.err != nil {
		return false, b.err
	}
	start := 0
	for some := range slices.Chunk(b.levels, sharing) {
		names := string(b.names[start:some[len(some)-1].nameEnd])
		for i := range some {
			at := &some[i]
			n := at.nameEnd - start
			if !visit(names[:n], &at.level) {
				return false, nil
			}
			names, start = names[n:], at.nameEnd
		}
	}
	return true, nil
}

// levelReader reads and checks batches in the background, one behind the other.
type levelReader struct {
	batches chan *levelBatch // in order, perhaps not checked yet
	free    chan *levelBatch // to be used again
	cancel  context.CancelFunc
}

// readOn begins with the batch at a key. Who calls it must call stop.
func (x levelScan) readOn(ctx context.Context, next []byte) *levelReader {
	ctx, cancel := context.WithCancel(ctx)
	r := &levelReader{make(chan *levelBatch, levelsAhead), make(chan *levelBatch, levelsAhead), cancel}
	for range levelsAhead {
		r.free <- newLevelBatch()
	}
	go x.run(ctx, r, bytes.Clone(next))
	return r
}

// run never waits in the midst of a snapshot.
func (x levelScan) run(ctx context.Context, r *levelReader, next []byte) {
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

// read fills a batch with the records from a key on, as they are. What panics in the background goes on where it is
// visited.
func (x levelScan) read(ctx context.Context, b *levelBatch, from []byte) {
	*b = levelBatch{stored: b.stored[:0], ends: b.ends[:0], next: b.next[:0], names: b.names[:0], levels: b.levels[:0], checked: b.checked}
	defer func() { b.panic = recover() }()
	b.err = x.ledger.view(ctx, func(s *state) error {
		prefix := from[:4]
		return s.Scan(bucketChains, from, func(key, value []byte) bool {
			if !bytes.HasPrefix(key, prefix) {
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

// check holds each record of a batch against its checksum, decodes all of it, and keeps the level that is wanted.
func (x levelScan) check(b *levelBatch) {
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
	head, headFor := uint32(0), -1
	levels := slices.Grow(b.levels, len(b.ends))[:len(b.ends)]
	start, n := 0, 0
	for _, r := range b.ends {
		record := b.stored[start:r.end]
		start = r.end
		key, value := record[:r.key], record[r.key:]
		// Key and payload lie side by side, and most names are of one length: so this is unseal, in a third of the time.
		if r.key != headFor {
			head, headFor = checksumHead(bucketChains, r.key), r.key
		}
		end := len(record) - sumLength
		if end < r.key || crc32.Update(head, table, record[:end]) != binary.BigEndian.Uint32(record[end:]) {
			if _, b.err = unseal(bucketChains, key, value); b.err != nil { // which says what is wrong
				return
			}
		}
		payload := record[r.key:end:end]
		into := &levels[n]
		found, usual := x.pickUsual(payload, &into.level)
		if !usual {
			if found, b.err = x.pick(payload, &into.level); b.err != nil {
				return
			}
		}
		if found {
			b.names = append(b.names, key[4:]...)
			into.nameEnd = len(b.names)
			n++
		}
	}
	b.levels = levels[:n]
}

// pick decodes a chain, and takes the level that is wanted, if there is one.
func (x levelScan) pick(payload []byte, into *level) (found bool, err error) {
	d := decoder{rest: payload}
	_, _, levels := decodeChainHead(&d)
	for range levels {
		one := decodeLevel(&d)
		skipBuyers(&d)
		if x.current || one.Epsilon == x.epsilon {
			found, *into = true, one
		}
	}
	return found, d.done()
}

// pickUsual is pick for a chain without faults whose responses are no rows of bits, in a fifth of the time. It finds no
// fault: what it does not know as right it calls unusual.
func (x levelScan) pickUsual(chain []byte, into *level) (found, usual bool) {
	wanted := uint64(x.epsilon.Nano())
	_, at := number(chain, 0) // enrolled
	policy, at := number(chain, at)
	noise, at := number(chain, at)
	_, at = number(chain, at) // orders
	if at >= len(chain) || chain[at] > 1 {
		return false, false
	}
	if at++; chain[at-1] == 1 {
		at += len(tag{})
	}
	answered, at := number(chain, at)
	levels, at := number(chain, at)
	if int64(levels) > int64(len(chain)-at) {
		return false, false
	}
	widest, highest, last := max(policy, noise), answered, uint64(0)
	var taken struct{ epsilon, response, event uint64 }
	for range levels {
		var epsilon, response, event, buyers uint64
		epsilon, at = number(chain, at)
		response, at = number(chain, at)
		event, at = number(chain, at)
		buyers, at = number(chain, at)
		if int64(buyers) > int64(len(chain)-at) {
			return false, false
		}
		for range buyers {
			var buyer uint64
			buyer, at = number(chain, at)
			widest = max(widest, buyer)
		}
		highest, last = max(highest, epsilon), max(last, response)
		if x.current || epsilon == wanted {
			found, taken.epsilon, taken.response, taken.event = true, epsilon, response, event
		}
	}
	if at != len(chain) || widest > math.MaxUint32 || highest > privacy.MaxEpsilonNano || last >= rrchain.MaxValues {
		return false, false
	}
	if found {
		epsilon, _ := privacy.EpsilonFromNano(int64(taken.epsilon)) // which was compared with the largest
		*into = newLevel(epsilon, value{index: int(taken.response)}, taken.event)
	}
	return found, true
}

// number reads a number from a place in a record on, and returns where it ends: behind the end of the record if it is cut
// off, of more than 63 bits, or longer than it need be.
func number(record []byte, at int) (n uint64, end int) {
	if at < len(record) && record[at] < 0x80 { // most are
		return uint64(record[at]), at + 1
	}
	return largeNumber(record, at)
}
