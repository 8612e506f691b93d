//go:build unix

package hosts

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
	"github.com/sluicedp/sluice/ledger/journal/pgjournal"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/privacy"
)

// pair are two hosts with a journal in PostgreSQL, which take over from each other while the clients go on. Who has the journal serves all calls, and the
// other follows; what the first cannot end because it was taken over from, the clients ask of the other.
type pair struct {
	*trial
	t       testing.TB
	server  *pgtest.Server
	options ledger.Options
	files   [2]string
	keys    [2]keyholder.Holder
	standby *ledger.Ledger                          // of the other host; nil if that one does not follow
	alone   bool                                    // nobody follows: who takes over opens a file
	wrap    func(journal.Follower) journal.Follower // a fault of the journal; nil for none
	linger  int64                                   // how many calls the old host still gets when the new one is ready
	most    int                                     // how often one takes over; 0 for no limit
	before  func()                                  // happens before a host takes over; nil for nothing

	mu      sync.Mutex
	changed chan struct{} // closed when another host serves
	now     *ledger.Ledger
	host    int // which of them that is
	began   atomic.Int64
	taken   int // how often one has taken over
	failure error
}

// newPair makes two hosts whose files are copies of one another, of which the first serves.
func newPair(t testing.TB, s *pgtest.Server, seed uint64, calls int, mix []weight, plan func(*pair)) *pair {
	t.Helper()
	x, path, options := planTrial(t, seed, calls, mix)
	p := &pair{trial: x, t: t, server: s, options: options, changed: make(chan struct{})}
	for i := range p.files {
		p.files[i] = filepath.Join(filepath.Dir(path), fmt.Sprint("host ", i, ".db"))
		p.keys[i] = directoryOfKeys(t)
	}
	if plan != nil {
		plan(p)
	}
	must(t, os.Rename(path, p.files[0]))
	var err error
	p.now, err = p.open(0, false)
	must(t, err)
	text, err := os.ReadFile(p.files[0]) // which names its journal, and nobody writes to it
	must(t, err)
	must(t, os.WriteFile(p.files[1], text, 0o600))
	must(t, p.follow())
	x.real, x.host, x.tidy = p.now, p, p.compactAny
	x.define(t)
	t.Cleanup(func() {
		must(t, p.now.Close())
		if p.standby != nil {
			_ = p.standby.Close() // it may have stopped
		}
	})
	return p
}

// open opens the ledger on a host, which claims the journal, or follows it.
func (p *pair) open(host int, standby bool) (*ledger.Ledger, error) {
	o := p.options
	o.Standby = standby
	find := pgjournal.For(p.access(host))
	o.Journal = func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		j, err := find(ctx, w)
		if err == nil && p.wrap != nil {
			j = p.wrap(j.(journal.Follower))
		}
		return j, err
	}
	return ledgertest.OpenApart(p.files[host], o)
}

// access are the options of a host.
func (p *pair) access(host int) pgjournal.Options {
	return pgjournal.Options{
		Database: p.server.Address("journals"), Host: fmt.Sprint("host ", host), Keys: p.keys[host], Others: []keyholder.Holder{p.keys[1-host]},
	}
}

// follow has the host that does not serve follow the one that does.
func (p *pair) follow() (err error) {
	if !p.alone {
		p.standby, err = p.open(1-p.host, true)
	}
	return err
}

// other returns the ledger of the other host, which has the journal now.
func (p *pair) other() (*ledger.Ledger, error) {
	if p.alone {
		return p.open(1-p.host, false)
	}
	return p.standby.TakeOver(context.Background())
}

// compactAny compacts the file of who serves. It may be taken over from meanwhile.
func (p *pair) compactAny(ctx context.Context) error {
	l, _, _ := p.serving()
	if err := l.Compact(ctx, nil); !errors.Is(err, api.ErrStopped) && !errors.Is(err, api.ErrClosed) {
		return err
	}
	return nil
}

// serving returns who serves, and what is closed when that is another one.
func (p *pair) serving() (*ledger.Ledger, chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.changed, p.failure
}

// takeOver has the other host take over, under load.
func (p *pair) takeOver() {
	if p.before != nil {
		p.before()
	}
	next := 1 - p.host
	l, err := p.other()
	if err != nil {
		p.fault("host %d does not take over: %w", next, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failure = err
		close(p.changed)
		return
	}
	for until := p.began.Load() + p.linger; p.began.Load() < until && p.next.Load() < int64(p.calls); {
		time.Sleep(time.Millisecond)
	}
	p.mu.Lock()
	old := p.now
	p.now, p.host = l, next
	p.real = l
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.taken++
	_ = old.Close() // it may have stopped
	if p.standby = nil; p.wrap == nil && p.before == nil {
		if err := p.follow(); err != nil {
			p.fault("host %d does not follow: %w", 1-next, err)
		}
	}
}

// run lets the clients do their work, and has a host take over each so many calls.
func (p *pair) run(ctx context.Context, every int64) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for at := every; (p.most == 0 || p.taken < p.most) && p.failure == nil; at += every {
			for p.began.Load() < at {
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
				}
			}
			p.takeOver()
		}
	}()
	p.trial.run(ctx)
	close(over)
	<-ended
}

// ask asks who serves, and if that one was taken over from meanwhile, the next.
func ask[T any](ctx context.Context, p *pair, do func(*ledger.Ledger) (T, error)) (T, error) {
	p.began.Add(1)
	for {
		l, changed, failed := p.serving()
		out, err := do(l)
		if failed != nil || !errors.Is(err, api.ErrStopped) && !errors.Is(err, api.ErrClosed) {
			return out, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
}

func askAll[T any](ctx context.Context, p *pair, do func(*ledger.Ledger) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := ask(ctx, p, func(l *ledger.Ledger) ([]T, error) { return collect(do(l)) })
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// nothing is asked for what returns an error alone.
func nothing(do func(*ledger.Ledger) error) func(*ledger.Ledger) (struct{}, error) {
	return func(l *ledger.Ledger) (struct{}, error) { return struct{}{}, do(l) }
}

func (p *pair) Enroll(ctx context.Context, r api.EnrollRequest) (api.EnrollResult, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.EnrollResult, error) { return l.Enroll(ctx, r) })
}

func (p *pair) ChangeTerms(ctx context.Context, r api.ChangeTermsRequest) (api.ChangeTermsResult, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.ChangeTermsResult, error) { return l.ChangeTerms(ctx, r) })
}

func (p *pair) Withdraw(ctx context.Context, key, object string) error {
	_, err := ask(ctx, p, nothing(func(l *ledger.Ledger) error { return l.Withdraw(ctx, key, object) }))
	return err
}

func (p *pair) Release(ctx context.Context, r api.ReleaseRequest) (api.Response, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.Response, error) { return l.Release(ctx, r) })
}

func (p *pair) Raise(ctx context.Context, r api.RaiseRequest) (api.RaiseResult, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.RaiseResult, error) { return l.Raise(ctx, r) })
}

func (p *pair) Advance(ctx context.Context, r api.AdvanceRequest) (api.AdvanceResult, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.AdvanceResult, error) { return l.Advance(ctx, r) })
}

func (p *pair) Quote(ctx context.Context, o api.Order) (api.Quote, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.Quote, error) { return l.Quote(ctx, o) })
}

func (p *pair) Sell(ctx context.Context, r api.SellRequest) (api.Sale, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.Sale, error) { return l.Sell(ctx, r) })
}

func (p *pair) Reserve(ctx context.Context, r api.ReserveRequest) (api.Reservation, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.Reservation, error) { return l.Reserve(ctx, r) })
}

func (p *pair) Capture(ctx context.Context, r api.CaptureRequest) (api.Sale, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.Sale, error) { return l.Capture(ctx, r) })
}

func (p *pair) Cancel(ctx context.Context, key string, reservation uint64) error {
	_, err := ask(ctx, p, nothing(func(l *ledger.Ledger) error { return l.Cancel(ctx, key, reservation) }))
	return err
}

func (p *pair) Answer(ctx context.Context, r api.AnswerRequest) (api.AnswerResult, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.AnswerResult, error) { return l.Answer(ctx, r) })
}

func (p *pair) Object(ctx context.Context, name string) (api.ObjectState, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (api.ObjectState, error) { return l.Object(ctx, name) })
}

func (p *pair) Responses(ctx context.Context, question string, epsilon privacy.Epsilon) iter.Seq2[api.Response, error] {
	return askAll(ctx, p, func(l *ledger.Ledger) iter.Seq2[api.Response, error] { return l.Responses(ctx, question, epsilon) })
}

func (p *pair) Deliveries(ctx context.Context, sale uint64) iter.Seq2[api.Delivery, error] {
	return askAll(ctx, p, func(l *ledger.Ledger) iter.Seq2[api.Delivery, error] { return l.Deliveries(ctx, sale) })
}

func (p *pair) Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error) {
	return ask(ctx, p, func(l *ledger.Ledger) (evidence.Receipt, error) { return l.Receipt(ctx, sale) })
}

// Two hosts take over from each other every few hundred calls, while twelve clients go on: and there is an order in which one host and one client
// would have been told the same.
func TestHistoriesAreLinearizableAcrossTwoHosts(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	length := pace.Tries(1000, 2000, 20_000)
	for seed := range pace.Tries(1, 3, 50) {
		p := newPair(t, s, uint64(seed+1), length, everything(), nil) // with a checkpoint behind every commit, and then the others
		p.run(t.Context(), 200)
		if err := p.check(t.Context()); err != nil {
			t.Fatalf("seed %d, %d calls: %v", seed, length, err)
		}
		if p.taken < length/200-2 {
			t.Errorf("the hosts took over %d times only", p.taken)
		}
		t.Logf("%d calls, %d takeovers", len(p.told), p.taken)
	}
}

// deaf is a journal that takes it for success when somebody else has claimed it.
type deaf struct{ journal.Follower }

func (d deaf) Append(ctx context.Context, g journal.Group) error {
	err := d.Follower.Append(ctx, g)
	if errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrOrder) {
		err = nil
	}
	return err
}

// unknowing is a holder of keys that forgets how far somebody was told.
type unknowing struct{ keyholder.Holder }

func (unknowing) Mark(context.Context, string, keyholder.Mark) error { return nil }

// loses has the database lose the last groups, as one that fails over to a standby that lagged.
func (p *pair) loses(groups int) {
	id := uuid.UUID(mustID(p.t, p.real))
	// The head is locked first: what somebody appends meanwhile is seen, or comes too late.
	p.server.Exec(p.t, "journals", fmt.Sprintf(`BEGIN; SELECT 1 FROM sluice.heads WHERE ledger = '%[1]s' FOR UPDATE;
		WITH last AS (SELECT events, root FROM sluice.frames WHERE ledger = '%[1]s' AND frame = 0 ORDER BY events DESC LIMIT %[2]d),
			first AS (SELECT * FROM last ORDER BY events LIMIT 1),
			head AS (UPDATE sluice.heads h SET events = first.events, root = first.root FROM first WHERE ledger = '%[1]s'),
			segments AS (DELETE FROM sluice.segments s USING first WHERE s.ledger = '%[1]s' AND s.events >= first.events)
		DELETE FROM sluice.frames f USING last WHERE f.ledger = '%[1]s' AND f.events = last.events; COMMIT`, id, groups))
}

func mustID(t testing.TB, l *ledger.Ledger) uuid.UUID {
	t.Helper()
	id, err := uuid.Parse(l.About().ID)
	must(t, err)
	return id
}

// A harness that finds nothing may be blind. Hosts that do not hear that they were taken over from, and a database that loses what was told
// while nobody knows how far that was, are found.
func TestFaultyTakeoversAreCaught(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for name, plan := range map[string]func(*pair){
		"nobody hears of a takeover": func(p *pair) {
			p.wrap, p.linger = func(j journal.Follower) journal.Follower { return deaf{j} }, 60
		},
		"the database loses what was told": func(p *pair) {
			for i := range p.keys {
				p.keys[i] = unknowing{directoryOfKeys(p.t)}
			}
			p.alone, p.before = true, func() { p.loses(5) } // a standby would notice
		},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			for seed := uint64(0); seed < faultSeeds && err == nil; seed++ {
				p := newPair(t, s, 3*seed, 3000, releases(), plan) // without checkpoints behind every commit, which would notice
				p.clock.set(int64(len(p.terms) * lifetime))
				p.most = 1 // the second would notice that its file is ahead, or another history
				p.run(t.Context(), 200)
				err = p.check(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), byOrder) && !strings.Contains(err.Error(), byKey) {
				t.Fatalf("the fault is not found: %v", err)
			}
			t.Logf("%.1000s", err)
		})
	}
}
