package ledgerhttp

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/sluicedp/sluice/internal/pace"
)

// The source at a URL is asked with its token, and what it answers is taken if it can be right; no error repeats it.
func TestTruthAt(t *testing.T) {
	var answer http.HandlerFunc
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer server.Close()
	source, err := TruthAt(server.URL+"/truths", "tok", nil)
	must(t, err)
	answer = func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Question string   `json:"question"`
			Objects  []string `json:"objects"`
		}
		must(t, json.UnmarshalRead(r.Body, &in))
		if r.Method != "POST" || r.URL.Path != "/truths" || r.Header.Get("Authorization") != "Bearer tok" || in.Question != "vote" || !slices.Equal(in.Objects, []string{"17", "18"}) {
			t.Errorf("%s %s %v %+v", r.Method, r.URL, r.Header, in)
		}
		_, _ = w.Write([]byte(`{"values":["yes",""]}`))
	}
	values, err := source(t.Context(), "vote", []string{"17", "18"})
	if err != nil || !slices.Equal(values, []string{"yes", ""}) {
		t.Fatalf("%q, %v", values, err)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirection is followed") }))
	defer elsewhere.Close()
	for name, text := range map[string]string{
		"one of two": `{"values":["` + secretValue + `"]}`, "no text": `{"values":["` + secretValue + `",5]}`, "another field": `{"truths":["` + secretValue + `"]}`,
		"no JSON": secretValue, "too much": `{"values":["` + strings.Repeat(secretValue, 1<<16) + `","yes"]}`, "none": "", "broken": `{"values":["\ud800",""]}`,
	} {
		answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
		if _, err := source(t.Context(), "vote", []string{"17", "18"}); err == nil || strings.Contains(err.Error(), secretValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, status := range []int{204, 301, 302, 307, 308, 400, 500} {
		answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(status)
		}
		if _, err := source(t.Context(), "vote", []string{"17", "18"}); err == nil {
			t.Errorf("status %d is an answer", status)
		}
	}
	for _, at := range []string{"", "x", "http://example.com/", "ftp://localhost/", "https://u:p@localhost/", "https://localhost/#x", "https:///x", "://"} {
		if _, err := TruthAt(at, "", nil); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%q: %v", at, err)
		}
	}
}

// A token is one by its file as that is now; what is not in it, or not sent as it must be, is none, and a file that cannot be read lets in nobody.
func TestTokens(t *testing.T) {
	path := filepath.Join(pace.Scratch(t), "tokens.json")
	token, other := NewToken(), NewToken()
	if token == other || !strings.HasPrefix(token, tokenPrefix) || len(token) < 40 {
		t.Fatalf("%s, %s", token, other)
	}
	file := `{"tokens":[{"name":"a","role":"buyer","whom":"acme","sha256":"` + HashToken(token) + `"}]}`
	if _, err := OpenTokens(path, nil); err == nil {
		t.Fatal("there is no file")
	}
	must(t, os.WriteFile(path, []byte(file), 0o600))
	faults := 0
	tokens, err := OpenTokens(path, func(error) { faults++ })
	must(t, err)
	admit := func(values ...string) bool {
		holder, known := tokens.Admit(&http.Request{Header: http.Header{"Authorization": values}})
		if known && (holder != Holder{"a", Buyer, "acme"}) {
			t.Errorf("%+v", holder)
		}
		return known
	}
	for _, good := range []string{"Bearer " + token, "bearer " + token, "BEARER  " + token} {
		if !admit(good) {
			t.Errorf("%q is not let in", good)
		}
	}
	for _, bad := range [][]string{nil, {""}, {token}, {"Bearer"}, {"Bearer "}, {"Bearer " + other}, {"Basic " + token}, {"Bearer " + HashToken(token)}, {"Bearer " + token[:len(token)-1]}, {"Bearer " + token, "Bearer " + token}} {
		if admit(bad...) {
			t.Errorf("%q is let in", bad)
		}
	}
	for _, broken := range []string{"", "x", `{"tokens":[],"x":1}`, `{"tokens":[]}{}`, strings.Replace(file, "buyer", "king", 1), strings.Replace(file, `"whom":"acme",`, "", 1), strings.ToUpper(file), strings.Replace(file, `"sha256"`, `"name":"b","sha256"`, 1), strings.Replace(file, "buyer", "auditor", 1), strings.Replace(file, "]", `,{"name":"b","role":"operator","sha256":"`+HashToken(token)+`"}]`, 1)} {
		must(t, os.WriteFile(path, []byte(broken), 0o600))
		before := faults
		for range 2 {
			if admit("Bearer " + token) {
				t.Errorf("%q lets in", broken)
			}
		}
		if faults != before+1 {
			t.Errorf("%q: told %d times", broken, faults-before)
		}
		if _, err := ReadTokens([]byte(broken)); err == nil {
			t.Errorf("%q is read", broken)
		}
		must(t, os.WriteFile(path, []byte(file), 0o600))
		if !admit("Bearer " + token) {
			t.Fatal("what is mended is not read again")
		}
	}
	must(t, os.Remove(path))
	if admit("Bearer " + token) {
		t.Error("without a file somebody is let in")
	}
}
