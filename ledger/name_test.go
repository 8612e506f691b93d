package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// lookalikes are names that look like 17. Package names tests all kinds of faults.
func lookalikes() []string {
	return []string{" 17", "17 ", "17\u00a0", "17\u3000", "17\u2800", "17\u3164", "1\u200b7", "17\ufe0f", "17\u0378"}
}

// entryPoints returns all calls that take a name, by the call and by what is named.
func entryPoints(t *testing.T, l *Ledger) map[string]func(name string) error {
	ctx := t.Context()
	all := map[string]func(name string) error{
		"DefineQuestion: question": func(n string) error {
			return l.DefineQuestion(ctx, "k", api.Question{Name: n, Values: []string{"a", "b"}})
		},
		"DefineQuestion: value": func(n string) error {
			return l.DefineQuestion(ctx, "k", api.Question{Name: "q", Values: []string{"a", n}})
		},
		"Enroll: object": func(n string) error {
			return check.Err(l.Enroll(ctx, api.EnrollRequest{Key: "k", Question: "vote", Objects: []string{n}, Cap: eps(t, "1")}))
		},
		"Enroll: question": func(n string) error {
			return check.Err(l.Enroll(ctx, api.EnrollRequest{Key: "k", Question: n, Objects: []string{"zoe"}, Cap: eps(t, "1")}))
		},
		"Enroll: buyer": func(n string) error {
			p := market(t, "1", func(m *policy.Market) { m.Barred = []string{n} })
			return check.Err(l.Enroll(ctx, api.EnrollRequest{Key: "k", Question: "vote", Objects: []string{"zoe"}, Policy: p, Cap: eps(t, "1")}))
		},
		"ChangeTerms: object": func(n string) error {
			return check.Err(l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: "k", Question: "vote", Objects: []string{n}, Cap: eps(t, "1")}))
		},
		"ChangeTerms: question": func(n string) error {
			return check.Err(l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: "k", Question: n, Objects: []string{"ann"}, Cap: eps(t, "1")}))
		},
		"ChangeTerms: buyer": func(n string) error {
			p := market(t, "1", func(m *policy.Market) { m.Buyers = []string{n} })
			return check.Err(l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: "k", Question: "vote", Objects: []string{"ann"}, Policy: &p}))
		},
		"Reconcile: object": func(n string) error {
			return reconcileRow(ctx, l, api.Member{Object: n, Question: "vote", Cap: eps(t, "1")})
		},
		"Reconcile: question": func(n string) error {
			return reconcileRow(ctx, l, api.Member{Object: "ann", Question: n, Cap: eps(t, "1")})
		},
		"Reconcile: buyer": func(n string) error {
			p := market(t, "1", func(m *policy.Market) { m.Buyers = []string{n} })
			return reconcileRow(ctx, l, api.Member{Object: "ann", Question: "vote", Policy: p, Cap: eps(t, "1")})
		},
		"Release: object": func(n string) error { return check.Err(l.Release(ctx, releaseOf(t, "k", n, "0.5"))) },
		"Release: question": func(n string) error {
			return check.Err(l.Release(ctx, api.ReleaseRequest{Key: "k", Question: n, Object: "ann", Epsilon: eps(t, "0.5"), TrueValue: "yes"}))
		},
		"Raise: object": func(n string) error { return check.Err(l.Raise(ctx, raiseOf(t, "k", "0.5", n))) },
		"Raise: question": func(n string) error {
			return check.Err(l.Raise(ctx, api.RaiseRequest{Key: "k", Question: n, All: true, Epsilon: eps(t, "0.5")}))
		},
		"Advance: question": func(n string) error { return check.Err(l.Advance(ctx, api.AdvanceRequest{Key: "k", Question: n})) },
		"Answer: object": func(n string) error {
			return check.Err(l.Answer(ctx, answerRequest(t, "k", "winner", "0.5", ballots("ann"), n)))
		},
		"Answer: question": func(n string) error {
			return check.Err(l.Answer(ctx, api.AnswerRequest{Key: "k", Question: n, Query: "winner", Epsilon: eps(t, "0.5"), All: true}))
		},
		"QuoteAnswer: object": func(n string) error {
			return check.Err(l.QuoteAnswer(ctx, answerRequest(t, "k", "winner", "0.5", ballots("ann"), n)))
		},
		"Budget: object": func(n string) error {
			return check.Err(l.Budget(ctx, api.BudgetRequest{Question: "vote", Objects: []string{n}}))
		},
		"Budget: question": func(n string) error { return check.Err(l.Budget(ctx, api.BudgetRequest{Question: n, All: true})) },
		"Budget: buyer": func(n string) error {
			return check.Err(l.Budget(ctx, api.BudgetRequest{Question: "vote", All: true, Buyer: n}))
		},
		"BeginEpoch: object": func(n string) error {
			return l.BeginEpoch(ctx, api.EpochRequest{Key: "k", Question: "vote", Object: n})
		},
		"BeginEpoch: question":   func(n string) error { return l.BeginEpoch(ctx, api.EpochRequest{Key: "k", Question: n, Object: "ann"}) },
		"Withdraw: object":       func(n string) error { return l.Withdraw(ctx, api.ObjectRequest{Key: "k", Object: n}) },
		"Forget: object":         func(n string) error { return l.Forget(ctx, api.ObjectRequest{Key: "k", Object: n}) },
		"Object: object":         func(n string) error { return check.Err(l.Object(ctx, n)) },
		"Estimate: question":     func(n string) error { return check.Err(l.Estimate(ctx, api.EstimateRequest{Question: n})) },
		"Levels: question":       func(n string) error { return check.Err(api.Collect(l.Levels(ctx, n))) },
		"Responses: question":    func(n string) error { return firstError(l.Responses(ctx, n, eps(t, "0.5"))) },
		"Sales: buyer":           func(n string) error { return firstError(l.Sales(ctx, n)) },
		"Reservations: buyer":    func(n string) error { return firstError(l.Reservations(ctx, n)) },
		"CheckName: such a name": func(n string) error { return CheckName("such a name", n) },
	}
	for call, order := range map[string]func(api.Order) error{
		"Quote": func(o api.Order) error { return check.Err(l.Quote(ctx, o)) },
		"Sell": func(o api.Order) error {
			return check.Err(l.Sell(ctx, api.SellRequest{Key: "k", Order: o, Truth: mustNotAsk(t)}))
		},
		"Reserve": func(o api.Order) error {
			return check.Err(l.Reserve(ctx, api.ReserveRequest{Key: "k", Order: o, For: 1}))
		},
	} {
		all[call+": object"] = func(n string) error { return order(purchase(t, "", "acme", "0.5", n).Order) }
		all[call+": buyer"] = func(n string) error { return order(purchase(t, "", n, "0.5", "ann").Order) }
		all[call+": question"] = func(n string) error {
			o := purchase(t, "", "acme", "0.5", "ann").Order
			o.Question = n
			return order(o)
		}
	}
	for call, keyed := range map[string]func(key string) error{
		"DefineQuestion": func(k string) error { return l.DefineQuestion(ctx, k, vote()) },
		"Enroll": func(k string) error {
			return check.Err(l.Enroll(ctx, api.EnrollRequest{Key: k, Question: "vote", Objects: []string{"ann"}}))
		},
		"ChangeTerms": func(k string) error {
			return check.Err(l.ChangeTerms(ctx, api.ChangeTermsRequest{Key: k, Question: "vote", Objects: []string{"ann"}, Cap: eps(t, "1")}))
		},
		"Release": func(k string) error { return check.Err(l.Release(ctx, releaseOf(t, k, "ann", "0.5"))) },
		"Raise":   func(k string) error { return check.Err(l.Raise(ctx, raiseOf(t, k, "0.5", "ann"))) },
		"Advance": func(k string) error { return check.Err(l.Advance(ctx, api.AdvanceRequest{Key: k})) },
		"Sell":    func(k string) error { return check.Err(l.Sell(ctx, purchase(t, k, "acme", "0.5", "ann"))) },
		"Reserve": func(k string) error {
			return check.Err(l.Reserve(ctx, api.ReserveRequest{Key: k, Order: purchase(t, "", "acme", "0.5", "ann").Order, For: 1}))
		},
		"Capture": func(k string) error { return check.Err(l.Capture(ctx, api.CaptureRequest{Key: k, Reservation: 1})) },
		"Cancel":  func(k string) error { return l.Cancel(ctx, k, 1) },
		"Answer": func(k string) error {
			return check.Err(l.Answer(ctx, answerRequest(t, k, "winner", "0.5", ballots("ann"), "ann")))
		},
		"Epoch": func(k string) error {
			return l.BeginEpoch(ctx, api.EpochRequest{Key: k, Question: "vote", Object: "ann"})
		},
		"Withdraw": func(k string) error { return l.Withdraw(ctx, api.ObjectRequest{Key: k, Object: "ann"}) },
		"Forget":   func(k string) error { return l.Forget(ctx, api.ObjectRequest{Key: k, Object: "ann"}) },
		"Refusals": func(k string) error { return firstError(l.Refusals(ctx, k, 0)) },
	} {
		all[call+": idempotency key"] = keyed
	}
	return all
}

func reconcileRow(ctx context.Context, l *Ledger, row api.Member) error {
	_, err := l.Reconcile(ctx, api.ReconcileRequest{Members: func(yield func(api.Member, error) bool) { yield(row, nil) }})
	return err
}

func TestEveryCall_NameThatLooksLikeAnother_IsRefused(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "17")
	unchanged(t, l.engine.Store, func() {
		for call, use := range entryPoints(t, l) {
			for _, name := range lookalikes() {
				var fault *api.NameError
				if err := use(name); !errors.As(err, &fault) || !errors.Is(err, api.ErrInvalid) || fault.Name != name || call[len(call)-len(fault.What):] != fault.What {
					t.Errorf("%s %+q: %v", call, name, err)
				}
			}
		}
	})
	must(t, CheckName("object", "17"))
}

// No ledger has written a log with such a name.
func TestAudit_NameThatLooksLikeAnother_IsCorrupt(t *testing.T) {
	for what, made := range map[string]func(name string) event.Change{
		"object": func(n string) event.Change { return &event.Enrolled{Object: n, Question: 1, Cap: eps(t, "9")} },
		"buyer":  func(n string) event.Change { return &event.BuyerNamed{Number: 1, Name: n} },
		"question": func(n string) event.Change {
			return &event.QuestionDefined{Number: 2, Question: api.Question{Name: n, Values: []string{"a", "b"}, Encoding: "direct"}}
		},
		"value": func(n string) event.Change {
			return &event.QuestionDefined{Number: 2, Question: api.Question{Name: "q", Values: []string{"a", n}, Encoding: "direct"}}
		},
		"terms": func(n string) event.Change {
			return &event.PolicyDefined{Number: 1, JSON: market(t, "1", func(m *policy.Market) { m.Buyers = []string{n} }).String()}
		},
		"key": nil,
	} {
		for _, name := range append(lookalikes(), "17") {
			s := &kv.Memory{}
			begin(t, s)
			l := openMemory(t, s, Options{Now: epoch})
			define(t, l, vote())
			_, _, err := l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
				end := &event.Settled{Key: "k", Digest: [32]byte{1}, First: s.Counters.Events + 1, Through: s.Counters.Events, Final: true}
				if made == nil {
					end.Key = name
					return []event.Change{end}, nil
				}
				if what == "object" {
					end.Counts[enrollment.Done] = 1
				}
				change := made(name)
				identifyChange(end, change, nil)
				return []event.Change{change, end}, nil
			})
			if possible := name == "17"; possible != (err == nil) || !possible && !errors.Is(err, api.ErrCorrupt) {
				t.Errorf("%s %+q: %v", what, name, fmt.Sprint(err))
			}
		}
	}
}
