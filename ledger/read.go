package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

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

func (l *Ledger) findQuestion(ctx context.Context, name string) (q *question, err error) {
	err = l.view(ctx, func(s *state) error {
		q, err = l.questionByName(s, name)
		return err
	})
	return q, err
}

// ObjectState is everything the ledger knows of one object.
type ObjectState struct {
	Object    string          `json:"object"`
	Cap       privacy.Epsilon `json:"cap"`
	Spent     privacy.Epsilon `json:"spent"`
	Remaining privacy.Epsilon `json:"remaining"` // of the cap
	Chains    []ChainState    `json:"chains"`
}

// ChainState is everything released of one object and question. Before the first response Epsilon is
// 0 and Response is empty.
type ChainState struct {
	Question string          `json:"question"`
	Epsilon  privacy.Epsilon `json:"epsilon"`  // of the current level, which is what the responses cost
	Answered privacy.Epsilon `json:"answered"` // what answers to queries about the question cost besides
	Response string          `json:"response"` // at the current level
	Ceiling  privacy.Epsilon `json:"ceiling"`  // by the policy, now; the object's cap may bind before
	Levels   []LevelState    `json:"levels"`   // by rising ε
}

// LevelState is one recorded response.
type LevelState struct {
	Epsilon  privacy.Epsilon `json:"epsilon"`
	Response string          `json:"response"`
	Event    uint64          `json:"event"`
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
			return fmt.Errorf("object %q: %w", name, ErrUnknown)
		}
		s.now = s.clamp(l.clock())
		out = ObjectState{Object: name, Cap: o.cap, Spent: o.spent, Remaining: less(o.cap, o.spent)}
		err = l.eachQuestionOf(s, name, func(number uint32) error {
			c, err := l.chainState(s, number, name, o)
			out.Chains = append(out.Chains, c)
			return err
		})
		if err == nil && uint64(len(out.Chains)) != o.chains {
			err = orCorrupt(nil, "object %q has %d chains of %d", name, len(out.Chains), o.chains)
		}
		return err
	})
	if err != nil {
		return ObjectState{}, err
	}
	return out, nil
}

// eachQuestionOf visits the questions an object is enrolled in.
func (l *Ledger) eachQuestionOf(s *state, name string, visit func(number uint32) error) error {
	var numbers []uint32
	prefix := objectKey(name)
	err := s.Scan(bucketObjects, memberKey(name, 1), func(key, _ []byte) bool {
		if len(key) != len(prefix)+4 || string(key[:len(prefix)]) != string(prefix) {
			return false
		}
		numbers = append(numbers, binary.BigEndian.Uint32(key[len(prefix):]))
		return true
	})
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if err := visit(number); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) chainState(s *state, number uint32, name string, o object) (ChainState, error) {
	q, err := l.question(s, number)
	if err != nil {
		return ChainState{}, err
	}
	c, found, err := s.chain(number, name)
	if err != nil || !found {
		return ChainState{}, orCorrupt(err, "object %q has lost its chain in question %d", name, number)
	}
	out := ChainState{Question: q.name, Epsilon: c.current(), Answered: c.answered, Ceiling: o.cap, Levels: make([]LevelState, 0, len(c.levels))}
	if c.policy != 0 {
		p, err := l.policy(s, c.policy)
		if err != nil {
			return out, err
		}
		out.Ceiling = p.Ceiling(s.now)
	}
	for _, at := range c.levels {
		r, err := q.response(name, at)
		if err != nil {
			return out, err
		}
		out.Response = r.Value
		out.Levels = append(out.Levels, LevelState{r.Epsilon, r.Value, r.Event})
	}
	return out, nil
}

// Stats counts what is in the ledger.
type Stats struct {
	Objects   uint64 `json:"objects"`
	Questions uint64 `json:"questions"`
	Chains    uint64 `json:"chains"`
	Events    uint64 `json:"events"`
	Bytes     int64  `json:"bytes"` // on disk
}

// Stats returns the counts, in constant time.
func (l *Ledger) Stats(ctx context.Context) (Stats, error) {
	var out Stats
	err := l.view(ctx, func(s *state) error {
		c := s.counters
		out = Stats{Objects: c.objects, Questions: uint64(c.questions), Chains: c.chains, Events: c.events}
		return nil
	})
	if err != nil {
		return Stats{}, err
	}
	out.Bytes, err = l.store.Size()
	return out, err
}
