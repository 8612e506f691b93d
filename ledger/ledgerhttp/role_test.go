package ledgerhttp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// Who may do what, route by route. It is what the table of docs/howto/serve.md says, too.
const mayTable = `
about           operator desk buyer person auditor metrics
stats           operator desk - - auditor metrics
health          operator - - - auditor metrics
questions       operator desk buyer person auditor -
defineQuestion  operator - - - - -
enroll          operator - - - - -
changeTerms     operator - - - - -
reconcile       operator - - - - -
release         operator - - - - -
raise           operator - - - - -
advance         operator - - - - -
answer          operator - - - - -
quoteAnswer     operator - - - - -
beginEpoch      operator - - - - -
withdraw        operator - - - - -
forget          operator - - - - -
compact         operator - - - - -
object          operator - - - auditor -
estimate        operator desk - - auditor -
levels          operator desk - - auditor -
responses       operator - - - auditor -
budget          operator desk - - - -
quote           operator desk buyer - - -
sell            operator desk - - - -
sales           operator desk buyer - auditor -
sale            operator desk buyer - auditor -
deliveries      operator desk buyer - auditor -
receipt         operator desk buyer - - -
reserve         operator desk - - - -
reservations    operator desk buyer - auditor -
reservation     operator desk buyer - auditor -
capture         operator desk - - - -
cancel          operator desk - - - -
buyers          operator desk - - auditor -
statement       operator - - person - -
checkpoint      operator desk - person auditor metrics
metrics         operator - - - - metrics
head            operator desk - person auditor metrics
consistency     operator desk buyer person auditor metrics
events          operator - - - auditor -
refusals        operator - - - auditor -
verify          operator - - - auditor -
takeOver        operator - - - - -
backup          operator - - - auditor -
`

// may reads the table.
func may(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(mayTable)) {
		words := strings.Fields(line)
		check.Need(t, len(words) == 1+len(httpapi.Roles()), "%q", line)
		out[words[0]] = map[string]bool{}
		for i, role := range httpapi.Roles() {
			out[words[0]][role] = words[i+1] == role
		}
	}
	return out
}

// For each route and role, a caller with the role gets the answer, another role the problem
// forbidden, and an unknown caller unauthorized. A refused request changes nothing.
func TestHandler_EachRouteAndRole_IsAllowedOrForbidden(t *testing.T) {
	table, whose := may(t), map[string]string{roleBuyer: " acme", rolePerson: " 17"}
	all := routes()
	if len(table) != len(all) || len(samples()) != len(all) {
		t.Fatalf("%d routes, %d in the table, %d samples", len(all), len(table), len(samples()))
	}
	for _, r := range all {
		t.Run(r.id, func(t *testing.T) {
			var f *fixture
			for _, role := range append(httpapi.Roles(), "") {
				if f == nil || r.needsKey && table[r.id][role] {
					f = servingFor(t, &r)
				}
				before := check.Value(f.Ledger().Stats(t.Context()))(t)
				status, header, body := f.ask(r.request(role + whose[role]))
				after := check.Value(f.Ledger().Stats(t.Context()))(t)
				switch {
				case role == "":
					wantProblem(t, status, header, body, problem.Unauthorized)
				case !table[r.id][role]:
					wantProblem(t, status, header, body, problem.Forbidden)
				case status != http.StatusOK || body == "":
					t.Errorf("%s: status %d, %s", role, status, body)
				}
				check.That(t, status == http.StatusOK || before.Events == after.Events,
					"%s was refused, and yet %d events were recorded", role, after.Events-before.Events)
			}
		})
	}
}

// The table in docs/howto/serve.md is that of the routes.
func TestHowTo_TableOfRoutes_IsTheCodes(t *testing.T) {
	page := check.Value(os.ReadFile("../../docs/howto/serve.md"))(t)
	for _, r := range routes() {
		line := fmt.Sprintf("| `%s %s` | %s | %s |\n", r.method, r.path, r.summary, roleList(r.roles))
		check.That(t, strings.Contains(string(page), line), "docs/howto/serve.md lacks\n%s", line)
	}
	n := strings.Count(string(page), "| `GET /v1/") + strings.Count(string(page), "| `POST /v1/") + strings.Count(string(page), "| `GET /metrics`")
	check.That(t, n == len(routes()), "docs/howto/serve.md has %d routes", n)
}

// A buyer sees nothing of another buyer, and a person nothing of another person. What is hidden
// looks as if it did not exist.
func TestBuyerAndPerson_SeeOnlyTheirOwn(t *testing.T) {
	f := serving(t, Options{})
	for _, c := range []struct {
		ask  asked
		kind string
	}{
		{asked{"POST", "/v1/quotes", samples()["quote"].body, "", "buyer bolt", nil}, problem.Forbidden},
		{asked{"GET", "/v1/sales?buyer=acme", "", "", "buyer bolt", nil}, problem.Forbidden},
		{asked{"GET", "/v1/reservations?buyer=acme", "", "", "buyer bolt", nil}, problem.Forbidden},
		{asked{"GET", "/v1/sales/1", "", "", "buyer bolt", nil}, problem.Unknown},
		{asked{"GET", "/v1/sales/1/deliveries", "", "", "buyer bolt", nil}, problem.Unknown},
		{asked{"GET", "/v1/sales/1/receipt", "", "", "buyer bolt", nil}, problem.Unknown},
		{asked{"GET", "/v1/reservations/2", "", "", "buyer bolt", nil}, problem.Unknown},
		{asked{"POST", "/v1/statements", `{"object":"18"}`, "k", "person 17", nil}, problem.Forbidden},
		{asked{"POST", "/v1/statements", `{"object":"unknown"}`, "k", "person 17", nil}, problem.Forbidden},
		{asked{"GET", "/v1/about", "", "", "buyer", nil}, problem.Unauthorized}, // without a buyer
		{asked{"GET", "/v1/about", "", "", "operator acme", nil}, problem.Unauthorized},
		{asked{"GET", "/v1/about", "", "", "king", nil}, problem.Unauthorized},
	} {
		status, header, body := f.ask(c.ask)
		wantProblem(t, status, header, body, c.kind)
		if path, found := strings.CutPrefix(c.ask.target, "/v1/sales/1"); found {
			c.ask.target = "/v1/sales/7" + path
			_, _, other := f.ask(c.ask)
			check.That(t, strings.ReplaceAll(other, "7", "1") == body,
				"a sale of another buyer differs from one that does not exist: %s, %s", body, other)
		}
	}
	for _, target := range []string{"/v1/sales", "/v1/reservations"} {
		status, _, body := f.ask(asked{method: "GET", target: target, role: "buyer bolt"})
		check.That(t, status == http.StatusOK && body == "{\"items\":[]}\n",
			"%s of a buyer who has none: %d, %s", target, status, body)
		_, _, body = f.ask(asked{method: "GET", target: target, role: "buyer acme"})
		check.That(t, strings.Contains(body, `"buyer":"acme"`), "%s of acme: %s", target, body)
	}
}

// A quote lists the people that it would refuse. For a buyer it has no reasons, no spending and no
// number of recorded responses.
func TestQuote_ToBuyer_HasNoReasonsOrSpending(t *testing.T) {
	f := serving(t, Options{})
	order := `{"buyer":"acme","question":"vote","epsilon":"5","objects":["17"]}`
	_, _, whole := f.ask(asked{method: "POST", target: "/v1/quotes", body: order, role: "operator"})
	_, _, bare := f.ask(asked{method: "POST", target: "/v1/quotes", body: order, role: "buyer acme"})
	for _, spent := range []string{`"ceiling":"2"`, `"largest":"2"`, `"reason":"not-on-offer"`, `"instead":{`} {
		check.That(t, strings.Contains(whole, spent) && !strings.Contains(bare, spent),
			"%s: an operator reads %s, a buyer %s", spent, whole, bare)
	}
	want := `"refused":[{"object":"17","reason":"not-available","ceiling":"0","spent":"0","asked":"5","cost":"0","remaining":"0","helps":"nothing","largest":"0"}],"event":0}`
	check.That(t, strings.Contains(bare, want), "a buyer reads %s, want %s", bare, want)
	// 17 is sold at ε = 1 to acme. The terms list 2 alone.
	for epsilon, whole := range map[string]string{"0.5": `"degradations":1`, "1": `"resales":1`, "1.5": `"draws":1`, "2": `"draws":1`} {
		order := `{"buyer":"bolt","question":"vote","epsilon":"` + epsilon + `","objects":["17"]}`
		_, _, all := f.ask(asked{method: "POST", target: "/v1/quotes", body: order, role: "desk"})
		_, _, bare := f.ask(asked{method: "POST", target: "/v1/quotes", body: order, role: "buyer bolt"})
		want := `"price":0,"currency":"USD","objects":0,"draws":0,"resales":0,"degradations":0,"insertions":0,"upgrades":0,"refused":[{"object":"17"`
		if epsilon == "2" {
			want = `"price":300,"currency":"USD","objects":1,"draws":0,"resales":0,"degradations":0,"insertions":0,"upgrades":0,"refused":[],"event":0}`
		}
		check.That(t, strings.Contains(all, whole) && strings.Contains(bare, want),
			"ε = %s: a desk reads %s, a buyer %s", epsilon, all, bare)
	}
	// Nor does a refusal contain it, on any route.
	for role, wanted := range map[string]bool{roleOperator: true, roleDesk: true, roleBuyer: false, rolePerson: false, roleAuditor: false, roleMetrics: false} {
		refused := &api.RefusedError{
			Question: "vote", Refused: []api.Refusal{{Object: "17", Reason: api.ObjectCap, Spent: check.Eps(t, "1.75")}},
			Instead: &api.Budget{Question: "vote", Objects: 1, Largest: check.Eps(t, "0.25"), Levels: []api.BudgetLevel{{Epsilon: check.Eps(t, "1")}}},
		}
		w := httptest.NewRecorder()
		f.fail(newWriter(w, f.limits), role, refused)
		for _, spent := range []string{"1.75", "0.25", "object-cap"} {
			if text := w.Body.String(); strings.Contains(text, spent) != wanted || strings.Contains(text, "not-available") == wanted {
				t.Errorf("%s reads %s", role, text)
			}
		}
	}
	// Nor do sales and reservations that left out an object, in lists or alone.
	_, err := f.ledger.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: "cap", Question: "vote", Objects: []string{"19"}, Cap: check.Eps(t, "0.875")})
	check.Must(t, err)
	for target, held := range map[string]string{"/v1/sales": "", "/v1/reservations": `,"for":"15m"`} {
		partial := `{"buyer":"acme","question":"vote","epsilon":"1","objects":["17","19"],"partial":true` + held + `}`
		status, _, body := f.ask(asked{method: "POST", target: target, body: partial, key: target, role: "desk"})
		var made map[string]any
		err := json.Unmarshal([]byte(body), &made)
		check.Need(t, err == nil && status == http.StatusOK, "%s: %d, %s", target, status, body)
		for _, from := range []string{target, fmt.Sprint(target, "/", cmp.Or(made["sale"], made["reservation"]))} {
			_, _, whole := f.ask(asked{method: "GET", target: from, role: "operator"})
			_, _, bare := f.ask(asked{method: "GET", target: from, role: "buyer acme"})
			check.That(t, strings.Contains(whole, `"0.875"`) && !strings.Contains(bare, `"0.875"`) &&
				strings.Contains(bare, `"object":"19"`), "%s: an operator reads %s, a buyer %s", from, whole, bare)
		}
	}
}

// A person can neither use up a key of the host nor find out which keys the host has used.
func TestKeys_OfPersons_AreSeparateFromTheHosts(t *testing.T) {
	f := serving(t, Options{})
	for range 2 {
		f.answers(asked{"POST", "/v1/statements", `{"object":"17"}`, "sell", "person 17", nil})
	}
	f.answers(asked{"POST", "/v1/statements", `{"object":"17"}`, "order-1", "person 17", nil})
	status, _, body := f.ask(asked{"POST", "/v1/withdrawals", `{"object":"18"}`, "order-1", "operator", nil})
	check.That(t, status == http.StatusOK, "a person has used up the host's key: %d, %s", status, body)
	// Nor do two persons meet, where the one's name ends as the other's key begins.
	_, err := f.ledger.Enroll(t.Context(), api.EnrollRequest{Key: "enrol 1", Question: "vote", Objects: []string{"1"}, Cap: check.Eps(t, "9")})
	check.Must(t, err)
	for who, key := range map[string]string{"17": "x", "1": "7x"} {
		status, _, body := f.ask(asked{"POST", "/v1/statements", `{"object":"` + who + `"}`, key, "person " + who, nil})
		check.That(t, status == http.StatusOK, "another person has used up a key of %s: %d, %s", who, status, body)
	}
}

// There is no default gate.
func TestNew_WithoutGate_IsAnError(t *testing.T) {
	h, err := New(marketLedger(t, false), Options{})
	check.That(t, err != nil && h == nil, "a handler without a gate is created")
}

// A host that misspells a role in its gate admits no caller, and reads in its log which roles there
// are.
func TestGate_UnknownRole_IsRefusedAndLoggedWithTheRoles(t *testing.T) {
	for _, holder := range []Holder{{Name: "shop", Role: "operater"}, {Name: "shop"}, {Name: "shop", Role: "buyer"}, {Name: "shop", Role: "operator", Whom: "acme"}} {
		var log bytes.Buffer
		handler := check.Value(New(marketLedger(t, false), Options{Gate: holder.Admit, Logger: zerolog.New(&log)}))(t)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v1/about", nil))
		err := httpapi.CheckRole(holder.Role, holder.Whom)
		check.Need(t, answer.Code == http.StatusUnauthorized && err != nil, "%+v: %d, %v", holder, answer.Code, err)
		line := struct{ Level, Holder, Error string }{}
		first, _, _ := strings.Cut(log.String(), "\n")
		check.Must(t, json.Unmarshal([]byte(first), &line))
		check.That(t, line.Level == "error" && line.Holder == "shop" && line.Error == err.Error(), "%+v: %s", holder, first)
	}
}
