package ledgerhttp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/ledgertest"
)

// pipes is a listener in memory, so that there may be more connections than files.
type pipes struct {
	come   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{come: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.come:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.come <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// served runs a server of a handler, in memory, and returns how to connect and a client.
func served(t *testing.T, f *fixture) (*pipes, *http.Client) {
	t.Helper()
	p, s := newPipes(), f.Server()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(p) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial() }}}
	t.Cleanup(c.CloseIdleConnections)
	return p, c
}

// follow opens a stream of events.
func follow(t *testing.T, c *http.Client, from int, last string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://test/v1/events?from=%d", from), nil)
	check.Must(t, err)
	r.Header.Set("Accept", httpapi.Stream)
	r.Header.Set("Test-Role", "auditor")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	response := check.Value(c.Do(r))(t)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// message reads the next message of a stream that is no sign of life.
func message(t *testing.T, in *bufio.Reader) (kind, id, data string) {
	t.Helper()
	for {
		line := check.Value(in.ReadString('\n'))(t)
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		switch {
		case name == "event":
			kind = value
		case name == "id":
			id = value
		case name == "data":
			data = value
		case line == "\n" && data != "":
			return kind, id, data
		}
	}
}

// within waits for something that is to happen soon, for as long as a slow machine may need.
func within(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for range 60000 {
		if happened() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal(what)
}

// A stream begins at any number, and has each existing and new event once with its number. A client
// that reconnects with the last number continues after it.
func TestEventStream_FromAnyNumber_HasEachEventOnce(t *testing.T) {
	f := serving(t, Options{Limits: Limits{Beat: 5 * time.Millisecond}}) // many signs of life
	_, c := served(t, f)
	stats := check.Value(f.ledger.Stats(t.Context()))(t)
	in := bufio.NewReader(follow(t, c, 3, "").Body)
	for n := uint64(3); n < stats.Events+30; n++ {
		if n > stats.Events {
			check.Must(t, f.ledger.DefineQuestion(t.Context(), fmt.Sprint(n), api.Question{Name: fmt.Sprint(n), Values: []string{"a", "b"}}))
		}
		_, id, data := message(t, in)
		var event event.Event
		check.Must(t, json.Unmarshal([]byte(data), &event))
		check.Need(t, id == fmt.Sprint(n) && event.Number == n, "event %d comes as %s: %s", n, id, data)
		if n > stats.Events && n%2 == 0 {
			n++ // a definition is two events
			_, id, _ = message(t, in)
			check.Need(t, id == fmt.Sprint(n), "event %d comes as %s", n, id)
		}
	}
	_, id, _ := message(t, bufio.NewReader(follow(t, c, 1, "7").Body))
	check.That(t, id == "8", "event %s follows event 7", id)
	f.refuses(problem.Invalid, asked{method: "GET", target: "/v1/events", role: "auditor", header: map[string]string{"Accept": httpapi.Stream, "Last-Event-ID": "x"}})
}

// A HEAD request has the header of the GET request, and its connection serves the next request.
func TestEventStream_HEAD_EndsAtOnce(t *testing.T) {
	f := serving(t, Options{})
	_, c := served(t, f)
	c.Transport.(*http.Transport).MaxConnsPerHost = 1
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 2 {
		r := check.Value(http.NewRequestWithContext(ctx, "HEAD", "http://test/v1/events", nil))(t)
		r.Header.Set("Accept", httpapi.Stream)
		r.Header.Set("Test-Role", "auditor")
		response := check.Value(c.Do(r))(t)
		if media := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || media != httpapi.Stream {
			t.Errorf("status %d, %s", response.StatusCode, media)
		}
	}
}

// damagedLedger is a ledger whose event that defines a question cannot be read.
func damagedLedger(t *testing.T, question string) *ledger.Ledger {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	check.Must(t, ledgertest.NewFile(path, ledgertest.Origin{}))
	l := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	for n := range 40 { // more than is sent at a time
		check.Must(t, l.DefineQuestion(t.Context(), fmt.Sprint(n), api.Question{Name: strings.Repeat("n", 100) + fmt.Sprint(n), Values: []string{"a", "b"}}))
	}
	check.Must(t, l.DefineQuestion(t.Context(), "last", api.Question{Name: question, Values: []string{"a", "b"}}))
	check.Must(t, l.Close())
	file := check.Value(os.ReadFile(path))(t)
	check.Must(t, os.WriteFile(path, bytes.ReplaceAll(file, []byte(question), bytes.ToUpper([]byte(question))), 0o600))
	l = check.Value(ledger.Open(t.Context(), path, ledger.Options{ReadOnly: true}))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A stream that cannot continue ends with a problem after a whole event, so that its reader can
// decode each message.
func TestEventStream_Failure_EndsAfterAWholeEvent(t *testing.T) {
	l := damagedLedger(t, "to be damaged")
	stats := check.Value(l.Stats(t.Context()))(t)
	_, c := served(t, servingOf(t, l, Options{}))
	in := bufio.NewReader(follow(t, c, 1, "").Body)
	for n := uint64(1); ; n++ {
		kind, id, data := message(t, in)
		check.Need(t, json.Valid([]byte(data)), "event %d is followed by %s", n-1, data)
		if kind == "problem" {
			if n != stats.Events-1 { // a definition is two events
				t.Errorf("the problem comes in place of event %d, and event %d is damaged", n, stats.Events-1)
			}
			return
		}
		check.Need(t, id == fmt.Sprint(n), "event %d comes as %s", n, id)
	}
}

// Texts that may name files or other hosts are sent to an operator only, in a problem alone, in a
// list and at the end of a stream. The log has them.
func TestProblems_WithFileNames_AreForTheOperatorOnly(t *testing.T) {
	var log bytes.Buffer
	f := serving(t, Options{Logger: zerolog.New(&log)})
	file := &fs.PathError{Op: "read", Path: "/srv/secret/panel.db", Err: errors.New("input/output error")}
	for kind, failure := range map[string]error{
		problem.Unexpected: file, problem.Corrupt: fmt.Errorf("%w: %w", api.ErrCorrupt, file), problem.Stopped: fmt.Errorf("%w: %w", api.ErrStopped, file),
		problem.Late: fmt.Errorf("%w: %w", context.DeadlineExceeded, file),
	} {
		for _, begun := range []bool{false, true} {
			broken := list("broken", "/v1/broken", "Fail", httpapi.Roles(), nil, func(_ *call, p page) ([]int, string, error) {
				if begun && p.after == "" {
					return []int{1}, "1", nil
				}
				return nil, "", failure
			})
			for role, whom := range map[string]string{roleOperator: "", roleDesk: "", roleBuyer: " acme", rolePerson: " 17", roleAuditor: "", roleMetrics: ""} {
				log.Reset()
				w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/broken", nil)
				r.Header.Set("Test-Role", role+whom)
				r.Header.Set("Accept", httpapi.Lines)
				f.guarded(&broken).ServeHTTP(w, r)
				body := w.Body.String()
				if hasName := strings.Contains(body, "panel.db"); hasName != (role == roleOperator) || !strings.Contains(body, `"kind":"`+kind) || begun != (w.Code == http.StatusOK) {
					t.Errorf("%s, to %s, after a part of the answer: %t: %d, %s", kind, role, begun, w.Code, body)
				}
				check.That(t, strings.Count(log.String(), "panel.db") == 1,
					"%s, to %s: the log is %s", kind, role, log.String())
			}
			w := httptest.NewRecorder()
			ended := &feed{call: &call{handler: f.Handler, holder: Holder{Role: roleAuditor}}}
			if err := ended.end(newWriter(w, f.limits), failure); !errors.Is(err, failure) || strings.Contains(w.Body.String(), "panel.db") || !strings.Contains(w.Body.String(), kind) {
				t.Errorf("%s, at the end of a stream: %s, %v", kind, w.Body, err)
			}
		}
	}
}

// A stream ends when its token is removed, and when the server ends streams. The last message has
// the reason.
func TestStreams_TokenRemovedOrServerStopped_End(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "tokens.json")
	write := func(text string) { check.Must(t, os.WriteFile(path, []byte(text), 0o600)) }
	token := httpapi.NewToken()
	file := fmt.Sprintf(`{"tokens":[{"name":"a","role":"auditor","sha256":"%s"}]}`, httpapi.HashToken(token))
	write(file)
	gate := check.Value(OpenTokens(path, nil))(t)
	f := servingOf(t, marketLedger(t, false), Options{Gate: gate, Limits: Limits{Beat: time.Millisecond}})
	_, c := served(t, f)
	stream := func() *bufio.Reader {
		r := check.Value(http.NewRequestWithContext(t.Context(), "GET", "http://test/v1/events?from=1000000", nil))(t)
		r.Header.Set("Accept", httpapi.Stream)
		r.Header.Set("Authorization", "Bearer "+token)
		response := check.Value(c.Do(r))(t)
		t.Cleanup(func() { _ = response.Body.Close() })
		check.Need(t, response.StatusCode == http.StatusOK, "status %d", response.StatusCode)
		return bufio.NewReader(response.Body)
	}
	for _, less := range []string{`{"tokens":[]}`, strings.Replace(file, `"auditor"`, `"buyer","whom":"acme"`, 1)} {
		in := stream()
		write(less)
		kind, _, data := message(t, in)
		check.That(t, kind == "problem" && strings.Contains(data, `"kind":"unauthorized"`), "%s: %s", kind, data)
		write(file)
	}
	in := stream()
	f.EndStreams()
	rest, err := io.ReadAll(in)
	check.That(t, err != nil, "the stream ended as if it were whole: %s", rest)
	within(t, "a stream goes on", func() bool { return taken(f.gates.streams) == 0 })
}

// A reader that does not read, or that disconnects, is dropped in time, and then takes no place and
// no memory.
func TestStreams_SlowOrLostReader_AreDropped(t *testing.T) {
	f := serving(t, Options{Limits: Limits{Write: 20 * time.Millisecond, Beat: 5 * time.Millisecond}})
	p, _ := served(t, f)
	for i, target := range []string{"/v1/events", "/v1/questions", "/v1/sales/1/deliveries", "/openapi.json"} {
		for _, leaves := range []bool{false, true} {
			c := check.Value(p.dial())(t)
			accept := ""
			if i == 0 {
				accept = "Accept: " + httpapi.Stream + "\r\n"
			}
			_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: test\r\nTest-Role: operator\r\n%s\r\n", target, accept)
			check.Must(t, err)
			_, err = c.Read(make([]byte, 1)) // it has begun
			check.Must(t, err)
			if leaves {
				check.Must(t, c.Close())
			}
			// Nothing is read: a pipe has no buffer, so that nothing can be sent either.
			within(t, target+": who does not read keeps a place", func() bool { return taken(f.gates.streams, f.gates.running) == 0 })
			_ = c.Close()
		}
	}
	check.OK(t, check.Err(f.ledger.Stats(t.Context())))
}

// Ten thousand streams without events take bounded memory, and end.
func TestStreams_Idle_TakeBoundedMemory(t *testing.T) {
	n := testenv.Tries(500, 10000, 10000)
	f := serving(t, Options{Limits: Limits{Streams: 2 * n, Each: n, Beat: time.Hour, Burst: 2 * n}})
	p, _ := served(t, f)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	conns := make([]net.Conn, n)
	for i := range conns {
		c := check.Value(p.dial())(t)
		conns[i] = c
		_, err := fmt.Fprintf(c, "GET /v1/events?from=1000000 HTTP/1.1\r\nHost: test\r\nTest-Role: auditor\r\nAccept: %s\r\n\r\n", httpapi.Stream)
		check.Must(t, err)
		in := make([]byte, 512) // the header, and the first sign of life
		for text := ""; !strings.Contains(text, ":\n\n"); {
			k := check.Value(c.Read(in))(t)
			text += string(in[:k])
		}
	}
	if taken(f.gates.streams) != n {
		t.Errorf("%d streams of %d", taken(f.gates.streams), n)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)) / int64(n)
	t.Logf("%d streams take %d bytes each", n, each)
	most := int64(64 << 10)
	check.That(t, each <= most, "a stream takes %d bytes, %d are allowed", each, most)
	for _, c := range conns {
		_ = c.Close()
	}
	within(t, "streams go on without readers", func() bool { return taken(f.gates.streams) == 0 })
}

// A request above a limit is refused with Retry-After, and is admitted after another one has ended.
func TestLimits_TooManyRequests_AreRefusedWithRetryAfter(t *testing.T) {
	release, held := make(chan struct{}), make(chan struct{}, 10)
	f := serving(t, Options{
		Limits: Limits{Running: 1, Streams: 3, Each: 2, Memory: 8 << 20, Body: 8 << 20},
		Truth: func(ctx context.Context, _ string, _ []string) ([]string, error) {
			held <- struct{}{}
			<-release
			return nil, errors.New("never mind")
		},
	})
	_, c := served(t, f)
	go f.ask(asked{method: "POST", target: "/v1/raises", body: `{"question":"vote","epsilon":"1","objects":["18"]}`, key: "k", role: "operator"})
	<-held
	status, header, body := f.ask(asked{method: "GET", target: "/v1/stats", role: "operator"})
	wantProblem(t, status, header, body, problem.Busy)
	check.That(t, header.Get("Retry-After") != "", "there is no Retry-After")
	close(release)
	within(t, "a place is not free again", func() bool { return taken(f.gates.running) == 0 })
	f.answers(asked{method: "GET", target: "/v1/stats", role: "operator"})

	first, second := follow(t, c, 1000, ""), follow(t, c, 1000, "")
	streamed := map[string]string{"Accept": httpapi.Lines}
	status, header, body = f.ask(asked{method: "GET", target: "/v1/events", role: "auditor", header: streamed}) // the same holder
	wantProblem(t, status, header, body, problem.TooMany)
	status, _, body = f.ask(asked{method: "GET", target: "/v1/events", role: "auditor"})
	check.That(t, status == http.StatusOK, "a part of a list takes the place of a stream: %d, %s", status, body)
	status, _, body = f.ask(asked{method: "GET", target: "/v1/events", role: "operator", header: streamed})
	check.That(t, status == http.StatusOK, "another holder: %d, %s", status, body)
	_, _ = first.Body.Close(), second.Body.Close()
	within(t, "streams go on without readers", func() bool { return taken(f.gates.streams) == 0 })

	other := &quotaShare{quota: f.gates.memory, by: Holder{Name: "another", Role: roleOperator}}
	check.Must(t, other.grow(6<<20))
	large := `{"question":"vote","epsilon":"1","objects":["` + strings.Repeat("x", 2<<20) + `"]}`
	f.refuses(problem.Busy, asked{method: "POST", target: "/v1/raises", body: large, key: "k", role: "operator"})
	other.release()
	f.refuses(problem.Invalid, asked{method: "POST", target: "/v1/raises", body: large, key: "k", role: "operator"})
	check.That(t, taken(f.gates.memory) == 0, "a large request keeps its memory")
}

// Each principal has a rate of its own.
func TestLimits_Rate_IsPerPrincipal(t *testing.T) {
	f := serving(t, Options{Limits: Limits{Rate: 1e-9, Burst: 3}})
	ask := func(role string) (int, http.Header, string) {
		return f.ask(asked{method: "GET", target: "/v1/about", role: role})
	}
	for range 3 {
		status, _, body := ask("metrics")
		check.Need(t, status == http.StatusOK, "%d: %s", status, body)
	}
	status, header, body := ask("metrics")
	wantProblem(t, status, header, body, problem.TooMany)
	status, _, body = ask("auditor")
	check.That(t, status == http.StatusOK, "another holder: %d, %s", status, body)
	// Statements of a person are events for good, so their rate is lower than any other.
	f = serving(t, Options{})
	n := 0
	for n < 100 {
		status, _, body := f.ask(asked{method: "POST", target: "/v1/statements", body: `{"object":"17"}`, key: fmt.Sprint(n), role: "person 17"})
		if status != http.StatusOK {
			wantProblem(t, status, http.Header{"Content-Type": {problem.ContentType}}, body, problem.TooMany)
			break
		}
		n++
	}
	check.That(t, n >= personBurst && n <= personBurst+10, "%d statements at once", n)
}

// A client that sends half of a request is dropped in time, and delays no other client.
func TestHandler_HalfARequest_IsDroppedInTime(t *testing.T) {
	f := serving(t, Options{Limits: Limits{Read: 20 * time.Millisecond, Running: 1}})
	p, c := served(t, f)
	for role, want := range map[string]string{"operator": "ended before its whole body arrived", "desk": "may not do this", "nobody": "no valid token"} {
		half := check.Value(p.dial())(t)
		_, err := fmt.Fprintf(half, "POST /v1/raises HTTP/1.1\r\nHost: test\r\nTest-Role: %s\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"question\":", role)
		check.Must(t, err)
		text, err := io.ReadAll(half) // until the server hangs up
		check.That(t, err == nil && strings.HasPrefix(string(text), "HTTP/1.1 4") &&
			strings.Contains(string(text), want), "%s: %v: %s", role, err, text)
	}
	within(t, "half a request keeps its place", func() bool { return taken(f.gates.arriving, f.gates.running, f.gates.memory) == 0 })
	silent, err := p.dial() // not even a header
	check.Must(t, err)
	defer func() { _ = silent.Close() }()
	r := check.Value(http.NewRequestWithContext(t.Context(), "GET", "http://test/healthz", nil))(t)
	response := check.Value(c.Do(r))(t)
	defer func() { _ = response.Body.Close() }()
	check.That(t, response.StatusCode == http.StatusOK, "status %d", response.StatusCode)
	s := f.Server()
	check.That(t, s.ReadHeaderTimeout > 0 && s.IdleTimeout > 0 && s.MaxHeaderBytes > 0, "%+v", s)
}

// A request that exceeds Limits.Time is answered with the problem late, and continues when it is
// repeated with its key.
func TestLimits_Time_RequestContinuesUnderItsKey(t *testing.T) {
	slow := true
	f := serving(t, Options{Limits: Limits{Time: 10 * time.Millisecond}, Truth: func(ctx context.Context, _ string, objects []string) ([]string, error) {
		if slow {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return make([]string, len(objects)), nil
	}})
	raise := asked{method: "POST", target: "/v1/raises", body: `{"question":"vote","epsilon":"1","objects":["18"],"partial":true}`, key: "k", role: "operator"}
	f.refuses(problem.Late, raise)
	slow = false
	f.limits.Time = time.Hour
	status, _, body := f.ask(raise)
	check.That(t, status == http.StatusOK, "%d: %s", status, body)
}

// A copy must be read at a minimum rate, because few copies are sent at a time.
func TestBackup_SlowReader_IsDropped(t *testing.T) {
	f := servingOf(t, marketLedger(t, true), Options{Limits: Limits{Write: 20 * time.Millisecond}, Scratch: testenv.TempDir(t)})
	p, _ := served(t, f)
	within(t, "no copy begins", func() bool { // on a busy machine the limit may end one before
		c := check.Value(p.dial())(t)
		t.Cleanup(func() { _ = c.Close() })
		check.Must(t, check.Err(fmt.Fprint(c, "GET /v1/backup HTTP/1.1\r\nHost: test\r\nTest-Role: auditor\r\n\r\n")))
		begin := make([]byte, len("HTTP/1.1 200"))
		_, err := io.ReadFull(c, begin)
		return err == nil && string(begin) == "HTTP/1.1 200"
	})
	within(t, "who does not take a copy keeps its place", func() bool { return taken(f.gates.copies) == 0 })
	left := check.Value(os.ReadDir(f.options.Scratch))(t)
	check.That(t, len(left) == 0, "left: %v", left)
}

func TestBackup_ScratchIsGone_TheErrorNamesIt(t *testing.T) {
	dir := filepath.Join(testenv.TempDir(t), "gone")
	f := servingOf(t, marketLedger(t, true), Options{Scratch: dir})
	status, _, body := f.ask(asked{method: http.MethodGet, target: "/v1/backup", role: "operator"})
	if want := "the copy to send, in " + dir; status != http.StatusInternalServerError || !strings.Contains(body, want) || strings.Contains(body, "sluice-backup") {
		t.Errorf("%d: %s; want %q", status, body, want)
	}
}
