package ledgerhttp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
)

// resale is an order that needs no draw.
const resale = `{"buyer":"acme","question":"vote","epsilon":"0.5","objects":["17"]}`

// Two principals never share a key of the ledger, and all tokens of one principal share its keys.
func TestKeys_OfTwoPrincipals_NeverMeet(t *testing.T) {
	long := strings.Repeat("k", maxKey)
	seen := map[string]Holder{}
	for _, by := range []Holder{
		{"a", roleOperator, ""}, {"a", roleDesk, ""}, {"a", roleBuyer, "acme"}, {"a", roleBuyer, "zeta"}, {"a", roleBuyer, "acm"}, {"a", rolePerson, "acme"}, {"a", rolePerson, "17"},
	} {
		for _, key := range []string{"k", "e/k", "/k", "desk/k", "acme/k", "buyer/acme/k", "#", long, hashText(long), hashText("acme\x00k"), "person/" + hashText("acme\x00k")} {
			at, err := by.namespaced(key)
			if by.Role == roleOperator {
				continue // the host's own, which has all that are not desks'
			}
			check.Must(t, err)
			other, there := seen[at]
			check.That(t, !there, "%q of %+v is a key of %+v, too", key, by, other)
			seen[at] = by
			again := by
			again.Name = "another token"
			if same, err := again.namespaced(key); err != nil || same != at || ledger.CheckName("key", at) != nil {
				t.Errorf("%q with another token is %q, not %q: %v", key, same, at, err)
			}
		}
	}
	for _, key := range []string{"desk/k", "desk#" + hashText("k")} {
		at, err := (Holder{"a", roleOperator, ""}).namespaced(key)
		check.That(t, err != nil, "an operator has the key of a desk, %q", at)
	}
}

// A desk that uses a key of the host's does not find out; each has its own sale, repeated with
// another token, and sees its own key.
func TestKeys_OfTheDesk_AreApart(t *testing.T) {
	f := serving(t, Options{})
	sold := func(role, key, body string) (out struct {
		Sale uint64 `json:"sale"`
		Key  string `json:"key"`
	}) {
		t.Helper()
		text := f.answers(asked{method: "POST", target: "/v1/sales", body: body, key: key, role: role})
		check.Must(t, json.Unmarshal([]byte(text), &out))
		return out
	}
	long := strings.Repeat("k", maxKey)
	host, desk := sold("operator", "order-1", resale), sold("desk", "order-1", resale)
	if again := sold("desk", "order-1", resale); host.Sale == desk.Sale || again != desk || desk.Key != "order-1" || host.Key != "order-1" {
		t.Errorf("the host has %+v, the desk %+v, and again %+v", host, desk, again)
	}
	far := sold("desk", long, resale)
	check.That(t, far.Key == long, "%+v", far)
	for role, want := range map[string]string{"operator": "desk/order-1", "auditor": "desk/order-1", "desk": "order-1", "buyer acme": ""} {
		var seen struct {
			Key string `json:"key"`
		}
		_, _, body := f.ask(asked{method: "GET", target: "/v1/sales/4", role: role})
		check.Must(t, json.Unmarshal([]byte(body), &seen))
		check.That(t, seen.Key == want, "%s sees the key %q, want %q", role, seen.Key, want)
	}
	if _, _, body := f.ask(asked{method: "GET", target: "/v1/sales", role: "desk"}); strings.Contains(body, `"key":"sell"`) || !strings.Contains(body, `"key":"order-1"`) {
		t.Errorf("a desk sees keys of the host: %s", body)
	}
	// A conflict names the key as it was sent.
	status, header, body := f.ask(asked{method: "POST", target: "/v1/sales", body: strings.Replace(resale, "0.5", "0.25", 1), key: "order-1", role: "desk"})
	p := wantProblem(t, status, header, body, problem.KeyConflict)
	check.That(t, p.Key == "order-1" && !strings.Contains(body, "desk/"), "%s", body)
	// A key that the host has used for another request is free.
	status, header, body = f.ask(asked{method: "POST", target: "/v1/sales", body: resale, key: "enrol", role: "desk"})
	check.That(t, status == http.StatusOK, "%d, %v: %s", status, header, body)
	status, header, body = f.ask(asked{method: "POST", target: "/v1/sales", body: resale, key: strings.Repeat("k", maxKey+1), role: "desk"})
	p = wantProblem(t, status, header, body, problem.Invalid)
	check.That(t, strings.Contains(p.Detail, "257 bytes"), "%s", body)
}

// Every request that changes something has a key: reading it costs next to nothing.
func TestUnquote_UsualKey_DoesNotAllocate(t *testing.T) {
	var key string
	var ok bool
	n := testing.AllocsPerRun(100, func() { key, ok = unquote(`"8e03978e-40d5-43e8-bc93-6894a57f9324"`) })
	check.That(t, ok && key == "8e03978e-40d5-43e8-bc93-6894a57f9324" && n == 0, "%q, %v: %v allocations", key, ok, n)
}
