package ledgerhttp

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/internal/api"
	"github.com/sluicedp/sluice/ledger/problem"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/rrchain/finite"

	"golang.org/x/mod/sumdb/tlog"
)

// openAPI describes routes, in the form of OpenAPI 3.1. The schemas are those of the types that are read and written.
func openAPI(all []route) ([]byte, error) {
	types := schemas()
	out := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Sluice: a privacy-budget ledger", Version: "1",
			Description: "ε are exact decimals in strings, prices integers in minor units of the currency, times RFC 3339. Errors are problems by RFC 9457. Requests that change something take an idempotency key: the same request with the same key does nothing twice. With a buyer's token, sales and reservations have the buyer's own numbers, and what depends on others is 0 or left out.",
		},
		Components: &huma.Components{Schemas: types, SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}},
		Security:   []map[string][]string{{"token": {}}},
	}
	for _, r := range all {
		out.AddOperation(operation(&r, types))
	}
	for _, schema := range types.Map() {
		neverNull(schema)
	}
	return json.Marshal(out)
}

// neverNull takes back what is said of lists by default, that they may be null: those of answers are there, if empty, and those of requests are left
// out. Who generates types from the document would have to ask of each list whether it is one.
func neverNull(s *huma.Schema) {
	if s == nil {
		return
	}
	s.Nullable = false
	neverNull(s.Items)
	for _, property := range s.Properties {
		neverNull(property)
	}
}

// anEvent is what all events have in common. Each kind has keys of its own besides.
type anEvent struct {
	_      struct{}  `additionalProperties:"true"`
	Number uint64    `json:"event" doc:"Its number: the first is 1, and none is left out."`
	Time   time.Time `json:"time" doc:"When it was committed."`
	Kind   string    `json:"kind" doc:"What it says: docs/reference/file-format.md has the kinds, and their keys. Later versions may add some."`
	Erased bool      `json:"erased,omitempty" doc:"It was about somebody who is forgotten, and does not say any more what."`
}

// aPolicy is what all policies have in common. Each kind has keys of its own besides.
type aPolicy struct {
	_    struct{} `additionalProperties:"true"`
	Kind string   `json:"kind" doc:"How it rises: docs/reference/json.md has the kinds, and their keys."`
}

// schemas returns a registry that knows the types that are written otherwise than they are made.
func schemas() huma.Registry {
	types := huma.NewMapRegistry("#/components/schemas/", func(t reflect.Type, hint string) string {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t {
		case reflect.TypeFor[ledger.Problem]():
			return "Difference"
		case reflect.TypeFor[anEvent]():
			return "Event"
		case reflect.TypeFor[aPolicy]():
			return "Policy"
		}
		return huma.DefaultSchemaNamer(t, hint)
	})
	types.RegisterTypeAlias(reflect.TypeFor[policy.Policy](), reflect.TypeFor[aPolicy]())
	types.RegisterTypeAlias(reflect.TypeFor[ledger.Event](), reflect.TypeFor[anEvent]())
	types.RegisterTypeAlias(reflect.TypeFor[finite.Family](), reflect.TypeFor[map[string]any]())
	types.RegisterTypeAlias(reflect.TypeFor[tlog.Hash](), reflect.TypeFor[string]())
	return types
}

// operation describes a route.
func operation(r *route, types huma.Registry) *huma.Operation {
	op := &huma.Operation{
		OperationID: r.id, Method: r.method, Path: r.path, Summary: r.summary,
		Description: "For " + roleList(r.roles) + ".",
		Responses:   map[string]*huma.Response{},
		Extensions:  map[string]any{"x-roles": r.roles},
	}
	for _, name := range placeholders.FindAllStringSubmatch(r.path, -1) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64"}})
	}
	for _, p := range r.params {
		op.Parameters = append(op.Parameters, &huma.Param{Name: p.name, In: "query", Required: p.needed, Description: p.doc, Schema: p.schema()})
	}
	if r.keyed {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: api.KeyHeader, In: "header", Required: true, Description: "the idempotency key, such as the id of your order: 1 to 256 bytes", Schema: &huma.Schema{Type: huma.TypeString},
		})
	}
	if slices.Contains(r.media, api.Stream) {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: lastEvent, In: "header", Description: "the number of the last event that was read: a stream goes on behind it", Schema: &huma.Schema{Type: huma.TypeString},
		})
	}
	if r.in != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: types.Schema(r.in, true, r.id)}}}
	}
	content := map[string]*huma.MediaType{}
	for _, media := range r.media {
		content[media] = &huma.MediaType{Schema: r.schema(media, types)}
	}
	done := "done"
	if slices.Contains(r.media, api.Lines) {
		done = `JSON objects, one a line, each as described; the last line is {"end":true}, and without it something is missing`
	}
	op.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{Description: done, Content: content}
	op.Responses["default"] = &huma.Response{
		Description: "a problem", Content: map[string]*huma.MediaType{problem.ContentType: {Schema: types.Schema(reflect.TypeFor[problem.Problem](), true, "")}},
	}
	return op
}

// placeholders finds the numbers in a path.
var placeholders = regexp.MustCompile(`\{(\w+)\}`)

// schema returns that of the result in a media type; of a list, that of an item.
func (r *route) schema(media string, types huma.Registry) *huma.Schema {
	switch {
	case r.out == reflect.TypeFor[document]() && media == "application/json":
		return &huma.Schema{Type: huma.TypeObject}
	case r.out == reflect.TypeFor[document](), r.out == reflect.TypeFor[metering](), media == api.Stream:
		return &huma.Schema{Type: huma.TypeString}
	case media == "application/octet-stream":
		return &huma.Schema{Type: huma.TypeString, Format: "binary"}
	}
	return types.Schema(r.out, true, r.id)
}

func (p param) schema() *huma.Schema {
	switch p.kind {
	case "number":
		return &huma.Schema{Type: huma.TypeInteger, Format: "int64"}
	case "share":
		return &huma.Schema{Type: huma.TypeNumber}
	case "flag":
		return &huma.Schema{Type: huma.TypeBoolean}
	}
	return &huma.Schema{Type: huma.TypeString}
}

func roleList(roles []Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}
