package telling

import (
	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/history"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Event puts an event in words. What it refers to is in the state, or it is [errs.ErrCorrupt].
func Event(s *state.State, ev event.Event) (history.Event, error) {
	tell, isErased := whole, ev.Erased != nil && !isAboutSeveral(ev.Change)
	if isErased {
		tell = remains
	}
	d, err := tell(s, ev.Change)
	if err != nil {
		return history.Event{}, err
	}
	if d == nil {
		return history.Event{}, errs.Corrupt(nil, "event %d of the kind %s cannot be told", ev.Number, ev.Change.Kind())
	}
	return history.Event{Number: ev.Number, Time: ev.Time, Erased: isErased, Says: d}, nil
}

// isAboutSeveral reports whether a change is about several objects: what is erased of it with one of them is
// only a digest of their names, and is not described.
func isAboutSeveral(c event.Change) bool {
	switch c := c.(type) {
	case *event.Answered:
		return true
	case *event.Settled:
		return c.Named
	}
	return false
}

// whole tells a change that is all there. It returns nil for one of an unknown kind.
func whole(s *state.State, c event.Change) (history.Detail, error) {
	if d := plain(c); d != nil {
		return d, nil
	}
	switch c := c.(type) {
	case *event.PolicyDefined:
		p, err := s.Policy(c.Number)
		return history.PolicyDefined{Policy: p}, err
	case *event.Enrolled:
		return enrolled(s, c)
	case *event.Released:
		return released(s, c)
	case *event.Charged:
		q, err := nameOf(s, c.Question)
		return history.Charged{Object: c.Object, Question: q, Epsilon: c.Epsilon}, err
	case *event.Answered:
		return answered(s, c)
	case *event.TruthBound:
		q, err := nameOf(s, c.Question)
		return history.TruthBound{Object: c.Object, Question: q}, err
	case *event.EpochBegun:
		q, err := nameOf(s, c.Question)
		return history.EpochBegun{Object: c.Object, Question: q}, err
	case *event.TermsChanged:
		return termsChanged(s, c)
	case *event.ObjectRefused:
		q, err := nameOf(s, c.Question)
		return history.ObjectRefused{Question: q, Refusal: c.Refusal}, err
	}
	return ofMarket(s, c)
}

// plain tells a change that refers to nothing; nil for all others.
func plain(c event.Change) history.Detail {
	switch c := c.(type) {
	case *event.Created:
		return history.Created{ID: uuid.UUID(c.ID).String(), Currency: c.Currency}
	case *event.TruthKeySet:
		return history.TruthKeySet{}
	case *event.NoiseKeySet:
		return history.NoiseKeySet{Name: c.Name}
	case *event.QuestionDefined:
		return history.QuestionDefined{Question: c.Question}
	case *event.BuyerNamed:
		return history.BuyerNamed{Name: c.Name}
	case *event.Settled:
		return settled(c)
	case *event.Stated:
		return history.Stated{Object: c.Object}
	case *event.Withdrawn:
		return history.Withdrawn{Object: c.Object}
	case *event.Forgotten:
		return history.Forgotten{Object: c.Object, Cap: c.Cap, Spent: c.Spent}
	}
	return nil
}

// remains tells what is left of a change about an object that was forgotten. It returns nil for one that is never erased.
func remains(s *state.State, c event.Change) (history.Detail, error) {
	switch c := c.(type) {
	case *event.Settled:
		return settled(c), nil
	case *event.Held:
		return held(s, c)
	case *event.Sold:
		sale, err := saleOf(s, c.Sale)
		return sale.sold("", "", "", c.Price), err
	case *event.Enrolled:
		return history.Enrolled{}, nil
	case *event.Released:
		return history.Released{}, nil
	case *event.Charged:
		return history.Charged{}, nil
	case *event.TruthBound:
		return history.TruthBound{}, nil
	case *event.EpochBegun:
		return history.EpochBegun{}, nil
	case *event.TermsChanged:
		return history.TermsChanged{}, nil
	case *event.ObjectRefused:
		return history.ObjectRefused{}, nil
	case *event.Stated:
		return history.Stated{}, nil
	case *event.Withdrawn:
		return history.Withdrawn{}, nil
	}
	return nil, nil
}

func settled(c *event.Settled) history.Settled {
	d := history.Settled{Sale: c.Sale, Key: c.Key, Counts: c.Counts, LeftOut: c.Refused}
	if c.Alone {
		d.Object = c.Object
	}
	return d
}

func enrolled(s *state.State, c *event.Enrolled) (d history.Enrolled, err error) {
	d = history.Enrolled{Object: c.Object, Cap: c.Cap}
	if d.NoiseKey, err = s.NoiseKeyName(c.Noise); err != nil {
		return d, err
	}
	if d.Policy, err = Policy(s, c.Policy); err != nil {
		return d, err
	}
	d.Question, err = nameOf(s, c.Question)
	return d, err
}

func termsChanged(s *state.State, c *event.TermsChanged) (d history.TermsChanged, err error) {
	d = history.TermsChanged{Object: c.Object, Cap: c.Cap, Consent: c.Consent}
	if d.Policy, err = Policy(s, c.Policy); err != nil {
		return d, err
	}
	d.Question, err = nameOf(s, c.Question)
	return d, err
}

func released(s *state.State, c *event.Released) (d history.Released, err error) {
	q, err := s.Question(c.Question)
	if err != nil {
		return d, err
	}
	d = history.Released{Object: c.Object, Question: q.Name, Epsilon: c.Epsilon, Method: c.Method.String()}
	d.Response, err = Response(q, c.Object, c.Epsilon, c.Value)
	return d, err
}

func answered(s *state.State, c *event.Answered) (d history.Answered, err error) {
	q, err := s.Question(c.Question)
	if err != nil {
		return d, err
	}
	d = history.Answered{Question: q.Name, Epsilon: c.Epsilon, Query: c.Query, Objects: c.Objects, Method: c.Method.String()}
	d.Response, err = q.AnswerText(c.Query, c.Result)
	return d, err
}

// Response puts what an object answers at an ε in words, or is [errs.ErrCorrupt] if the question has no such response.
func Response(q *event.Question, object string, epsilon privacy.Epsilon, v event.Value) (string, error) {
	if !q.Has(epsilon, v) {
		return "", errs.Corrupt(nil, "object %q answers with %v", object, v)
	}
	return q.Text(epsilon, v), nil
}

// Policy returns a policy by its number; nil for number 0, which is none.
func Policy(s *state.State, number uint32) (*policy.Policy, error) {
	if number == 0 {
		return nil, nil
	}
	p, err := s.Policy(number)
	return &p, err
}

func nameOf(s *state.State, question uint32) (string, error) {
	q, err := s.Question(question)
	if err != nil {
		return "", err
	}
	return q.Name, nil
}
