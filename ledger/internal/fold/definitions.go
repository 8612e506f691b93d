package fold

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
)

// applyCreated begins the ledger.
func applyCreated(s *state.State, c *event.Created, ev event.Event) error {
	if err := names.Check("currency", c.Currency); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	return s.Put(state.BucketMeta, []byte(state.KeyAbout), event.About{Created: *c, At: ev.Time}.Encode())
}

// applyTruthKey notes that there is a truth key. There is one at most.
func applyTruthKey(s *state.State, c *event.TruthKeySet) error {
	if former, err := s.Payload(state.BucketMeta, []byte(state.KeyTruthKey)); err != nil || former != nil {
		return errs.Corrupt(err, "a second truth key")
	}
	s.Keyed = state.TruthKeyUnknown // it is looked up again: of a forged log this event may be left out
	return s.Put(state.BucketMeta, []byte(state.KeyTruthKey), slices.Clone(c.Check[:]))
}

// applyNoiseKey gives a noise key the next number.
func applyNoiseKey(s *state.State, c *event.NoiseKeySet) error {
	if c.Number > event.MaxNoiseKeys {
		return errs.Corrupt(nil, "noise key %d; at most %d are possible", c.Number, event.MaxNoiseKeys)
	}
	known, err := s.NoiseNames()
	if err != nil {
		return err
	}
	if c.Number != s.Counters.Noises+1 || names.Check("noise key", c.Name) != nil {
		return errs.Corrupt(nil, "noise key %d, %q, follows on %d", c.Number, c.Name, s.Counters.Noises)
	}
	if known[c.Name] {
		return errs.Corrupt(nil, "noise key %q is set twice", c.Name)
	}
	known[c.Name], s.Counters.Noises = true, c.Number
	return s.Put(state.BucketMeta, state.NoiseKey(c.Number), wire.Encode(c))
}

// applyQuestion defines a question under the next number.
func applyQuestion(s *state.State, c *event.QuestionDefined) error {
	if c.Number != s.Counters.Questions+1 {
		return fmt.Errorf("%w: question %d follows on question %d", errs.ErrCorrupt, c.Number, s.Counters.Questions)
	}
	if err := event.CheckQuestion(c.Question); err != nil {
		return errs.Corrupt(nil, "question %d: %v", c.Number, err)
	}
	if _, twice, err := s.QuestionNumber(c.Name); err != nil || twice {
		return errs.Corrupt(err, "question %q is defined twice", c.Name)
	}
	s.Counters.Questions = c.Number
	return define(s, state.BucketQuestions, c.Number, state.NumberKey(c.Number), wire.Encode(c), state.NameKey(c.Name))
}

// define writes a definition under its number, by which event it was made, and what leads to the number.
func define(s *state.State, bucket string, number uint32, key, record, name []byte) error {
	if err := s.Put(bucket, key, record); err != nil {
		return err
	}
	if err := s.PutDefinition(bucket, number); err != nil {
		return err
	}
	return s.PutNumber(bucket, name, number)
}

// applyPolicy gives a policy the next number. Its text is canonical, so that none has two.
func applyPolicy(s *state.State, c *event.PolicyDefined) error {
	if c.Number != s.Counters.Policies+1 {
		return fmt.Errorf("%w: policy %d follows on policy %d", errs.ErrCorrupt, c.Number, s.Counters.Policies)
	}
	p, err := policy.Parse([]byte(c.JSON))
	if err != nil {
		return fmt.Errorf("%w: %w", errs.ErrCorrupt, err)
	}
	if err := names.CheckPolicy(p); err != nil {
		return errs.Corrupt(nil, "policy %d: %v", c.Number, err)
	}
	if _, twice, err := s.PolicyNumber(p); err != nil || twice || p.String() != c.JSON {
		return errs.Corrupt(err, "policy %d is there already, or is not canonical", c.Number)
	}
	s.Counters.Policies = c.Number
	return define(s, state.BucketPolicies, c.Number, state.PolicyNumberKey(c.Number), []byte(c.JSON), state.PolicyJSONKey(wire.HashText(c.JSON)))
}

// applyBuyer gives a buyer the next number.
func applyBuyer(s *state.State, c *event.BuyerNamed) error {
	if c.Number != s.Counters.Buyers+1 {
		return errs.Corrupt(nil, "buyer %d follows on buyer %d", c.Number, s.Counters.Buyers)
	}
	if _, twice, err := s.BuyerNumber(c.Name); err != nil || twice {
		return errs.Corrupt(err, "buyer %q is named twice", c.Name)
	}
	if err := names.Check("buyer", c.Name); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	s.Counters.Buyers = c.Number
	return define(s, state.BucketBuyers, c.Number, state.NumberKey(c.Number), state.Buyer{Name: c.Name}.Encode(), state.NameKey(c.Name))
}
