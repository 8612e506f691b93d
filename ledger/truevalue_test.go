package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/policy"
)

// releaseCases returns releases in many situations. Each function prepares a ledger and returns the
// request, and a part of the error that it must get, or "" for none.
func releaseCases(t *testing.T) map[string]func(l *Ledger) (api.ReleaseRequest, string) {
	t.Helper()
	type request = func(l *Ledger) (api.ReleaseRequest, string)
	mine := func(epsilon string) api.ReleaseRequest { return releaseOf(t, "mine", "ann", epsilon) }
	begins := func(l *Ledger) {
		must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "e", Question: "vote", Object: "ann"}))
	}
	// after returns a request for a level, with its true value, after others were released.
	after := func(has []string, epsilon, value, fault string, then ...func(l *Ledger)) request {
		return func(l *Ledger) (api.ReleaseRequest, string) {
			for _, level := range has {
				release(t, l, releaseOf(t, "at "+level, "ann", level))
			}
			for _, do := range then {
				do(l)
			}
			r := mine(epsilon)
			r.TrueValue = value
			return r, fault
		}
	}
	leaves := func(l *Ledger) { must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"})) }
	forgets := func(l *Ledger) { forget(t, l, "ann") }
	one, two := []string{"1"}, []string{"2"}
	return map[string]request{
		"the first":               after(nil, "1", "", ""),
		"a higher one":            after(one, "2", "", ""),
		"the same level":          after(one, "1", "", ""),
		"a level between":         after([]string{"1", "3"}, "2", "", ""),
		"a lower one":             after(two, "1", "", ""),
		"over the cap":            after(nil, "6", "", "cap"),
		"of a withdrawn object":   after(nil, "1", "", "withdrawn", leaves),
		"of a forgotten object":   after(one, "1", "", "withdrawn", forgets),
		"in a new epoch":          after(one, "1", "", "", begins),
		"a value that is none":    after(nil, "1", "maybe", "no-truth"),
		"… and is not needed":     after(two, "1", "maybe", ""),
		"another value":           after(one, "2", "no", "no-truth"),
		"another, in a new epoch": after(one, "2", "no", "", begins),
		"once more":               func(l *Ledger) (api.ReleaseRequest, string) { release(t, l, mine("1")); return mine("1"), "" },
		"the key of another":      func(l *Ledger) (api.ReleaseRequest, string) { release(t, l, mine("1")); return mine("2"), "Epsilon" },
		"of an unknown object":    func(*Ledger) (api.ReleaseRequest, string) { return releaseOf(t, "mine", "zoe", "1"), "not-enrolled" },
		"of an unknown question":  func(*Ledger) (api.ReleaseRequest, string) { r := mine("1"); r.Question = "?"; return r, "unknown" },
		"once more, forgotten": func(l *Ledger) (api.ReleaseRequest, string) {
			release(t, l, mine("1"))
			forget(t, l, "ann")
			return mine("1"), "forgotten"
		},
		"no key": func(*Ledger) (api.ReleaseRequest, string) { r := mine("1"); r.Key = ""; return r, "idempotency key" },
	}
}

// outcomeOf makes a release and returns its outcome except for chance: the response without its
// value, the error, and the log.
func outcomeOf(t *testing.T, l *Ledger, r api.ReleaseRequest) (outcome string, err error) {
	t.Helper()
	response, err := l.Release(t.Context(), r)
	var refused *api.RefusedError
	changed := []string(nil)
	if errors.As(err, &refused) {
		changed = refused.TruthChanged
	}
	log := []string{}
	for _, ev := range logOf(t, pairs(t, l.engine.Store)) {
		c, settled := ev.Change.(*event.Settled)
		if log = append(log, ev.Change.Kind().String()); settled {
			log = append(log, fmt.Sprint(c.Key, c.First, c.Through, c.Counts, c.Spent, c.Final, c.Alone, c.Object, c.Digest))
		}
	}
	return fmt.Sprint(response.Object, response.Question, response.Epsilon, response.Event, err, changed, strings.Join(log, "\n")), err
}

// A true value in the request makes no difference except to the time that it takes.
func TestRelease_TrueValueOrSource_GiveTheSameResult(t *testing.T) {
	for name, ask := range releaseCases(t) {
		t.Run(name, func(t *testing.T) {
			outcomes, errs := [2]string{}, [2]error{}
			for i := range outcomes {
				r, fault := api.ReleaseRequest{}, ""
				options := Options{}
				if strings.HasPrefix(name, "another") {
					options.TruthKey = truthKey() // or the ledger cannot notice
				}
				l := voters(t, inMemory(t, options), "5", "ann", "bob")
				r, fault = ask(l)
				value := "yes"
				if r.TrueValue != "" {
					value = r.TrueValue
				}
				if r.Truth, r.TrueValue = sameTruth(value), ""; i == 1 {
					r.Truth, r.TrueValue = nil, value
				}
				if outcomes[i], errs[i] = outcomeOf(t, l, r); fault == "" {
					must(t, errs[i])
				} else if errs[i] == nil || !strings.Contains(errs[i].Error(), fault) {
					t.Fatalf("got the error %v, want one with %q", errs[i], fault)
				}
				again, err := outcomeOf(t, l, r)
				if again != outcomes[i] || fmt.Sprint(err) != fmt.Sprint(errs[i]) {
					t.Errorf("once more:\n%s\nat first:\n%s", again, outcomes[i])
				}
				auditStore(t, l.engine.Store)
			}
			if outcomes[0] != outcomes[1] {
				t.Errorf("with a source:\n%s\nwith the value:\n%s", outcomes[0], outcomes[1])
			}
		})
	}
}

func TestRelease_TrueValueAndSource_IsErrInvalid(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "5", "ann")
	r := releaseOf(t, "mine", "ann", "1")
	r.TrueValue = "yes"
	_, err := l.Release(t.Context(), r)
	wantErr(t, err, api.ErrInvalid)
	if strings.Contains(err.Error(), "yes") {
		t.Errorf("the error has the value: %v", err)
	}
}

// A release with its true value reads nothing before its transaction. A release with a source does.
func TestRelease_TrueValueGiven_SkipsThePreliminaryRead(t *testing.T) {
	memory := &kv.Memory{}
	begin(t, memory)
	s := &shim{Store: memory}
	l := voters(t, openMemory(t, s, Options{}), "5", "ann", "bob", "eve")
	p, err := policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "2")})
	must(t, err)
	enrollUnder(t, l, "vote", p, "5", "cid")
	release(t, l, releaseOf(t, "before", "eve", "1"))
	must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "e", Question: "vote", Object: "eve"}))
	reads := func(r api.ReleaseRequest) (n int) {
		s.onRead(func() { n++ })
		defer s.onRead(nil)
		release(t, l, r)
		return n
	}
	for _, name := range []string{"ann", "cid", "eve"} {
		if n := reads(withTrueValue(releaseOf(t, "of "+name, name, "1"))); n != 0 {
			t.Errorf("%d reads before a release of %s with its true value", n, name)
		}
	}
	if n := reads(releaseOf(t, "2", "bob", "1")); n != 1 {
		t.Errorf("%d reads before a release with a source, want 1", n)
	}
}

// stepRecorder is a store that records its transactions, and may fail.
type stepRecorder struct {
	kv.Store
	steps  []string
	before func() error // each transaction, and may make it fail; nil does nothing
}

func (s *stepRecorder) View(fn func(kv.Reader) error) error {
	s.steps = append(s.steps, "view")
	return s.Store.View(fn)
}

func (s *stepRecorder) Update(fn func(kv.Writer) error) error {
	s.steps = append(s.steps, "transaction")
	if s.before != nil {
		if err := s.before(); err != nil {
			return err
		}
	}
	return s.Store.Update(fn)
}

// A caller repeats a request because something fails.
func TestRelease_RepeatedKey_ReturnsTheResultDespiteFaults(t *testing.T) {
	memory := &kv.Memory{}
	begin(t, memory)
	s := &stepRecorder{Store: memory}
	l := voters(t, openMemory(t, s, Options{}), "5", "ann")
	mine, another := withTrueValue(releaseOf(t, "mine", "ann", "1")), withTrueValue(releaseOf(t, "another", "ann", "2"))
	want := release(t, l, mine)
	check := func(ctx context.Context, fault error) {
		t.Helper()
		if got, err := l.Release(ctx, mine); err != nil || got != want {
			t.Errorf("%+v, %v, in place of %+v", got, err, want)
		}
		if _, afresh := ctx.(*impatient); afresh {
			ctx = &impatient{Context: t.Context(), gone: make(chan struct{})}
		}
		_, err := l.Release(ctx, another)
		wantErr(t, err, fault)
	}
	fault := errors.New("no more room")
	s.before = func() error { return fault }
	check(t.Context(), fault)

	entered, leave := make(chan bool), make(chan error)
	s.before = func() error { entered <- true; return <-leave }
	led := make(chan error)
	go func() {
		_, err := l.Release(context.WithoutCancel(t.Context()), withTrueValue(releaseOf(t, "leads", "ann", "3")))
		led <- err
	}()
	<-entered
	check(&impatient{Context: t.Context(), gone: make(chan struct{})}, context.Canceled)
	s.before = nil
	leave <- nil
	must(t, <-led)
	release(t, l, another)
}

// impatient is a context that is canceled as soon as Done is called.
type impatient struct {
	context.Context
	gone chan struct{}
	once sync.Once
}

func (c *impatient) Done() <-chan struct{} {
	c.once.Do(func() { close(c.gone) })
	return c.gone
}

func (c *impatient) Err() error {
	select {
	case <-c.gone:
		return context.Canceled
	default:
		return nil
	}
}

// withdrawingObserver is an observer that writes to the ledger when a request is refused. Inside a
// commit that would wait for itself.
type withdrawingObserver struct {
	ledger *Ledger
	err    chan error
}

func (*withdrawingObserver) Committed(observe.Commit) {}
func (*withdrawingObserver) Audited(observe.Audit)    {}
func (o *withdrawingObserver) Refused(observe.Refusal) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	o.err <- o.ledger.Withdraw(ctx, api.ObjectRequest{Key: "withdraw", Object: "bob"})
}

func TestObserver_Refused_IsCalledOutsideTheCommit(t *testing.T) {
	o := &withdrawingObserver{err: make(chan error, 8)}
	l := voters(t, inMemory(t, Options{Observer: o}), "1", "ann", "bob")
	o.ledger = l
	_, err := l.Release(t.Context(), withTrueValue(releaseOf(t, "mine", "ann", "2")))
	var refused *api.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got the error %v", err)
	}
	must(t, <-o.err)
	if len(o.err) > 0 {
		t.Error("it is reported more than once")
	}
}
