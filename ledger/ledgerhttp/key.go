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

// keyOf returns the idempotency key in the header of a request. It returns a problem if the header
// is missing, occurs twice, or has none of these three forms:
//
//   - a string of RFC 9651, "…", with \" and \\ as escapes
//   - a display string of RFC 9651, %"…", with %c3%bc for ü
//   - the key itself, if it begins with neither " nor %"
func keyOf(h http.Header) (string, *api.Problem) {
	bad := func(why string) (string, *api.Problem) {
		return "", problem.At(httpapi.KeyHeader, problem.Invalid, "%s", why)
	}
	given := h.Values(httpapi.KeyHeader)
	switch {
	case len(given) == 0 || given[0] == "":
		return bad("the header " + httpapi.KeyHeader + " is missing: use a new id for each, such as that of your order")
	case len(given) > 1:
		return bad("the header " + httpapi.KeyHeader + " occurs twice")
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
		return bad("the header " + httpapi.KeyHeader + " is not a string of RFC 9651")
	}
	return key, nil
}

// unquote decodes a string of RFC 9651 that begins with a quotation mark, and returns false if it
// is not valid. A valid string has only printable ASCII, and \ only as the beginning of \\ or \".
func unquote(text string) (string, bool) {
	inner, isClosed := strings.CutSuffix(text[1:], `"`)
	rest := strings.ReplaceAll(strings.ReplaceAll(inner, `\\`, ""), `\"`, "") // without escapes
	isBare := !strings.ContainsFunc(rest, func(c rune) bool { return c == '\\' || c == '"' || c < ' ' || c > '~' })
	// \\ is first replaced by a zero byte, so that its second \ does not begin another escape. A
	// valid string has no zero byte of its own.
	out := strings.ReplaceAll(strings.ReplaceAll(inner, `\\`, "\x00"), `\"`, `"`)
	return strings.ReplaceAll(out, "\x00", `\`), isClosed && isBare
}

// undisplay decodes a display string of RFC 9651 that begins with %" and returns false if it is not
// valid. It also accepts hexadecimal digits in upper case, which the RFC does not allow.
func undisplay(text string) (string, bool) {
	if len(text) < 3 || text[len(text)-1] != '"' || strings.Contains(text[2:len(text)-1], `"`) {
		return "", false
	}
	out, err := url.PathUnescape(text[2 : len(text)-1])
	return out, err == nil
}

// maxKey is the maximum length of an idempotency key of a ledger, in bytes.
const maxKey = 256

// Keys of desks in the ledger begin with one of these prefixes. The key follows deskKey. If both
// together are longer than maxKey, the hash of the key follows hashedDeskKey.
const (
	deskKey       = roleDesk + "/"
	hashedDeskKey = roleDesk + "#"
)

// namespaced returns the idempotency key under which the ledger records a request of this holder
// with the given key. Each buyer and each person has a namespace of keys, and so has each other
// role. All tokens with the same namespace share it, so that a request can be repeated with another
// token. The operator is the host itself, and uses the ledger's own keys.
//
// It returns an error if the key is not a valid name. It also returns an error if an operator's key
// begins with a prefix that is reserved for desks.
func (h Holder) namespaced(key string) (string, error) {
	if err := ledger.CheckName("idempotency key", key); err != nil {
		return "", err
	}
	switch {
	case h.Role == roleOperator && (strings.HasPrefix(key, deskKey) || strings.HasPrefix(key, hashedDeskKey)):
		const what = "the idempotency key %q: keys that begin with %q or %q are reserved for desks"
		return "", problem.At(httpapi.KeyHeader, problem.Invalid, what, key, deskKey, hashedDeskKey)
	case h.Role == roleOperator:
		return key, nil
	case h.Role == roleDesk && len(deskKey)+len(key) <= maxKey:
		return deskKey + key, nil
	case h.Role == roleDesk:
		return hashedDeskKey + hashText(key), nil
	}
	// A name has no zero byte, so the hashed texts of two principals or keys always differ.
	return h.Role + "/" + hashText(h.Whom+"\x00"+key), nil
}

// hashText returns the SHA-256 of a text in hexadecimal digits.
func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// shownKey returns an idempotency key of the ledger as the holder may see it. The key of this very
// request is shown as the holder sent it. Operators and auditors see all keys. Desks also see the
// unhashed keys of desks, without the prefix. Otherwise the result is "".
func (c *call) shownKey(key string) string {
	if key == c.key {
		return c.givenKey
	}
	if c.holder.Role == roleOperator || c.holder.Role == roleAuditor {
		return key
	}
	if own, is := strings.CutPrefix(key, deskKey); is && c.holder.Role == roleDesk {
		return own
	}
	return ""
}

// withGivenKey returns the problem of a key conflict with the idempotency key as the caller sent
// it, instead of the key that the ledger records. Other problems are returned as they are.
func (c *call) withGivenKey(p *api.Problem) *api.Problem {
	if p.Kind != problem.KeyConflict || p.Key != c.key || c.key == c.givenKey {
		return p
	}
	shown := *p
	shown.Key = c.givenKey
	shown.Detail = (&api.KeyConflictError{Key: c.givenKey, Field: p.Field}).Error()
	return &shown
}
