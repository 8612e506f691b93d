package fold

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// applyCreated records the event that created the ledger, with its time.
func applyCreated(s *state.State, c *event.Created, ev event.Event) error {
	return s.Put(state.BucketMeta, []byte(state.KeyAbout), event.About{Created: *c, At: ev.Time}.Encode())
}

// applyTruthKey records that there is a truth key.
func applyTruthKey(s *state.State, c *event.TruthKeySet, _ event.Event) error {
	s.TruthKey = state.TruthKeyUnknown // read again, because a forged log may lack this event
	return s.Put(state.BucketMeta, []byte(state.KeyTruthKey), slices.Clone(c.Check[:]))
}

// applyNoiseKey records a noise key under the next number.
func applyNoiseKey(s *state.State, c *event.NoiseKeySet, _ event.Event) error {
	known, err := s.NoiseNames()
	if err != nil {
		return err
	}
	// The state keeps this map, so the new name is added to it.
	known[c.Name], s.Counters.Noises = true, c.Number
	return s.Put(state.BucketMeta, state.NoiseKey(c.Number), wire.Encode(c))
}

// applyQuestion records a question under the next number.
func applyQuestion(s *state.State, c *event.QuestionDefined, _ event.Event) error {
	s.Counters.Questions = c.Number
	return define(s, state.BucketQuestions, c.Number, state.NumberKey(c.Number), wire.Encode(c), state.NameKey(c.Name))
}

// applyPolicy records a policy under the next number.
func applyPolicy(s *state.State, c *event.PolicyDefined, _ event.Event) error {
	s.Counters.Policies = c.Number
	byText := state.PolicyJSONKey(wire.HashText(c.JSON))
	return define(s, state.BucketPolicies, c.Number, state.PolicyNumberKey(c.Number), []byte(c.JSON), byText)
}

// applyBuyer records a buyer under the next number.
func applyBuyer(s *state.State, c *event.BuyerNamed, _ event.Event) error {
	s.Counters.Buyers = c.Number
	record := wire.Encode(&state.Buyer{Name: c.Name})
	return define(s, state.BucketBuyers, c.Number, state.NumberKey(c.Number), record, state.NameKey(c.Name))
}

// define writes three records of a new question, policy or buyer: the record itself under key, the
// event that defined it, and its number under name. For a policy, name is made from the hash of its
// text.
func define(s *state.State, bucket string, number uint32, key, record, name []byte) error {
	if err := s.Put(bucket, key, record); err != nil {
		return err
	}
	if err := s.PutDefinition(bucket, number); err != nil {
		return err
	}
	return s.PutNumber(bucket, name, number)
}
