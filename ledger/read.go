package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/privacy"
)

// scanSize is the number of records that are read in one snapshot. A long read is cut into short
// ones, because a long-lived snapshot would let the file grow and could block a writer.
const scanSize = 4096

// Responses yields every response recorded at exactly this ε, in the order of the objects' names.
// Reading charges no object, needs no true value and records no event.
func (l *Ledger) Responses(
	ctx context.Context, questionName string, epsilon privacy.Epsilon,
) iter.Seq2[api.Response, error] {
	return func(yield func(api.Response, error) bool) {
		q, err := l.requests.Question(ctx, questionName)
		if err != nil {
			yield(api.Response{}, err)
			return
		}
		stopped := false
		visit := func(name string, at *state.Level) bool {
			stopped = !yield(request.ResponseOf(q, strings.Clone(name), *at))
			return !stopped
		}
		err = levels{Engine: &l.engine, Question: q, Epsilon: epsilon}.Each(ctx, visit)
		if err != nil && !stopped {
			yield(api.Response{}, err)
		}
	}
}

// ResponsesPage returns a part of what [Ledger.Responses] yields: at most limit responses, of the
// objects whose names are after a name; "" means all. next is the name after which the next part
// begins; "" at the end. A part may have fewer responses than the limit, or none, before the end.
func (l *Ledger) ResponsesPage(
	ctx context.Context, question string, epsilon privacy.Epsilon, after string, limit int,
) (found []api.Response, next string, err error) {
	q, err := l.requests.Question(ctx, question)
	if err = cmp.Or(err, request.CheckLimit(limit)); err != nil {
		return nil, "", err
	}
	visit := func(name string, at *state.Level) error {
		one, err := request.ResponseOf(q, strings.Clone(name), *at)
		found = append(found, one)
		return err
	}
	next, err = levels{Engine: &l.engine, Question: q, Epsilon: epsilon}.Page(ctx, after, limit, visit)
	return found, next, err
}

// Object returns the budget and all responses of an object, or [api.ErrUnknown].
func (l *Ledger) Object(ctx context.Context, name string) (api.ObjectState, error) {
	if err := event.CheckName("object", name); err != nil {
		return api.ObjectState{}, err
	}
	r := l.acquireReader()
	defer l.releaseReader(r)
	r.ledger, r.name = l, name
	if err := l.engine.View(ctx, r.read); err != nil {
		return api.ObjectState{}, err
	}
	return r.out, nil
}

// objectReader reads one object and its chains for [Ledger.Object]. It is reused, so that only the
// result is allocated. Without that a read would take a fifth longer.
type objectReader struct {
	ledger *Ledger
	name   string
	out    api.ObjectState // the result

	state  *state.State
	key    []byte // of the object
	object state.Object
	known  bool  // the record of the object was read
	fault  error // why add stopped the scan, or nil

	read  func(*state.State) error     // readFrom as a function value, made once
	visit func(key, value []byte) bool // add as a function value, made once
}

// readFrom reads the record of the object and the records after it, which list the object's
// questions. It sets r.out. It returns [api.ErrUnknown] if there is no such object.
func (r *objectReader) readFrom(s *state.State) error {
	r.state, r.key = s, state.AppendObjectKey(r.key[:0], r.name)
	if err := s.Scan(state.BucketObjects, r.key, r.visit); err != nil {
		return err
	}
	switch {
	case r.fault != nil:
		return r.fault
	case !r.known:
		return fmt.Errorf("object %q: %w", r.name, api.ErrUnknown)
	case uint64(len(r.out.Chains)) != r.object.Chains:
		return errs.Corrupt(nil, "object %q: %d chains are stored, its record counts %d",
			r.name, len(r.out.Chains), r.object.Chains)
	}
	held, err := rules.HeldBudget(s, r.name, r.object)
	r.out.Held, r.out.Remaining = held, state.Minus(r.out.Remaining, held)
	return err
}

// add processes one record. It returns false if the record is not of this object, or after a fault.
func (r *objectReader) add(key, value []byte) (more bool) {
	if !bytes.HasPrefix(key, r.key) {
		return false
	}
	if member := key[len(r.key):]; len(member) > 0 {
		r.fault = r.addChain(member)
	} else {
		r.fault = r.begin(key, value)
	}
	return r.fault == nil
}

// begin processes the record of the object itself.
func (r *objectReader) begin(key, value []byte) error {
	payload, err := wire.Unseal(state.BucketObjects, key, value)
	if err != nil {
		return err
	}
	o, err := state.DecodeObject(payload)
	if err != nil {
		return fmt.Errorf("record %x in %s: %w", key, state.BucketObjects, err)
	}
	r.object, r.known = o, true
	r.out = api.ObjectState{
		Object: r.name, Cap: o.Cap, Spent: o.Spent, Remaining: state.Minus(o.Cap, o.Spent), Earned: int64(o.Earned),
		Forgotten: o.Forgotten, Currency: r.ledger.documents.About.Currency, Event: r.state.Counters.Events,
	}
	// The capacity is limited, because a damaged record may have any number of chains.
	r.out.Chains = slices.Grow(r.out.Chains, int(min(o.Chains, scanSize)))
	return nil
}

// addChain adds the chain in one question of the object. member is the end of the key of a record,
// which has the number of the question.
func (r *objectReader) addChain(member []byte) error {
	if !r.known || len(member) != 4 {
		return errs.Corrupt(nil, "object %q: a membership record has no object, or the invalid key suffix %x",
			r.name, member)
	}
	c, err := r.ledger.chainState(r.state, binary.BigEndian.Uint32(member), r.name, r.object)
	r.out.Chains = append(r.out.Chains, c)
	return err
}

// chainState returns the chain of an object in the question with a number, as hosts read it. o is
// the object. The ceiling is that of the policy now. Without a policy it is the cap.
func (l *Ledger) chainState(
	s *state.State, number uint32, name string, o state.Object,
) (out api.ChainState, err error) {
	q, err := s.Question(number)
	if err != nil {
		return out, err
	}
	k := s.Buffer.Key()
	k.Buf = state.AppendChainKey(k.Buf, number, name)
	payload, err := s.Payload(state.BucketChains, k.Buf)
	if err != nil || payload == nil {
		return out, errs.Corrupt(err, "object %q: its chain in question %d is missing", name, number)
	}
	d := wire.Decoder{Rest: payload}
	var c state.Chain
	_, levels := c.DecodeHead(&d)
	out = api.ChainState{
		Question: q.Name, Epoch: len(c.Closed) + 1, Withdrawn: o.Withdrew(c), Buyers: c.Buyers, Answered: c.Answered,
		Ceiling: o.Cap, Levels: slices.Grow(api.List[api.LevelState](nil), levels),
	}
	for range levels {
		var at state.Level
		at.Holders = state.DecodeHolders(&d, state.DecodeLevel(&d, &at))
		if d.Err != nil {
			break
		}
		level, err := levelState(s, q, name, at)
		if err != nil {
			return out, err
		}
		out.Epsilon, out.Response = level.Epsilon, level.Response
		out.Levels = append(out.Levels, level)
	}
	if err := d.Done(); err != nil {
		return out, fmt.Errorf("record %x in %s: %w", k.Buf, state.BucketChains, err)
	}
	if out.Earlier, err = earlierEpochs(s, q, name, c.Closed); err != nil {
		return out, err
	}
	if c.Policy != 0 {
		under, err := s.Policy(c.Policy)
		if err != nil {
			return out, err
		}
		out.Policy = &under
		out.Ceiling = out.Policy.Ceiling(s.Clock, c.Buyers)
	}
	return out, nil
}

// levelState returns a level of the object with a name, with its holders, as hosts read it.
func levelState(s *state.State, q *event.Question, name string, at state.Level) (out api.LevelState, err error) {
	r, err := request.ResponseOf(q, name, at)
	if err != nil {
		return out, err
	}
	out = api.LevelState{Epsilon: r.Epsilon, Response: r.Value, Event: r.Event}
	for _, h := range at.Holders {
		b, err := s.Buyer(h.Buyer)
		if err != nil {
			return out, err
		}
		out.Buyers, out.Paid = append(out.Buyers, b.Name), append(out.Paid, int64(h.Paid))
	}
	return out, nil
}

// earlierEpochs returns the closed epochs of the chain of the object with a name, as hosts read
// them.
func earlierEpochs(
	s *state.State, q *event.Question, name string, closed []state.ClosedEpoch,
) (all []api.EarlierEpoch, err error) {
	for i, one := range closed {
		levels := slices.Grow(api.List[api.LevelState](nil), len(one.Levels))
		epoch := api.EarlierEpoch{Epoch: i + 1, Ended: one.End, Answered: one.Answered, Levels: levels}
		for _, at := range one.Levels {
			l, err := levelState(s, q, name, at)
			if err != nil {
				return nil, err
			}
			epoch.Epsilon, epoch.Levels = l.Epsilon, append(epoch.Levels, l)
		}
		all = append(all, epoch)
	}
	return all, nil
}

// Stats returns the counts of the contents of the ledger, in constant time.
func (l *Ledger) Stats(ctx context.Context) (api.Stats, error) {
	out, err := engine.Read(ctx, &l.engine, func(s *state.State) (api.Stats, error) {
		c := s.Counters
		return api.Stats{
			Objects: c.Objects, Questions: uint64(c.Questions), Chains: c.Chains, Events: c.Events,
			Buyers: uint64(c.Buyers), Sales: c.Sold, Revenue: int64(c.Revenue), Currency: l.documents.About.Currency,
		}, nil
	})
	if err != nil {
		return api.Stats{}, err
	}
	out.Bytes, err = l.engine.Size()
	return out, err
}

// Health returns the state of the ledger. It includes whether commits wait, how much is only in the
// journal, and the number of reservations that hold budget. It also has the newest checkpoint, and
// the host that has the ledger.
//
// Health takes some microseconds, and about half a microsecond for each sale and reservation that
// is new since the last call, or that holds budget. A journal in a database is queried too, for at
// most a second. If the ledger has stopped, or stops now because another host has taken over,
// Health returns the reason ([api.ErrStopped]), and a Health with only Host.
func (l *Ledger) Health(ctx context.Context) (observe.Health, error) {
	return readHealth(ctx, &l.documents, &l.reservations)
}

// acquireReader returns a reader for one object, which releaseReader makes available again.
func (l *Ledger) acquireReader() *objectReader {
	r, _ := l.objects.Get().(*objectReader)
	if r == nil {
		r = &objectReader{}
		r.read, r.visit = r.readFrom, r.add
	}
	return r
}

// releaseReader clears a reader, so that it keeps no result alive, and makes it available to later
// reads.
func (l *Ledger) releaseReader(r *objectReader) {
	*r = objectReader{key: r.key, read: r.read, visit: r.visit}
	l.objects.Put(r)
}
