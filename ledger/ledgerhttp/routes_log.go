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

// The log: its events, and whom requests have left out.

// lastEvent is the header with the number of the last event that a follower has.
const lastEvent = "Last-Event-ID"

// mostEvents is how many events are read for one part of the log, whether they pass its filters or
// not.
const mostEvents = 4096

// events returns a list of events that can also be followed.
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

// firstEvent returns the number of the event that a stream begins with.
func (c *call) firstEvent() (uint64, error) {
	for name := range c.params {
		if name != "from" {
			const what = "a stream of events takes no parameter but \"from\", and not %q"
			return 0, problem.At(name, problem.Invalid, what, name)
		}
	}
	last := c.request.Header.Get(lastEvent)
	if last == "" {
		return c.number("from"), nil
	}
	n, err := strconv.ParseUint(last, 10, 63)
	if err != nil {
		return 0, problem.At(lastEvent, problem.Invalid, "the header "+lastEvent+" is no number of an event")
	}
	return n + 1, nil
}

// eventKinds returns the kinds of events.
func eventKinds() (all []string) {
	for _, one := range logged.Details() {
		all = append(all, one.Kind())
	}
	return all
}

// eventFilters are the parameters that select events. Each is a key of those events that have it.
func eventFilters() []param {
	return []param{
		words("kind", "only events of one of these kinds", eventKinds()...),
		text("object", "only events about an object, by name"), text("buyer", "only events about a buyer, by name"),
		text("question", "only events about a question, by name"),
		instant("since", "only events of this time or later"), instant("until", "only events before this time"),
	}
}

// eventFilter selects events.
type eventFilter struct {
	kinds []string
	keys  map[string]string // values of keys
}

// filter returns that of a request.
func (c *call) filter() eventFilter {
	f := eventFilter{kinds: listed(c.text("kind")), keys: map[string]string{}}
	for _, key := range []string{"object", "buyer", "question"} {
		if value := c.text(key); value != "" {
			f.keys[key] = value
		}
	}
	return f
}

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

// detailKey returns the text that a detail has under a key in JSON; "" if it has none.
func detailKey(detail reflect.Value, key string) string {
	if refused, is := detail.Interface().(event.ObjectRefused); is && key == "object" {
		return refused.Refusal.Object
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

// eventRange are the events that a part of the log may have, by number.
type eventRange struct{ first, last uint64 }

// eventsOf returns the range of a request.
func (c *call) eventsOf(p page) (r eventRange, err error) {
	stats, err := c.ledger().Stats(c.ctx())
	if err != nil {
		return r, err
	}
	r = eventRange{max(c.number("from"), 1), stats.Events}
	switch after := p.number(); {
	case p.after == "":
	case p.newest:
		r.last = min(r.last, max(after, 1)-1)
	case after >= r.last:
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

// firstAt returns the first of so many events that has this time or a later one, or the number
// after the last. Times never decrease.
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

// readEvents returns a part of the log. The events are read in blocks, from the end of the range at
// which the part begins.
func readEvents(c *call, p page) (found []event.Event, next string, err error) {
	r, err := c.eventsOf(p)
	if err != nil {
		return nil, "", err
	}
	end := r.last // what the list ends with
	if p.newest {
		end = r.first
	}
	only, block := c.filter(), uint64(max(p.limit, 64))
	at := "" // the cursor of the event that was read last
	for left := uint64(mostEvents); r.first <= r.last; left -= block {
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
			if len(found) == p.limit && event.Number != end {
				return found, at, nil
			}
		}
	}
	return found, "", nil
}

// takeBlock takes up to n events off a range, and returns them: the first ones in their order, or
// the last ones with the newest first.
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

// readRefusals returns some of those whom a request has left out.
func readRefusals(c *call, p page) (found []event.Event, next string, err error) {
	from := c.number("from")
	if p.after != "" {
		from = max(from, p.number()+1)
	}
	for event, err := range c.ledger().Refusals(c.ctx(), c.text("key"), from) {
		if err != nil {
			return nil, "", err
		}
		if len(found) == p.limit {
			return found, cursor(found[len(found)-1].Number), nil
		}
		found = append(found, event)
	}
	return found, "", nil
}
