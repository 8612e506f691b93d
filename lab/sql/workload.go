package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// valuesAsked is the number of values of the question.
const valuesAsked = 4

// truthOf returns the true value of an object, which can be any fixed value.
func truthOf(name string) int { return int(name[len(name)-1]) % valuesAsked }

// tenths returns an ε of n tenths.
func tenths(n int) (privacy.Epsilon, error) { return privacy.EpsilonFromNano(int64(n) * 100_000_000) }

// contestant is a ledger of any engine.
type contestant interface {
	enroll(ctx context.Context, names []string, limit, ceiling privacy.Epsilon) error
	raise(ctx context.Context, key string, epsilon privacy.Epsilon) error
	// release executes an order, in the way that is fastest for many callers.
	release(ctx context.Context, o order) error
	read(ctx context.Context, name string) (levels int, err error)
	// size returns the size on disk after the log is written to the file, and the size of a
	// compacted copy.
	size(ctx context.Context) (written, compact int64, err error)
	close() error
}

// byHand is a book as a contestant.
type byHand struct {
	*book
}

func (h byHand) enroll(_ context.Context, names []string, limit, ceiling privacy.Epsilon) error {
	return h.book.enroll("enroll", names, limit, ceiling)
}

func (h byHand) raise(_ context.Context, key string, epsilon privacy.Epsilon) error {
	_, err := h.book.raise(key, epsilon, func(names []string) ([]int, error) {
		values := make([]int, len(names))
		for i, name := range names {
			values[i] = truthOf(name)
		}
		return values, nil
	})
	return err
}

func (h byHand) release(_ context.Context, o order) error {
	_, err := h.releaseGrouped(o)
	return err
}

// releaseEach is release with one transaction for each order.
func (h byHand) releaseEach(_ context.Context, o order) error {
	_, err := h.book.release(o)
	return err
}

func (h byHand) read(_ context.Context, name string) (levels int, err error) {
	o, err := h.db.read(name)
	if err != nil {
		return 0, err
	}
	if o == nil {
		return 0, errUnknown
	}
	return len(o.levels), nil
}

func (h byHand) size(ctx context.Context) (written, compact int64, err error) { return h.db.size(ctx) }
func (h byHand) close() error                                                 { return h.db.close() }

// engine opens contestants of one kind.
type engine struct {
	name    string
	driver  string // the module of the driver of a database
	version string
	missing error // why the engine is not measured
	open    func(ctx context.Context, dir string) (contestant, error)
}

// race runs the same operations on all engines, in turns, and records the measurements.
type race struct {
	engines []*engine
	objects int
	rounds  int
	grouped bool          // skip the rows with a transaction for each order of several callers
	sustain time.Duration // shortest time of a sustained row
	memory  int64         // of Sluice, for data that is not in the file yet, in bytes
	dir     string
	say     func(format string, args ...any)
	results []result
}

// result is the result of one operation: a sample for each engine and round.
type result struct {
	operation string
	unit      unit
	samples   [][]sample // by engine; empty for an engine that is not measured
}

// unit is the unit of the samples of an operation.
type unit int

const (
	aSecond unit = iota // operations a second
	bytesEach
)

// sample is one measurement: a number of operations a second or of bytes, and the waits of callers.
type sample struct {
	value       float64
	tail        time.Duration // 99th percentile of the waits; 0 if they are not measured
	worst       time.Duration // 99.9th percentile of the waits; 0 if they are not measured
	checkpoints int           // of Sluice, in a sustained row
	took        time.Duration // of a sustained row
}

// field has the open contestants, by engine. An engine that is not measured has nil.
type field []contestant

func (r *race) open(ctx context.Context) (f field, err error) {
	defer func() {
		if err != nil {
			_ = f.close()
		}
	}()
	f = make(field, len(r.engines))
	for i, e := range r.engines {
		if e.missing != nil {
			continue
		}
		dir, err := os.MkdirTemp(r.dir, "life-")
		if err != nil {
			return f, err
		}
		if f[i], err = e.open(ctx, dir); err != nil {
			return f, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return f, nil
}

func (f field) close() (err error) {
	for _, c := range f {
		if c != nil {
			err = errors.Join(err, c.close())
		}
	}
	return err
}

// measure runs an operation of a contestant, and measures it.
type measure func(c contestant) (sample, error)

// turn runs an operation once on every contestant, one after the other. Each round begins with
// another contestant.
func (r *race) turn(ctx context.Context, operation string, u unit, f field, round int, do measure) error {
	for i := range f {
		at := (i + round) % len(f)
		if f[at] == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		runtime.GC()
		one, err := do(f[at])
		if err != nil {
			return fmt.Errorf("%s: %s: %w", r.engines[at].name, operation, err)
		}
		into := r.samples(operation, u)
		into[at] = append(into[at], one)
		r.say("%-45s %-20s %12.0f", operation, r.engines[at].name, one.value)
	}
	return nil
}

func (r *race) samples(operation string, u unit) [][]sample {
	for _, one := range r.results {
		if one.operation == operation {
			return one.samples
		}
	}
	r.results = append(r.results, result{operation, u, make([][]sample, len(r.engines))})
	return r.results[len(r.results)-1].samples
}

// rate measures how many of n operations are done a second.
func rate(n int, do func() error) (sample, error) {
	began := time.Now()
	err := do()
	return sample{value: float64(n) / time.Since(began).Seconds()}, err
}

func namesOf(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("person-%08d", i)
	}
	return names
}

// levelsRaised is the number of levels of each object after the raises of a life.
const levelsRaised = 3

// raises enrolls all objects, and raises them to three levels.
func (r *race) raises(ctx context.Context, f field, life int) error {
	names := namesOf(r.objects)
	ceiling, err := tenths(5000)
	if err != nil {
		return err
	}
	err = r.turn(ctx, "enrolling objects", aSecond, f, life, func(c contestant) (sample, error) {
		return rate(r.objects, func() error { return c.enroll(ctx, names, privacy.MaxEpsilon(), ceiling) })
	})
	if err != nil {
		return err
	}
	for round := range levelsRaised {
		epsilon, err := tenths(1 + round)
		if err != nil {
			return err
		}
		err = r.turn(ctx, "bulk raise, objects", aSecond, f, life+round, func(c contestant) (sample, error) {
			return rate(r.objects, func() error { return c.raise(ctx, fmt.Sprint("raise ", round), epsilon) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sizes measures the files with all objects at three levels.
func (r *race) sizes(ctx context.Context, f field) error {
	written, compact := make([]float64, len(f)), make([]float64, len(f))
	for i, c := range f {
		if c == nil {
			continue
		}
		a, b, err := c.size(ctx)
		if err != nil {
			return fmt.Errorf("%s: size: %w", r.engines[i].name, err)
		}
		written[i], compact[i] = float64(a)/float64(r.objects), float64(b)/float64(r.objects)
	}
	for i, c := range f {
		if c != nil {
			into := r.samples("bytes on disk an object, as written", bytesEach)
			into[i] = append(into[i], sample{value: written[i]})
			into = r.samples("bytes on disk an object, compacted", bytesEach)
			into[i] = append(into[i], sample{value: compact[i]})
		}
	}
	return nil
}

// reads measures reads of the states of single objects, in random order.
func (r *race) reads(ctx context.Context, f field) error {
	const chunk = 20_000
	names := namesOf(r.objects)
	for round := range r.rounds {
		random := rand.New(rand.NewPCG(1, uint64(round)))
		asked := make([]string, chunk)
		for i := range asked {
			asked[i] = names[random.IntN(len(names))]
		}
		err := r.turn(ctx, "reading an object's state", aSecond, f, round, func(c contestant) (sample, error) {
			return rate(chunk, func() error {
				for _, name := range asked {
					if levels, err := c.read(ctx, name); err != nil || levels < levelsRaised {
						return fmt.Errorf("%d levels: %w", levels, err)
					}
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// orders returns new orders: all objects at the next ε, in random order, then all at the ε after
// it, and so on.
type orders struct {
	names  []string
	made   int
	rising bool // keys rise, as keys that begin with a time do; otherwise they are in no order
}

func newOrders(n int) *orders {
	names := namesOf(n)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return &orders{names: names}
}

func (o *orders) next(n int) (all []order, err error) {
	all = make([]order, n)
	for i := range all {
		if all[i], err = o.at(o.made); err != nil {
			return nil, err
		}
		o.made++
	}
	return all, nil
}

// at returns the order with a number.
func (o *orders) at(n int) (order, error) {
	name := o.names[n%len(o.names)]
	epsilon, err := tenths(1 + levelsRaised + n/len(o.names))
	key := uint64(n)
	if !o.rising {
		key *= 0x9e3779b97f4a7c15
	}
	return order{key: fmt.Sprintf("order-%016x", key), object: name, epsilon: epsilon, truth: truthOf(name)}, err
}

// releases measures durable releases of single objects by concurrent callers.
func (r *race) releases(ctx context.Context, f field, o *orders, callers int) error {
	for round := range r.rounds {
		shared, err := o.next(max(300, callers*40))
		if err != nil {
			return err
		}
		alone, err := o.next(max(300, callers*10))
		if err != nil {
			return err
		}
		if callers > 1 {
			name := fmt.Sprintf("release, %d callers, grouped", callers)
			err := r.turn(ctx, name, aSecond, f, round, func(c contestant) (sample, error) {
				one, _, err := crowd(callers, each(shared), func(o order) error { return c.release(ctx, o) })
				return one, err
			})
			if err != nil {
				return err
			}
		}
		if r.grouped && callers > 1 {
			continue
		}
		name := fmt.Sprintf("release, %d callers, a transaction each", callers)
		if callers == 1 {
			name = "release, 1 caller"
		}
		err = r.turn(ctx, name, aSecond, f, round, func(c contestant) (sample, error) {
			release := c.release // Sluice groups by itself
			if h, ok := c.(byHand); ok {
				release = h.releaseEach
			}
			one, _, err := crowd(callers, each(alone), func(o order) error { return release(ctx, o) })
			return one, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// enoughCheckpoints is the smallest number of checkpoints in a sustained row, so that it includes
// their cost.
const enoughCheckpoints = 20

// sustained measures releases for some time, including the background work. Sluice is first, and
// runs until it has written enough checkpoints. The other engines run for the same time.
func (r *race) sustained(ctx context.Context, f field, o *orders, callers int) error {
	name, began, most := fmt.Sprintf("release, %d callers, grouped, sustained", callers), o.made, 0
	if o.rising {
		name += ", rising keys"
	}
	length := r.sustain
	err := r.turn(ctx, name, aSecond, f, 0, func(c contestant) (one sample, err error) {
		before, err := checkpoints(c)
		if err != nil {
			return one, err
		}
		start := time.Now()
		var over atomic.Int64 // end of the measurement, if there were enough checkpoints
		over.Store(int64(length))
		one, done, err := crowd(callers, func(i int) (order, bool, error) {
			next, err := o.at(began + i)
			if err != nil {
				return next, false, err
			}
			end := over.Load()
			if time.Since(start) < time.Duration(end) {
				return next, true, nil
			}
			now, err := checkpoints(c)
			_, is := c.(*theSluice)
			if more := is && now-before < enoughCheckpoints; !more || err != nil {
				return next, false, err
			}
			over.CompareAndSwap(end, int64(time.Since(start)+time.Second))
			return next, true, nil
		}, func(o order) error { return c.release(ctx, o) })
		if err != nil {
			return one, err
		}
		most = max(most, done)
		after, err := checkpoints(c)
		one.checkpoints = after - before
		one.took = time.Since(start)
		length = max(length, one.took)
		return one, err
	})
	o.made += most
	return err
}

// checkpoints returns the number of checkpoints of Sluice, and 0 for other engines.
func checkpoints(c contestant) (int, error) {
	if s, is := c.(*theSluice); is {
		return s.checkpoints()
	}
	return 0, nil
}

// each returns a function that returns orders by their index.
func each(all []order) func(i int) (order, bool, error) {
	return func(i int) (o order, more bool, err error) {
		if more = i < len(all); more {
			o = all[i]
		}
		return o, more, nil
	}
}

// crowd runs concurrent callers, which execute the next order until there are no more. It returns
// the number of orders.
func crowd(callers int, orders func(i int) (order, bool, error), release func(order) error) (sample, int, error) {
	waits, faults := make([][]time.Duration, callers), make([]error, callers)
	var next atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for c := range callers {
		group.Go(func() {
			for faults[c] == nil {
				o, more, err := orders(int(next.Add(1) - 1))
				if !more || err != nil {
					faults[c] = err
					return
				}
				start := time.Now()
				faults[c] = release(o)
				waits[c] = append(waits[c], time.Since(start))
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	if err := errors.Join(faults...); err != nil {
		return sample{}, 0, err
	}
	all := slices.Sorted(slices.Values(slices.Concat(waits...)))
	n := len(all)
	return sample{value: float64(n) / took.Seconds(), tail: all[n*99/100], worst: all[n*999/1000]}, n, nil
}

// run measures everything.
func (r *race) run(ctx context.Context, lives int) error {
	for life := range lives {
		if err := r.life(ctx, life, life == lives-1); err != nil {
			return err
		}
	}
	return nil
}

// life measures new, empty ledgers. The last life also measures single orders.
func (r *race) life(ctx context.Context, life int, last bool) (err error) {
	f, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(), r.clear()) }()
	if err := r.raises(ctx, f, life); err != nil {
		return err
	}
	if !last {
		return r.sizes(ctx, f) // not in the last life, because compacting would affect later measurements
	}
	if err := r.reads(ctx, f); err != nil {
		return err
	}
	o := newOrders(r.objects)
	for _, callers := range []int{1, 64, 256} {
		if err := r.releases(ctx, f, o, callers); err != nil {
			return err
		}
	}
	for _, o.rising = range []bool{false, true} {
		for _, callers := range []int{64, 256} {
			if err := r.sustained(ctx, f, o, callers); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear removes the files of a life.
func (r *race) clear() error {
	left, err := filepath.Glob(filepath.Join(r.dir, "life-*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}
