package policy

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// writer writes the canonical JSON of one rule: no space, the fields in a fixed order, numbers and
// times in their shortest form.
type writer struct{ buf []byte }

// canonical returns the canonical JSON of a rule.
func canonical(r rule) string {
	w := &writer{[]byte("{")}
	w.text("kind", r.kind())
	r.write(w)
	return string(append(w.buf, '}'))
}

// raw appends text as it is.
func (w *writer) raw(text string) { w.buf = append(w.buf, text...) }

func (w *writer) name(name string) {
	if len(w.buf) > 1 {
		w.raw(",")
	}
	w.raw(quote(name) + ":")
}

func (w *writer) text(name, value string) {
	w.name(name)
	w.raw(quote(value))
}

func (w *writer) epsilon(name string, e privacy.Epsilon)     { w.text(name, e.String()) }
func (w *writer) instant(name string, at instant)            { w.text(name, at.String()) }
func (w *writer) duration(name string, length time.Duration) { w.text(name, length.String()) }

func (w *writer) integer(name string, n int64) {
	w.name(name)
	w.buf = strconv.AppendInt(w.buf, n, 10)
}

// list writes n elements, each by a call of element.
func (w *writer) list(name string, n int, element func(i int)) {
	w.name(name)
	w.raw("[")
	for i := range n {
		if i > 0 {
			w.raw(",")
		}
		element(i)
	}
	w.raw("]")
}

// names writes a list of texts, unless it is empty.
func (w *writer) names(name string, names []string) {
	if len(names) > 0 {
		w.list(name, len(names), func(i int) { w.raw(quote(names[i])) })
	}
}

// quote returns text as a JSON string. It escapes what [json.Marshal] does: a policy inside
// somebody else's JSON then keeps its canonical bytes.
func quote(text string) string {
	if !strings.ContainsFunc(text, needsEscape) {
		return `"` + text + `"`
	}
	quoted, _ := json.Marshal(text) // no string is refused
	return string(quoted)
}

// needsEscape tells whether [json.Marshal] may write a rune of a string in another way than as it
// is.
func needsEscape(r rune) bool {
	return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
}

// String returns the instant in RFC 3339, in UTC, with as many decimals as it needs.
func (x instant) String() string { return x.time().Format(time.RFC3339Nano) }
