package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// The mixed load has all kinds of requests at the same time, as a host would send them. Each
// request starts at its scheduled time, even if earlier ones are not done. It shows how long a
// release waits during a checkpoint, a raise of all people, a backup, or an audit.

// mixedOptions are the options of the mixed load.
type mixedOptions struct {
	length  time.Duration // 0 for no mixed load
	people  int
	callers int     // number of callers of releases
	rate    float64 // releases a second, of all callers; 0 for as many as possible
}

func (o *mixedOptions) define(flags *flag.FlagSet) {
	flags.DurationVar(&o.length, "mixed", 0,
		"time for which to measure a mixed load: only that, or, with -growth, after everything else")
	flags.IntVar(&o.people, "mixed-people", 100_000, "number of people who are enrolled for -mixed")
	flags.IntVar(&o.callers, "mixed-callers", 64, "number of callers of releases in -mixed")
	flags.Float64Var(&o.rate, "mixed-rate", 5000, "releases a second of all callers; 0 for as many as possible")
}

func (o *mixedOptions) check() error {
	if o.length < 0 || o.people < largestSale || o.callers < 1 || o.rate < 0 {
		return fmt.Errorf("-mixed, -mixed-callers and -mixed-rate must not be negative, and -mixed-people at least %d",
			largestSale)
	}
	return nil
}

// kind is a kind of request.
type kind string

const (
	releases kind = "releases"
	sales    kind = "sales"
	reads    kind = "reads"
	raises   kind = "raises of all people"
	backups  kind = "backups"
	audits   kind = "audits"
)

const (
	largestSale  = 1000
	salesASecond = 5
	readsASecond = 1000
)

// large returns the interval of raises of all people, which is about a minute, and the interval of
// backups and of audits. A short load has one of each.
func (o mixedOptions) large() (raised, copied time.Duration) {
	minutes := max(1, o.length/time.Minute)
	return o.length / minutes, o.length / max(1, minutes/2)
}

// happening is one request that was done: its scheduled time since the beginning, and the time from
// then until it was done, in seconds.
type happening struct{ at, took float32 }

// mixture is the result of a mixed load.
type mixture struct {
	mixedOptions
	done        map[kind][]happening
	checkpoints []float64 // the times at which each was seen to be done, in seconds
	bytes       int64     // size of the file at the end
}

// mix is a mixed load in progress.
type mix struct {
	mixedOptions
	l        *ledger.Ledger
	dir      string
	people   []string // in random order
	began    time.Time
	released atomic.Int64

	mu   sync.Mutex // guards done
	done map[kind][]happening
}

// runMixed runs a mixed load on a new ledger in a temporary directory.
func runMixed(ctx context.Context, o mixedOptions) (*mixture, error) {
	dir, err := os.MkdirTemp("", "sluice-mixed-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m := &mix{mixedOptions: o, dir: dir, done: map[kind][]happening{}}
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	checkpoints, err := m.all(ctx)
	if err := errors.Join(err, m.l.Close()); err != nil {
		return nil, err
	}
	info, err := os.Stat(m.file())
	if err != nil {
		return nil, err
	}
	return &mixture{o, m.done, checkpoints, info.Size()}, nil
}

func (m *mix) file() string { return filepath.Join(m.dir, "ledger.db") }

// open creates a ledger in which all people have terms of sale.
func (m *mix) open(ctx context.Context) (err error) {
	if err := ledger.Create(ctx, m.file(), ledger.CreateOptions{}); err != nil {
		return err
	}
	if m.l, err = ledger.Open(ctx, m.file(), ledger.Options{}); err != nil {
		return err
	}
	most := privacy.MaxEpsilon()
	terms, err := policy.Market{Max: most, Prices: []policy.Price{{Epsilon: most, Amount: 100_000}}}.Policy()
	if err == nil {
		err = m.l.DefineQuestion(ctx, "define", api.Question{Name: "vote", Values: []string{"yes", "no", "blank"}})
	}
	for i := range m.mixedOptions.people {
		m.people = append(m.people, fmt.Sprintf("person-%08d", i))
	}
	if err == nil {
		_, err = m.l.Enroll(ctx, api.EnrollRequest{Key: "enrol", Question: "vote", Objects: m.people, Policy: terms,
			Cap: most})
	}
	rand.Shuffle(len(m.people), func(i, j int) { m.people[i], m.people[j] = m.people[j], m.people[i] })
	if err != nil {
		return errors.Join(err, m.l.Close())
	}
	return nil
}

// all runs all kinds of requests concurrently until the end of the load, and returns the times of
// checkpoints.
func (m *mix) all(ctx context.Context) (checkpoints []float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex
	begin := func(do func() error) {
		group.Go(func() {
			if fault := do(); fault != nil {
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					err = fault
				}
				cancel() // the others end soon
			}
		})
	}
	m.began = time.Now()
	repeat := func(k kind, first, interval time.Duration, do func(ctx context.Context, n int) error) {
		begin(func() error { return m.repeat(ctx, k, first, interval, do) })
	}
	interval, stagger := time.Duration(0), time.Duration(0)
	if m.rate > 0 {
		stagger = time.Duration(float64(time.Second) / m.rate)
		interval = stagger * time.Duration(m.callers)
	}
	for c := range m.callers {
		repeat(releases, time.Duration(c)*stagger, interval, m.release)
	}
	repeat(sales, 0, time.Second/salesASecond, m.sell)
	repeat(reads, 0, time.Second/readsASecond, m.read)
	raised, copied := m.large()
	repeat(raises, raised/2, raised, m.raise)
	repeat(backups, copied/8, copied, m.backup)
	repeat(audits, copied*5/8, copied, m.audit)
	begin(func() (fault error) { checkpoints, fault = m.watch(ctx); return fault })
	group.Wait()
	return checkpoints, err
}

// repeat runs a request at each scheduled time. If it starts late, because the one before took too
// long, its wait is counted from the scheduled time.
func (m *mix) repeat(ctx context.Context, k kind, first, interval time.Duration,
	do func(ctx context.Context, n int) error) error {
	var done []happening
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.done[k] = append(m.done[k], done...)
	}()
	due := m.began.Add(first)
	for n := 0; ; n++ {
		start := time.Now()
		if interval == 0 {
			due = start
		}
		if due.Sub(m.began) >= m.length {
			return nil
		}
		wait := due.Sub(start)
		if start = due; wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			start = time.Now()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := do(ctx, n); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		done = append(done, happening{float32(start.Sub(m.began).Seconds()), float32(time.Since(start).Seconds())})
		due = due.Add(interval)
	}
}

// round returns the ε of release n, in nano-nats. It rises by a step after each release of all
// people.
func (m *mix) round(n int64) (epsilon int64) {
	const step = 10_000_000
	return (1 + n/int64(len(m.people))) * step
}

func (m *mix) release(ctx context.Context, _ int) error {
	n := m.released.Add(1) - 1
	epsilon, err := privacy.EpsilonFromNano(m.round(n))
	if err != nil {
		return err
	}
	_, err = m.l.Release(ctx, api.ReleaseRequest{
		Key: fmt.Sprintf("order-%016x", uint64(n)*0x9e3779b97f4a7c15), Question: "vote",
		Object: m.people[n%int64(len(m.people))], Epsilon: epsilon,
		TrueValue: "yes",
	})
	return err
}

// sell sells a random number of people, with a median of about 32, to one of ten buyers.
func (m *mix) sell(ctx context.Context, n int) error {
	epsilon, err := privacy.EpsilonFromNano(m.round(m.released.Load()))
	if err != nil {
		return err
	}
	some := int(math.Pow(largestSale, rand.Float64()))
	first := rand.IntN(len(m.people) - some + 1)
	_, err = m.l.Sell(ctx, api.SellRequest{
		Key: fmt.Sprint("sale-", n),
		Order: api.Order{Buyer: fmt.Sprint("buyer-", n%10), Question: "vote", Epsilon: epsilon,
			Objects: m.people[first : first+some]},
		Truth: yesForAll,
	})
	return err
}

// yesForAll is the source of true values: that of every object is yes.
func yesForAll(_ context.Context, _ string, objects []string) ([]string, error) {
	return slices.Repeat([]string{"yes"}, len(objects)), nil
}

func (m *mix) read(ctx context.Context, _ int) error {
	_, err := m.l.Object(ctx, m.people[rand.IntN(len(m.people))])
	return err
}

// raise raises all people to slightly more than the ε of the last releases.
func (m *mix) raise(ctx context.Context, n int) error {
	epsilon, err := privacy.EpsilonFromNano(m.round(m.released.Load()) + 1 + int64(n))
	if err == nil {
		_, err = m.l.Raise(ctx, api.RaiseRequest{Key: fmt.Sprint("raise-", n), Question: "vote", Epsilon: epsilon,
			All: true, Truth: yesForAll})
	}
	return err
}

func (m *mix) backup(ctx context.Context, _ int) error {
	path := filepath.Join(m.dir, "backup.db")
	_, err := m.l.Backup(ctx, path, nil)
	return errors.Join(err, os.Remove(path))
}

func (m *mix) audit(ctx context.Context, _ int) error {
	found, err := m.l.Verify(ctx, api.VerifyRequest{})
	if err == nil && found.Problems > 0 {
		err = fmt.Errorf("%d problems", found.Problems)
	}
	return err
}

// watch detects checkpoints by the number of events that the file does not have yet, which falls
// when a checkpoint is done.
func (m *mix) watch(ctx context.Context) (checkpoints []float64, err error) {
	const often = 50 * time.Millisecond
	pending := uint64(0)
	for since := time.Duration(0); since < m.length && ctx.Err() == nil; since = time.Since(m.began) {
		health, err := m.l.Health(ctx)
		if err != nil {
			return nil, fmt.Errorf("health: %w", err)
		}
		if health.Pending < pending {
			checkpoints = append(checkpoints, since.Seconds())
		}
		pending = health.Pending
		time.Sleep(often)
	}
	return checkpoints, nil
}
