package ledgerhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// Options say how a ledger is served.
type Options struct {
	// Gate returns the caller of a request, and false if it is not known: that of [OpenTokens],
	// [Holder.Admit], or a function of the host's. It is called for each request and, while an answer
	// takes long, each second and before more of it is sent, concurrently. It must be set.
	Gate func(*http.Request) (Holder, bool)
	// Truth is asked for the true values that draws need and requests do not bring. If it
	// is set, only an operator may bring values: a caller that does can find out by trying which is
	// the true one, if the ledger has a truth key. If it is nil, such requests are answered with
	// whose values they need; desks bring those that their sales need, and are trusted with all.
	Truth api.TruthFunc
	// Leader, of a standby, returns the name of the host that has the ledger, for the answer to
	// requests that change something. nil is for a ledger that is no standby.
	Leader func(ctx context.Context) (string, error)
	// Limits bound what requests may take. The zero value of each has a default.
	Limits Limits
	// Scratch is a directory for copies of the file that are being sent; "" is that of
	// [os.TempDir]. They are readable to their owner only, and have no name while they are sent.
	Scratch string
	// Answered is called, concurrently, when a request was answered: with its operationId in the
	// document of the API, such as "sell", its status, and the time until all of the answer was
	// sent. Package metrics counts that for Prometheus. It must not panic, and may be nil.
	Answered func(route string, status int, took time.Duration)
	// Metrics answers requests at /metrics about the ledger that is served. It must not panic. nil:
	// there is nothing at /metrics.
	Metrics func(w http.ResponseWriter, r *http.Request, l *ledger.Ledger)
	// Logger gets a line for each request: who asked, by name and role, for which route, and how it
	// ended. No such line has a name of a person, a query or a body. What fails for a reason of the
	// server's own has a line with its error, which may name somebody. No line has a true value.
	// The zero value is silent.
	Logger zerolog.Logger
}

// Handler serves a ledger. It is an [http.Handler] that a host mounts beside its own, with
// [http.StripPrefix] where it is not to be at the root.
type Handler struct {
	ledger   atomic.Pointer[ledger.Ledger]
	follows  atomic.Bool // it is a standby, and has not taken over
	options  Options
	limits   Limits
	mux      *http.ServeMux
	gates    gates
	document description
	unknown  *quiet                                       // bounds what the log says of requests without a token
	ticker   func() (ticks <-chan time.Time, stop func()) // of the checks of answers that take long

	streaming  context.Context // until streams are to end
	endStreams context.CancelFunc
}

// New returns the handler of a ledger, which stays the caller's to close, after the server. Of a
// standby that is [Handler.Ledger].
func New(l *ledger.Ledger, o Options) (*Handler, error) {
	if o.Gate == nil {
		return nil, errors.New("ledgerhttp: Options.Gate is not set: nothing is open without a choice")
	}
	h := &Handler{
		options: o, limits: o.Limits.orDefaults(), mux: http.NewServeMux(),
		unknown: newQuiet(time.Now), ticker: everySecond,
	}
	h.ledger.Store(l)
	h.follows.Store(o.Leader != nil)
	h.streaming, h.endStreams = context.WithCancel(context.Background())
	h.gates.init(h.limits)
	all := routes()
	var err error
	if h.document, err = newDescription(); err != nil {
		return nil, err
	}
	methods := map[string][]string{"/healthz": {http.MethodGet}, documentPath: {http.MethodGet}}
	for _, r := range all {
		h.mux.Handle(r.method+" "+r.path, h.guarded(&r))
		methods[r.path] = append(methods[r.path], r.method)
	}
	for at, allowed := range methods {
		h.mux.HandleFunc(at, func(w http.ResponseWriter, r *http.Request) {
			list := strings.Join(allowed, ", ")
			w.Header().Set("Allow", list)
			h.fail(newWriter(w, h.limits), roleOperator, problem.New(problem.Method, "only %s", list))
		})
	}
	h.mux.HandleFunc("GET /healthz", h.healthy)
	h.mux.HandleFunc("GET "+documentPath, h.describe)
	return h, nil
}

// Ledger is what is served now: what New was given, or what a takeover has made of it.
func (h *Handler) Ledger() *ledger.Ledger { return h.ledger.Load() }

// TakeOver has the ledger that is served, a standby, take over ([ledger.Ledger.TakeOver]), and
// serves what comes of it. Requests that are under way end with [api.ErrClosed]. If it fails,
// the standby is served as before.
func (h *Handler) TakeOver(ctx context.Context) error {
	next, err := h.Ledger().TakeOver(ctx)
	if err != nil {
		return err
	}
	h.ledger.Store(next)
	h.follows.Store(false)
	return nil
}

// EndStreams ends all streams of events and lists, now and from now on, so that a server can be
// shut down: call it before [http.Server.Shutdown].
func (h *Handler) EndStreams() { h.endStreams() }

// healthy answers whoever asks: it says that there is a server, and nothing else.
func (h *Handler) healthy(w http.ResponseWriter, r *http.Request) {
	if _, err := h.Ledger().Stats(r.Context()); err != nil {
		h.fail(newWriter(w, h.limits), roleOperator, problem.New(problem.Stopped, "the ledger does not answer"))
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// A connection is kept only after a request that was admitted.
	w.Header().Set("Connection", "close")
	out := newWriter(w, h.limits)
	out.wait() // the deadline of the answer before is over
	if r.ContentLength != 0 {
		// Also of what is refused unread: the server reads on to find the next request after it.
		out.expect(lingering)
	}
	// No path of this API has anything to be cleaned or escaped. Whoever sends one means to be
	// mistaken for another.
	_, pattern := h.mux.Handler(r)
	if r.URL.RawPath != "" || r.URL.Path != path.Clean(r.URL.Path) || pattern == "" {
		h.fail(newWriter(w, h.limits), roleMetrics, problem.New(problem.NoRoute, "there is nothing at this path"))
		return
	}
	h.mux.ServeHTTP(w, r)
}

// guarded returns the handler of a route: who asks, whether they may, whether there is room, and
// then the call.
func (h *Handler) guarded(r *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		begun, r := time.Now(), r.of(request)
		out := newWriter(w, h.limits)
		holder, err := h.admit(r, request, out)
		c := &call{
			handler: h, route: r, holder: holder, admitted: request, request: request, out: out, leave: func() {},
		}
		if err == nil {
			err = h.safely(c)
		}
		if err != nil {
			c.dismiss()
			h.fail(out, holder.Role, err)
		}
		h.logged(c, time.Since(begun))
		if h.options.Answered != nil {
			h.options.Answered(r.id, out.status, time.Since(begun))
		}
		if out.broken {
			panic(http.ErrAbortHandler) // what was sent is not whole: the connection says so
		}
	})
}

// logged writes the line of a request. Those without a token have few: anybody can send them.
func (h *Handler) logged(c *call, took time.Duration) {
	line := h.options.Logger.Info().Str("route", c.route.id)
	if c.holder.Role == "" {
		left, may := h.unknown.allow()
		if !may {
			return
		}
		line.Uint64("unlogged", left)
	}
	line.Str("holder", c.holder.Name).Str("role", c.holder.Role)
	line.Int("status", c.out.status).Dur("took", took).Msg("request")
}

// hasRole reports whether a holder has a role, and logs the error if it has none: the gate is wrong.
func (h *Handler) hasRole(holder Holder) bool {
	err := httpapi.CheckRole(holder.Role, holder.Whom)
	if err != nil {
		h.options.Logger.Error().Str("holder", holder.Name).Err(err).Msg("the gate returned an invalid holder")
	}
	return err == nil
}

// admit finds out who asks, and whether they may.
func (h *Handler) admit(r *route, request *http.Request, out *writer) (Holder, error) {
	holder, known := h.options.Gate(request)
	if !known || !h.hasRole(holder) {
		return Holder{}, problem.New(problem.Unauthorized, "there is no valid token with this request")
	}
	if !prove(request.Context(), holder) {
		return holder, problem.New(problem.TooMany, "there are more connections than this caller may have now")
	}
	out.Header().Del("Connection")
	if !r.allows(holder.Role) {
		return holder, problem.New(problem.Forbidden, "the role %s may not do this: %s", holder.Role, r.summary)
	}
	return holder, nil
}

// safely runs a call. One that panics is an error; the ledger, and other calls, go on.
func (h *Handler) safely(c *call) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			// What a panic says may be anything, a true value among it: only where it happened is
			// told.
			line := h.options.Logger.Error().Str("route", c.route.id)
			line.Type("panic", reason).Bytes("stack", debug.Stack()).Msg("a request panicked")
			err = problem.New(problem.Unexpected, "this request failed for a reason that only the server's log has")
		}
		c.bearer.forget()
		c.forgetBody()
		c.leave()
		c.settle()
	}()
	if err := h.gates.pace(c.holder); err != nil {
		return err
	}
	if err := c.read(); err != nil {
		return err
	}
	leave, err := h.gates.enter(c.holder, c.route)
	if err != nil {
		return err
	}
	c.leave = leave
	if err := c.decode(); err != nil {
		return err
	}
	return c.run()
}

// run serves a call, and sends its result.
func (c *call) run() error {
	ctx, cancel := c.bounded()
	defer cancel()
	c.request = c.request.WithContext(ctx)
	c.asOf()
	result, err := c.compute()
	if err != nil {
		return c.elsewhere(c.keyed(c.bearer.explain(problem.Of(err))))
	}
	return c.send(c.ctx(), result)
}

// asOf has a standby say as of which event it answers.
func (c *call) asOf() {
	if !c.handler.follows.Load() {
		return
	}
	stats, err := c.ledger().Stats(c.ctx())
	if err != nil {
		return // the call returns what is wrong, if it reads anything
	}
	c.out.Header().Set(httpapi.EventHeader, strconv.FormatUint(stats.Events, 10))
}

// reached refuses, on a standby, what is asked about an event that it does not have yet.
func (c *call) reached(events uint64) error {
	if !c.handler.follows.Load() {
		return nil
	}
	stats, err := c.ledger().Stats(c.ctx())
	if err == nil && events > stats.Events {
		const what = "this host is a standby that has %d events, and not %d yet"
		return problem.New(problem.Behind, what, stats.Events, events)
	}
	return err
}

// bounded returns the context in which a call runs: a stream until streams are to end, and any
// other for its time.
func (c *call) bounded() (context.Context, context.CancelFunc) {
	if !c.route.long {
		return context.WithTimeout(c.ctx(), c.handler.limits.Time)
	}
	ctx, cancel := context.WithCancelCause(c.ctx())
	detach := context.AfterFunc(c.handler.streaming, func() { cancel(nil) })
	unwatch := c.watch(cancel)
	return ctx, func() {
		unwatch()
		detach()
		cancel(nil)
	}
}

// elsewhere says, of what a standby does not do, who does it.
func (c *call) elsewhere(p *api.Problem) *api.Problem {
	if p.Kind != problem.ReadOnly || !c.handler.follows.Load() {
		return p
	}
	within, cancel := context.WithTimeout(c.ctx(), patience)
	defer cancel()
	who, err := c.handler.options.Leader(within)
	if err != nil {
		who = ""
	}
	p = problem.New(problem.ReadOnly, "this host is a standby, which changes nothing; ")
	if p.Leader = who; who != "" {
		p.Detail += fmt.Sprintf("the host %q has the ledger", who)
	} else {
		p.Detail += "who has the ledger could not be found out"
	}
	p.Hint = "ask the host that has the ledger; if it is gone for good, have this one take over"
	return p
}

// patience is how long is waited for the name of another host.
const patience = 5 * time.Second

// read reads what comes with a request: the query, the idempotency key, and the body as it is.
func (c *call) read() (err error) {
	var bad *api.Problem
	if c.params, bad = query(c.request.URL.RawQuery, c.route.params); bad != nil {
		return bad
	}
	if c.route.keyed {
		if c.given, bad = keyOf(c.request.Header); bad != nil {
			return bad
		}
		if c.key, err = c.holder.namespaced(c.given); err != nil {
			return err
		}
	}
	if c.route.in == nil {
		if c.request.ContentLength != 0 {
			return problem.New(problem.Invalid, "this request has no body")
		}
		return nil
	}
	if !isJSON(c.request.Header) {
		return problem.At("Content-Type", problem.MediaType, "the body must be application/json")
	}
	return c.receive()
}

// decode takes the body of a request that has arrived.
func (c *call) decode() error {
	if c.route.in == nil {
		return nil
	}
	c.body = reflect.New(c.route.in).Interface()
	if bad := decode(bytes.NewReader(c.raw), c.body); bad != nil {
		return bad
	}
	return nil
}

// fail answers with a problem.
func (h *Handler) fail(out *writer, role string, err error) {
	p := h.told(role, err)
	switch p.Status {
	case http.StatusUnauthorized:
		out.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if out.Header().Get("Retry-After") == "" {
			out.Header().Set("Retry-After", "1")
		}
	}
	out.problem(p)
}

// told returns the problem of an error as a role is told it, wherever it stands. What fails for a
// reason of the server's own has a line in the log, unless whoever asked has left: only an operator
// is told the reason.
func (h *Handler) told(role string, err error) *api.Problem {
	p := *problem.Of(err)
	if p.Status >= http.StatusInternalServerError && p.Kind != problem.Interrupted {
		h.options.Logger.Error().Err(err).Msg("a request failed")
	}
	return seenProblem(p, role)
}
