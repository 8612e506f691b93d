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

// LacksTruthKey returns a refusal if chains are bound to true values and the ledger was opened
// without its truth key. A read-only ledger needs no keys: its quotes are those of a ledger that
// has them.
func (l *Rules) LacksTruthKey(object string, asked privacy.Epsilon) *api.Refusal {
	if !l.HasTruthKey || l.Binder != nil || l.ReadOnly {
		return nil
	}
	return refuse(object, asked, api.NoTruthKey, event.RemedyKey)
}

// NoTruth is used in place of the index of a true value if the host has none.
const NoTruth = -1

// Ask requests true values from the host and returns their indexes in the question. It returns
// [NoTruth] for a value that is missing, is not one of the question's, or is not the one that the
// chain is bound to. faults records which of these it is. The true values of all draws come from
// here.
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

// Later collects errors of sources that will return the true values at another time. The caller
// goes on with its other requests to the source.
type Later struct {
	Err error // the first such error, or nil
}

// Is reports whether an error is [errs.ErrTruthLater], and keeps the first such error.
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

// Batches yields the objects in batches of [state.PartSize].
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

// fits reports whether a response of a chain may be drawn from the host's value. It takes the same
// steps if the host has no value as if it has another value.
func (l *Rules) fits(q *event.Question, to state.TruthBinding, name string, truth int32) bool {
	if l.Binder == nil || to.Tag == nil {
		return truth != NoTruth
	}
	same := to.Tag.Equal(l.Binder.Truth(name, q.Number, to.Since, truth))
	return same && truth != NoTruth
}

// StillFits is fits for a check in the transaction. Since the host was asked, the chain may have
// been bound to another value or have begun an epoch. asOf is the last event before the host was
// asked.
func (l *Rules) StillFits(q *event.Question, c *state.Chain, name string, truth int32, asOf uint64) bool {
	return c.Since <= asOf && l.fits(q, c.Binding(), name, truth)
}

// askHost requests true values from the host. A value that is not one of the question's is not an
// error. Other parties must not see a difference, and one wrong value must not end a request that
// may leave objects out.
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

// callSource calls a source of true values for at most Patience. A late result is not used. The
// error wraps [context.Canceled] or [context.DeadlineExceeded] only if the context of the caller
// has ended.
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

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// TruthFaults has the objects of a request whose true values cannot be used, at most MaxPanel of
// them, with the reasons. The reasons are not in recorded events or refusals, which must not depend
// on them. Only the caller gets them.
type TruthFaults struct {
	names []string // sorted
	why   []truthFault
}

// truthFault is why a response cannot be drawn from a true value.
type truthFault uint8

const (
	truthMissing truthFault = iota // the host has none
	truthChanged                   // the value is not the one that the chain began with
	truthInvalid                   // the value is not one of the question's
	truthFaults
)

// note records the reason for an object, and replaces a reason recorded before.
func (f *TruthFaults) note(name string, why truthFault) {
	at, known := slices.BinarySearch(f.names, name)
	switch {
	case known:
		f.why[at] = why
	case at < api.MaxPanel:
		f.names, f.why = slices.Insert(f.names, at, name), slices.Insert(f.why, at, why)
	}
}

// Among returns the refused objects whose true value has changed, and those whose value is not one
// of the question's. It takes the same steps for all reasons.
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
// order of their names. Values are found by name. An object that enrols or withdraws later thus
// never gets the value of another object.
type TrueValues struct {
	Batches []valueBatch  // sorted by name
	one     [1]valueBatch // memory for the first batch
	Count   int           // number of objects
	// The place of the last name found: most often the next name directly follows it.
	batch, place int
}

// MaxTrueValues is about how many true values a request keeps. Those of further objects are
// requested again for their part, so that memory does not grow with the number of objects.
const MaxTrueValues = 1 << 20

type valueBatch struct {
	names  []string
	values []int32 // index of the true value, or NoTruth
}

// Add appends a batch. It keeps both slices.
func (v *TrueValues) Add(names []string, values []int32) {
	if v.Batches == nil {
		v.Batches = v.one[:0]
	}
	v.Batches = append(v.Batches, valueBatch{names, values})
	v.Count += len(names)
}

// Of returns the index of an object's true value, or NoTruth, and whether the host was asked for
// it.
func (v *TrueValues) Of(name string) (value int32, asked bool) {
	if v.batch < len(v.Batches) {
		b := v.Batches[v.batch]
		if at := v.place + 1; at < len(b.names) && b.names[at] == name {
			v.place = at
			return b.values[at], true
		}
	}
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

// Forget overwrites all values and empties t.
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
	Ledger [16]byte // ID of the ledger, so that each ledger has other hashes
}

// minTruthKey is the smallest length of a truth key in bytes.
const minTruthKey = 16

// Check returns a tag by which the key is recognized.
func (b *Binder) Check() event.Tag { return b.hash("check", "", 0, 0, 0) }

// Truth returns the hash that binds the chain of an object and a question to its true value. It
// depends on the event that began the epoch. Equal hashes would otherwise show that a value came
// back.
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

// UseTruthKey checks a truth key. If the ledger has no truth key yet, it returns the change that
// records this one.
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
