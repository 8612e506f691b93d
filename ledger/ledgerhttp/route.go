package ledgerhttp

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// route is something that can be asked of the handler. The document of the API is made of the same.
type route struct {
	method, path string
	id, summary  string
	roles        []string // who may
	params       []param
	keyed        bool         // it takes an idempotency key
	in           reflect.Type // of the body, nil if there is none
	out          reflect.Type // of the result, nil if it is no JSON object
	item         reflect.Type // of a list's items, nil if the result is no list
	media        []string     // of the result
	copies       bool         // it copies the whole file, or reads it
	long         bool         // it may take any time: it is a stream, or as long as the ledger
	grows        bool         // its cost grows with the panel or with the log
	serve        func(c *call) (any, error)
}

// call is a request that has been let in.
type call struct {
	handler  *Handler
	route    *route
	holder   Holder
	given    string            // the idempotency key, as it was sent
	key      string            // the idempotency key, as the ledger gets it
	params   map[string]string // of the query
	raw      []byte            // the body as it arrived
	body     any               // points to what was decoded
	arrived  bool              // all of the body was read
	admitted *http.Request     // as it came. Another goroutine reads it: it does not change
	request  *http.Request     // with the context of the call
	out      *writer
	bearer   *bearer   // of the request's true values, or nil
	memory   *hold     // of its body, or nil
	leave    func()    // gives its place back
	effort   effort    // what it reads
	asked    *api.Sale // the sale in the path, once it is known; nil before
}

// told returns the problem of an error as whoever asks is told it.
func (c *call) told(err error) *api.Problem { return c.handler.told(c.holder.Role, err) }

func (c *call) ctx() context.Context   { return c.request.Context() }
func (c *call) ledger() *ledger.Ledger { return c.handler.Ledger() }

// text, number, epsilon and flag return parameters of the query, which are known to be readable.
func (c *call) text(name string) string { return c.params[name] }

func (c *call) number(name string) uint64 {
	n, _ := strconv.ParseUint(c.params[name], 10, 64)
	return n
}

func (c *call) epsilon(name string) privacy.Epsilon {
	e, _ := privacy.ParseEpsilon(c.params[name])
	return e
}

func (c *call) flag(name string) bool { return c.params[name] == "true" }

func (c *call) time(name string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, c.params[name])
	return at
}

// place returns a number in the path.
func (c *call) place(name string) (uint64, error) {
	n, err := strconv.ParseUint(c.request.PathValue(name), 10, 64)
	if err != nil {
		return 0, problem.At(name, problem.Invalid, "%s in the path is no number", name)
	}
	return n, nil
}

// get is a route that reads one thing.
func get[Out any](
	id, path, summary string, roles []string, params []param, serve func(c *call) (Out, error),
) route {
	return route{
		method: http.MethodGet, path: path, id: id, summary: summary, roles: roles, params: params,
		out: reflect.TypeFor[Out](), media: []string{"application/json"},
		serve: func(c *call) (any, error) { return serve(c) },
	}
}

// post is a route with a body.
func post[In, Out any](id, path, summary string, roles []string, serve func(c *call, in In) (Out, error)) route {
	return route{
		method: http.MethodPost, path: path, id: id, summary: summary, roles: roles,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](), media: []string{"application/json"},
		serve: func(c *call) (any, error) { return serve(c, *c.body.(*In)) },
	}
}

// change is a post with an idempotency key.
func change[In, Out any](
	id, path, summary string, roles []string, serve func(c *call, in In) (Out, error),
) route {
	r := post(id, path, summary, roles, serve)
	r.keyed = true
	return r
}

func (r *route) allows(role string) bool { return slices.Contains(r.roles, role) }
