package ledgerclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/privacy"
)

// list yields the items of a list, which it reads as a stream. An item has at most so many bytes.
// The last element is the error, if there is one. Each range over the result sends the request
// again.
func list[T any](ctx context.Context, c *Client, path string, query url.Values, most int64) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		m := message{path: path, query: query, accept: httpapi.Lines, most: smallAnswer, isStream: true}
		response, err := c.do(ctx, m)
		if err == nil {
			defer func() { _ = response.Body.Close() }()
			err = items(bufio.NewReader(response.Body), most, func(item T) bool { return yield(item, nil) })
		}
		if err != nil && !errors.Is(err, errStopped) {
			var none T
			yield(none, listError(ctx, err))
		}
	}
}

// errStopped means that the consumer stopped the iteration, and so must get no error.
var errStopped = errors.New("the consumer stopped the iteration")

// listError returns the error with which the iteration over a list ends. A problem, and an
// [api.ErrInvalid], is returned as it is; for any other error see unreachable.
func listError(ctx context.Context, err error) error {
	var p *api.Problem
	if errors.As(err, &p) || errors.Is(err, api.ErrInvalid) {
		return err
	}
	return unreachable(ctx, err)
}

// items reads a list up to its last line (see [httpapi.End]), and calls each with every item. It
// returns nil if the last line says that the list is complete, and the problem if the last line has
// one. It returns errStopped if each returns false, and another error if the list breaks off.
func items[T any](in *bufio.Reader, most int64, each func(T) bool) error {
	for {
		line, err := readLine(in, most)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte(`{"end":`)) {
			return nil
		}
		if bytes.HasPrefix(line, []byte(`{"problem":`)) {
			p := &api.Problem{}
			if err := json.Unmarshal(line, &httpapi.End{Problem: p}); err != nil {
				return err
			}
			return problem.Restore(p)
		}
		var item T
		if err := json.Unmarshal(line, &item); err != nil {
			return err
		}
		if !each(item) {
			return errStopped
		}
	}
}

// Events is [ledger.Ledger.Events].
func (c *Client) Events(ctx context.Context, from uint64) iter.Seq2[event.Event, error] {
	return list[event.Event](ctx, c, "/v1/events", query("from", from), largeAnswer)
}

// Refusals is [ledger.Ledger.Refusals].
func (c *Client) Refusals(ctx context.Context, key string, from uint64) iter.Seq2[event.Event, error] {
	return list[event.Event](ctx, c, "/v1/refusals", query("key", key, "from", from), smallAnswer)
}

// maxSilence is how long a client waits for anything in a stream before it considers the server
// dead. The server sends keep-alive comments more often.
const maxSilence = time.Minute

// Watch is [ledger.Ledger.Watch]. If the connection breaks, it ends with a problem of the kind
// "unreachable". The caller can then watch again from the next number.
func (c *Client) Watch(ctx context.Context, from uint64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		m := message{path: "/v1/events", query: query("from", from), accept: httpapi.Stream, isStream: true}
		m.most = smallAnswer
		response, err := c.do(within, m)
		if err == nil {
			defer func() { _ = response.Body.Close() }()
			alarm := time.AfterFunc(maxSilence, cancel) // reset by each line
			defer alarm.Stop()
			err = follow(bufio.NewReader(response.Body), func() { alarm.Reset(maxSilence) }, func(e event.Event) bool {
				alarm.Stop() // the consumer's time does not count
				defer alarm.Reset(maxSilence)
				return yield(e, nil)
			})
		}
		if !errors.Is(err, errStopped) {
			yield(event.Event{}, listError(ctx, err))
		}
	}
}

// follow reads server-sent events. It calls alive for each line, and each for every event of the
// log. It always returns an error. That is the problem that the server sends at the end, errStopped
// if each returns false, or the reason why reading or decoding failed.
func follow(in *bufio.Reader, alive func(), each func(event.Event) bool) error {
	kind := "" // the type of the next event; only "problem", the last one, has a type
	for {
		line, err := readLine(in, largeAnswer)
		if err != nil {
			return err
		}
		alive()
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(": "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "data":
			if kind == "problem" {
				p := &api.Problem{}
				if err := json.Unmarshal(value, p); err != nil {
					return err
				}
				return problem.Restore(p)
			}
			var event event.Event
			if err := json.Unmarshal(value, &event); err != nil {
				return err
			}
			if !each(event) {
				return errStopped
			}
		}
	}
}

// maxItems is the maximum number of items in one page of a server's list.
const maxItems = 1000

// part reads a page of a list: at most limit items after the cursor after, "" for the beginning. It
// returns the cursor of the next page, which is "" at the end of the list. The parameter of has the
// other parameters of the query, or is nil; part adds to it.
func part[T any](
	ctx context.Context, c *Client, path string, of url.Values, after string, limit int,
) (found []T, next string, err error) {
	if limit < 1 {
		return nil, "", fmt.Errorf("%w: a page of a list has the limit %d: it must be at least 1",
			api.ErrInvalid, limit)
	}
	if of == nil {
		of = url.Values{}
	}
	of.Set("limit", strconv.Itoa(min(limit, maxItems)))
	if after != "" {
		of.Set("after", after)
	}
	out, err := get[httpapi.Page[T]](ctx, c, path, of)
	if len(out.Items) == 0 {
		out.Items = nil // like package ledger, which returns nil for no items
	}
	return out.Items, out.Next, err
}

// numberedPart is part for a list whose cursors are numbers. As after, 0 is the beginning of the
// list. As next, 0 is its end.
func numberedPart[T any](
	ctx context.Context, c *Client, path string, query url.Values, after uint64, limit int,
) (found []T, next uint64, err error) {
	from := ""
	if after != 0 {
		from = strconv.FormatUint(after, 10)
	}
	found, cursor, err := part[T](ctx, c, path, query, from, limit)
	if err != nil || cursor == "" {
		return found, 0, err
	}
	if next, err = strconv.ParseUint(cursor, 10, 64); err != nil {
		return nil, 0, unreachable(ctx, fmt.Errorf("the answer cannot be decoded: the next page begins at %.100q",
			cursor))
	}
	return found, next, nil
}

// queryOf returns the filters of a page as query parameters, without its bounds.
func queryOf(p api.Page) url.Values {
	order := ""
	if p.Newest {
		order = "desc"
	}
	out := query("buyer", p.Buyer, "question", p.Question, "since", p.Since, "until", p.Until, "order", order)
	for _, state := range p.States {
		out.Add("state", string(state))
	}
	return out
}

// SalesPage is [ledger.Ledger.SalesPage].
func (c *Client) SalesPage(ctx context.Context, p api.Page) (found []api.Sale, next uint64, err error) {
	p.States = nil // sales have no states
	return numberedPart[api.Sale](ctx, c, "/v1/sales", queryOf(p), p.After, p.Limit)
}

// ReservationsPage is [ledger.Ledger.ReservationsPage].
func (c *Client) ReservationsPage(
	ctx context.Context, p api.Page,
) (found []api.Reservation, next uint64, err error) {
	return numberedPart[api.Reservation](ctx, c, "/v1/reservations", queryOf(p), p.After, p.Limit)
}

// DeliveriesPage is [ledger.Ledger.DeliveriesPage].
func (c *Client) DeliveriesPage(
	ctx context.Context, sale, after uint64, limit int,
) (found []api.Delivery, next uint64, err error) {
	return numberedPart[api.Delivery](ctx, c, numbered("sales", sale, "/deliveries"), nil, after, limit)
}

// ResponsesPage is [ledger.Ledger.ResponsesPage].
func (c *Client) ResponsesPage(
	ctx context.Context, question string, epsilon privacy.Epsilon, after string, limit int,
) (found []api.Response, next string, err error) {
	parameters := query("question", question, "epsilon", epsilon)
	return part[api.Response](ctx, c, "/v1/responses", parameters, after, limit)
}

// each yields the items that read returns, or its error. Each range over the result calls read.
func each[T any](read func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := read()
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
}
