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

// server is what the clients use: a ledger, or one with a fault.
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
	host   server                                          // of a history with one
	ask    func(context.Context, func(server) error) error // has a call made of the host that serves
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
		check.OK(t, x.real.Close())
	})
	x.host, x.tidy = x.real, func(ctx context.Context) error { return x.real.Compact(ctx, nil) }
	x.ask = func(_ context.Context, call func(server) error) error { return call(x.host) }
	x.define(t)
	return x
}

// planTrial makes the file of a ledger for a history, and says how to open it.
func planTrial(t testing.TB, seed uint64, calls int, mix []weight) (x *trial, path string, options ledger.Options) {
	t.Helper()
	secret, public, err := note.GenerateKey(rand.Reader, "histories.example")
	check.Must(t, err)
	signer := check.Value(note.NewSigner(secret))(t)
	path = filepath.Join(testenv.TempDir(t), "ledger.db")
	check.Must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{LogKey: public}))
	x = &trial{seed: seed, calls: calls, mix: mix}
	x.clock = newClock(&x.ticks)
	options = ledger.Options{Now: x.clock.time, ClockAhead: opening().AddDate(1, 0, 0), Signer: signer}
	if x.pressed() {
		options.Memory = 1
	}
	for cohort := range (calls + generation - 1) / generation {
		one := check.Value(newTerms(int64(cohort*lifetime), int64((cohort+1)*lifetime)))(t)
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
				check.OK(t, x.real.DefineQuestion(t.Context(), "define "+name, api.Question{Name: name, Values: values()}))
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

// pressed tells whether a checkpoint begins behind every commit, and ends before the next but one.
// So others read and commit at each step of one.
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

// work makes calls as one client. Of some it wants to be sure, and makes them twice: at the same
// time, one after the other, or much later; some it gives up half-way and makes again.
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

// someTime is what the clock is set to at the n-th call: it goes with the calls, more or less, and
// now and then far back.
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
	r.err = x.ask(ctx, func(h server) (err error) {
		r.reply, err = x.do(ctx, h, o)
		return err
	})
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

func (x *trial) do(ctx context.Context, h server, o order) (r reply, err error) {
	key, question, epsilon := o.key(), questionName(o.cohort, o.question), tenths(o.epsilon)
	var named []string
	if !o.all {
		named = o.objects
	}
	wanted := api.Order{Buyer: buyers()[o.buyer], Question: question, Epsilon: epsilon, Objects: named}
	switch o.what {
	case toEnroll:
		r.Enrolled, err = h.Enroll(ctx, api.EnrollRequest{
			Key: key, Question: question, Objects: named, Policy: x.terms[o.cohort][o.question], Cap: tenths(most), Partial: o.partial,
		})
	case toTerms:
		r.Changed, err = h.ChangeTerms(ctx, x.otherTerms(o, key, named))
	case toWithdraw:
		err = h.Withdraw(ctx, api.ObjectRequest{Key: key, Object: named[0]})
	case toRelease:
		one := api.ReleaseRequest{Key: key, Question: question, Object: named[0], Epsilon: epsilon}
		if o.partial { // which is nothing that a release can be: half of them bring the true value along
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
		err = x.readSale(ctx, h, o.sold)
	}
	if err == nil && (o.what == toSell || o.what == toCommit) {
		r.Deliveries, err = api.Collect(h.Deliveries(ctx, r.Sale.Number))
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

// readSale reads what a sale delivered, and its receipt, and compares both with what the buyer was
// told then.
func (x *trial) readSale(ctx context.Context, h server, told reply) error {
	number := told.Sale.Number
	found, err := api.Collect(h.Deliveries(ctx, number))
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(found, told.Deliveries) {
		x.fault("sale %d delivered %+v, and later %+v", number, told.Deliveries, found)
	}
	receipt, err := h.Receipt(ctx, number)
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
	return r.err == nil || errors.As(r.err, &refused) || errors.Is(r.err, api.ErrUnknown) || errors.Is(r.err, &api.ReservationError{})
}

// The sequential ledger, as far as one object goes. ε is counted in tenths, time in minutes since
// the opening.

// The questions of each cohort: one for sale, one that comes by itself.
const (
	vote = iota
	diary
	questions
)

const (
	most    = 25 // ε that an object may spend
	forSale = 20 // the highest ε for sale
	holders = 2  // how many buyers may hold the same level
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

// What the sellers of a cohort may change their minds to: a lower cap, and a policy of the vote
// that sells less, for more.
const (
	lessInAll   = 18 // ε that an object may spend
	lessForSale = 14 // the highest ε for sale
	dearer      = questions
)

// terms are the policies of a cohort's questions, and the dearer one of the vote. What they mean is
// for the tests of package policy.
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

// level is a response, or an answer. Who draws for many is not told what, so value and event may
// not be known yet.
type level struct {
	epsilon int
	value   string
	event   uint64
	buyers  uint8 // a bit for each who holds it
}

// holding is a reservation that is neither carried out nor cancelled.
type holding struct {
	number  uint64
	buyer   int
	epsilon int
	expires int64
	out     bool // the object has withdrawn since
	dear    bool // it was promised by the dearer policy
}

// person is the state of one object. It is never changed; its next state is another.
type person struct {
	last    uint64 // the last event known to be about it
	was, in [questions]bool
	levels  [questions][]level // by rising ε
	answers []level            // of its panel, to the one query there is about it
	buyers  uint64             // of vote
	earned  int64
	held    []holding
	cap     int
	dear    bool     // the vote is sold by the dearer policy
	paid    [3]int64 // by each buyer, for the vote
}

// newPerson is one whom the ledger does not know.
func newPerson() *person { return &person{cap: most} }

// under is the policy of a question.
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

// spentOn is what a question has cost so far: the highest ε of its chain and the highest of its
// answers.
func (p *person) spentOn(question int) int {
	spent := top(p.levels[question])
	if question == vote {
		spent += top(p.answers)
	}
	return spent
}

func (p *person) spent() int { return p.spentOn(vote) + p.spentOn(diary) }

// heldBy is the highest ε at which a buyer has a response.
func (p *person) heldBy(buyer int) int {
	for _, l := range slices.Backward(p.levels[vote]) {
		if l.buyers>>buyer&1 == 1 {
			return l.epsilon
		}
	}
	return 0
}

// A moment is when something is decided: by the clock, and by the log, whose time does not run
// back.
type moment struct{ clock, log int64 }

// holds tells whether a reservation holds budget.
func (h holding) holds(m moment) bool { return !h.out && m.log < h.expires }

func rest(a, b int) int { return max(a-b, 0) }

// request is what decides about a refusal.
type request struct {
	question, epsilon int
	buyer             int // of an order
	cap               int // of other terms; the vote is sold by the dearer policy, or not, and the person has agreed, or not
	dear, agreed      bool
}

// absent is the refusal of somebody who takes no part.
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

// overdrawn is the refusal of what costs more than is left, under the ceiling of the chain or the
// cap. reaches is the ε of the chain afterwards.
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

// orLess adds to a refusal the highest level below a request's that would not be refused.
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

// undrawable is the refusal of a response, unless it is recorded, or lies below the current one.
func (p *person) undrawable(t *terms, m moment, r request) *api.Refusal {
	try := func(r request) *api.Refusal { return p.undrawn(t, m, r) }
	return orLess(try(r), r, try)
}

// undrawn is the refusal without what would do instead.
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

// unsaleable is the refusal of an order. What would do instead is on offer: what the buyer holds
// may not be any more.
func (p *person) unsaleable(t *terms, m moment, r request) *api.Refusal {
	try := func(r request) *api.Refusal { return p.unsold(t, m, r) }
	refusal, offered := try(r), inTenths(p.under(t, vote).Limit())
	r.epsilon = min(r.epsilon, offered+1)
	return orLess(refusal, r, try)
}

// unsold is the refusal without what would do instead.
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

// unanswerable is the refusal of an answer about a panel that the object belongs to.
func (p *person) unanswerable(t *terms, m moment, r request) *api.Refusal {
	try := func(r request) *api.Refusal { return p.unanswered(t, m, r) }
	return orLess(try(r), r, try)
}

// unanswered is the refusal without what would do instead.
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

// gone is the refusal of a reservation that cannot be carried out any more.
func (p *person) gone(t *terms, number uint64, r request) *api.Refusal {
	if refusal := p.absent(r); refusal != nil {
		return refusal
	}
	at := slices.IndexFunc(p.held, func(h holding) bool { return h.number == number })
	if at >= 0 && p.held[at].out {
		return &api.Refusal{Reason: api.Withdrawn, Asked: tenths(r.epsilon), Remedy: "nothing"}
	}
	return p.takenBack(t, r)
}

// takenBack is the refusal of a reservation whose budget is not there any more, because terms have
// changed.
func (p *person) takenBack(t *terms, r request) *api.Refusal {
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

// unwilling is the refusal of other terms.
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

// otherwise is the refusal to enrol somebody on other terms than it is under.
func (p *person) otherwise(question int) *api.Refusal {
	switch {
	case p.cap != most && (p.was[vote] || p.was[diary]):
		return &api.Refusal{Reason: api.CapDiffers, Ceiling: tenths(p.cap), Spent: tenths(p.spent()), Asked: tenths(most), Remedy: "terms"}
	case question == vote && p.dear:
		return &api.Refusal{Reason: api.PolicyDiffers, Spent: tenths(top(p.levels[vote])), Remedy: "terms"}
	}
	return nil
}

// show adds a response to levels, or compares it with the one that is there. Of either, value and
// event may be unknown. A new one is of an event behind last, and one that was there is not.
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

// method is how a response at an ε comes about.
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
