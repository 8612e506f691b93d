package check

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// Created checks the event that creates a ledger.
func Created(_ *state.State, c *event.Created, _ event.Event) error {
	return checkName("currency", c.Currency)
}

// checkName returns [errs.ErrCorrupt] if a name is not valid. what says in the error whose name it
// is.
func checkName(what, name string) error {
	if err := event.CheckName(what, name); err != nil {
		return fault("%v", err)
	}
	return nil
}

// checkNumber returns [errs.ErrCorrupt] if a definition does not have the next number. before is
// the number of the last definition of its type, and what the name of the type.
func checkNumber(what string, number, before uint32) error {
	if number != before+1 {
		return fault("%s %d follows %s %d: the numbers must be consecutive", what, number, what, before)
	}
	return nil
}

// TruthKey returns [errs.ErrCorrupt] if the ledger has a truth key already.
func TruthKey(s *state.State, _ *event.TruthKeySet, _ event.Event) error {
	if former, err := s.Payload(state.BucketMeta, []byte(state.KeyTruthKey)); err != nil || former != nil {
		return errs.Corrupt(err, "a truth key is set twice")
	}
	return nil
}

// NoiseKey checks that a noise key has the next number and a valid name that no other noise key
// has.
func NoiseKey(s *state.State, c *event.NoiseKeySet, _ event.Event) error {
	if c.Number > event.MaxNoiseKeys {
		return fault("noise key %d: at most %d noise keys are possible", c.Number, event.MaxNoiseKeys)
	}
	known, err := s.NoiseNames()
	if err != nil {
		return err
	}
	if c.Number != s.Counters.Noises+1 || event.CheckName("noise key", c.Name) != nil {
		return fault("noise key %d, %q, follows noise key %d: its number or its name is not possible",
			c.Number, c.Name, s.Counters.Noises)
	}
	if known[c.Name] {
		return fault("noise key %q is set twice", c.Name)
	}
	return nil
}

// Question checks the definition of a question: the next number, a valid definition, and a new
// name.
func Question(s *state.State, c *event.QuestionDefined, _ event.Event) error {
	if err := checkNumber("question", c.Number, s.Counters.Questions); err != nil {
		return err
	}
	if err := event.CheckQuestion(c.Question); err != nil {
		return fault("question %d: %v", c.Number, err)
	}
	if _, twice, err := s.QuestionNumber(c.Name); err != nil || twice {
		return errs.Corrupt(err, "question %q is defined twice", c.Name)
	}
	return nil
}

// Policy checks the definition of a policy. It must have the next number, be valid, and be new. The
// text must be canonical, so that no policy is defined twice with different texts.
func Policy(s *state.State, c *event.PolicyDefined, _ event.Event) error {
	if err := checkNumber("policy", c.Number, s.Counters.Policies); err != nil {
		return err
	}
	p, err := policy.Parse([]byte(c.JSON))
	if err == nil {
		err = event.CheckPolicy(p)
	}
	if err != nil {
		return fault("policy %d: %v", c.Number, err)
	}
	if _, twice, err := s.PolicyNumber(p); err != nil || twice || p.String() != c.JSON {
		return errs.Corrupt(err, "policy %d is defined twice, or its text is not canonical", c.Number)
	}
	return nil
}

// Buyer checks that a buyer has the next number and a valid name that no other buyer has.
func Buyer(s *state.State, c *event.BuyerNamed, _ event.Event) error {
	if err := checkNumber("buyer", c.Number, s.Counters.Buyers); err != nil {
		return err
	}
	if _, twice, err := s.BuyerNumber(c.Name); err != nil || twice {
		return errs.Corrupt(err, "buyer %q is named twice", c.Name)
	}
	return checkName("buyer", c.Name)
}
