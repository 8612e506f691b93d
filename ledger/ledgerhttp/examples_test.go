package ledgerhttp

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluicedp/sluice/internal/httpapi"
)

// examplesFile has an example of each operation, with the answer of a real ledger. A test writes
// it, and runs each of them.
const examplesFile = "testdata/examples.json"

// example is a request, and how it was answered.
type example struct {
	Target string          `json:"target"`           // the path and the query
	Key    string          `json:"key,omitempty"`    // the idempotency key
	Body   json.RawMessage `json:"body,omitempty"`   // of the request
	Answer json.RawMessage `json:"answer,omitempty"` // the result; of a text, as a string; none if it is no text
}

// examples are examples by the id of their route.
type examples map[string]example

func readExamples() (examples, error) {
	text, err := os.ReadFile(examplesFile)
	if err != nil {
		return nil, err
	}
	var all examples
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("ledgerhttp: the examples of the API: %w", err)
	}
	return all, nil
}

// addTo adds the example of a route to its operation.
func (e examples) addTo(op *huma.Operation, r *route) {
	one := e[r.id]
	if op.RequestBody != nil && one.Body != nil {
		op.RequestBody.Content["application/json"].Example = one.Body
	}
	if one.Answer != nil {
		op.Responses["200"].Content[r.media[0]].Example = one.Answer
	}
	query := url.Values{}
	if at, err := url.Parse(one.Target); err == nil {
		query = at.Query()
	}
	for _, p := range op.Parameters {
		switch {
		case p.In == "header" && p.Name == httpapi.KeyHeader:
			p.Example = httpapi.QuotedKey(one.Key)
		case p.In == "query" && query.Has(p.Name) && p.Schema.Type == huma.TypeString:
			p.Example = query.Get(p.Name)
		}
	}
}
