package ledgerclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// polled is an open ledger with the question vote and some people in it.
func polled(t *testing.T, l *ledger.Ledger, people ...string) *ledger.Ledger {
	t.Helper()
	check.Must(t, l.DefineQuestion(t.Context(), "define", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "enrol", Question: "vote", Objects: people, Cap: check.Eps(t, "9")})
	check.Must(t, err)
	return l
}

// around serves a ledger, and returns a client of it. If answer is not nil, it answers the requests
// to a path, or all if that is empty; it may hand them on.
func around(t *testing.T, l *ledger.Ledger, path string, answer func(http.Handler, http.ResponseWriter, *http.Request)) *Client {
	t.Helper()
	h, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "test", Role: "operator"}.Admit})
	check.Must(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer == nil || path != "" && r.URL.Path != path {
			h.ServeHTTP(w, r)
			return
		}
		answer(h, w, r)
	}))
	t.Cleanup(server.Close)
	c := check.Value(Dial(t.Context(), server.URL, Options{}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// served returns a ledger of people, and a client of it.
func served(t *testing.T, people ...string) (*ledger.Ledger, *Client) {
	t.Helper()
	l := polled(t, ledgertest.New(t).Ledger, people...)
	return l, around(t, l, "", nil)
}

// After a lost answer the client returns "unreachable", and the same request with the same key
// returns the result.
func TestClient_LostAnswer_IsReturnedUnderTheSameKey(t *testing.T) {
	var lose atomic.Bool
	l := polled(t, ledgertest.New(t).Ledger, "ann")
	c := around(t, l, "", func(h http.Handler, w http.ResponseWriter, r *http.Request) {
		if !lose.Load() || r.Method != http.MethodPost {
			h.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	r := api.ReleaseRequest{Key: "r", Question: "vote", Object: "ann", Epsilon: check.Eps(t, "1"), Truth: api.TruthOf("yes")}
	sent := r.Truth
	r.Truth = func(ctx context.Context, question string, objects []string) ([]string, error) {
		lose.Store(true) // from now on: the next request is the one that draws
		return sent(ctx, question, objects)
	}
	_, err := c.Release(t.Context(), r)
	if kind, exit, _ := problem.Classify(err); kind != problem.Unreachable || exit != 1 || strings.Contains(err.Error(), "127.0.0.1:0/v1") {
		t.Fatalf("%s: %v", kind, err)
	}
	lose.Store(false)
	r.Truth = func(context.Context, string, []string) ([]string, error) {
		t.Error("the response is recorded, and the source is called again")
		return nil, nil
	}
	got := check.Value(c.Release(t.Context(), r))(t)
	want, err := l.Release(t.Context(), r)
	check.That(t, err == nil && got == want, "%+v, want %+v, %v", got, want, err)
	state := check.Value(c.Object(t.Context(), "ann"))(t)
	check.That(t, state.Spent == check.Eps(t, "1") && len(state.Chains[0].Levels) == 1, "%+v", state)
}

// A true value in the request is sent with it, without a first round that asks for it.
func TestRelease_WithTrueValue_IsOneRequest(t *testing.T) {
	l := polled(t, ledgertest.New(t).Ledger, "ann")
	var sent atomic.Int64
	c := around(t, l, "", func(h http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			sent.Add(1)
		}
		h.ServeHTTP(w, r)
	})
	r := api.ReleaseRequest{Key: "r", Question: "vote", Object: "ann", Epsilon: check.Eps(t, "1"), TrueValue: "yes", Truth: api.TruthOf("yes")}
	if _, err := c.Release(t.Context(), r); !errors.Is(err, api.ErrInvalid) || sent.Load() != 0 {
		t.Errorf("a true value and a source: %v, after %d requests", err, sent.Load())
	}
	r.Truth = nil
	got := check.Value(c.Release(t.Context(), r))(t)
	check.That(t, sent.Load() == 1, "it took %d requests", sent.Load())
	want, err := l.Release(t.Context(), r)
	check.That(t, err == nil && got == want, "%+v, want %+v, %v", got, want, err)
	r.Key, r.Epsilon, r.TrueValue = "s", check.Eps(t, "2"), "maybe"
	_, err = c.Release(t.Context(), r)
	check.That(t, isInvalidTruth(err) && !strings.Contains(err.Error(), "maybe"), "of a value that is none: %v", err)
}

// isInvalidTruth reports whether ann was refused for a true value that is none of the question's.
func isInvalidTruth(err error) bool {
	var refused *api.RefusedError
	return errors.As(err, &refused) && slices.Equal(refused.TruthInvalid, []string{"ann"}) && refused.Refused[0].Reason == api.NoTruth
}

// A true value that is not UTF-8 is not a value of the question, as in process. The request may be
// repeated with a valid value.
func TestRelease_TrueValueNotUTF8_IsInvalidAsInProcess(t *testing.T) {
	l, c := served(t, "ann")
	for name, r := range map[string]api.ReleaseRequest{"at hand": {TrueValue: "\xff"}, "of a source": {Truth: api.TruthOf("\xff")}} {
		r.Key, r.Question, r.Object, r.Epsilon = name, "vote", "ann", check.Eps(t, "1")
		_, here := l.Release(t.Context(), r)
		_, there := c.Release(t.Context(), r)
		check.That(t, isInvalidTruth(here) && isInvalidTruth(there) && there.Error() == here.Error(),
			"%s: %v, in process %v", name, there, here)
	}
}

// The source is called in batches, once for each object that needs a draw, and only these values
// are sent.
func TestRaise_SendsOnlyNeededTrueValues(t *testing.T) {
	var people []string
	for i := range 4100 {
		people = append(people, fmt.Sprintf("p%04d", i))
	}
	l := polled(t, ledgertest.New(t).Ledger, people...)
	_, err := l.Release(t.Context(), api.ReleaseRequest{Key: "k", Question: "vote", Object: people[7], Epsilon: check.Eps(t, "1"), Truth: api.TruthOf("no")})
	check.Must(t, err)
	var rounds atomic.Int64
	c := around(t, l, "/v1/raises", func(h http.Handler, w http.ResponseWriter, r *http.Request) {
		rounds.Add(1)
		h.ServeHTTP(w, r)
	})
	var asked []string
	done, err := c.Raise(t.Context(), api.RaiseRequest{Key: "r", Question: "vote", Epsilon: check.Eps(t, "1"), All: true, Truth: func(_ context.Context, _ string, objects []string) ([]string, error) {
		check.That(t, len(objects) <= 4096, "asked for %d at once", len(objects))
		asked = append(asked, objects...)
		values := slices.Repeat([]string{"yes"}, len(objects))
		return values, nil
	}})
	check.Must(t, err)
	check.That(t, done.Drawn == 4099 && done.Reused == 1 && len(asked) == 4099 && !slices.Contains(asked, people[7]) &&
		rounds.Load() == 2, "%+v: asked for %d, in %d rounds", done, len(asked), rounds.Load())
}

// A sweep over many parts sends with each part only the values that the part needs.
func TestAdvance_ManyParts_SendsValuesOfOnePart(t *testing.T) {
	held := ledgertest.New(t)
	l := held.Ledger
	check.Must(t, l.DefineQuestion(t.Context(), "define", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	var people []string
	for i := range 9000 {
		people = append(people, fmt.Sprintf("p%04d", i))
	}
	under := check.Value(policy.Steps(policy.Step{At: ledgertest.Begin(), Ceiling: check.Eps(t, "1")}))(t)
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "e", Question: "vote", Objects: people, Policy: under, Cap: check.Eps(t, "9")})
	check.Must(t, err)
	held.Clock.Set(ledgertest.Begin().Add(time.Hour))
	var largest atomic.Int64
	c := around(t, l, "", func(h http.Handler, w http.ResponseWriter, r *http.Request) {
		largest.Store(max(largest.Load(), r.ContentLength))
		h.ServeHTTP(w, r)
	})
	asked := map[string]int{}
	done, err := c.Advance(t.Context(), api.AdvanceRequest{Key: "a", Truth: func(_ context.Context, _ string, objects []string) ([]string, error) {
		for _, one := range objects {
			asked[one]++
		}
		return slices.Repeat([]string{"yes"}, len(objects)), nil
	}})
	check.Must(t, err)
	if each := int64(len(`"p0000":"yes",`)); largest.Load() > 2*4096*each+1000 {
		t.Errorf("a request has %d bytes", largest.Load())
	}
	check.That(t, len(asked) == 9000 && done.Questions[0].Raised == 9000, "%+v: asked for %d", done, len(asked))
	for name, n := range asked {
		check.Need(t, n == 1, "asked %d times for %s", n, name)
	}
}

// Only https://, http:// on this machine and a Unix socket are accepted, and the token is never
// sent to a redirected address.
func TestDial_UnsafeAddress_IsErrInvalid(t *testing.T) {
	for _, address := range []string{"", "ledger.db", "ftp://x", "http://example.com", "http://10.0.0.1:80", "https://u:p@example.com", "https://example.com/?x", "https://example.com/#x", "://", "http://", "unix:", "unix:@a", "unix:a\x00b"} {
		_, err := Dial(t.Context(), address, Options{})
		check.That(t, errors.Is(err, api.ErrInvalid) && !strings.Contains(err.Error(), "u:p"), "%q: %v", address, err)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirection is followed") }))
	defer elsewhere.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"redirects": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
		"a page":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); _, _ = w.Write([]byte("<html>")) },
		"no JSON":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"no ledger": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) },
		"half":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"id":"`)) },
		"an empty problem": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", problem.ContentType)
			w.WriteHeader(500)
			_, _ = w.Write([]byte("{}"))
		},
	} {
		server := httptest.NewServer(answer)
		_, err := Dial(t.Context(), server.URL, Options{Token: "secret"})
		kind, _, _ := problem.Classify(err)
		check.That(t, kind == problem.Unreachable, "%s: %v", name, err)
		server.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.Is(t, check.Err(Dial(ctx, elsewhere.URL, Options{})), context.Canceled)
}

// A server may answer without an end. A document has one.
func TestCheckpoint_AnswerWithoutEnd_IsRefused(t *testing.T) {
	c := around(t, ledgertest.New(t).Ledger, "/v1/checkpoint", func(h http.Handler, w http.ResponseWriter, r *http.Request) {
		for range 4 * maxCheckpoint / 1024 {
			_, _ = w.Write(make([]byte, 1024))
		}
	})
	text, err := c.Checkpoint(t.Context())
	check.That(t, kindOf(err) == problem.Unreachable && strings.Contains(err.Error(), "more than"),
		"%d bytes, %v", len(text), err)
}

// admitNone is a gate that knows no caller.
func admitNone(*http.Request) (ledgerhttp.Holder, bool) { return ledgerhttp.Holder{}, false }

// A caller that Dial refuses has no client to close, so Dial closes the connection.
func TestDial_Refused_ClosesTheConnection(t *testing.T) {
	h := check.Value(ledgerhttp.New(ledgertest.New(t).Ledger, ledgerhttp.Options{Gate: admitNone}))(t)
	path := filepath.Join(testenv.TempDir(t), "s")
	socket := check.Value(net.Listen("unix", path))(t)
	gone := make(chan bool, 1)
	server := &http.Server{Handler: h, ConnState: func(_ net.Conn, now http.ConnState) {
		if now == http.StateClosed {
			gone <- true
		}
	}}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(socket) }()
	c, err := Dial(t.Context(), "unix:"+path, Options{})
	check.Need(t, c == nil && kindOf(err) == problem.Unauthorized, "%v, %v", c, err)
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the connection is still there")
	}
}

// A name that is not UTF-8 is refused, and any other name arrives unchanged.
func TestClient_Names_ArriveUnchanged(t *testing.T) {
	_, c := served(t, "ann")
	check.Is(t, c.Withdraw(t.Context(), api.ObjectRequest{Key: "k", Object: "\xff"}), api.ErrInvalid)
	check.Is(t, check.Err(c.Object(t.Context(), "\xff")), api.ErrInvalid)
	for _, name := range []string{"a/b", "..", "a&b=c", "ü ?#%2f", "+"} {
		_, err := c.Enroll(t.Context(), api.EnrollRequest{Key: "enrol " + name, Question: "vote", Objects: []string{name}, Cap: check.Eps(t, "1")})
		check.Need(t, err == nil, "%q: %v", name, err)
		o, err := c.Object(t.Context(), name)
		check.That(t, err == nil && o.Object == name, "%q: %+v, %v", name, o, err)
	}
}

// A list that breaks off is an error, and so is a problem in it.
func TestClient_BrokenList_IsUnreachable(t *testing.T) {
	l := polled(t, ledgertest.New(t).Ledger, "ann", "bob")
	for name, c := range map[string]struct {
		cut  func(text string) string
		want string
	}{
		"whole":       {func(text string) string { return text }, ""},
		"without end": {func(text string) string { return strings.Replace(text, "{\"end\":true}\n", "", 1) }, problem.Unreachable},
		"half a line": {func(text string) string { return text[:len(text)/2] }, problem.Unreachable},
		"a problem": {func(text string) string {
			return strings.Replace(text, `{"end":true}`, `{"problem":{"kind":"corrupt","detail":"x"}}`, 1)
		}, problem.Corrupt},
		"something else": {func(text string) string { return "x\n" + text }, problem.Unreachable},
	} {
		client := around(t, l, "/v1/events", func(h http.Handler, w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			_, _ = w.Write([]byte(c.cut(rec.Body.String())))
		})
		var last error
		n := 0
		for _, err := range client.Events(t.Context(), 1) {
			if last = err; err == nil {
				n++
			}
		}
		if kind, _, _ := problem.Classify(last); last == nil && c.want != "" || last != nil && kind != c.want {
			t.Errorf("%s: %d events, %v", name, n, last)
		}
	}
}

// Watch yields events until the consumer breaks or the context ends.
func TestWatch_YieldsEventsUntilTheContextEnds(t *testing.T) {
	l, c := served(t, "ann")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := uint64(2)
	for event, err := range c.Watch(ctx, 2) {
		if errors.Is(err, context.Canceled) {
			break
		}
		check.Must(t, err)
		check.Need(t, event.Number == next, "event %d, want %d", event.Number, next)
		next++
		stats := check.Value(l.Stats(t.Context()))(t)
		switch {
		case next <= stats.Events:
		case next < 12:
			check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: fmt.Sprint(next), Object: "ann"}))
		default:
			cancel()
		}
	}
	for range c.Watch(t.Context(), 1) {
		break
	}
}

// replies answers requests in place of a server, by path.
type replies map[string]func(*http.Request) io.ReadCloser

func (r replies) RoundTrip(request *http.Request) (*http.Response, error) {
	body := r[request.URL.Path](request)
	return &http.Response{StatusCode: http.StatusOK, Body: body, ContentLength: -1, Request: request}, nil
}

// aboutALedger is what a ledger says of itself.
const aboutALedger = `{"id":"0b0e7c0e-5a5c-4d0e-9f0c-1d2e3f405162","created":"2026-03-01T12:00:00Z","currency":"USD","log_key":"","origin":"log"}`

// A server that sends nothing any more counts as unreachable, even if the last message was an event
// without its empty line.
func TestWatch_SilentServer_IsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := replies{
			"/v1/about": func(*http.Request) io.ReadCloser { return io.NopCloser(strings.NewReader(aboutALedger)) },
			"/v1/events": func(r *http.Request) io.ReadCloser {
				body, server := io.Pipe()
				go func() {
					_, _ = io.WriteString(server, "id: 1\ndata: {\"event\":1,\"time\":\"2026-03-01T12:00:00Z\",\"kind\":\"truth-key\"}\n")
					<-r.Context().Done()
					_ = server.CloseWithError(r.Context().Err())
				}()
				return body
			},
		}
		c := check.Value(Dial(t.Context(), "http://localhost", Options{HTTP: &http.Client{Transport: served}}))(t)
		n, last := 0, error(nil)
		for _, err := range c.Watch(t.Context(), 1) {
			if last = err; err == nil {
				n++
				time.Sleep(2 * maxSilence) // a slow consumer is not a silent server
			}
		}
		check.That(t, n == 1 && kindOf(last) == problem.Unreachable, "%d events, and then %v", n, last)
	})
}

// The fetched ledger is verified on this machine. A copy that was changed on the way is found, and
// no file of it is left.
func TestBackupAndVerify_ChangedCopy_IsFoundHere(t *testing.T) {
	dir := testenv.TempDir(t)
	path := filepath.Join(dir, "ledger.db")
	check.Must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{}))
	l := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	defer func() { _ = l.Close() }()
	polled(t, l, "ann", "bob", "cid")
	var lies atomic.Pointer[func([]byte) []byte]
	setLie := func(lie func(text []byte) []byte) { lies.Store(&lie) }
	c := around(t, l, "/v1/backup", func(h http.Handler, w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		text := (*lies.Load())(rec.Body.Bytes())
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = w.Write(text)
	})
	direct := around(t, l, "", nil)
	found := check.Value(direct.Verify(t.Context(), api.VerifyRequest{}))(t)
	stats := check.Value(l.Stats(t.Context()))(t)
	check.That(t, found.Problems == 0 && found.Events == stats.Events && found.Objects == 3, "%+v", found)
	copyAt := filepath.Join(dir, "copy.db")
	reported, all := 0, 0
	done := check.Value(direct.CompactTo(t.Context(), copyAt, func(done, total int) { reported, all = done, total }))(t)
	check.That(t, reported != 0 && reported == all, "%d KiB of %d are reported", reported, all)
	info := check.Value(os.Stat(copyAt))(t)
	check.That(t, done.Events == stats.Events && done.Bytes == info.Size() && info.Mode().Perm() == 0o600,
		"%+v, %v", done, info)
	whole := check.Value(os.ReadFile(copyAt))(t)
	_, err := direct.Backup(t.Context(), copyAt, nil)
	check.That(t, errors.Is(err, fs.ErrExist), "%v", err)
	var opens atomic.Int64
	refused := 0
	for n := range strings.Count(string(whole), "bob") {
		setLie(func(text []byte) []byte {
			at := 0
			for range n + 1 {
				at += 1 + strings.Index(string(text[at:]), "bob")
			}
			text[at-1] = 'r'
			changed := filepath.Join(testenv.TempDir(t), "changed.db")
			check.Must(t, os.WriteFile(changed, text, 0o600))
			if l, err := ledger.Open(t.Context(), changed, ledger.Options{ReadOnly: true}); err == nil {
				opens.Add(1) // so only the verification finds it
				check.Must(t, l.Close())
			}
			return text
		})
		robbed := filepath.Join(dir, "rob.db")
		if _, err := c.CompactTo(t.Context(), robbed, nil); err != nil {
			refused++
			continue
		}
		// What is in no record says nothing: bytes of a page that are not used.
		l := check.Value(ledger.Open(t.Context(), robbed, ledger.Options{ReadOnly: true}))(t)
		_, err = l.Object(t.Context(), "rob")
		check.That(t, errors.Is(err, api.ErrUnknown), "a copy in which bob is robbed is taken (%d): %v", n, err)
		_, err = l.Object(t.Context(), "bob")
		check.Must(t, errors.Join(err, l.Close(), os.Remove(robbed)))
	}
	check.That(t, opens.Load() != 0 && refused >= 3,
		"%d copies that were changed can be opened, %d are refused", opens.Load(), refused)
	setLie(func(text []byte) []byte { return text[:len(text)/2] })
	_, err = c.Backup(t.Context(), filepath.Join(dir, "half.db"), nil)
	check.That(t, err != nil, "half a copy is taken")
	left := check.Value(filepath.Glob(filepath.Join(dir, "*")))(t)
	hidden := check.Value(filepath.Glob(filepath.Join(dir, ".*")))(t)
	if len(hidden) != 0 || slices.ContainsFunc(left, func(name string) bool { return strings.HasSuffix(name, "rob.db") || strings.HasSuffix(name, "half.db") }) {
		t.Errorf("left: %v %v", left, hidden)
	}
}

func TestCopy_LocalFileFails_TheErrorNamesThePath(t *testing.T) {
	c := around(t, polled(t, ledgertest.New(t).Ledger, "ann"), "/v1/backup", func(h http.Handler, w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("no ledger"))
	})
	dir, temp := testenv.TempDir(t), testenv.TempDir(t)
	path := filepath.Join(dir, "copy.db")
	_, err := c.Backup(t.Context(), path, nil)
	check.That(t, err != nil && strings.Contains(err.Error(), "open "+path) &&
		!strings.Contains(err.Error(), "sluice-fetched"), "%v; want the path %s", err, path)
	t.Setenv("TMPDIR", temp)
	_, err = c.Verify(t.Context(), api.VerifyRequest{})
	check.That(t, err != nil && strings.Contains(err.Error(), "open the fetched ledger") &&
		!strings.Contains(err.Error(), temp), "%v; want the fetched ledger", err)
	t.Setenv("TMPDIR", filepath.Join(temp, "none"))
	_, err = c.Verify(t.Context(), api.VerifyRequest{})
	if want := "the fetched ledger in " + filepath.Join(temp, "none"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sluice-verify") {
		t.Errorf("%v; want %q", err, want)
	}
}

// A disk that is full here is no server that cannot be reached.
func TestFetch_DiskFails_IsNotUnreachable(t *testing.T) {
	c := around(t, polled(t, ledgertest.New(t).Ledger, "ann"), "/v1/backup", func(h http.Handler, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1<<20))
		_, _ = w.Write(make([]byte, 1<<20))
	})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		testenv.Unsupported(t, "there is no /dev/full")
	}
	err = c.fetchInto(t.Context(), full, nil)
	kind, _, _ := problem.Classify(err)
	check.That(t, kind != problem.Unreachable && errors.Is(err, syscall.ENOSPC), "%s: %v", kind, err)
}

// Proofs arrive as the ledger made them.
func TestClient_Proofs_AreThoseOfTheLedger(t *testing.T) {
	_, c := served(t, "ann", "bob")
	now := check.Value(c.Head(t.Context(), 0))(t)
	then := check.Value(c.Head(t.Context(), 2))(t)
	proof := check.Value(c.Consistency(t.Context(), 2, now.Events))(t)
	check.Must(t, tlog.CheckTree(proof, int64(now.Events), now.Root, 2, then.Root))
	check.Is(t, check.Err(c.Checkpoint(t.Context())), api.ErrNoSigner)
	_, err := c.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Include: func(string) bool { return true }})
	check.That(t, errors.Is(err, api.ErrInvalid), "%v", err)
}

// Objects are enrolled with terms of their own, reserved until a time, and put under other terms,
// with or without a policy.
func TestClient_TermsOfEachObject_AreSent(t *testing.T) {
	l, c := served(t, "ann")
	dear, err := policy.Market{Max: check.Eps(t, "2"), Prices: []policy.Price{{Epsilon: check.Eps(t, "2"), Amount: 300}}}.Policy()
	check.Must(t, err)
	r := api.EnrollRequest{Key: "each", Question: "vote", Objects: []string{"dan", "bob", "cid"}}
	var asked []string
	r.Terms = func(object string) (policy.Policy, privacy.Epsilon) {
		asked = append(asked, object)
		if object == "cid" {
			return policy.Policy{}, check.Eps(t, "4")
		}
		return dear, check.Eps(t, "3")
	}
	done := check.Value(c.Enroll(t.Context(), r))(t)
	check.That(t, done.Enrolled == 3 && slices.Equal(asked, []string{"bob", "cid", "dan"}),
		"%+v, asked about %q", done, asked)
	again, err := l.Enroll(t.Context(), r) // in process it is the same request
	check.Must(t, err)
	check.That(t, again.First == done.First, "%+v, %+v", again, done)
	r.Key, r.Objects = "twice", []string{"eve", "eve"}
	check.WantErr(t, check.Err(c.Enroll(t.Context(), r)), api.ErrInvalid, "twice")
	r.Key, r.Objects, r.Cap = "both", []string{"eve"}, check.Eps(t, "1")
	check.WantErr(t, check.Err(c.Enroll(t.Context(), r)), api.ErrInvalid, "terms and a cap")
	until := ledgertest.Begin().Add(time.Hour + time.Nanosecond)
	held := api.ReserveRequest{Key: "hold", Order: api.Order{Buyer: "acme", Question: "vote", Epsilon: check.Eps(t, "1"), Objects: []string{"bob"}}, Until: until}
	got := check.Value(c.Reserve(t.Context(), held))(t)
	same, err := l.Reserve(t.Context(), held)
	check.That(t, err == nil && same.Number == got.Number && got.Expires.Equal(until), "%+v, %+v, %v", got, same, err)
	odd := until.In(time.FixedZone("mean time", 3600+30)) // RFC 3339 has no seconds in zones
	held.Key, held.Until = "hold in a zone", odd
	got, err = c.Reserve(t.Context(), held)
	if same, failed := l.Reserve(t.Context(), held); err != nil || failed != nil || same.Number != got.Number || !got.Expires.Equal(odd) {
		t.Errorf("%+v, %+v, %v, %v", got, same, err, failed)
	}
	none := api.ChangeTermsRequest{Key: "none", Question: "vote", Objects: []string{"bob"}, Policy: &policy.Policy{}}
	var refused *api.RefusedError
	_, err = c.ChangeTerms(t.Context(), none)
	check.That(t, errors.As(err, &refused) && refused.Refused[0].Reason == api.NeedsConsent, "without consent: %v", err)
	none.Consent = "box 17"
	changed, err := c.ChangeTerms(t.Context(), none)
	check.That(t, err == nil && changed.Changed == 1, "%+v, %v", changed, err)
	changed, err = l.ChangeTerms(t.Context(), none)
	check.That(t, err == nil && changed.Changed == 1, "in process: %+v, %v", changed, err)
}

// Confirm gets the result of a dry run. If the result has changed when the request is executed,
// nothing is done.
func TestReconcile_ResultChangedSinceConfirm_DoesNothing(t *testing.T) {
	l, c := served(t, "ann", "bob")
	rows := []api.Member{{Object: "ann", Question: "vote"}, {Object: "bob", Question: "vote"}, {Object: "cid", Question: "vote", Cap: check.Eps(t, "2")}}
	r := api.ReconcileRequest{Members: func(yield func(api.Member, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}}
	before := check.Value(l.Stats(t.Context()))(t)
	unchanged := func(what string) {
		t.Helper()
		if now, err := l.Stats(t.Context()); err != nil || now.Events != before.Events {
			t.Errorf("%s: %d events, %v", what, now.Events-before.Events, err)
		}
	}
	no := errors.New("no")
	r.Confirm = func(plan api.ReconcileResult) error {
		check.That(t, plan.Questions[0].New.Count == 1 && plan.Questions[0].Same == 2, "%+v", plan)
		return no
	}
	check.Is(t, check.Err(c.Reconcile(t.Context(), r)), no)
	unchanged("not confirmed")
	r.Confirm = func(api.ReconcileResult) error { rows[2].Object = "dan"; return nil } // which is read once
	done := check.Value(c.Reconcile(t.Context(), r))(t)
	check.That(t, done.Questions[0].New.Count == 1 && done.Questions[0].New.First[0] == "cid", "%+v", done)
	before = check.Value(l.Stats(t.Context()))(t)
	rows[2].Object = "eve"
	r.Confirm = func(api.ReconcileResult) error { // another request enrols an object concurrently
		_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "concurrent", Question: "vote", Objects: []string{"eve"}, Cap: check.Eps(t, "2")})
		if err == nil {
			before, err = l.Stats(t.Context())
		}
		return err
	}
	_, err := c.Reconcile(t.Context(), r)
	check.That(t, kindOf(err) == problem.Changed, "what has changed since: %v", err)
	unchanged("changed")
	r.Confirm = nil
	r.Members = func(yield func(api.Member, error) bool) { yield(api.Member{}, no) }
	check.WantErr(t, check.Err(c.Reconcile(t.Context(), r)), no, "a table that cannot be read")
	check.WantErr(t, check.Err(c.Reconcile(t.Context(), api.ReconcileRequest{})), api.ErrInvalid, "Members is not set")
	r = api.ReconcileRequest{Withdraw: true, Members: func(yield func(api.Member, error) bool) {}}
	var gone *api.GoneError
	_, err = c.Reconcile(t.Context(), r)
	check.That(t, errors.As(err, &gone) && gone.Gone == 4 && gone.Of == 4 && kindOf(err) == problem.ManyGone, "%v", err)
}

func kindOf(err error) string {
	kind, _, _ := problem.Classify(err)
	return kind
}

// Terms that change while the table is read and sent are kept, even if an older row has a consent.
func TestReconcile_TermsNewerThanTheTable_AreKept(t *testing.T) {
	l, c := served(t, "ann", "bob")
	less := func(key, object string) {
		_, err := l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: key, Question: "vote", Objects: []string{object}, Cap: check.Eps(t, "1")})
		check.Must(t, err)
	}
	r := api.ReconcileRequest{Members: func(yield func(api.Member, error) bool) {
		for _, object := range []string{"ann", "bob"} {
			yield(api.Member{Object: object, Question: "vote", Cap: check.Eps(t, "10"), Consent: "box 17"}, nil)
		}
		less("while it is read", "ann")
	}}
	check.Must(t, check.Err(c.Reconcile(t.Context(), r)))
	for object, limit := range map[string]string{"ann": "1", "bob": "10"} {
		o, err := l.Object(t.Context(), object)
		check.That(t, err == nil && o.Cap == check.Eps(t, limit), "%s has the cap %s, want %s: %v", object, o.Cap, limit, err)
	}
	old := check.Value(l.Stats(t.Context()))(t)
	less("after it", "bob")
	r.AsOf, r.Members = old.Events, func(yield func(api.Member, error) bool) {
		yield(api.Member{Object: "bob", Question: "vote", Cap: check.Eps(t, "10"), Consent: "box 17"}, nil)
	}
	_, err := l.Reconcile(t.Context(), r) // in process as well
	check.Must(t, err)
	o, err := l.Object(t.Context(), "bob")
	check.That(t, err == nil && o.Cap == check.Eps(t, "1"), "an older table brings back the cap %s, %v", o.Cap, err)
	r.AsOf = 1 << 40
	check.WantErr(t, check.Err(c.Reconcile(t.Context(), r)), api.ErrInvalid, "a table of the future")
}

// A mechanism without names of outputs means another thing than one with an empty list of them: the
// client sends which it is.
func TestDefineQuestion_OutputsNilOrEmpty_AreTwoRequests(t *testing.T) {
	c := around(t, ledgertest.New(t).Ledger, "", nil)
	family := fixture.Skewed(t)
	q := api.Question{Name: "party", Values: []string{"a", "b"}, Mechanism: &api.Mechanism{Family: family}}
	check.Must(t, c.DefineQuestion(t.Context(), "1", q))
	q.Name, q.Mechanism = "empty", &api.Mechanism{Family: family, Outputs: [][]string{}}
	check.Is(t, c.DefineQuestion(t.Context(), "2", q), api.ErrInvalid)
}
