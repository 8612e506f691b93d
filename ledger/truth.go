package ledger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// truthSource is how the host tells true values. Package ledger describes it.
type truthSource = func(ctx context.Context, question string, objects []string) (values []string, err error)

// lacksTruthKey refuses draws from truths if the ledger binds chains to them and was opened without its key. Who only
// reads has no need of keys, and quotes as who has them.
func (l *Rules) lacksTruthKey(object string, asked privacy.Epsilon) *Refusal {
	if !l.bound || l.binder != nil || l.readOnly {
		return nil
	}
	return &Refusal{Object: object, Reason: NoTruthKey, Asked: asked, Helps: HelpsKey}
}

// noTruth stands for "the host has no value" where the number of a value is expected.
const noTruth = -1

// ask returns the numbers of the objects' true values, by which responses are drawn: noTruth for whom the host has
// none, or another than the one that the chain is bound to. The latter are noted as changed.
func (l *Rules) ask(ctx context.Context, q *event.Question, truth truthSource, who needy, changed *changedTruths) ([]int32, error) {
	numbers, err := l.askHost(ctx, q, truth, who.names)
	if err != nil {
		return nil, err
	}
	for i, name := range who.names {
		if fits := l.fits(q, who.bonds[i], name, numbers[i]); !fits && numbers[i] != noTruth {
			changed.add(name)
			numbers[i] = noTruth
		}
	}
	return numbers, nil
}

// needy are objects whose true values are needed, with what their chains are bound to.
type needy struct {
	names []string
	bonds []state.Bond
}

func (n *needy) add(name string, to state.Bond) {
	n.names, n.bonds = append(n.names, name), append(n.bonds, to)
}

// batches yields them partSize at a time.
func (n needy) batches() iter.Seq[needy] {
	return func(yield func(needy) bool) {
		for from := 0; from < len(n.names); from += state.PartSize {
			to := min(from+state.PartSize, len(n.names))
			if !yield(needy{n.names[from:to], n.bonds[from:to]}) {
				return
			}
		}
	}
}

// fits tells whether a chain, bound to a truth or not, may be drawn from what the host said. It takes the same steps if
// the host has no value as if it has another one.
func (l *Rules) fits(q *event.Question, to state.Bond, name string, truth int32) bool {
	if l.binder == nil || to.Tag == nil {
		return truth != noTruth
	}
	same := to.Tag.Equal(l.binder.truth(name, q.Number, to.Since, truth))
	return same && truth != noTruth
}

// stillFits is fits in the transaction: since the truth was asked for, the chain may have been bound to another one, or have
// begun an epoch. asOf is the last event before that.
func (l *Rules) stillFits(q *event.Question, c *state.Chain, name string, truth int32, asOf uint64) bool {
	return c.Since <= asOf && l.fits(q, c.Bond(), name, truth)
}

// askHost asks the host. An error says which object's value is not one of the question's, but never what it is.
func (l *Rules) askHost(ctx context.Context, q *event.Question, truth truthSource, objects []string) ([]int32, error) {
	if truth == nil {
		return nil, errs.Invalid("question %q: draws need true values, and the request has no source of them", q.Name)
	}
	if l.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.patience)
		defer cancel()
	}
	values, err := truth(ctx, q.Name, slices.Clone(objects)) // it may do with the names what it likes
	if err == nil {
		err = ctx.Err() // what comes too late is not used
	}
	if err != nil {
		return nil, fmt.Errorf("question %q: source of true values: %w", q.Name, err)
	}
	if len(values) != len(objects) {
		return nil, fmt.Errorf("question %q: %w returned %d of them for %d objects", q.Name, ErrTruthSource, len(values), len(objects))
	}
	numbers := make([]int32, len(values))
	for i, value := range values {
		number, known := q.Index[value]
		switch {
		case known:
			numbers[i] = int32(number)
		case value == "":
			numbers[i] = noTruth
		default:
			clear(numbers)
			return nil, fmt.Errorf("question %q: %w: that of object %q is not one of the question's values", q.Name, ErrTruthSource, objects[i])
		}
	}
	return numbers, nil
}

// changedTruths are the objects of a request whose true values are found to be others than those their chains began
// with, in order. They are kept apart from what is recorded and from refusals: only the caller is told.
type changedTruths struct {
	names []string // the first MaxPanel, as refusals are listed
}

func (c *changedTruths) add(name string) {
	if at, known := slices.BinarySearch(c.names, name); !known && at < MaxPanel {
		c.names = slices.Insert(c.names, at, name)
	}
}

// among returns those who were refused for want of a truth.
func (c *changedTruths) among(refused []Refusal) (names []string) {
	for _, r := range refused {
		if _, changed := slices.BinarySearch(c.names, r.Object); changed && r.Reason == NoTruth {
			names = append(names, r.Object)
		}
	}
	return names
}

// told is what the host said of the true values of some objects, batch by batch in the order of their
// names. It goes by name, so that whoever joins or leaves meanwhile takes nobody else's truth.
type told struct {
	batches []toldBatch
	count   int // of objects
	// Where the last name was found: most often the next one stands behind it.
	batch, place int
}

// mostTold is how many truths a request keeps, about. Those of further objects it asks for a second time when their turn
// comes, so that its memory does not grow with the number of objects.
const mostTold = 1 << 20

type toldBatch struct {
	names  []string
	values []int32 // a value's number, or noTruth
}

// add puts a batch behind the others. It keeps both slices.
func (t *told) add(names []string, values []int32) {
	t.batches = append(t.batches, toldBatch{names, values})
	t.count += len(names)
}

// of returns the number of an object's true value, or noTruth, and whether the host was asked.
func (t *told) of(name string) (value int32, asked bool) {
	if t.batch < len(t.batches) {
		b := t.batches[t.batch]
		if at := t.place + 1; at < len(b.names) && b.names[at] == name {
			t.place = at
			return b.values[at], true
		}
	}
	i, _ := slices.BinarySearchFunc(t.batches, name, func(b toldBatch, name string) int {
		return strings.Compare(b.names[len(b.names)-1], name)
	})
	if i == len(t.batches) {
		return noTruth, false
	}
	b := t.batches[i]
	at, asked := slices.BinarySearch(b.names, name)
	if !asked {
		return noTruth, false
	}
	t.batch, t.place = i, at
	return b.values[at], true
}

// forget overwrites everything.
func (t *told) forget() {
	for _, b := range t.batches {
		clear(b.values)
	}
	*t = told{}
}

// binder makes the keyed hashes that bind a chain to the truth it began with. Without the key a
// hash tells nothing about the value, however few values there are.
type binder struct {
	key    []byte
	ledger [16]byte
}

// minTruthKey is the shortest truth key, in bytes.
const minTruthKey = 16

// check recognizes the key.
func (b *binder) check() event.Tag { return b.hash("check", "", 0, 0, 0) }

// truth binds the chain of an object and a question to the number of its true value. That goes by the event that began the
// epoch: else equal hashes would show that a value came back.
func (b *binder) truth(object string, question uint32, since uint64, value int32) event.Tag {
	return b.hash("truth", object, question, since, uint32(value))
}

func (b *binder) hash(use, object string, question uint32, since uint64, value uint32) (t event.Tag) {
	mac := hmac.New(sha256.New, b.key)
	mac.Write([]byte("sluice " + use + " v1\x00"))
	mac.Write(b.ledger[:])
	mac.Write(binary.BigEndian.AppendUint32(nil, question))
	mac.Write(binary.BigEndian.AppendUint64(nil, since))
	mac.Write(binary.BigEndian.AppendUint32(nil, value))
	mac.Write([]byte(object))
	copy(t[:], mac.Sum(nil))
	return t
}

// useTruthKey checks a truth key. It returns the change that makes it the ledger's, unless it is.
func (l *Rules) useTruthKey(id [16]byte, key, check []byte) (set []event.Change, err error) {
	if len(key) < minTruthKey {
		return nil, errs.Invalid("a truth key of %d bytes; it has at least %d", len(key), minTruthKey)
	}
	l.binder = &binder{key: slices.Clone(key), ledger: id}
	ours := l.binder.check()
	switch {
	case check == nil:
		return []event.Change{&event.TruthKeySet{Check: ours}}, nil
	case string(check) != string(ours[:]):
		return nil, ErrTruthKey
	}
	return nil, nil
}
