package hosts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/privacy"
)

// server is what the clients use: a ledger, or one with a fault.
type server interface {
	Enroll(context.Context, api.EnrollRequest) (api.EnrollResult, error)
	ChangeTerms(context.Context, api.ChangeTermsRequest) (api.ChangeTermsResult, error)
	Withdraw(ctx context.Context, key, object string) error
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

// The clients' world: cohorts of people, one after the other, each with questions of its own.
const (
	clients    = 12
	crowd      = 6   // people of a cohort
	panel      = 3   // of them, in the panel of the answers
	generation = 250 // calls for each cohort
	lifetime   = 100 // of a cohort, in minutes: as long as its diaries rise
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

// bits are buyers as [level] notes them.
func bits(names []string) (set uint8) {
	for _, name := range names {
		set |= 1 << slices.Index(buyers(), name)
	}
	return set
}

func values() []string { return []string{"yes", "no"} }

// truths are the host's.
func truths(_ context.Context, _ string, objects []string) (all []string, err error) {
	for _, name := range objects {
		all = append(all, truthOf(name))
	}
	return all, nil
}

func truthOf(name string) string { return values()[int(name[len(name)-1])%2] }

// order is a call as somebody means to make it, once or several times.
type order struct {
	number  int
	what    string
	cohort  int
	objects []string
	request
	all         bool
	partial     bool
	lasting     time.Duration // of a reservation
	reservation uint64
	sold        reply // what a buyer was told of the sale that is read again
}

func (o order) key() string { return fmt.Sprint("call ", o.number) }

// reply is what came of a call. Which fields are set depends on the call.
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

// String shows the fields that are set.
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
	from, till int64 // ticks
	reply      reply
	err        error
}

// weight is how often a call is made, out of the sum of all weights.
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

// trial is a history in the making.
type trial struct {
	seed   uint64
	calls  int
	mix    []weight
	host   server
	real   *ledger.Ledger
	tidy   func(context.Context) error // compacts the file
	ticks  atomic.Int64
	clock  *clock
	terms  []terms // by cohort
	next   atomic.Int64
	mu     sync.Mutex
	told   []record
	faults []error
	kept   []record // reservations
	sold   []record // sales
}

// newTrial makes a ledger for a history of so many calls.
func newTrial(t testing.TB, seed uint64, calls int, mix []weight) *trial {
	t.Helper()
	x, path, options := planTrial(t, seed, calls, mix)
	var err error
	if x.real, err = ledger.Open(t.Context(), path, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.real.Close(); err != nil {
			t.Error(err)
		}
	})
	x.host, x.tidy = x.real, func(ctx context.Context) error { return x.real.Compact(ctx, nil) }
	x.define(t)
	return x
}

// planTrial makes the file of a ledger for a history, and says how to open it.
func planTrial(t testing.TB, seed uint64, calls int, mix []weight) (x *trial, path string, options ledger.Options) {
	t.Helper()
	secret, public, err := note.GenerateKey(rand.Reader, "histories.example")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(pace.Scratch(t), "ledger.db")
	if err := ledger.Create(t.Context(), path, ledger.CreateOptions{LogKey: public}); err != nil {
		t.Fatal(err)
	}
	x = &trial{seed: seed, calls: calls, mix: mix}
	x.clock = newClock(&x.ticks)
	options = ledger.Options{Now: x.clock.time, ClockAhead: opening().AddDate(1, 0, 0), Signer: signer}
	if x.pressed() {
		options.Memory = 1
	}
	for cohort := range (calls + generation - 1) / generation {
		one, err := newTerms(int64(cohort*lifetime), int64((cohort+1)*lifetime))
		if err != nil {
			t.Fatal(err)
		}
		x.terms = append(x.terms, one)
	}
	return x, path, options
}

// define defines the questions of all cohorts, at the same time, which shares commits.
func (x *trial) define(t testing.TB) {
	t.Helper()
	var wg sync.WaitGroup
	for cohort := range x.terms {
		wg.Go(func() {
			for question := range questions {
				name := questionName(cohort, question)
				if err := x.real.DefineQuestion(t.Context(), "define "+name, api.Question{Name: name, Values: values()}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func (x *trial) fault(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.faults = append(x.faults, fmt.Errorf(format, args...))
}

// pressed tells whether a checkpoint begins behind every commit, and ends before the next but one. So others read and commit at
// each step of one.
func (x *trial) pressed() bool { return x.seed%3 > 0 }

// compacted tells whether the file is compacted again and again meanwhile.
func (x *trial) compacted() bool { return x.seed%3 > 1 }

// compact compacts the file until it is told to end. What the clients do must not show it.
func (x *trial) compact(ctx context.Context, end chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-end:
			if n == 0 {
				x.fault("the file was never compacted")
			}
			return
		default:
			if err := x.tidy(ctx); err != nil {
				x.fault("compacting the file: %w", err)
				return
			}
		}
	}
}

// run lets the clients do their work, and then reads everybody once more.
func (x *trial) run(ctx context.Context) {
	var wg, beside sync.WaitGroup
	end := make(chan struct{})
	if x.compacted() {
		beside.Go(func() { x.compact(ctx, end) })
	}
	for client := range clients {
		wg.Go(func() { x.work(ctx, client) })
	}
	wg.Wait()
	close(end)
	beside.Wait()
	for cohort := range x.terms {
		for _, name := range people(cohort) {
			o := order{number: int(x.next.Add(1)) - 1, what: toRead, cohort: cohort, objects: []string{name}}
			x.call(ctx, 0, o)
		}
	}
}

// work makes calls as one client. Of some it wants to be sure, and makes them twice: at the same time, one after the other, or
// much later; some it gives up half-way and makes again.
func (x *trial) work(ctx context.Context, client int) {
	var past []order
	for {
		n := int(x.next.Add(1)) - 1
		if n >= x.calls {
			return
		}
		rng := random.New(random.NewPCG(x.seed, uint64(n)))
		o := x.plan(rng, n)
		if o.what == toSetClock {
			x.clock.set(x.someTime(rng, n))
			continue
		}
		again := rng.IntN(100)
		switch {
		case again < 6:
			var wg sync.WaitGroup
			wg.Go(func() { x.call(ctx, clients+client, o) })
			x.call(ctx, client, o)
			wg.Wait()
		case again < 9:
			x.giveUp(ctx, client, o)
			x.call(ctx, client, o)
		case again < 12:
			x.call(ctx, client, o)
			x.call(ctx, client, o)
		default:
			x.call(ctx, client, o)
		}
		past = append(past, o)
		if rng.IntN(100) < 3 {
			x.call(ctx, client, past[rng.IntN(len(past))])
		}
	}
}

// someTime is what the clock is set to at the n-th call: it goes with the calls, more or less, and now and then far back.
func (x *trial) someTime(rng *random.Rand, n int) int64 {
	shown := int64(n*lifetime/generation) + rng.Int64N(41) - 20
	if rng.IntN(4) == 0 {
		shown -= 60
	}
	return max(0, shown)
}

// giveUp makes a call that is cancelled meanwhile.
func (x *trial) giveUp(ctx context.Context, client int, o order) {
	brief, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(cancel)
	x.call(brief, client, o)
	wg.Wait()
}

// plan says what the n-th call is.
func (x *trial) plan(rng *random.Rand, n int) order {
	o := order{number: n, what: x.pick(rng), cohort: n / generation, partial: rng.IntN(2) == 0}
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
			o.objects, o.partial = names, true // a request for all that must be whole would hold budget, as no reservation does
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
		return x.onReservation(rng, o)
	case toReceipt:
		return x.onSale(rng, o)
	}
	return o
}

func (x *trial) pick(rng *random.Rand) string {
	sum := 0
	for _, w := range x.mix {
		sum += w.share
	}
	n := rng.IntN(sum)
	for _, w := range x.mix {
		if n -= w.share; n < 0 {
			return w.what
		}
	}
	panic("unreachable")
}

// onReservation makes a call about one of the last reservations, or reads if there is none.
func (x *trial) onReservation(rng *random.Rand, o order) order {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.kept) == 0 {
		o.what, o.objects = toRead, o.objects[:1]
		return o
	}
	kept := recent(rng, x.kept)
	o.reservation, o.cohort, o.question, o.epsilon, o.buyer = kept.reply.Reservation.Number, kept.cohort, vote, kept.epsilon, kept.buyer
	o.objects = without(kept.objects, kept.reply.Reservation.Refused)
	return o
}

// onSale reads one of the last sales again, or an object if there is none.
func (x *trial) onSale(rng *random.Rand, o order) order {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.sold) == 0 {
		o.what, o.objects = toRead, o.objects[:1]
		return o
	}
	o.sold, o.objects = recent(rng, x.sold).reply, nil
	return o
}

// recent is one of the last few.
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

// call makes a call and writes down what came of it.
func (x *trial) call(ctx context.Context, client int, o order) {
	r := record{order: o, client: client, from: x.ticks.Add(1)}
	r.reply, r.err = x.do(ctx, o)
	r.till = x.ticks.Add(1)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.told = append(x.told, r)
	if r.err != nil {
		return
	}
	switch o.what {
	case toReserve:
		x.kept = append(x.kept, r)
	case toSell, toCommit:
		x.sold = append(x.sold, r)
	}
}

func (x *trial) do(ctx context.Context, o order) (r reply, err error) {
	key, question, epsilon := o.key(), questionName(o.cohort, o.question), tenths(o.epsilon)
	var named []string
	if !o.all {
		named = o.objects
	}
	wanted := api.Order{Buyer: buyers()[o.buyer], Question: question, Epsilon: epsilon, Objects: named}
	switch o.what {
	case toEnroll:
		r.Enrolled, err = x.host.Enroll(ctx, api.EnrollRequest{
			Key: key, Question: question, Objects: named, Policy: x.terms[o.cohort][o.question], Cap: tenths(most), Partial: o.partial,
		})
	case toTerms:
		r.Changed, err = x.host.ChangeTerms(ctx, x.otherTerms(o, key, named))
	case toWithdraw:
		err = x.host.Withdraw(ctx, key, named[0])
	case toRelease:
		one := api.ReleaseRequest{Key: key, Question: question, Object: named[0], Epsilon: epsilon}
		if o.partial { // which is nothing that a release can be: half of them bring the true value along
			one.TrueValue = truthOf(named[0])
		} else {
			one.Truth = truths
		}
		r.Response, err = x.host.Release(ctx, one)
	case toRaise:
		r.Raised, err = x.host.Raise(ctx, api.RaiseRequest{
			Key: key, Question: question, Objects: named, All: o.all, Epsilon: epsilon, Partial: o.partial, Truth: truths,
		})
	case toAdvance:
		r.Advanced, err = x.host.Advance(ctx, api.AdvanceRequest{Key: key, Question: question, Truth: truths})
	case toSell:
		r.Sale, err = x.host.Sell(ctx, api.SellRequest{Key: key, Order: wanted, Partial: o.partial, Truth: truths})
	case toReserve:
		r.Reservation, err = x.host.Reserve(ctx, api.ReserveRequest{Key: key, Order: wanted, For: o.lasting, Partial: o.partial})
	case toCommit:
		r.Sale, err = x.host.Capture(ctx, api.CaptureRequest{Key: key, Reservation: o.reservation, Partial: o.partial, Truth: truths})
	case toCancel:
		err = x.host.Cancel(ctx, key, o.reservation)
	case toAnswer:
		r.Answer, err = x.host.Answer(ctx, api.AnswerRequest{
			Key: key, Question: question, Query: query, Epsilon: epsilon, Objects: named, AcceptLoss: true, Truth: truths,
		})
	case toQuote:
		r.Quote, err = x.host.Quote(ctx, wanted)
	case toRead:
		r.Object, err = x.host.Object(ctx, named[0])
	case toReadLevel:
		r.Responses, err = collect(x.host.Responses(ctx, question, epsilon))
	case toReceipt:
		err = x.readSale(ctx, o.sold)
	}
	if err == nil && (o.what == toSell || o.what == toCommit) {
		r.Deliveries, err = collect(x.host.Deliveries(ctx, r.Sale.Number))
	}
	return r, err
}

// otherTerms is the request of a change of terms.
func (x *trial) otherTerms(o order, key string, named []string) api.ChangeTermsRequest {
	r := api.ChangeTermsRequest{Key: key, Question: questionName(o.cohort, vote), Objects: named, Cap: tenths(o.cap), Partial: o.partial}
	if r.Policy = &x.terms[o.cohort][vote]; o.dear {
		r.Policy = &x.terms[o.cohort][dearer]
	}
	if o.agreed {
		r.Consent = "agreed"
	}
	return r
}

func collect[T any](all iter.Seq2[T, error]) (found []T, err error) {
	for one, err := range all {
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// readSale reads what a sale delivered, and its receipt, and compares both with what the buyer was told then.
func (x *trial) readSale(ctx context.Context, told reply) error {
	number := told.Sale.Number
	found, err := collect(x.host.Deliveries(ctx, number))
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(found, told.Deliveries) {
		x.fault("sale %d delivered %+v, and later %+v", number, told.Deliveries, found)
	}
	receipt, err := x.host.Receipt(ctx, number)
	if err != nil {
		return err
	}
	same := slices.EqualFunc(receipt.Responses, told.Deliveries, func(a evidence.SoldResponse, b api.Delivery) bool {
		return a.Object == b.Object && a.Response == b.Value && a.Price == b.Price && a.Event == b.Sold
	})
	if !same || receipt.Price != told.Sale.Price || receipt.Epsilon != told.Sale.Epsilon || receipt.Buyer != told.Sale.Buyer {
		x.fault("sale %d is %+v with %+v; its receipt says %+v", number, told.Sale, told.Deliveries, receipt)
	}
	return nil
}

// decided tells whether a call came to something: it was carried out, or refused.
func (r *record) decided() bool {
	var refused *api.RefusedError
	return r.err == nil || errors.As(r.err, &refused) || errors.Is(r.err, api.ErrUnknown) || errors.Is(r.err, api.ErrNotReserved)
}
