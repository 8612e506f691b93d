package ledgerhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// This file tests the promise of view.go: what others bought, what people have spent and how many
// sales there are changes no answer to a buyer, but for yes or no at a level on offer.

// The people of a world. Only orders about the ample never depend on what others bought: they have
// budget for everything.
var (
	ample  = []string{"ample-1", "ample-2", "ample-3", "ample-4"}
	scarce = []string{"scarce-1", "scarce-2", "scarce-3"} // with a cap of 1.2
	single = []string{"single-1", "single-2"}             // of which one buyer may hold each of the levels 0.5 and 1
)

// onOffer are the levels that the terms of all people list, but for 2, which the single do not
// have.
var onOffer = []string{"0.5", "1", "2"}

// world is a ledger that acme and others use, served to acme.
type world struct {
	*fixture
	clock  *ledgertest.Clock
	others int     // how many requests of others there were
	bought []int64 // the ε of these, in nano-nats
}

// worldBase is the ledger that worlds begin with: what is public of each is the same.
func worldBase(t *testing.T) *ledgertest.Memory {
	t.Helper()
	l := ledgertest.With(t, ledgertest.Settings{Origin: ledgertest.Origin{LogKey: signerOf(t).public}})
	ctx := t.Context()
	check.Must(t, l.DefineQuestion(ctx, "define", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	sold := policy.Market{Max: check.Eps(t, "2"), Prices: []policy.Price{{Epsilon: check.Eps(t, "0.5"), Amount: 50}, {Epsilon: check.Eps(t, "1"), Amount: 100}, {Epsilon: check.Eps(t, "2"), Amount: 180}}}
	enrol := func(people []string, limit string, m policy.Market) {
		terms := check.Value(m.Policy())(t)
		_, err := l.Enroll(ctx, api.EnrollRequest{Key: "enrol " + people[0], Question: "vote", Objects: people, Policy: terms, Cap: check.Eps(t, limit)})
		check.Must(t, err)
	}
	enrol(ample, "100", sold)
	enrol(scarce, "1.2", sold)
	sold.Max, sold.Levels, sold.Holders = check.Eps(t, "1"), []privacy.Epsilon{check.Eps(t, "0.5"), check.Eps(t, "1")}, 1
	enrol(single, "1.2", sold)
	check.Must(t, l.Close())
	return l.Memory
}

// worldOf opens a copy of a base.
func worldOf(t *testing.T, base *ledgertest.Memory) *world {
	t.Helper()
	clock := ledgertest.NewClock(ledgertest.Begin())
	l := check.Value(base.Copy().Open(ledger.Options{Signer: signerOf(t), Now: clock.Now}))(t)
	return &world{fixture: servingOf(t, l, Options{}), clock: clock}
}

// nanos returns an ε in nano-nats.
func nanos(t testing.TB, n int64) privacy.Epsilon {
	t.Helper()
	e := check.Value(privacy.EpsilonFromNano(n))(t)
	return e
}

// done accepts the result of a request of others.
func (w *world) done(err error) {
	w.t.Helper()
	refused := (*api.RefusedError)(nil)
	check.Need(w.t, err == nil || errors.As(err, &refused) || errors.Is(err, &api.ReservationError{}), "%v", err)
}

// some returns some of the people, in order.
func some(r *rand.Rand, people []string) []string {
	left := slices.Clone(people)
	r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	return slices.Sorted(slices.Values(left[:1+r.IntN(len(left))]))
}

// other does something that acme has no part in.
func (w *world) other(r *rand.Rand) {
	w.t.Helper()
	ctx, l := w.t.Context(), w.ledger
	w.others++
	key := fmt.Sprint("other ", w.others)
	nano := 1 + r.Int64N(2_000_000_000)
	if r.IntN(2) == 0 {
		nano = []int64{500_000_000, 1_000_000_000, 2_000_000_000}[r.IntN(3)]
	}
	w.bought = append(w.bought, nano)
	e := nanos(w.t, nano)
	people := some(r, slices.Concat(ample, scarce, single))
	yes := func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{"yes"}, len(objects)), nil
	}
	order := api.Order{Buyer: []string{"bolt", "cryo"}[r.IntN(2)], Question: "vote", Epsilon: e, Objects: people}
	switch r.IntN(6) {
	case 0, 1:
		_, err := l.Sell(ctx, api.SellRequest{Key: key, Order: order, Partial: true, Truth: yes})
		w.done(err)
	case 2:
		_, err := l.Raise(ctx, api.RaiseRequest{Key: key, Question: "vote", Epsilon: e, Objects: people, Partial: true, Truth: yes})
		w.done(err)
	case 3: // which uses up the ceilings of chains, too
		people = some(r, slices.Concat(scarce, single))
		_, err := l.Answer(ctx, api.AnswerRequest{Key: key, Question: "vote", Query: "majority:yes", Epsilon: e, Objects: people, Partial: true, AcceptLoss: true, Truth: yes})
		w.done(err)
	case 4:
		made, err := l.Reserve(ctx, api.ReserveRequest{Key: key, Order: order, Partial: true, For: time.Hour * time.Duration(1+r.IntN(200))})
		w.done(err)
		if err == nil && r.IntN(2) == 0 {
			_, err = l.Capture(ctx, api.CaptureRequest{Key: key + " captured", Reservation: made.Number, Partial: true, Truth: yes})
			w.done(err)
		}
	case 5:
		_, err := l.Statement(ctx, api.ObjectRequest{Key: key, Object: people[0]})
		w.done(err)
	}
}

// own does what the host does for acme, which is the same in all worlds.
func (w *world) own(i int, r *rand.Rand) {
	w.t.Helper()
	ctx, l := w.t.Context(), w.ledger
	yes := func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{"yes"}, len(objects)), nil
	}
	order := api.Order{Buyer: "acme", Question: "vote", Epsilon: check.Eps(w.t, append([]string{"0.7"}, onOffer...)[r.IntN(4)]), Objects: append(some(r, ample), "nobody")}
	key := fmt.Sprint("own ", i)
	switch r.IntN(4) {
	case 0, 1:
		check.Must(w.t, check.Err(l.Sell(ctx, api.SellRequest{Key: key, Order: order, Partial: true, Truth: yes})))
		return
	}
	made, err := l.Reserve(ctx, api.ReserveRequest{Key: key, Order: order, Partial: true, For: 40 * time.Hour})
	check.Must(w.t, err)
	switch r.IntN(3) {
	case 0:
		_, err = l.Capture(ctx, api.CaptureRequest{Key: key + " captured", Reservation: made.Number, Truth: yes})
		check.Must(w.t, err)
	case 1:
		check.Must(w.t, l.Cancel(ctx, key+" cancelled", made.Number))
	}
}

// live lets acme do the same in all worlds, with others of each world in between.
func live(seed uint64, busy []int, worlds ...*world) {
	steps := 3 + int(seed%6)
	for n, w := range worlds {
		others := rand.New(rand.NewPCG(seed, uint64(n)+100))
		mine := rand.New(rand.NewPCG(seed, 1))
		for i := range steps {
			for range others.IntN(busy[n] + 1) {
				w.other(others)
			}
			w.clock.Set(ledgertest.Begin().Add(time.Duration(i+1) * 10 * time.Hour))
			w.own(i, mine)
		}
		for range busy[n] {
			w.other(others)
		}
	}
}

// asAcme is a request of acme's.
func asAcme(method, target, body string) asked {
	return asked{method: method, target: target, body: body, role: "buyer acme"}
}

// orders is how many sales and reservations acme has.
func (w *world) orders() (n int) {
	for s, err := range w.ledger.Sales(w.t.Context(), "acme") {
		check.Must(w.t, err)
		n = max(n, int(s.Ordinal))
	}
	for r, err := range w.ledger.Reservations(w.t.Context(), "acme") {
		check.Must(w.t, err)
		n = max(n, int(r.Ordinal))
	}
	return n
}

// sizes are those of the log in acme's receipts.
func (w *world) sizes() (all []uint64) {
	for s, err := range w.ledger.Sales(w.t.Context(), "acme") {
		check.Must(w.t, err)
		all = append(all, s.Last)
	}
	return all
}

// quoteOf is a request for a quote.
func quoteOf(epsilon, objects string) asked {
	return asAcme(http.MethodPost, "/v1/quotes", fmt.Sprintf(`{"buyer":"acme","question":"vote","epsilon":%q,%s}`, epsilon, objects))
}

// probes are ε that a curious buyer would try: at random, next to levels on offer, what others
// bought, and what they left.
func probes(r *rand.Rand, worlds []*world) (all []string) {
	tried := []int64{1, 700_000_000, 999_999_999, 1_000_000_001, 500_000_001, 1_999_999_999, 1_200_000_000, 3_000_000_000}
	for range 10 {
		tried = append(tried, 1+r.Int64N(2_500_000_000))
	}
	for _, w := range worlds {
		tried = append(tried, w.bought...)
		for _, name := range slices.Concat(ample, scarce, single) {
			o := check.Value(w.ledger.Object(w.t.Context(), name))(w.t)
			for _, left := range []int64{o.Spent.Nano(), o.Remaining.Nano()} {
				tried = append(tried, left, left+1, left-1)
			}
		}
	}
	for _, n := range tried {
		if n <= 0 {
			continue
		}
		if text := nanos(worlds[0].t, n).String(); !slices.Contains(onOffer, text) {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// twin is a request in two worlds: it is the same but for sizes of the log.
type twin [2]asked

func both(a asked) twin { return twin{a, a} }

// buyersAsk returns, for each route that a buyer may use, what is asked for. A route that is new
// needs a row.
func buyersAsk(r *rand.Rand, worlds []*world) map[string][]twin {
	rows := map[string][]twin{
		"openAPI":   {both(asAcme(http.MethodGet, "/openapi.json", ""))},
		"about":     {both(asAcme(http.MethodGet, "/v1/about", ""))},
		"questions": {both(asAcme(http.MethodGet, "/v1/questions", ""))},
	}
	list := func(id string, targets ...string) {
		for _, target := range targets {
			rows[id] = append(rows[id], both(asAcme(http.MethodGet, target, "")))
		}
	}
	list("sales", "/v1/sales", "/v1/sales?buyer=acme", "/v1/sales?buyer=bolt", "/v1/sales?from=3")
	list("reservations", "/v1/reservations", "/v1/reservations?state=open", "/v1/reservations?state=expired,captured", "/v1/reservations?buyer=cryo", "/v1/reservations?state=lost")
	for n := range worlds[0].orders() + 40 { // beyond its own, numbers of the ledger's sales follow
		list("sale", fmt.Sprint("/v1/sales/", n))
		list("deliveries", fmt.Sprintf("/v1/sales/%d/deliveries", n))
		list("receipt", fmt.Sprintf("/v1/sales/%d/receipt", n))
		list("reservation", fmt.Sprint("/v1/reservations/", n))
	}
	rows["quote"] = quotesAsked(r, worlds)
	mine := [2][]uint64{worlds[0].sizes(), worlds[1].sizes()}
	consistency := func(from, to uint64) asked {
		return asAcme(http.MethodGet, fmt.Sprintf("/v1/consistency?from=%d&to=%d", from, to), "")
	}
	for i := range mine[0] {
		for j := range mine[0] {
			rows["consistency"] = append(rows["consistency"], twin{consistency(mine[0][i], mine[0][j]), consistency(mine[1][i], mine[1][j])})
		}
	}
	for size := range uint64(200) {
		if !slices.Contains(mine[0], size) && !slices.Contains(mine[1], size) {
			rows["consistency"] = append(rows["consistency"], both(consistency(size, size)), twin{consistency(mine[0][0], size), consistency(mine[1][0], size)})
		}
	}
	return rows
}

func quotesAsked(r *rand.Rand, worlds []*world) (all []twin) {
	for _, epsilon := range append(probes(r, worlds), onOffer...) {
		for _, name := range slices.Concat(ample, scarce, single, []string{"nobody"}) {
			all = append(all, both(quoteOf(epsilon, fmt.Sprintf(`"objects":[%q]`, name))))
		}
		all = append(all, both(quoteOf(epsilon, `"all":true`)), both(quoteOf(epsilon, `"objects":["ample-1","ample-2","nobody"]`)))
	}
	for _, body := range []string{
		`{"buyer":"bolt","question":"vote","epsilon":"1","objects":["scarce-1"]}`, `{"buyer":"acme","question":"none","epsilon":"1","objects":["scarce-1"]}`,
		`{"buyer":"acme","question":"vote","epsilon":"0","objects":["scarce-1"]}`, `{"buyer":"acme","question":"vote","epsilon":"1e3","all":true}`,
		`{"buyer":"acme","question":"vote","epsilon":"1","objects":[" scarce-1"]}`, `{"buyer":"acme","question":"vote","epsilon":"1","objects":[]}`, `{"buyer":"acme"`, `[]`,
	} {
		all = append(all, both(asAcme(http.MethodPost, "/v1/quotes", body)))
	}
	return all
}

// masked returns the bodies of an answer without what is documented to differ: responses, which are
// drawn, and in receipts and proofs what docs/limits.md lists.
func masked(t *testing.T, route string, ask asked, status int, body string) string {
	t.Helper()
	switch {
	case route == "consistency" && status == http.StatusOK:
		return "a proof"
	case route == "consistency": // the sizes that were asked for
		for _, size := range regexp.MustCompile(`\d+$|\d+&`).FindAllString(ask.target, -1) {
			body = regexp.MustCompile(`\b`+strings.TrimSuffix(size, "&")+`\b`).ReplaceAllString(body, "N")
		}
		return body
	case route == "receipt" && status == http.StatusOK:
		r := check.Value(evidence.ReadReceipt([]byte(body)))(t)
		if head := r.Verify(nil).Head; len(r.Verify(nil).Faults) > 0 || head.Events != r.Evidence.Sale.Event+r.Objects+r.Refused+1 {
			t.Errorf("a receipt of %d events about the sale of event %d: %v", head.Events, r.Evidence.Sale.Event, r.Verify(nil).Faults)
		}
		r.Sale, r.Evidence = 0, evidence.Evidence{}
		for i, one := range r.Responses {
			r.Responses[i] = evidence.SoldResponse{Object: one.Object, Price: one.Price, Erased: one.Erased}
		}
		text := check.Value(json.Marshal(r))(t)
		return string(text)
	}
	return regexp.MustCompile(`"response":"[^"]*"`).ReplaceAllString(body, `"response":"…"`)
}

// isYesOrNo reports whether two different quotes may be: at a level on offer each says yes or no,
// for each person, and nothing else.
func isYesOrNo(t *testing.T, a asked, bodies ...string) bool {
	t.Helper()
	for _, body := range bodies {
		var q api.Quote
		check.Must(t, json.Unmarshal([]byte(body), &q))
		if !slices.Contains(onOffer, q.Epsilon.String()) || q.Event != 0 || q.Draws+q.Resales+q.Degradations+q.Insertions != 0 || q.Instead != nil {
			return false
		}
		for _, r := range q.Refused {
			if r != (api.Refusal{Object: r.Object, Reason: api.NotAvailable, Asked: q.Epsilon, Remedy: "nothing"}) || slices.Contains(ample, r.Object) {
				return false
			}
		}
		people := 1
		if strings.Contains(a.body, `"all":true`) {
			people = len(ample) + len(scarce) + len(single)
		}
		if int(q.Objects)+len(q.Refused) != people || q.Objects == 0 && q.Price != 0 {
			return false
		}
	}
	return true
}

// Two ledgers that differ in what others bought, what people spent otherwise and how many sales
// there are answer a buyer with the same history byte for byte the same, by every route.
func TestBuyer_OthersBuyOtherwise_EveryAnswerIsTheSame(t *testing.T) {
	base := worldBase(t)
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	differed := 0
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			worlds := []*world{worldOf(t, base), worldOf(t, base)}
			live(seed, []int{int(seed % 2 * 3), 4}, worlds...)
			rows := buyersAsk(rand.New(rand.NewPCG(seed, 7)), worlds)
			for _, r := range routes() {
				asks, has := rows[r.id]
				if has != r.allows(roleBuyer) {
					t.Errorf("the route %s has a row here: %t; a buyer may use it: %t", r.id, has, r.allows(roleBuyer))
				}
				if !has { // what is refused is the same, too
					asks = []twin{both(r.request("buyer acme"))}
				}
				for _, one := range asks {
					differed += compareAnswers(t, worlds, r.id, one)
				}
			}
		})
	}
	check.That(t, differed != 0,
		"no order at a level on offer had yes in one world and no in the other: others change nothing here")
}

// compareAnswers asks both worlds, and returns 1 if the answers differ as they may.
func compareAnswers(t *testing.T, worlds []*world, route string, ask twin) int {
	t.Helper()
	var texts, bodies [2]string
	for n, w := range worlds {
		status, header, body := w.fixture.ask(ask[n])
		if route == "receipt" || route == "consistency" || route == "deliveries" {
			header.Del("Content-Length") // of numbers, proofs and responses that differ
		}
		bodies[n] = body
		texts[n] = fmt.Sprint(status, header, masked(t, route, ask[n], status, body))
	}
	switch {
	case texts[0] == texts[1]:
		return 0
	case route == "quote" && isYesOrNo(t, ask[0], bodies[:]...):
		return 1
	}
	t.Errorf("%s %s %s:\n%s\n%s", ask[0].method, ask[0].target, ask[0].body, texts[0], texts[1])
	return 0
}

// A buyer that halves the interval again and again finds out nothing about a budget, nor at which ε
// others bought.
func TestBuyer_BisectionByQuotes_FindsNothing(t *testing.T) {
	base := worldBase(t)
	var found [2][]int64
	for n := range found {
		w := worldOf(t, base)
		for range n * 12 {
			w.other(rand.New(rand.NewPCG(5, uint64(w.others))))
		}
		for _, name := range slices.Concat(scarce, single) {
			lo, hi := int64(0), int64(3_000_000_001)
			for hi-lo > 1 {
				middle := (lo + hi) / 2
				status, _, body := w.ask(quoteOf(nanos(t, middle).String(), fmt.Sprintf(`"objects":[%q]`, name)))
				var q api.Quote
				check.Must(t, json.Unmarshal([]byte(body), &q))
				check.Need(t, status == http.StatusOK, "%v", body)
				if len(q.Refused) == 0 {
					lo = middle
				} else {
					hi = middle
				}
			}
			found[n] = append(found[n], lo)
			o := check.Value(w.ledger.Object(t.Context(), name))(t)
			check.That(t, n != 1 || !o.Spent.IsZero(), "others have not bought of %s", name)
		}
	}
	check.That(t, slices.Equal(found[0], found[1]), "%v as long as others bought nothing, %v after", found[0], found[1])
}

// A buyer's sales and reservations have its own numbers, by every route, and no other number finds
// them.
func TestBuyer_Numbers_AreItsOwn(t *testing.T) {
	f := serving(t, Options{}) // sale 1 and reservation 2 are acme's
	order := api.Order{Buyer: "bolt", Question: "vote", Epsilon: check.Eps(t, "2"), Objects: []string{"17"}}
	made, err := f.ledger.Sell(t.Context(), api.SellRequest{Key: "bolt 1", Order: order, Truth: api.TruthOf("yes")})
	check.Must(t, err)
	check.Need(t, made.Number == 3 && made.Ordinal == 1,
		"the first sale to bolt is %d, its order %d", made.Number, made.Ordinal)
	for target, want := range map[string]string{
		"/v1/sales/1": `"sale":1,`, "/v1/sales/1/deliveries": `"sale":1,`, "/v1/sales": `"sale":1,`,
	} {
		status, _, body := f.ask(asked{method: "GET", target: target, role: "buyer bolt"})
		check.That(t, status == http.StatusOK && strings.Contains(body, want) && !strings.Contains(body, `"sale":3`),
			"%s: %d, %s", target, status, body)
	}
	for _, target := range []string{"/v1/sales/3", "/v1/sales/0", "/v1/sales/2/receipt", "/v1/reservations/1", "/v1/sales/18446744073709551615"} {
		p := f.refuses(problem.Unknown, asked{method: "GET", target: target, role: "buyer bolt"})
		number := strings.Split(target, "/")[3]
		check.That(t, strings.HasSuffix(p.Detail, " "+number+": unknown"), "%s: %s", target, p.Detail)
	}
	// The desk finds the ledger's numbers, and reads what number the buyer has it under.
	status, _, body := f.ask(asked{method: "GET", target: "/v1/sales/3", role: "desk"})
	check.That(t, status == http.StatusOK && strings.Contains(body, `"sale":3,"ordinal":1,`),
		"a desk reads %d, %s", status, body)
}

// No error that a buyer reads has a field that depends on others: what is not about the request
// itself is left out.
func TestBuyer_Errors_SayNothingOfOthers(t *testing.T) {
	f := serving(t, Options{})
	at := time.Date(2026, 3, 1, 12, 34, 56, 0, time.UTC)
	for _, err := range []error{
		&api.ClockError{Clock: at, Last: at, Leap: time.Minute}, &api.DisplacedError{Question: "vote", Displaced: []api.Displaced{{Objects: 1234}}},
		&api.ReservationError{Number: 1234, Sale: 1234}, &api.QuoteError{Quote: api.Quote{Event: 1234}}, &api.GoneError{Gone: 1234},
		&api.KeyConflictError{Key: "order 1234"}, fmt.Errorf("at /srv/1234.db: %w", api.ErrCorrupt), fmt.Errorf("event 1234: %w", api.ErrStopped),
		&api.RefusedError{Question: "vote", Refused: []api.Refusal{{Object: "17", Reason: api.ObjectCap}}, TruthChanged: []string{"1234"}},
	} {
		var text [2]string
		for i, role := range []string{roleOperator, roleBuyer} {
			w := httptest.NewRecorder()
			f.fail(newWriter(w, f.limits), role, err)
			text[i] = w.Body.String()
		}
		check.That(t, strings.Contains(text[0], "1234") || strings.Contains(text[0], "12:34"),
			"an operator reads %s of %v", text[0], err)
		check.That(t, !strings.Contains(text[1], "1234") && !strings.Contains(text[1], "12:34"),
			"a buyer reads %s", text[1])
	}
}

// The log is proven to a buyer between its receipts, and at no other size.
func TestBuyer_Consistency_OnlyBetweenItsReceipts(t *testing.T) {
	f := serving(t, Options{})
	for i, epsilon := range []string{"1", "2"} {
		order := api.Order{Buyer: []string{"bolt", "acme"}[i], Question: "vote", Epsilon: check.Eps(t, epsilon), Objects: []string{"19"}}
		_, err := f.ledger.Sell(t.Context(), api.SellRequest{Key: epsilon, Order: order, Truth: api.TruthOf("yes")})
		check.Must(t, err)
	}
	var sizes []uint64
	for _, number := range []int{1, 3} {
		status, _, body := f.ask(asked{method: "GET", target: fmt.Sprintf("/v1/sales/%d/receipt", number), role: "buyer acme"})
		r, err := evidence.ReadReceipt([]byte(body))
		check.Need(t, err == nil && status == http.StatusOK, "%v %v", status, err)
		sizes = append(sizes, r.Verify(nil).Head.Events)
	}
	stats := check.Value(f.ledger.Stats(t.Context()))(t)
	for from := range stats.Events + 3 {
		for to := range stats.Events + 3 {
			status, _, _ := f.ask(asked{method: "GET", target: fmt.Sprintf("/v1/consistency?from=%d&to=%d", from, to), role: "buyer acme"})
			want := http.StatusNotFound
			if slices.Contains(sizes, from) && slices.Contains(sizes, to) {
				want = http.StatusOK
				if from > to {
					want = http.StatusBadRequest
				}
			}
			if status != want {
				t.Errorf("from %d to %d: %d, want %d; acme has receipts at %s", from, to, status, want, strconv.Quote(fmt.Sprint(sizes)))
			}
		}
	}
}
