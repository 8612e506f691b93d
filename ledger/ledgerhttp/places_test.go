package ledgerhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
)

// fill takes places of a room until it is refused, and returns how many it got and why no more.
func fill(r *quota, by Holder) (n int, err error) {
	for err == nil {
		if _, err = r.enter(by); err == nil {
			n++
		}
	}
	return n, err
}

// A principal gets no more places than are left for others, so that two, or three, leave some; and
// operators and metrics have places of their own.
func TestRoom_TwoPrincipalsTakeAllTheyCan_OthersGetIn(t *testing.T) {
	r := newQuota("requests", 256, 256)
	for i, want := range []int{128, 64, 32, 16, 8} {
		n, err := fill(r, Holder{Name: "a token", Role: roleBuyer, Whom: fmt.Sprint(i)})
		check.That(t, n == want && problem.Of(err).Kind == problem.TooMany,
			"buyer %d gets %d places, want %d: %v", i, n, want, err)
	}
	for role, want := range map[string]int{roleOperator: 256, roleMetrics: 16} {
		if n, err := fill(r, Holder{Name: "a token", Role: role}); n != want || problem.Of(err).Kind != problem.Busy {
			t.Errorf("the %s gets %d places, want %d: %v", role, n, want, err)
		}
	}
	for most, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 256: 64} {
		n, _ := fill(newQuota("streams", most, 64), Holder{Name: "desk", Role: roleDesk})
		check.That(t, n == want, "of %d places one principal gets %d, want %d", most, n, want)
	}
	n, _ := fill(newQuota("streams", 1024, 64), Holder{Name: "boss", Role: roleOperator})
	check.That(t, n == 64, "one operator's token gets %d streams, want 64", n)
	n, _ = fill(newQuota("copies", 1, 1), Holder{Name: "m", Role: roleMetrics})
	check.That(t, n == 1, "metrics get %d of one place", n)
}

// All tokens of a buyer, or of an object, count together; desks and auditors count by token.
func TestRoom_TwoTokensOfOneBuyer_CountTogether(t *testing.T) {
	for role, together := range map[string]bool{roleBuyer: true, rolePerson: true, roleDesk: false, roleAuditor: false} {
		whom := ""
		if role == roleBuyer || role == rolePerson {
			whom = "acme"
		}
		r := newQuota("requests", 256, 256)
		_, _ = fill(r, Holder{Name: "first", Role: role, Whom: whom})
		n, _ := fill(r, Holder{Name: "second", Role: role, Whom: whom})
		check.That(t, (n == 0) == together, "%s: the second token gets %d places", role, n)
	}
	// A desk of the name of a buyer is another principal.
	r := newQuota("requests", 256, 256)
	_, _ = fill(r, Holder{Name: "a token", Role: roleBuyer, Whom: "acme"})
	n, _ := fill(r, Holder{Name: "acme", Role: roleDesk})
	check.That(t, n != 0, "a desk counts as a buyer")
}

// Bytes count as places do, and come back.
func TestRoom_Bytes_AreCountedByPrincipalAndComeBack(t *testing.T) {
	r := newQuota("bytes", 100, 100)
	a, b := &quotaShare{quota: r, by: Holder{Name: "a", Role: roleDesk}}, &quotaShare{quota: r, by: Holder{Name: "b", Role: roleDesk}}
	check.Must(t, a.grow(30))
	check.Must(t, a.grow(20))
	err := a.grow(1)
	check.That(t, problem.Of(err).Kind == problem.TooMany, "more than half: %v", err)
	check.Must(t, b.grow(25))
	err = b.grow(1)
	check.That(t, problem.Of(err).Kind == problem.TooMany, "more than half of the rest: %v", err)
	a.release()
	a.release()
	if taken(r) != 25 || len(r.byPrincipal) != 1 {
		t.Errorf("%d bytes of %d are counted still", taken(r), len(r.byPrincipal))
	}
	check.Must(t, b.grow(10))
}

// halves sends the beginning of requests of a buyer, which stay open until the test ends, and waits
// until all of it was read, or refused.
func halves(t *testing.T, p *pipes, buyer, begin string, n int) {
	t.Helper()
	var sent sync.WaitGroup
	defer sent.Wait()
	for range n {
		half := check.Value(p.dial())(t)
		t.Cleanup(func() { _ = half.Close() })
		header := fmt.Sprintf("POST /v1/quotes HTTP/1.1\r\nHost: test\r\nTest-Role: buyer %s\r\n", buyer) +
			fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", 4<<20)
		sent.Go(func() { _, _ = io.WriteString(half, header+begin) }) // not all is read of what is refused
		go func() { _, _ = io.Copy(io.Discard, half) }()
	}
}

// Two buyers that send halves of requests, small or large, as many as they like, keep no other
// caller out: the halves have no place among the requests that run, and their number and their
// bytes are bounded.
func TestHandler_TwoBuyersSendHalvesOfRequests_OthersAreAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		begin string
		want  func(f *fixture) bool // they have what they may have
	}{
		"small": {"{", func(f *fixture) bool { return taken(f.gates.arriving) == 32+16 }},
		"large": {`{"buyer":"` + strings.Repeat("x", 1<<20), func(f *fixture) bool { return taken(f.gates.memory) <= (4+2)<<20 }},
	} {
		t.Run(name, func(t *testing.T) {
			// Nothing times out here.
			f := serving(t, Options{Limits: Limits{Running: 16, Memory: 8 << 20, Read: time.Hour}})
			p, _ := served(t, f)
			halves(t, p, "acme", c.begin, 80)
			halves(t, p, "bolt", c.begin, 80)
			within(t, "the buyers get more than they may, or less", func() bool { return c.want(f) })
			quote := asked{method: "POST", target: "/v1/quotes", body: `{"buyer":"coyote","question":"vote","epsilon":"1","all":true}`, role: "buyer coyote"}
			if status, _, body := f.ask(quote); status != http.StatusOK {
				t.Errorf("another buyer: %d, %s", status, body)
			}
			for target, role := range map[string]string{"/v1/stats": "operator", "/metrics": "metrics", "/v1/head": "desk"} {
				f.answers(asked{method: "GET", target: target, role: role})
			}
			large := `{"question":"vote","epsilon":"1","objects":["` + strings.Repeat("x", 2<<20) + `"]}`
			status, header, body := f.ask(asked{method: "POST", target: "/v1/raises", body: large, key: "k", role: "operator"})
			wantProblem(t, status, header, body, problem.Invalid) // it was read
			if taken(f.gates.running) != 0 {
				t.Errorf("%d halves of requests are counted as running", taken(f.gates.running))
			}
		})
	}
}

// clocked is a connection whose clock is a test's: each read and each write takes some time.
type clocked struct {
	*httptest.ResponseRecorder
	at          time.Time
	takes       time.Duration // for each part
	deadline    time.Time
	parts, most int // parts written, and the largest
}

func (c *clocked) now() time.Time { return c.at }

func (c *clocked) SetWriteDeadline(at time.Time) error { c.deadline = at; return nil }
func (c *clocked) SetReadDeadline(at time.Time) error  { c.deadline = at; return nil }

// part does what a connection does: it takes its time, and no longer than until the deadline.
func (c *clocked) part() error {
	c.at = c.at.Add(c.takes)
	if c.deadline.Before(c.at) {
		c.at = c.deadline
		return errors.New("i/o timeout")
	}
	return nil
}

func (c *clocked) Write(p []byte) (int, error) {
	if err := c.part(); err != nil {
		return 0, err
	}
	c.parts++
	c.most = max(c.most, len(p))
	return len(p), nil
}

// slowBody is a body of which each read brings a few bytes after some time.
type slowBody struct {
	*clocked
	each, left int
}

func (b *slowBody) Read(p []byte) (int, error) {
	n := min(b.each, b.left, len(p))
	if n == 0 {
		return 0, io.EOF
	}
	if err := b.part(); err != nil {
		return 0, err
	}
	b.left -= n
	return n, nil
}

func (b *slowBody) Close() error { return nil }

// An answer may take any time as long as its reader makes progress: 35 MB at 500 kB/s take 70 s. A
// reader that is too slow, or has stopped, is cut off after the time that it may be late. It gains
// nothing by having been fast.
func TestWriter_LongAnswer_EndsByProgressNotByTime(t *testing.T) {
	const size = 35e6
	for name, c := range map[string]struct {
		takes time.Duration // for 16 KiB
		whole bool
		after time.Duration // about
	}{
		"500 kB/s": {partSize * time.Second / 500e3, true, 70 * time.Second},
		"17 KiB/s": {16 * time.Second / 17, true, 2010 * time.Second},
		"8 KiB/s":  {2 * time.Second, false, 60 * time.Second},
		"nothing":  {time.Hour, false, 30 * time.Second},
	} {
		w := &clocked{ResponseRecorder: httptest.NewRecorder(), at: time.Unix(0, 0), takes: c.takes}
		out := newWriter(w, Limits{}.orDefaults())
		out.now = w.now
		n, err := out.Write(make([]byte, size))
		took := w.at.Sub(time.Unix(0, 0))
		check.That(t, (err == nil) == c.whole && (n == size) == c.whole && took >= c.after*9/10 &&
			took <= c.after*11/10, "%s: %d bytes after %v: %v", name, n, took, err)
		check.That(t, w.most <= partSize, "%s: a part has %d bytes, and one deadline", name, w.most)
	}
	// Who was fast for long may stop for no longer than others.
	w := &clocked{ResponseRecorder: httptest.NewRecorder(), at: time.Unix(0, 0)}
	out := newWriter(w, Limits{}.orDefaults())
	out.now = w.now
	check.Must(t, check.Err(out.Write(make([]byte, size))))
	w.takes = time.Hour
	if _, err := out.Write([]byte("x")); err == nil || w.at.Sub(time.Unix(0, 0)) > 30*time.Second {
		t.Errorf("it stops for %v: %v", w.at.Sub(time.Unix(0, 0)), err)
	}
}

// A body of one byte a second is given up after the time that it may be late. A fast enough body
// may take any time.
func TestHandler_BodyOfAByteASecond_IsGivenUp(t *testing.T) {
	f := serving(t, Options{})
	for name, c := range map[string]struct {
		each  int
		whole bool
	}{"a byte a second": {1, false}, "20 KiB/s": {20 << 10, true}} {
		w := &clocked{ResponseRecorder: httptest.NewRecorder(), at: time.Unix(0, 0), takes: time.Second}
		body := &slowBody{clocked: w, each: c.each, left: 1 << 20}
		out := newWriter(w, f.limits)
		out.now = w.now
		request := httptest.NewRequest("POST", "/v1/quotes", body)
		one := &call{handler: f.Handler, holder: Holder{Name: "a", Role: roleDesk}, request: request, out: out}
		err := one.receive()
		took := w.at.Sub(time.Unix(0, 0))
		check.That(t, (err == nil) == c.whole && (c.whole || took >= 10*time.Second && took <= 11*time.Second),
			"%s: after %v: %v", name, took, err)
		check.That(t, !c.whole || took >= 50*time.Second && len(one.raw) == 1<<20,
			"%s: %d bytes after %v", name, len(one.raw), took)
		one.forgetBody()
		check.That(t, taken(f.gates.memory, f.gates.arriving) == 0, "%s: it counts still", name)
	}
}

// A client that does not read its answer holds no place among running requests as long as there is
// memory for answers. Without memory it keeps its place, so that memory is bounded in both cases.
func TestHandler_SlowReader_HoldsMemoryAndNoPlace(t *testing.T) {
	for name, c := range map[string]struct {
		memory  int64
		running int
	}{"memory": {1 << 20, 0}, "no memory": {1, 1}} {
		f := serving(t, Options{Limits: Limits{Memory: c.memory, Write: time.Hour}})
		long := api.Question{Name: "long"} // it does not fit into the buffer of the server
		for n := range 300 {
			long.Values = append(long.Values, fmt.Sprintf("%040d", n))
		}
		check.Must(t, f.ledger.DefineQuestion(t.Context(), "long", long))
		p, _ := served(t, f)
		conn := check.Value(p.dial())(t)
		_, err := fmt.Fprint(conn, "GET /v1/questions HTTP/1.1\r\nHost: test\r\nTest-Role: desk\r\n\r\n")
		check.Must(t, err)
		_, err = conn.Read(make([]byte, 1)) // it has begun; a pipe has no buffer
		check.Must(t, err)
		n := taken(f.gates.running)
		check.That(t, n == c.running, "%s: the reader holds %d places, want %d", name, n, c.running)
		n = taken(f.gates.memory)
		check.That(t, (n > 0) == (c.running == 0), "%s: %d bytes are counted", name, n)
		check.Must(t, conn.Close())
		within(t, "it holds something still", func() bool { return taken(f.gates.running, f.gates.memory) == 0 })
	}
}

// A connection is kept after a request that was admitted, and after no other.
func TestHandler_WithoutAToken_ConnectionIsClosed(t *testing.T) {
	f := serving(t, Options{})
	for name, c := range map[string]struct {
		asked
		kept bool
	}{
		"no token":       {asked{method: "GET", target: "/v1/head"}, false},
		"health":         {asked{method: "GET", target: "/healthz"}, false},
		"nothing there":  {asked{method: "GET", target: "/v1/nothing"}, false},
		"no such method": {asked{method: "PUT", target: "/v1/head"}, false},
		"answered":       {asked{method: "GET", target: "/v1/head", role: "metrics"}, true},
		"forbidden":      {asked{method: "GET", target: "/v1/events", role: "metrics"}, true},
		"unread":         {asked{method: "POST", target: "/v1/quotes", role: "metrics", body: "{}"}, false},
	} {
		_, header, _ := f.ask(c.asked)
		kept := header.Get("Connection") != "close"
		check.That(t, kept == c.kept, "%s: the connection is kept: %v", name, kept)
	}
	f.refuses(problem.Invalid, asked{method: "GET", target: "/v1/head", role: "metrics", body: "{}"})
}

// What callers without a token make the log say is bounded; what is left out is counted.
func TestQuiet_ManyLines_AreCountedAndFewAreWritten(t *testing.T) {
	now := time.Unix(1e9, 0)
	q := newLineLimiter(func() time.Time { return now })
	lines := 0
	for range 1000 {
		if _, may := q.allow(); may {
			lines++
		}
	}
	check.That(t, lines == lineBurst, "%d lines at once, want %d", lines, lineBurst)
	now = now.Add(2 * time.Second)
	left, may := q.allow()
	check.That(t, may && left == uint64(1000-lines), "later: %v, %d left out, want %d", may, left, 1000-lines)
	left, may = q.allow()
	check.That(t, may && left == 0, "and then: %v, %d left out", may, left)
}

// Half of a request to where nothing is holds its connection for no longer than its answer takes to
// be read.
func TestHandler_HalfOfARequestToNowhere_IsDropped(t *testing.T) {
	p, _ := served(t, serving(t, Options{Limits: Limits{Read: time.Hour}}))
	for _, target := range []string{"/nowhere", "/healthz"} {
		half := check.Value(p.dial())(t)
		check.Must(t, check.Err(fmt.Fprintf(half, "POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\n{", target)))
		if text, err := io.ReadAll(half); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 40") { // until the server hangs up
			t.Errorf("%s: %v: %s", target, err, text)
		}
	}
}
