package ledgerhttp

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// keyOf returns the idempotency key of a request. The header holds a string of RFC 9651, "…", with
// \" and \\ for what is quoted; a display string, %"…", in which %c3%bc stands for ü; or the key as
// it is, if it begins with neither.
func keyOf(h http.Header) (string, *api.Problem) {
	bad := func(why string) (string, *api.Problem) {
		return "", problem.At(httpapi.KeyHeader, problem.Invalid, "%s", why)
	}
	given := h.Values(httpapi.KeyHeader)
	switch {
	case len(given) == 0 || given[0] == "":
		return bad("the header " + httpapi.KeyHeader + " is missing: give the id of your order, once for each")
	case len(given) > 1:
		return bad("the header " + httpapi.KeyHeader + " is there twice")
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
		return bad("the header " + httpapi.KeyHeader + " is no string of RFC 9651")
	}
	return key, nil
}

// unquote reads a string of RFC 9651.
func unquote(text string) (string, bool) {
	inner, isClosed := strings.CutSuffix(text[1:], `"`)
	rest := strings.ReplaceAll(strings.ReplaceAll(inner, `\\`, ""), `\"`, "") // without what is quoted
	isBare := !strings.ContainsFunc(rest, func(c rune) bool { return c == '\\' || c == '"' || c < ' ' || c > '~' })
	out := strings.ReplaceAll(strings.ReplaceAll(inner, `\\`, "\x00"), `\"`, `"`) // a bare string has no \x00
	return strings.ReplaceAll(out, "\x00", `\`), isClosed && isBare
}

// undisplay reads a display string of RFC 9651.
func undisplay(text string) (string, bool) {
	if len(text) < 3 || text[len(text)-1] != '"' || strings.Contains(text[2:len(text)-1], `"`) {
		return "", false
	}
	out, err := url.PathUnescape(text[2 : len(text)-1])
	return out, err == nil
}

// maxKey is the longest idempotency key of a ledger, in bytes.
const maxKey = 256

// The keys of desks begin so as the ledger has them: with the key itself behind it or, if both
// together are too long, with its hash.
const (
	deskKey       = roleDesk + "/"
	hashedDeskKey = roleDesk + "#"
)

// namespaced returns an idempotency key as the ledger gets it, in the namespace of the principal
// who sent it. A principal is a role and, of a buyer or a person, whose it is: all tokens of a
// principal share a namespace, so that a request can be repeated with another token. The operator
// is the host itself, and has the ledger's own keys.
func (h Holder) namespaced(key string) (string, error) {
	if err := ledger.CheckName("idempotency key", key); err != nil {
		return "", err
	}
	switch {
	case h.Role == roleOperator && (strings.HasPrefix(key, deskKey) || strings.HasPrefix(key, hashedDeskKey)):
		const what = "the idempotency key %q: keys that begin with %q or %q are those of desks"
		return "", problem.At(httpapi.KeyHeader, problem.Invalid, what, key, deskKey, hashedDeskKey)
	case h.Role == roleOperator:
		return key, nil
	case h.Role == roleDesk && len(deskKey)+len(key) <= maxKey:
		return deskKey + key, nil
	case h.Role == roleDesk:
		return hashedDeskKey + hashed(key), nil
	}
	// A name has no zero byte: so no two principals and keys have the same hash.
	return h.Role + "/" + hashed(h.Whom+"\x00"+key), nil
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// shownKey returns an idempotency key of the ledger as the holder may see it: its own as it was
// sent, and no other, but for those who may read everything.
func (c *call) shownKey(key string) string {
	if key == c.key {
		return c.given
	}
	if c.holder.Role == roleOperator || c.holder.Role == roleAuditor {
		return key
	}
	if own, is := strings.CutPrefix(key, deskKey); is && c.holder.Role == roleDesk {
		return own
	}
	return ""
}

// keyed returns the problem of a request with its idempotency key as it was sent.
func (c *call) keyed(p *api.Problem) *api.Problem {
	if p.Kind != problem.KeyConflict || p.Key != c.key || c.key == c.given {
		return p
	}
	shown := *p
	shown.Key = c.given
	shown.Detail = (&api.KeyConflictError{Key: c.given, Field: p.Field}).Error()
	return &shown
}
