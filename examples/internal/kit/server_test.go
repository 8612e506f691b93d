package kit

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/testenv"
)

// A request during which the server is killed gets no response. Whether it is done depends on the
// time of the death. The stream of events ends within an event. After three more requests the
// server runs again.
func TestServer_Deaths_BreakRequestsAndStreams(t *testing.T) {
	if !testenv.Deep() {
		t.Skip("deep: it links the command, as examples/served does")
	}
	var out strings.Builder
	s, err := NewServer(t.Context(), testenv.TempDir(t), &out, Death{"one", Before}, Death{"two", After}, Death{"three", During})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ key, least, most string }{
		{"one", "", ""}, {"two", "two", "two"}, {"three", "two", "two three"}, // questions that are defined after it
	} {
		stream := ask(t, s, "GET", "/v1/events", "", "text/event-stream")
		if stream == nil {
			t.Fatal("no stream")
		}
		if answer := ask(t, s, "POST", "/v1/questions", c.key, ""); answer != nil {
			t.Fatalf("%s is answered: %s", c.key, answer.Status)
		}
		events, err := io.ReadAll(stream.Body)
		if err == nil || !strings.HasSuffix(string(events), partialEvent) || !strings.Contains(string(events), "id: 1\n") {
			t.Errorf("%v, and the stream ends with %q", err, events)
		}
		for range 3 {
			if answer := ask(t, s, "GET", "/v1/questions", "", ""); answer != nil {
				t.Errorf("a dead server answers: %s", answer.Status)
			}
		}
		answer := ask(t, s, "GET", "/v1/questions", "", "")
		if answer == nil {
			t.Fatal("the server was not restarted")
		}
		text, err := io.ReadAll(answer.Body)
		if got := defined(string(text)); err != nil || got != c.least && got != c.most {
			t.Errorf("after the death at %s the ledger has the questions %q (%v)", c.key, got, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	want := "  The server is killed before it gets one.\n  The server is killed after it has done two, before it responds.\n  The server is killed while three is in progress.\n"
	if out.String() != want {
		t.Errorf("it prints %q", out.String())
	}
}

// A death that does not happen is an error, because then the host was not tested.
func TestServer_DeathDoesNotHappen_CloseFails(t *testing.T) {
	if !testenv.Deep() {
		t.Skip("deep: it links the command, as examples/served does")
	}
	s, err := NewServer(t.Context(), testenv.TempDir(t), io.Discard, Death{"one", Before})
	if err != nil {
		t.Fatal(err)
	}
	if answer := ask(t, s, "POST", "/v1/questions", "two", ""); answer == nil || answer.StatusCode != http.StatusOK {
		t.Fatal("a request without a death is not answered")
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "not killed before it gets one") {
		t.Error(err)
	}
}

// defined returns the names of the questions in a list.
func defined(text string) string {
	var found []string
	for _, name := range []string{"one", "two", "three"} {
		if strings.Contains(text, `"question":"`+name+`"`) {
			found = append(found, name)
		}
	}
	return strings.Join(found, " ")
}

// ask sends a request, and returns the response, or nil if the connection broke. A request with a
// key defines the question of that name.
func ask(t *testing.T, s *Server, method, path, key, accept string) *http.Response {
	t.Helper()
	body := ""
	if key != "" {
		body = `{"question":"` + key + `","values":["yes","no"]}`
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.Addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + s.Token}, "Content-Type": {"application/json"}, "Accept": {accept}}
	if key != "" {
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	// A new connection, because Go's client repeats a request if a reused connection is broken.
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return nil
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}
