package ledgerhttp

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// documentPath is the path of the API document.
const documentPath = "/openapi.json"

// documentText is the API document. A test generates it from the table of routes and from the
// types that the routes read and write. The test fails if this file differs.
//
//go:embed openapi.json
var documentText []byte

// description is the API document in the form that is served. Any caller may read it, because it
// contains nothing about the ledger.
type description struct {
	text []byte // without white space
	tag  string // the entity tag (ETag) of the text
}

// newDescription returns the embedded API document without white space, and its tag.
func newDescription() (description, error) {
	var text bytes.Buffer
	if err := json.Compact(&text, documentText); err != nil {
		return description{}, fmt.Errorf("ledgerhttp: the API document: %w", err)
	}
	return description{text.Bytes(), `"` + hashText(text.String()) + `"`}, nil
}

// serveDocument sends the API document. It allows little more time than the slowest permitted
// reader needs, and then closes the connection, because the caller may have no token. If the client
// does not read, the write fails and the answer ends.
func (h *Handler) serveDocument(w http.ResponseWriter, r *http.Request) {
	out := newWriter(w, h.limits)
	out.shortenDeadline() // a reader may be late by lingerTime at most, instead of by Limits.Write
	w.Header().Set("Connection", "close")
	w.Header().Set("Cache-Control", "no-cache") // clients may cache it, and revalidate it by its tag
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", h.document.tag)
	r.Header.Del("Range") // the document is always sent whole
	// without a file name, and without a modification time: clients revalidate by the tag
	http.ServeContent(out, r, "", time.Time{}, bytes.NewReader(h.document.text))
}
