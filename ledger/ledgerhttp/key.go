package ledgerhttp

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/api"
	"github.com/sluicedp/sluice/ledger/problem"
)

// keyOf returns the idempotency key of a request. The header holds a string of RFC 9651, "…", with \" and \\ for what is quoted; a
// display string, %"…", in which %c3%bc stands for ü; or the key as it is, if it begins with neither.
func keyOf(h http.Header) (string, *problem.Problem) {
	bad := func(why string) (string, *problem.Problem) {
		return "", problem.New(problem.Invalid, "%s", why).At(api.KeyHeader)
	}
	given := h.Values(api.KeyHeader)
	switch {
	case len(given) == 0 || given[0] == "":
		return bad("the header " + api.KeyHeader + " is missing: give the id of your order, once for each")
	case len(given) > 1:
		return bad("the header " + api.KeyHeader + " is there twice")
	}
	text := given[0]
	key, ok := text, true
	switch {
	case strings.HasPrefix(text, `"`):
		key, ok = unquote(text)
	case strings.HasPrefix(text, `%"`):
		key, ok = undisplay(text)
	}
	if !ok {
		return bad("the header " + api.KeyHeader + " is no string of RFC 9651")
	}
	return key, nil
}

// unquote reads a string of RFC 9651.
func unquote(text string) (string, bool) {
	if len(text) < 2 || text[len(text)-1] != '"' {
		return "", false
	}
	var out strings.Builder
	inner := text[1 : len(text)-1]
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '\\' && i+1 < len(inner) && (inner[i+1] == '"' || inner[i+1] == '\\'):
			i++
			out.WriteByte(inner[i])
		case c == '\\' || c == '"' || c < ' ' || c > '~':
			return "", false
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), true
}

// undisplay reads a display string of RFC 9651.
func undisplay(text string) (string, bool) {
	if len(text) < 3 || text[len(text)-1] != '"' || strings.Contains(text[2:len(text)-1], `"`) {
		return "", false
	}
	out, err := url.PathUnescape(text[2 : len(text)-1])
	return out, err == nil
}
