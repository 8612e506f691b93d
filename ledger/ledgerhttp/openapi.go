package ledgerhttp

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// documentPath is where the document of the API is served.
const documentPath = "/openapi.json"

// documentText is the document of the API. A test makes it from the table of routes and the types
// that are read and written, and fails if this file has anything else.
//
//go:embed openapi.json
var documentText []byte

// description is the document of the API. Any caller may read it: it says nothing of a ledger.
type description struct {
	text []byte // without white space
	tag  string // the entity tag of the text
}

func newDescription() (description, error) {
	var text bytes.Buffer
	if err := json.Compact(&text, documentText); err != nil {
		return description{}, fmt.Errorf("ledgerhttp: the document of the API: %w", err)
	}
	return description{text.Bytes(), `"` + hashed(text.String()) + `"`}, nil
}

// describe sends the document of the API. It has little time beyond what the slowest reader takes,
// and the connection ends with it: whoever reads it need not have a token.
func (h *Handler) describe(w http.ResponseWriter, r *http.Request) {
	out := newWriter(w, h.limits)
	out.hurry()
	w.Header().Set("Connection", "close")
	w.Header().Set("Cache-Control", "no-cache") // it may be kept, and is compared by its tag
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", h.document.tag)
	r.Header.Del("Range") // a part of it is of no use
	// A client that does not read it gets no more of it.
	http.ServeContent(out, r, "", time.Time{}, bytes.NewReader(h.document.text))
}
