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

// raceDivisor is the divisor of the number of tries in the quick and deep forms under the race
// detector. The race detector makes everything about eight times slower, and finds in one host what
// it would find in a hundred.
const raceDivisor = 1 + 7*testenv.Race

// tries returns how many times to try in the form in which the tests run.
func tries(quick, deep, long int) int {
	return testenv.Tries(max(1, quick/raceDivisor), max(1, deep/raceDivisor), long)
}

// shop is a host whose calls are numbered. The request of call n depends only on n, so that a later
// life can make the call again and compare the result.
type shop struct {
	ledger *ledger.Ledger
	clock  atomic.Int64 // the highest number of a call so far; the time of the ledger, in minutes
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

// truths returns the true values.
func truths(_ context.Context, question string, objects []string) (values []string, err error) {
	for _, name := range objects {
		at := int(name[len(name)-1]) + len(question)
		values = append(values, valuesOf(question)[at%len(valuesOf(question))])
	}
	return values, nil
}

var errAskedAgain = errors.New("true values requested again for a recorded call")

// noTruths is for repeated calls, which must not request true values.
func noTruths(context.Context, string, []string) ([]string, error) { return nil, errAskedAgain }

// Questions of the shop: one with two values, one in unary encoding, one that the calendar
// releases.
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

// people returns the objects that are enrolled from the beginning.
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

// setupCalls is the number of calls that set up the shop.
const setupCalls = 6

// call makes call n.
func (s *shop) call(ctx context.Context, n int) (any, error) {
	for {
		now := s.clock.Load()
		if now >= int64(n) || s.clock.CompareAndSwap(now, int64(n)) {
			break
		}
	}
	key := fmt.Sprint("call ", n)
	if n < setupCalls {
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

// open makes one of the calls that set up the shop.
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

// some returns a few of the people, in another order.
func some(n int) (names []string) {
	for i := range 1 + n%4 {
		names = append(names, people()[(n*5+i*7)%12])
	}
	return names
}

// delivered returns a sale with everything that it delivers.
func (s *shop) delivered(ctx context.Context) func(api.Sale, error) (any, error) {
	return func(sale api.Sale, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		deliveries, err := api.Collect(s.ledger.Deliveries(ctx, sale.Number))
		return map[string]any{"Sale": sale, "Deliveries": deliveries}, err
	}
}

// commit captures or cancels the reservation of the call before, which may not be open.
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

// release passes the true value with every second request, and a function for it otherwise.
func (s *shop) release(ctx context.Context, n int, r api.ReleaseRequest) (any, error) {
	if n/10%2 == 0 {
		r.Truth = s.truth
	} else if values, err := truths(ctx, r.Question, []string{r.Object}); err == nil {
		r.TrueValue = values[0]
	}
	return s.ledger.Release(ctx, r)
}

// guest enrolls a guest, releases its value, withdraws it or changes its terms, and forgets it, in
// turn.
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

// guestOf returns the name of the guest of a call.
func guestOf(n int) string { return fmt.Sprint("guest ", n/40) }

// isForget returns whether a call forgets a guest.
func isForget(n int) bool { return n >= setupCalls && n%40 == 39 }

// reply is what the host reports of a call that succeeded.
type reply struct {
	N      int
	Result json.RawMessage
}

// makeCall makes a call and returns its reply. A call that fails has no reply.
func (s *shop) makeCall(ctx context.Context, n int) (reply, error) {
	result, err := s.call(ctx, n)
	if err != nil {
		return reply{}, err
	}
	text, err := json.Marshal(result)
	return reply{n, text}, err
}

// checkShop opens a ledger, audits it, and makes every call that has a reply again, without true
// values: the results must be the same. Then it makes the calls others, which were in progress,
// with true values, and repeats them without. It audits again, and returns the new replies and all
// faults.
func checkShop(ctx context.Context, path string, replies map[int]json.RawMessage, others ...int) (more map[int]json.RawMessage, err error) {
	s, err := openShop(path, noTruths, 0)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer s.ledger.Close()
	faults := verify(ctx, s.ledger)
	if len(faults) > 0 {
		return nil, errors.Join(faults...) // a damaged file is not used further
	}
	faults = s.repeat(ctx, replies)
	s.truth = truths
	more = map[int]json.RawMessage{}
	for _, n := range others {
		one, err := s.makeCall(ctx, n)
		if err == nil {
			more[n] = one.Result
		} else if !refused(err) {
			faults = append(faults, fmt.Errorf("call %d, which was in progress, returns %w", n, err))
		}
	}
	s.truth = noTruths
	if len(more) > 0 {
		faults = append(append(faults, s.repeat(ctx, more)...), verify(ctx, s.ledger)...)
	}
	return more, errors.Join(faults...)
}

func wantReplies(t testing.TB, path string, replies map[int]json.RawMessage, others ...int) map[int]json.RawMessage {
	t.Helper()
	more, err := checkShop(t.Context(), path, replies, others...)
	check.That(t, err == nil, "%v", err)
	return more
}

// repeat makes calls again that have a reply, and compares the results.
func (s *shop) repeat(ctx context.Context, replies map[int]json.RawMessage) (faults []error) {
	for n, was := range replies {
		one, err := s.makeCall(ctx, n)
		if errors.Is(err, api.ErrForgotten) && n%10 == 9 {
			continue // the guest has been forgotten since then
		}
		var closed *api.ReservationError
		var granted api.Reservation
		if errors.As(err, &closed) && json.Unmarshal(was, &granted) == nil && granted.Number == closed.Number {
			continue // the reservation is not open any more, as the error says
		}
		if err != nil || withoutGuests(one.Result) != withoutGuests(was) {
			faults = append(faults, fmt.Errorf("call %d returned\n%s\nand now returns\n%s %w", n, was, one.Result, err))
		}
	}
	return faults
}

// withoutGuests returns a result in which refused guests are counted but not listed, because a
// forgotten guest is only counted.
func withoutGuests(result json.RawMessage) string {
	var fields map[string]json.RawMessage
	var list struct {
		Refused  []api.Refusal
		Unlisted int // absent from the JSON if 0
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

// verify audits a ledger.
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

// refused returns whether a call was decided, but not executed.
func refused(err error) bool {
	var r *api.RefusedError
	return errors.As(err, &r) || errors.Is(err, api.ErrUnknown) || errors.Is(err, &api.ReservationError{}) || errors.Is(err, api.ErrForgotten)
}

// creating makes a host create a file and report it.
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

// wantAbsentOrUsable checks that there is no ledger, and one can be created, or that the ledger is
// complete and can be used. It returns whether there is one.
func wantAbsentOrUsable(t *testing.T, path string, isReported bool) (made bool) {
	t.Helper()
	_, err := os.Stat(path)
	if made = !errors.Is(err, fs.ErrNotExist); !made {
		check.That(t, !isReported, "the host reported a new ledger, which does not exist")
		create(t, path)
	}
	wantReplies(t, path, nil, 0, 1, 2, 3, 4, 5, 6, 7)
	return made
}

// The creation of a ledger is killed at each of its calls, and each call fails. The quick form
// tries one of the three verdicts at each call, in turn.
func TestCreate_KilledOrFailsAtEachCall_IsWholeOrAbsent(t *testing.T) {
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
			isReported := w.output.String() == "created\n"
			_, stat := os.Stat(path)
			switch {
			case err != nil:
				t.Fatal(err)
			case verdict == Kill && (!status.Signaled() || status.Signal() != syscall.SIGKILL):
				t.Errorf("killed at call %d: the host ended with %v", at, status)
			case verdict != Kill && isReported != (status.ExitStatus() == 0):
				t.Errorf("failed at call %d: the host ended with %v, and reported success: %v", at, status, isReported)
			case verdict != Kill && !isReported && stat == nil:
				t.Errorf("failed at call %d, %s: the host reported an error, and the file exists", at, w.faulted.Kind)
			}
			wantAbsentOrUsable(t, path, isReported)
			if removeDir(t, w.dir); t.Failed() {
				t.Fatalf("verdict %d at call %d, %s of %s", verdict, at, w.faulted.Kind, w.faulted.Path)
			}
		}
	}
}

// The power is cut after each call of the creation of a ledger: there is a complete ledger or none.
func TestCreate_PowerCutAtEachCall_IsWholeOrAbsent(t *testing.T) {
	Need(t)
	r := newRecord(testenv.TempDir(t))
	status, err := Run(creator(t, filepath.Join(r.dir, "shop.db")), r)
	check.Need(t, err == nil && status.ExitStatus() == 0, "%v %v", status, err)
	random, images := rand.New(rand.NewPCG(rand.Uint64(), 1)), testenv.TempDir(t)
	each, made, all := tries(5, 20, 2000), 0, 0
	d := check.Value(newDisk(t.TempDir(), r.dir))(t)
	isReported := false
	for n, e := range r.events {
		if isReported = isReported || e.printed != ""; e.printed == "" {
			check.Must(t, d.play(n, e, false))
		}
		for range each {
			all++
			dir := filepath.Join(images, fmt.Sprint(all))
			check.Must(t, check.Err(d.image(random, dir)))
			if wantAbsentOrUsable(t, filepath.Join(dir, "shop.db"), isReported) {
				made++
			}
			if err := os.RemoveAll(dir); err != nil || t.Failed() {
				t.Fatalf("after event %d of %d, %s of %s: %v", n+1, len(r.events), e.Kind, e.Path, err)
			}
		}
	}
	check.That(t, made != 0 && made != all, "%d of %d images have a ledger; want some with and some without", made, all)
	t.Logf("%d of %d images have a ledger", made, all)
}

// ChangeTerms and Reconcile for many objects are interrupted by a kill between any two of their
// transactions. The ledger that is left is opened. It is sound, and the same request with the same
// key, or the same table, completes it with the same result as without a kill.

// manyPeople is a number of objects that takes three transactions.
const manyPeople = 9000

func manyNames() (names []string) {
	for i := range manyPeople {
		names = append(names, fmt.Sprintf("person %05d", i))
	}
	return names
}

// newCrowdedShop creates a ledger with many objects enrolled for one question.
func newCrowdedShop(t *testing.T) (path string, dearer policy.Policy) {
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

// copyFiles copies the files as a kill at this instant would leave them.
func copyFiles(t *testing.T, path string, n int) string {
	t.Helper()
	file := check.Value(os.ReadFile(path))(t)
	to := filepath.Join(testenv.TempDir(t), fmt.Sprint("left ", n))
	check.Must(t, os.WriteFile(to, file, 0o600))
	if _, err := os.Stat(path + ".journal"); err == nil {
		check.Must(t, os.CopyFS(to+".journal", os.DirFS(path+".journal")))
	}
	return to
}

func TestTermsOfMany_KilledBetweenTransactions_RetryCompletes(t *testing.T) {
	path, dearer := newCrowdedShop(t)
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
			if gone := new(api.GoneError); errors.As(err, &gone) { // the others have been withdrawn since then
				_, err = l.Reconcile(ctx, api.ReconcileRequest{Members: table, Withdraw: true, Gone: gone.Gone, Progress: p})
			}
			return nil, err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			from := copyFiles(t, path, 0)
			l := check.Value(ledger.Open(t.Context(), from, ledger.Options{}))(t)
			var left []string
			want := check.Value(call(t.Context(), l, func(done, total int) {
				if 0 < done && done < total {
					left = append(left, copyFiles(t, from, len(left)+1))
				}
			}))(t)
			terms := countTerms(t, l)
			check.Must(t, l.Close())
			check.Need(t, len(left) >= 2, "the request has %d boundaries between transactions, want at least 2", len(left))
			for i := 0; i < len(left); i += testenv.Stride(2, 2) {
				at := left[i]
				l := check.Value(ledger.Open(t.Context(), at, ledger.Options{}))(t)
				got := check.Value(call(t.Context(), l, nil))(t)
				if again, err := call(t.Context(), l, nil); err != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(again, want) {
					t.Errorf("%s: the result is %v, repeated %v, %v; without a kill %v", at, got, again, err, want)
				}
				if now := countTerms(t, l); !reflect.DeepEqual(now, terms) {
					t.Errorf("%s: the terms are %v, without a kill %v", at, now, terms)
				}
				wantSound(t, l)
				check.Must(t, l.Close())
			}
		})
	}
}

// countTerms returns the number of objects under each of the terms.
func countTerms(t *testing.T, l *ledger.Ledger) map[string]int {
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

// A file that was used for a long time has many free pages.

// wornName is the name of such a file that its host must not compact: compaction would remove the
// free pages.
const wornName = "worn.db"

// addFreePages gives a file many free pages: it puts many records and deletes them.
func addFreePages(t testing.TB, path string) {
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
