package ledgerhttp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
)

// described is what the document says of the API, as a reader of OpenAPI has it.
type described struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		ID         string `json:"operationId"`
		Parameters []struct {
			Name     string `json:"name"`
			In       string `json:"in"`
			Required bool   `json:"required"`
		} `json:"parameters"`
		Roles []string `json:"x-roles"`
	} `json:"paths"`
}

// The served document has each route with its parameters and roles, and no others.
func TestDocument_HasEachRouteWithItsRoles(t *testing.T) {
	_, _, body := serving(t, Options{}).ask(asked{method: "GET", target: "/openapi.json"})
	var doc described
	check.Must(t, json.Unmarshal([]byte(body), &doc))
	check.That(t, strings.HasPrefix(doc.OpenAPI, "3.1."), "OpenAPI %q", doc.OpenAPI)
	n := 0
	for _, operations := range doc.Paths {
		n += len(operations)
	}
	if n != len(routes())+1 { // and that of the document itself
		t.Errorf("%d operations, %d routes", n, len(routes()))
	}
	for _, r := range routes() {
		op := doc.Paths[r.path][strings.ToLower(r.method)]
		check.That(t, op.ID == r.id && len(op.Roles) == len(r.roles), "%s %s is described as %+v", r.method, r.path, op)
		want := map[string]bool{}
		for _, p := range r.params {
			want["query "+p.name] = p.isRequired
		}
		for _, m := range placeholders.FindAllStringSubmatch(r.path, -1) {
			want["path "+m[1]] = true
		}
		if r.needsKey {
			want["header "+httpapi.KeyHeader] = true
		}
		if r.id == "events" {
			want["header Last-Event-ID"] = false
		}
		for _, p := range op.Parameters {
			needed, known := want[p.In+" "+p.Name]
			check.That(t, known && needed == p.Required, "%s: the parameter %+v", r.id, p)
			delete(want, p.In+" "+p.Name)
		}
		check.That(t, len(want) == 0, "%s: not described: %v", r.id, want)
	}
}

// A problem has the form that the document describes for its route and status.
func TestProblems_MatchTheDocument(t *testing.T) {
	types := schemas()
	f := serving(t, Options{})
	for _, a := range []asked{
		{method: "GET", target: "/v1/about"},
		{method: "POST", target: "/v1/raises", body: `{"question":"vote","epsilon":"5","objects":["17","19"]}`, key: "k", role: "operator"},
		{method: "POST", target: "/v1/raises", body: `{"question":"vote","epsilon":"2","objects":["17","19"]}`, key: "k", role: "operator"},
		{method: "POST", target: "/v1/sales", body: samples()["sell"].body[:len(samples()["sell"].body)-1] + `,"quote_id":"x"}`, key: "k", role: "operator"},
	} {
		status, _, body := f.ask(a)
		check.That(t, status != http.StatusOK, "%s", body)
		wantValid(t, types, failureOf(t, types, a, status), "a problem", body)
	}
}

// failureOf returns the schema of the problems with a status that a request may have.
func failureOf(t *testing.T, types huma.Registry, a asked, status int) *huma.Schema {
	t.Helper()
	for _, r := range routes() {
		if response := operation(&r, types).Responses[strconv.Itoa(status)]; r.path == a.target && r.method == a.method && response != nil {
			return response.Content[problem.ContentType].Schema
		}
	}
	t.Fatalf("%s %s is not described with the status %d", a.method, a.target, status)
	return nil
}

// wantLines checks that a list is sent as a stream of items if a request asks for one.
func wantLines(t *testing.T, f *fixture, r *route, types huma.Registry, schema *huma.Schema) {
	t.Helper()
	request := r.request("operator")
	request.header = map[string]string{"Accept": httpapi.Lines}
	_, header, body := f.ask(request)
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if last := lines[len(lines)-1]; last != `{"end":true}` || header.Get("Content-Type") != httpapi.Lines {
		t.Errorf("%s is sent as %q, and ends with %s", r.id, header.Get("Content-Type"), last)
	}
	for _, line := range lines[:len(lines)-1] {
		wantValid(t, types, schema, r.id, line)
	}
}

// wantValid checks a text against a schema, and that an object with less is none.
func wantValid(t *testing.T, types huma.Registry, schema *huma.Schema, what, text string) {
	t.Helper()
	for _, err := range invalid(t, types, schema, text) {
		t.Errorf("%s: %v in %s", what, err, text)
	}
	check.That(t, schema.Ref == "" || len(types.SchemaFromRef(schema.Ref).Required) == 0 ||
		len(invalid(t, types, schema, `{}`)) != 0, "%s: an empty object is valid", what)
}

func invalid(t *testing.T, types huma.Registry, schema *huma.Schema, text string) []error {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return []error{err}
	}
	var found huma.ValidateResult
	huma.Validate(types, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, &found)
	return found.Errors
}

// No list is null, in the document or in an answer, so that generated clients can iterate over each
// list.
func TestAnswers_NoList_IsNull(t *testing.T) {
	f := serving(t, Options{})
	_, _, doc := f.ask(asked{method: "GET", target: "/openapi.json"})
	if strings.Contains(doc, `"null"`) {
		t.Errorf("something may be null: %.300s", doc[strings.Index(doc, `"null"`)-100:])
	}
	const order = `"buyer":"acme","question":"vote","objects":["17","19"]`
	for _, a := range []asked{
		{target: "/v1/questions", body: `{"question":"new","values":["a","b"]}`, key: "new"},
		{target: "/v1/object?object=19"}, // there are no responses
		{target: "/v1/levels?question=new"},
		{target: "/v1/budgets", body: `{"question":"vote","objects":["17"]}`},
		{target: "/v1/budgets", body: `{"question":"vote","objects":["17"],"epsilons":["9"]}`},
		{target: "/v1/quotes", body: `{"epsilon":"9",` + order + `}`},
		{target: "/v1/reconciliations", body: `{"members":[{"object":"21","question":"vote","cap":"3"}],"dry_run":true,"gone":3,"withdraw":true}`},
		{target: "/v1/advances", body: `{}`, key: "advance"},
		{target: "/v1/epochs", body: `{"object":"17","question":"vote"}`, key: "epoch"},
		{target: "/v1/object?object=17"}, // there is an earlier epoch
		{target: "/v1/events"},
	} {
		a.role, a.method = "operator", "GET"
		if a.body != "" {
			a.method = "POST"
		}
		wantNoNull(t, f, a, http.StatusOK)
	}
	for _, a := range []asked{
		{target: "/v1/sales", body: `{"epsilon":"9",` + order + `}`}, // refused, and something else instead
		{target: "/v1/sales", body: `{"epsilon":"1",` + order + `}`}, // a truth is needed
		{target: "/v1/sales", body: `{"epsilon":"1","quote_id":"x",` + order + `}`},
		{target: "/v1/sales", body: `{"epsilon":"1","max_price":1,` + order + `}`},
		{target: "/v1/raises", body: `{"question":"vote","epsilon":"2","all":true}`},
	} {
		a.role, a.method, a.key = "operator", "POST", "refused"
		wantNoNull(t, f, a, http.StatusConflict)
	}
}

func wantNoNull(t *testing.T, f *fixture, a asked, want int) {
	t.Helper()
	status, header, body := f.ask(a)
	if status != want || strings.Contains(header.Get("Content-Type"), "json") && strings.Contains(body, "null") {
		t.Errorf("%s %s: status %d, %.2000s", a.target, a.body, status, body)
	}
}
