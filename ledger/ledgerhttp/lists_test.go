package ledgerhttp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// busyMarket is a ledger with sales and reservations of two buyers: numbers 1 to 12.
func busyMarket(t *testing.T) *fixture {
	t.Helper()
	f := serving(t, Options{})
	for n := range 10 {
		buyer := []string{"acme", "zeta"}[n%2]
		order := fmt.Sprintf(`{"buyer":%q,"question":"vote","epsilon":"0.%d","objects":["17"]`, buyer, n+1)
		target, rest := "/v1/sales", `}`
		if n%3 == 0 {
			target, rest = "/v1/reservations", `,"for":"1h"}`
		}
		f.answers(asked{method: "POST", target: target, body: order + rest, key: fmt.Sprint("k", n), role: "operator"})
	}
	return f
}

// part is a part of a list, of which the test reads one key of each item.
type part struct {
	Items []map[string]any `json:"items"`
	Next  string           `json:"next"`
}

// readPart reads a part of a list.
func readPart(t *testing.T, f *fixture, target string) part {
	t.Helper()
	status, header, body := f.ask(asked{method: "GET", target: target, role: "operator"})
	var p part
	if err := json.Unmarshal([]byte(body), &p); err != nil || status != http.StatusOK || header.Get("Content-Type") != "application/json" || p.Items == nil {
		t.Fatalf("%s: %d, %s", target, status, body)
	}
	return p
}

// walk reads a list part by part, and returns a key of each item. grow is called between parts.
func walk(t *testing.T, f *fixture, target, key string, grow func()) (all []string) {
	t.Helper()
	for after, n := "", 0; ; n++ {
		at := target
		if after != "" {
			at += "&after=" + url.QueryEscape(after)
		}
		p := readPart(t, f, at)
		for _, item := range p.Items {
			all = append(all, fmt.Sprint(item[key]))
		}
		if after = p.Next; after == "" || n > 1000 {
			return all
		}
		grow()
	}
}

// Each list in parts of any size is the list as a stream, in order; with the newest first it is the
// same list in reverse order.
func TestLists_InParts_AreTheWhole(t *testing.T) {
	f := busyMarket(t)
	for target, key := range map[string]string{
		"/v1/sales?": "sale", "/v1/reservations?": "sale", "/v1/events?": "event", "/v1/sales?buyer=zeta": "sale", "/v1/reservations?state=open": "sale",
		"/v1/events?object=17": "event", "/v1/events?kind=sold&kind=sale": "event", "/v1/events?buyer=zeta&kind=sold": "event", "/v1/events?from=5": "event",
		"/v1/responses?question=vote&epsilon=1": "object", "/v1/sales/1/deliveries?": "sold", "/v1/sales?question=vote": "sale",
	} {
		status, header, body := f.ask(asked{method: "GET", target: target, role: "operator", header: map[string]string{"Accept": "text/html, " + httpapi.Lines}})
		lines := strings.Split(strings.TrimSpace(body), "\n")
		check.Need(t, status == http.StatusOK && header.Get("Content-Type") == httpapi.Lines &&
			lines[len(lines)-1] == `{"end":true}`, "%s: %d, %s", target, status, body)
		var whole []string
		for _, line := range lines[:len(lines)-1] {
			var item map[string]any
			check.Must(t, json.Unmarshal([]byte(line), &item))
			whole = append(whole, fmt.Sprint(item[key]))
		}
		check.That(t, len(whole) != 0, "%s is empty", target)
		_, _, body = f.ask(asked{method: "GET", target: target + "&limit=1", role: "operator", header: map[string]string{"Accept": httpapi.Lines}})
		if got := strings.Split(body, "\n"); len(got) != 3 || got[0] != lines[0] || got[1] != `{"end":true}` {
			t.Errorf("%s, as a stream of one: %s", target, body)
		}
		turned := slices.Clone(whole)
		slices.Reverse(turned)
		for _, limit := range []int{1, 2, 3, 100, 1000} {
			at := fmt.Sprintf("%s&limit=%d", target, limit)
			got := walk(t, f, at, key, func() {})
			check.That(t, slices.Equal(got, whole), "%s is %v, want %v", at, got, whole)
			if !strings.Contains(target, "/deliveries") && !strings.Contains(target, "/responses") {
				got := walk(t, f, at+"&order=desc", key, func() {})
				check.That(t, slices.Equal(got, turned), "%s, the newest first, is %v, want %v", at, got, turned)
			}
		}
	}
}

// What comes while a list is read moves nothing: no item is read twice, and none that was there is
// missed.
func TestLists_ThatGrow_AreStable(t *testing.T) {
	f := busyMarket(t)
	n := 0
	grow := func() {
		if n++; n <= 5 {
			order := fmt.Sprintf(`{"buyer":"new","question":"vote","epsilon":"0.%d","objects":["18"]}`, n)
			f.answers(asked{method: "POST", target: "/v1/sales", body: order[:len(order)-1] + `,"truths":{"18":"no"}}`, key: fmt.Sprint("grow", n), role: "operator"})
		}
	}
	stats := check.Value(f.ledger.Stats(t.Context()))(t)
	got := walk(t, f, "/v1/events?limit=7&order=desc", "event", grow)
	for i, number := range got {
		check.Need(t, number == fmt.Sprint(int(stats.Events)-i), "newest first: %v", got)
	}
	check.That(t, len(got) == int(stats.Events), "%d events of %d", len(got), stats.Events)
	n = 0
	sales := walk(t, f, "/v1/sales?limit=2", "sale", grow)
	check.That(t, slices.IsSortedFunc(sales, func(a, b string) int { return len(a) - len(b) }) &&
		len(slices.Compact(slices.Clone(sales))) == len(sales), "%v", sales)
}

// Times bound lists from below, inclusive, and from above, exclusive.
func TestLists_Times(t *testing.T) {
	f := busyMarket(t)
	all := readPart(t, f, "/v1/events?limit=1000").Items
	for _, i := range []int{0, 5, len(all) - 1} {
		at := all[i]["time"].(string)
		before := 0
		for _, event := range all {
			if event["time"].(string) < at {
				before++
			}
		}
		for _, order := range []string{"asc", "desc"} {
			since := walk(t, f, "/v1/events?limit=3&order="+order+"&since="+url.QueryEscape(at), "event", func() {})
			until := walk(t, f, "/v1/events?limit=3&order="+order+"&until="+url.QueryEscape(at), "event", func() {})
			check.That(t, len(until) == before && len(since) == len(all)-before,
				"%s, %s: %d since, %d until; %d are before", at, order, len(since), len(until), before)
		}
	}
	for _, list := range []string{"sales", "reservations"} {
		none := readPart(t, f, "/v1/"+list+"?until=2001-01-01T00:00:00Z")
		check.That(t, len(none.Items) == 0 && none.Next == "", "%s: %+v", list, none)
		some := readPart(t, f, "/v1/"+list+"?since=2001-01-01T00:00:00Z&until=2101-01-01T00:00:00Z")
		check.That(t, len(some.Items) != 0, "%s: none", list)
	}
}

// A part of a list costs a bounded number of reads: a filter that lets nothing through ends it,
// too, with where to go on.
func TestLists_FilterThatFindsNothing_IsBounded(t *testing.T) {
	f := serving(t, Options{})
	var people []string
	for n := range maxEvents + 100 {
		people = append(people, fmt.Sprintf("p%05d", n))
	}
	_, err := f.ledger.Enroll(t.Context(), api.EnrollRequest{Key: "many", Question: "vote", Objects: people, Cap: check.Eps(t, "1")})
	check.Must(t, err)
	for _, order := range []string{"asc", "desc"} {
		target := "/v1/events?kind=cancelled&limit=1000&order=" + order
		first := readPart(t, f, target)
		stats := check.Value(f.ledger.Stats(t.Context()))(t)
		next := uint64(maxEvents)
		if order == "desc" {
			next = stats.Events - maxEvents + 1
		}
		check.That(t, len(first.Items) == 0 && first.Next == strconv.FormatUint(next, 10),
			"%s: %d items, and then %q, want %d", order, len(first.Items), first.Next, next)
		if last := readPart(t, f, target+"&after="+first.Next); len(last.Items) != 0 || last.Next != "" {
			t.Errorf("%s: then %d items, and %q", order, len(last.Items), last.Next)
		}
	}
	// Nor do levels without responses.
	_, err = f.ledger.Raise(t.Context(), api.RaiseRequest{Key: "raise", Question: "vote", Epsilon: check.Eps(t, "0.5"), Objects: people[:2000], Truth: truthful})
	check.Must(t, err)
	first := readPart(t, f, "/v1/responses?question=vote&epsilon=0.75")
	check.That(t, len(first.Items) == 0 && first.Next != "", "%d items, and then %q", len(first.Items), first.Next)
	got := walk(t, f, "/v1/responses?question=vote&epsilon=0.5&limit=999", "object", func() {})
	check.That(t, slices.Equal(got, people[:2000]), "%d responses", len(got))
}

// A page of sales reads a bounded number of records, too, in both directions.
func TestSales_FilterThatFindsNothing_IsBounded(t *testing.T) {
	f := serving(t, Options{})
	order := api.Order{Buyer: "acme", Question: "vote", Epsilon: check.Eps(t, "1"), Objects: []string{"17"}}
	for n := range 4200 {
		_, err := f.ledger.Sell(t.Context(), api.SellRequest{Key: fmt.Sprint("many", n), Order: order, Truth: truthful})
		check.Must(t, err)
	}
	_, err := f.ledger.Sell(t.Context(), api.SellRequest{Key: "zeta", Order: api.Order{Buyer: "zeta", Question: "vote", Epsilon: check.Eps(t, "1"), Objects: []string{"17"}}, Truth: truthful})
	check.Must(t, err)
	for _, list := range []string{"sales", "reservations"} {
		target := "/v1/" + list + "?until=2001-01-01T00:00:00Z&limit=1000"
		for _, order := range []string{"asc", "desc"} {
			first := readPart(t, f, target+"&order="+order)
			check.That(t, len(first.Items) == 0 && first.Next != "",
				"%s, %s: %d items, and then %q", list, order, len(first.Items), first.Next)
			if last := readPart(t, f, target+"&order="+order+"&after="+first.Next); len(last.Items) != 0 || last.Next != "" {
				t.Errorf("%s, %s: then %d items, and %q", list, order, len(last.Items), last.Next)
			}
		}
	}
	got := walk(t, f, "/v1/sales?buyer=zeta", "sale", func() {})
	check.That(t, len(got) == 1, "zeta has bought %v", got)
}

// What is no part of a list is refused, with the parameter that is wrong.
func TestLists_WrongParameters_AreInvalid(t *testing.T) {
	f := serving(t, Options{})
	for target, field := range map[string]string{
		"/v1/sales?limit=0": "limit", "/v1/sales?limit=1001": "limit", "/v1/sales?limit=x": "limit", "/v1/sales?after=x": "after", "/v1/events?after=-1": "after",
		"/v1/events?kind=nothing": "kind", "/v1/events?order=down": "order", "/v1/events?since=yesterday": "since",
		"/v1/reservations?state=lost": "state", "/v1/responses?question=vote&epsilon=1&order=desc": "order", "/v1/buyers?after=x": "after",
	} {
		status, header, body := f.ask(asked{method: "GET", target: target, role: "operator"})
		p := wantProblem(t, status, header, body, problem.Invalid)
		check.That(t, p.Field == field, "%s: the field is %q: %s", target, p.Field, body)
	}
	f.refuses(problem.Invalid, asked{method: "GET", target: "/v1/events?kind=sold", role: "operator", header: map[string]string{"Accept": httpapi.Stream}})
}

// Buyers come in parts, too.
func TestBuyers_InParts(t *testing.T) {
	f := busyMarket(t)
	var names []string
	for after := ""; ; {
		var out httpapi.Buyers
		_, _, body := f.ask(asked{method: "GET", target: "/v1/buyers?limit=1&after=" + after, role: "operator"})
		check.Must(t, json.Unmarshal([]byte(body), &out))
		for _, one := range out.Buyers {
			names = append(names, one.Buyer)
		}
		if after = out.Next; after == "" {
			break
		}
	}
	check.That(t, slices.Equal(names, []string{"acme", "zeta"}), "%v", names)
}

// truthful has the same true value for all.
func truthful(_ context.Context, _ string, objects []string) ([]string, error) {
	return slices.Repeat([]string{"no"}, len(objects)), nil
}
