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

// turn is what one way came to, once.
type turn struct {
	answered int // calls that ended well
	sent     int // calls that were begun: the client of HTTP stops while some are under way
	took     time.Duration
	p50, p99 time.Duration // waits
	server   time.Duration // processor time of the process that has the ledger
	client   time.Duration // processor time of whoever calls it from outside
}

func (t turn) rate() float64 { return float64(t.answered) / t.took.Seconds() }

// way is a way to call a ledger.
type way interface {
	// call has the callers call for so long, the calls from number first on.
	call(ctx context.Context, what kind, first int, lasting time.Duration) (turn, error)
}

// pair is both ways, one after the other.
type pair struct{ inside, http turn }

func (p pair) ratio() float64 { return p.http.rate() / p.inside.rate() }

// results are the pairs of each kind of call.
type results struct {
	kinds []kind
	pairs map[kind][]pair
}

// measure makes two ledgers, measures both ways in turns, and looks whether the ledgers have what
// they should.
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

// create makes a ledger with people who have no response yet, and all the budget there can be.
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

// race has both ways take turns.
type race struct {
	o                      options
	inside, http           way
	insideCalls, httpCalls calls
	progress               io.Writer
}

// run measures all pairs, behind one that counts for nothing: of it, everything is cold.
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
		return one, fmt.Errorf("%s: there was no answer", what)
	}
	if what == releases {
		made.add(one)
	}
	return one, nil
}

// calls are the releases that a ledger was asked for.
type calls struct {
	begun    int // of these numbers, from 0 on
	answered int
	turns    int
}

func (c *calls) add(t turn) {
	c.begun += t.sent
	c.answered += t.answered
	c.turns++
}

// settleFile settles a ledger that nobody has open.
func settleFile(ctx context.Context, path string, o options, made calls) (err error) {
	p, err := openProcess(path, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	return p.settle(ctx, made)
}

// settle looks whether a ledger has exactly the releases it was asked for. Those under way when a
// client stopped may be there or not. So all are asked for again: what was carried out is answered
// under its key, and is not carried out twice.
func (p *process) settle(ctx context.Context, made calls) error {
	there, err := p.count(ctx)
	if err != nil {
		return err
	}
	if there < made.answered || there > made.begun || made.begun-made.answered > made.turns*p.o.callers {
		return fmt.Errorf("of %d releases that were asked for, %d were answered, and %d are in the ledger", made.begun,
			made.answered, there)
	}
	for n := range made.begun {
		if err := p.release(ctx, n); err != nil {
			return fmt.Errorf("release %d, again: %w", n, err)
		}
	}
	if there, err = p.count(ctx); err != nil {
		return err
	}
	if there != made.begun {
		return fmt.Errorf("%d releases were asked for, and the ledger has %d", made.begun, there)
	}
	_, err = p.ledger.Verify(ctx, api.VerifyRequest{})
	return err
}

// count returns how many responses the ledger has.
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
