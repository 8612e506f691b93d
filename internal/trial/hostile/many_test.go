package hostile

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/rrchain"
)

// together runs calls 0 to n−1 from many goroutines, which share commits.
func together(t testing.TB, n int, call func(i int) error) {
	t.Helper()
	next, faults := make(chan int), make(chan error, 1)
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			for i := range next {
				if err := call(i); err != nil {
					select {
					case faults <- fmt.Errorf("call %d: %w", i, err):
					default:
					}
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	close(faults)
	must(t, <-faults)
}

func crowd(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("person %08d", i)
	}
	return names
}

// TestVeryManyObjectsInARequest: a request that is one transaction says how many objects it takes, before it does
// anything with them. One that is carried out in parts takes any number; what it refuses them for is in the error,
// whose text is short.
func TestVeryManyObjectsInARequest(t *testing.T) {
	l, _ := market(t, "ann")
	before := events(t, l)
	names, yes := crowd(pace.Tries(api.MaxPanel+10_000, 400_000, 10_000_000)), sameTruth("yes")
	order := api.Order{Buyer: "acme", Question: "vote", Epsilon: tenths(5), Objects: names}
	for name, call := range map[string]func() error{
		"Quote": func() error { _, err := l.Quote(t.Context(), order); return err },
		"Sell": func() error {
			_, err := l.Sell(t.Context(), api.SellRequest{Key: "k", Order: order, Truth: yes})
			return err
		},
		"Reserve": func() error {
			_, err := l.Reserve(t.Context(), api.ReserveRequest{Key: "k", Order: order, For: time.Hour})
			return err
		},
		"Answer": func() error {
			_, err := l.Answer(t.Context(), api.AnswerRequest{Key: "k", Question: "vote", Query: "majority:yes", Epsilon: tenths(5), Objects: names, AcceptLoss: true, Truth: yes})
			return err
		},
		"Raise": func() error {
			_, err := l.Raise(t.Context(), api.RaiseRequest{Key: "k", Question: "vote", Epsilon: tenths(5), Objects: names, Truth: yes})
			return err
		},
		"Enroll": func() error {
			_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "k", Question: "vote", Objects: append(names[:len(names):len(names)], names[0]), Cap: boundless()})
			return err
		},
	} {
		var err error
		began := time.Now()
		used := allocated(func() { err = call() })
		t.Logf("%s of %d objects: %v, %d MB allocated", name, len(names), time.Since(began).Round(time.Millisecond), used>>20)
		if !decided(err) || len(err.Error()) > 2000 {
			t.Errorf("%s: %.300v", name, err)
		}
		// A name takes 16 bytes besides its text, and a refusal 200 or so.
		if limit := uint64(len(names)) * 2000; used > limit {
			t.Errorf("%s: %d bytes are allocated", name, used)
		}
	}
	if n := events(t, l); n != before {
		t.Errorf("%d events after %d", n, before)
	}
}

// TestVeryManyValues: a question has so many values, or is refused.
func TestVeryManyValues(t *testing.T) {
	l, _ := market(t)
	values := crowd(rrchain.MaxValues + 1)
	for _, encoding := range []api.Encoding{"", api.Direct, api.Unary} {
		err := l.DefineQuestion(t.Context(), "many", api.Question{Name: "many", Values: values, Encoding: encoding})
		if !errors.Is(err, api.ErrInvalid) || len(err.Error()) > 300 {
			t.Errorf("%q: %.300v", encoding, err)
		}
	}
	if !pace.Deep() {
		return // to define the largest, and to list it, takes long
	}
	must(t, l.DefineQuestion(t.Context(), "most", api.Question{Name: "most", Values: values[:rrchain.MaxValues], Encoding: api.Direct}))
	all, err := l.Questions(t.Context())
	if err != nil || len(all) != 2 || len(all[1].Values) != rrchain.MaxValues {
		t.Errorf("%d questions, %v", len(all), err)
	}
}

// TestVeryManyQuestions: a question costs the same, whether it is the first or the last of a million, and they are listed
// in their order.
func TestVeryManyQuestions(t *testing.T) {
	l, path := market(t)
	n := pace.Tries(4000, 10_000, 1_000_000)
	began := time.Now()
	first := allocated(func() { defineMany(t, l, 0, n/2) })
	second := allocated(func() { defineMany(t, l, n/2, n) })
	t.Logf("%d questions are defined in %v", n, time.Since(began).Round(time.Millisecond))
	if second > 2*first+64<<20 {
		t.Errorf("the first half allocates %d bytes, the second %d", first, second)
	}
	began = time.Now()
	var all []api.Question
	used := allocated(func() {
		var err error
		all, err = l.Questions(t.Context())
		must(t, err)
	})
	t.Logf("they are listed in %v with %d MB", time.Since(began).Round(time.Millisecond), used>>20)
	if len(all) != n+1 || used > uint64(n+1)*2000 {
		t.Errorf("%d questions in %d bytes", len(all), used)
	}
	seen := map[string]bool{}
	for _, q := range all {
		seen[q.Name] = true
	}
	if len(seen) != n+1 {
		t.Errorf("%d different questions", len(seen))
	}
	used = allocated(func() {
		if _, err := l.Levels(t.Context(), questionName(n-1)); err != nil {
			t.Error(err)
		}
	})
	if used > 1<<20 {
		t.Errorf("looking at one of them allocates %d bytes", used)
	}
	began = time.Now()
	wantClean(t, l)
	t.Logf("they are audited in %v", time.Since(began).Round(time.Millisecond))
	must(t, l.Close())
	began = time.Now()
	used = allocated(func() {
		again, err := ledger.Open(t.Context(), path, ledger.Options{ReadOnly: true})
		must(t, err)
		must(t, again.Close())
	})
	t.Logf("the file opens in %v", time.Since(began).Round(time.Millisecond))
	if used > uint64(4<<20+100*n) { // bbolt reads which of its pages are free
		t.Errorf("opening the file allocates %d bytes", used)
	}
}

func questionName(i int) string { return fmt.Sprintf("question %07d", i) }

func defineMany(t testing.TB, l *ledger.Ledger, from, to int) {
	t.Helper()
	together(t, to-from, func(i int) error {
		name := questionName(from + i)
		return l.DefineQuestion(t.Context(), name, api.Question{Name: name, Values: []string{"yes", "no"}})
	})
}

// TestSomebodyInVeryManyChains lets one person answer very many questions. Whatever is about all of them takes ten times as
// long for ten times as many, and what is about one of them hardly longer.
func TestSomebodyInVeryManyChains(t *testing.T) {
	few := chained(t, pace.Scale(200, 1_000))
	many := chained(t, pace.Scale(2_000, 10_000))
	for name, of := range many {
		bound := 45 * few[name].bytes // of 10 if all were remembered that was read once, and of 100 for the square
		if strings.HasPrefix(name, "one: ") {
			bound = 2 * few[name].bytes
		}
		t.Logf("%-28s %10v and %10v, %9d and %9d bytes allocated", name, few[name].took.Round(time.Microsecond), of.took.Round(time.Microsecond), few[name].bytes, of.bytes)
		if of.bytes > bound+1<<20 {
			t.Errorf("%s: %d bytes are allocated with few chains, %d with ten times as many", name, few[name].bytes, of.bytes)
		}
	}
}

// cost is what a call takes. Allocations stand for its work, because time depends on what else the machine does.
type cost struct {
	bytes uint64
	took  time.Duration
}

// chained lets ann answer n questions, and measures calls about her.
func chained(t *testing.T, n int) map[string]cost {
	t.Helper()
	l, _ := market(t, "ann")
	defineMany(t, l, 0, n)
	sale, calendar := offer(t)
	yes := sameTruth("yes")
	together(t, n, func(i int) error {
		p := sale
		if i%2 == 0 {
			p = calendar
		}
		_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: fmt.Sprint("chain ", i), Question: questionName(i), Objects: []string{"ann"}, Policy: p, Cap: boundless()})
		return err
	})
	costs := map[string]cost{}
	measure := func(name string, call func() error) {
		t.Helper()
		began := time.Now()
		var err error
		used := allocated(func() { err = call() })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		costs[name] = cost{used, time.Since(began)}
	}
	odd := questionName(n/2 | 1)
	measure("all: her state", func() error {
		o, err := l.Object(t.Context(), "ann")
		if err == nil && len(o.Chains) != n+1 {
			err = fmt.Errorf("%d chains", len(o.Chains))
		}
		return err
	})
	measure("one: release", func() error {
		_, err := l.Release(t.Context(), api.ReleaseRequest{Key: "release", Question: odd, Object: "ann", Epsilon: tenths(1), Truth: yes})
		return err
	})
	order := api.Order{Buyer: "acme", Question: odd, Epsilon: tenths(5), Objects: []string{"ann"}}
	measure("one: quote", func() error { _, err := l.Quote(t.Context(), order); return err })
	measure("one: sale", func() error {
		_, err := l.Sell(t.Context(), api.SellRequest{Key: "sell", Order: order, Truth: yes})
		return err
	})
	measure("one: answer", func() error {
		_, err := l.Answer(t.Context(), api.AnswerRequest{Key: "answer", Question: odd, Query: "majority:yes", Objects: []string{"ann"}, Epsilon: tenths(1), AcceptLoss: true, Truth: yes})
		return err
	})
	measure("one: reservation", func() error {
		order.Epsilon = tenths(15)
		_, err := l.Reserve(t.Context(), api.ReserveRequest{Key: "reserve", Order: order, For: time.Hour})
		return err
	})
	measure("one: receipt", func() error { _, err := l.Receipt(t.Context(), 1); return err })
	measure("all: advance", func() error {
		r, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "advance", Truth: yes})
		if err == nil && len(r.Questions) != n+1 {
			err = fmt.Errorf("%d questions", len(r.Questions))
		}
		return err
	})
	measure("all: advance again", func() error {
		_, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "again", Truth: yes})
		return err
	})
	measure("all: her statement", func() error { _, err := l.Statement(t.Context(), "statement", "ann"); return err })
	measure("all: audit", func() error {
		found, err := l.Verify(t.Context(), api.VerifyRequest{})
		if err == nil && found.Problems > 0 {
			err = fmt.Errorf("%d problems", found.Problems)
		}
		return err
	})
	measure("all: withdraw", func() error { return l.Withdraw(t.Context(), "withdraw", "ann") })
	measure("all: forget", func() error { return l.Forget(t.Context(), "forget", "ann") })
	measure("one: enrol again", func() error {
		_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: odd, Objects: []string{"ann"}, Policy: sale})
		return err
	})
	wantClean(t, l)
	return costs
}
