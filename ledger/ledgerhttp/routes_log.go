package ledgerhttp

import (
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/event"
	logged "github.com/sluicedp/sluice/ledger/internal/event"
)

// Functions that serve the routes for the log: its events, and the objects that requests left out.

// lastEvent is the header with the number of the last event that the client of a stream has
// received.
const lastEvent = "Last-Event-ID"

// maxEvents is how many events are read for one page of the log, including events that the filter
// rejects.
const maxEvents = 4096

// events extends the route of a list of events. If the Accept header asks for [httpapi.Stream], the
// answer is a stream that goes on with new events as they happen (see feed).
func events(r route) route {
	listed := r.serve
	r.media = append(r.media, httpapi.Stream)
	r.serve = func(c *call) (any, error) {
		if !c.accepts(httpapi.Stream) {
			return listed(c)
		}
		next, err := c.firstEvent()
		if err != nil {
			return nil, err
		}
		return body((&feed{call: c, next: next}).sendTo), nil
	}
	return r
}

// firstEvent returns the number of the first event of a stream. That is the one after the last
// event that the client has received or, without the header lastEvent, the parameter "from". It
// returns a problem for any other parameter, because a stream has no filters.
func (c *call) firstEvent() (uint64, error) {
	for name := range c.params {
		if name != "from" {
			const what = "a stream of events has only the parameter \"from\", not %q"
			return 0, problem.At(name, problem.Invalid, what, name)
		}
	}
	last := c.request.Header.Get(lastEvent)
	if last == "" {
		return c.number("from"), nil
	}
	n, err := strconv.ParseUint(last, 10, 63)
	if err != nil {
		return 0, problem.At(lastEvent, problem.Invalid, "the header "+lastEvent+" is not the number of an event")
	}
	return n + 1, nil
}

// eventKinds returns all kinds of events.
func eventKinds() (all []string) {
	for _, one := range logged.Details() {
		all = append(all, one.Kind())
	}
	return all
}

// eventFilters returns the parameters that select events. Each parameter that names something is a
// JSON key of the events that it can match.
func eventFilters() []param {
	return []param{
		words("kind", "only events of one of these kinds", eventKinds()...),
		text("object", "only events about an object, by name"), text("buyer", "only events about a buyer, by name"),
		text("question", "only events about a question, by name"),
		instant("since", "only events of this time or later"), instant("until", "only events before this time"),
	}
}

// eventFilter selects events by kind and by the values of JSON keys. It does not select by time;
// see eventsOf.
type eventFilter struct {
	kinds []string          // any of these; empty for all kinds
	keys  map[string]string // required values, by JSON key
}

// filter returns the event filter of a request.
func (c *call) filter() eventFilter {
	f := eventFilter{kinds: listed(c.text("kind")), keys: map[string]string{}}
	for _, key := range []string{"object", "buyer", "question"} {
		if value := c.text(key); value != "" {
			f.keys[key] = value
		}
	}
	return f
}

// has reports whether an event is of one of the kinds, and has every required value.
func (f eventFilter) has(e event.Event) bool {
	if len(f.kinds) > 0 && !slices.Contains(f.kinds, e.Kind()) {
		return false
	}
	for key, value := range f.keys {
		if e.Says == nil || detailKey(reflect.ValueOf(e.Says), key) != value {
			return false
		}
	}
	return true
}

// detailKey returns the string that an event's detail, which is a struct, has under a key in JSON,
// or "" if it has none. The fields of an embedded struct are fields of the detail. A field without
// a name in its json tag has its Go name as the key, in any case.
func detailKey(detail reflect.Value, key string) string {
	if refused, is := detail.Interface().(event.ObjectRefused); is && key == "object" {
		return refused.Refusal.Object // not in a field of the detail itself
	}
	for i := range detail.NumField() {
		field := detail.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			if text := detailKey(detail.Field(i), key); text != "" {
				return text
			}
		case field.Type.Kind() == reflect.String && (name == key || name == "" && strings.EqualFold(field.Name, key)):
			return detail.Field(i).String()
		}
	}
	return ""
}

// eventRange is an inclusive range of event numbers. It is empty if first is greater than last.
type eventRange struct{ first, last uint64 }

// eventsOf returns the range of events that a request selects by number, cursor and time. The
// cursor is the last event of the previous page. In a list with the newest events first, the page
// therefore ends before it, and otherwise begins after it.
func (c *call) eventsOf(p page) (r eventRange, err error) {
	stats, err := c.ledger().Stats(c.ctx())
	if err != nil {
		return r, err
	}
	r = eventRange{max(c.number("from"), 1), stats.Events}
	switch after := p.number(); {
	case p.after == "":
	case p.newest:
		r.last = min(r.last, max(after, 1)-1) // without max, 0 would wrap around
	case after >= r.last: // an empty range; after+1 could wrap around
		r.first = r.last + 1
	default:
		r.first = max(r.first, after+1)
	}
	if since := c.time("since"); !since.IsZero() {
		first, err := c.firstAt(since, stats.Events)
		if err != nil {
			return r, err
		}
		r.first = max(r.first, first)
	}
	if until := c.time("until"); !until.IsZero() {
		end, err := c.firstAt(until, stats.Events)
		if err != nil {
			return r, err
		}
		r.last = min(r.last, end-1)
	}
	return r, nil
}

// firstAt returns the number of the first event at the given time or later. It searches events 1 to
// events, and returns events+1 if all of them are earlier. It uses a binary search, because times
// never decrease. If an event cannot be read, it returns the error, and the number means nothing.
func (c *call) firstAt(at time.Time, events uint64) (uint64, error) {
	var failed error
	found := sort.Search(int(events), func(i int) bool {
		for event, err := range c.ledger().Events(c.ctx(), uint64(i)+1) {
			if err != nil {
				failed = err
				break
			}
			return !event.Time.Before(at)
		}
		return true
	})
	return uint64(found) + 1, failed
}

// readEvents returns a page of the log: the events that pass the filter. next is the cursor at
// which the next page continues, or "" at the end of the list. It reads the range in blocks, from
// its end if the newest events are first. After maxEvents events it returns the events found so
// far, which may be fewer than the limit.
func readEvents(c *call, p page) (found []event.Event, next string, err error) {
	r, err := c.eventsOf(p)
	if err != nil {
		return nil, "", err
	}
	end := r.last // the number of the last event of the list
	if p.newest {
		end = r.first
	}
	only, block := c.filter(), uint64(max(p.limit, 64))
	at := "" // the cursor after the last event that was read
	// left is how many more events may be read; takeBlock removes the events that it reads from r.
	for left := uint64(maxEvents); r.first <= r.last; left -= block {
		if block = min(block, left); block == 0 {
			return found, at, nil
		}
		events, err := c.takeBlock(&r, block, p.newest)
		if err != nil {
			return nil, "", err
		}
		for _, event := range events {
			at = cursor(event.Number)
			if only.has(event) {
				found = append(found, event)
			}
			if len(found) == p.limit && event.Number != end { // full, and the list goes on
				return found, at, nil
			}
		}
	}
	return found, "", nil
}

// takeBlock removes up to n events from a range and returns them. It takes the first ones in
// ascending order or, with newest, the last ones in descending order.
func (c *call) takeBlock(r *eventRange, n uint64, newest bool) (all []event.Event, err error) {
	first := r.first
	if n = min(n, r.last-r.first+1); newest {
		r.last -= n
		first = r.last + 1
	} else {
		r.first += n
	}
	for event, err := range c.ledger().Events(c.ctx(), first) {
		if err != nil {
			return nil, err
		}
		if all = append(all, event); uint64(len(all)) == n {
			break
		}
	}
	if newest {
		slices.Reverse(all)
	}
	return all, nil
}

// readRefusals returns a page of the objects that a request left out, as events of the log. The
// cursor is the number of the last event of the page, or "" if there are no more.
func readRefusals(c *call, p page) (found []event.Event, next string, err error) {
	from := c.number("from")
	if p.after != "" {
		from = max(from, p.number()+1)
	}
	for event, err := range c.ledger().Refusals(c.ctx(), c.text("key"), from) {
		if err != nil {
			return nil, "", err
		}
		if len(found) == p.limit { // this event is the first of the next page
			return found, cursor(found[len(found)-1].Number), nil
		}
		found = append(found, event)
	}
	return found, "", nil
}
