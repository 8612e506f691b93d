package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// hurry is how many times fewer all forms but the long one try under the race detector. It makes
// everything some eight times slower, and sees in one host what it would see in a hundred.
const hurry = 1 + 7*testenv.Race

// tries is how often something is tried in the quick form, in the deep one and in the long one.
func tries(quick, deep, long int) int {
	return testenv.Tries(max(1, quick/hurry), max(1, deep/hurry), long)
}

// A shop is a host whose calls are numbered. What call n asks for depends on n alone, so that
// whoever was told what came of it can ask again, in another life of the process.
type shop struct {
	ledger *ledger.Ledger
	clock  atomic.Int64 // the highest number of a call so far, in minutes
	truth  api.TruthFunc
}

// opening is later than the creation of any file of the tests.
func opening() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

func openShop(path string, truth api.TruthFunc, memory int64) (*shop, error) {
	s := &shop{truth: truth}
	var err error
	s.ledger, err = ledger.Open(context.Background(), path, ledger.Options{Memory: memory, TruthKey: []byte("a key of the tests"), ClockAhead: opening().AddDate(1, 0, 0), Now: func() time.Time {
		return opening().Add(time.Duration(s.clock.Load()) * time.Minute)
	}})
	return s, err
}

// truths are the host's.
func truths(_ context.Context, question string, objects []string) (values []string, err error) {
	for _, name := range objects {
		at := int(name[len(name)-1]) + len(question)
		values = append(values, valuesOf(question)[at%len(valuesOf(question))])
	}
	return values, nil
}

var errAskedAgain = errors.New("asked for a truth again")

// noTruths are for requests that have been carried out.
func noTruths(context.Context, string, []string) ([]string, error) { return nil, errAskedAgain }

// Questions of the shop: one of two values, one in unary encoding, one that comes by itself.
const (
	vote  = "vote"
	home  = "home"
	diary = "diary"
)

func valuesOf(question string) []string {
	if question != home {
		return []string{"yes", "no"}
	}
	var values []string
	for v := range 12 {
		values = append(values, fmt.Sprint("district ", v))
	}
	return values
}

// people are those who take part from the beginning.
func people() (names []string) {
	for i := range 12 {
		names = append(names, fmt.Sprintf("person %02d", i))
	}
	return names
}

func tenths(n int) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(int64(n) * 100_000_000)
	if err != nil {
		panic(err) // a constant of the tests
	}
	return e
}

// terms returns the policy of a question's chains.
func terms(question string) (policy.Policy, error) {
	if question == diary {
		return policy.Linear(tenths(2), tenths(30), opening(), opening().Add(2000*time.Minute), tenths(1))
	}
	return policy.Market{Max: tenths(20), Prices: []policy.Price{{Epsilon: tenths(5), Amount: 35}, {Epsilon: tenths(20), Amount: 140}}, Floor: 3}.Policy()
}

// opened is how many calls it takes until the shop is open.
const opened = 6

// call makes the n-th call.
func (s *shop) call(ctx context.Context, n int) (any, error) {
	for {
		now := s.clock.Load()
		if now >= int64(n) || s.clock.CompareAndSwap(now, int64(n)) {
			break
		}
	}
	key := fmt.Sprint("call ", n)
	if n < opened {
		return s.open(ctx, key, n)
	}
	question := []string{vote, home}[n%2]
	order := api.Order{Buyer: []string{"acme", "zeta", "hooli"}[n/2%3], Question: question, Epsilon: tenths(1 + n*7%22), Objects: some(n)}
	switch n % 10 {
	case 0, 1, 6:
		return s.delivered(ctx)(s.ledger.Sell(ctx, api.SellRequest{Key: key, Order: order, Partial: true, Truth: s.truth}))
	case 2:
		return s.release(ctx, n, api.ReleaseRequest{Key: key, Question: question, Object: some(n)[0], Epsilon: tenths(1 + n%29)})
	case 3:
		return s.ledger.Advance(ctx, api.AdvanceRequest{Key: key, Question: diary, Truth: s.truth})
	case 4:
		return s.ledger.Raise(ctx, api.RaiseRequest{Key: key, Question: question, All: true, Partial: true, Epsilon: tenths(1 + n%20), Truth: s.truth})
	case 5:
		return s.ledger.Answer(ctx, api.AnswerRequest{Key: key, Question: vote, Query: "majority:yes", Epsilon: tenths(1 + n/10%5), Objects: people()[:5], Partial: true, AcceptLoss: true, Truth: s.truth})
	case 7:
		return s.ledger.Reserve(ctx, api.ReserveRequest{Key: key, Order: order, For: 1000 * time.Hour, Partial: true})
	case 8:
		return s.commit(ctx, n)
	}
	return s.guest(ctx, n)
}

// open makes one of the calls that open the shop.
func (s *shop) open(ctx context.Context, key string, n int) (any, error) {
	question := []string{vote, home, diary}[n%3]
	if n < 3 {
		q := api.Question{Name: question, Values: valuesOf(question)}
		if question == home {
			q.Encoding = "unary"
		}
		return nil, s.ledger.DefineQuestion(ctx, key, q)
	}
	p, err := terms(question)
	if err != nil {
		return nil, err
	}
	return s.ledger.Enroll(ctx, api.EnrollRequest{Key: key, Question: question, Objects: people(), Policy: p, Cap: tenths(60)})
}

// some returns a few of the people, in an order that is not theirs.
func some(n int) (names []string) {
	for i := range 1 + n%4 {
		names = append(names, people()[(n*5+i*7)%12])
	}
	return names
}

// delivered returns a sale with everything it delivers.
func (s *shop) delivered(ctx context.Context) func(api.Sale, error) (any, error) {
	return func(sale api.Sale, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		deliveries, err := api.Collect(s.ledger.Deliveries(ctx, sale.Number))
		return map[string]any{"Sale": sale, "Deliveries": deliveries}, err
	}
}

// commit carries out the reservation of the call before, or cancels it, or does so to one that is
// not there.
func (s *shop) commit(ctx context.Context, n int) (any, error) {
	made, err := s.call(ctx, n-1)
	var closed *api.ReservationError
	if err != nil && !errors.As(err, &closed) {
		return nil, err
	}
	number := made.(api.Reservation).Number
	if closed != nil {
		number = closed.Number
	}
	if key := fmt.Sprint("call ", n); n%20 == 8 {
		return s.delivered(ctx)(s.ledger.Capture(ctx, api.CaptureRequest{Key: key, Reservation: number, Partial: true, Truth: s.truth}))
	} else {
		return nil, s.ledger.Cancel(ctx, key, number)
	}
}

// release brings the true value along every second time.
func (s *shop) release(ctx context.Context, n int, r api.ReleaseRequest) (any, error) {
	if n/10%2 == 0 {
		r.Truth = s.truth
	} else if values, err := truths(ctx, r.Question, []string{r.Object}); err == nil {
		r.TrueValue = values[0]
	}
	return s.ledger.Release(ctx, r)
}

// guest lets somebody come, answer, leave or agree to other terms, and be forgotten, by turns.
func (s *shop) guest(ctx context.Context, n int) (any, error) {
	key, name := fmt.Sprint("call ", n), guestOf(n)
	switch n / 10 % 4 {
	case 0:
		return s.ledger.Enroll(ctx, api.EnrollRequest{Key: key, Question: vote, Objects: []string{name}, Cap: tenths(60)})
	case 1:
		return s.release(ctx, n, api.ReleaseRequest{Key: key, Question: vote, Object: name, Epsilon: tenths(3)})
	case 2:
		if n/40%2 == 0 {
			return nil, s.ledger.Withdraw(ctx, api.ObjectRequest{Key: key, Object: name})
		}
		p, err := terms(vote)
		if err != nil {
			return nil, err
		}
		return s.ledger.ChangeTerms(ctx, api.ChangeTermsRequest{Key: key, Question: vote, Objects: []string{name}, Policy: &p, Cap: tenths(2), Consent: "a word of " + name})
	}
	return nil, s.ledger.Forget(ctx, api.ObjectRequest{Key: key, Object: name})
}

// guestOf returns whom a guest's call is about.
func guestOf(n int) string { return fmt.Sprint("guest ", n/40) }

// forgets tells whether a call is the one by which a guest is forgotten.
func forgets(n int) bool { return n >= opened && n%40 == 39 }

// reply is what somebody was told of a call that was carried out.
type reply struct {
	N      int
	Result json.RawMessage
}

// tell makes a call and writes down what it came to. Nobody is told of one that was not carried
// out.
func (s *shop) tell(ctx context.Context, n int) (reply, error) {
	result, err := s.call(ctx, n)
	if err != nil {
		return reply{}, err
	}
	text, err := json.Marshal(result)
	return reply{n, text}, err
}

// checkShop opens a ledger, lets an auditor look at it, and asks for everything that anybody was
// told, which must be the same, without any truth. Then it makes other calls, with the truths:
// those that were under way; and again, without. All of it must follow from the log. It returns
// what the calls came to, and everything that is wrong.
func checkShop(ctx context.Context, path string, told map[int]json.RawMessage, others ...int) (more map[int]json.RawMessage, err error) {
	s, err := openShop(path, noTruths, 0)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer s.ledger.Close()
	faults := verify(ctx, s.ledger)
	if len(faults) > 0 {
		return nil, errors.Join(faults...) // nobody goes on with a damaged file
	}
	faults = s.repeat(ctx, told)
	s.truth = truths
	more = map[int]json.RawMessage{}
	for _, n := range others {
		one, err := s.tell(ctx, n)
		if err == nil {
			more[n] = one.Result
		} else if !refused(err) {
			faults = append(faults, fmt.Errorf("call %d, which was under way, comes to %w", n, err))
		}
	}
	s.truth = noTruths
	if len(more) > 0 {
		faults = append(append(faults, s.repeat(ctx, more)...), verify(ctx, s.ledger)...)
	}
	return more, errors.Join(faults...)
}

func wantTold(t testing.TB, path string, told map[int]json.RawMessage, others ...int) map[int]json.RawMessage {
	t.Helper()
	more, err := checkShop(t.Context(), path, told, others...)
	check.That(t, err == nil, "%v", err)
	return more
}

// repeat makes calls again that were told of.
func (s *shop) repeat(ctx context.Context, told map[int]json.RawMessage) (faults []error) {
	for n, was := range told {
		one, err := s.tell(ctx, n)
		if errors.Is(err, api.ErrForgotten) && n%10 == 9 {
			continue // the guest is forgotten by now
		}
		var closed *api.ReservationError
		var granted api.Reservation
		if errors.As(err, &closed) && json.Unmarshal(was, &granted) == nil && granted.Number == closed.Number {
			continue // the reservation is not open any more, and says so
		}
		if err != nil || withoutGuests(one.Result) != withoutGuests(was) {
			faults = append(faults, fmt.Errorf("call %d came to\n%s\nand later to\n%s %w", n, was, one.Result, err))
		}
	}
	return faults
}

// withoutGuests is a result in which refused guests are not listed: those who are forgotten by now
// are only counted.
func withoutGuests(result json.RawMessage) string {
	var fields map[string]json.RawMessage
	var list struct {
		Refused  []api.Refusal
		Unlisted int // left out where it is 0
	}
	if json.Unmarshal(result, &fields) != nil || fields["refused"] == nil || json.Unmarshal(result, &list) != nil {
		return string(result)
	}
	rest := slices.DeleteFunc(slices.Clone(list.Refused), func(r api.Refusal) bool { return strings.HasPrefix(r.Object, "guest ") })
	fields["refused"], _ = json.Marshal(slices.Clip(append([]api.Refusal{}, rest...)))
	fields["unlisted"], _ = json.Marshal(list.Unlisted + len(list.Refused) - len(rest))
	all, _ := json.Marshal(fields)
	return string(all)
}

// verify lets an auditor look at a ledger.
func verify(ctx context.Context, l *ledger.Ledger) (faults []error) {
	ahead := 0 // a shop that is opened again begins with an early clock
	found, err := l.Verify(ctx, api.VerifyRequest{Report: func(p api.Finding) {
		if p.Kind == "clock" {
			ahead++
			return
		}
		faults = append(faults, fmt.Errorf("audit: %+v", p))
	}})
	if err != nil || found.Problems != uint64(len(faults)+ahead) {
		faults = append(faults, fmt.Errorf("audit: %d problems, %w", found.Problems, err))
	}
	return faults
}

// refused tells whether a call was decided, and not carried out.
func refused(err error) bool {
	var r *api.RefusedError
	return errors.As(err, &r) || errors.Is(err, api.ErrUnknown) || errors.Is(err, &api.ReservationError{}) || errors.Is(err, api.ErrForgotten)
}

// creating tells a host to make a file, and to say so.
const creating = "create"

func hostCreates(path string) error {
	err := ledger.Create(context.Background(), path, ledger.CreateOptions{Currency: "USD"})
	if err == nil {
		_, err = os.Stdout.WriteString("created\n")
	}
	return err
}

func create(t testing.TB, path string) {
	t.Helper()
	check.Must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{Currency: "USD"}))
}

func creator(t *testing.T, path string) *exec.Cmd {
	cmd := hostCommand(t.Context(), path, life{})
	cmd.Env = append(cmd.Env, hostCalls+"="+creating)
	return cmd
}

// wantNoneOrGood looks for a ledger. There is none, and then one can be made; or it is whole, and
// can be used.
func wantNoneOrGood(t *testing.T, path string, told bool) (made bool) {
	t.Helper()
	_, err := os.Stat(path)
	if made = !errors.Is(err, fs.ErrNotExist); !made {
		check.That(t, !told, "a file was told of, and is not there")
		create(t, path)
	}
	wantTold(t, path, nil, 0, 1, 2, 3, 4, 5, 6, 7)
	return made
}

// TestCreatingIsWholeOrNothing ends the creation of a ledger at each of its calls, and makes each
// of these fail; in its quick form it does one of three to each call, and another one to the next.
func TestCreatingIsWholeOrNothing(t *testing.T) {
	Need(t)
	dir := testenv.TempDir(t)
	quiet := watch(dir, nil, Proceed)
	if status, err := Run(creator(t, filepath.Join(dir, "shop.db")), quiet); err != nil || status.ExitStatus() != 0 || quiet.n < 8 {
		t.Fatalf("%d calls, %v, %v", quiet.n, status, err)
	}
	turn, stride := rand.IntN(3), testenv.Tries(3, 1, 1)
	for at := 1; at <= quiet.n; at++ {
		for i, verdict := range []Verdict{Kill, FailIO, FailFull} {
			if (turn+at+i)%stride != 0 {
				continue
			}
			w := watch(testenv.TempDir(t), after(at), verdict)
			path := filepath.Join(w.dir, "shop.db")
			status, err := Run(creator(t, path), w)
			told := w.told.String() == "created\n"
			_, stat := os.Stat(path)
			switch {
			case err != nil:
				t.Fatal(err)
			case verdict == Kill && (!status.Signaled() || status.Signal() != syscall.SIGKILL):
				t.Errorf("killed at call %d: it ended with %v", at, status)
			case verdict != Kill && told != (status.ExitStatus() == 0):
				t.Errorf("failed at call %d: it ended with %v, and told so: %v", at, status, told)
			case verdict != Kill && !told && stat == nil:
				t.Errorf("failed at call %d, %s: it says that it failed, and the file is there", at, w.struck.Kind)
			}
			wantNoneOrGood(t, path, told)
			if forget(t, w.dir); t.Failed() {
				t.Fatalf("verdict %d at call %d, %s of %s", verdict, at, w.struck.Kind, w.struck.Path)
			}
		}
	}
}

// TestAPowerCutWhileCreatingLeavesNothingOrAll cuts the power at each call of the creation of a
// ledger.
func TestAPowerCutWhileCreatingLeavesNothingOrAll(t *testing.T) {
	Need(t)
	r := newRecord(testenv.TempDir(t))
	status, err := Run(creator(t, filepath.Join(r.dir, "shop.db")), r)
	check.Need(t, err == nil && status.ExitStatus() == 0, "%v %v", status, err)
	random, images := rand.New(rand.NewPCG(rand.Uint64(), 1)), testenv.TempDir(t)
	each, made, all := tries(5, 20, 2000), 0, 0
	d := check.Value(newDisk(t.TempDir(), r.dir))(t)
	told := false
	for n, e := range r.events {
		if told = told || e.told != ""; e.told == "" {
			check.Must(t, d.play(n, e, false))
		}
		for range each {
			all++
			dir := filepath.Join(images, fmt.Sprint(all))
			check.Must(t, check.Err(d.image(random, dir)))
			if wantNoneOrGood(t, filepath.Join(dir, "shop.db"), told) {
				made++
			}
			if err := os.RemoveAll(dir); err != nil || t.Failed() {
				t.Fatalf("after event %d of %d, %s of %s: %v", n+1, len(r.events), e.Kind, e.Path, err)
			}
		}
	}
	check.That(t, made != 0 && made != all, "in %d of %d images there is a ledger", made, all)
	t.Logf("in %d of %d images there is a ledger", made, all)
}

// A change of terms of many, and a start with a table, are cut off by a kill between any two of
// their transactions. What the dead process has left is opened: it is sound; the same request under
// its key, or the same table, is carried on, and comes to what it comes to undisturbed.

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
	path = filepath.Join(testenv.TempDir(t), "ledger.db")
	check.Must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{}))
	l := check.Value(ledger.Open(t.Context(), path, ledger.Options{}))(t)
	check.Must(t, l.DefineQuestion(t.Context(), "define", api.Question{Name: vote, Values: valuesOf(vote)}))
	p := check.Value(terms(vote))(t)
	check.Must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "enrol", Question: vote, Objects: manyNames(), Policy: p, Cap: tenths(60)})))
	check.Must(t, l.Close())
	dearer = check.Value(policy.Market{Max: tenths(10), Prices: []policy.Price{{Epsilon: tenths(5), Amount: 50}, {Epsilon: tenths(20), Amount: 200}}, Floor: 3}.Policy())(t)
	return path, dearer
}

// leftBehind copies what a process leaves that is killed at this instant.
func leftBehind(t *testing.T, path string, n int) string {
	t.Helper()
	file := check.Value(os.ReadFile(path))(t)
	to := filepath.Join(testenv.TempDir(t), fmt.Sprint("left ", n))
	check.Must(t, os.WriteFile(to, file, 0o600))
	if _, err := os.Stat(path + ".journal"); err == nil {
		check.Must(t, os.CopyFS(to+".journal", os.DirFS(path+".journal")))
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
	calls := map[string]func(ctx context.Context, l *ledger.Ledger, p func(done, total int)) (any, error){
		"a change": func(ctx context.Context, l *ledger.Ledger, p func(done, total int)) (any, error) {
			r := request
			r.Progress = p
			done, err := l.ChangeTerms(ctx, r)
			return []int{done.Changed, done.Unchanged}, err
		},
		"a table": func(ctx context.Context, l *ledger.Ledger, p func(done, total int)) (any, error) {
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
			l := check.Value(ledger.Open(t.Context(), from, ledger.Options{}))(t)
			var left []string
			want := check.Value(call(t.Context(), l, func(done, total int) {
				if 0 < done && done < total {
					left = append(left, leftBehind(t, from, len(left)+1))
				}
			}))(t)
			books := booksOf(t, l)
			check.Must(t, l.Close())
			check.Need(t, len(left) >= 2, "it is cut off at %d places", len(left))
			for i := 0; i < len(left); i += testenv.Stride(2, 2) {
				at := left[i]
				l := check.Value(ledger.Open(t.Context(), at, ledger.Options{}))(t)
				got := check.Value(call(t.Context(), l, nil))(t)
				if again, err := call(t.Context(), l, nil); err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(again, want) {
					t.Errorf("%s: it came to %v, and again to %v, %v; undisturbed to %v", at, got, again, err, want)
				}
				if now := booksOf(t, l); !reflect.DeepEqual(now, books) {
					t.Errorf("%s: the ledger came to %v, undisturbed to %v", at, now, books)
				}
				wantSound(t, l)
				check.Must(t, l.Close())
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
			check.Must(t, err)
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

// A file that was used for long has many free pages.

// wornName is what such a file is called where its host shall not compact it: that would make it a
// young one.
const wornName = "worn.db"

// wear gives a file the free pages of long use: many records that were put, and then deleted.
func wear(t testing.TB, path string) {
	t.Helper()
	s, err := bbolt.Open(path, 0o600, nil)
	check.Must(t, err)
	// The ledger uses this bucket, which is empty so far. Each record takes a page.
	const bucket = "requests"
	each := func(do func(b *bbolt.Bucket, key []byte) error) error {
		return s.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			if err != nil {
				return err
			}
			for i := range 700 {
				if err := do(b, fmt.Appendf(nil, "%06d", i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = each(func(b *bbolt.Bucket, key []byte) error { return b.Put(key, make([]byte, 3000)) })
	if err == nil {
		err = each(func(b *bbolt.Bucket, key []byte) error { return b.Delete(key) })
	}
	check.Must(t, errors.Join(err, s.Close()))
}
