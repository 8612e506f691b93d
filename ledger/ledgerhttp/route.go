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

// route is one operation of the API: its path, its roles and its handler. The API document is
// generated from the routes.
type route struct {
	method, path string
	id, summary  string
	roles        []string // the roles that may use it
	params       []param
	needsKey     bool         // it requires an idempotency key
	in           reflect.Type // type of the body; nil if there is none
	out          reflect.Type // type of the result; nil if it is no JSON object
	item         reflect.Type // type of the items of a list; nil if the result is no list
	media        []string     // media types of the result
	copiesFile   bool         // it copies or reads the whole file
	isLong       bool         // it has no time limit: a stream, or work as long as the ledger
	isGrowing    bool         // its cost grows with the panel or with the log
	serve        func(c *call) (any, error)
}

// call is a request that the gate has admitted.
type call struct {
	handler      *Handler
	route        *route
	holder       Holder
	givenKey     string            // the idempotency key as the caller sent it
	key          string            // the idempotency key as the ledger records it
	params       map[string]string // the query parameters
	raw          []byte            // the undecoded body
	body         any               // pointer to the decoded body
	arrived      bool              // the whole body was read
	admitted     *http.Request     // the request as it arrived; unchanged, because another goroutine reads it
	request      *http.Request     // the request with the context of the call
	out          *writer
	truthSource  *truthSource // the true values of the request; nil if there are none
	bodyMemory   *quotaShare  // memory of the body; nil if there is none
	leaveRunning func()       // releases its place among running requests
	effort       effort       // the records that it reads
	sale         *api.Sale    // the sale in the path; nil until it is looked up
}

// problemFor returns the problem of an error as the caller may see it.
func (c *call) problemFor(err error) *api.Problem { return c.handler.problemFor(c.holder.Role, err) }

func (c *call) ctx() context.Context   { return c.request.Context() }
func (c *call) ledger() *ledger.Ledger { return c.handler.Ledger() }

// text returns a query parameter, or "" if the request does not have it. Likewise the methods
// number, epsilon, flag and time return zero. They ignore errors, because the function query has
// validated all values.
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

// pathNumber returns the number in the wildcard of the path with this name, or a problem if the
// text there is not a number.
func (c *call) pathNumber(name string) (uint64, error) {
	n, err := strconv.ParseUint(c.request.PathValue(name), 10, 64)
	if err != nil {
		return 0, problem.At(name, problem.Invalid, "%s in the path is not a number", name)
	}
	return n, nil
}

// get returns a GET route with one JSON result. id is the operationId in the API document, and
// summary says what the route does. Callers with one of the roles may use it. serve executes a
// request.
func get[Out any](
	id, path, summary string, roles []string, params []param, serve func(c *call) (Out, error),
) route {
	return route{
		method: http.MethodGet, path: path, id: id, summary: summary, roles: roles, params: params,
		out: reflect.TypeFor[Out](), media: []string{"application/json"},
		serve: func(c *call) (any, error) { return serve(c) },
	}
}

// post returns a POST route with a JSON body, which serve gets decoded. The other arguments are as
// for get.
func post[In, Out any](id, path, summary string, roles []string, serve func(c *call, in In) (Out, error)) route {
	return route{
		method: http.MethodPost, path: path, id: id, summary: summary, roles: roles,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](), media: []string{"application/json"},
		serve: func(c *call) (any, error) { return serve(c, *c.body.(*In)) },
	}
}

// change returns a post route that requires an idempotency key ([call.key]).
func change[In, Out any](
	id, path, summary string, roles []string, serve func(c *call, in In) (Out, error),
) route {
	r := post(id, path, summary, roles, serve)
	r.needsKey = true
	return r
}

func (r *route) allows(role string) bool { return slices.Contains(r.roles, role) }
