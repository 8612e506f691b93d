package ledgerhttp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
)

// secretValue is a true value that nothing but a request may have. The question has it among its
// values, so a test that searches for it leaves out what lists them.
const secretValue = "tr\u00fcth-of-17"

// fixture is a ledger in a file with people, a sale and a reservation, and its handler.
type fixture struct {
	*Handler
	t      testing.TB
	ledger *ledger.Ledger
}

// byHeader is a gate that believes what a request says of itself.
func byHeader(r *http.Request) (Holder, bool) {
	role, whom, _ := strings.Cut(r.Header.Get("Test-Role"), " ")
	return Holder{Name: "test " + role, Role: role, Whom: whom}, role != ""
}

// marketLedger is a ledger with the question vote, the people 17, 18 and 19, who are for sale, sale
// 1 of 17 to acme, and reservation 2 of 18 for acme.
func marketLedger(t testing.TB, onDisk bool) *ledger.Ledger {
	t.Helper()
	signer := signerOf(t)
	var l *ledger.Ledger
	if onDisk {
		path := filepath.Join(testenv.TempDir(t), "ledger.db")
		check.Must(t, ledgertest.NewFile(path, ledgertest.Origin{LogKey: signer.public}))
		var err error
		l, err = ledger.Open(t.Context(), path, ledger.Options{Signer: signer, Now: ledgertest.NewClock(ledgertest.Begin()).Now})
		check.Must(t, err)
		t.Cleanup(func() { _ = l.Close() })
	} else {
		l = ledgertest.With(t, ledgertest.Settings{Origin: ledgertest.Origin{LogKey: signer.public}, Options: ledger.Options{Signer: signer}}).Ledger
	}
	peopleForSale(t, l)
	order := api.Order{Buyer: "acme", Question: "vote", Epsilon: check.Eps(t, "1"), Objects: []string{"18"}}
	_, err := l.Reserve(context.Background(), api.ReserveRequest{Key: "reserve", Order: order, For: time.Hour})
	check.Must(t, err)
	return l
}

// peopleForSale puts into a ledger the question vote, the people 17, 18 and 19, who are for sale,
// and sale 1 of 17, whose true value is yes, to acme.
func peopleForSale(t testing.TB, l *ledger.Ledger) {
	t.Helper()
	ctx := context.Background()
	check.Must(t, l.DefineQuestion(ctx, "define", api.Question{Name: "vote", Values: []string{"yes", "no", secretValue}}))
	terms, err := policy.Market{Max: check.Eps(t, "2"), Prices: []policy.Price{{Epsilon: check.Eps(t, "2"), Amount: 300}}}.Policy()
	check.Must(t, err)
	_, err = l.Enroll(ctx, api.EnrollRequest{Key: "enrol", Question: "vote", Objects: []string{"17", "18", "19"}, Policy: terms, Cap: check.Eps(t, "9")})
	check.Must(t, err)
	order := api.Order{Buyer: "acme", Question: "vote", Epsilon: check.Eps(t, "1"), Objects: []string{"17"}}
	check.Must(t, check.Err(l.Sell(ctx, api.SellRequest{Key: "sell", Order: order, Truth: api.TruthOf("yes")})))
}

// servingFor returns the handler of a ledger about which a route can be asked.
func servingFor(t testing.TB, r *route) *fixture {
	t.Helper()
	if r.id != "takeOver" {
		return servingOf(t, marketLedger(t, r.copiesFile), Options{})
	}
	_, b := couple(t)
	return servingOf(t, b, Options{Leader: func(context.Context) (string, error) { return "a", nil }})
}

// couple are two hosts of a ledger with the question vote and the people 17, 18 and 19: the first
// has it, the second is its standby.
func couple(t testing.TB) (a, b *ledger.Ledger) {
	t.Helper()
	return coupleBy(t, func(f journal.Follower) journal.Journal { return f })
}

// coupleBy is couple with another handle of the journal for b.
func coupleBy(t testing.TB, handle func(journal.Follower) journal.Journal) (a, b *ledger.Ledger) {
	t.Helper()
	dir := testenv.TempDir(t)
	one, two := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	signer := signerOf(t)
	check.Must(t, ledger.Create(t.Context(), one, ledger.CreateOptions{LogKey: signer.public}))
	var shared *journaltest.Memory
	open := func(path, host string) *ledger.Ledger {
		l, err := ledger.Open(t.Context(), path, ledger.Options{Signer: signer, Standby: host == "b", Journal: func(_ context.Context, w journal.Wanted) (journal.Journal, error) {
			if shared == nil {
				shared = journaltest.NewMemory(w.At)
			}
			if host == "b" {
				return handle(shared.OpenOn(host)), nil
			}
			return shared.OpenOn(host), nil
		}})
		check.Must(t, err)
		return l
	}
	a = open(one, "a")
	t.Cleanup(func() { _ = a.Close() })
	check.Must(t, a.DefineQuestion(t.Context(), "define", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	_, err := a.Enroll(t.Context(), api.EnrollRequest{Key: "enrol", Question: "vote", Objects: []string{"17", "18", "19"}, Cap: check.Eps(t, "9")})
	check.Must(t, err)
	check.Must(t, check.Err(a.Backup(t.Context(), two, nil)))
	b = open(two, "b")
	t.Cleanup(func() { _ = b.Close() })
	return a, b
}

// logSigner signs the log of tests.
type logSigner struct {
	note.Signer
	public string
}

func signerOf(t testing.TB) logSigner {
	t.Helper()
	secret, public, err := note.GenerateKey(zeros{}, "example.com/log")
	check.Must(t, err)
	signer := check.Value(note.NewSigner(secret))(t)
	return logSigner{signer, public}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// serving returns the handler of a ledger in memory, whose gate believes everything.
func serving(t testing.TB, o Options) *fixture {
	t.Helper()
	return servingOf(t, marketLedger(t, false), o)
}

func servingOf(t testing.TB, l *ledger.Ledger, o Options) *fixture {
	t.Helper()
	if o.Gate == nil {
		o.Gate = byHeader
	}
	if o.Metrics == nil {
		o.Metrics = new(counting).serve
	}
	h := check.Value(New(l, o))(t)
	t.Cleanup(func() { _ = h.Ledger().Close() })
	return &fixture{Handler: h, t: t, ledger: l}
}

// taken returns how many places are.
func taken(rooms ...*quota) (n int) {
	for _, r := range rooms {
		r.mu.Lock()
		n += r.taken
		r.mu.Unlock()
	}
	return n
}

// asked is a request of a test.
type asked struct {
	method, target, body, key, role string
	header                          map[string]string
}

// ask sends a request to the handler, and returns the answer.
func (f *fixture) ask(a asked) (status int, header http.Header, body string) {
	f.t.Helper()
	r := httptest.NewRequest(a.method, "http://ledger.test/", strings.NewReader(a.body))
	u, err := url.ParseRequestURI(a.target) // as a server does it
	check.Must(f.t, err)
	r.URL = u
	r.Header.Set("Test-Role", a.role)
	if a.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if a.key != "" {
		r.Header.Set("Idempotency-Key", a.key)
	}
	for name, value := range a.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if reason := recover(); reason != nil && reason != http.ErrAbortHandler {
				panic(reason)
			}
		}()
		f.ServeHTTP(w, r)
	}()
	text := check.Value(io.ReadAll(w.Result().Body))(f.t)
	f.checkKind(a, w.Header(), string(text))
	return w.Code, w.Header(), string(text)
}

// answers sends a request that succeeds, and returns the body of its answer.
func (f *fixture) answers(a asked) (body string) {
	f.t.Helper()
	status, _, body := f.ask(a)
	check.Need(f.t, status == http.StatusOK, "%s %s of %q: %d, %.2000s", a.method, a.target, a.role, status, body)
	return body
}

// refuses sends a request that is answered with a problem of a kind, and returns that.
func (f *fixture) refuses(kind string, a asked) api.Problem {
	f.t.Helper()
	status, header, body := f.ask(a)
	return wantProblem(f.t, status, header, body, kind)
}

// checkKind checks that a problem is one that the document says the route may answer with.
func (f *fixture) checkKind(a asked, header http.Header, body string) {
	f.t.Helper()
	if header.Get("Content-Type") != problem.ContentType {
		return
	}
	var p api.Problem
	check.Must(f.t, json.Unmarshal([]byte(body), &p))
	if again := header.Get("Retry-After") != ""; again != (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable) {
		f.t.Errorf("the problem %s of status %d has Retry-After: %t", p.Kind, p.Status, again)
	}
	path, _, _ := strings.Cut(a.target, "?")
	for _, r := range routes() {
		pattern := "^" + placeholders.ReplaceAllString(r.path, "[^/]+") + "$"
		if is, _ := regexp.MatchString(pattern, path); is && r.method == a.method && p.Kind != problem.NoRoute && !slices.Contains(r.problemKinds(), p.Kind) {
			f.t.Errorf("the document does not say that %s may answer with the problem %s: %s", r.id, p.Kind, p.Detail)
		}
	}
}

// wantProblem checks that an answer is a problem of a kind, in the form of RFC 9457.
func wantProblem(t testing.TB, status int, header http.Header, body string, kind string) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil || header.Get("Content-Type") != problem.ContentType {
		t.Fatalf("status %d, no problem: %v, %q", status, err, body)
	}
	check.That(t, p.Kind == kind && p.Status == status && p.Type == problem.Base+kind && p.Title != "" &&
		p.Detail != "" && p.Exit != 0, "status %d, want the kind %s: %s", status, kind, body)
	return *problem.Restore(&p)
}

// sample is a request to a route that succeeds for an operator.
type sample struct{ target, body string }

// samples returns one for each route, by its id.
func samples() map[string]sample {
	const order = `"buyer":"acme","question":"vote","epsilon":"1.5","objects":["19"]`
	return map[string]sample{
		"about":          {"/v1/about", ""},
		"stats":          {"/v1/stats", ""},
		"health":         {"/v1/health", ""},
		"questions":      {"/v1/questions", ""},
		"defineQuestion": {"/v1/questions", `{"question":"age","values":["old","young"],"encoding":"direct"}`},
		"enroll":         {"/v1/enrolments", `{"question":"vote","objects":["20"],"policy":{"kind":"fixed","ceiling":"2"},"cap":"3"}`},
		"changeTerms":    {"/v1/terms", `{"question":"vote","objects":["19"],"policy":{"kind":"fixed","ceiling":"1"},"cap":"20","consent":"box 17"}`},
		"reconcile":      {"/v1/reconciliations", `{"members":[{"object":"21","question":"vote","policy":{"kind":"fixed","ceiling":"2"},"cap":"3"}],"dry_run":true}`},
		"release":        {"/v1/releases", `{"question":"vote","object":"19","epsilon":"0.25","truths":{"19":"no"}}`},
		"raise":          {"/v1/raises", `{"question":"vote","epsilon":"0.5","objects":["19"],"truths":{"19":"no"}}`},
		"advance":        {"/v1/advances", `{"question":"vote"}`},
		"answer":         {"/v1/answers", `{"question":"vote","query":"majority:yes","epsilon":"0.1","objects":["19"],"accept_loss":true,"truths":{"19":"no"}}`},
		"quoteAnswer":    {"/v1/answers/quotes", `{"question":"vote","query":"majority:yes","epsilon":"0.2","objects":["19"]}`},
		"beginEpoch":     {"/v1/epochs", `{"object":"19","question":"vote"}`},
		"withdraw":       {"/v1/withdrawals", `{"object":"19"}`},
		"forget":         {"/v1/forgettings", `{"object":"19"}`},
		"compact":        {"/v1/compactions", `{}`},
		"object":         {"/v1/object?object=17", ""},
		"estimate":       {"/v1/estimate?question=vote&confidence=0.9&pool=true&population=true", ""},
		"levels":         {"/v1/levels?question=vote", ""},
		"responses":      {"/v1/responses?question=vote&epsilon=1", ""},
		"budget":         {"/v1/budgets", `{"question":"vote","all":true,"buyer":"acme","epsilons":["1","2"]}`},
		"quote":          {"/v1/quotes", `{` + order + `}`},
		"sell":           {"/v1/sales", `{` + order + `,"max_price":300,"truths":{"19":"no"}}`},
		"sales":          {"/v1/sales?buyer=acme&limit=10&order=desc", ""},
		"sale":           {"/v1/sales/1", ""},
		"deliveries":     {"/v1/sales/1/deliveries", ""},
		"receipt":        {"/v1/sales/1/receipt", ""},
		"reserve":        {"/v1/reservations", `{` + order + `,"for":"15m","partial":true}`},
		"reservations":   {"/v1/reservations?buyer=acme", ""},
		"reservation":    {"/v1/reservations/2", ""},
		"capture":        {"/v1/reservations/2/capture", `{"truths":{"18":"no"}}`},
		"cancel":         {"/v1/reservations/2/cancel", `{}`},
		"buyers":         {"/v1/buyers", ""},
		"statement":      {"/v1/statements", `{"object":"17"}`},
		"checkpoint":     {"/v1/checkpoint", ""},
		"metrics":        {"/metrics", ""},
		"head":           {"/v1/head?events=3", ""},
		"consistency":    {"/v1/consistency?from=12&to=12", ""},
		"events":         {"/v1/events?after=1&limit=30", ""},
		"refusals":       {"/v1/refusals?key=sell", ""},
		"verify":         {"/v1/verifications", `{}`},
		"takeOver":       {"/v1/takeovers", `{}`},
		"backup":         {"/v1/backup?compact=true", ""},
	}
}

// request is the sample of a route, with a key if it takes one.
func (r *route) request(role string) asked {
	s := samples()[r.id]
	a := asked{method: r.method, target: s.target, body: s.body, role: role}
	if r.needsKey {
		a.key = fmt.Sprintf("%q", "test of "+r.id)
	}
	return a
}
