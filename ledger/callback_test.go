package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// await waits until the log has a text that another goroutine writes.
func (l *journalLog) await(t testing.TB, text string) {
	t.Helper()
	eventually(t, func() bool { return l.has(text) }, "the log does not say %q", text)
}

// hook replaces a function of the host. It does nothing until it is set, and then what it was set
// to, once.
type hook struct {
	next      atomic.Pointer[func()]
	published atomic.Uint64 // the size of the last checkpoint that was taken
}

func (h *hook) set(what func()) { h.next.Store(&what) }

func (h *hook) call() {
	if what := h.next.Swap(nil); what != nil {
		(*what)()
	}
}

func (h *hook) progress(int, int) { h.call() }

func (h *hook) truth(ctx context.Context, question string, objects []string) ([]string, error) {
	h.call()
	return sameTruth("yes")(ctx, question, objects)
}

// publish is a [Publishing.To].
func (h *hook) publish(ctx context.Context, checkpoint []byte) error {
	h.call()
	return h.take(ctx, checkpoint)
}

// take keeps the size of a checkpoint.
func (h *hook) take(_ context.Context, checkpoint []byte) error {
	var size uint64
	_, err := fmt.Sscanf(strings.Split(string(checkpoint), "\n")[1], "%d", &size)
	h.published.Store(size)
	return err
}

// Committed implements [observe.Observer], as the next two do.
func (h *hook) Committed(observe.Commit) { h.call() }
func (h *hook) Refused(observe.Refusal)  { h.call() }
func (h *hook) Audited(observe.Audit)    { h.call() }

// Run implements [zerolog.Hook].
func (h *hook) Run(*zerolog.Event, zerolog.Level, string) { h.call() }

// hookedSigner calls a hook when it signs.
type hookedSigner struct {
	note.Signer
	*hook
}

func (s hookedSigner) Sign(text []byte) ([]byte, error) {
	s.call()
	return s.Signer.Sign(text)
}

// hookedVerifiers calls a hook when a key is requested.
type hookedVerifiers struct {
	note.Verifiers
	*hook
}

func (v hookedVerifiers) Verifier(name string, hash uint32) (note.Verifier, error) {
	v.call()
	return v.Verifiers.Verifier(name, hash)
}

// A callbackCase is a request that calls a function of the host.
type callbackCase struct {
	panics  bool   // a panic of the function continues in the caller; else it is logged, and the request succeeds
	logs    string // what is logged of a panic
	closes  bool   // Close inside the function waits for the function: it has a test of its own
	options func(*Options, *hook)
	prepare func(testing.TB, *Ledger)
	request func(t testing.TB, l *Ledger, h *hook) error
}

// callbackCases returns one request for each function of the host. docs/howto/embed.md has the same
// table.
func callbackCases(t testing.TB) map[string]callbackCase {
	const all = "vote"
	person := crowd(8)
	refused := func(t testing.TB, l *Ledger, _ *hook) error {
		_, err := l.Release(t.Context(), releaseOf(t, "refused", "stranger", "1"))
		if err == nil {
			return errors.New("not refused")
		}
		if _, is := errors.AsType[*api.RefusedError](err); is {
			return nil
		}
		return err
	}
	released := func(t testing.TB, l *Ledger, _ *hook) error {
		return check.Err(l.Release(t.Context(), releaseOf(t, "r", person[0], "1")))
	}
	observed := func(o *Options, h *hook) { o.Observer = h }
	logged := func(level zerolog.Level) func(*Options, *hook) {
		return func(o *Options, h *hook) { o.Logger = zerolog.New(io.Discard).Level(level).Hook(h) }
	}
	clocked := func(o *Options, h *hook) {
		o.Now = func() time.Time {
			h.call()
			return time.Now()
		}
	}
	signing := func(o *Options, h *hook) { o.Signer = hookedSigner{o.Signer, h} }
	sold := func(t testing.TB, l *Ledger) { sell(t, l, purchase(t, "s", "acme", "1", person...)) }
	sale, raise := purchase(t, "s", "acme", "1", person...), raiseOf(t, "r", "1", person...)
	capture := api.CaptureRequest{Key: "c", Reservation: 1, Truth: sameTruth("yes")}
	held := func(t testing.TB, l *Ledger) {
		reserve(t, l, api.ReserveRequest{Key: "h", Order: sale.Order, For: time.Hour})
	}
	enrolment := api.EnrollRequest{Key: "n", Question: all, Objects: []string{"new"}, Cap: eps(t, "1")}
	sweep := api.AdvanceRequest{Key: "d", Truth: sameTruth("yes")}
	list := api.ReconcileRequest{Members: func(yield func(api.Member, error) bool) {
		yield(api.Member{Object: "new", Question: all, Cap: eps(t, "1")}, nil)
	}}
	receipt := func(t testing.TB, l *Ledger, _ *hook) error { return check.Err(l.Receipt(t.Context(), 1)) }
	published := func(t testing.TB, l *Ledger, h *hook) error {
		response, err := l.Release(t.Context(), releaseOf(t, "r", person[0], "1"))
		for deadline := time.Now().Add(patience); err == nil && h.published.Load() < response.Event; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				err = fmt.Errorf("the last published checkpoint has %d events", h.published.Load())
			}
		}
		return err
	}
	return map[string]callbackCase{
		"SellRequest.Progress":    requestWith(sale, (*Ledger).Sell, func(r *api.SellRequest, h *hook) { r.Progress = h.progress }),
		"SellRequest.Truth":       requestWith(sale, (*Ledger).Sell, func(r *api.SellRequest, h *hook) { r.Truth = h.truth }),
		"CaptureRequest.Progress": requestWith(capture, (*Ledger).Capture, func(r *api.CaptureRequest, h *hook) { r.Progress = h.progress }).after(held),
		"CaptureRequest.Truth":    requestWith(capture, (*Ledger).Capture, func(r *api.CaptureRequest, h *hook) { r.Truth = h.truth }).after(held),
		"RaiseRequest.Progress":   requestWith(raise, (*Ledger).Raise, func(r *api.RaiseRequest, h *hook) { r.Progress = h.progress }),
		"RaiseRequest.Truth":      requestWith(raise, (*Ledger).Raise, func(r *api.RaiseRequest, h *hook) { r.Truth = h.truth }),
		"ReleaseRequest.Truth": requestWith(releaseOf(t, "r", person[0], "1"), (*Ledger).Release,
			func(r *api.ReleaseRequest, h *hook) { r.Truth = h.truth }),
		"AnswerRequest.Truth": requestWith(answerRequest(t, "a", "majority:yes", "0.25", nil, person...), (*Ledger).Answer,
			func(r *api.AnswerRequest, h *hook) { r.Truth = h.truth }),
		"EnrollRequest.Progress": requestWith(enrolment, (*Ledger).Enroll, func(r *api.EnrollRequest, h *hook) { r.Progress = h.progress }),
		"EnrollRequest.Terms": requestWith(enrolment, (*Ledger).Enroll, func(r *api.EnrollRequest, h *hook) {
			r.Cap = privacy.Epsilon{}
			r.Terms = func(string) (policy.Policy, privacy.Epsilon) {
				h.call()
				return policy.Policy{}, eps(t, "1")
			}
		}),
		"ChangeTermsRequest.Progress": requestWith(api.ChangeTermsRequest{Key: "t", Question: all, Objects: person, Cap: eps(t, "4")},
			(*Ledger).ChangeTerms, func(r *api.ChangeTermsRequest, h *hook) { r.Progress = h.progress }),
		"AdvanceRequest.Progress": requestWith(sweep, (*Ledger).Advance, func(r *api.AdvanceRequest, h *hook) { r.Progress = h.progress }),
		"AdvanceRequest.Truth": requestWith(sweep, (*Ledger).Advance, func(r *api.AdvanceRequest, h *hook) { r.Truth = h.truth }).
			after(func(t testing.TB, l *Ledger) {
				due := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "1")}))(t)
				enrollUnder(t, l, all, due, "5", "due")
			}),
		"ReconcileRequest.Progress": requestWith(list, (*Ledger).Reconcile, func(r *api.ReconcileRequest, h *hook) { r.Progress = h.progress }),
		"ReconcileRequest.Confirm": requestWith(list, (*Ledger).Reconcile, func(r *api.ReconcileRequest, h *hook) {
			r.Confirm = func(api.ReconcileResult) error {
				h.call()
				return nil
			}
		}),
		"ReconcileRequest.Members": requestWith(list, (*Ledger).Reconcile, func(r *api.ReconcileRequest, h *hook) {
			rows := r.Members
			r.Members = func(yield func(api.Member, error) bool) {
				h.call()
				rows(yield)
			}
		}),
		"EstimateRequest.Include": requestWith(api.EstimateRequest{Question: all}, (*Ledger).Estimate, func(r *api.EstimateRequest, h *hook) {
			r.Include = func(string) bool {
				h.call()
				return true
			}
		}).after(func(t testing.TB, l *Ledger) { release(t, l, releaseOf(t, "r", person[0], "1")) }),
		"Backup progress":    {panics: true, request: copyWith((*Ledger).Backup)},
		"CompactTo progress": {panics: true, request: copyWith((*Ledger).CompactTo)},
		"Compact progress": {panics: true, request: func(t testing.TB, l *Ledger, h *hook) error {
			return l.Compact(t.Context(), h.progress)
		}},
		"VerifyRequest.Progress": requestWith(api.VerifyRequest{}, (*Ledger).Verify,
			func(r *api.VerifyRequest, h *hook) { r.Progress = func(uint64, uint64) { h.call() } }),
		"VerifyRequest.Report": {panics: true, options: func(o *Options, _ *hook) {
			o.Now, o.ClockAhead = func() time.Time { return time.Now().Add(time.Hour) }, time.Now().Add(2*time.Hour)
		}, request: func(t testing.TB, l *Ledger, h *hook) error {
			l.engine.Clock = time.Now // the events are ahead of it: a problem
			return check.Err(l.Verify(t.Context(), api.VerifyRequest{Report: func(api.Finding) { h.call() }}))
		}},
		"VerifyRequest.Verifiers": {panics: true, request: func(t testing.TB, l *Ledger, h *hook) error {
			_, verifier, _ := logKey(t, "sluice-test", 1)
			return check.Err(l.Verify(t.Context(), api.VerifyRequest{
				Checkpoints: [][]byte{checkpointOf(t, l)}, Verifiers: hookedVerifiers{note.VerifierList(verifier), h},
			}))
		}},
		"loop over Watch":  loopOver(func(t testing.TB, l *Ledger) iter.Seq2[says.Event, error] { return l.Watch(t.Context(), 1) }),
		"loop over Events": loopOver(func(t testing.TB, l *Ledger) iter.Seq2[says.Event, error] { return l.Events(t.Context(), 1) }),
		"loop over Refusals": loopOver(func(t testing.TB, l *Ledger) iter.Seq2[says.Event, error] {
			return l.Refusals(t.Context(), "looped", 1)
		}),
		"loop over Sales": loopOver(func(t testing.TB, l *Ledger) iter.Seq2[api.Sale, error] { return l.Sales(t.Context(), "acme") }),
		"loop over Reservations": loopOver(func(t testing.TB, l *Ledger) iter.Seq2[api.Reservation, error] {
			return l.Reservations(t.Context(), "acme")
		}),
		"loop over Questions":  loopOver(func(t testing.TB, l *Ledger) iter.Seq2[api.Question, error] { return l.Questions(t.Context()) }),
		"loop over Buyers":     loopOver(func(t testing.TB, l *Ledger) iter.Seq2[api.BuyerState, error] { return l.Buyers(t.Context()) }),
		"loop over Levels":     loopOver(func(t testing.TB, l *Ledger) iter.Seq2[api.LevelCount, error] { return l.Levels(t.Context(), "vote") }),
		"loop over Deliveries": loopOver(func(t testing.TB, l *Ledger) iter.Seq2[api.Delivery, error] { return l.Deliveries(t.Context(), 1) }),
		"loop over Responses": loopOver(func(t testing.TB, l *Ledger) iter.Seq2[api.Response, error] {
			return l.Responses(t.Context(), all, eps(t, "1"))
		}),
		"Options.Now, writing":        {panics: true, options: clocked, request: released},
		"Options.Now, reading":        {panics: true, options: clocked, request: func(t testing.TB, l *Ledger, _ *hook) error { return check.Err(l.Object(t.Context(), person[0])) }},
		"Options.Observer, Committed": {logs: "Observer", options: observed, request: released},
		"Options.Observer, Refused":   {logs: "Observer", options: observed, request: refused},
		"Options.Observer, Audited": {logs: "Observer", options: observed, request: func(t testing.TB, l *Ledger, _ *hook) error {
			return check.Err(l.Verify(t.Context(), api.VerifyRequest{}))
		}},
		"Options.Logger, committed":         {options: logged(zerolog.DebugLevel), request: released},
		"Options.Logger, refused":           {options: logged(zerolog.InfoLevel), request: refused},
		"Options.Logger, refused in a sale": {options: logged(zerolog.InfoLevel), request: refusedInTheCommit},
		"Options.Signer, checkpoint": {panics: true, options: signing, request: func(t testing.TB, l *Ledger, _ *hook) error {
			return check.Err(l.Checkpoint(t.Context()))
		}},
		"Options.Signer, receipt": {panics: true, options: signing, prepare: sold, request: receipt},
		"Options.Signer, statement": {panics: true, options: signing, request: func(t testing.TB, l *Ledger, _ *hook) error {
			return check.Err(l.Statement(t.Context(), api.ObjectRequest{Key: "s", Object: person[0]}))
		}},
		"Options.Signer, publishing": {logs: "Options.Signer panicked", closes: true, options: func(o *Options, h *hook) {
			signing(o, h)
			o.Publish = Publishing{Events: 1, To: h.take}
		}, request: published},
		"Options.Verifiers, signing": {panics: true, options: func(o *Options, h *hook) {
			signer, verifier, _ := logKey(t, "sluice-test", 2) // not the log's: its verifier is the host's
			o.Signer, o.Verifiers = signer, hookedVerifiers{note.VerifierList(verifier), h}
		}, prepare: sold, request: receipt},
		"Publishing.To": {logs: "Publishing.To panicked", closes: true, options: func(o *Options, h *hook) {
			o.Publish = Publishing{Events: 1, To: h.publish}
		}, request: published},
	}
}

// loopOver is a loop over an iterator of the ledger that has at least one element.
func loopOver[T any](of func(testing.TB, *Ledger) iter.Seq2[T, error]) callbackCase {
	return callbackCase{panics: true, prepare: func(t testing.TB, l *Ledger) {
		some := purchase(t, "looped", "acme", "1", crowd(8)...)
		some.Objects, some.Partial = append(some.Objects, "stranger"), true
		sell(t, l, some)
		reserve(t, l, api.ReserveRequest{Key: "h", Order: purchase(t, "", "acme", "2", crowd(1)...).Order, For: time.Hour})
	}, request: func(t testing.TB, l *Ledger, h *hook) error {
		for _, err := range of(t, l) {
			h.call()
			return err
		}
		return errors.New("nothing to loop over")
	}}
}

// requestWith is a request that calls a function of the host. set puts the hook into the request.
func requestWith[R, V any](request R, send func(*Ledger, context.Context, R) (V, error), set func(*R, *hook)) callbackCase {
	return callbackCase{panics: true, request: func(t testing.TB, l *Ledger, h *hook) error {
		r := request
		set(&r, h)
		return check.Err(send(l, t.Context(), r))
	}}
}

// after returns c with a preparation that runs before the request.
func (c callbackCase) after(prepare func(testing.TB, *Ledger)) callbackCase {
	c.prepare = prepare
	return c
}

// copyWith is a request that makes a copy of the ledger.
func copyWith(how func(*Ledger, context.Context, string, func(done, total int)) (api.Copied, error)) func(testing.TB, *Ledger, *hook) error {
	return func(t testing.TB, l *Ledger, h *hook) error {
		return check.Err(how(l, t.Context(), testenv.TempDir(t)+"/copy.db", h.progress))
	}
}

// refusedInTheCommit is a sale whose object withdraws when its true value is requested.
func refusedInTheCommit(t testing.TB, l *Ledger, _ *hook) error {
	r := purchase(t, "late", "acme", "1", crowd(1)...)
	r.Truth = func(ctx context.Context, question string, objects []string) ([]string, error) {
		return []string{"yes"}, l.Withdraw(ctx, api.ObjectRequest{Key: "w", Object: objects[0]})
	}
	_, err := l.Sell(t.Context(), r)
	if _, is := errors.AsType[*api.RefusedError](err); is {
		return nil
	}
	return fmt.Errorf("not refused: %w", err)
}

// start opens a ledger of objects that are for sale, and returns a function that makes the request.
func (c callbackCase) start(t *testing.T) (l *Ledger, h *hook, log *journalLog, run func() error) {
	h, log = &hook{}, &journalLog{}
	signer, _, public := logKey(t, "sluice-test", 1)
	path := testenv.TempDir(t) + "/ledger.db"
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD", LogKey: public}))
	o := Options{Signer: signer, Logger: zerolog.New(log)}
	if c.options != nil {
		c.options(&o, h)
	}
	l = open(t, path, o)
	sellers(t, l, "3", "5", crowd(9)...)
	if c.prepare != nil {
		c.prepare(t, l)
	}
	return l, h, log, func() error { return c.request(t, l, h) }
}

// catchPanic runs a request and recovers its panic, as net/http does for a handler.
func catchPanic(run func() error) (panicked any, err error) {
	defer func() { panicked = recover() }()
	return nil, run()
}

// wantUsable checks that another caller can read and write.
func wantUsable(t *testing.T, l *Ledger) {
	t.Helper()
	wrote := await(t, async(func() (api.Response, error) { return l.Release(t.Context(), releaseOf(t, "other", crowd(9)[8], "2")) }))
	read := await(t, async(func() (api.ObjectState, error) { return l.Object(t.Context(), crowd(9)[8]) }))
	err := errors.Join(wrote.err, read.err)
	check.That(t, err == nil, "another caller got the error %v", err)
}

func TestCallback_Panics_AffectsOnlyItsRequest(t *testing.T) {
	for name, c := range callbackCases(t) {
		t.Run(name, func(t *testing.T) {
			l, h, log, run := c.start(t)
			h.set(func() { panic("the host's own") })
			panicked, err := catchPanic(run)
			switch {
			case h.next.Load() != nil:
				t.Fatal("the function was not called")
			case c.panics && panicked != "the host's own":
				t.Errorf("recovered %v, error %v; want the panic", panicked, err)
			case !c.panics && (panicked != nil || err != nil):
				t.Errorf("recovered %v, error %v; want neither", panicked, err)
			}
			log.await(t, c.logs)
			wantUsable(t, l)
			must(t, await(t, async(func() (any, error) { return nil, l.Close() })).err)
		})
	}
}

func TestCallback_CallsLedger_DoesNotDeadlock(t *testing.T) {
	for name, c := range callbackCases(t) {
		t.Run(name, func(t *testing.T) {
			l, h, _, run := c.start(t)
			var inner error
			h.set(func() {
				_, wrote := l.Release(t.Context(), releaseOf(t, "inner", crowd(9)[8], "1"))
				_, read := l.Object(t.Context(), crowd(9)[8])
				inner = errors.Join(wrote, read)
			})
			outer := await(t, async(func() (any, error) { return nil, run() }))
			check.That(t, inner == nil && outer.err == nil && h.next.Load() == nil,
				"within the function: %v; the request: %v", inner, outer.err)
			wantUsable(t, l)
		})
	}
}

func TestCallback_ClosesLedger_Returns(t *testing.T) {
	for name, c := range callbackCases(t) {
		if c.closes {
			continue // see TestPublishingTo_ClosesLedger_EndsAfterTenSeconds
		}
		t.Run(name, func(t *testing.T) {
			l, h, _, run := c.start(t)
			inner := errors.New("not called")
			h.set(func() { inner = l.Close() })
			outer := await(t, async(func() (any, error) { return nil, run() }))
			check.That(t, inner == nil && (outer.err == nil || errors.Is(outer.err, api.ErrClosed)),
				"Close: %v; the request: %v; want nil or ErrClosed", inner, outer.err)
			closed(t, open(t, l.file, Options{}))
		})
	}
}

func TestCallback_Blocks_OthersDoNotWait(t *testing.T) {
	for name, c := range callbackCases(t) {
		t.Run(name, func(t *testing.T) {
			l, h, _, run := c.start(t)
			called, goOn := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(goOn) })
			defer release()
			h.set(func() {
				close(called)
				<-goOn
			})
			outer := async(func() (any, error) { return nil, run() })
			<-called
			wantUsable(t, l)
			release()
			check.OK(t, await(t, outer).err)
		})
	}
}

type panickyVerifiers struct{}

func (panickyVerifiers) Verifier(string, uint32) (note.Verifier, error) { panic("the host's own") }

// panickySigner panics when the name of its key is requested.
type panickySigner struct{ note.Signer }

func (panickySigner) Name() string { panic("the host's own") }

// openCallbacks returns functions of the host that panic inside Open. docs/howto/embed.md lists
// them, too.
func openCallbacks() map[string]func(o *Options, signed []byte) {
	return map[string]func(*Options, []byte){
		"NoiseKeys.Key": func(o *Options, _ []byte) {
			o.NoiseKey = api.NoiseKeys{Current: "k", Key: func(string) ([]byte, error) { panic("the host's own") }}
		},
		"Options.Journal": func(o *Options, _ []byte) {
			o.Journal = func(context.Context, journal.Wanted) (journal.Journal, error) { panic("the host's own") }
		},
		"Options.Now, opening":       func(o *Options, _ []byte) { o.Now = func() time.Time { panic("the host's own") } },
		"Options.Verifiers, opening": func(o *Options, signed []byte) { o.Checkpoint, o.Verifiers = signed, panickyVerifiers{} },
		"Options.Signer, opening":    func(o *Options, _ []byte) { o.Signer = panickySigner{} },
	}
}

func TestOpen_CallbackPanics_ReleasesFileAndJournal(t *testing.T) {
	for name, change := range openCallbacks() {
		t.Run(name, func(t *testing.T) {
			path, o := fileWithLogKey(t, "ann")
			h := newMemoryHost()
			o.Journal = h.options().Journal
			l := open(t, path, o)
			release(t, l, releaseOf(t, "r", "ann", "1"))
			signed := checkpointOf(t, l)
			closed(t, l)
			check.Need(t, h.opened == 0, "%d handles of the journal are open", h.opened)
			broken := h.options()
			change(&broken, signed)
			panicked, err := catchPanic(func() error { return check.Err(Open(t.Context(), path, broken)) })
			check.That(t, panicked == "the host's own", "recovered %v, error %v; want the panic", panicked, err)
			check.That(t, h.opened == 0, "%d handles of the journal are open", h.opened)
			closed(t, open(t, path, o)) // neither the file nor the claim is held
		})
	}
}

func TestTakeOver_CallbackPanics_ReleasesFileAndJournal(t *testing.T) {
	c := newHostPair(t, "ann")
	o, take := c.options("b"), &hook{}
	o.NoiseKey = api.NoiseKeys{Key: func(string) ([]byte, error) { return nil, nil }}
	o.Now = func() time.Time {
		take.call()
		return time.Now()
	}
	b := open(t, c.file, o)
	c.catchUp(b)
	b.engine.Clock = time.Now // only the ledger after the takeover has the clock that panics
	take.set(func() { panic("the host's own") })
	panicked, err := catchPanic(func() error { return check.Err(b.TakeOver(t.Context())) })
	check.Need(t, panicked == "the host's own", "recovered %v, error %v; want the panic", panicked, err)
	_ = c.a.Close() // it holds the claim of this process
	o = c.options("b")
	o.Standby = false
	l := open(t, c.file, o)
	release(t, l, releaseOf(t, "after", "ann", "2"))
}

func TestPublishingTo_ClosesLedger_EndsAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *Ledger
		opened, ended := make(chan struct{}), make(chan error)
		l = openPublishing(t, Publishing{To: func(context.Context, []byte) error {
			<-opened
			ended <- l.Close()
			return nil
		}})
		began := time.Now()
		close(opened)
		if err := <-ended; err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("Close inside To: got %v after %v, want no error after 10s", err, time.Since(began))
		}
		synctest.Wait() // the goroutine that publishes ends
	})
}

// After Open returns, the host may overwrite the memory of its keys.
func TestOpen_HostClearsKeysAfterwards_LedgerKeepsCopies(t *testing.T) {
	path := votersFile(t, "9", "ann", "bob")
	host := map[string][]byte{"k": bytes.Repeat([]byte{7}, 32)}
	truth := truthKey()
	l := open(t, path, Options{TruthKey: truth, NoiseKey: api.NoiseKeys{Current: "k", Key: func(name string) ([]byte, error) { return host[name], nil }}})
	clear(truth)
	clear(host["k"])
	release(t, l, releaseOf(t, "1", "ann", "1"))
	closed(t, l)
	host["k"] = bytes.Repeat([]byte{7}, 32)
	l = open(t, path, Options{TruthKey: truthKey(), NoiseKey: api.NoiseKeys{Current: "k", Key: func(name string) ([]byte, error) { return host[name], nil }}})
	release(t, l, releaseOf(t, "2", "ann", "2")) // the truth tag is that of the same key
	closed(t, l)
}

// hostFunctions returns all functions that a host can pass to the ledger, found in the types of
// package ledger, and all loops.
func hostFunctions() (names []string) {
	var walk func(name string, of reflect.Type)
	walk = func(name string, of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(name, of.Elem())
		case reflect.Func, reflect.Interface, reflect.Chan:
			if of != reflect.TypeFor[context.Context]() {
				names = append(names, name)
			}
		case reflect.Struct:
			for field := range of.Fields() {
				switch {
				case field.Anonymous:
					walk(name, field.Type)
				case field.IsExported():
					walk(of.Name()+"."+field.Name, field.Type)
				}
			}
		}
	}
	walk("Options", reflect.TypeFor[Options]())
	walk("CreateOptions", reflect.TypeFor[CreateOptions]())
	for method := range reflect.TypeFor[*Ledger]().Methods() {
		for in := range method.Type.Ins() {
			walk(method.Name+" progress", in)
		}
		for out := range method.Type.Outs() {
			if out.Kind() == reflect.Func {
				names = append(names, "loop over "+method.Name)
			}
		}
	}
	// The type of the logger does not show that it can have hooks of the host.
	return append(names, "Options.Logger")
}

// wordsOfRow returns what the first cell of a function's row in docs/howto/embed.md contains.
func wordsOfRow(function string) []string {
	function, _, _ = strings.Cut(function, ",")
	of, field, isField := strings.Cut(function, ".")
	word := func(w string) string { return "`" + w + "`" }
	switch {
	case strings.HasPrefix(function, "loop over "):
		return []string{"the loop over", word(strings.TrimPrefix(function, "loop over "))}
	case !isField:
		name, _, _ := strings.Cut(function, " ")
		return []string{word("progress"), word(name)}
	case of == "Journal":
		return []string{word(field), "journal"}
	case field == "Truth":
		return []string{word("Truth")}
	case field == "Progress":
		return []string{word("Progress"), word(strings.TrimSuffix(of, "Request"))}
	case strings.HasSuffix(of, "Request"):
		return []string{word(field), word(strings.TrimSuffix(of, "Request"))}
	}
	return []string{word(function)}
}

// tableRows returns the first cells of the table in docs/howto/embed.md.
func tableRows(t *testing.T) (cells []string) {
	t.Helper()
	text := check.Value(os.ReadFile("../docs/howto/embed.md"))(t)
	_, section, found := strings.Cut(string(text), "## Functions of yours that the ledger calls")
	check.Need(t, found, "docs/howto/embed.md has no section for functions of the host")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if cell, isRow := strings.CutPrefix(line, "| "); isRow {
			cell, _, _ = strings.Cut(cell, " | ")
			cells = append(cells, cell)
		}
	}
	return cells[1:] // without the heads of the columns
}

func TestCallback_EveryOne_IsTestedAndDocumented(t *testing.T) {
	tested := slices.Concat(slices.Collect(maps.Keys(callbackCases(t))), slices.Collect(maps.Keys(openCallbacks())))
	for _, method := range journalMethods() {
		tested = append(tested, "Journal."+method)
	}
	for _, function := range hostFunctions() {
		check.That(t, slices.ContainsFunc(tested, func(name string) bool { return name == function || strings.HasPrefix(name, function+",") }),
			"%s has no test", function)
	}
	cells := tableRows(t)
	used := make([]bool, len(cells))
	for _, function := range tested {
		words, found := wordsOfRow(function), false
		for i, cell := range cells {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(cell, w) }) {
				used[i], found = true, true
			}
		}
		check.That(t, found, "%s: no row of the table has %q", function, words)
	}
	for i, cell := range cells {
		check.That(t, used[i], "the row %q has no function with a test", cell)
	}
}
