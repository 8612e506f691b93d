package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Question returns the question with a number. It returns the last one again, or uses the cache or
// the store. A missing question is [errs.ErrCorrupt].
func (s *State) Question(number uint32) (*event.Question, error) {
	r := &s.recent
	if r.question != nil && r.question.Number == number {
		return r.question, nil
	}
	var q *event.Question
	var err error
	if s.isKnown(number, s.Durable.Questions) {
		q, err = remember(s.Known, &s.Known.questions, number, s.loadQuestion)
	} else {
		q, err = s.loadQuestion(number)
	}
	if err == nil && q.Number == number { // otherwise the record is damaged
		r.question = q
	}
	return q, err
}

// isKnown reports whether the definition with a number may be kept in the cache beyond the
// transaction. Only committed definitions may be kept. durable is the number of committed
// definitions of its type.
func (s *State) isKnown(number, durable uint32) bool { return s.Known != nil && number <= durable }

// QuestionNumber returns the number of the question with a name. found is false if no such question
// is defined.
func (s *State) QuestionNumber(name string) (number uint32, found bool, err error) {
	if len(name) > event.MaxNameBytes {
		return 0, false, nil // no question has such a name, and a key of that length would double the memory
	}
	return Lookup(s, BucketQuestions, NameKey(name), DecodeNumber32)
}

// loadQuestion reads the question with a number from the store.
func (s *State) loadQuestion(number uint32) (*event.Question, error) {
	q, found, err := Lookup(s, BucketQuestions, NumberKey(number), event.DecodeQuestion)
	if err == nil && !found {
		err = fmt.Errorf("%w: question %d is missing", errs.ErrCorrupt, number)
	}
	return q, err
}

// Policy returns the policy with a number. 0 is the policy of objects without one, which has no
// limit but the cap. A missing policy is [errs.ErrCorrupt].
func (s *State) Policy(number uint32) (policy.Policy, error) {
	r := &s.recent
	if !r.policy.IsZero() && r.under == number {
		return r.policy, nil
	}
	var p policy.Policy
	var err error
	if s.isKnown(number, s.Durable.Policies) {
		p, err = remember(s.Known, &s.Known.policies, number, s.loadPolicy)
	} else {
		p, err = s.loadPolicy(number)
	}
	if err == nil {
		r.policy, r.under = p, number
	}
	return p, err
}

// PolicyNumber returns the number of the policy with the same canonical text as p. found is false
// if the ledger has none.
func (s *State) PolicyNumber(p policy.Policy) (number uint32, found bool, err error) {
	return Lookup(s, BucketPolicies, PolicyJSONKey(wire.HashText(p.String())), DecodeNumber32)
}

// loadPolicy reads the policy with a number from the store.
func (s *State) loadPolicy(number uint32) (policy.Policy, error) {
	if number == 0 {
		return noPolicy(), nil
	}
	p, found, err := Lookup(s, BucketPolicies, PolicyNumberKey(number), policy.Parse)
	if err != nil {
		return p, fmt.Errorf("%w: %w", errs.ErrCorrupt, err)
	}
	if !found {
		return p, fmt.Errorf("%w: policy %d is missing", errs.ErrCorrupt, number)
	}
	return p, nil
}

// noPolicy returns the policy of an object enrolled without one, which is limited by its cap alone.
func noPolicy() policy.Policy { return policy.Fixed(privacy.MaxEpsilon()) }

// PolicyOrNone returns p or, if p is the zero value, the policy of objects without one.
func PolicyOrNone(p policy.Policy) policy.Policy {
	if p.IsZero() {
		return noPolicy()
	}
	return p
}

// DefinitionKey returns a key in the bucket of a question, policy or buyer. Its record is the
// number of the event that defined the one with this number.
func DefinitionKey(number uint32) []byte { return binary.BigEndian.AppendUint32([]byte("e"), number) }

// PutDefinition records that the event that is being applied defines the question, policy or buyer
// with a number.
func (s *State) PutDefinition(bucket string, number uint32) error {
	e := &wire.Encoder{}
	e.U64(s.Counters.Events) // already the number of that event
	return s.Put(bucket, DefinitionKey(number), e.Buf)
}

// Definition returns the number of the event that defined a question, policy or buyer. A missing
// record is [errs.ErrCorrupt].
func (s *State) Definition(bucket string, number uint32) (event uint64, err error) {
	event, found, err := Lookup(s, bucket, DefinitionKey(number), DecodeNumber64)
	if err == nil && !found {
		err = errs.Corrupt(nil, "the number of the event that defined record %d of %s is missing", number, bucket)
	}
	return event, err
}

// recent has the definitions looked up last, because most events of a request need the same.
type recent struct {
	question *event.Question
	policy   policy.Policy // the zero value if none was looked up
	under    uint32        // number of the policy
}

// Cache keeps questions and policies, which never change, and the results of comparing policies. It
// keeps only committed definitions, because the number of one that was rolled back may be used for
// another. Its methods may be called concurrently.
type Cache struct {
	// All makes the cache keep every question and policy. An audit sets it, because its log may use
	// any number of them in turns. The memory is then proportional to the log, but the work to read
	// them repeatedly would not be.
	All bool

	mu        sync.Mutex
	questions map[uint32]*event.Question
	names     map[string]*event.Question
	policies  map[uint32]policy.Policy
	compared  map[compared]comparison
}

// maxCached is the largest number of questions, and of policies, that are kept.
const maxCached = 1024

// remember returns the definition with a number from the cache, or loads it and keeps it. all is
// the map of the cache for this type of definition. Concurrent callers may load the same definition
// twice.
func remember[T any](c *Cache, all *map[uint32]T, number uint32, load func(uint32) (T, error)) (T, error) {
	c.mu.Lock()
	value, found := (*all)[number]
	c.mu.Unlock()
	if found {
		return value, nil
	}
	value, err := load(number)
	if err != nil {
		return value, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	most := maxCached
	if c.All {
		most = math.MaxInt
	}
	keep(all, number, value, most)
	return value, nil
}

// keep adds an entry to a map, and creates the map if it is nil. A map of most entries or more
// first loses arbitrary entries, until it has fewer.
func keep[K comparable, T any](all *map[K]T, key K, value T, most int) {
	if *all == nil {
		*all = make(map[K]T)
	}
	for other := range *all {
		if len(*all) < most {
			break
		}
		delete(*all, other)
	}
	(*all)[key] = value
}

// Named returns a question that [Cache.Name] has kept, or nil.
func (c *Cache) Named(name string) *event.Question {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[name]
}

// Name keeps a question, so that [Cache.Named] finds it by its name. The question must be
// committed.
func (c *Cache) Name(q *event.Question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep(&c.names, q.Name, q, maxCached)
}
