package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// scanSize is how many records are read in one snapshot. A long-lived snapshot would make the file
// grow, and could stand in the way of a writer; so long reads are cut into short ones.
const scanSize = 4096

// scan passes the records of a bucket, from a key on, to visit, until it returns false. It reads in
// snapshots of bounded length, so records written meanwhile may or may not be seen.
func (l *Ledger) scan(ctx context.Context, bucket string, from []byte, visit func(key, value []byte) (bool, error)) error {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.view(ctx, func(s *state) error {
			seen := 0
			more = false
			var fault error
			err := s.Scan(bucket, from, func(key, value []byte) bool {
				if seen++; seen > scanSize {
					from, more = append([]byte(nil), key...), true
					return false
				}
				var on bool
				on, fault = visit(key, value)
				return on && fault == nil
			})
			if err != nil {
				return err
			}
			return fault
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachChain passes all chains of a question to visit, in the order of the objects' names, outside of
// any snapshot.
func (l *Ledger) eachChain(ctx context.Context, q *question, visit func(name string, c chain) bool) error {
	type named struct {
		name string
		chain
	}
	from := ""
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var found []named
		err := l.view(ctx, func(s *state) error {
			return s.scanChains(q.number, from, func(name string, c chain) bool {
				found = append(found, named{name, c})
				return len(found) < scanSize
			})
		})
		if err != nil {
			return err
		}
		for _, one := range found {
			if !visit(one.name, one.chain) {
				return nil
			}
		}
		if len(found) < scanSize {
			return nil
		}
		from = string(objectKey(found[len(found)-1].name))
	}
}

// Responses yields every response recorded at exactly this ε, in the order of the objects' names.
// Reading is free: it charges nobody, needs no truth and leaves no event.
func (l *Ledger) Responses(ctx context.Context, questionName string, epsilon privacy.Epsilon) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		q, err := l.findQuestion(ctx, questionName)
		if err != nil {
			yield(Response{}, err)
			return
		}
		stopped := false
		err = l.eachChain(ctx, q, func(name string, c chain) bool {
			at, found := c.at(epsilon)
			if found {
				stopped = !yield(q.response(name, at))
			}
			return !stopped
		})
		if err != nil && !stopped {
			yield(Response{}, err)
		}
	}
}

// findQuestion returns a question, or ErrUnknown.
func (l *Ledger) findQuestion(ctx context.Context, name string) (q *question, err error) {
	if q := l.known.named(name); q != nil {
		return q, errors.Join(ctx.Err(), l.commits.check())
	}
	err = l.view(ctx, func(s *state) error {
		q, err = l.questionByName(s, name)
		return err
	})
	if err == nil {
		l.known.name(q) // it is durable
	}
	return q, err
}

// ObjectState is everything the ledger knows of one object.
type ObjectState struct {
	Object    string          `json:"object"`
	Cap       privacy.Epsilon `json:"cap"`
	Spent     privacy.Epsilon `json:"spent"`
	Held      privacy.Epsilon `json:"held"`      // by reservations, beyond what is spent
	Remaining privacy.Epsilon `json:"remaining"` // of the cap, without what is held
	Earned    int64           `json:"earned"`    // by sales, in minor units of the currency
	Forgotten uint64          `json:"forgotten"` // the event that last destroyed what was released, or 0
	Currency  string          `json:"currency"`
	Chains    []ChainState    `json:"chains"`
}

// ChainState is everything released of one object and question. Before the first response Epsilon is
// 0 and Response is empty.
type ChainState struct {
	Question string `json:"question"`
	// Withdrawn: nothing more is drawn from it or sold of it, unless the object is enrolled again.
	Withdrawn bool            `json:"withdrawn"`
	Policy    *policy.Policy  `json:"policy,omitempty"` // nil if only the cap binds
	Orders    uint64          `json:"orders"`           // accepted, for more than their buyers held
	Epsilon   privacy.Epsilon `json:"epsilon"`          // of the current level, which is what the responses cost
	// Answered is what the question cost besides: answers to queries about it, and what was destroyed when the
	// object was forgotten.
	Answered privacy.Epsilon `json:"answered"`
	Response string          `json:"response"` // at the current level
	Ceiling  privacy.Epsilon `json:"ceiling"`  // by the policy, now; the object's cap may bind before
	Levels   []LevelState    `json:"levels"`   // by rising ε
}

// LevelState is one recorded response.
type LevelState struct {
	Epsilon  privacy.Epsilon `json:"epsilon"`
	Response string          `json:"response"`
	Event    uint64          `json:"event"`
	Buyers   []string        `json:"buyers,omitempty"` // who hold it
}

// Object returns the budget and all responses of an object, or [ErrUnknown].
func (l *Ledger) Object(ctx context.Context, name string) (ObjectState, error) {
	var out ObjectState
	err := l.view(ctx, func(s *state) error {
		o, found, err := s.object(name)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("object %.256q: %w", name, ErrUnknown)
		}
		out, err = l.objectState(s, name, o)
		return err
	})
	if err != nil {
		return ObjectState{}, err
	}
	return out, nil
}

func (l *Ledger) objectState(s *state, name string, o object) (ObjectState, error) {
	out := ObjectState{Object: name, Cap: o.cap, Spent: o.spent, Remaining: less(o.cap, o.spent), Earned: int64(o.earned), Forgotten: o.forgotten, Currency: l.about.currency}
	numbers, err := s.questionsOf(name)
	if err != nil {
		return out, err
	}
	if uint64(len(numbers)) != o.chains {
		return out, orCorrupt(nil, "object %q has %d chains of %d", name, len(numbers), o.chains)
	}
	for _, number := range numbers {
		c, err := l.chainState(s, number, name, o)
		if err != nil {
			return out, err
		}
		out.Chains = append(out.Chains, c)
	}
	return out, s.addHeld(name, o, &out)
}

// addHeld adds what reservations hold of each chain.
func (s *state) addHeld(name string, o object, out *ObjectState) error {
	reach := reaches{}
	if err := s.reserved(o, &reach); err != nil {
		return err
	}
	for _, one := range reach {
		c, _, err := s.chain(one.question, name)
		if err != nil {
			return err
		}
		out.Held = plus(out.Held, less(one.epsilon(), c.current()))
	}
	out.Remaining = less(out.Remaining, out.Held)
	return nil
}

// questionsOf returns the numbers of the questions an object is, or was, enrolled in.
func (s *state) questionsOf(name string) (numbers []uint32, err error) {
	prefix := objectKey(name)
	err = s.Scan(bucketObjects, memberKey(name, 1), func(key, _ []byte) bool {
		if len(key) != len(prefix)+4 || string(key[:len(prefix)]) != string(prefix) {
			return false
		}
		numbers = append(numbers, binary.BigEndian.Uint32(key[len(prefix):]))
		return true
	})
	return numbers, err
}

func (l *Ledger) chainState(s *state, number uint32, name string, o object) (ChainState, error) {
	q, err := s.question(number)
	if err != nil {
		return ChainState{}, err
	}
	c, found, err := s.chain(number, name)
	if err != nil || !found {
		return ChainState{}, orCorrupt(err, "object %q has lost its chain in question %d", name, number)
	}
	out := ChainState{
		Question: q.name, Withdrawn: o.withdrew(c), Orders: c.orders, Epsilon: c.current(), Answered: c.answered,
		Ceiling: o.cap, Levels: make([]LevelState, 0, len(c.levels)),
	}
	if out.Policy, err = l.policyOf(s, c.policy); err != nil {
		return out, err
	}
	if out.Policy != nil {
		out.Ceiling = out.Policy.Ceiling(s.clock, c.orders)
	}
	for _, at := range c.levels {
		r, err := q.response(name, at)
		if err != nil {
			return out, err
		}
		out.Response = r.Value
		buyers, err := s.buyerNames(at.buyers)
		if err != nil {
			return out, err
		}
		out.Levels = append(out.Levels, LevelState{r.Epsilon, r.Value, r.Event, buyers})
	}
	return out, nil
}

// Stats counts what is in the ledger.
type Stats struct {
	Objects   uint64 `json:"objects"`
	Questions uint64 `json:"questions"`
	Chains    uint64 `json:"chains"`
	Events    uint64 `json:"events"`
	Buyers    uint64 `json:"buyers"`
	Sales     uint64 `json:"sales"`   // carried out
	Revenue   int64  `json:"revenue"` // of all sales, in minor units of the currency
	Currency  string `json:"currency"`
	Bytes     int64  `json:"bytes"` // on disk
}

// Stats returns the counts, in constant time.
func (l *Ledger) Stats(ctx context.Context) (Stats, error) {
	var out Stats
	err := l.view(ctx, func(s *state) error {
		c := s.counters
		out = Stats{Objects: c.objects, Questions: uint64(c.questions), Chains: c.chains, Events: c.events}
		out.Buyers, out.Sales, out.Revenue, out.Currency = uint64(c.buyers), c.sold, int64(c.revenue), l.about.currency
		return nil
	})
	if err != nil {
		return Stats{}, err
	}
	out.Bytes, err = l.store.Size()
	return out, err
}
