package ledger

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/store"
	"github.com/sluicedp/sluice/policy"
)

// The buckets of the file; the package documentation draws them.
const (
	bucketMeta      = "meta"
	bucketQuestions = "questions"
	bucketPolicies  = "policies"
	bucketObjects   = "objects"
	bucketChains    = "chains"
	bucketAnswers   = "answers"
	bucketRequests  = "requests"
	bucketEvents    = "events"
)

const (
	keyFormat   = "format"
	keyAbout    = "about"
	keyCounters = "counters"
	keyTruthKey = "truth key"
)

// state is the ledger's state inside one transaction, as typed records.
type state struct {
	store.Reader
	counters counters
	durable  counters  // as they were when the transaction began
	now      time.Time // of the events of this transaction
	writer   store.Writer
}

// readState begins at a snapshot.
func readState(r store.Reader) (*state, error) {
	s := &state{Reader: r}
	var err error
	s.counters, _, err = lookup(s, bucketMeta, []byte(keyCounters), decodeCounters)
	s.durable = s.counters
	return s, err
}

// writeState begins a transaction at the time now, or at that of the last event if the clock has
// gone back since.
func writeState(w store.Writer, now time.Time) (*state, error) {
	s, err := readState(w)
	if err != nil {
		return nil, err
	}
	s.writer, s.now = w, s.clamp(now)
	return s, nil
}

// checkBegun refuses a store without the events that begin every ledger.
func (s *state) checkBegun() error {
	if s.counters.events == 0 {
		return orCorrupt(nil, "not a Sluice ledger, or its counters are missing")
	}
	return nil
}

// clamp keeps time from running back, whatever the clock does.
func (s *state) clamp(now time.Time) time.Time {
	if now.Before(s.counters.last) {
		return s.counters.last
	}
	return now.UTC()
}

// get returns the payload of a record, or nil if there is none.
func (s *state) get(bucket string, key []byte) ([]byte, error) {
	value, err := s.Get(bucket, key)
	if err != nil || value == nil {
		return nil, err
	}
	return unseal(bucket, key, value)
}

func (s *state) put(bucket string, key, payload []byte) error {
	return s.writer.Put(bucket, key, seal(bucket, key, payload))
}

func lookup[T any](s *state, bucket string, key []byte, decode func([]byte) (T, error)) (record T, found bool, err error) {
	payload, err := s.get(bucket, key)
	if err != nil || payload == nil {
		return record, false, err
	}
	if record, err = decode(payload); err != nil {
		return record, false, fmt.Errorf("record %x in %s: %w", key, bucket, err)
	}
	return record, true, nil
}

func number32(payload []byte) (uint32, error) {
	d := &decoder{rest: payload}
	return d.u32(), d.done()
}

func eventKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// A name and a number are told apart by their first byte.
func questionNameKey(name string) []byte { return append([]byte("n"), name...) }
func questionNumberKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte("q"), number)
}
func policyJSONKey(hash [32]byte) []byte   { return append([]byte("h"), hash[:]...) }
func policyNumberKey(number uint32) []byte { return binary.BigEndian.AppendUint32([]byte("p"), number) }

// objectKey ends with a zero byte, which no name contains, so that the records of an object stand
// together and no name is the beginning of another's.
func objectKey(name string) []byte { return append([]byte(name), 0) }

// memberKey lists a question of an object right behind the object.
func memberKey(name string, question uint32) []byte {
	return binary.BigEndian.AppendUint32(objectKey(name), question)
}

// chainKey puts all chains of a question together, in the order of the objects' names.
func chainKey(question uint32, name string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, question), name...)
}

func (s *state) questionNumber(name string) (number uint32, found bool, err error) {
	return lookup(s, bucketQuestions, questionNameKey(name), number32)
}

func (s *state) question(number uint32) (*question, error) {
	q, found, err := lookup(s, bucketQuestions, questionNumberKey(number), decodeQuestion)
	if err == nil && !found {
		err = fmt.Errorf("%w: question %d is missing", ErrCorrupt, number)
	}
	return q, err
}

func (s *state) policyNumber(p policy.Policy) (number uint32, found bool, err error) {
	return lookup(s, bucketPolicies, policyJSONKey(hashText(p.String())), number32)
}

func (s *state) policy(number uint32) (policy.Policy, error) {
	if number == 0 {
		return noPolicy(), nil
	}
	p, found, err := lookup(s, bucketPolicies, policyNumberKey(number), policy.Parse)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !found {
		return p, fmt.Errorf("%w: policy %d is missing", ErrCorrupt, number)
	}
	return p, nil
}

func (s *state) object(name string) (object, bool, error) {
	return lookup(s, bucketObjects, objectKey(name), decodeObject)
}

func (s *state) chain(question uint32, name string) (chain, bool, error) {
	return lookup(s, bucketChains, chainKey(question, name), decodeChain)
}

func (s *state) answers(key []byte) (answers, bool, error) {
	return lookup(s, bucketAnswers, key, decodeAnswers)
}

func (s *state) request(key string) (request, bool, error) {
	return lookup(s, bucketRequests, []byte(key), decodeRequest)
}

func (s *state) event(number uint64) (event, error) {
	payload, err := s.get(bucketEvents, eventKey(number))
	if err != nil {
		return event{}, err
	}
	if payload == nil {
		return event{}, fmt.Errorf("%w: event %d is missing", ErrCorrupt, number)
	}
	return decodeEvent(number, payload)
}

// settlement returns the event that settled (a part of) a request.
func (s *state) settlement(number uint64) (*settled, error) {
	ev, err := s.event(number)
	if err != nil {
		return nil, err
	}
	part, ok := ev.change.(*settled)
	if !ok {
		return nil, fmt.Errorf("%w: event %d does not settle a request", ErrCorrupt, number)
	}
	return part, nil
}

// scanChains visits the chains of a question from a name on.
func (s *state) scanChains(question uint32, from string, visit func(name string, c chain) bool) error {
	prefix := chainKey(question, "")
	var fault error
	err := s.Scan(bucketChains, chainKey(question, from), func(key, value []byte) bool {
		if len(key) < len(prefix) || string(key[:len(prefix)]) != string(prefix) {
			return false
		}
		name := string(key[len(prefix):])
		var c chain
		if c, fault = openChain(key, value); fault != nil {
			return false
		}
		return visit(name, c)
	})
	if err == nil {
		err = fault
	}
	return err
}

func openChain(key, value []byte) (chain, error) {
	payload, err := unseal(bucketChains, key, value)
	if err != nil {
		return chain{}, err
	}
	return decodeChain(payload)
}
