package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Event is one entry of the log in words. Which fields are set depends on the kind.
type Event struct {
	Number uint64    `json:"event"` // from 1, without gaps
	Time   time.Time `json:"time"`  // never before that of the event before
	// Kind is one of
	//   created    the ledger: ID, Currency
	//   truth-key  from here on chains are bound to their truth
	//   question   a question was defined: Question, Values
	//   policy     a policy was first used: Policy
	//   enrolled   Object in Question under Policy (if any), with Cap from here on
	//   released   Object answered Question at Epsilon with Response, by Method
	//   refused    a request left Object out: Refused, one of them; the settled event of the request follows
	//   settled    the request with Key ended, or a part of it: Counts, LeftOut, the Sale it made, if any, and the
	//              Object that it was about, if it named no other
	//   charged    Object pays Epsilon for the answer about Question that follows
	//   bound      the chain of Object in Question belongs to the truth that is drawn from next
	//   epoch      the chain of Object in Question is closed, and a new one begins, about a value of its own
	//   stated     a statement about Object was made
	//   forgotten  all events about Object, and everything released of it, are destroyed
	//   withdrawn  Object takes part in nothing any more, until it is enrolled again
	//   buyer      a Buyer's first order
	//   reserved   Sale is held for Buyer: Question, Epsilon, Objects and Price in all, until Expires
	//   held       Object is held for Sale at Price
	//   cancelled  Sale is held no longer
	//   sale       Sale to Buyer: Question, Epsilon, Objects and Price in all
	//   sold       Object answered Question at Epsilon with Response, by Method, for Buyer in Sale at Price
	//   answered   the Query about Question and a panel of Objects has the answer Response at Epsilon, by Method
	Kind string `json:"kind"`
	// Erased: the object was forgotten since. Of the event only its kind and time are left, and of one about a
	// Sale the Price.
	Erased    bool             `json:"erased,omitempty"`
	ID        string           `json:"id,omitempty"`
	Currency  string           `json:"currency,omitempty"`
	Object    string           `json:"object,omitempty"`
	Question  string           `json:"question,omitempty"`
	Values    []string         `json:"values,omitempty"`
	Encoding  Encoding         `json:"encoding,omitempty"`
	Mechanism *Mechanism       `json:"mechanism,omitempty"`
	NoiseKey  string           `json:"noise_key,omitempty"`
	Policy    *policy.Policy   `json:"policy,omitempty"`
	Cap       *privacy.Epsilon `json:"cap,omitempty"`
	Epsilon   *privacy.Epsilon `json:"epsilon,omitempty"`
	Query     string           `json:"query,omitempty"`
	Objects   uint64           `json:"objects,omitempty"`
	Response  string           `json:"response,omitempty"`
	// Method is "raise", "degrade" or "insert"; of an answer "fresh" or "degrade"; of a sold response also
	// "resale".
	Method  string     `json:"method,omitempty"`
	Sale    uint64     `json:"sale,omitempty"`
	Buyer   string     `json:"buyer,omitempty"`
	Price   *int64     `json:"price,omitempty"` // in minor units of the currency
	Expires *time.Time `json:"expires,omitempty"`
	Key     string     `json:"key,omitempty"`
	Counts  []uint64   `json:"counts,omitempty"`   // drawn, reused, derived; or enrolled, already
	LeftOut uint64     `json:"left_out,omitempty"` // how many objects were refused
	Refused []Refusal  `json:"refused,omitempty"`
}

// Events yields the log in order, beginning with the event of the given number, up to the last one
// that was there when it was reached. It reads in short snapshots; other calls may run meanwhile.
func (l *Ledger) Events(ctx context.Context, from uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			events, err := l.someEvents(ctx, from, scanSize)
			for _, ev := range events {
				if !yield(ev, nil) {
					return
				}
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			if len(events) == 0 {
				return
			}
			from = events[len(events)-1].Number + 1
		}
	}
}

// Refusals yields the events of kind "refused" of the request with an idempotency key, beginning with the event of the
// given number, in order: everybody whom its parts have left out so far, but for those forgotten since. The results of
// a request list the first of them. It reads in short snapshots; other calls may run meanwhile.
//
// The errors are [ErrUnknown] for the key, that of ctx, and [ErrCorrupt].
func (l *Ledger) Refusals(ctx context.Context, key string, from uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		settled, err := l.settledBy(ctx, key)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for _, number := range settled {
			if number > from && !l.eachRefusal(ctx, from, number, yield) {
				return
			}
		}
	}
}

// eachRefusal yields the refusals, from an event on, of the part of a request that another one settles. It tells whether
// to go on.
func (l *Ledger) eachRefusal(ctx context.Context, from, settled uint64, yield func(Event, error) bool) bool {
	first, err := l.firstRefusal(ctx, settled)
	for at := max(first, from); err == nil && at < settled; {
		var events []Event
		events, err = l.someRefusals(ctx, at, settled)
		for _, ev := range events {
			if !ev.Erased && !yield(ev, nil) {
				return false
			}
		}
		at += uint64(len(events))
	}
	if err != nil {
		yield(Event{}, err)
	}
	return err == nil
}

// someRefusals reads some of a range of events that all refuse somebody.
func (l *Ledger) someRefusals(ctx context.Context, from, end uint64) ([]Event, error) {
	events, err := l.someEvents(ctx, from, int(min(scanSize, end-from)))
	if err == nil && len(events) == 0 {
		err = errs.Corrupt(nil, "event %d is missing", from)
	}
	for i, ev := range events {
		if ev.Kind != event.KindRefused.String() {
			return events[:i], errs.Corrupt(nil, "event %d refuses nobody", ev.Number)
		}
	}
	return events, err
}

// settledBy returns the events that settled the parts of a request.
func (l *Ledger) settledBy(ctx context.Context, key string) (settled []uint64, err error) {
	err = l.engine.View(ctx, func(s *state.State) error {
		r, known, err := s.Request(key)
		if err == nil && !known {
			err = fmt.Errorf("key %.256q: %w", key, ErrUnknown)
		}
		settled = r.Settled
		return err
	})
	return settled, err
}

// firstRefusal returns where the refusals begin whose request, or part of one, an event settles.
func (l *Ledger) firstRefusal(ctx context.Context, settled uint64) (first uint64, err error) {
	err = l.engine.View(ctx, func(s *state.State) error {
		part, err := s.Settlement(settled)
		if err != nil {
			return err
		}
		first = settled - part.Refused
		return state.CheckRefused(settled, part.Refused)
	})
	return first, err
}

// someEvents reads at most that many events in one snapshot.
func (l *Ledger) someEvents(ctx context.Context, from uint64, most int) (events []Event, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	from = max(from, 1)
	var fault error
	full, size := false, 0
	err = l.engine.View(ctx, func(s *state.State) error {
		err := s.Scan(state.BucketEvents, state.EventKey(from), func(key, value []byte) bool {
			var ev Event
			if ev, fault = l.openEvent(s, key, value); fault != nil {
				return false
			}
			if ev.Number != from+uint64(len(events)) {
				fault = fmt.Errorf("%w: event %d is missing", ErrCorrupt, from+uint64(len(events)))
				return false
			}
			events = append(events, ev)
			size += len(value)
			full = len(events) == most || size >= mostBytes
			return !full
		})
		if next := from + uint64(len(events)); err == nil && fault == nil && !full && next <= s.Counters.Events {
			fault = fmt.Errorf("%w: event %d is missing", ErrCorrupt, next)
		}
		return err
	})
	if err != nil {
		return nil, err // what was read may not be durable
	}
	return events, fault
}

// mostBytes is about how many bytes of events are read in one snapshot.
const mostBytes = 4 << 20

func (l *Ledger) openEvent(s *state.State, key, value []byte) (Event, error) {
	if len(key) != 8 {
		return Event{}, fmt.Errorf("%w: event with the key %x", ErrCorrupt, key)
	}
	payload, err := wire.Unseal(state.BucketEvents, key, value)
	if err != nil {
		return Event{}, err
	}
	n, err := event.DecodeEntry(binary.BigEndian.Uint64(key), payload)
	if err != nil {
		return Event{}, err
	}
	return l.describe(s, n.Event)
}

// describe puts an event in words.
func (l *Ledger) describe(s *state.State, ev event.Event) (out Event, err error) {
	out = Event{Number: ev.Number, Time: ev.Time, Kind: ev.Change.Kind().String()}
	if ev.Erased != nil {
		return out, l.describeErased(s, ev, &out)
	}
	switch c := ev.Change.(type) {
	case *event.Created:
		out.ID, out.Currency = uuid.UUID(c.ID).String(), c.Currency
	case *event.NoiseKeySet:
		out.NoiseKey = c.Name
	case *event.QuestionDefined:
		out.Question, out.Values, out.Encoding, out.Mechanism = c.Name, c.Values, c.Encoding, c.Mechanism
	case *event.PolicyDefined:
		out.Policy, err = l.policyOf(s, c.Number)
	case *event.Enrolled:
		out.Object, out.Cap = c.Object, &c.Cap
		if out.NoiseKey, err = s.NoiseKeyName(c.Noise); err != nil {
			return out, err
		}
		if out.Policy, err = l.policyOf(s, c.Policy); err == nil {
			_, err = l.nameQuestion(s, c.Question, &out)
		}
	case *event.Released:
		out.Object, out.Epsilon, out.Method = c.Object, &c.Epsilon, c.Method.String()
		var q *event.Question
		if q, err = l.nameQuestion(s, c.Question, &out); err == nil {
			var r Response
			r, err = toldResponse(q, c.Object, state.NewLevel(c.Epsilon, c.Value, ev.Number))
			out.Response = r.Value
		}
	case *event.Charged:
		out.Object, out.Epsilon = c.Object, &c.Epsilon
		_, err = l.nameQuestion(s, c.Question, &out)
	case *event.Answered:
		out.Query, out.Objects, out.Epsilon, out.Method = c.Query, c.Objects, &c.Epsilon, c.Method.String()
		var q *event.Question
		if q, err = l.nameQuestion(s, c.Question, &out); err == nil {
			out.Response, err = q.AnswerText(c.Query, c.Result)
		}
	case *event.Settled:
		out.Key, out.Counts, out.LeftOut, out.Sale = c.Key, c.Counts[:], c.Refused, c.Sale
		if c.Alone {
			out.Object = c.Object
		}
	case *event.ObjectRefused:
		out.Object, out.Refused = c.Object, []Refusal{c.Refusal}
		_, err = l.nameQuestion(s, c.Question, &out)
	case *event.EpochBegun:
		out.Object = c.Object
		_, err = l.nameQuestion(s, c.Question, &out)
	case *event.TruthBound:
		out.Object = c.Object
		_, err = l.nameQuestion(s, c.Question, &out)
	case *event.Withdrawn:
		out.Object = c.Object
	case *event.Stated:
		out.Object = c.Object
	case *event.Forgotten:
		out.Object, out.Cap, out.Epsilon = c.Object, &c.Cap, &c.Spent
	case *event.BuyerNamed:
		out.Buyer = c.Name
	default:
		err = l.describeSale(s, ev, &out)
	}
	return out, err
}

// describeErased puts in words what is left of an erased event.
func (l *Ledger) describeErased(s *state.State, ev event.Event, out *Event) error {
	out.Erased = true
	switch c := ev.Change.(type) {
	case *event.Settled:
		out.Key, out.Counts, out.LeftOut, out.Sale = c.Key, c.Counts[:], c.Refused, c.Sale
	case *event.Held:
		return l.describeShare(s, c.Sale, c.Price, out)
	case *event.Sold:
		return l.describeShare(s, c.Sale, c.Price, out)
	}
	return nil
}

func (l *Ledger) nameQuestion(s *state.State, number uint32, out *Event) (*event.Question, error) {
	q, err := s.Question(number)
	if err == nil {
		out.Question = q.Name
	}
	return q, err
}

func (l *Ledger) policyOf(s *state.State, number uint32) (*policy.Policy, error) {
	if number == 0 {
		return nil, nil
	}
	p, err := s.Policy(number)
	return &p, err
}
