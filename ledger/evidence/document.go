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

// smallestItem is less than the bytes that a response or an event takes in a document. It keeps a
// hostile one from asking for much more memory than it has bytes.
const smallestItem = 64

// items reads a long list.
type items[T any] struct{ list []T }

// UnmarshalJSON implements [json.Unmarshaler]. It stops at the first fault, unlike the package
// json.
func (l *items[T]) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(err, errors.New("a list is expected"))
	}
	l.list = []T{}
	for d.More() {
		if int64(len(l.list))*smallestItem > d.InputOffset() {
			return fmt.Errorf("item %d of a list: those before it are too short", len(l.list)+1)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return fmt.Errorf("item %d of a list: %w", len(l.list)+1, err)
		}
		l.list = append(l.list, one)
	}
	return nil
}

// readDocument reads one JSON object into a document, and holds it against what the document is
// written as: of each there is one form only, to the byte.
func readDocument(what string, data []byte, into any, document func() any) error {
	if len(data) > event.MaxDocument {
		return errs.Invalid("the %s has %d bytes; at most %d are read", what, len(data), event.MaxDocument)
	}
	if err := json.Unmarshal(data, &struct{}{}); err != nil { // takes no memory, so that what is no JSON takes none
		return errs.Invalid("the %s: %w%s", what, err, offset(err))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return errs.Invalid("the %s: %w", what, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errs.Invalid("the %s is followed by something", what)
	}
	written, err := json.Marshal(document())
	if err != nil {
		return errs.Invalid("the %s: %w", what, err)
	}
	if at := firstDifference(data, written); at >= 0 {
		return errs.Invalid("the %s is not written as a ledger writes it, in one line without spaces or an end: "+
			"from byte %d on it is %q where there should be %q", what, at, excerpt(data, at), excerpt(written, at))
	}
	return nil
}

// present returns a list that is written as one, also if it is empty.
func present[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// offset returns where JSON has a fault of syntax, for an error; "" for another fault.
func offset(err error) string {
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Sprintf(" (byte %d)", syntax.Offset)
	}
	return ""
}

// sameText refuses a value that is written otherwise than it should be.
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
		const before = 20 // bytes to show of what is the same
		from := max(0, at-before)
		return fmt.Errorf("%q where there should be %q", excerpt(is, from), excerpt(wanted, from))
	}
	return nil
}

// firstDifference returns where two texts begin to differ, or -1.
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

// excerpt returns the beginning of a text from a place on, for an error.
func excerpt(text []byte, from int) []byte {
	const most = 40
	return text[from:min(from+most, len(text))]
}

// aboutOf returns what the head of a document says of the ledger.
func aboutOf(ledger string, created time.Time, currency, logKey string) (event.About, error) {
	id, err := uuid.Parse(ledger)
	if err == nil && id.String() != ledger {
		err = fmt.Errorf("%q is no UUID in the usual form", ledger)
	}
	return event.About{Created: event.Created{ID: id, Currency: currency, LogKey: logKey}, At: created}, err
}
