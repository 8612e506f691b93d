package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Displacement of levels is decided in the transaction that charges the panel, because another
// answer may use the headroom while true values are requested.
func (anyLedger) Answer_HeadroomUsedConcurrently_IsRefused(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	terms := Market(t, "2.1", func(m *policy.Market) { m.Levels = []privacy.Epsilon{Eps(t, "1"), Eps(t, "2")} })
	EnrollUnder(t, l, "vote", terms, "10", "ann", "bob")
	ballots := Ballots("ann")
	r := AnswerOf(t, "1", "majority:yes", "0.1", nil, "ann", "bob")
	quote := check.Value(l.QuoteAnswer(t.Context(), r))(t)
	check.That(t, len(quote.Displaced) == 0, "the quote displaces %+v", quote.Displaced)
	r.Truth = func(ctx context.Context, question string, objects []string) ([]string, error) {
		other := AnswerOf(t, "2", "majority:no", "0.05", ballots, "ann")
		if _, err := l.Answer(ctx, other); err != nil {
			return nil, err
		}
		return ballots(ctx, question, objects)
	}
	_, err := l.Answer(t.Context(), r)
	var displaced *api.DisplacedError
	want := api.Displaced{Question: "vote", Epsilon: Eps(t, "2"), Objects: 1, Revenue: 200}
	check.That(t, errors.As(err, &displaced) && slices.Equal(displaced.Displaced, []api.Displaced{want}), "the answer returns %v, want a DisplacedError for %+v", err, want)
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Spent == Eps(t, "0.05"), "ann has spent %s", o.Spent)
	WantClean(t, l, api.VerifyRequest{})
}

// If an object loses millions of levels, the work and the list are bounded.
func (anyLedger) Answer_FineStride_ListsTheHighestLevelsOnly(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "1000", func(m *policy.Market) { m.Stride = Nano(t, 1) }), "1000", "ann")
	quote := check.Value(l.QuoteAnswer(t.Context(), AnswerOf(t, "1", "winner", "999", nil, "ann")))(t)
	if n := len(quote.Displaced); n != 100 || quote.Displaced[0].Epsilon != Eps(t, "1000") || quote.Displaced[n-1].Epsilon != Eps(t, "999.999999901") {
		t.Errorf("%d levels are listed: %+v", n, quote.Displaced)
	}
}

func (anyLedger) Answer_Concurrent_ChargesOnce(t *T) {
	l := Voters(t, NewLedger(t), "1", "ann", "bob", "cy")
	var group sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for i := range 16 {
		group.Go(func() {
			got, err := l.Answer(t.Context(), AnswerOf(t, fmt.Sprint("key ", i%4), "majority:yes", "1", Ballots("ann"), "ann", "bob", "cy"))
			mu.Lock()
			defer mu.Unlock()
			check.That(t, err == nil, "%v", err)
			seen[got.Answer]++
		})
	}
	group.Wait()
	check.That(t, len(seen) == 1 && CountKind(Events(t, l), "answered") == 1,
		"concurrent requests returned the answers %v, and %d are recorded; want one", seen, CountKind(Events(t, l), "answered"))
	WantClean(t, l, api.VerifyRequest{})
}

func (anyLedger) Answer_InvalidRequest_IsRefused(t *T) {
	l := Voters(t, NewLedger(t), "2", "ann", "bob")
	valid := func() api.AnswerRequest {
		return AnswerOf(t, "1", "majority:yes", "1", Ballots(), "ann", "bob")
	}
	for name, spoil := range map[string]func(*api.AnswerRequest){
		"no key":        func(r *api.AnswerRequest) { r.Key = "" },
		"no ε":          func(r *api.AnswerRequest) { r.Epsilon = Eps(t, "0") },
		"no query":      func(r *api.AnswerRequest) { r.Query = "" },
		"unknown value": func(r *api.AnswerRequest) { r.Query = "majority:maybe" },
		"no object":     func(r *api.AnswerRequest) { r.Objects = []string{} },
		"neither":       func(r *api.AnswerRequest) { r.Objects = nil },
		"both":          func(r *api.AnswerRequest) { r.All = true },
		"twice":         func(r *api.AnswerRequest) { r.Objects = []string{"ann", "ann"} },
		"no source":     func(r *api.AnswerRequest) { r.Truth = nil },
		"too few truths": func(r *api.AnswerRequest) {
			r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, nil }
		},
	} {
		t.Run(name, func(t *T) {
			r := valid()
			spoil(&r)
			WantUnchanged(t, l, func() {
				_, err := l.Answer(t.Context(), r)
				check.Is(t, err, api.ErrInvalid)
				check.That(t, err == nil || !strings.Contains(err.Error(), "secret"),
					"the error contains a true value: %v", err)
			})
		})
	}
	r := valid()
	r.Question = "none"
	check.Is(t, check.Err(l.Answer(t.Context(), r)), api.ErrUnknown)
	failing := errors.New("offline")
	r = valid()
	r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, failing }
	check.Is(t, check.Err(l.Answer(t.Context(), r)), failing)
	AnswerTo(t, l, valid()) // the key is still free
}
