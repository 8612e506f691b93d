package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// game plays moves on the ledger and on the model, and compares the results.
type game struct {
	testing.TB
	runner  *runner
	model   *model
	storage storage
	ledger  LedgerAPI      // the ledger as the host calls it: directly, or over HTTP
	opened  *ledger.Ledger // the open ledger
	served  bool           // the ledger is called over HTTP
	moves   int
	host    host                  // as it is during a move
	asked   []string              // the objects whose true values were requested
	atHand  bool                  // the move passes the true value
	offers  map[string]modelQuote // the meaning of a quote, by its ID
	ids     map[modelQuote]string // the inverse of offers
	latest  string                // the ID of the latest quote
	closed  error                 // why nothing can be written during a move, or nil
	far     bool                  // the clock is far ahead; this error may come before another one
	past    []*past
	begun   int // the number of events before the move

	keyedAtFirst bool // the game begins with a truth key
	signer       note.Signer
	verifiers    note.Verifiers    // of checkpoints, receipts and statements
	mail         *mailbox          // receives what the ledger publishes; nil if it does not
	trusted      *modelCheckpoint  // the newest that the host has
	copies       []savedCopy       // of the ledger
	files        int               // the number of file names used so far
	keyedDraws   map[string]string // responses drawn from noise keys, by all that decides about them
}

func (g *game) now() time.Time { return g.model.clock }

// past is a request that was executed.
type past struct {
	again   func() (result string, err error)
	result  string
	alone   string       // the only object that it names
	refused error        // the error that replaces the result since that object was forgotten
	closed  func() error // for a reservation, the error that replaces the result while it is not open
	left    any          // the result without forgotten objects
	without func(left any, name string) any
	changed []otherRequest // other requests with its key
	about   []string       // the objects for which the request recorded something
	open    bool           // it names other objects, which needed nothing
	erased  bool           // what it recorded about several objects was erased, because one of them was forgotten
}

// otherRequest is a request with the key of an earlier request.
type otherRequest struct {
	call func() (result string, err error)
	// isAlike: it differs only in what is erased if one of several objects is forgotten. Then both
	// are one request.
	isAlike bool
}

// forget removes an object from the result.
func (p *past) forget(name string) {
	if p.alone == name {
		p.refused = api.ErrForgotten
	}
	p.erased = p.erased || p.open || slices.Contains(p.about, name)
	p.left = p.without(p.left, name)
	p.result = asJSON(p.left)
}

func (g *game) key() string { return fmt.Sprintf("key %d", g.moves) }

func (g *game) ask(_ context.Context, question string, objects []string) (values []string, err error) {
	g.asked = append(g.asked, objects...)
	if g.host.IsBroken {
		return nil, errHost
	}
	q, err := g.model.question(question)
	for _, name := range objects {
		values = append(values, g.host.truth(q, name))
	}
	return values, err
}

// play makes one move. The log must grow as in the model, and exactly the needed true values must
// be requested.
func (g *game) play(one move) {
	g.moves++
	g.host, g.asked, g.atHand, g.model.asked, g.model.turned, g.begun = host{}, nil, false, nil, nil, len(g.model.log)
	g.far = g.model.far()
	if g.closed = g.model.closed(); g.closed != nil && !ofTheHost(one) {
		g.playClosed(one)
	} else {
		one.play(g)
	}
	if !g.atHand && !slices.Equal(g.asked, g.model.asked) {
		g.Fatalf("true values of %q were requested, want %q", g.asked, g.model.asked)
	}
	if g.runner.flaw != nil {
		g.runner.flaw(g, one)
	}
	g.compareStats()
	if g.moves%10 == 0 {
		g.compareState()
	}
}

// playClosed makes a move on a ledger in which nothing can be written. Its result in the model is
// discarded.
func (g *game) playClosed(one move) {
	kept := g.model
	g.model = kept.clone()
	one.play(g)
	g.model = kept
}

// asJSON returns the form in which results are compared and shown.
func asJSON(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(out), "null", "[]")
}

func (g *game) same(what string, got, want any) {
	g.Helper()
	if got, want := asJSON(got), asJSON(want); got != want {
		g.Fatalf("%s is\n\t\t%s\n\twant\n\t\t%s", what, got, want)
	}
}

// wantError compares errors; refusals field by field.
func (g *game) wantError(got, want error) {
	g.Helper()
	var refused, refusedByModel *api.RefusedError
	var quote, quoteByModel *api.QuoteError
	var displaced, displacedByModel *api.DisplacedError
	var closed, closedByModel *api.ReservationError
	switch {
	case errors.As(want, &refusedByModel) && errors.As(got, &refused):
		g.same("the refusal", withoutInstead(refused), refusedByModel)
	case errors.As(want, &quoteByModel) && errors.As(got, &quote):
		current := *quote
		current.Quote.ID, current.Quote.Instead = "", nil
		g.same("the refusal", current, quoteByModel)
		check.Need(g, strings.Contains(got.Error(), "other terms") == quote.TermsChanged, "the refusal has the text %v", got)
	case errors.As(want, &displacedByModel) && errors.As(got, &displaced):
		g.same("the displaced levels", displaced, displacedByModel)
	case errors.As(want, &closedByModel) && errors.As(got, &closed):
		g.same("the reservation that is not open", closed, closedByModel)
	case !errors.Is(got, want):
		g.Fatalf("the error is %v\n\twant %v", got, want)
	}
}

// failed returns whether a request that would change the ledger was refused, as it must be: by the
// model, or because nothing can be written. Which of two reasons comes first is not specified.
func (g *game) failed(got, want error) bool {
	g.Helper()
	switch {
	case got == nil && want == nil && g.closed == nil:
		return false
	case g.closed != nil && errors.Is(got, g.closed), g.far && errors.Is(got, api.ErrClock):
	case g.closed != nil && want == nil:
		g.wantError(got, g.closed)
	default:
		g.wantError(got, want)
		g.wantTruthChanged(got)
	}
	return true
}

// wantTruthChanged checks that the host gets the objects whose true value changed, with the result
// of its request, and once.
func (g *game) wantTruthChanged(came any) {
	g.Helper()
	var told []string
	var refused []api.Refusal
	switch came := came.(type) {
	case api.RaiseResult:
		told, refused = came.TruthChanged, came.Refused
	case api.AdvanceResult:
		for _, one := range came.Questions {
			told, refused = append(told, one.TruthChanged...), append(refused, one.Refused...)
		}
	case api.AnswerResult:
		told, refused = came.TruthChanged, came.Refused
	case api.Sale:
		told, refused = came.TruthChanged, came.Refused
	case error:
		var failed *api.RefusedError
		if !errors.As(came, &failed) {
			return
		}
		told, refused = failed.TruthChanged, failed.Refused
	}
	another := func(name string) bool { // it may have been refused for another reason
		return !slices.ContainsFunc(refused, func(r api.Refusal) bool { return r.Object == name && r.Reason == api.NoTruth })
	}
	g.model.turned = slices.DeleteFunc(g.model.turned, another)
	inOrder := func(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }
	g.same("the list of changed truths", inOrder(told), inOrder(g.model.turned))
	if g.runner.turned += len(told); len(told) > 0 {
		g.model.turned = nil
	}
}

// checkRequest makes a request to the ledger, and compares its result with the model's. The request
// is repeated later, and changed under the same key.
func checkRequest[R, T any](g *game, r R, call func(LedgerAPI, context.Context, R) (T, error), want T, refused error, changes ...func(*R)) (got T, done bool) {
	g.Helper()
	named := slices.Clone(objectsIn(r))
	got, err := call(g.ledger, g.Context(), r)
	g.same("the list that the caller passed", objectsIn(r), named)
	if g.failed(err, refused) {
		return got, false
	}
	g.same(fmt.Sprintf("the result of %T", r), got, want)
	g.wantTruthChanged(got)
	made := &past{result: asJSON(got), alone: aloneIn(r), again: func() (string, error) {
		if list := listIn(&r); list != nil {
			*list = slices.Clone(*list)
			slices.Reverse(*list) // their order is not part of the request
		}
		again, err := call(g.ledger, g.Context(), r)
		g.wantTruthChanged(again)
		return asJSON(again), err
	}}
	made.left, made.without = got, func(left any, name string) any { return withoutObject(left.(T), name) }
	for _, ev := range g.model.log[g.begun:] {
		made.about = append(made.about, ev.object)
	}
	if _, is := any(r).(api.AnswerRequest); is {
		made.about = named // an answer is about all objects of its panel, even if it was recorded before
	}
	made.open = slices.ContainsFunc(named, func(name string) bool { return !slices.Contains(made.about, name) })
	if alone(named) == "" && len(named) > 0 {
		changes = append(changes, anotherObject[R])
	}
	for _, change := range changes {
		other := r
		change(&other)
		again := func() (string, error) {
			again, err := call(g.ledger, g.Context(), other)
			return asJSON(again), err
		}
		made.changed = append(made.changed, otherRequest{again, areAlike(r, other)})
	}
	g.past = append(g.past, made)
	return got, true
}

// aloneIn returns the only object that a request names, or "".
func aloneIn[R any](request R) string {
	switch r := any(request).(type) {
	case api.ObjectRequest:
		return r.Object
	case api.EpochRequest:
		return r.Object
	case api.ReleaseRequest:
		return r.Object
	}
	return alone(objectsIn(request))
}

// objectsIn returns the names that a request lists.
func objectsIn[R any](request R) []string {
	if list := listIn(&request); list != nil {
		return *list
	}
	return nil
}

// listIn returns the list of names in a request, or nil if it has none.
func listIn[R any](request *R) *[]string {
	switch r := any(request).(type) {
	case *api.EnrollRequest:
		return &r.Objects
	case *api.ChangeTermsRequest:
		return &r.Objects
	case *api.RaiseRequest:
		return &r.Objects
	case *api.SellRequest:
		return &r.Objects
	case *api.ReserveRequest:
		return &r.Objects
	case *api.AnswerRequest:
		return &r.Objects
	}
	return nil
}

// anotherObject replaces the first object of a request.
func anotherObject[R any](request *R) {
	list := listIn(request)
	first := (*list)[0]
	*list = slices.Clone(*list)
	for i, name := range *list {
		if name == first {
			(*list)[i] = "unknown"
		}
	}
}

// areAlike returns whether two requests differ only in what is erased if one of their objects is
// forgotten: in names, of the same number; in terms given for each object; or in the IDs of quotes.
// They differ in one thing.
func areAlike[R any](one, other R) bool {
	names, others := distinct(objectsIn(one)), distinct(objectsIn(other))
	if !slices.Equal(names, others) {
		return len(names) > 1 && len(names) == len(others)
	}
	switch a := any(one).(type) {
	case api.EnrollRequest:
		b := any(other).(api.EnrollRequest)
		return a.Terms != nil && b.Terms != nil && a.Partial == b.Partial
	case api.SellRequest:
		b := any(other).(api.SellRequest)
		return a.QuoteID != "" && a.QuoteID != b.QuoteID
	}
	return false
}

func distinct(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// withoutObject returns what is left of a result when an object is forgotten.
func withoutObject[T any](result T, name string) T {
	switch r := any(&result).(type) {
	case *api.RaiseResult:
		all := len(r.Refused)
		r.Refused = withoutRefusals(r.Refused, name)
		r.Unlisted += all - len(r.Refused)
	case *api.EnrollResult:
		all := len(r.Refused)
		r.Refused = withoutRefusals(r.Refused, name)
		r.Unlisted += all - len(r.Refused)
	case *api.ChangeTermsResult:
		all := len(r.Refused)
		r.Refused = withoutRefusals(r.Refused, name)
		r.Unlisted += all - len(r.Refused)
	case *api.AnswerResult:
		r.Refused = withoutRefusals(r.Refused, name)
	case *api.Sale:
		r.Refused = withoutRefusals(r.Refused, name)
	case *api.Reservation:
		r.Refused = withoutRefusals(r.Refused, name)
	case *api.AdvanceResult:
		r.Questions = slices.Clone(r.Questions)
		for i := range r.Questions {
			one := &r.Questions[i]
			all := len(one.Refused)
			one.Refused = withoutRefusals(one.Refused, name)
			one.Unlisted += all - len(one.Refused)
		}
	}
	return result
}

// noResult adapts a call without a result to [checkRequest].
func noResult[R any](call func(LedgerAPI, context.Context, R) error) func(LedgerAPI, context.Context, R) (struct{}, error) {
	return func(l LedgerAPI, ctx context.Context, r R) (struct{}, error) { return struct{}{}, call(l, ctx, r) }
}

// checkResponse records a response when it is seen first, by an event of its epoch. Later it
// compares the response.
func (g *game) checkResponse(question, object string, e int64, event uint64, response string) {
	g.Helper()
	c := g.model.chain(question, object)
	if c != nil {
		c = c.during(event)
	}
	check.Need(g, c != nil && c.levels[e] != nil, "object %q has an unexpected response to %q at ε=%d", object, question, e)
	q, _ := g.model.question(question)
	if known := &c.levels[e].response; *known == "" && isResponse(q, e, response) {
		*known = response
		g.noteKeyed(q, object, c.noise, e, c.levels[e])
	} else if *known != response {
		g.Fatalf("object %q has the response to %q at ε=%d %q, before %q", object, question, e, response, *known)
	}
}

// noteKeyed records a response drawn from a noise key. If it is drawn again, from a copy that was
// restored, it must be the same.
func (g *game) noteKeyed(q api.Question, object, noise string, e int64, l *modelLevel) {
	g.Helper()
	if noise == "" {
		return
	}
	from := fmt.Sprintf("%q %q %q %q %q at ε=%d of %q", noise, q.Name, q.Values, q.Encoding, object, e, l.truth)
	former, drawn := g.keyedDraws[from]
	if drawn && former != l.response {
		g.Fatalf("the noise key %s gives %q, before %q", from, l.response, former)
	}
	if drawn {
		g.runner.repeats++
	}
	g.keyedDraws[from] = l.response
}

// isResponse returns whether a text is one of the values; in unary encoding, a 0 or 1 for each; for
// a mechanism, one of the outputs at an ε.
func isResponse(q api.Question, e int64, text string) bool {
	if q.Encoding == "unary" {
		return len(text) == len(q.Values) && strings.Trim(text, "01") == ""
	}
	return slices.Contains(modelResponses(q, e), text)
}

// another returns an ε other than e at which the question has responses.
func (g *game) another(question string, e privacy.Epsilon) privacy.Epsilon {
	q, _ := g.model.question(question)
	for _, level := range modelLevels(q) {
		if level != e.Nano() {
			return epsilonOf(level)
		}
	}
	return epsilonOf(e.Nano() + 3)
}

// The moves.

func (one movePass) play(g *game) { g.model.clock = g.model.clock.Add(one.By) }

// play sets the clock further ahead than the log and any confirmation, so that nothing can be
// written. Then a person confirms it, or sets it back.
func (one moveLeap) play(g *game) {
	was, far := g.model.clock, g.model.now()
	if far.Before(g.model.confirmed) {
		far = g.model.confirmed
	}
	g.model.clock = far.Add(usualLeap + 1)
	want := api.ErrClock
	if g.model.opened.ReadOnly {
		want = api.ErrReadOnly
	}
	g.wantError(g.ledger.DefineQuestion(g.Context(), g.key(), api.Question{Name: "too early", Values: []string{"a", "b"}}), want)
	if !one.Confirmed {
		g.model.clock = was
		return
	}
	g.close()
	g.model.confirmed = g.model.clock
	g.open(g.model.opened)
}

// define defines a question under its own key.
func (g *game) define(q api.Question) {
	key := g.key()
	call := func(l LedgerAPI, ctx context.Context, q api.Question) error { return l.DefineQuestion(ctx, key, q) }
	checkRequest(g, q, noResult(call), struct{}{}, g.model.define(q),
		func(q *api.Question) { q.Values = append([]string{"new"}, q.Values[1:]...) },
		func(q *api.Question) { q.Name += "!" })
}

func (one moveDefine) play(g *game) {
	q := api.Question{Name: "late", Values: []string{"no", "yes", "unsure", "other"}, Encoding: one.As}
	if one.As == "finite" {
		q.Mechanism = mechanisms()[len(q.Values)]
	}
	if one.Other {
		slices.Reverse(q.Values)
	}
	g.define(q)
}

func (one moveWithdraw) play(g *game) {
	r := api.ObjectRequest{Key: g.key(), Object: one.Object}
	checkRequest(g, r, noResult(LedgerAPI.Withdraw), struct{}{}, g.model.withdraw(one.Object), func(r *api.ObjectRequest) { r.Object = "zoe" })
}

func (one moveEpoch) play(g *game) {
	r := api.EpochRequest{Key: g.key(), Question: one.Question, Object: one.Object}
	checkRequest(g, r, noResult(LedgerAPI.BeginEpoch), struct{}{}, g.model.beginEpoch(one.Question, one.Object), func(r *api.EpochRequest) { r.Object = "zoe" })
}

func (one moveForget) play(g *game) {
	want := g.model.forget(one.Object)
	if want == nil && g.closed == nil {
		for _, it := range g.past {
			it.forget(one.Object)
		}
	}
	r := api.ObjectRequest{Key: g.key(), Object: one.Object}
	if _, done := checkRequest(g, r, noResult(LedgerAPI.Forget), struct{}{}, want, func(r *api.ObjectRequest) { r.Object = "zoe" }); done {
		g.past[len(g.past)-1].alone = "" // that an object was forgotten is not forgotten
	}
}

func (one moveRaise) play(g *game) {
	g.host = one.Host
	r := api.RaiseRequest{Key: g.key(), Question: one.Question, Epsilon: epsilonOf(one.Epsilon), Objects: one.Objects, All: one.Objects == nil, Partial: one.Partial, Truth: g.ask}
	want, refused := g.model.raise(r, g.host)
	_, done := checkRequest(g, r, LedgerAPI.Raise, want, refused,
		func(r *api.RaiseRequest) { r.Partial = !r.Partial },
		func(r *api.RaiseRequest) { r.Epsilon = g.another(r.Question, r.Epsilon) },
		func(r *api.RaiseRequest) { r.All, r.Objects = false, []string{"zoe"} })
	if done {
		g.compareResponses(one.Question, one.Epsilon)
	}
}

func (one moveRelease) play(g *game) {
	g.host = one.Host
	r := api.ReleaseRequest{Key: g.key(), Question: one.Question, Object: one.Object, Epsilon: epsilonOf(one.Epsilon), Truth: g.ask}
	if q, err := g.model.question(one.Question); err == nil && g.moves%2 == 0 && !g.host.IsBroken {
		if r.TrueValue = g.host.truth(q, one.Object); r.TrueValue != "" {
			r.Truth = nil
		}
	}
	raise := api.RaiseRequest{Question: r.Question, Objects: []string{r.Object}, Epsilon: r.Epsilon}
	_, refused := g.model.raise(raise, g.host)
	got, err := g.ledger.Release(g.Context(), r)
	if r.TrueValue != "" {
		g.atHand = true
	}
	if g.failed(err, refused) {
		return
	}
	g.checkResponse(one.Question, one.Object, one.Epsilon, got.Event, got.Value)
	event := g.model.chain(one.Question, one.Object).levels[one.Epsilon].event
	want := api.Response{Object: one.Object, Question: one.Question, Epsilon: r.Epsilon, Value: got.Value, Event: uint64(event)}
	g.same("the response", got, want)
	g.host = host{IsBroken: true} // no true value may be requested again
	checkRequest(g, r, LedgerAPI.Release, want, nil, func(r *api.ReleaseRequest) { r.Epsilon = g.another(r.Question, r.Epsilon) })
}

func (one moveAdvance) play(g *game) {
	g.host = one.Host
	r := api.AdvanceRequest{Key: g.key(), Question: one.Question, Truth: g.ask}
	want, refused := g.model.advance(one.Question, g.host)
	checkRequest(g, r, LedgerAPI.Advance, want, refused, func(r *api.AdvanceRequest) {
		if r.Question == "" {
			r.Question = "vote"
		} else {
			r.Question = ""
		}
	})
	if g.closed == nil {
		g.compareObjects()
	}
}

// play repeats an earlier request, or makes another one with its key.
func (one moveAgain) play(g *game) {
	if len(g.past) == 0 {
		return
	}
	g.host = host{IsBroken: true}
	it := g.past[len(g.past)-1-one.Request%len(g.past)]
	if one.Change < len(it.changed) {
		var want error = &api.KeyConflictError{}
		if it.refused != nil {
			want = it.refused // it is no longer known which request it was
		}
		other := it.changed[one.Change]
		result, err := other.call()
		if it.refused != nil || !it.erased || !other.isAlike {
			g.failed(err, want)
			return
		}
		it.wantResult(g, result, err)
		return
	}
	result, err := it.again()
	it.wantResult(g, result, err)
}

// wantResult checks the result of a repeated request.
func (it *past) wantResult(g *game, result string, err error) {
	g.Helper()
	switch {
	case g.model.opened.ReadOnly && errors.Is(err, api.ErrReadOnly):
	case it.refused != nil:
		g.wantError(err, it.refused)
	case it.closed != nil && it.closed() != nil:
		g.wantError(err, it.closed())
	case err != nil || result != it.result:
		g.Fatalf("a request returned\n\t\t%s\n\tand repeated\n\t\t%s\n\t\t%v", it.result, result, err)
	}
}

func (one moveOrder) order() api.Order {
	return api.Order{Buyer: one.Buyer, Question: one.Question, Epsilon: epsilonOf(one.Epsilon), Objects: one.Objects, All: one.Objects == nil}
}

func (one moveQuote) play(g *game) { g.quote(one.Order.order()) }

// quote gets a quote. Equal IDs must mean equal offers for the same objects under the same
// policies, and vice versa.
func (g *game) quote(o api.Order) (id string) {
	t, refused := g.model.trade(o, nil)
	got, err := g.ledger.Quote(g.Context(), o)
	if err != nil || refused != nil {
		g.wantError(err, refused)
		return ""
	}
	g.budgets(o)
	id, got.ID, got.Instead = got.ID, "", nil
	want := t.quote()
	want.Event = uint64(len(g.model.log))
	g.same("the quote", got, want)
	meaning := g.model.quoteMeaning(t)
	if former, known := g.offers[id]; known && former != meaning {
		g.Fatalf("the quote %s means\n\t\t%s\n\tbefore for\n\t\t%s", id, meaning, former)
	}
	former, known := g.ids[meaning]
	check.Need(g, !known || former == id, "the offer\n\t\t%s\n\tis the quote %s, before %s", meaning, id, former)
	g.latest, g.offers[id], g.ids[meaning] = id, meaning, id
	return id
}

// consent returns what a buyer agrees to.
func (g *game) consent(o api.Order, partial bool, bound quoted, most atMost) consent {
	c := consent{key: g.key(), partial: partial}
	switch bound {
	case freshQuote:
		c.id = g.quote(o)
	case staleQuote:
		c.id = g.latest
	}
	c.quoted = g.offers[c.id]
	if t, err := g.model.trade(o, nil); err == nil && most != anything {
		price := t.price()
		if most == oneLess {
			price = max(0, price-1)
		}
		c.most = &price
	}
	return c
}

func (one moveSell) play(g *game) {
	g.host = one.Host
	o := one.Order.order()
	c := g.consent(o, one.Partial, one.Quoted, one.Most)
	r := api.SellRequest{Key: g.key(), Order: o, Partial: c.partial, QuoteID: c.id, MaxPrice: c.most, Truth: g.ask}
	t, refused := g.model.trade(o, nil)
	var d *modelDeal
	if refused == nil {
		d, refused = g.model.sell(t, nil, c, g.host)
	}
	g.sold(d, func(want api.Sale) bool {
		_, done := checkRequest(g, r, LedgerAPI.Sell, want, refused,
			func(r *api.SellRequest) { r.Partial = !r.Partial },
			func(r *api.SellRequest) { r.Epsilon = g.another(r.Question, r.Epsilon) },
			func(r *api.SellRequest) { r.Buyer = "zoe" },
			func(r *api.SellRequest) { r.QuoteID += "!" },
			func(r *api.SellRequest) { r.MaxPrice = new(int64(123456)) },
			func(r *api.SellRequest) { r.All, r.Objects = false, []string{"zoe"} })
		return done
	})
}

// sold makes a request that must result in a deal in the model, or in none, and compares the
// deliveries.
func (g *game) sold(d *modelDeal, request func(want api.Sale) bool) {
	if d == nil {
		request(api.Sale{})
	} else if request(d.sale) {
		g.compareDeliveries(d)
	}
}

func (one moveReserve) play(g *game) {
	o := one.Order.order()
	c := g.consent(o, one.Partial, one.Quoted, one.Most)
	r := api.ReserveRequest{Key: g.key(), Order: o, For: one.For, Partial: c.partial, QuoteID: c.id, MaxPrice: c.most}
	want := api.Reservation{}
	d, refused := g.model.reserve(o, c, one.For)
	if refused == nil {
		want = d.granted
	}
	_, done := checkRequest(g, r, LedgerAPI.Reserve, want, refused,
		func(r *api.ReserveRequest) { r.For++ },
		func(r *api.ReserveRequest) { r.Buyer = "zoe" },
		func(r *api.ReserveRequest) { r.Partial = !r.Partial })
	if done {
		g.past[len(g.past)-1].closed = func() error { return g.model.deals[want.Number-1].closed(g.model.now()) }
	}
}

// deal returns the number of a reservation counted from the latest, or of none.
func (g *game) deal(n int) uint64 {
	for i, d := range slices.Backward(g.model.deals) {
		if d.promised != nil {
			if n--; n < 0 {
				return uint64(i) + 1
			}
		}
	}
	return uint64(len(g.model.deals) + n + 1)
}

func (one moveCommit) play(g *game) {
	g.host = one.Host
	r := api.CaptureRequest{Key: g.key(), Reservation: max(1, g.deal(one.Deal)), Partial: one.Partial, Truth: g.ask}
	d, refused := g.model.commit(r.Reservation, consent{key: r.Key, partial: r.Partial}, g.host)
	g.sold(d, func(want api.Sale) bool {
		_, done := checkRequest(g, r, LedgerAPI.Capture, want, refused,
			func(r *api.CaptureRequest) { r.Partial = !r.Partial },
			func(r *api.CaptureRequest) { r.Reservation++ })
		return done
	})
}

func (one moveCancel) play(g *game) {
	key, number := g.key(), g.deal(one.Deal)
	call := func(l LedgerAPI, ctx context.Context, number uint64) error { return l.Cancel(ctx, key, number) }
	checkRequest(g, number, noResult(call), struct{}{}, g.model.cancel(number), func(number *uint64) { *number++ })
}

func (one moveAnswer) play(g *game) {
	g.host = one.Host
	r := api.AnswerRequest{Key: g.key(), Question: one.Question, Query: one.Query, Epsilon: epsilonOf(one.Epsilon), Objects: one.Objects, All: one.Objects == nil, Partial: one.Partial, AcceptLoss: one.AcceptLoss, Truth: g.ask}
	quote, refused := g.model.quoteAnswer(r)
	if got, err := g.ledger.QuoteAnswer(g.Context(), r); err != nil || refused != nil {
		g.wantError(err, refused)
	} else {
		g.wantNotRaised(got.NotRaised, quote.NotRaised)
		quote.Event = uint64(len(g.model.log))
		got.NotRaised, quote.NotRaised = nil, nil
		g.same("the quote of an answer", got, quote)
	}
	want, made, refused := g.model.answer(r, g.host)
	got, err := g.ledger.Answer(g.Context(), r)
	if g.failed(err, refused) {
		return
	}
	if made.answer == "" {
		made.answer = got.Answer
	}
	want.Answer = made.answer
	g.same("the answer", got, want)
	g.wantTruthChanged(got)
	g.host = host{IsBroken: true}  // no true value may be requested again
	r.AcceptLoss = !one.AcceptLoss // AcceptLoss is not part of the request for the key
	checkRequest(g, r, LedgerAPI.Answer, want, nil,
		func(r *api.AnswerRequest) { r.Partial = !r.Partial },
		func(r *api.AnswerRequest) { r.Query = "threshold:no:1" },
		func(r *api.AnswerRequest) { r.Epsilon = epsilonOf(r.Epsilon.Nano() + 3) })
}

// wantNotRaised compares the reasons why an answer is drawn and not raised.
func (g *game) wantNotRaised(got, want error) {
	g.Helper()
	var score, scoreByModel *mechanism.ScoreError
	switch {
	case errors.As(want, &scoreByModel) && errors.As(got, &score):
		g.same("why the answer is not raised", score, scoreByModel)
	case errors.Is(got, want):
	case got == nil || want == nil || got.Error() != want.Error(): // the texts are for people
		g.Fatalf("the answer is not raised because of %v, want %v", got, want)
	}
}

func (one moveEstimate) play(g *game) {
	g.compareObjects() // so that all responses are known
	r := api.EstimateRequest{Question: one.Question, Epsilon: epsilonOf(one.Epsilon)}
	if one.But != "" {
		r.Include = func(name string) bool { return name != one.But }
	}
	book := g.ledger
	if r.Include != nil {
		book = g.opened // a function cannot be sent
	}
	got, err := book.Estimate(g.Context(), r)
	q, refused := g.model.question(one.Question)
	counts := g.model.counts(q, one.Epsilon, one.But)
	if refused == nil && len(counts) == 0 {
		refused = api.ErrNoResponses
	}
	if err != nil || refused != nil {
		g.wantError(err, refused)
		return
	}
	want := api.Estimate{Question: q.Name, Method: "level", Covers: "panel", Event: uint64(len(g.model.log))}
	shares, p := sharesOf(g, q, counts)
	if len(counts) > 1 {
		want.Method, want.Disagreement = "stratified", &p
	}
	for i, s := range shares {
		want.Values = append(want.Values, api.ValueEstimate{Value: q.Values[i], Estimate: s.Estimate, StdErr: s.StdErr, Low: s.Low, High: s.High})
	}
	for _, level := range counts {
		want.N += level.Objects
		want.Levels = append(want.Levels, api.LevelCount{Epsilon: level.Epsilon, N: level.Objects})
	}
	g.same("the estimate", got, want)
}

// Moves are data, so that a game can be printed, and played again without some of them. What is
// only known when a move is made, such as the number of a reservation, is relative to the model.

type move interface{ play(g *game) }

type (
	movePass       struct{ By time.Duration }
	moveLeap       struct{ Confirmed bool } // the clock leaps further than was confirmed
	moveReopen     struct{ How opening }
	moveCheckpoint struct{} // keeps a checkpoint
	moveCompact    struct{}
	moveCopy       struct{ Compact bool } // page by page, or record by record
	moveRestore    struct {
		Copy   int // counted from the latest
		How    opening
		Beside bool // first tries it while the other ledger is open
	}
	moveDefine struct {
		Other bool // with other values
		As    string
	}
	moveWithdraw struct{ Object string }
	moveForget   struct{ Object string }
	moveEpoch    struct{ Question, Object string }
	moveReturn   struct{ Question, Object string } // under its former policy
	moveCancel   struct{ Deal int }                // counted from the latest
	moveAgain    struct {
		Request, Change int // the request, counted from the latest; the change in it, if it exists
	}
	moveEnroll struct {
		Question string
		Objects  []string
		Rule     int
		Other    int // the rule of objects with odd names, unless 0
		Cap      int64
		Partial  bool
	}
	moveTerms struct {
		Question string
		Objects  []string
		Rule     int   // of allRules, from 1; 0 keeps the policy
		Cap      int64 // 0 keeps the cap
		Consent  string
		Partial  bool
	}
	moveReconcile struct {
		Rows     []row
		Withdraw bool
		Expected bool // the host passes the number of missing objects
		Dry      bool
	}
	moveRaise struct {
		Question string
		Objects  []string // nil for all
		Epsilon  int64
		Partial  bool
		Host     host
	}
	moveRelease struct {
		Question, Object string
		Epsilon          int64
		Host             host
	}
	moveAdvance struct {
		Question string
		Host     host
	}
	moveOrder struct {
		Buyer, Question string
		Objects         []string // nil for all
		Epsilon         int64
	}
	moveQuote struct{ Order moveOrder }
	moveSell  struct {
		Order   moveOrder
		Partial bool
		Quoted  quoted
		Most    atMost
		Host    host
	}
	moveReserve struct {
		Order   moveOrder
		For     time.Duration
		Partial bool
		Quoted  quoted
		Most    atMost
	}
	moveCommit struct {
		Deal    int // counted from the latest
		Partial bool
		Host    host
	}
	moveAnswer struct {
		Question, Query string
		Objects         []string // nil for all
		Epsilon         int64
		Partial         bool
		Host            host
		AcceptLoss      bool
	}
	moveEstimate struct {
		Question string
		Epsilon  int64
		But      string // excludes one object
	}
)

// row is a row of the host's table.
type row struct {
	Question, Object string
	Rule             int // of allRules
	Cap              int64
	Consent          string
}

// quoted is the kind of quote to which an order is bound.
type quoted string

const (
	unquoted   quoted = ""
	freshQuote quoted = "fresh" // a quote from just before
	staleQuote quoted = "stale" // the latest quote of any buyer
)

// atMost is the price limit of an order.
type atMost string

const (
	anything atMost = ""
	exactly  atMost = "exactly"
	oneLess  atMost = "one less"
)

// player invents the moves of one game.
type player struct {
	*rand.Rand
	rules  []int
	caps   []int64
	shares []int // the weights of the kinds of moves
	truth  truthUse
	noises []noiseUse
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// mechanical is the number of games of which one has a first question with a mechanism. Reading it
// takes time.
const mechanical = 80

// questions returns the questions with which the game of a seed begins. Their encodings are given,
// or left to the ledger.
func questions(seed uint64) []api.Question {
	r := rand.New(rand.NewPCG(seed, 2))
	first, second := Vote(), Smoker()
	switch {
	case seed%mechanical == 3:
		first.Mechanism = mechanisms()[len(first.Values)]
	case seed%3 == 1:
		first.Encoding = "unary"
	}
	if seed%3 != 0 && first.Mechanism == nil {
		first.Values = append(first.Values, Crowd(r.IntN(28))...)
	}
	second.Encoding = pick(r, "direct", "unary")
	return []api.Question{first, second}
}

func people() []string { return []string{"ann", "bob", "cid", "dot", "mute"} }

// newMoves invents the game of a seed. Few policies occur in one game, some kinds of moves are
// frequent, and others do not occur, so that sequences of a kind happen.
func newMoves(seed uint64, moves int) []move {
	p := &player{Rand: rand.New(rand.NewPCG(seed, 1))}
	for range 2 {
		p.rules = append(p.rules, p.IntN(len(allRules())), firstMarket+p.IntN(len(allRules())-firstMarket))
		p.caps = append(p.caps, pick(p.Rand, NoCap().Nano(), milli(300), milli(1000), milli(1300)+1))
	}
	p.truth = pick(p.Rand, truthAsAtFirst, truthAsAtFirst, truthGiven)
	p.noises = pick(p.Rand, []noiseUse{noNoise}, []noiseUse{"2025"}, []noiseUse{"2025", "2026"}, []noiseUse{"2025", "2026", "2026", pastNoise})
	for _, k := range p.kinds() {
		p.shares = append(p.shares, k.share*pick(p.Rand, 0, 1, 1, 1, 2, 6))
	}
	game := []move{
		moveEnroll{Question: "vote", Objects: people(), Rule: p.rules[1], Cap: p.caps[0]},
		moveEnroll{Question: "smoker", Objects: p.names(), Rule: pick(p.Rand, p.rules...)},
	}
	if !p.yes(2) {
		game = append([]move{moveReopen{p.opening(false)}}, game...)
	}
	for len(game) < moves {
		game = append(game, p.some()...)
	}
	return game
}

// some returns a move, or a few that belong together: a period in which much is refused, or moves
// that are lost and made again.
func (p *player) some() []move {
	if p.yes(40) {
		lost := p.several()
		again := append([]move{moveCopy{p.yes(2)}}, lost...)
		return append(append(again, moveRestore{0, p.opening(false), false}), lost...)
	}
	one := p.move()
	if how, opens := openingOf(one); opens && how.hinders() {
		return append(append([]move{one}, p.several()...), moveReopen{p.opening(false)})
	}
	return []move{one}
}

func (p *player) several() (moves []move) {
	for range 1 + p.IntN(6) {
		moves = append(moves, p.move())
	}
	return moves
}

// openingOf returns how a move opens the ledger, if it does.
func openingOf(one move) (how opening, opens bool) {
	switch one := one.(type) {
	case moveReopen:
		return one.How, true
	case moveRestore:
		return one.How, true
	}
	return opening{}, false
}

// ofTheHost returns whether a move is not a request to the ledger, or changes nothing in it.
func ofTheHost(one move) bool {
	switch one.(type) {
	case movePass, moveLeap, moveReopen, moveRestore, moveCopy, moveCompact, moveCheckpoint:
		return true
	}
	return false
}

// opening invents how the ledger is opened. Options that hinder most requests are used for a short
// time.
func (p *player) opening(hindered bool) opening {
	o := opening{Truth: p.truth, Noise: pick(p.Rand, p.noises...), Signing: pick(p.Rand, signed, signed, unsigned, publishing), Trusting: p.yes(2), Wrong: p.yes(8)}
	if !hindered {
		return o
	}
	o.ReadOnly = p.yes(3)
	if p.yes(4) {
		o.Truth = pick(p.Rand, truthGiven, truthKept)
	}
	if p.yes(4) {
		o.Noise = pick(p.Rand, noNoise, pastNoise)
	}
	if p.yes(4) {
		o.Lost = pick(p.Rand, "2025", "2026")
	}
	return o
}

// encoding returns the encoding of a question that is defined later.
func (p *player) encoding() string {
	if p.yes(mechanical) {
		return "finite"
	}
	return pick(p.Rand, "", "direct", "unary")
}

func (p *player) yes(in int) bool { return p.IntN(in) == 0 }

func (p *player) question() string {
	return pick(p.Rand, "vote", "vote", "vote", "vote", "smoker", "smoker", "late")
}

func (p *player) name() string { return pick(p.Rand, people()...) }

// names returns some of the people, and sometimes an object that is not enrolled yet.
func (p *player) names() []string {
	names := people()
	if p.yes(8) {
		names = append(names, "new")
	}
	p.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:1+p.IntN(len(names))]
}

func (p *player) namesOrAll() []string {
	if p.yes(3) {
		return nil
	}
	return p.names()
}

func (p *player) epsilon() int64 {
	return pick(p.Rand, 1, milli(50), milli(100), milli(100), milli(200), milli(300), milli(300), milli(300)+1, milli(500), milli(500), milli(700), milli(1000))
}

func (p *player) host() host { return host{IsLying: p.yes(30), IsBroken: p.yes(40)} }

func (p *player) order() moveOrder {
	return moveOrder{pick(p.Rand, "acme", "bolt", "cryo"), p.question(), p.namesOrAll(), p.epsilon()}
}

func (p *player) quoted() quoted {
	return pick(p.Rand, unquoted, unquoted, freshQuote, freshQuote, staleQuote)
}
func (p *player) most() atMost {
	return pick(p.Rand, anything, anything, anything, exactly, oneLess)
}

func (p *player) during() time.Duration {
	return pick(p.Rand, 1, time.Minute, time.Hour, time.Hour, 24*time.Hour)
}

func (p *player) pass() time.Duration {
	return pick(p.Rand, 1, time.Minute-1, 30*time.Minute, time.Hour-1, time.Hour, time.Hour, 4*time.Hour, 6*time.Hour, 24*time.Hour, 300*time.Hour, -time.Hour, -3*time.Hour, -6*time.Hour, -48*time.Hour)
}

// moveKind is a kind of move with its usual share of a game.
type moveKind struct {
	share int
	make  func() move
}

func (p *player) kinds() []moveKind {
	return []moveKind{
		{12, func() move { return movePass{p.pass()} }},
		{1, func() move { return moveLeap{p.yes(4)} }},
		{3, func() move { return moveReopen{p.opening(p.yes(2))} }},
		{1, func() move { return moveCheckpoint{} }},
		{1, func() move { return moveCompact{} }},
		{2, func() move { return moveCopy{p.yes(2)} }},
		{2, func() move { return moveRestore{p.IntN(2), p.opening(p.yes(3)), p.yes(6)} }},
		{1, func() move { return moveDefine{p.yes(3), p.encoding()} }},
		{2, func() move { return moveWithdraw{p.name()} }},
		{2, func() move { return moveForget{pick(p.Rand, append(people(), "new")...)} }},
		{5, func() move { return moveEpoch{p.question(), p.name()} }},
		{4, func() move { return moveReturn{p.question(), p.name()} }},
		{5, func() move {
			return moveEnroll{p.question(), p.names(), pick(p.Rand, p.rules...), pick(p.Rand, 0, 0, pick(p.Rand, p.rules...)), p.cap(), p.yes(3)}
		}},
		{8, func() move { return p.terms() }},
		{2, func() move { return p.reconcile() }},
		{7, func() move {
			return moveRaise{p.question(), p.namesOrAll(), p.epsilon(), p.yes(2), p.host()}
		}},
		{4, func() move { return moveRelease{p.question(), p.name(), p.epsilon(), p.host()} }},
		{7, func() move { return moveAdvance{pick(p.Rand, "", "", p.question()), p.host()} }},
		{8, func() move { return moveQuote{p.order()} }},
		{18, func() move { return moveSell{p.order(), !p.yes(3), p.quoted(), p.most(), p.host()} }},
		{10, func() move { return moveReserve{p.order(), p.during(), !p.yes(3), p.quoted(), p.most()} }},
		{8, func() move { return moveCommit{p.IntN(3), p.yes(2), p.host()} }},
		{2, func() move { return moveCancel{p.IntN(4)} }},
		{6, func() move {
			query := pick(p.Rand, "majority:yes", "majority:no", "threshold:yes:2", "plurality", "winner")
			return moveAnswer{p.question(), query, p.namesOrAll(), p.epsilon(), p.yes(2), p.host(), !p.yes(3)}
		}},
		{2, func() move {
			return moveEstimate{p.question(), pick(p.Rand, 0, p.epsilon()), pick(p.Rand, "", p.name())}
		}},
		{5, func() move { return moveAgain{p.IntN(12), p.IntN(12)} }},
	}
}

// cap returns a cap, or 0 to keep it.
func (p *player) cap() int64 {
	return pick(p.Rand, 0, pick(p.Rand, p.caps...), pick(p.Rand, p.caps...))
}

// terms invents a change of terms: mostly to the few policies of the game, often to one that allows
// less.
func (p *player) terms() move {
	one := moveTerms{Question: p.question(), Objects: p.names(), Partial: p.yes(2)}
	if !p.yes(3) {
		one.Objects = []string{p.name()}
	}
	if !p.yes(4) {
		one.Rule = 1 + pick(p.Rand, pick(p.Rand, p.rules...), pick(p.Rand, p.rules...), p.IntN(len(allRules())))
	}
	if p.yes(3) || one.Rule == 0 {
		one.Cap = pick(p.Rand, append(p.caps, milli(1), milli(100), milli(500))...)
	}
	one.Consent = pick(p.Rand, "", "", "they agreed")
	return one
}

// reconcile invents a table of the host.
func (p *player) reconcile() move {
	one := moveReconcile{Withdraw: p.yes(2), Expected: !p.yes(4), Dry: p.yes(4)}
	for _, name := range append(people(), "new") {
		limit := pick(p.Rand, p.caps...)
		for _, question := range []string{"vote", "smoker"} {
			if p.yes(3) {
				continue
			}
			one.Rows = append(one.Rows, row{question, name, pick(p.Rand, p.rules...), pick(p.Rand, limit, limit, 0), pick(p.Rand, "", "", "on file")})
		}
	}
	p.Shuffle(len(one.Rows), func(i, j int) { one.Rows[i], one.Rows[j] = one.Rows[j], one.Rows[i] })
	return one
}

func (p *player) move() move {
	sum := 1
	for _, share := range p.shares {
		sum += share
	}
	n := p.IntN(sum)
	for i, k := range p.kinds() {
		if n -= p.shares[i]; n < 0 {
			return k.make()
		}
	}
	return moveReopen{}
}
