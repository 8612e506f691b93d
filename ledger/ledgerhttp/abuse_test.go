package ledgerhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// A path is that of a route, or an error. No path is cleaned or redirected.
func TestHandler_UncleanPath_IsNoRoute(t *testing.T) {
	f := serving(t, Options{})
	for _, target := range []string{
		"/", "/v1", "/v1/", "/v2/stats", "/v1/stats/", "//v1/stats", "/v1//stats", "/v1/./stats", "/v1/x/../stats", "/v1/%2e/stats", "/v1/%73tats", "/v1/stats%2f", "/v1/stats%00",
		"/v1/sales/1/../2", "/v1/sales/1%2freceipt", "/V1/stats", "/v1/stats;x", "/openapi.json/", "/..", "/v1/sales/",
	} {
		f.refuses(problem.NoRoute, asked{method: "GET", target: target, role: "operator"})
	}
	for _, target := range []string{"/v1/sales/x", "/v1/sales/-1", "/v1/sales/1e3", "/v1/sales/18446744073709551616", "/v1/sales/0x1"} {
		p := f.refuses(problem.Invalid, asked{method: "GET", target: target, role: "operator"})
		check.That(t, p.Field == "sale", "%s: the field is %q", target, p.Field)
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "GET"} {
		status, header, body := f.ask(asked{method: method, target: "/v1/raises", role: "operator"})
		wantProblem(t, status, header, body, problem.Method)
		check.That(t, header.Get("Allow") == "POST", "%s: Allow %q", method, header.Get("Allow"))
	}
	f.refuses(problem.Method, asked{method: "POST", target: "/healthz"})
}

// A query has only the parameters of its route, each once and valid. Otherwise the problem names
// the parameter.
func TestQuery_InvalidParameter_IsNamed(t *testing.T) {
	f := serving(t, Options{})
	for target, field := range map[string]string{
		"/v1/object":                                       "object",
		"/v1/object?object=":                               "object",
		"/v1/object?object=17&object=18":                   "object",
		"/v1/object?object=17&x=1":                         "x",
		"/v1/object?Object=17":                             "object",
		"/v1/object?object=%ff":                            "object",
		"/v1/estimate?question=vote&epsilon=-1":            "epsilon",
		"/v1/estimate?question=vote&epsilon=1,5":           "epsilon",
		"/v1/estimate?question=vote&epsilon=0.0000000001":  "epsilon",
		"/v1/estimate?question=vote&confidence=many":       "confidence",
		"/v1/events?from=-1":                               "from",
		"/v1/events?from=1.5":                              "from",
		"/v1/events?from=18446744073709551616":             "from",
		"/v1/backup?compact=yes":                           "compact",
		"/v1/consistency?from=1":                           "to",
		"/v1/stats?object=17":                              "object",
		"/v1/responses?question=vote":                      "epsilon",
		"/v1/responses?question=vote&epsilon=1&epsilon=2":  "epsilon",
		"/v1/verifications?x":                              "", // no GET there
		"/v1/estimate?question=vote&confidence=NaN&;=":     "",
		"/v1/estimate?question=vote&confidence=1.5":        "",
		"/v1/estimate?question=vote&confidence=NaN":        "",
		"/v1/consistency?from=5&to=3":                      "",
		"/v1/consistency?from=0&to=18446744073709551615":   "",
		"/v1/head?events=18446744073709551615":             "",
		"/v1/object?object=" + strings.Repeat("x", 300):    "",
		"/v1/refusals?key=" + strings.Repeat("x", 300):     "",
		"/v1/responses?epsilon=1&question=no%20such%20one": "",
		"/v1/sales?buyer=%00":                              "",
	} {
		status, header, body := f.ask(asked{method: "GET", target: target, role: "operator"})
		if target == "/v1/sales?buyer=%00" && status == http.StatusOK {
			continue // no buyer of that name has bought anything
		}
		var p api.Problem
		check.That(t, json.Unmarshal([]byte(body), &p) == nil && status >= 400 && status < 500 && p.Status == status &&
			header.Get("Content-Type") == problem.ContentType, "%s: status %d, %s", target, status, body)
		check.That(t, field == "" || p.Field == field && p.Kind == problem.Invalid,
			"%s: the field is %q, want %q: %s", target, p.Field, field, body)
	}
}

// An invalid body is refused with the field at fault, and changes nothing. No body causes a status
// 500.
func TestDecode_InvalidBody_NamesTheField(t *testing.T) {
	f := serving(t, Options{})
	before := check.Value(f.ledger.Stats(t.Context()))(t)
	deep := strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)
	for body, field := range map[string]string{
		`{}`:                                                                                        "question",
		`{"question":"vote"}`:                                                                       "epsilon",
		`{"question":"vote","epsilon":"0"}`:                                                         "epsilon",
		`{"question":"","epsilon":"1"}`:                                                             "question",
		`{"question":5,"epsilon":"1"}`:                                                              "question",
		`{"question":"vote","epsilon":1}`:                                                           "epsilon",
		`{"question":"vote","epsilon":"one"}`:                                                       "epsilon",
		`{"question":"vote","epsilon":"NaN"}`:                                                       "epsilon",
		`{"question":"vote","epsilon":"-1"}`:                                                        "epsilon",
		`{"question":"vote","epsilon":"99999999999999999999"}`:                                      "epsilon",
		`{"question":"vote","epsilon":"1","objects":"17"}`:                                          "objects",
		`{"question":"vote","epsilon":"1","objects":[17]}`:                                          "objects/0",
		`{"question":"vote","epsilon":"1","objects":["17",null,{}]}`:                                "objects/2",
		`{"question":"vote","epsilon":"1","all":"yes"}`:                                             "all",
		`{"question":"vote","epsilon":"1","all":true,"truths":["yes"]}`:                             "truths",
		`{"question":"vote","epsilon":"1","all":true,"truths":{"17":5}}`:                            "truths/17",
		`{"question":"vote","epsilon":"1","all":true,"truths":{"17":"yes","17":"no"}}`:              "truths/17",
		`{"question":"vote","epsilon":"1","epsilon":"2","all":true}`:                                "epsilon",
		`{"question":"vote","Epsilon":"1","all":true}`:                                              "Epsilon",
		`{"question":"vote","epsilon":"1","truth":{"17":"yes"}}`:                                    "truth",
		`{"question":"vote","epsilon":"1","key":"k"}`:                                               "key",
		"{\"question\":\"vote\",\"epsilon\":\"1\",\"objects\":[\"\xff\"]}":                          "objects/0",
		`{"question":"vote","epsilon":"1","objects":["\ud800"]}`:                                    "objects/0",
		`{"question":"vote","epsilon":"1","objects":["18"],"truths":{"18":"` + secretValue + `s"}}`: "",
		`{"question":"vote","epsilon":"1","objects":["` + "\u200b" + `17"]}`:                        "",
		`{"question":"vote","epsilon":"1"}`:                                                         "",
		`{"question":"vote","epsilon":"1","objects":["17"],"all":true}`:                             "",
		`{"question":"vote","epsilon":"1","objects":["17","17"]}`:                                   "",
		`{"question":"vote","epsilon":"1","objects":["` + strings.Repeat("x", 300) + `"]}`:          "",
		`{"question":"nothing","epsilon":"1","all":true}`:                                           "",
		`{"question":"vote","epsilon":"1","all":true} {}`:                                           "",
		`{"question":"vote","epsilon":"1","all":true`:                                               "",
		`[]`: "", `null`: "", `5`: "", `"x"`: "", `x`: "", ``: "", "\x00": "", "\xef\xbb\xbf{}": "", deep: "", "[" + strings.Repeat("[", 1<<20): "",
	} {
		status, header, text := f.ask(asked{method: "POST", target: "/v1/raises", body: body, key: "k", role: "operator", header: map[string]string{"Content-Type": "application/json"}})
		var p api.Problem
		check.That(t, json.Unmarshal([]byte(text), &p) == nil && status >= 400 && status < 500 &&
			header.Get("Content-Type") == problem.ContentType, "%.100q: status %d, %.200s", body, status, text)
		check.That(t, field == "" || p.Field == field,
			"%.100q: the field is %q, want %q: %.200s", body, p.Field, field, text)
		check.That(t, !strings.Contains(text, secretValue), "a true value is repeated: %s", text)
	}
	after := check.Value(f.ledger.Stats(t.Context()))(t)
	check.That(t, before == after, "a refused request changed the ledger: %+v, before it was %+v", after, before)
}

// A body must have the media type of JSON, and at most Limits.Body bytes. A request without a body
// needs no media type.
func TestHandler_BodyTooLargeOrNotJSON_IsRefused(t *testing.T) {
	f := serving(t, Options{Limits: Limits{Body: 1000}})
	const body = `{"question":"vote","epsilon":"1","all":true}`
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=latin1", "", "application/json, text/plain"} {
		f.refuses(problem.MediaType, asked{method: "POST", target: "/v1/raises", body: body, key: "k", role: "operator", header: map[string]string{"Content-Type": media}})
	}
	large := `{"question":"vote","epsilon":"1","objects":["` + strings.Repeat("x", 1000) + `"]}`
	f.refuses(problem.TooLarge, asked{method: "POST", target: "/v1/raises", body: large, key: "k", role: "operator"})
	// A caller without permission is refused before the body is read.
	status, header, text := f.ask(asked{method: "POST", target: "/v1/raises", body: large, key: "k", role: "metrics"})
	wantProblem(t, status, header, text, problem.Forbidden)
}

// The idempotency key is a string of RFC 9651, or is taken as it is. A malformed or missing key is
// refused.
func TestKeyOf_EachForm_IsRead(t *testing.T) {
	for given, want := range map[string]string{
		"order-1": "order-1", `"order-1"`: "order-1", `"a \"b\" \\"`: `a "b" \`, `%"f%c3%bcr%25"`: "für%", `%"a b"`: "a b", "a,b;c": "a,b;c", `""`: "",
	} {
		got, bad := keyOf(http.Header{httpapi.KeyHeader: {given}})
		check.That(t, bad == nil && got == want, "%s: %q, %v", given, got, bad)
		if want != "" {
			if got, bad := keyOf(http.Header{httpapi.KeyHeader: {httpapi.QuotedKey(want)}}); bad != nil || got != want {
				t.Errorf("%q is written %s, and read %q, %v", want, httpapi.QuotedKey(want), got, bad)
			}
		}
	}
	for _, given := range [][]string{nil, {""}, {"a", "b"}, {`"`}, {`"a`}, {`"a"b"`}, {`"\x"`}, {`"a\"`}, {`%"`}, {`%"%g"`}, {`%"a"b"`}, {"\"\xff\""}} {
		got, bad := keyOf(http.Header{httpapi.KeyHeader: given})
		check.That(t, bad != nil && bad.Field == httpapi.KeyHeader, "%q is read as %q, %v", given, got, bad)
	}
	f := serving(t, Options{})
	for _, key := range []string{"", `""`, strings.Repeat("x", 257), `%"%00"`, `%"%ff"`} {
		f.refuses(problem.Invalid, asked{method: "POST", target: "/v1/withdrawals", body: `{"object":"17"}`, key: key, role: "operator"})
	}
}

// FuzzKey holds that each key is read as it was written.
func FuzzKey(f *testing.F) {
	for _, key := range []string{"a", "ü", `"`, "%", "\x00", "\xff", `\"`, " "} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if key == "" {
			return
		}
		if got, bad := keyOf(http.Header{httpapi.KeyHeader: {httpapi.QuotedKey(key)}}); bad != nil || got != key {
			t.Fatalf("%q is written %s, and read %q, %v", key, httpapi.QuotedKey(key), got, bad)
		}
	})
}

// FuzzDecode holds, for the body of each route, that what is read is what is written again, and
// that no error repeats a value.
func FuzzDecode(f *testing.F) {
	all := routes()
	for i, r := range all {
		if r.in != nil {
			f.Add(uint8(i), []byte(samples()[r.id].body))
		}
	}
	f.Add(uint8(5), []byte(`{"question":"vote","epsilon":"1","truths":{"17":"`+secretValue+`","18":5}}`))
	f.Add(uint8(5), []byte(`{"question":"vote","epsilon":"1","truths":{"17":"\ud800"}}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		r := all[int(which)%len(all)]
		if r.in == nil {
			return
		}
		in := reflect.New(r.in).Interface()
		if bad := decode(bytes.NewReader(body), in); bad != nil {
			check.Need(t, bad.Kind == problem.Invalid && bad.Detail != "" &&
				(!strings.Contains(bad.Detail, secretValue) || strings.Contains(bad.Field, secretValue)), "%+v", bad)
			return
		}
		text := check.Value(json.Marshal(in))(t)
		again := reflect.New(r.in).Interface()
		bad := decode(bytes.NewReader(text), again)
		check.Need(t, bad == nil, "%s became %s: %v", body, text, bad)
		other, err := json.Marshal(again)
		check.Need(t, err == nil && string(other) == string(text), "%s became %s, and then %s", body, text, other)
	})
}

// No answer, log line or error contains a true value, from the request or from the source.
func TestTrueValues_AreInNoAnswerLogOrError(t *testing.T) {
	var log bytes.Buffer
	var source api.TruthFunc
	f := serving(t, Options{Logger: zerolog.New(&log), Truth: func(ctx context.Context, question string, objects []string) ([]string, error) {
		return source(ctx, question, objects)
	}})
	ask := func(key, truths string) (int, api.Problem) {
		status, _, body := f.ask(asked{method: "POST", target: "/v1/raises", body: `{"question":"vote","epsilon":"2","objects":["19"]` + truths + `}`, key: key, role: "operator"})
		var p api.Problem
		_ = json.Unmarshal([]byte(body), &p)
		check.That(t, !strings.Contains(body+log.String(), secretValue) &&
			!strings.Contains(body+log.String(), "eleven"), "a true value is in an answer or the log: %s\n%s", body, log.String())
		return status, p
	}
	for name, told := range map[string]func() ([]string, error){
		"an error with it":  func() ([]string, error) { return nil, errors.New("no such thing as " + secretValue) },
		"too many":          func() ([]string, error) { return []string{secretValue, secretValue}, nil },
		"too few":           func() ([]string, error) { return nil, nil },
		"it panics with it": func() ([]string, error) { panic(secretValue) },
		"its own deadline":  func() ([]string, error) { return nil, context.DeadlineExceeded },
	} {
		source = func(context.Context, string, []string) ([]string, error) { return told() }
		if status, p := ask("k", ""); status < 500 || p.Kind != problem.TruthFailed && name != "it panics with it" {
			t.Errorf("%s: status %d, %+v", name, status, p)
		}
	}
	source = func(context.Context, string, []string) ([]string, error) {
		t.Error("the source is asked for what the request brings")
		return nil, nil
	}
	if status, p := ask("k", `,"truths":{"19":"eleven"}`); p.Kind != problem.Refused || len(p.Refused) != 1 || p.Refused[0].Reason != api.NoTruth {
		t.Errorf("status %d, %+v", status, p)
	}
	if status, p := ask("k", `,"truths":{"19":""}`); p.Kind != problem.Refused || len(p.Refused) != 1 || p.Refused[0].Reason != api.NoTruth {
		t.Errorf("status %d, %+v", status, p)
	}
	status, p := ask("k", `,"truths":{"19":"`+secretValue+`"}`)
	check.That(t, status == http.StatusOK, "status %d, %+v", status, p)
	check.That(t, log.Len() != 0 && !strings.Contains(log.String(), `"19"`), "the log is %s", log.String())
}

// Without a source, the problem lists all objects whose true values the request needs, but only for
// roles that may see them.
func TestTruthNeeded_ListsEveryObject_ForTheHostOnly(t *testing.T) {
	f := serving(t, Options{})
	ask := func(truths string) (int, api.Problem) {
		status, _, body := f.ask(asked{method: "POST", target: "/v1/raises", body: `{"question":"vote","epsilon":"1","all":true` + truths + `}`, key: "k", role: "operator"})
		var p api.Problem
		_ = json.Unmarshal([]byte(body), &p)
		return status, p
	}
	status, p := ask("")
	if status != http.StatusConflict || p.Kind != problem.TruthNeeded || fmt.Sprint(p.Needs) != "[{vote [18 19]}]" {
		t.Fatalf("status %d, %+v", status, p) // 17 has been drawn from before
	}
	status, p = ask(`,"truths":{"18":"no"}`)
	check.Need(t, fmt.Sprint(p.Needs) == "[{vote [19]}]", "status %d, %+v", status, p)
	status, p = ask(`,"truths":{"18":"no","19":"yes"}`)
	check.Need(t, status == http.StatusOK, "status %d, %+v", status, p)
}

// A request that panics is answered with the status 500, and the next request is answered as usual.
func TestHandler_Panic_IsAnsweredWith500(t *testing.T) {
	var log bytes.Buffer
	calls := 0
	f := serving(t, Options{Logger: zerolog.New(&log), Truth: func(_ context.Context, _ string, objects []string) ([]string, error) {
		if calls++; calls == 1 {
			panic("of " + secretValue)
		}
		return []string{"no", "no", "no"}[:len(objects)], nil
	}})
	for _, one := range []string{"raise", "sell", "answer", "advance", "release"} {
		calls = 0
		f := servingOf(t, marketLedger(t, false), f.options)
		body := samples()[one].body
		if at := strings.Index(body, `,"truths"`); at > 0 {
			body = body[:at] + "}"
		}
		target := samples()[one].target
		status, header, text := f.ask(asked{method: "POST", target: target, body: body, key: "k", role: "operator"})
		if one == "advance" {
			continue // time releases nothing here, so no true value is needed
		}
		wantProblem(t, status, header, text, problem.Unexpected)
		status, _, text = f.ask(asked{method: "POST", target: target, body: body, key: "k", role: "operator"})
		check.That(t, status == http.StatusOK, "%s: then it is %d, %s", one, status, text)
		found, err := f.ledger.Verify(t.Context(), api.VerifyRequest{})
		check.That(t, err == nil && found.Problems == 0, "%s: %+v, %v", one, found, err)
	}
	check.That(t, strings.Contains(log.String(), "a request panicked") && !strings.Contains(log.String(), secretValue),
		"the log is %s", log.String())
}

// Terms must be given for exactly the enrolled objects, because an object without terms would have
// no limit. A policy excludes no_policy.
func TestEnroll_TermsNotOfExactlyItsObjects_AreInvalid(t *testing.T) {
	f := serving(t, Options{})
	for _, c := range []struct{ target, body, field string }{
		{"/v1/enrolments", `{"question":"vote","objects":["20","21"],"terms":{"20":{"cap":"1"}}}`, "terms"},
		{"/v1/enrolments", `{"question":"vote","objects":["20"],"terms":{"21":{"cap":"1"}}}`, "terms"},
		{"/v1/enrolments", `{"question":"vote","objects":["20"],"terms":{"20":{"cap":"1"},"21":{"cap":"1"}}}`, "terms"},
		{"/v1/enrolments", `{"question":"vote","objects":["20"],"terms":{}}`, "terms"},
		{"/v1/enrolments", `{"question":"vote","objects":["20"],"cap":"1","terms":{"20":{"cap":"1"}}}`, ""},
		{"/v1/enrolments", `{"question":"vote","objects":["20"],"terms":{"20":{"cap":"1","consent":"x"}}}`, "terms/20/consent"},
		{"/v1/terms", `{"question":"vote","objects":["17"],"no_policy":true,"policy":{"kind":"fixed","ceiling":"2"}}`, "no_policy"},
		{"/v1/terms", `{"question":"vote","objects":["17"]}`, ""},
		{"/v1/reconciliations", `{}`, "members"},
		{"/v1/reconciliations", `{"members":[],"gone":-1}`, ""},
		{"/v1/reconciliations", `{"members":[{"object":"17","question":"vote"},{"object":"17"}]}`, "members/1/question"},
		{"/v1/budgets", `{"question":"vote","all":true,"epsilons":["0"]}`, ""},
	} {
		p := f.refuses(problem.Invalid, asked{"POST", c.target, c.body, "k", "operator", nil})
		check.That(t, p.Field == c.field || c.field == "", "%s: the field is %q", c.body, p.Field)
	}
}
