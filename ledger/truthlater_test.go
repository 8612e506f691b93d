package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
)

// deferredSource is a source of true values that returns none before it has got the objects of a
// request.
type deferredSource struct {
	known map[string]string // by question and object
	asked []string          // for the first time, in order
	calls int
}

func (s *deferredSource) ask(_ context.Context, question string, objects []string) (values []string, err error) {
	s.calls++
	for _, object := range objects {
		value, known := s.known[question+" "+object]
		if !known {
			s.asked = append(s.asked, question+" "+object)
			err = fmt.Errorf("asked for: %w", api.ErrTruthLater)
		}
		values = append(values, value)
	}
	if err != nil {
		return nil, err
	}
	return values, nil
}

// learn makes the source return what was requested, the next time.
func (s *deferredSource) learn() {
	for _, at := range s.asked {
		s.known[at] = "yes"
	}
	s.asked, s.calls = nil, 0
}

// A source that returns ErrTruthLater gets all objects of a request in one round, in several
// batches, and nothing is executed before. The same request with the same key is executed then.
func TestErrTruthLater_OneRound_RequestsAllObjects(t *testing.T) {
	people := crowd(4100) // more than a batch
	for _, call := range []string{"Raise", "Sell", "Answer"} {
		for _, partial := range []bool{false, true} {
			t.Run(fmt.Sprint(call, " partial ", partial), func(t *testing.T) {
				l := inMemory(t, Options{})
				define(t, l, vote())
				enrollUnder(t, l, "vote", market(t, "2"), "9", people...)
				before := stats(t, l)
				s := &deferredSource{known: map[string]string{}}
				d := drawing{key: "r", epsilon: "1", partial: partial, truth: s.ask}
				_, err := d.by(t, l, call)
				wantErr(t, err, api.ErrTruthLater)
				after := stats(t, l)
				check.That(t, after == before, "something was recorded: %+v, before it was %+v", after, before)
				slices.Sort(s.asked)
				check.Need(t, len(s.asked) == len(people) && s.asked[0] == "vote "+people[0] && s.calls >= 2,
					"asked about %d of %d people, in %d batches", len(s.asked), len(people), s.calls)
				s.learn()
				must(t, check.Err(d.by(t, l, call)))
				check.That(t, len(s.asked) <= 0, "asked about others the second time: %.3q", s.asked)
			})
		}
	}
}

// A sweep requests all questions of its part from a source that returns ErrTruthLater.
func TestAdvance_ErrTruthLater_RequestsAllQuestions(t *testing.T) {
	l := inMemory(t, Options{Now: func() time.Time { return epoch().Add(2 * time.Hour) }})
	under := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "2")}))(t)
	for _, name := range []string{"vote", "other"} {
		q := vote()
		q.Name = name
		define(t, l, q)
		enrollUnder(t, l, name, under, "9", "ann", "bob")
	}
	s := &deferredSource{known: map[string]string{}}
	r := api.AdvanceRequest{Key: "a", Truth: s.ask}
	wantErr(t, check.Err(l.Advance(t.Context(), r)), api.ErrTruthLater)
	slices.Sort(s.asked)
	got := strings.Join(s.asked, ", ")
	check.Need(t, got == "other ann, other bob, vote ann, vote bob", "asked about %s", got)
	s.learn()
	done := check.Value(l.Advance(t.Context(), r))(t)
	check.That(t, done.Questions[0].Raised == 2 && done.Questions[1].Raised == 2, "%+v", done)
}

// A request that must be whole is refused at once, before the source has its true values.
func TestRaise_ErrTruthLaterAndRefusal_IsRefused(t *testing.T) {
	l := inMemory(t, Options{})
	voters(t, l, "0.5", "ann")
	enroll(t, l, "vote", "9", "bob")
	s := &deferredSource{known: map[string]string{}}
	r := raiseOf(t, "r", "1")
	r.Truth = s.ask
	_, err := l.Raise(t.Context(), r)
	refused := refusals(t, err)
	check.That(t, len(refused) == 1 && refused[0].Object == "ann", "%v", err)
}
