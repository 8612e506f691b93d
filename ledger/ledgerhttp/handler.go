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

// Options configure how a ledger is served.
type Options struct {
	// Gate returns the caller of a request, or false if it does not know the caller. It is the
	// gate of [OpenTokens], [Holder.Admit], or a function of the host. The handler calls it for
	// each request, and again each second and before each further part of a long answer. Calls are
	// concurrent. It must be set.
	Gate func(*http.Request) (Holder, bool)
	// Truth returns the true values that draws need and requests do not bring. If it is set, only
	// an operator may bring true values: with a truth key, any other caller could find the true
	// value by trying. If it is nil, a request without the values that it needs is answered with
	// the objects that need one. Desks then bring the values that their sales need, and are
	// trusted with all of them.
	Truth api.TruthFunc
	// Leader returns, for a standby, the name of the host that has the ledger. The answer to a
	// request that would change the ledger contains the name. nil means that the ledger is not a
	// standby.
	Leader func(ctx context.Context) (string, error)
	// Limits bound what requests may take. A field that is zero has its default.
	Limits Limits
	// Scratch is the directory for copies of the ledger file while they are sent; "" is
	// [os.TempDir]. Only their owner can read the copies, and they have no name while they are
	// sent.
	Scratch string
	// Answered is called after a request was answered, concurrently. Its arguments are the
	// operationId in the API document, such as "sell", the status, and the time until the whole
	// answer was sent. Package metrics counts these for Prometheus. It must not panic, and may be
	// nil.
	Answered func(route string, status int, took time.Duration)
	// Metrics answers requests at /metrics about the served ledger. It must not panic. If it is
	// nil, there is nothing at /metrics.
	Metrics func(w http.ResponseWriter, r *http.Request, l *ledger.Ledger)
	// Logger gets a line for each request, with the name and role of the caller, the route, and
	// the result. This line never contains the name of a person, a query or a body. A failure of
	// the server itself gets a line with its error, which may name an object. No line contains a
	// true value. The zero value logs nothing.
	Logger zerolog.Logger
}

// Handler serves a ledger. It is an [http.Handler]. A host that mounts it below a path uses
// [http.StripPrefix].
type Handler struct {
	ledger       atomic.Pointer[ledger.Ledger]
	isStandby    atomic.Bool // it is a standby that has not taken over
	options      Options
	limits       Limits
	mux          *http.ServeMux
	gates        gates
	document     description
	unknownLines *lineLimiter                                 // bounds log lines of requests without a valid token
	ticker       func() (ticks <-chan time.Time, stop func()) // the ticks at which long answers ask the gate again

	streaming  context.Context // ended when streams must end
	endStreams context.CancelFunc
}

// New returns the handler of a ledger. The caller still owns the ledger, and closes it after the
// server. After a takeover of a standby, the ledger to close is [Handler.Ledger].
func New(l *ledger.Ledger, o Options) (*Handler, error) {
	if o.Gate == nil {
		return nil, errors.New("ledgerhttp: Options.Gate is not set: it must identify the callers")
	}
	h := &Handler{
		options: o, limits: o.Limits.orDefaults(), mux: http.NewServeMux(),
		unknownLines: newLineLimiter(time.Now), ticker: everySecond,
	}
	h.ledger.Store(l)
	h.isStandby.Store(o.Leader != nil)
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
		// A pattern without a method gets the requests with all other methods.
		h.mux.HandleFunc(at, func(w http.ResponseWriter, r *http.Request) {
			list := strings.Join(allowed, ", ")
			w.Header().Set("Allow", list)
			h.fail(newWriter(w, h.limits), roleOperator, problem.New(problem.Method, "this path has only %s", list))
		})
	}
	h.mux.HandleFunc("GET /healthz", h.serveHealthz)
	h.mux.HandleFunc("GET "+documentPath, h.serveDocument)
	return h, nil
}

// Ledger returns the ledger that is served now: the one that was given to New, or the result of a
// takeover.
func (h *Handler) Ledger() *ledger.Ledger { return h.ledger.Load() }

// TakeOver makes the served standby take over ([ledger.Ledger.TakeOver]), and then serves the
// resulting ledger. Requests in progress end with [api.ErrClosed]. If it fails, the standby is
// served as before.
func (h *Handler) TakeOver(ctx context.Context) error {
	next, err := h.Ledger().TakeOver(ctx)
	if err != nil {
		return err
	}
	h.ledger.Store(next)
	h.isStandby.Store(false)
	return nil
}

// EndStreams ends all streams of events and lists, including those that start later. Call it
// before [http.Server.Shutdown], which otherwise waits for the streams.
func (h *Handler) EndStreams() { h.endStreams() }

// serveHealthz answers any caller. The answer contains only whether the ledger responds.
func (h *Handler) serveHealthz(w http.ResponseWriter, r *http.Request) {
	if _, err := h.Ledger().Stats(r.Context()); err != nil {
		// roleOperator: the text is sent as it is, because it contains nothing that others may not
		// see
		h.fail(newWriter(w, h.limits), roleOperator, problem.New(problem.Stopped, "the ledger does not answer"))
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// ServeHTTP implements [http.Handler]. It refuses a path that has no route, and passes any other
// request to the handler of its route (see guarded).
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// A connection stays open only after a request that was admitted; admit removes this header.
	w.Header().Set("Connection", "close")
	out := newWriter(w, h.limits)
	out.setDeadline() // replaces the write deadline of the previous answer
	if r.ContentLength != 0 {
		// Also for a request that is refused before its body is read: the server then reads the
		// rest of the body, to find the next request. receive sets longer deadlines.
		out.setBodyDeadline(lingerTime)
	}
	// No path of this API has to be cleaned or unescaped. A path that does is an attempt to pass
	// for another path.
	_, pattern := h.mux.Handler(r)
	if r.URL.RawPath != "" || r.URL.Path != path.Clean(r.URL.Path) || pattern == "" {
		// The caller is not known yet; every role sees this problem in the same form.
		h.fail(newWriter(w, h.limits), roleMetrics, problem.New(problem.NoRoute, "there is nothing at this path"))
		return
	}
	h.mux.ServeHTTP(w, r)
}

// guarded returns the handler of a route. The handler identifies the caller, checks its role,
// applies the limits, and runs the call. If one of these fails, it answers with the problem. After
// the answer it logs the request, and calls Options.Answered.
func (h *Handler) guarded(r *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		begun, r := time.Now(), r.forRequest(request)
		out := newWriter(w, h.limits)
		holder, err := h.admit(r, request, out)
		c := &call{
			handler: h, route: r, holder: holder, admitted: request, request: request, out: out,
			leaveRunning: func() {}, // replaced when the request has a place among the running ones
		}
		if err == nil {
			err = h.runSafely(c)
		}
		if err != nil {
			c.closeUnread()
			h.fail(out, holder.Role, err)
		}
		h.logRequest(c, time.Since(begun))
		if h.options.Answered != nil {
			h.options.Answered(r.id, out.status, time.Since(begun))
		}
		if out.isBroken {
			panic(http.ErrAbortHandler) // the answer is incomplete: aborting the connection shows this to the client
		}
	})
}

// logRequest writes the log line of a request. A request without a valid token has the role "". Its
// line is rate-limited, because any client can send such requests. The field "unlogged" is the
// number of lines suppressed since the last such line.
func (h *Handler) logRequest(c *call, took time.Duration) {
	line := h.options.Logger.Info().Str("route", c.route.id)
	if c.holder.Role == "" {
		left, may := h.unknownLines.allow()
		if !may {
			return
		}
		line.Uint64("unlogged", left)
	}
	line.Str("holder", c.holder.Name).Str("role", c.holder.Role)
	line.Int("status", c.out.status).Dur("took", took).Msg("request")
}

// hasRole reports whether a holder that the gate returned has a valid role, and a buyer or an
// object exactly if the role needs one. If not, the gate is faulty, and the error is logged.
func (h *Handler) hasRole(holder Holder) bool {
	err := httpapi.CheckRole(holder.Role, holder.Whom)
	if err != nil {
		h.options.Logger.Error().Str("holder", holder.Name).Err(err).Msg("the gate returned an invalid holder")
	}
	return err == nil
}

// admit returns the caller of a request. It returns an error, and the zero Holder, if the caller is
// unknown. It returns an error, and the caller, if the caller has too many connections, or may not
// use the route. For a caller that is known and has not too many connections, the connection stays
// open after the answer.
func (h *Handler) admit(r *route, request *http.Request, out *writer) (Holder, error) {
	holder, known := h.options.Gate(request)
	if !known || !h.hasRole(holder) {
		return Holder{}, problem.New(problem.Unauthorized, "this request has no valid token")
	}
	if !admitConnection(request.Context(), holder) {
		return holder, problem.New(problem.TooMany, "this caller has as many connections as it may have now")
	}
	out.Header().Del("Connection")
	if !r.allows(holder.Role) {
		return holder, problem.New(problem.Forbidden, "the role %s may not do this: %s", holder.Role, r.summary)
	}
	return holder, nil
}

// runSafely runs a call and turns a panic into an error, so that the ledger and other calls go on.
// It applies the limits in the order rate, body, running requests. So a request whose body arrives
// slowly has no place among the running ones. When runSafely returns, the call holds none of the
// limited resources.
func (h *Handler) runSafely(c *call) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			// The text of a panic may contain a true value: only its type and stack are logged.
			line := h.options.Logger.Error().Str("route", c.route.id)
			line.Type("panic", reason).Bytes("stack", debug.Stack()).Msg("a request panicked")
			err = problem.New(problem.Unexpected, "this request failed: the server's log has the reason")
		}
		c.truthSource.forget()
		c.forgetBody()
		c.leaveRunning()
		c.settleRecords()
	}()
	if err := h.gates.checkRate(c.holder); err != nil {
		return err
	}
	if err := c.read(); err != nil {
		return err
	}
	leave, err := h.gates.enter(c.holder, c.route)
	if err != nil {
		return err
	}
	c.leaveRunning = leave
	if err := c.decode(); err != nil {
		return err
	}
	return c.run()
}

// run executes a call and sends its result. If the call fails, it returns the problem to answer
// with. It adds to the problem what only the call knows: the needed true values, the key as the
// caller sent it, and the leader.
func (c *call) run() error {
	ctx, cancel := c.bounded()
	defer cancel()
	c.request = c.request.WithContext(ctx)
	c.setEventHeader()
	result, err := c.compute()
	if err != nil {
		return c.addLeader(c.withGivenKey(c.truthSource.explain(problem.Of(err))))
	}
	return c.send(c.ctx(), result)
}

// setEventHeader sets, on a standby, the header with the number of events that the answer is based
// on. It is called before the call reads the ledger, so the answer may also include later events.
func (c *call) setEventHeader() {
	if !c.handler.isStandby.Load() {
		return
	}
	stats, err := c.ledger().Stats(c.ctx())
	if err != nil {
		return // the call itself returns the error, if it reads the ledger
	}
	c.out.Header().Set(httpapi.EventHeader, strconv.FormatUint(stats.Events, 10))
}

// checkHasEvents returns an error, on a standby, if the standby does not have so many events yet.
// Otherwise it returns nil. A host that is no standby has all events of the log.
func (c *call) checkHasEvents(events uint64) error {
	if !c.handler.isStandby.Load() {
		return nil
	}
	stats, err := c.ledger().Stats(c.ctx())
	if err == nil && events > stats.Events {
		const what = "this host is a standby with %d events, and does not have event %d yet"
		return problem.New(problem.Behind, what, stats.Events, events)
	}
	return err
}

// bounded returns the context of a call, and a function that the caller must call at the end. The
// context of a long route (route.isLong) ends when the handler ends streams. It also ends when the
// gate no longer admits the caller; its cause is then the error of permitted. The context of any
// other call ends after Limits.Time.
func (c *call) bounded() (context.Context, context.CancelFunc) {
	if !c.route.isLong {
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

// addLeader completes the problem of a standby that was asked for a change. It returns a problem
// that names the host that has the ledger, or says that this host is not known within
// leaderTimeout. It returns any other problem as it is.
func (c *call) addLeader(p *api.Problem) *api.Problem {
	if p.Kind != problem.ReadOnly || !c.handler.isStandby.Load() {
		return p
	}
	within, cancel := context.WithTimeout(c.ctx(), leaderTimeout)
	defer cancel()
	leader, err := c.handler.options.Leader(within) // not nil: only with Leader is the handler's ledger a standby
	if err != nil {
		leader = ""
	}
	p = problem.New(problem.ReadOnly, "this host is a standby, which changes nothing; ")
	if p.Leader = leader; leader != "" {
		p.Detail += fmt.Sprintf("the host %q has the ledger", leader)
	} else {
		p.Detail += "the name of the host that has the ledger is not known now"
	}
	p.Hint = "send the request to the host that has the ledger; if that host is lost, make this one take over"
	return p
}

// leaderTimeout is how long a request waits for the name of the host that has the ledger.
const leaderTimeout = 5 * time.Second

// read reads the query, the idempotency key, and the undecoded body of a request into c. It returns
// a problem if one of them is missing or invalid.
func (c *call) read() (err error) {
	var bad *api.Problem // of its own: a nil *api.Problem in err would be an error that is not nil
	if c.params, bad = query(c.request.URL.RawQuery, c.route.params); bad != nil {
		return bad
	}
	if c.route.needsKey {
		if c.givenKey, bad = keyOf(c.request.Header); bad != nil {
			return bad
		}
		if c.key, err = c.holder.namespaced(c.givenKey); err != nil {
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

// decode decodes the body of a request, all of which has arrived, from c.raw to c.body. It does
// nothing for a route without a body.
func (c *call) decode() error {
	if c.route.in == nil {
		return nil
	}
	c.body = reflect.New(c.route.in).Interface()
	if bad := decode(bytes.NewReader(c.raw), c.body); bad != nil {
		return bad
	}
	return nil // not bad: a nil *api.Problem would be an error that is not nil
}

// fail answers a request with the problem of an error, as a caller with this role may see it.
func (h *Handler) fail(out *writer, role string, err error) {
	p := h.problemFor(role, err)
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

// problemFor returns the problem of an error as a caller with this role may see it. It logs a
// failure of the server itself, unless the caller has gone. Only an operator sees the reason of
// such a failure.
func (h *Handler) problemFor(role string, err error) *api.Problem {
	p := *problem.Of(err) // a copy, which seenProblem changes
	if p.Status >= http.StatusInternalServerError && p.Kind != problem.Interrupted {
		h.options.Logger.Error().Err(err).Msg("a request failed")
	}
	return seenProblem(p, role)
}
