package hosts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	random "math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// server is what the clients call: a ledger, or a ledger with a fault.
type server interface {
	Enroll(context.Context, api.EnrollRequest) (api.EnrollResult, error)
	ChangeTerms(context.Context, api.ChangeTermsRequest) (api.ChangeTermsResult, error)
	Withdraw(ctx context.Context, r api.ObjectRequest) error
	Release(context.Context, api.ReleaseRequest) (api.Response, error)
	Raise(context.Context, api.RaiseRequest) (api.RaiseResult, error)
	Advance(context.Context, api.AdvanceRequest) (api.AdvanceResult, error)
	Quote(context.Context, api.Order) (api.Quote, error)
	Sell(context.Context, api.SellRequest) (api.Sale, error)
	Reserve(context.Context, api.ReserveRequest) (api.Reservation, error)
	Capture(context.Context, api.CaptureRequest) (api.Sale, error)
	Cancel(ctx context.Context, key string, reservation uint64) error
	Answer(context.Context, api.AnswerRequest) (api.AnswerResult, error)
	Object(context.Context, string) (api.ObjectState, error)
	Responses(context.Context, string, privacy.Epsilon) iter.Seq2[api.Response, error]
	Deliveries(context.Context, uint64) iter.Seq2[api.Delivery, error]
	Receipt(context.Context, uint64) (evidence.Receipt, error)
}

// The objects of a history are cohorts, one after the other, each with its own questions.
const (
	clients    = 12
	crowd      = 6   // the objects of a cohort
	panel      = 3   // the objects of a cohort that are in the panel of the answers
	generation = 250 // the calls for each cohort
	lifetime   = 100 // of a cohort, in minutes: the time in which its diaries rise
	query      = "majority:yes"
)

func questionName(cohort, question int) string {
	return fmt.Sprint([]string{"vote", "diary"}[question], " ", cohort)
}

func people(cohort int) (names []string) {
	for i := range crowd {
		names = append(names, fmt.Sprintf("person %d-%d", cohort, i))
	}
	return names
}

func buyers() []string { return []string{"acme", "hooli", "zeta"} }

// bits returns buyers as the bit set of [level].
func bits(names []string) (set uint8) {
	for _, name := range names {
		set |= 1 << slices.Index(buyers(), name)
	}
	return set
}

func values() []string { return []string{"yes", "no"} }

// truths returns the true values.
func truths(_ context.Context, _ string, objects []string) (all []string, err error) {
	for _, name := range objects {
		all = append(all, truthOf(name))
	}
	return all, nil
}

func truthOf(name string) string { return values()[int(name[len(name)-1])%2] }

// order is a call that a client makes, once or several times.
type order struct {
	number  int
	what    string
	cohort  int
	objects []string
	request
	all         bool
	partial     bool
	lasting     time.Duration // the time that a reservation is valid
	reservation uint64
	sold        reply // the reply to the sale that is read again
}

func (o order) key() string { return fmt.Sprint("call ", o.number) }

// reply is the result of a call. Which fields are set depends on the call.
type reply struct {
	Enrolled    api.EnrollResult
	Changed     api.ChangeTermsResult
	Response    api.Response
	Raised      api.RaiseResult
	Advanced    api.AdvanceResult
	Quote       api.Quote
	Sale        api.Sale
	Deliveries  []api.Delivery
	Reservation api.Reservation
	Answer      api.AnswerResult
	Object      api.ObjectState
	Responses   []api.Response
}

// String returns the fields that are set.
func (r reply) String() string {
	var set []string
	for i, v := range reflect.ValueOf(r).Fields() {
		if !v.IsZero() {
			set = append(set, fmt.Sprintf("%s: %+v", i.Name, v))
		}
	}
	return strings.Join(set, ", ")
}

// record is a call that was made.
type record struct {
	order
	client     int
	from, till int64 // the ticks at which it began and ended
	reply      reply
	err        error
}

// weight is the relative frequency of a call.
type weight struct {
	what  string
	share int
}

const (
	toSetClock = "clock"
	toReceipt  = "receipt"
)

func everything() []weight {
	return []weight{
		{toRelease, 20}, {toRaise, 8}, {toSell, 18}, {toReserve, 10}, {toCommit, 8}, {toCancel, 3}, {toAdvance, 3}, {toWithdraw, 2},
		{toEnroll, 6}, {toAnswer, 5}, {toRead, 8}, {toReadLevel, 6}, {toQuote, 6}, {toReceipt, 1}, {toSetClock, 4}, {toTerms, 4},
	}
}

// trial is a history that is being made.
type trial struct {
	seed        uint64
	calls       int
	mix         []weight
	host        server                                          // the ledger of a history with one host
	ask         func(context.Context, func(server) error) error // makes a call at the host that serves
	real        *ledger.Ledger
	compactFile func(context.Context) error // compacts the file
	ticks       atomic.Int64
	clock       *clock
	terms       []terms // by cohort
	next        atomic.Int64
	mu          sync.Mutex
	records     []record
	faults      []error
	kept        []record // calls that reserved
	sold        []record // calls that sold
}

// newTrial creates a ledger for a history of the given number of calls.
func newTrial(t testing.TB, seed uint64, calls int, mix []weight) *trial {
	t.Helper()
	tr, path, options := planTrial(t, seed, calls, mix)
	var err error
	if tr.real, err = ledger.Open(t.Context(), path, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		check.OK(t, tr.real.Close())
	})
	tr.host, tr.compactFile = tr.real, func(ctx context.Context) error { return tr.real.Compact(ctx, nil) }
	tr.ask = func(_ context.Context, call func(server) error) error { return call(tr.host) }
	tr.define(t)
	return tr
}

// planTrial creates the file of a ledger for a history, and returns the options to open it.
func planTrial(t testing.TB, seed uint64, calls int, mix []weight) (tr *trial, path string, options ledger.Options) {
	t.Helper()
	secret, public, err := note.GenerateKey(rand.Reader, "histories.example")
	check.Must(t, err)
	signer := check.Value(note.NewSigner(secret))(t)
	path = filepath.Join(testenv.TempDir(t), "ledger.db")
	check.Must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{LogKey: public}))
	tr = &trial{seed: seed, calls: calls, mix: mix}
	tr.clock = newClock(&tr.ticks)
	options = ledger.Options{Now: tr.clock.time, ClockAhead: opening().AddDate(1, 0, 0), Signer: signer}
	if tr.hasManyCheckpoints() {
		options.Memory = 1
	}
	for cohort := range (calls + generation - 1) / generation {
		one := check.Value(newTerms(int64(cohort*lifetime), int64((cohort+1)*lifetime)))(t)
		tr.terms = append(tr.terms, one)
	}
	return tr, path, options
}

// define defines the questions of all cohorts concurrently, so that they share commits.
func (tr *trial) define(t testing.TB) {
	t.Helper()
	var wg sync.WaitGroup
	for cohort := range tr.terms {
		wg.Go(func() {
			for question := range questions {
				name := questionName(cohort, question)
				check.OK(t, tr.real.DefineQuestion(t.Context(), "define "+name, api.Question{Name: name, Values: values()}))
			}
		})
	}
	wg.Wait()
}

func (tr *trial) fault(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.faults = append(tr.faults, fmt.Errorf(format, args...))
}

// hasManyCheckpoints returns whether a checkpoint begins after every commit, and ends before the
// second next one. Then calls read and commit at each step of a checkpoint.
func (tr *trial) hasManyCheckpoints() bool { return tr.seed%3 > 0 }

// isCompacted returns whether the file is compacted repeatedly during the history.
func (tr *trial) isCompacted() bool { return tr.seed%3 > 1 }

// compact compacts the file until end is closed. It must not affect any result.
func (tr *trial) compact(ctx context.Context, end chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-end:
			if n == 0 {
				tr.fault("the file was not compacted during the history")
			}
			return
		default:
			if err := tr.compactFile(ctx); err != nil {
				tr.fault("compact the file: %w", err)
				return
			}
		}
	}
}

// run runs the clients, and then reads every object once more.
func (tr *trial) run(ctx context.Context) {
	var wg, beside sync.WaitGroup
	end := make(chan struct{})
	if tr.isCompacted() {
		beside.Go(func() { tr.compact(ctx, end) })
	}
	for client := range clients {
		wg.Go(func() { tr.work(ctx, client) })
	}
	wg.Wait()
	close(end)
	beside.Wait()
	for cohort := range tr.terms {
		for _, name := range people(cohort) {
			o := order{number: int(tr.next.Add(1)) - 1, what: toRead, cohort: cohort, objects: []string{name}}
			tr.call(ctx, 0, o)
		}
	}
}

// work makes calls as one client. It makes some calls twice: at the same time, one after the other,
// or much later. It cancels some calls and makes them again.
func (tr *trial) work(ctx context.Context, client int) {
	var past []order
	for {
		n := int(tr.next.Add(1)) - 1
		if n >= tr.calls {
			return
		}
		rng := random.New(random.NewPCG(tr.seed, uint64(n)))
		o := tr.plan(rng, n)
		if o.what == toSetClock {
			tr.clock.set(tr.someTime(rng, n))
			continue
		}
		again := rng.IntN(100)
		switch {
		case again < 6:
			var wg sync.WaitGroup
			wg.Go(func() { tr.call(ctx, clients+client, o) })
			tr.call(ctx, client, o)
			wg.Wait()
		case again < 9:
			tr.cancelDuring(ctx, client, o)
			tr.call(ctx, client, o)
		case again < 12:
			tr.call(ctx, client, o)
			tr.call(ctx, client, o)
		default:
			tr.call(ctx, client, o)
		}
		past = append(past, o)
		if rng.IntN(100) < 3 {
			tr.call(ctx, client, past[rng.IntN(len(past))])
		}
	}
}

// someTime returns the time to which the clock is set at the n-th call. It increases with the calls
// on average, and is far back now and then.
func (tr *trial) someTime(rng *random.Rand, n int) int64 {
	shown := int64(n*lifetime/generation) + rng.Int64N(41) - 20
	if rng.IntN(4) == 0 {
		shown -= 60
	}
	return max(0, shown)
}

// cancelDuring makes a call that is canceled while it runs.
func (tr *trial) cancelDuring(ctx context.Context, client int, o order) {
	brief, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(cancel)
	tr.call(brief, client, o)
	wg.Wait()
}

// plan returns the n-th call.
func (tr *trial) plan(rng *random.Rand, n int) order {
	o := order{number: n, what: tr.pick(rng), cohort: n / generation, partial: rng.IntN(2) == 0}
	if o.cohort > 0 && rng.IntN(10) == 0 {
		o.cohort--
	}
	names, first := people(o.cohort), rng.IntN(crowd)
	for i := range []int{1, 1, 1, 2, 3}[rng.IntN(5)] {
		o.objects = append(o.objects, names[(first+i)%crowd])
	}
	o.question = []int{vote, vote, vote, diary}[rng.IntN(4)]
	o.epsilon = 1 + rng.IntN(3+n%generation*22/generation)
	o.buyer = rng.IntN(len(buyers()))
	if n%generation < questions {
		o.what, o.question, o.cohort = toEnroll, n%generation, n/generation
		o.objects = people(o.cohort)
		return o
	}
	switch o.what {
	case toRelease, toEnroll, toWithdraw, toRead:
		o.objects = o.objects[:1]
	case toRaise:
		if o.all = rng.IntN(4) == 0; o.all {
			o.objects, o.partial = names, true // a request for all that must be whole would hold budget, as only reservations do
		}
	case toAdvance:
		o.objects, o.question, o.epsilon, o.all = names, diary, 0, true
	case toAnswer:
		o.objects, o.question, o.partial = names[:panel], vote, false
		o.epsilon = 1 + rng.IntN(1+n%generation*6/generation)
	case toReadLevel:
		o.objects = names
	case toTerms:
		o.question, o.cap, o.dear, o.agreed = vote, []int{most, most, lessInAll}[rng.IntN(3)], rng.IntN(3) == 0, rng.IntN(2) == 0
	case toSell, toReserve, toQuote:
		o.question = vote
		o.lasting = []time.Duration{15 * time.Minute, 10_000 * time.Hour}[rng.IntN(2)]
	case toCommit, toCancel:
		return tr.onReservation(rng, o)
	case toReceipt:
		return tr.onSale(rng, o)
	}
	return o
}

func (tr *trial) pick(rng *random.Rand) string {
	sum := 0
	for _, w := range tr.mix {
		sum += w.share
	}
	n := rng.IntN(sum)
	for _, w := range tr.mix {
		if n -= w.share; n < 0 {
			return w.what
		}
	}
	panic("unreachable")
}

// onReservation returns a call about one of the last reservations, or a read if there is none.
func (tr *trial) onReservation(rng *random.Rand, o order) order {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.kept) == 0 {
		o.what, o.objects = toRead, o.objects[:1]
		return o
	}
	kept := recent(rng, tr.kept)
	o.reservation, o.cohort, o.question, o.epsilon, o.buyer = kept.reply.Reservation.Number, kept.cohort, vote, kept.epsilon, kept.buyer
	o.objects = without(kept.objects, kept.reply.Reservation.Refused)
	return o
}

// onSale returns a read of one of the last sales, or of an object if there is none.
func (tr *trial) onSale(rng *random.Rand, o order) order {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.sold) == 0 {
		o.what, o.objects = toRead, o.objects[:1]
		return o
	}
	o.sold, o.objects = recent(rng, tr.sold).reply, nil
	return o
}

// recent returns one of the last 20 records.
func recent(rng *random.Rand, from []record) record {
	return from[len(from)-1-rng.IntN(min(len(from), 20))]
}

func without(names []string, refused []api.Refusal) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return refusalOf(refused, name) != nil })
}

func refusalOf(refused []api.Refusal, name string) *api.Refusal {
	for _, r := range refused {
		if r.Object == name {
			r.Object = ""
			return &r
		}
	}
	return nil
}

// call makes a call and records the result.
func (tr *trial) call(ctx context.Context, client int, o order) {
	r := record{order: o, client: client, from: tr.ticks.Add(1)}
	r.err = tr.ask(ctx, func(h server) (err error) {
		r.reply, err = tr.do(ctx, h, o)
		return err
	})
	r.till = tr.ticks.Add(1)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.records = append(tr.records, r)
	if r.err != nil {
		return
	}
	switch o.what {
	case toReserve:
		tr.kept = append(tr.kept, r)
	case toSell, toCommit:
		tr.sold = append(tr.sold, r)
	}
}

func (tr *trial) do(ctx context.Context, h server, o order) (r reply, err error) {
	key, question, epsilon := o.key(), questionName(o.cohort, o.question), tenths(o.epsilon)
	var named []string
	if !o.all {
		named = o.objects
	}
	wanted := api.Order{Buyer: buyers()[o.buyer], Question: question, Epsilon: epsilon, Objects: named}
	switch o.what {
	case toEnroll:
		r.Enrolled, err = h.Enroll(ctx, api.EnrollRequest{
			Key: key, Question: question, Objects: named, Policy: tr.terms[o.cohort][o.question], Cap: tenths(most), Partial: o.partial,
		})
	case toTerms:
		r.Changed, err = h.ChangeTerms(ctx, tr.otherTerms(o, key, named))
	case toWithdraw:
		err = h.Withdraw(ctx, api.ObjectRequest{Key: key, Object: named[0]})
	case toRelease:
		one := api.ReleaseRequest{Key: key, Question: question, Object: named[0], Epsilon: epsilon}
		if o.partial { // a release is never partial: the flag selects the releases that pass the true value
			one.TrueValue = truthOf(named[0])
		} else {
			one.Truth = truths
		}
		r.Response, err = h.Release(ctx, one)
	case toRaise:
		r.Raised, err = h.Raise(ctx, api.RaiseRequest{
			Key: key, Question: question, Objects: named, All: o.all, Epsilon: epsilon, Partial: o.partial, Truth: truths,
		})
	case toAdvance:
		r.Advanced, err = h.Advance(ctx, api.AdvanceRequest{Key: key, Question: question, Truth: truths})
	case toSell:
		r.Sale, err = h.Sell(ctx, api.SellRequest{Key: key, Order: wanted, Partial: o.partial, Truth: truths})
	case toReserve:
		r.Reservation, err = h.Reserve(ctx, api.ReserveRequest{Key: key, Order: wanted, For: o.lasting, Partial: o.partial})
	case toCommit:
		r.Sale, err = h.Capture(ctx, api.CaptureRequest{Key: key, Reservation: o.reservation, Partial: o.partial, Truth: truths})
	case toCancel:
		err = h.Cancel(ctx, key, o.reservation)
	case toAnswer:
		r.Answer, err = h.Answer(ctx, api.AnswerRequest{
			Key: key, Question: question, Query: query, Epsilon: epsilon, Objects: named, AcceptLoss: true, Truth: truths,
		})
	case toQuote:
		r.Quote, err = h.Quote(ctx, wanted)
	case toRead:
		r.Object, err = h.Object(ctx, named[0])
	case toReadLevel:
		r.Responses, err = api.Collect(h.Responses(ctx, question, epsilon))
	case toReceipt:
		err = tr.readSale(ctx, h, o.sold)
	}
	if err == nil && (o.what == toSell || o.what == toCommit) {
		r.Deliveries, err = api.Collect(h.Deliveries(ctx, r.Sale.Number))
	}
	return r, err
}

// otherTerms returns the request of a change of terms.
func (tr *trial) otherTerms(o order, key string, named []string) api.ChangeTermsRequest {
	r := api.ChangeTermsRequest{Key: key, Question: questionName(o.cohort, vote), Objects: named, Cap: tenths(o.cap), Partial: o.partial}
	if r.Policy = &tr.terms[o.cohort][vote]; o.dear {
		r.Policy = &tr.terms[o.cohort][dearer]
	}
	if o.agreed {
		r.Consent = "agreed"
	}
	return r
}

// readSale reads the deliveries of a sale and its receipt, and compares both with the original
// reply.
func (tr *trial) readSale(ctx context.Context, h server, original reply) error {
	number := original.Sale.Number
	found, err := api.Collect(h.Deliveries(ctx, number))
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(found, original.Deliveries) {
		tr.fault("sale %d: delivered %+v, and read again %+v", number, original.Deliveries, found)
	}
	receipt, err := h.Receipt(ctx, number)
	if err != nil {
		return err
	}
	same := slices.EqualFunc(receipt.Responses, original.Deliveries, func(a evidence.SoldResponse, b api.Delivery) bool {
		return a.Object == b.Object && a.Response == b.Value && a.Price == b.Price && a.Event == b.Sold
	})
	if !same || receipt.Price != original.Sale.Price || receipt.Epsilon != original.Sale.Epsilon || receipt.Buyer != original.Sale.Buyer {
		tr.fault("sale %d is %+v with deliveries %+v; its receipt is %+v", number, original.Sale, original.Deliveries, receipt)
	}
	return nil
}

// decided returns whether a call was executed or refused, and not canceled or failed.
func (r *record) decided() bool {
	var refused *api.RefusedError
	return r.err == nil || errors.As(r.err, &refused) || errors.Is(r.err, api.ErrUnknown) || errors.Is(r.err, &api.ReservationError{})
}

// The model of the ledger for one object. ε is in tenths, time in minutes since the opening.

// The questions of each cohort: one for sale, one that the calendar releases.
const (
	vote = iota
	diary
	questions
)

const (
	most    = 25 // the cap of an object
	forSale = 20 // the highest ε for sale
	holders = 2  // the largest number of buyers at one level
	written = 15 // the highest ε of a diary
)

func opening() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

func minute(n int64) time.Time { return opening().Add(time.Duration(n) * time.Minute) }

func tenths(n int) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(int64(n) * 100_000_000)
	if err != nil {
		panic(err) // a constant of the tests
	}
	return e
}

func inTenths(e privacy.Epsilon) int { return int(e.Nano() / 100_000_000) }

// The other terms of a cohort: a lower cap, and a policy of the vote that sells less, for more.
const (
	lessInAll   = 18 // the lower cap
	lessForSale = 14 // the highest ε for sale
	dearer      = questions
)

// terms are the policies of a cohort's questions, and the dearer policy of the vote. The meaning of
// the policies is tested in package policy.
type terms [questions + 1]policy.Policy

func newTerms(start, end int64) (t terms, err error) {
	for place, m := range map[int]struct{ max, price int }{vote: {forSale, 7}, dearer: {lessForSale, 9}} {
		t[place], err = policy.Market{
			Max: tenths(m.max), Stride: tenths(1), Floor: 10, Holders: holders,
			Prices: []policy.Price{{Epsilon: tenths(5), Amount: 5 * int64(m.price)}, {Epsilon: tenths(forSale), Amount: int64(m.price * forSale)}},
		}.Policy()
		if err != nil {
			return t, err
		}
	}
	t[diary], err = policy.Linear(tenths(2), tenths(written), minute(start), minute(end), tenths(1))
	return t, err
}

// level is a response, or an answer. A request for many objects does not return the responses, so
// value and event may be unknown.
type level struct {
	epsilon int
	value   string
	event   uint64
	buyers  uint8 // a bit for each buyer who holds it
}

// holding is a reservation that is neither captured nor canceled.
type holding struct {
	number  uint64
	buyer   int
	epsilon int
	expires int64
	out     bool // the object has withdrawn since
	dear    bool // it was made under the dearer policy
}

// person is the state of one object. It is immutable.
type person struct {
	last    uint64 // the last event known to be about the object
	was, in [questions]bool
	levels  [questions][]level // by rising ε
	answers []level            // of its panel, to the only query
	buyers  uint64             // of the vote
	earned  int64
	held    []holding
	cap     int
	dear    bool     // the vote is sold under the dearer policy
	paid    [3]int64 // by each buyer, for the vote
}

// newPerson returns the state of an object that is not enrolled.
func newPerson() *person { return &person{cap: most} }

// under returns the policy of a question.
func (p *person) under(t *terms, question int) policy.Policy {
	if question == vote && p.dear {
		question = dearer
	}
	return t[question]
}

func (p *person) equal(q *person) bool {
	return p.last == q.last && p.was == q.was && p.in == q.in && p.buyers == q.buyers && p.earned == q.earned && p.cap == q.cap && p.dear == q.dear && p.paid == q.paid &&
		slices.Equal(p.levels[vote], q.levels[vote]) && slices.Equal(p.levels[diary], q.levels[diary]) &&
		slices.Equal(p.answers, q.answers) && slices.Equal(p.held, q.held)
}

func (p *person) hash() uint64 {
	h := fnv.New64a()
	n := [8]byte{
		byte(p.last), byte(p.last >> 8), byte(len(p.levels[vote])), byte(len(p.levels[diary])),
		byte(len(p.answers)), byte(len(p.held)), byte(p.earned), byte(p.buyers),
	}
	_, _ = h.Write(n[:]) // it never fails
	return h.Sum64()
}

func top(levels []level) int {
	if len(levels) == 0 {
		return 0
	}
	return levels[len(levels)-1].epsilon
}

func find(levels []level, epsilon int) (place int, found bool) {
	return slices.BinarySearchFunc(levels, epsilon, func(l level, e int) int { return l.epsilon - e })
}

// spentOn returns what a question has cost so far: the highest ε of its chain and the highest of
// its answers.
func (p *person) spentOn(question int) int {
	spent := top(p.levels[question])
	if question == vote {
		spent += top(p.answers)
	}
	return spent
}

func (p *person) spent() int { return p.spentOn(vote) + p.spentOn(diary) }

// heldBy returns the highest ε at which a buyer has a response.
func (p *person) heldBy(buyer int) int {
	for _, l := range slices.Backward(p.levels[vote]) {
		if l.buyers>>buyer&1 == 1 {
			return l.epsilon
		}
	}
	return 0
}

// moment is the time of a decision: by the clock, and by the log, whose time never decreases.
type moment struct{ clock, log int64 }

// holds returns whether a reservation holds budget.
func (h holding) holds(m moment) bool { return !h.out && m.log < h.expires }

func rest(a, b int) int { return max(a-b, 0) }

// request is the part of a request that decides about a refusal.
type request struct {
	question, epsilon int
	buyer             int // the buyer of an order
	cap               int // for other terms: the cap, whether the dearer policy applies, and whether the person has agreed
	dear, agreed      bool
}

// absent returns the refusal for an object that does not take part.
func (p *person) absent(r request) *api.Refusal {
	reason := api.NotEnrolled
	if p.was[r.question] {
		reason = api.Withdrawn
	}
	if p.in[r.question] {
		return nil
	}
	return &api.Refusal{Reason: reason, Asked: tenths(r.epsilon), Remedy: "enrolling"}
}

// overdrawn returns the refusal if cost is more than what is left under the ceiling of the chain or
// the cap. reaches is the ε of the chain afterwards.
func (p *person) overdrawn(t *terms, m moment, r request, cost, reaches int) *api.Refusal {
	reserved := 0
	for _, h := range p.held {
		if h.holds(m) {
			reserved = max(reserved, h.epsilon)
		}
	}
	onVote := top(p.levels[vote])
	if r.question == vote {
		onVote = reaches
	}
	held := rest(reserved, onVote)

	under := p.under(t, r.question)
	ceiling, spent := inTenths(under.Ceiling(minute(m.clock), 0)), p.spentOn(r.question)
	free, capFree := rest(ceiling, spent), rest(p.cap, p.spent())
	left := free
	if r.question == vote {
		left = rest(free, held)
	}
	refusal := api.Refusal{Asked: tenths(r.epsilon), Cost: tenths(cost), Remedy: "nothing"}
	switch {
	case left < cost:
		refusal.Reason, refusal.Ceiling = api.ChainCeiling, tenths(ceiling)
		refusal.Spent, refusal.Remaining = tenths(spent), tenths(left)
		possible := free >= cost || rest(inTenths(under.Limit()), spent) >= cost
		if possible && capFree >= cost {
			refusal.Remedy = "waiting"
		}
	case rest(capFree, held) < cost:
		refusal.Reason, refusal.Ceiling = api.ObjectCap, tenths(p.cap)
		refusal.Spent, refusal.Remaining = tenths(p.spent()), tenths(rest(capFree, held))
		if capFree >= cost {
			refusal.Remedy = "waiting"
		}
	default:
		return nil
	}
	return &refusal
}

// orLess adds to a refusal the highest lower level that would not be refused.
func orLess(refusal *api.Refusal, r request, refused func(r request) *api.Refusal) *api.Refusal {
	if refusal == nil || refusal.Remedy == "enrolling" {
		return refusal
	}
	for r.epsilon--; r.epsilon > 0; r.epsilon-- {
		if refused(r) != nil {
			continue
		}
		if refusal.Largest = tenths(r.epsilon); refusal.Remedy == "nothing" {
			refusal.Remedy = "less"
		}
		break
	}
	return refusal
}

// undrawable returns the refusal of a response that is neither recorded nor below the current
// level.
func (p *person) undrawable(t *terms, m moment, r request) *api.Refusal {
	try := func(r request) *api.Refusal { return p.undrawn(t, m, r) }
	return orLess(try(r), r, try)
}

// undrawn returns the refusal without an alternative.
func (p *person) undrawn(t *terms, m moment, r request) *api.Refusal {
	if refusal := p.absent(r); refusal != nil {
		return refusal
	}
	current := top(p.levels[r.question])
	if r.epsilon <= current {
		return nil
	}
	return p.overdrawn(t, m, r, r.epsilon-current, r.epsilon)
}

// unsaleable returns the refusal of an order. Its alternative is a level on offer, although the
// buyer may hold one that is no longer on offer.
func (p *person) unsaleable(t *terms, m moment, r request) *api.Refusal {
	try := func(r request) *api.Refusal { return p.unsold(t, m, r) }
	refusal, offered := try(r), inTenths(p.under(t, vote).Limit())
	r.epsilon = min(r.epsilon, offered+1)
	return orLess(refusal, r, try)
}

// unsold returns the refusal without an alternative.
func (p *person) unsold(t *terms, m moment, r request) *api.Refusal {
	if refusal := p.absent(r); refusal != nil {
		return refusal
	}
	at, found := find(p.levels[vote], r.epsilon)
	var owners uint8
	if found {
		owners = p.levels[vote][at].buyers
	}
	if owners>>r.buyer&1 == 1 {
		return p.undrawn(t, m, r)
	}
	if offered := inTenths(p.under(t, vote).Limit()); r.epsilon > offered {
		return &api.Refusal{
			Reason: api.NotOnOffer, Asked: tenths(r.epsilon), Remedy: "nothing",
			Ceiling: tenths(offered), Spent: tenths(p.spentOn(vote)), Remaining: tenths(rest(offered, p.spentOn(vote))),
		}
	}
	waiting := owners
	for _, h := range p.held {
		if h.holds(m) && h.epsilon == r.epsilon && h.buyer != r.buyer {
			waiting |= 1 << h.buyer
		}
	}
	if count(waiting) < holders {
		return p.undrawn(t, m, r)
	}
	refusal := &api.Refusal{Reason: api.HoldersFull, Asked: tenths(r.epsilon), Remedy: "nothing"}
	if count(owners) < holders {
		refusal.Remedy = "waiting"
	}
	return refusal
}

func count(buyers uint8) (n int) {
	for ; buyers != 0; buyers &= buyers - 1 {
		n++
	}
	return n
}

// unanswerable returns the refusal of an answer about a panel with the object.
func (p *person) unanswerable(t *terms, m moment, r request) *api.Refusal {
	try := func(r request) *api.Refusal { return p.unanswered(t, m, r) }
	return orLess(try(r), r, try)
}

// unanswered returns the refusal without an alternative.
func (p *person) unanswered(t *terms, m moment, r request) *api.Refusal {
	current := top(p.answers)
	if r.epsilon <= current {
		return nil
	}
	if refusal := p.absent(r); refusal != nil {
		return refusal
	}
	return p.overdrawn(t, m, r, r.epsilon-current, top(p.levels[vote]))
}

// uncapturable returns the refusal for a reservation that cannot be captured any more.
func (p *person) uncapturable(t *terms, number uint64, r request) *api.Refusal {
	if refusal := p.absent(r); refusal != nil {
		return refusal
	}
	at := slices.IndexFunc(p.held, func(h holding) bool { return h.number == number })
	if at >= 0 && p.held[at].out {
		return &api.Refusal{Reason: api.Withdrawn, Asked: tenths(r.epsilon), Remedy: "nothing"}
	}
	return p.shortOfBudget(t, r)
}

// shortOfBudget returns the refusal of a reservation whose budget is no longer there, because terms
// have changed.
func (p *person) shortOfBudget(t *terms, r request) *api.Refusal {
	cost := rest(r.epsilon, top(p.levels[vote]))
	short := func(reason api.Reason, ceiling, spent int) *api.Refusal {
		if rest(ceiling, spent) >= cost {
			return nil
		}
		return &api.Refusal{
			Reason: reason, Ceiling: tenths(ceiling), Spent: tenths(spent), Asked: tenths(r.epsilon), Cost: tenths(cost),
			Remaining: tenths(rest(ceiling, spent)), Remedy: "nothing",
		}
	}
	if refusal := short(api.ChainCeiling, inTenths(p.under(t, vote).Limit()), p.spentOn(vote)); refusal != nil {
		return refusal
	}
	return short(api.ObjectCap, p.cap, p.spent())
}

// unwilling returns the refusal of other terms.
func (p *person) unwilling(r request) *api.Refusal {
	if !p.was[vote] {
		return &api.Refusal{Reason: api.NotEnrolled, Remedy: "enrolling"}
	}
	if r.agreed || r.cap <= p.cap && (r.dear || !p.dear) {
		return nil
	}
	refusal := &api.Refusal{Reason: api.NeedsConsent, Remedy: "consent"}
	if r.cap > p.cap {
		refusal.Ceiling, refusal.Asked = tenths(p.cap), tenths(r.cap)
	}
	return refusal
}

// differingTerms returns the refusal to enroll an object whose terms differ.
func (p *person) differingTerms(question int) *api.Refusal {
	switch {
	case p.cap != most && (p.was[vote] || p.was[diary]):
		return &api.Refusal{Reason: api.CapDiffers, Ceiling: tenths(p.cap), Spent: tenths(p.spent()), Asked: tenths(most), Remedy: "terms"}
	case question == vote && p.dear:
		return &api.Refusal{Reason: api.PolicyDiffers, Spent: tenths(top(p.levels[vote])), Remedy: "terms"}
	}
	return nil
}

// show adds a response to levels, or compares it with the one at its ε. Value and event of either
// may be unknown. The event of a new response is after last, and that of an existing one is not.
func show(levels []level, shown level, last uint64) ([]level, bool) {
	at, found := find(levels, shown.epsilon)
	if !found {
		return slices.Insert(slices.Clone(levels), at, shown), shown.event == 0 || shown.event > last
	}
	was := levels[at]
	if shown.value == "" {
		return levels, true
	}
	if shown.event > last || was.value != "" && (was.value != shown.value || was.event != shown.event) {
		return levels, false
	}
	if was.value == "" {
		levels = slices.Clone(levels)
		levels[at].value, levels[at].event = shown.value, shown.event
	}
	return levels, true
}

// method returns how a response at an ε is made.
func method(levels []level, epsilon int) string {
	at, found := find(levels, epsilon)
	switch {
	case found:
		return "resale"
	case at == len(levels):
		return "raise"
	case at == 0:
		return "degrade"
	}
	return "insert"
}
