package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
)

// A change of terms of many, and a start with a table, are cut off by a kill between any two of their transactions. What the dead process has
// left is opened: it is sound; the same request under its key, or the same table, is carried on, and comes to what it comes to undisturbed.

// manyPeople take three transactions.
const manyPeople = 9000

func manyNames() (names []string) {
	for i := range manyPeople {
		names = append(names, fmt.Sprintf("person %05d", i))
	}
	return names
}

// crowdedShop is a ledger in which many are under the terms of a vote.
func crowdedShop(t *testing.T) (path string, dearer policy.Policy) {
	t.Helper()
	path = filepath.Join(pace.Scratch(t), "ledger.db")
	must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{}))
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	must(t, err)
	must(t, l.DefineQuestion(t.Context(), "define", api.Question{Name: vote, Values: valuesOf(vote)}))
	p, err := terms(vote)
	must(t, err)
	_, err = l.Enroll(t.Context(), api.EnrollRequest{Key: "enrol", Question: vote, Objects: manyNames(), Policy: p, Cap: tenths(60)})
	must(t, err)
	must(t, l.Close())
	dearer, err = policy.Market{Max: tenths(10), Prices: []policy.Price{{Epsilon: tenths(5), Amount: 50}, {Epsilon: tenths(20), Amount: 200}}, Floor: 3}.Policy()
	must(t, err)
	return path, dearer
}

// leftBehind copies what a process leaves that is killed at this instant.
func leftBehind(t *testing.T, path string, n int) string {
	t.Helper()
	file, err := os.ReadFile(path)
	must(t, err)
	to := filepath.Join(pace.Scratch(t), fmt.Sprint("left ", n))
	must(t, os.WriteFile(to, file, 0o600))
	if _, err := os.Stat(path + ".journal"); err == nil {
		must(t, os.CopyFS(to+".journal", os.DirFS(path+".journal")))
	}
	return to
}

func TestTermsThatAKillCutsOff(t *testing.T) {
	path, dearer := crowdedShop(t)
	request := api.ChangeTermsRequest{Key: "dearer", Question: vote, Objects: manyNames(), Policy: &dearer, Cap: tenths(40)}
	table := func(yield func(api.Member, error) bool) {
		for i, name := range manyNames() {
			m := api.Member{Object: name, Question: vote, Policy: dearer, Cap: tenths(30)}
			if i%2 == 0 {
				m.Object = "new " + name
			}
			if !yield(m, nil) {
				return
			}
		}
	}
	calls := map[string]func(ctx context.Context, l *ledger.Ledger, p api.Progress) (any, error){
		"a change": func(ctx context.Context, l *ledger.Ledger, p api.Progress) (any, error) {
			r := request
			r.Progress = p
			done, err := l.ChangeTerms(ctx, r)
			return []int{done.Changed, done.Unchanged}, err
		},
		"a table": func(ctx context.Context, l *ledger.Ledger, p api.Progress) (any, error) {
			_, err := l.Reconcile(ctx, api.ReconcileRequest{Members: table, Withdraw: true, Gone: manyPeople / 2, Progress: p})
			if gone := new(api.GoneError); errors.As(err, &gone) { // the others are withdrawn by now
				_, err = l.Reconcile(ctx, api.ReconcileRequest{Members: table, Withdraw: true, Gone: gone.Gone, Progress: p})
			}
			return nil, err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			from := leftBehind(t, path, 0)
			l, err := ledger.Open(t.Context(), from, ledger.Options{})
			must(t, err)
			var left []string
			want, err := call(t.Context(), l, func(done, total int) {
				if 0 < done && done < total {
					left = append(left, leftBehind(t, from, len(left)+1))
				}
			})
			must(t, err)
			books := booksOf(t, l)
			must(t, l.Close())
			if len(left) < 2 {
				t.Fatalf("it is cut off at %d places", len(left))
			}
			for i := 0; i < len(left); i += pace.Stride(2, 2) {
				at := left[i]
				l, err := ledger.Open(t.Context(), at, ledger.Options{})
				must(t, err)
				got, err := call(t.Context(), l, nil)
				must(t, err)
				if again, err := call(t.Context(), l, nil); err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(again, want) {
					t.Errorf("%s: it came to %v, and again to %v, %v; undisturbed to %v", at, got, again, err, want)
				}
				if now := booksOf(t, l); !reflect.DeepEqual(now, books) {
					t.Errorf("%s: the ledger came to %v, undisturbed to %v", at, now, books)
				}
				wantSound(t, l)
				must(t, l.Close())
			}
		})
	}
}

// booksOf returns how many are under which terms.
func booksOf(t *testing.T, l *ledger.Ledger) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, name := range manyNames() {
		for _, name := range []string{name, "new " + name} {
			o, err := l.Object(t.Context(), name)
			if errors.Is(err, api.ErrUnknown) {
				continue
			}
			must(t, err)
			n[fmt.Sprint(o.Cap, " ", o.Chains[0].Policy, " ", o.Chains[0].Withdrawn)]++
		}
	}
	return n
}

func wantSound(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	for _, err := range verify(t.Context(), l) {
		t.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
