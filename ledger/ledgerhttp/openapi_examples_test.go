package ledgerhttp

import (
	"bytes"
	"encoding/json"
	goflag "flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/policy"
)

// After a change of the API that is meant, write the examples and the document again with
//
//	go test ./ledger/ledgerhttp -run 'TestExamples_AreAnsweredAsTheySay|TestDocument_' -update
var update = goflag.Bool("update", false, "write the examples and the document of the API again")

// documentFile is the document of the API in the repository, from which clients are generated.
const documentFile = "../../docs/reference/openapi.json"

// Each operation has an example, which a real ledger answers, with an answer of the same form as
// that in the document. What is asked and answered is what the document says: the schemas are those
// of the types that are written. No list is null.
func TestExamples_AreAnsweredAsTheySay(t *testing.T) {
	types, real := schemas(), examples{}
	for _, r := range routes() {
		f, op, request := servingFor(t, &r), operation(&r, types), r.request("operator")
		status, header, body := f.ask(request)
		check.Need(t, status == http.StatusOK, "%s: %d, %s", r.id, status, body)
		one := example{Target: request.target, Key: strings.Trim(request.key, `"`)}
		if request.body != "" {
			one.Body = json.RawMessage(request.body)
		}
		if op.RequestBody != nil {
			wantValid(t, types, op.RequestBody.Content["application/json"].Schema, r.id+" asks", request.body)
		}
		media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
		content := op.Responses["200"].Content[media]
		check.Need(t, content != nil, "%s answers with %q, which is not described", r.id, media)
		switch media {
		case "application/json":
			one.Answer = json.RawMessage(strings.TrimSpace(body))
			wantValid(t, types, content.Schema, r.id, body)
			check.That(t, !strings.Contains(body, "null"), "%s: %.2000s", r.id, body)
		case "text/plain":
			one.Answer = check.Value(json.Marshal(body))(t)
		}
		if r.item != nil {
			wantLines(t, f, &r, types, op.Extensions["x-streams"].(map[string]*huma.Schema)[httpapi.Lines])
		}
		real[r.id] = one
	}
	if *update {
		text := check.Value(json.MarshalIndent(real, "", " "))(t)
		text = bytes.ReplaceAll(append(text, '\n'), []byte(secretValue), []byte("unsure"))
		check.Must(t, os.WriteFile(examplesFile, text, 0o644))
		t.Skip("the examples are written; run the tests again")
	}
	given := check.Value(readExamples())(t)
	check.That(t, len(given) == len(real), "%d examples, %d routes", len(given), len(real))
	for _, r := range routes() {
		is, want := given[r.id], real[r.id]
		if is.Target != want.Target || is.Key != want.Key || formOf(t, is.Body) != formOf(t, want.Body) || formOf(t, is.Answer) != formOf(t, want.Answer) {
			t.Errorf("%s: the example is\n%+v\nand a ledger has\n%+v\nrun with -update if that is meant", r.id, is, want)
		}
		op := operation(&r, types)
		if op.RequestBody != nil {
			wantValid(t, types, op.RequestBody.Content["application/json"].Schema, r.id, string(is.Body))
		}
		if content := op.Responses["200"].Content["application/json"]; content != nil {
			wantValid(t, types, content.Schema, r.id, string(is.Answer))
		}
	}
}

// formOf returns JSON without its values: the keys, and the types of what they have.
func formOf(t *testing.T, text json.RawMessage) string {
	t.Helper()
	if text == nil {
		return ""
	}
	var value any
	check.Must(t, json.Unmarshal(text, &value))
	var form func(any) any
	form = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for key, inner := range v {
				out[key] = form(inner)
			}
			return out
		case []any:
			if len(v) == 0 {
				return "[]"
			}
			return []any{form(v[0])}
		}
		return fmt.Sprintf("%T", v)
	}
	out := check.Value(json.Marshal(form(value)))(t)
	return string(out)
}

// The document in the repository is the one that is served: clients are generated from it.
func TestDocument_IsTheOneInTheRepository(t *testing.T) {
	text := check.Value(openAPI(routes()))(t)
	var lines bytes.Buffer
	check.Must(t, json.Indent(&lines, text, "", " "))
	lines.WriteByte('\n')
	for _, file := range []string{"openapi.json", documentFile} {
		if *update {
			check.Must(t, os.WriteFile(file, lines.Bytes(), 0o644))
		}
		if written, err := os.ReadFile(file); err != nil || !bytes.Equal(written, lines.Bytes()) {
			t.Errorf("%s is not the document of this API (%v): run with -update if the change is meant", file, err)
		}
	}
	served := check.Value(newDescription())(t)
	check.That(t, *update || bytes.Equal(served.text, text), "the document that is served is not the one of this API")
}

// The document is served without a token. A client that has it already gets no body.
func TestDocument_WithoutAToken(t *testing.T) {
	f := serving(t, Options{})
	status, header, body := f.ask(asked{method: "GET", target: "/openapi.json"})
	check.That(t, status == http.StatusOK && header.Get("Content-Type") == "application/json" &&
		header.Get("Cache-Control") == "no-cache" && len(body) >= 1000, "%d, %v, %d bytes", status, header, len(body))
	for tag, want := range map[string]int{header.Get("ETag"): 304, `"a", ` + header.Get("ETag"): 304, `"another"`: 200, "": 200} {
		status, _, body := f.ask(asked{method: "GET", target: "/openapi.json", header: map[string]string{"If-None-Match": tag}})
		check.That(t, status == want && (want == 304) == (body == ""),
			"with the tag %s: %d, %d bytes", tag, status, len(body))
	}
	check.That(t, !strings.Contains(body, f.ledger.About().ID) && !strings.Contains(body, secretValue),
		"the document says something of the ledger that is served")
}

// Each operation has an id, a group, an example, and a description of each problem; those that may
// be repeated say when.
func TestDocument_DescribesEveryOperation(t *testing.T) {
	text := check.Value(openAPI(routes()))(t)
	var doc struct {
		Tags []struct {
			Name string `json:"name"`
		} `json:"tags"`
		Paths map[string]map[string]struct {
			ID        string   `json:"operationId"`
			Tags      []string `json:"tags"`
			Responses map[string]struct {
				Headers map[string]any                        `json:"headers"`
				Content map[string]map[string]json.RawMessage `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
	}
	check.Must(t, json.Unmarshal(text, &doc))
	for path, operations := range doc.Paths {
		for method, op := range operations {
			if op.ID == "openAPI" {
				continue
			}
			check.That(t, len(op.Tags) == 1 && len(doc.Tags) == 3, "%s %s has the tags %v", method, path, op.Tags)
			for _, status := range []string{"200", "400", "401", "429", "500", "503"} {
				_, there := op.Responses[status]
				check.That(t, there, "%s %s: the status %s is not described", method, path, status)
			}
			for status, response := range op.Responses {
				_, retry := response.Headers["Retry-After"]
				check.That(t, retry == (status == "429" || status == "503"),
					"%s %s: %s has Retry-After: %t", method, path, status, retry)
				for media, content := range response.Content {
					first := media == "application/json" || media == "text/plain"
					check.That(t, content["schema"] != nil && (status != "200" || !first || content["example"] != nil),
						"%s %s: %s, %s has no schema, or no example", method, path, status, media)
				}
			}
		}
	}
}

// Closed lists of words are enums with the words of the packages. A discriminator distinguishes the
// kinds of events, policies and facts.
func TestDocument_HasClosedLists(t *testing.T) {
	types := schemas()
	for _, r := range routes() {
		operation(&r, types)
	}
	for name, least := range map[string]int{"Reason": 16, "Remedy": 10, "Encoding": 3, "ReservationState": 4, "ProblemKind": 40} {
		s := types.Map()[name]
		check.That(t, s != nil && len(s.Enum) >= least, "%s is %+v", name, s)
	}
	for name, kinds := range map[string][]string{"Event": eventKinds(), "Policy": policyKinds(t), "Fact": nil} {
		s := types.Map()[name]
		check.Need(t, s != nil && s.Discriminator != nil && len(s.OneOf) != 0 &&
			len(s.Discriminator.Mapping) == len(s.OneOf), "%s is %+v", name, s)
		for _, kind := range kinds {
			check.That(t, s.Discriminator.Mapping[kind] != "", "%s has no kind %s", name, kind)
		}
	}
	methods := map[string]bool{}
	for at, words := range keyWords() {
		name, key, _ := strings.Cut(at, ".")
		if s := types.Map()[name]; s == nil || s.Properties[key] == nil || len(s.Properties[key].Enum) != len(words) {
			t.Errorf("there is no %s, of which words are listed", at)
		}
		if key == "method" && name != "Estimate" {
			for _, word := range words {
				methods[word] = true
			}
		}
	}
	for m := event.Method(1); !strings.HasPrefix(m.String(), "method "); m++ {
		check.That(t, methods[m.String()], "the method %s of a response is in no list", m)
		delete(methods, m.String())
	}
	check.That(t, len(methods) == 0, "no response comes about by %v", methods)
}

// Each way to combine levels, and each population, that an estimate may name is in the lists.
func TestEstimates_AreAsDescribed(t *testing.T) {
	types := schemas()
	schema := types.Schema(reflect.TypeFor[api.Estimate](), true, "")
	closeWords(types)
	f := serving(t, Options{})
	for _, one := range []string{"17", "18"} {
		_, err := f.ledger.Raise(t.Context(), api.RaiseRequest{Key: "r" + one, Question: "vote", Epsilon: check.Eps(t, "1."+one[1:]), Objects: []string{one}, Truth: truthful})
		check.Must(t, err)
	}
	seen := map[string]bool{}
	for _, query := range []string{"&epsilon=1", "", "&pool=true", "&population=true"} {
		_, _, body := f.ask(asked{method: "GET", target: "/v1/estimate?question=vote" + query, role: "operator"})
		wantValid(t, types, schema, "an estimate", body)
		var e api.Estimate
		check.Must(t, json.Unmarshal([]byte(body), &e))
		seen[e.Method], seen[e.Covers] = true, true
	}
	for _, word := range append(keyWords()["Estimate.method"], keyWords()["Estimate.covers"]...) {
		check.That(t, seen[word], "no estimate is of the kind %s", word)
	}
}

// The schema of each kind of policy takes what package policy takes, and nothing else.
func TestPolicies_AreAsDescribed(t *testing.T) {
	page := check.Value(os.ReadFile("../../docs/reference/json.md"))(t)
	types := schemas()
	schema := types.Schema(reflect.TypeFor[policy.Policy](), true, "")
	seen := map[string]map[string]bool{}
	decoder := json.NewDecoder(strings.NewReader(strings.Join(blocks(string(page)), "\n")))
	for decoder.More() {
		var text json.RawMessage
		check.Must(t, decoder.Decode(&text))
		_, err := policy.Parse(text)
		check.Need(t, err == nil, "%s: %v", text, err)
		wantValid(t, types, schema, "a policy", string(text))
		var keys map[string]any
		check.Must(t, json.Unmarshal(text, &keys))
		kind := keys["kind"].(string)
		for key := range keys {
			if seen[kind] == nil {
				seen[kind] = map[string]bool{}
			}
			seen[kind][key] = true
		}
	}
	for _, kind := range policyKinds(t) {
		s := types.SchemaFromRef(types.Map()["Policy"].Discriminator.Mapping[kind])
		for key := range s.Properties {
			check.That(t, seen[kind][key],
				"the kind %s is described with %q, of which docs/reference/json.md has no example", kind, key)
		}
	}
}

// blocks returns what is in the blocks of JSON of a page that begin with a policy.
func blocks(page string) (all []string) {
	for _, part := range strings.Split(page, "```json\n")[1:] {
		if text, _, _ := strings.Cut(part, "```"); strings.HasPrefix(text, `{"kind"`) {
			all = append(all, text)
		}
	}
	return all
}

// Events of every kind, erased ones too, are as the document describes them: the golden log has all
// kinds.
func TestEvents_AreAsDescribed(t *testing.T) {
	types := schemas()
	schema := types.Schema(reflect.TypeFor[says.Event](), true, "")
	file := check.Value(os.ReadFile("../testdata/golden/events.jsonl"))(t)
	seen := map[string]bool{}
	for line := range strings.Lines(string(file)) {
		var event says.Event
		check.Must(t, json.Unmarshal([]byte(line), &event))
		seen[event.Kind()] = true
		wantValid(t, types, schema, event.Kind(), line)
		if _, erasable := leftOf(event.Says); erasable {
			event.Erased = true
			text, err := json.Marshal(says.Event{Number: event.Number, Time: event.Time, Erased: true, Says: emptyDetail(event.Kind())})
			check.Must(t, err)
			wantValid(t, types, schema, "erased "+event.Kind(), string(text))
		}
	}
	for _, kind := range eventKinds() {
		check.That(t, seen[kind], "no event of the kind %s was checked", kind)
	}
}

func emptyDetail(kind string) says.Detail {
	all := event.Details()
	return all[slices.IndexFunc(all, func(d says.Detail) bool { return d.Kind() == kind })]
}

// policyKinds returns the kinds that policy.Parse names where it refuses another one.
func policyKinds(t *testing.T) []string {
	t.Helper()
	_, err := policy.Parse([]byte(`{"kind":"?"}`))
	_, list, ok := strings.Cut(fmt.Sprint(err), "(known: ")
	check.Need(t, ok, "an unknown kind: %v", err)
	return strings.Split(strings.TrimSuffix(list, ")"), ", ")
}
