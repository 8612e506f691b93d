package rules

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// LacksTruthKey refuses draws from truths if the ledger binds chains to them and was opened without
// its key. Who only reads has no need of keys, and quotes as who has them.
func (l *Rules) LacksTruthKey(object string, asked privacy.Epsilon) *api.Refusal {
	if !l.Bound || l.Binder != nil || l.ReadOnly {
		return nil
	}
	return refuse(object, asked, api.NoTruthKey, event.RemedyKey)
}

// NoTruth stands for "the host has no value" where the number of a value is expected.
const NoTruth = -1

// Ask returns the numbers of the objects' true values, by which responses are drawn. It returns
// [NoTruth] for an object of which the host has no value, one that is not among the question's, or
// another than the one that the chain is bound to; faults notes which of these. All draws get their
// true values here.
func (l *Rules) Ask(
	ctx context.Context, q *event.Question, truth api.TruthFunc, who Needy, faults *TruthFaults,
) ([]int32, error) {
	values, err := l.askHost(ctx, q, truth, who.Names)
	if err != nil {
		return nil, err
	}
	numbers := make([]int32, len(values))
	for i, name := range who.Names {
		numbers[i] = l.numberOf(q, who.Bonds[i], name, values[i], faults)
	}
	return numbers, nil
}

// numberOf returns the number of a true value, or [NoTruth] if a chain cannot be drawn from it. It
// takes the same steps whether the value is missing, changed or invalid: the time that a refusal
// takes must not show which of these it is.
func (l *Rules) numberOf(q *event.Question, to state.Bond, name, value string, faults *TruthFaults) int32 {
	number, known := q.Index[cmp.Or(value, q.Values[0])] // a missing value is looked up as well
	if !known || value == "" {
		number = NoTruth
	}
	why := truthChanged
	switch fits := l.fits(q, to, name, int32(number)); {
	case fits:
		return int32(number)
	case value == "":
		why = truthMissing
	case !known:
		why = truthInvalid
	}
	faults.note(name, why)
	return NoTruth
}

// Later notes that a source will tell what it was asked for another time, and is asked on for now.
type Later struct {
	Err error // the first such error, or nil
}

// Is tells whether an error is of that kind.
func (l *Later) Is(err error) bool {
	later := errors.Is(err, errs.ErrTruthLater)
	if later && l.Err == nil {
		l.Err = err
	}
	return later
}

// Needy are objects whose true values are needed, with what their chains are bound to.
type Needy struct {
	Names []string     // in order
	Bonds []state.Bond // of each name, at the same place
}

// Add adds an object, behind those of lesser names.
func (n *Needy) Add(name string, to state.Bond) {
	n.Names, n.Bonds = append(n.Names, name), append(n.Bonds, to)
}

// Batches yields them partSize at a time.
func (n Needy) Batches() iter.Seq[Needy] {
	return func(yield func(Needy) bool) {
		for from := 0; from < len(n.Names); from += state.PartSize {
			to := min(from+state.PartSize, len(n.Names))
			if !yield(Needy{n.Names[from:to], n.Bonds[from:to]}) {
				return
			}
		}
	}
}

// fits tells whether a chain, bound to a truth or not, may be drawn from what the host said. It
// takes the same steps if the host has no value as if it has another one.
func (l *Rules) fits(q *event.Question, to state.Bond, name string, truth int32) bool {
	if l.Binder == nil || to.Tag == nil {
		return truth != NoTruth
	}
	same := to.Tag.Equal(l.Binder.Truth(name, q.Number, to.Since, truth))
	return same && truth != NoTruth
}

// StillFits is fits in the transaction: since the truth was asked for, the chain may have been
// bound to another one, or have begun an epoch. asOf is the last event before that.
func (l *Rules) StillFits(q *event.Question, c *state.Chain, name string, truth int32, asOf uint64) bool {
	return c.Since <= asOf && l.fits(q, c.Bond(), name, truth)
}

// askHost asks the host. A value that is not one of the question's is no error: what others see of
// the request must not depend on it, and one wrong value must not stop a request that may leave
// objects out.
func (l *Rules) askHost(
	ctx context.Context, q *event.Question, truth api.TruthFunc, objects []string,
) ([]string, error) {
	if truth == nil {
		return nil, errs.Invalid("question %q: draws need true values, and the request has no source of them", q.Name)
	}
	values, err := l.callSource(ctx, q.Name, truth, slices.Clone(objects)) // the source may change the names
	if err != nil {
		return nil, fmt.Errorf("question %q: %w", q.Name, err)
	}
	if len(values) != len(objects) {
		return nil, fmt.Errorf("question %q: %w returned %d of them for %d objects", q.Name, errs.ErrTruthSource,
			len(values), len(objects))
	}
	return values, nil
}

// callSource calls a source of true values for at most Patience. Its error says whose context
// ended: only one of the caller's context wraps [context.Canceled] or [context.DeadlineExceeded]. A
// late answer is not used.
func (l *Rules) callSource(
	caller context.Context, question string, truth api.TruthFunc, objects []string,
) ([]string, error) {
	ctx := caller
	if l.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(caller, l.Patience)
		defer cancel()
	}
	values, err := truth(ctx, question, objects)
	late := l.Patience > 0 && ctx.Err() != nil
	switch ended := caller.Err(); {
	case ended != nil:
		return nil, fmt.Errorf("the context of the request ended while its source of true values ran: %w", ended)
	case late && (err == nil || isContextError(err)):
		return nil, fmt.Errorf("%w: it took longer than Options.TruthTimeout, %v: make it faster or the time longer, "+
			"and repeat the request with its key", errs.ErrTruthFailed, l.Patience)
	case err == nil:
		return values, nil
	}
	return nil, errs.OfSource(err)
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// TruthFaults are the objects of a request whose true values cannot be drawn from, the first
// MaxPanel of them, with the reasons. They are kept apart from what is recorded and from refusals,
// which are the same whatever the reason. Only the caller gets them.
type TruthFaults struct {
	names []string // in order
	why   []truthFault
}

// truthFault is why a chain cannot be drawn from a true value.
type truthFault uint8

const (
	truthMissing truthFault = iota // the host has none
	truthChanged                   // the value is another one than that which the chain began with
	truthInvalid                   // the value is not one of the question's
	truthFaults
)

// note adds an object, or replaces the reason that was noted for it before.
func (f *TruthFaults) note(name string, why truthFault) {
	at, known := slices.BinarySearch(f.names, name)
	switch {
	case known:
		f.why[at] = why
	case at < api.MaxPanel:
		f.names, f.why = slices.Insert(f.names, at, name), slices.Insert(f.why, at, why)
	}
}

// Among returns which of the refused objects have a true value that has changed, and which have one
// that is not the question's. It takes the same steps whatever the reasons are.
func (f *TruthFaults) Among(refused []api.Refusal) (changed, invalid []string) {
	var lists [truthFaults][]string
	for why := range lists {
		lists[why] = make([]string, 0, min(len(refused), len(f.names)))
	}
	for _, r := range refused {
		if at, noted := slices.BinarySearch(f.names, r.Object); noted && r.Reason == api.NoTruth {
			lists[f.why[at]] = append(lists[f.why[at]], r.Object)
		}
	}
	return orNil(lists[truthChanged]), orNil(lists[truthInvalid])
}

// orNil returns nil for an empty list.
func orNil(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return names
}

// Told is what the host said of the true values of some objects, batch by batch in the order of
// their names. It goes by name, so that whoever joins or leaves meanwhile takes nobody else's
// truth.
type Told struct {
	Batches []toldBatch  // in the order of the names
	one     [1]toldBatch // memory for the first
	Count   int          // of objects
	// Where the last name was found: most often the next one stands behind it.
	batch, place int
}

// MostTold is how many truths a request keeps, about. Those of further objects it asks for a second
// time when their turn comes, so that its memory does not grow with the number of objects.
const MostTold = 1 << 20

type toldBatch struct {
	names  []string
	values []int32 // a value's number, or noTruth
}

// Add puts a batch behind the others. It keeps both slices.
func (t *Told) Add(names []string, values []int32) {
	if t.Batches == nil {
		t.Batches = t.one[:0]
	}
	t.Batches = append(t.Batches, toldBatch{names, values})
	t.Count += len(names)
}

// Of returns the number of an object's true value, or noTruth, and whether the host was asked.
func (t *Told) Of(name string) (value int32, asked bool) {
	if t.batch < len(t.Batches) {
		b := t.Batches[t.batch]
		if at := t.place + 1; at < len(b.names) && b.names[at] == name {
			t.place = at
			return b.values[at], true
		}
	}
	i, _ := slices.BinarySearchFunc(t.Batches, name, func(b toldBatch, name string) int {
		return strings.Compare(b.names[len(b.names)-1], name)
	})
	if i == len(t.Batches) {
		return NoTruth, false
	}
	b := t.Batches[i]
	at, asked := slices.BinarySearch(b.names, name)
	if !asked {
		return NoTruth, false
	}
	t.batch, t.place = i, at
	return b.values[at], true
}

// Forget overwrites everything.
func (t *Told) Forget() {
	for _, b := range t.Batches {
		clear(b.values)
	}
	*t = Told{}
}

// Binder makes the keyed hashes that bind a chain to the truth it began with. Without the key a
// hash tells nothing about the value, however few values there are.
type Binder struct {
	Key    []byte   // the host's, at least 16 bytes
	Ledger [16]byte // its id: each ledger has hashes of its own
}

// minTruthKey is the shortest truth key, in bytes.
const minTruthKey = 16

// Check recognizes the key.
func (b *Binder) Check() event.Tag { return b.hash("check", "", 0, 0, 0) }

// Truth binds the chain of an object and a question to the number of its true value. That goes by
// the event that began the epoch: else equal hashes would show that a value came back.
func (b *Binder) Truth(object string, question uint32, since uint64, value int32) event.Tag {
	return b.hash("truth", object, question, since, uint32(value))
}

func (b *Binder) hash(use, object string, question uint32, since uint64, value uint32) (t event.Tag) {
	mac := hmac.New(sha256.New, b.Key)
	mac.Write([]byte("sluice " + use + " v1\x00"))
	mac.Write(b.Ledger[:])
	mac.Write(binary.BigEndian.AppendUint32(nil, question))
	mac.Write(binary.BigEndian.AppendUint64(nil, since))
	mac.Write(binary.BigEndian.AppendUint32(nil, value))
	mac.Write([]byte(object))
	copy(t[:], mac.Sum(nil))
	return t
}

// UseTruthKey checks a truth key. It returns the change that makes it the ledger's, unless it is.
func (l *Rules) UseTruthKey(id [16]byte, key, check []byte) (set []event.Change, err error) {
	if len(key) < minTruthKey {
		return nil, errs.Invalid("a truth key of %d bytes; it has at least %d", len(key), minTruthKey)
	}
	l.Binder = &Binder{Key: slices.Clone(key), Ledger: id}
	ours := l.Binder.Check()
	switch {
	case check == nil:
		return []event.Change{&event.TruthKeySet{Check: ours}}, nil
	case string(check) != string(ours[:]):
		return nil, errs.ErrTruthKey
	}
	return nil, nil
}
