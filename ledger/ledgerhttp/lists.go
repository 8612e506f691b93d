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

// These are the numbers of items in one page of a list: by default, at most, and of a list that is
// sent as a stream.
const (
	defaultLimit = 100
	maxLimit     = 1000
	streamLimit  = 4096
)

// page selects a part of a list. A part begins after a cursor, a text that the list returns with
// each part for its end.
type page struct {
	after  string // the cursor at the end of the previous part; "" at the beginning
	limit  int    // the maximum number of items
	newest bool   // newest items first
}

// number returns the cursor of a list of numbered items, or 0 at the beginning. [call.page] has
// checked that a cursor is a number.
func (p page) number() uint64 {
	n, _ := strconv.ParseUint(p.after, 10, 64)
	return n
}

// cursor returns a number as a cursor. It returns "", the cursor at the end of a list, for 0, which
// the ledger returns at the end of a list.
func cursor(number uint64) string {
	if number == 0 {
		return ""
	}
	return strconv.FormatUint(number, 10)
}

// pageParams returns the parameters that select a part of a list, after the given ones.
func pageParams(others ...param) []param {
	return append(others,
		param{name: "limit", kind: "limit", doc: "the largest number of items, from 1 to 1000; without it, 100"},
		text("after", "next of the previous page; for numbered items also a number: the page begins after it"))
}

// orderedParams returns the given parameters and the one for the order of the list.
func orderedParams(others ...param) []param {
	order := word("order", "desc lists the newest first; without it, the oldest first", "asc", "desc")
	return append(slices.Clone(others), order)
}

// read returns a part of a list and the cursor at its end, which is "" at the end of the list. It
// reads a bounded number of records. So a part may have fewer items than its limit, or none,
// without being the last one.
type read[Item any] func(c *call, p page) (items []Item, next string, err error)

// list returns a route for a list. The answer is one page or, if the Accept header asks for
// [httpapi.Lines], a stream of all items, one per line. The first arguments are as for get.
func list[Item any](id, path, summary string, roles []string, params []param, read read[Item]) route {
	return route{
		method: http.MethodGet, path: path, id: id, summary: summary, roles: roles, params: pageParams(params...),
		out: reflect.TypeFor[httpapi.Page[Item]](), item: reflect.TypeFor[Item](), isGrowing: true,
		media: []string{"application/json", httpapi.Lines},
		serve: func(c *call) (any, error) {
			p, err := c.page()
			if err != nil {
				return nil, err
			}
			if c.accepts(httpapi.Lines) {
				return body(func(ctx context.Context, w *writer) error {
					return c.sendLines(ctx, w, allItems(c, p, read))
				}), nil
			}
			items, next, err := read(c, p)
			return httpapi.Page[Item]{Items: items, Next: next}, err
		},
	}
}

// page returns the part of the list that the request selects, or a problem if its cursor is not a
// number. Only the cursors of the route "responses" are no numbers, but names of objects.
func (c *call) page() (page, error) {
	p := page{after: c.text("after"), limit: defaultLimit, newest: c.text("order") == "desc"}
	if n := c.number("limit"); n != 0 {
		p.limit = int(n)
	}
	_, err := strconv.ParseUint(p.after, 10, 64)
	if p.after != "" && err != nil && c.route.id != "responses" {
		return p, problem.At("after", problem.Invalid, "the parameter \"after\" is not a number: %.100q", p.after)
	}
	return p, nil
}

// allItems yields the items of a list from p on. It stops after the limit of the request, or at the
// end of the list. If read fails, it yields the error, and stops. It reads the list in parts of at
// most streamLimit items. If the request has a limit, a part has at most what is left of the limit.
func allItems[Item any](c *call, p page, read read[Item]) iter.Seq2[any, error] {
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

// accepts reports whether the Accept header of the request contains a media type.
func (c *call) accepts(media string) bool { return accepts(c.request, media) }

// accepts reports whether the Accept headers of a request contain a media type, with any weight.
func accepts(r *http.Request, media string) bool {
	return strings.Contains(strings.Join(r.Header.Values("Accept"), ","), media)
}

// forRequest returns the route as it applies to a request. If r is a list and the request asks for
// it as a stream, that is a copy of r that has no time limit. Otherwise it is r itself.
func (r *route) forRequest(request *http.Request) *route {
	asks := func(media string) bool { return accepts(request, media) }
	if r.item == nil || !slices.ContainsFunc(r.media[1:], asks) { // all media types but the first are streams
		return r
	}
	streaming := *r
	streaming.isLong = true
	return &streaming
}
