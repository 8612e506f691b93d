package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// smallestItem is less than the bytes of any response or event in a document. It stops a hostile
// document from using far more memory than it has bytes.
const smallestItem = 64

// items decodes a long list, with a limit on memory.
type items[T any] struct{ list []T }

// UnmarshalJSON implements [json.Unmarshaler]. Unlike encoding/json, it stops at the first fault,
// and refuses more items than can be in the bytes read so far.
func (l *items[T]) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(err, errors.New("a list is expected"))
	}
	l.list = []T{}
	for d.More() {
		if int64(len(l.list))*smallestItem > d.InputOffset() {
			return fmt.Errorf("item %d of a list: the items before it are too short", len(l.list)+1)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return fmt.Errorf("item %d of a list: %w", len(l.list)+1, err)
		}
		l.list = append(l.list, one)
	}
	return nil
}

// readDocument decodes one JSON object, and returns [errs.ErrInvalid] for any other text than a
// ledger writes. what names the document in errors. into points to the memory for decoding.
//
// After decoding, document returns the value of the document. readDocument encodes it again and
// compares the bytes, because each document has exactly one encoding.
func readDocument(what string, data []byte, into any, document func() any) error {
	if len(data) > event.MaxDocument {
		return errs.Invalid("the %s has %d bytes; at most %d are read", what, len(data), event.MaxDocument)
	}
	// this pass allocates nothing, so that invalid JSON needs no memory
	if err := json.Unmarshal(data, &struct{}{}); err != nil {
		return errs.Invalid("the %s: %w%s", what, err, offset(err))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return errs.Invalid("the %s: %w", what, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errs.Invalid("the %s is followed by other data", what)
	}
	written, err := json.Marshal(document())
	if err != nil {
		return errs.Invalid("the %s: %w", what, err)
	}
	if at := firstDifference(data, written); at >= 0 {
		return errs.Invalid("the %s is not written as a ledger writes it, in one line without spaces or a newline: "+
			"from byte %d on it has %q instead of %q", what, at, excerpt(data, at), excerpt(written, at))
	}
	return nil
}

// present returns a list that is encoded as [] when it is empty, and not as null.
func present[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// offset returns the position of a JSON syntax error as the end of an error text, or "" for another
// error.
func offset(err error) string {
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Sprintf(" (byte %d)", syntax.Offset)
	}
	return ""
}

// sameText returns an error if the JSON of got differs from that of want. The error shows both from
// shortly before the difference.
func sameText(want, got any) error {
	wanted, err := json.Marshal(want)
	if err != nil {
		return err
	}
	is, err := json.Marshal(got)
	if err != nil {
		return err
	}
	if at := firstDifference(is, wanted); at >= 0 {
		const before = 20 // shown bytes before the difference
		from := max(0, at-before)
		return fmt.Errorf("%q instead of %q", excerpt(is, from), excerpt(wanted, from))
	}
	return nil
}

// firstDifference returns the index at which two texts begin to differ, or -1 if they are equal. If
// one is the beginning of the other, it is the length of the shorter one.
func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// excerpt returns at most 40 bytes of a text, from an index on, for an error text.
func excerpt(text []byte, from int) []byte {
	const most = 40
	return text[from:min(from+most, len(text))]
}

// aboutOf returns the data of the ledger in the head of a document. ledger is the text of its ID.
// If that is not a UUID in its standard form, it returns an error, and the data with what could be
// read.
func aboutOf(ledger string, created time.Time, currency, logKey string) (event.About, error) {
	id, err := uuid.Parse(ledger)
	if err == nil && id.String() != ledger {
		err = fmt.Errorf("%q is not a UUID in its standard form", ledger)
	}
	return event.About{Created: event.Created{ID: id, Currency: currency, LogKey: logKey}, At: created}, err
}
