package ledger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// These tests forge what a settled event says of its request, which is the recorded result for a
// repeated key. All other events of each forgery are sound.

// settledAs returns a settled event that ends a request.
func settledAs(s *state.State, id event.Identity, edit func(*event.Settled)) *event.Settled {
	end := &event.Settled{
		Key: "K", Final: true, First: s.Counters.Events + 1, Through: s.Counters.Events,
	}
	end.Of(&id)
	edit(end)
	return end
}

// wantUnwritable checks that events are refused as corrupt if they are forged, and written if they
// are sound.
func wantUnwritable(t *testing.T, l *Ledger, isForged bool, changes func(s *state.State) []event.Change) {
	t.Helper()
	_, _, err := l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) { return changes(s), nil })
	check.That(t, isForged == errors.Is(err, api.ErrCorrupt) && (isForged || err == nil),
		"forged: %v, error: %v", isForged, err)
}

func answeredEvent(t *testing.T, l *Ledger) (number uint64) {
	t.Helper()
	for _, ev := range events(t, l) {
		if ev.Kind() == "answered" {
			number = ev.Number
		}
	}
	return number
}

// A key is settled only with the answer to its own request.
func TestApply_AnswerOfAnotherRequest_IsRefused(t *testing.T) {
	asked := event.PanelRequest{Question: "vote", Query: "majority:yes", Epsilon: eps(t, "1"), Objects: 3, Panel: event.PanelOf([]string{"ann", "bob", "cid"})}
	for name, one := range map[string]struct {
		edit   func(*event.PanelRequest)
		forged bool
	}{
		"the same request":      {func(*event.PanelRequest) {}, false},
		"partial, none refused": {func(r *event.PanelRequest) { r.Partial = true }, false},
		"for all objects":       {func(r *event.PanelRequest) { r.All = true }, false},
		"fewer objects":         {func(r *event.PanelRequest) { r.Panel, r.Objects = event.PanelOf([]string{"dan", "eve"}), 2 }, true},
		"another question":      {func(r *event.PanelRequest) { r.Question = "smoker" }, true},
		"another query":         {func(r *event.PanelRequest) { r.Query = "majority:no" }, true},
		"another ε":             {func(r *event.PanelRequest) { r.Epsilon = eps(t, "2") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := voters(t, inMemory(t, Options{}), "5", "ann", "bob", "cid", "dan", "eve")
			l.requests.Sampler = medians()
			answerTo(t, l, answerRequest(t, "1", "majority:yes", "1", ballots("ann", "bob", "cid"), "ann", "bob", "cid"))
			r := asked
			one.edit(&r)
			wantUnwritable(t, l, one.forged, func(s *state.State) []event.Change {
				return []event.Change{settledAs(s, r.Identity(), func(c *event.Settled) {
					c.Counts[event.Reused], c.Answer = 1, answeredEvent(t, l)
				})}
			})
		})
	}
}

// A request counts a response as reused only if the response is recorded.
func TestApply_ReusedResponseNotRecorded_IsRefused(t *testing.T) {
	for name, one := range map[string]struct {
		object, epsilon string
		alone           bool
		reused          uint64
		edit            func(*event.Settled)
		forged          bool
	}{
		"recorded":                      {"ann", "1", true, 1, nil, false},
		"never drawn":                   {"bob", "1", true, 1, nil, true},
		"at another ε":                  {"ann", "2", true, 1, nil, true},
		"of an object that is unknown":  {"zoe", "1", true, 1, nil, true},
		"without the response":          {"ann", "1", true, 1, func(c *event.Settled) { c.Again = event.Wanted{} }, false}, // as for an enrollment
		"of a stranger, without one":    {"zoe", "1", true, 1, func(c *event.Settled) { c.Again = event.Wanted{} }, true},
		"under another digest":          {"ann", "1", true, 1, func(c *event.Settled) { c.Digest[0]++ }, true},
		"under other marks":             {"ann", "1", true, 1, func(c *event.Settled) { c.Marks = event.Marks{} }, true},
		"of a question that is unknown": {"ann", "1", true, 1, func(c *event.Settled) { c.Again.Question = 7 }, true},
		"none, but said to be":          {"ann", "1", false, 0, nil, true},
		"more than are recorded":        {"ann", "1", false, 2, nil, true},
		"as many as are recorded":       {"ann", "1", false, 1, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := voters(t, inMemory(t, Options{}), "5", "ann", "bob")
			release(t, l, releaseOf(t, "1", "ann", "1"))
			wantUnwritable(t, l, one.forged, func(s *state.State) []event.Change {
				id := event.RaiseRequest("vote", eps(t, one.epsilon), false, []string{one.object}, false)
				return []event.Change{settledAs(s, id, func(c *event.Settled) {
					c.Counts[event.Reused], c.Again = one.reused, event.Wanted{Question: 1, Epsilon: eps(t, one.epsilon)}
					if c.Alone = one.alone; c.Alone {
						c.Object = one.object
					}
					if one.edit != nil {
						one.edit(c)
					}
				})}
			})
		})
	}
}

// A query whose answer does not depend on true values has that answer, and no score. Other queries
// have the form of result that their mechanism gives.
func TestApply_AnswerWithProbabilityZero_IsRefused(t *testing.T) {
	yes, no := event.Result{Output: 1}, event.Result{Output: 0}
	for name, one := range map[string]struct {
		query  string
		result event.Result
		forged bool
	}{
		"more than there are: no":     {"threshold:yes:10", no, false},
		"more than there are: yes":    {"threshold:yes:10", yes, true},
		"more than there are: scored": {"threshold:yes:10", event.Result{Scored: true, Score: -3}, true},
		"none at least: yes":          {"threshold:yes:0", yes, false},
		"none at least: no":           {"threshold:yes:0", no, true},
		"a majority: scored":          {"majority:yes", event.Result{Scored: true, Score: 1 << 60}, false},
		"a majority: not scored":      {"majority:yes", yes, true},
		"a winner: not scored":        {"winner", event.Result{Output: 2}, false},
		"a winner: scored":            {"winner", event.Result{Scored: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := voters(t, inMemory(t, Options{}), "5", "ann", "bob")
			half, panel := eps(t, "0.5"), event.PanelOf([]string{"ann", "bob"})
			wantUnwritable(t, l, one.forged, func(s *state.State) []event.Change {
				id := event.PanelRequest{Question: "vote", Query: one.query, Epsilon: half, Panel: panel, Objects: 2}.Identity()
				return []event.Change{
					&event.Charged{Object: "ann", Question: 1, Epsilon: half}, &event.Charged{Object: "bob", Question: 1, Epsilon: half},
					&event.Answered{Question: 1, Query: one.query, Panel: panel, Objects: 2, Epsilon: half, Result: one.result, Method: event.MethodFresh},
					settledAs(s, id, func(c *event.Settled) { c.Counts[event.Drawn], c.Answer = 1, c.First+2 }),
				}
			})
		})
	}
}

// A sweep draws the levels of the calendar, and nothing that is for sale.
func TestApply_SweepBeyondCalendar_IsRefused(t *testing.T) {
	sweep := func(t *testing.T, l *Ledger, epsilon string, forged bool) {
		t.Helper()
		wantUnwritable(t, l, forged, func(s *state.State) []event.Change {
			return []event.Change{
				&event.Released{Object: "ann", Question: 1, Epsilon: eps(t, epsilon), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}},
				settledAs(s, event.SweepRequest(""), func(c *event.Settled) {
					c.Counts[event.SweepRaised], c.Swept = 1, []event.SweptCount{{Question: 1, Raised: 1}}
				}),
			}
		})
	}
	t.Run("for sale", func(t *testing.T) { sweep(t, sellers(t, inMemory(t, Options{}), "2", "5", "ann"), "0.5", true) })
	t.Run("without a calendar", func(t *testing.T) { sweep(t, voters(t, inMemory(t, Options{}), "5", "ann"), "0.5", true) })
	for epsilon, forged := range map[string]bool{"0.5": false, "0.25": true} {
		t.Run("at ε="+epsilon, func(t *testing.T) {
			l := inMemory(t, Options{Now: epoch})
			define(t, l, vote())
			calendar := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}))(t)
			enrollUnder(t, l, "vote", calendar, "5", "ann")
			sweep(t, l, epsilon, forged)
		})
	}
}

// A request is of one kind, and a sale is settled once, not in parts.
func TestApply_RequestOfSeveralKindsOrParts_IsRefused(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{}), "2", "5", "ann", "bob", "cid")
	sell(t, l, purchase(t, "1", "acme", "0.5", "ann"))
	sold := func(object string, forged bool, edit func(*event.Settled)) {
		t.Helper()
		wantUnwritable(t, l, forged, func(s *state.State) []event.Change {
			n := s.Counters.Sales + 1
			d := event.Deal{Sale: n, Buyer: 1, Question: 1, Epsilon: eps(t, "0.5"), Objects: 1, Price: 50}
			return []event.Change{
				&event.SaleMade{Deal: d, Tally: event.SaleTally{Draws: 1}},
				&event.Sold{Object: object, Sale: n, Price: 50, Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}},
				settledAs(s, event.Identity{Sum: event.Sum{Digest: [32]byte{1}}}, func(c *event.Settled) {
					c.Counts[event.Drawn], c.Sale = 1, n
					edit(c)
				}),
			}
		})
	}
	sold("bob", true, func(c *event.Settled) { c.Final, c.Done = false, 1 })
	sold("bob", true, func(c *event.Settled) { c.Swept = []event.SweptCount{{Question: 1, Raised: 1}} })
	sold("bob", true, func(c *event.Settled) { c.Again = event.Wanted{Question: 1, Epsilon: eps(t, "0.5")} })
	sold("bob", false, func(*event.Settled) {})
}

// A key in the log must be valid for a request.
func TestApply_InvalidRequestKey_IsRefused(t *testing.T) {
	for key, forged := range map[string]bool{"": true, "a\x00b": true, "x\ny": true, string(make([]byte, 300)): true, "\xff": true, "order 17": false} {
		l := voters(t, inMemory(t, Options{}), "5", "ann")
		_, _, err := l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
			return []event.Change{settledAs(s, event.Identity{Sum: event.Sum{Digest: [32]byte{1}}}, func(c *event.Settled) { c.Key = key })}, nil
		})
		check.That(t, (err != nil) == forged, "key %q: %v", key, err)
	}
}

// A part of a request for all objects must end with an object that is enrolled, where the next part
// continues.
func TestApply_InvalidEndOfPart_IsRefused(t *testing.T) {
	for cursor, forged := range map[string]bool{"": true, "zoe": true, "ann": false, "bob": false} {
		l := voters(t, inMemory(t, Options{}), "5", "ann", "bob")
		wantUnwritable(t, l, forged, func(s *state.State) []event.Change {
			return []event.Change{settledAs(s, event.Identity{Sum: event.Sum{Digest: [32]byte{1}}}, func(c *event.Settled) { c.Final, c.Object = false, cursor })}
		})
	}
}

// A change of one object or question is settled with the identity of the request that makes it.
func TestApply_ChangeUnderAnotherIdentity_IsRefused(t *testing.T) {
	asDefined := smoker()
	asDefined.Encoding = "direct"
	for name, one := range map[string]struct {
		change event.Change
		id     event.Identity
		alone  string
	}{
		"withdrawal": {&event.Withdrawn{Object: "ann"}, event.ObjectRequest(event.RequestWithdraw, "ann"), "ann"},
		"epoch":      {&event.EpochBegun{Object: "ann", Question: 1}, event.EpochRequest("vote", "ann"), "ann"},
		"question":   {&event.QuestionDefined{Number: 2, Question: asDefined}, event.DefineRequest(asDefined, ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := voters(t, inMemory(t, Options{}), "5", "ann", "bob")
			release(t, l, releaseOf(t, "1", "ann", "1"))
			settle := func(forged bool, edit func(*event.Settled)) {
				t.Helper()
				wantUnwritable(t, l, forged, func(s *state.State) []event.Change {
					return []event.Change{one.change, settledAs(s, one.id, func(c *event.Settled) {
						c.Alone, c.Object = one.alone != "", one.alone
						edit(c)
					})}
				})
			}
			settle(true, func(c *event.Settled) { c.Digest[31]++ })
			settle(true, func(c *event.Settled) {
				c.Alone = !c.Alone
				if c.Object = ""; c.Alone {
					c.Object = "bob"
				}
			})
			settle(true, func(c *event.Settled) { c.Final = false })
			settle(false, func(*event.Settled) {})
		})
	}
}

// Two responses of one chain must be possible together, for some true value, under the mechanism of
// the question.
func TestApply_MutuallyExclusiveResponses_AreRefused(t *testing.T) {
	var m api.Mechanism // b and c become y at the lower level, always
	must(t, m.UnmarshalJSON([]byte(`{"family":{
		"levels":[[["1/2","1/2"],["1/4","3/4"]],[["1/2","1/4","1/4"],["1/4","5/8","1/8"]]],
		"channels":[[["1","0"],["0","1"],["0","1"]]]},"outputs":[["x","y"],["a","b","c"]]}`)))
	at := m.Family.Epsilons()
	for name, one := range map[string]struct {
		higher, lower int
		forged        bool
	}{
		"a and x": {0, 0, false}, "a and y": {0, 1, true}, "b and x": {1, 0, true}, "c and x": {2, 0, true}, "c and y": {2, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := inMemory(t, Options{})
			define(t, l, api.Question{Name: "f", Values: []string{"u", "v"}, Encoding: "finite", Mechanism: &m})
			enroll(t, l, "f", "30", "ann")
			respond := func(level, output int, how event.Method, forged bool) {
				t.Helper()
				wantUnwritable(t, l, forged, func(s *state.State) []event.Change {
					end := settledAs(s, event.RaiseRequest("f", at[level], false, []string{"ann"}, false), func(c *event.Settled) {
						c.Key, c.Alone, c.Object = fmt.Sprint("level ", level), true, "ann"
						c.Counts[verdictOf(how)] = 1
					})
					return []event.Change{
						&event.Released{Object: "ann", Question: 1, Epsilon: at[level], Response: event.Response{Value: event.Value{Index: output}, Method: how}}, end,
					}
				})
			}
			respond(1, one.higher, event.MethodRaise, false)
			respond(0, one.lower, event.MethodDegrade, one.forged)
		})
	}
}
