package ledgerhttp

import (
	"context"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
)

// A part of a list has so many items by default, and at most; a list that is sent as a stream is
// read in larger parts.
const (
	usualLimit  = 100
	mostLimit   = 1000
	streamLimit = 4096
)

// page says which part of a list is read.
type page struct {
	after  string // the cursor that the part before ended with; "" at the beginning
	limit  int    // how many items it has at most
	newest bool   // the newest first
}

// number returns the cursor of a list of numbered things. It is known to be a number.
func (p page) number() uint64 {
	n, _ := strconv.ParseUint(p.after, 10, 64)
	return n
}

// cursor returns the cursor at a number, of which 0 is none.
func cursor(number uint64) string {
	if number == 0 {
		return ""
	}
	return strconv.FormatUint(number, 10)
}

// parts returns the parameters that select a part of a list, besides others.
func parts(others ...param) []param {
	return append(others,
		param{name: "limit", kind: "limit", doc: "the most items, from 1 to 1000; without it, 100"},
		text("after", "next of the part before; of a list of numbered things also a number: what follows it is read"))
}

// ordered returns the parameters of a list that may be read in both directions.
func ordered(others ...param) []param {
	order := word("order", "desc is the newest first; without it, the oldest first", "asc", "desc")
	return append(slices.Clone(others), order)
}

// read returns a part of a list, and the cursor at its end; "" if that is the end of the list. It
// reads a bounded number of records: a part may have fewer items than its limit, or none, and not
// be the last.
type read[Item any] func(c *call, p page) (items []Item, next string, err error)

// list is a route that reads many things: part by part or, to an Accept header that asks for it,
// all of them, one a line.
func list[Item any](id, path, summary string, roles []string, params []param, read read[Item]) route {
	return route{
		method: http.MethodGet, path: path, id: id, summary: summary, roles: roles, params: parts(params...),
		out: reflect.TypeFor[httpapi.Page[Item]](), item: reflect.TypeFor[Item](), grows: true,
		media: []string{"application/json", httpapi.Lines},
		serve: func(c *call) (any, error) {
			p, err := c.page()
			if err != nil {
				return nil, err
			}
			if c.accepts(httpapi.Lines) {
				return body(func(ctx context.Context, w *writer) error {
					return c.sendLines(ctx, w, everything(c, p, read))
				}), nil
			}
			items, next, err := read(c, p)
			return httpapi.Page[Item]{Items: items, Next: next}, err
		},
	}
}

// page returns which part of a list is requested.
func (c *call) page() (page, error) {
	p := page{after: c.text("after"), limit: usualLimit, newest: c.text("order") == "desc"}
	if n := c.number("limit"); n != 0 {
		p.limit = int(n)
	}
	_, err := strconv.ParseUint(p.after, 10, 64)
	if p.after != "" && err != nil && c.route.id != "responses" {
		return p, problem.At("after", problem.Invalid, "the parameter \"after\" is no number: %.100q", p.after)
	}
	return p, nil
}

// everything yields a list from a page on: as many items as a given limit says; without one, to the
// end.
func everything[Item any](c *call, p page, read read[Item]) iter.Seq2[any, error] {
	left, bounded := p.limit, c.text("limit") != ""
	return func(yield func(any, error) bool) {
		for {
			if p.limit = streamLimit; bounded {
				p.limit = left
			}
			items, next, err := read(c, p)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			p.after, left = next, left-len(items)
			if next == "" || bounded && left <= 0 {
				return
			}
		}
	}
}

// accepts reports whether a request asks for a media type.
func (c *call) accepts(media string) bool { return accepts(c.request, media) }

func accepts(r *http.Request, media string) bool {
	return strings.Contains(strings.Join(r.Header.Values("Accept"), ","), media)
}

// of returns the route as a request uses it: a list that is sent as a stream takes the place of
// one.
func (r *route) of(request *http.Request) *route {
	asks := func(media string) bool { return accepts(request, media) }
	if r.item == nil || !slices.ContainsFunc(r.media[1:], asks) {
		return r
	}
	streaming := *r
	streaming.long = true
	return &streaming
}
