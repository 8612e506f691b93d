package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// turn is the result of one measurement.
type turn struct {
	answered int // number of calls that succeeded
	sent     int // number of calls that began; the client of HTTP stops while some are in progress
	took     time.Duration
	p50, p99 time.Duration // waits
	server   time.Duration // processor time of the process with the ledger
	client   time.Duration // processor time of a client in another process
}

func (t turn) rate() float64 { return float64(t.answered) / t.took.Seconds() }

// way is a way to call a ledger.
type way interface {
	// call runs the callers for the given time, with the calls from number first on.
	call(ctx context.Context, what kind, first int, lasting time.Duration) (turn, error)
}

// pair is a measurement of both ways, one after the other.
type pair struct{ inside, http turn }

func (p pair) ratio() float64 { return p.http.rate() / p.inside.rate() }

// results are the pairs of each kind of call.
type results struct {
	kinds []kind
	pairs map[kind][]pair
}

// measure creates two ledgers, measures both ways in turns, and checks the content of the ledgers.
func measure(ctx context.Context, o options, dir string, progress io.Writer) (_ results, err error) {
	within, over := filepath.Join(dir, "within.db"), filepath.Join(dir, "over.db")
	for _, path := range []string{within, over} {
		if err := create(ctx, path, o.objects); err != nil {
			return results{}, err
		}
	}
	inside, err := openProcess(within, o)
	if err != nil {
		return results{}, err
	}
	defer func() { err = errors.Join(err, inside.close()) }()
	served, err := startServer(ctx, o, over)
	if err != nil {
		return results{}, err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, served.stop())
		}
	}()
	r := race{o: o, inside: inside, http: served.client(o), progress: progress}
	found, err := r.run(ctx)
	if err != nil {
		return found, err
	}
	stopped = true
	if err := served.stop(); err != nil {
		return found, err
	}
	return found, errors.Join(inside.settle(ctx, r.insideCalls), settleFile(ctx, over, o, r.httpCalls))
}

// create creates a ledger with people who have no response yet, and the largest possible budget.
func create(ctx context.Context, path string, objects int) (err error) {
	if err := ledger.Create(ctx, path, ledger.CreateOptions{}); err != nil {
		return err
	}
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	values := make([]string, valueCount)
	for i := range values {
		values[i] = valueOf(i)
	}
	if err := l.DefineQuestion(ctx, "define", api.Question{Name: question, Values: values}); err != nil {
		return err
	}
	names := make([]string, objects)
	for i := range names {
		names[i] = nameOf(i)
	}
	enrol := api.EnrollRequest{Key: "enrol", Question: question, Objects: names, Cap: privacy.MaxEpsilon(),
		Policy: policy.Fixed(privacy.MaxEpsilon())}
	_, err = l.Enroll(ctx, enrol)
	return err
}

// race measures both ways in turns.
type race struct {
	o                      options
	inside, http           way
	insideCalls, httpCalls calls
	progress               io.Writer
}

// run measures all pairs, after a first one that is not counted, because everything is cold.
func (r *race) run(ctx context.Context) (results, error) {
	found := results{kinds: []kind{releases, reads}, pairs: map[kind][]pair{}}
	for number := range r.o.pairs + 1 {
		for _, what := range found.kinds {
			one, err := r.pair(ctx, what, number%2 == 0)
			if err != nil {
				return found, err
			}
			fmt.Fprintf(r.progress, "%-8s %8.0f/s in process, %8.0f/s over HTTP: %.3f\n", what, one.inside.rate(),
				one.http.rate(), one.ratio())
			if number > 0 {
				found.pairs[what] = append(found.pairs[what], one)
			}
		}
	}
	return found, nil
}

func (r *race) pair(ctx context.Context, what kind, insideFirst bool) (p pair, err error) {
	inside := func() (err error) { p.inside, err = r.turn(ctx, r.inside, what, &r.insideCalls); return err }
	http := func() (err error) { p.http, err = r.turn(ctx, r.http, what, &r.httpCalls); return err }
	first, second := http, inside
	if insideFirst {
		first, second = inside, http
	}
	if err := first(); err != nil {
		return p, err
	}
	return p, second()
}

func (r *race) turn(ctx context.Context, by way, what kind, made *calls) (turn, error) {
	runtime.GC()
	select {
	case <-time.After(r.o.rest):
	case <-ctx.Done():
		return turn{}, ctx.Err()
	}
	one, err := by.call(ctx, what, made.begun, r.o.turn)
	if err != nil {
		return one, fmt.Errorf("%s: %w", what, err)
	}
	if one.answered == 0 {
		return one, fmt.Errorf("%s: no call was answered", what)
	}
	if what == releases {
		made.add(one)
	}
	return one, nil
}

// calls are the releases that were requested from a ledger.
type calls struct {
	begun    int // number of releases; their numbers begin with 0
	answered int
	turns    int
}

func (c *calls) add(t turn) {
	c.begun += t.sent
	c.answered += t.answered
	c.turns++
}

// settleFile is settle for a ledger that no process has open.
func settleFile(ctx context.Context, path string, o options, made calls) (err error) {
	p, err := openProcess(path, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	return p.settle(ctx, made)
}

// settle checks that a ledger has exactly the requested releases. Releases that were in progress
// when a client stopped may be recorded or not. So all are requested again, with the same keys: a
// recorded release is returned, and not drawn twice.
func (p *process) settle(ctx context.Context, made calls) error {
	recorded, err := p.count(ctx)
	if err != nil {
		return err
	}
	if recorded < made.answered || recorded > made.begun || made.begun-made.answered > made.turns*p.o.callers {
		return fmt.Errorf("of %d releases that were requested, %d were answered, and %d are in the ledger", made.begun,
			made.answered, recorded)
	}
	for n := range made.begun {
		if err := p.release(ctx, n); err != nil {
			return fmt.Errorf("release %d, again: %w", n, err)
		}
	}
	if recorded, err = p.count(ctx); err != nil {
		return err
	}
	if recorded != made.begun {
		return fmt.Errorf("%d releases were requested, but the ledger has %d", made.begun, recorded)
	}
	_, err = p.ledger.Verify(ctx, api.VerifyRequest{})
	return err
}

// count returns the number of responses in the ledger.
func (p *process) count(ctx context.Context) (int, error) {
	n := 0
	for level, err := range p.ledger.Levels(ctx, question) {
		if err != nil {
			return 0, err
		}
		n += int(level.N)
	}
	return n, nil
}
