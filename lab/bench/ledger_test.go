package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// These benchmarks measure a whole ledger through its public API. Those that need its private parts
// are in package ledger.

// enrolled defines the question "vote" and enrolls objects in it.
func enrolled(b *testing.B, l *ledger.Ledger, objects int) {
	b.Helper()
	must(b, l.DefineQuestion(b.Context(), "define", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	names := make([]string, objects)
	for i := range names {
		names[i] = objectName(i)
	}
	_, err := l.Enroll(b.Context(), api.EnrollRequest{
		Key: "enrol", Question: "vote", Objects: names, Cap: privacy.MaxEpsilon(), Policy: policy.Fixed(privacy.MaxEpsilon()),
	})
	must(b, err)
}

func objectName(i int) string { return fmt.Sprintf("person-%08d", i) }

func epsilonOf(b *testing.B, nano int64) privacy.Epsilon {
	b.Helper()
	epsilon, err := privacy.EpsilonFromNano(nano)
	must(b, err)
	return epsilon
}

// allYes is the source of true values of people who all say yes.
func allYes(_ context.Context, _ string, objects []string) ([]string, error) {
	return slices.Repeat([]string{"yes"}, len(objects)), nil
}

// answered returns a ledger in which all objects have answered at the levels 1, 2, …, and a bare
// copy of the same file.
func answered(b *testing.B, objects, levels int) (*ledger.Ledger, *bbolt.DB) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "ledger.db")
	must(b, ledger.Create(b.Context(), path, ledger.CreateOptions{Currency: "USD"}))
	l := opened(b, path)
	enrolled(b, l, objects)
	for level := range levels {
		_, err := l.Raise(b.Context(), api.RaiseRequest{
			Key: fmt.Sprint("raise ", level), Question: "vote", All: true,
			Epsilon: epsilonOf(b, int64(1+level)*1_000_000_000), Truth: allYes,
		})
		must(b, err)
	}
	must(b, l.Close())
	db, err := bbolt.Open(copied(b, path), 0o600, nil)
	must(b, err)
	b.Cleanup(func() { _ = db.Close() })
	return opened(b, path), db
}

func opened(b *testing.B, path string) *ledger.Ledger {
	b.Helper()
	l, err := ledger.Open(b.Context(), path, ledger.Options{})
	must(b, err)
	b.Cleanup(func() { _ = l.Close() }) // closing it twice does nothing
	return l
}

// copied copies a closed file.
func copied(b *testing.B, from string) (to string) {
	b.Helper()
	to = from + ".bare"
	in, err := os.Open(from)
	must(b, err)
	defer in.Close()
	out, err := os.Create(to)
	must(b, err)
	_, err = io.Copy(out, in)
	must(b, cmp.Or(err, out.Close()))
	return to
}

// turns compares two functions that run in turns.
type turns struct{ ours, bare []time.Duration }

// report reports the median of the ratios, and the median time of one of so many operations.
func (t *turns) report(b *testing.B, unit string, each int) {
	b.Helper()
	ratios := make([]float64, len(t.ours))
	for i := range ratios {
		ratios[i] = float64(t.bare[i]) / float64(t.ours[i])
	}
	slices.Sort(ratios)
	slices.Sort(t.ours)
	b.ReportMetric(median(ratios), unit)
	b.ReportMetric(float64(t.ours[len(t.ours)/2].Nanoseconds())/float64(each), "ns/each")
	b.ReportMetric(0, "ns/op")
}

// timed returns the time that a function takes.
func timed(b *testing.B, do func() error) time.Duration {
	b.Helper()
	began := time.Now()
	err := do()
	took := time.Since(began)
	must(b, err)
	return took
}

// BenchmarkEstimate compares the estimate of few objects with that of many: its time does not
// depend on how many there are.
func BenchmarkEstimate(b *testing.B) {
	testenv.DefaultGC(b)
	few, _ := answered(b, 1_000, 3)
	many, _ := answered(b, 100_000, 3)
	const chunk = 100
	estimate := func(l *ledger.Ledger) func() error {
		return func() error {
			for range chunk {
				if _, err := l.Estimate(b.Context(), api.EstimateRequest{Question: "vote"}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	var t turns
	for b.Loop() {
		t.ours = append(t.ours, timed(b, estimate(many)))
		t.bare = append(t.bare, timed(b, estimate(few)))
	}
	t.report(b, "of-one-of-1000-objects", chunk)
}

// BenchmarkEstimateFromScratch counts all chains again, as an estimate over chosen objects does.
// -cpu sets on how many cores they are checked; the bare walk is always on one.
func BenchmarkEstimateFromScratch(b *testing.B) {
	testenv.DefaultGC(b)
	for _, objects := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(objects), func(b *testing.B) {
			l, db := answered(b, objects, 1)
			all := api.EstimateRequest{Question: "vote", Include: func(string) bool { return true }}
			var t turns
			for b.Loop() {
				t.ours = append(t.ours, timed(b, func() error { _, err := l.Estimate(b.Context(), all); return err }))
				t.bare = append(t.bare, timed(b, func() error { return bareWalk(db, objects) }))
			}
			t.report(b, "of-bare-walk", objects)
		})
	}
}

// BenchmarkResponses lists all responses at one ε.
func BenchmarkResponses(b *testing.B) {
	testenv.DefaultGC(b)
	const objects = 100_000
	l, db := answered(b, objects, 1)
	epsilon := epsilonOf(b, 1_000_000_000)
	var t turns
	for b.Loop() {
		t.ours = append(t.ours, timed(b, func() error {
			n := 0
			for _, err := range l.Responses(b.Context(), "vote", epsilon) {
				if err != nil {
					return err
				}
				n++
			}
			if n != objects {
				return fmt.Errorf("%d responses of %d", n, objects)
			}
			return nil
		}))
		t.bare = append(t.bare, timed(b, func() error { return bareWalk(db, objects) }))
	}
	t.report(b, "of-bare-walk", objects)
}

// bareWalk moves a cursor over the records of all chains of the only question.
func bareWalk(db *bbolt.DB, want int) error {
	prefix, n := binary.BigEndian.AppendUint32(nil, 1), 0
	err := db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket([]byte("chains")).Cursor()
		for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = cursor.Next() {
			n++
		}
		return nil
	})
	if err == nil && n != want {
		err = fmt.Errorf("%d chains of %d", n, want)
	}
	return err
}

// BenchmarkReleaseObserved compares releases with an observer with the same releases without one.
func BenchmarkReleaseObserved(b *testing.B) {
	testenv.DefaultGC(b)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			objects := callers * 200
			var ledgers [2]*ledger.Ledger
			for i, o := range []ledger.Options{{}, {Observer: &tally{}}} {
				ledgers[i] = inMemory(b, o)
				enrolled(b, ledgers[i], objects)
			}
			n := int64(0)
			var t turns
			for b.Loop() {
				n++
				epsilon := epsilonOf(b, n)
				release := func(l *ledger.Ledger) func() error {
					return func() error { return releaseAll(b.Context(), l, callers, objects, epsilon) }
				}
				t.bare = append(t.bare, timed(b, release(ledgers[1])))
				t.ours = append(t.ours, timed(b, release(ledgers[0])))
			}
			t.report(b, "of-unobserved", objects)
		})
	}
}

func inMemory(b *testing.B, o ledger.Options) *ledger.Ledger {
	b.Helper()
	memory, err := ledgertest.NewMemory(ledgertest.Origin{})
	must(b, err)
	l, err := memory.Open(o)
	must(b, err)
	b.Cleanup(func() { _ = l.Close() })
	return l
}

// releaseAll releases a response of each object, by some callers.
func releaseAll(ctx context.Context, l *ledger.Ledger, callers, objects int, epsilon privacy.Epsilon) error {
	errs := make([]error, callers)
	var next atomic.Int64
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if i >= objects {
					return
				}
				_, errs[c] = l.Release(ctx, api.ReleaseRequest{
					Key: fmt.Sprint(epsilon, " ", i), Question: "vote", Object: objectName(i), Epsilon: epsilon, TrueValue: "yes",
				})
			}
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// tally is an observer that counts.
type tally struct{ events, draws atomic.Uint64 }

func (t *tally) Committed(c observe.Commit) {
	t.events.Add(c.Events)
	for _, n := range c.Draws {
		t.draws.Add(n)
	}
}

func (t *tally) Refused(observe.Refusal) {}
func (t *tally) Audited(observe.Audit)   {}
