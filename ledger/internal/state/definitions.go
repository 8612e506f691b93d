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

// Question returns a question by its number.
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
	if err == nil && q.Number == number { // else it is damaged
		r.question = q
	}
	return q, err
}

// isKnown tells whether a definition may be remembered beyond the transaction, of which so many are
// durable.
func (s *State) isKnown(number, durable uint32) bool { return s.Known != nil && number <= durable }

// QuestionNumber returns the number of a question by its name.
func (s *State) QuestionNumber(name string) (number uint32, found bool, err error) {
	if len(name) > event.MaxNameBytes {
		return 0, false, nil // nothing has such a name, and a key of its length would double the memory
	}
	return Lookup(s, BucketQuestions, NameKey(name), DecodeNumber32)
}

func (s *State) loadQuestion(number uint32) (*event.Question, error) {
	q, found, err := Lookup(s, BucketQuestions, NumberKey(number), event.DecodeQuestion)
	if err == nil && !found {
		err = fmt.Errorf("%w: question %d is missing", errs.ErrCorrupt, number)
	}
	return q, err
}

// Policy returns a policy by its number.
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

// PolicyNumber returns the number of a policy, if the ledger has it.
func (s *State) PolicyNumber(p policy.Policy) (number uint32, found bool, err error) {
	return Lookup(s, BucketPolicies, PolicyJSONKey(wire.HashText(p.String())), DecodeNumber32)
}

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

// noPolicy stands for an object enrolled without a policy: only its cap binds.
func noPolicy() policy.Policy { return policy.Fixed(privacy.MaxEpsilon()) }

// PolicyOrNone returns a policy of which the zero value says, as in requests, that only the cap
// binds.
func PolicyOrNone(p policy.Policy) policy.Policy {
	if p.IsZero() {
		return noPolicy()
	}
	return p
}

// DefinitionKey is the key of the number of the event that defined a question, policy or buyer.
func DefinitionKey(number uint32) []byte { return binary.BigEndian.AppendUint32([]byte("e"), number) }

// PutDefinition records that the event being applied defines a question, policy or buyer.
func (s *State) PutDefinition(bucket string, number uint32) error {
	e := &wire.Encoder{}
	e.U64(s.Counters.Events)
	return s.Put(bucket, DefinitionKey(number), e.Buf)
}

// Definition returns the event that defined a question, policy or buyer.
func (s *State) Definition(bucket string, number uint32) (event uint64, err error) {
	event, found, err := Lookup(s, bucket, DefinitionKey(number), DecodeNumber64)
	if err == nil && !found {
		err = errs.Corrupt(nil, "the event that defined number %d of %s is missing", number, bucket)
	}
	return event, err
}

// recent is what was last found among what is known: most events of a request ask for the same.
type recent struct {
	question *event.Question
	policy   policy.Policy // the zero one if none was asked for yet
	under    uint32        // its number
}

// Cache remembers questions and policies, which never change, and which of these allow no more than
// others. Only committed ones are put in: the number of one that was rolled back may be given to
// another.
type Cache struct {
	// All keeps every question and policy. An audit does, whose log may cycle through any number of
	// them: their memory is then in proportion to the log, where to read them again and again would
	// not be.
	All bool

	mu        sync.Mutex
	questions map[uint32]*event.Question
	names     map[string]*event.Question
	policies  map[uint32]policy.Policy
	compared  map[compared]comparison
}

// cached is how many questions, and policies, are remembered.
const cached = 1024

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
	most := cached
	if c.All {
		most = math.MaxInt
	}
	keep(all, number, value, most)
	return value, nil
}

// keep puts one in. When there are too many, it makes room for it.
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

// Named returns a question that was asked for by its name before, or nil.
func (c *Cache) Named(name string) *event.Question {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[name]
}

// Name remembers a question by its name.
func (c *Cache) Name(q *event.Question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep(&c.names, q.Name, q, cached)
}
