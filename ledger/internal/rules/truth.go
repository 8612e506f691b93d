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

// LacksTruthKey returns the refusal of an object if the ledger has a truth key and was opened
// without it, or nil. No true value can then be checked. A read-only ledger needs no keys: its
// quotes are those of a ledger that has them.
func (l *Rules) LacksTruthKey(object string, asked privacy.Epsilon) *api.Refusal {
	if !l.HasTruthKey || l.Binder != nil || l.ReadOnly {
		return nil
	}
	return refuse(object, asked, api.NoTruthKey, event.RemedyKey)
}

// NoTruth is used in place of the index of a true value if the host has none that can be used.
const NoTruth = -1

// Ask requests the true values of the objects in who from the host, and returns their indexes in
// the question. It returns [NoTruth] for a value that is missing, is not one of the question's, or
// does not fit the binding of the chain. It notes in faults which of these it is. The true values
// of all draws come from here.
func (l *Rules) Ask(
	ctx context.Context, q *event.Question, truth api.TruthFunc, who TruthRequest, faults *TruthFaults,
) ([]int32, error) {
	values, err := l.askHost(ctx, q, truth, who.Names)
	if err != nil {
		return nil, err
	}
	numbers := make([]int32, len(values))
	for i, name := range who.Names {
		numbers[i] = l.numberOf(q, who.Bindings[i], name, values[i], faults)
	}
	return numbers, nil
}

// numberOf returns the index of a true value, or [NoTruth] if a response of the chain cannot be
// drawn from it. It takes the same steps whether the value is missing, changed or invalid.
// Otherwise the duration of a refusal would reveal which of these it is.
func (l *Rules) numberOf(q *event.Question, to state.TruthBinding, name, value string, faults *TruthFaults) int32 {
	number, known := q.Index[cmp.Or(value, q.Values[0])] // a missing value takes the same steps
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

// Later collects the errors of sources that do not have the true values yet ([errs.ErrTruthLater]).
// The caller goes on with its other requests to the source, because such a source must first know
// all objects. At the end it returns Err.
type Later struct {
	Err error // the first such error, or nil
}

// Is reports whether an error is [errs.ErrTruthLater]. It keeps the first such error in l.Err.
func (l *Later) Is(err error) bool {
	later := errors.Is(err, errs.ErrTruthLater)
	if later && l.Err == nil {
		l.Err = err
	}
	return later
}

// TruthRequest is a list of objects whose true values are needed, with the bindings of their
// chains.
type TruthRequest struct {
	Names    []string             // sorted
	Bindings []state.TruthBinding // of each name, at the same index
}

// Add adds an object. Names must be added in rising order.
func (r *TruthRequest) Add(name string, to state.TruthBinding) {
	r.Names, r.Bindings = append(r.Names, name), append(r.Bindings, to)
}

// Batches yields the objects in batches of at most [state.PartSize].
func (r TruthRequest) Batches() iter.Seq[TruthRequest] {
	return func(yield func(TruthRequest) bool) {
		for from := 0; from < len(r.Names); from += state.PartSize {
			to := min(from+state.PartSize, len(r.Names))
			if !yield(TruthRequest{r.Names[from:to], r.Bindings[from:to]}) {
				return
			}
		}
	}
}

// fits reports whether a response of a chain may be drawn from the host's value, given by its index
// or [NoTruth]. A chain that is not bound takes any value. fits takes the same steps if the host
// has no value as if it has another value.
func (l *Rules) fits(q *event.Question, to state.TruthBinding, name string, truth int32) bool {
	if l.Binder == nil || to.Tag == nil {
		return truth != NoTruth
	}
	same := to.Tag.Equal(l.Binder.Truth(name, q.Number, to.Since, truth))
	return same && truth != NoTruth
}

// StillFits is fits for a check in the transaction that draws. asOf is the last event before the
// host was asked. Since then, the chain may have been bound to another value, or may have begun an
// epoch, for which the value was not requested.
func (l *Rules) StillFits(q *event.Question, c *state.Chain, name string, truth int32, asOf uint64) bool {
	return c.Since <= asOf && l.fits(q, c.Binding(), name, truth)
}

// askHost requests true values from the host and returns them as text. It returns an error if the
// source fails, or if the number of values is wrong. A value that is not one of the question's is
// no error here. Other parties must not see a difference, and one wrong value must not end a
// request that may leave objects out.
func (l *Rules) askHost(
	ctx context.Context, q *event.Question, truth api.TruthFunc, objects []string,
) ([]string, error) {
	if truth == nil {
		return nil, errs.Invalid("question %q: a draw needs true values: set Truth, the source of true values", q.Name)
	}
	values, err := l.callSource(ctx, q.Name, truth, slices.Clone(objects)) // the source may change its copy
	if err != nil {
		return nil, fmt.Errorf("question %q: %w", q.Name, err)
	}
	if len(values) != len(objects) {
		return nil, fmt.Errorf("question %q: %w returned %d values for %d objects", q.Name, errs.ErrTruthSource,
			len(values), len(objects))
	}
	return values, nil
}

// callSource calls a source of true values, with a time limit of l.Patience. A result that is late
// is not used. The error wraps [context.Canceled] or [context.DeadlineExceeded] only if the context
// of the caller has ended.
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
	late := l.Patience > 0 && ctx.Err() != nil // the time limit has passed
	switch ended := caller.Err(); {
	case ended != nil:
		return nil, fmt.Errorf("the context of the request ended during the call of its source of true values: %w",
			ended)
	case late && (err == nil || isContextError(err)):
		return nil, fmt.Errorf("%w: it took longer than Options.TruthTimeout, %v: make it faster or raise that, "+
			"and repeat the request with its key", errs.ErrTruthFailed, l.Patience)
	case err == nil:
		return values, nil
	}
	return nil, errs.OfSource(err)
}

// isContextError reports whether an error says that a context has ended.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// TruthFaults has the objects of a request whose true values cannot be used, with the reasons. The
// reasons are not in recorded events or refusals, because other parties must not learn them. Only
// the caller gets them.
type TruthFaults struct {
	names []string     // sorted
	why   []truthFault // of each name, at the same index
}

// truthFault is why a response cannot be drawn from a true value.
type truthFault uint8

const (
	truthMissing truthFault = iota // the host has none
	truthChanged                   // the value is not the one that the chain began with
	truthInvalid                   // the value is not one of the question's
	truthFaults
)

// note records the reason for an object, and replaces a reason recorded before. It drops a new name
// that would follow [api.MaxPanel] others in the list.
func (f *TruthFaults) note(name string, why truthFault) {
	at, known := slices.BinarySearch(f.names, name)
	switch {
	case known:
		f.why[at] = why
	case at < api.MaxPanel:
		f.names, f.why = slices.Insert(f.names, at, name), slices.Insert(f.why, at, why)
	}
}

// Among returns, of some refused objects, those whose true value has changed, and those whose value
// is not one of the question's. Each list is nil if it is empty. Among takes the same steps for all
// reasons.
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

// TrueValues has the true values that the host returned for some objects, batch by batch in the
// order of their names. Values are found by name, so that an object that enrols or withdraws later
// never shifts them to another object.
type TrueValues struct {
	Batches []valueBatch  // sorted by name
	one     [1]valueBatch // memory for the first batch
	Count   int           // number of objects
	// The batch, and the index in it, of the name found last. Most often the next name directly
	// follows it.
	batch, place int
}

// MaxTrueValues is about how many true values a request keeps. Those of further objects are
// requested again for their part, so that memory does not grow with the number of objects.
const MaxTrueValues = 1 << 20

// valueBatch has the true values of some objects.
type valueBatch struct {
	names  []string // sorted and not empty
	values []int32  // index of the true value of each name, or NoTruth
}

// Add appends a batch, whose names must follow those added before. It keeps both slices.
func (v *TrueValues) Add(names []string, values []int32) {
	if v.Batches == nil {
		v.Batches = v.one[:0]
	}
	v.Batches = append(v.Batches, valueBatch{names, values})
	v.Count += len(names)
}

// Of returns the index of an object's true value, or [NoTruth] if the host has none that can be
// used. asked is false if the host was not asked for the object.
func (v *TrueValues) Of(name string) (value int32, asked bool) {
	if v.batch < len(v.Batches) {
		b := v.Batches[v.batch]
		if at := v.place + 1; at < len(b.names) && b.names[at] == name { // the next name
			v.place = at
			return b.values[at], true
		}
	}
	// The first batch whose last name is not before the name is the only one that may have it.
	i, _ := slices.BinarySearchFunc(v.Batches, name, func(b valueBatch, name string) int {
		return strings.Compare(b.names[len(b.names)-1], name)
	})
	if i == len(v.Batches) {
		return NoTruth, false
	}
	b := v.Batches[i]
	at, asked := slices.BinarySearch(b.names, name)
	if !asked {
		return NoTruth, false
	}
	v.batch, v.place = i, at
	return b.values[at], true
}

// Forget overwrites all values and empties v.
func (v *TrueValues) Forget() {
	for _, b := range v.Batches {
		clear(b.values)
	}
	*v = TrueValues{}
}

// Binder computes the keyed hashes that bind a chain to the true value that it began with. Without
// the key, a hash reveals nothing about the value, even if there are few values.
type Binder struct {
	Key    []byte   // the host's truth key, at least 16 bytes
	Ledger [16]byte // ID of the ledger, so that the hashes of two ledgers differ
}

// minTruthKey is the smallest length of a truth key in bytes.
const minTruthKey = 16

// Check returns the tag by which the key is recognized. The ledger records it.
func (b *Binder) Check() event.Tag { return b.hash("check", "", 0, 0, 0) }

// Truth returns the hash that binds the chain of an object and a question to its true value. since
// is the event that began the epoch, or 0. Without it, equal hashes in two epochs would show that a
// value came back.
func (b *Binder) Truth(object string, question uint32, since uint64, value int32) event.Tag {
	return b.hash("truth", object, question, since, uint32(value))
}

// hash returns HMAC-SHA-256, under the truth key, of all its arguments and the ID of the ledger.
// All parts but the first and the last have a fixed length, and the first ends with a zero byte. So
// different arguments have different encodings.
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

// UseTruthKey checks the host's truth key for the ledger with this ID, and uses it from now on.
// check is the tag of the key that the ledger has recorded, or nil if it has none. Without one,
// UseTruthKey returns the event that records the tag. For another key it returns
// [errs.ErrTruthKey].
func (l *Rules) UseTruthKey(id [16]byte, key, check []byte) (set []event.Change, err error) {
	if len(key) < minTruthKey {
		return nil, errs.Invalid("the truth key has %d bytes: at least %d are needed", len(key), minTruthKey)
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
