package ledgerhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// The groups of routes.
const (
	tagHost     = "host"
	tagMarket   = "market"
	tagEvidence = "evidence"
)

// tagOf returns the group that a route is in.
func tagOf(r *route) string {
	for tag, group := range map[string][]route{tagHost: hostRoutes(), tagMarket: marketRoutes(), tagEvidence: evidenceRoutes()} {
		if slices.ContainsFunc(group, func(other route) bool { return other.id == r.id }) {
			return tag
		}
	}
	return ""
}

// openAPI describes routes, in the form of OpenAPI 3.1. The schemas are those of the types that are
// read and written.
func openAPI(all []route) ([]byte, error) {
	given, err := readExamples()
	if err != nil {
		return nil, err
	}
	types := schemas()
	closed(types, "Role", "Who may do what: x-roles of an operation has those who may.", httpapi.Roles())
	out := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Sluice: a privacy-budget ledger", Version: "1",
			Description: "ε are exact decimals in strings, prices integers in minor units of the currency, times RFC 3339. " +
				"Errors are problems by RFC 9457. Requests that change something take an idempotency key: the same request " +
				"with the same key does nothing twice. Lists are read in parts, by limit and after, or with Accept: " +
				httpapi.Lines + " as a stream. With a buyer's token, sales and reservations have the buyer's own numbers, and " +
				"what depends on others is 0 or left out.",
		},
		Components: &huma.Components{Schemas: types, SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}},
		Security:   []map[string][]string{{"token": {}}},
		Tags: []*huma.Tag{
			{Name: tagHost, Description: "What the host asks: questions, people and their terms, releases and answers."},
			{Name: tagMarket, Description: "What buyers ask, and those who sell to them: quotes, sales, reservations."},
			{Name: tagEvidence, Description: "What is proven, listed, verified and copied, and the server itself."},
		},
	}
	for _, r := range all {
		op := operation(&r, types)
		given.addTo(op, &r)
		out.AddOperation(op)
	}
	out.AddOperation(describes())
	open(types.Map(), out.Paths)
	if err := describeKeys(types.Map()); err != nil {
		return nil, err
	}
	for _, schema := range types.Map() {
		neverNull(schema)
	}
	return json.Marshal(out)
}

// descriptionsFile has what the document says of the keys of schemas, by schema and key.
const descriptionsFile = "testdata/descriptions.json"

func describeKeys(all map[string]*huma.Schema) error {
	text, err := os.ReadFile(descriptionsFile)
	if err != nil {
		return err
	}
	var descriptions map[string]map[string]string
	if err := json.Unmarshal(text, &descriptions); err != nil {
		return err
	}
	for name, keys := range descriptions {
		for key, description := range keys {
			if all[name] == nil || all[name].Properties[key] == nil {
				return fmt.Errorf("%s describes %s.%s, which there is not", descriptionsFile, name, key)
			}
			all[name].Properties[key].Description = description
		}
	}
	return nil
}

// describes is the operation that returns the document. It needs no token.
func describes() *huma.Operation {
	return &huma.Operation{
		OperationID: "openAPI", Method: http.MethodGet, Path: documentPath, Summary: "Describe this API", Tags: []string{tagEvidence},
		Description: "For everybody, without a token.", Security: []map[string][]string{{}}, Extensions: map[string]any{"x-roles": httpapi.Roles()},
		Responses: map[string]*huma.Response{
			"200": {
				Description: "this document",
				Headers:     map[string]*huma.Param{"ETag": {Description: "for If-None-Match", Schema: &huma.Schema{Type: huma.TypeString}}},
				Content: map[string]*huma.MediaType{
					"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}, Example: json.RawMessage(`{"openapi":"3.1.0"}`)},
				},
			},
			"304": {Description: "the document has not changed"},
		},
	}
}

// operation describes a route.
func operation(r *route, types huma.Registry) *huma.Operation {
	op := &huma.Operation{
		OperationID: r.id, Method: r.method, Path: r.path, Summary: r.summary, Tags: []string{tagOf(r)},
		Description: "For " + roleList(r.roles) + "." + r.details(),
		Parameters:  r.parameters(),
		Responses:   r.failures(types),
		Extensions:  map[string]any{"x-roles": r.roles},
	}
	if r.in != nil {
		content := map[string]*huma.MediaType{"application/json": {Schema: types.Schema(r.in, true, r.id)}}
		op.RequestBody = &huma.RequestBody{Required: true, Content: content}
	}
	content := map[string]*huma.MediaType{r.media[0]: {Schema: r.schema(r.media[0], types)}}
	op.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{Description: "done", Content: content, Headers: map[string]*huma.Param{
		httpapi.EventHeader: {
			Description: "of a standby only: the number of the event as of which it answers",
			Schema:      &huma.Schema{Type: huma.TypeInteger, Format: "int64"},
		},
	}}
	r.describeStreams(op, types)
	closeWords(types)
	return op
}

// describeStreams describes the other media types of a result. They are no content of the response:
// a generated client would not know which of them its result has.
func (r *route) describeStreams(op *huma.Operation, types huma.Registry) {
	if len(r.media) == 1 {
		return
	}
	streams := map[string]*huma.Schema{}
	for _, media := range r.media[1:] {
		streams[media] = r.schema(media, types)
	}
	op.Extensions["x-streams"] = streams
}

// details says what the schema of a result cannot say.
func (r *route) details() string {
	text := ""
	if r.item != nil {
		text += " A part of the list has next unless it was the last. With Accept: " + httpapi.Lines +
			" all items come as a stream, one a line, each as in items; the last line is {\"end\":true}, and without it " +
			"something is missing."
	}
	if slices.Contains(r.media, httpapi.Stream) {
		text += " With Accept: " + httpapi.Stream +
			" events come as they happen, from the number from on; the id of each is its number."
	}
	switch r.id {
	case "receipt", "statement":
		text += " It is a document of its own, which is verified byte by byte, without the ledger: keep the body as it came, " +
			"and do not write it again."
	case "checkpoint":
		text += " It is a signed note (golang.org/x/mod/sumdb/note): three lines with the origin of the log, its size, and the " +
			"root of its tree in base64; an empty line; and a line for each signature."
	}
	return text
}

// placeholders finds the numbers in a path.
var placeholders = regexp.MustCompile(`\{(\w+)\}`)

// parameters describes those in the path, the query and the header.
func (r *route) parameters() (all []*huma.Param) {
	for _, name := range placeholders.FindAllStringSubmatch(r.path, -1) {
		number := &huma.Schema{Type: huma.TypeInteger, Format: "int64"}
		all = append(all, &huma.Param{Name: name[1], In: "path", Required: true, Schema: number})
	}
	for _, p := range r.params {
		all = append(all, &huma.Param{Name: p.name, In: "query", Required: p.isRequired, Description: p.doc, Schema: p.schema()})
	}
	if r.needsKey {
		all = append(all, &huma.Param{
			Name: httpapi.KeyHeader, In: "header", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
			Description: "the idempotency key, such as the id of your order: 1 to 256 bytes, as a string of RFC 9651 or bare. " +
				"Each principal has a namespace of its own",
		})
	}
	if slices.Contains(r.media, httpapi.Stream) {
		all = append(all, &huma.Param{
			Name: lastEvent, In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "the number of the last event that was read: a stream goes on after it",
		})
	}
	return all
}

// schema returns that of the result in a media type; of a stream, that of an item.
func (r *route) schema(media string, types huma.Registry) *huma.Schema {
	switch {
	case media == httpapi.Lines, media == httpapi.Stream:
		return types.Schema(r.item, true, r.id)
	case media == "application/octet-stream":
		return &huma.Schema{Type: huma.TypeString, Format: "binary"}
	case media != "application/json":
		return &huma.Schema{Type: huma.TypeString}
	}
	return types.Schema(r.out, true, r.id)
}

func (p param) schema() *huma.Schema {
	word := &huma.Schema{Type: huma.TypeString, Enum: anys(p.words)}
	switch p.kind {
	case "number":
		return &huma.Schema{Type: huma.TypeInteger, Format: "int64"}
	case "limit":
		least, most := 1.0, float64(maxLimit)
		return &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: defaultLimit}
	case "share":
		return &huma.Schema{Type: huma.TypeNumber}
	case "flag":
		return &huma.Schema{Type: huma.TypeBoolean}
	case "time":
		return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	case "word":
		return word
	case "words":
		return &huma.Schema{Type: huma.TypeArray, Items: word}
	}
	return &huma.Schema{Type: huma.TypeString}
}

// failures describes the problems that a route may answer with, by status.
func (r *route) failures(types huma.Registry) map[string]*huma.Response {
	all := map[string]*huma.Response{}
	for status, kinds := range r.problems() {
		var titles []string
		for _, kind := range kinds {
			titles = append(titles, problem.New(kind, "").Title)
		}
		all[strconv.Itoa(status)] = &huma.Response{
			Description: strings.Join(titles, "; "), Headers: headersOf(status),
			Content: map[string]*huma.MediaType{problem.ContentType: {Schema: r.problemSchema(types, status, kinds)}},
		}
	}
	return all
}

// headersOf describes the headers of problems with a status.
func headersOf(status int) map[string]*huma.Param {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		const doc = "after how many seconds the request may be repeated"
		return map[string]*huma.Param{"Retry-After": {Description: doc, Required: true, Schema: &huma.Schema{Type: huma.TypeInteger}}}
	case http.StatusUnauthorized:
		return map[string]*huma.Param{"WWW-Authenticate": {Description: "Bearer", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}}
	}
	return nil
}

// problemSchema refers to the schema of a problem with one of some kinds. Those that several routes
// share have one schema.
func (r *route) problemSchema(types huma.Registry, status int, kinds []string) *huma.Schema {
	name := "Problem" + strconv.Itoa(status)
	if shared := (&route{method: http.MethodPost, needsKey: true}).problems(); !slices.Equal(kinds, shared[status]) {
		name += camel(r.id)
	}
	return component(types, name, func() *huma.Schema {
		return &huma.Schema{AllOf: []*huma.Schema{types.Schema(reflect.TypeFor[api.Problem](), true, ""), {
			Type: huma.TypeObject, Required: []string{"status", "kind"}, Properties: map[string]*huma.Schema{
				"status": {Type: huma.TypeInteger, Enum: []any{float64(status)}}, // as JSON has it
				"kind":   {Type: huma.TypeString, Enum: anys(texts(kinds))},
			},
		}}}
	})
}

func roleList(roles []string) string { return strings.Join(roles, ", ") }
