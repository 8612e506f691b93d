package httpapi

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/sluicedp/sluice/internal/check"
)

// The source sends its token to the URL. It accepts only a valid answer, and no error contains the
// answer.
func TestTruthsAt_InvalidAnswer_IsRefusedWithoutItsText(t *testing.T) {
	var answer http.HandlerFunc
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer server.Close()
	const secretValue = "a secret value"
	source := check.Value(TruthsAt(server.URL+"/truths", "tok"))(t)
	answer = func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Question string   `json:"question"`
			Objects  []string `json:"objects"`
		}
		check.Must(t, json.UnmarshalRead(r.Body, &in))
		check.That(t, r.Method == "POST" && r.URL.Path == "/truths" && r.Header.Get("Authorization") == "Bearer tok" &&
			in.Question == "vote" && slices.Equal(in.Objects, []string{"17", "18"}), "%s %s %v %+v", r.Method, r.URL, r.Header, in)
		_, _ = w.Write([]byte(`{"values":["yes",""]}`))
	}
	values, err := source(t.Context(), "vote", []string{"17", "18"})
	check.Need(t, err == nil && slices.Equal(values, []string{"yes", ""}), "%q, %v", values, err)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirection is followed") }))
	defer elsewhere.Close()
	for name, text := range map[string]string{
		"one of two": `{"values":["` + secretValue + `"]}`, "no text": `{"values":["` + secretValue + `",5]}`, "another field": `{"truths":["` + secretValue + `"]}`,
		"no JSON": secretValue, "too much": `{"values":["` + strings.Repeat(secretValue, 1<<16) + `","yes"]}`, "none": "", "broken": `{"values":["\ud800",""]}`,
	} {
		answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
		_, err := source(t.Context(), "vote", []string{"17", "18"})
		check.That(t, err != nil && !strings.Contains(err.Error(), secretValue), "%s: %v", name, err)
	}
	for _, status := range []int{204, 301, 302, 307, 308, 400, 500} {
		answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(status)
		}
		_, err := source(t.Context(), "vote", []string{"17", "18"})
		check.That(t, err != nil, "status %d is an answer", status)
	}
	for _, at := range []string{"", "x", "http://example.com/", "ftp://localhost/", "https://u:p@localhost/", "https://localhost/#x", "https:///x", "://"} {
		_, err := TruthsAt(at, "")
		check.That(t, err != nil && !strings.Contains(err.Error(), "u:p"), "%q: %v", at, err)
	}
}
