package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
)

// timedDeed is a deed with one object, between two ticks.
type timedDeed struct {
	call, till int64
	deed
}

// history returns the deeds as operations, after an enrollment in both questions.
func history(t *testing.T, all ...timedDeed) (operations []porcupine.Operation) {
	t.Helper()
	rules := check.Value(newTerms(0, lifetime))(t)
	enrolled := []timedDeed{
		{1, 2, deed{what: toEnroll, request: request{question: vote}, first: 1, last: 2, tally: []int{1, 0}}},
		{3, 4, deed{what: toEnroll, request: request{question: diary}, first: 3, last: 4, tally: []int{1, 0}}},
	}
	for i, one := range append(enrolled, all...) {
		d := one.deed
		d.object, d.call, d.terms, d.shown.epsilon = "ann", i, &rules, d.epsilon
		if d.clocks == nil {
			d.clocks = window{lifetime}
		}
		d.log[1] = max(d.log[0], d.log[1])
		operations = append(operations, porcupine.Operation{ClientId: i, Input: &d, Call: one.call, Return: one.till})
	}
	return operations
}

// The checker accepts right histories, and rejects histories that are nearly right.
func TestCheckOrder_SmallHistories_AcceptsOnlyRightOnes(t *testing.T) {
	ask := func(question, epsilon int) request { return request{question: question, epsilon: epsilon} }
	release := func(question, epsilon int, value string, event uint64) deed {
		return deed{what: toRelease, request: ask(question, epsilon), shown: level{value: value, event: event}}
	}
	look := func(epsilon int, value string, event uint64) deed {
		return deed{what: toReadLevel, request: ask(vote, epsilon), found: value != "", shown: level{value: value, event: event}}
	}
	sell := func(buyer, epsilon int, price int64, method string, event, first, last uint64) deed {
		return deed{what: toSell, request: request{question: vote, epsilon: epsilon, buyer: buyer}, price: price, method: method, first: first, last: last, shown: level{value: "yes", event: event}}
	}
	overCap := func(asked, spent, cost int) deed {
		return deed{what: toRelease, request: ask(diary, asked), failed: true, refusal: &api.Refusal{
			Reason: api.ObjectCap, Ceiling: tenths(most), Spent: tenths(spent), Asked: tenths(asked), Cost: tenths(cost),
			Remaining: tenths(most - spent), Remedy: "less", Largest: tenths(most - spent),
		}}
	}
	raise := deed{what: toRaise, request: ask(vote, 5), first: 5, last: 7, tally: []int{1, 0, 0}}
	reserve := deed{what: toReserve, request: request{question: vote, epsilon: 10, buyer: 1}, price: 70, number: 1, expires: 50, first: 5, last: 8}
	commit := deed{what: toCommit, request: request{question: vote, epsilon: 10, buyer: 1}, number: 1, price: 70, method: "raise", first: 9, last: 11, shown: level{value: "yes", event: 10}}
	late := deed{what: toCommit, request: request{question: vote, epsilon: 10, buyer: 1}, number: 1, notReserved: true}
	terms := func(limit int, dear, agreed bool, event uint64) deed {
		return deed{what: toTerms, request: request{question: vote, cap: limit, dear: dear, agreed: agreed}, first: event, last: event + 1, tally: []int{1, 0}}
	}
	short := deed{what: toCommit, request: request{question: vote, epsilon: 16, buyer: 1}, number: 1, failed: true, refusal: &api.Refusal{
		Reason: api.ChainCeiling, Ceiling: tenths(lessForSale), Asked: tenths(16), Cost: tenths(16), Remaining: tenths(lessForSale), Remedy: "nothing",
	}}
	hold := deed{what: toReserve, request: request{question: vote, epsilon: 16, buyer: 1}, price: 112, number: 1, expires: 50, first: 5, last: 8}
	at := func(d deed, first, last int64) deed {
		d.log = [2]int64{first, last}
		return d
	}
	after := func(d deed, event, first, last uint64) deed {
		d.shown.event, d.first, d.last = event, first, last
		return d
	}
	for _, test := range []struct {
		name  string
		right bool
		all   []timedDeed
	}{
		{"a response read after it was shown", true, []timedDeed{{5, 6, release(vote, 5, "yes", 6)}, {7, 8, look(5, "yes", 6)}}},
		{"a response not read after it was shown", false, []timedDeed{{5, 6, release(vote, 5, "yes", 6)}, {7, 8, look(5, "", 0)}}},
		{"a response not read while it is drawn", true, []timedDeed{{5, 8, release(vote, 5, "yes", 6)}, {6, 7, look(5, "", 0)}}},
		{"a response read while it is drawn", true, []timedDeed{{5, 8, release(vote, 5, "yes", 6)}, {6, 7, look(5, "yes", 6)}}},
		{"a response read, and then not, while it is drawn", false, []timedDeed{{5, 10, release(vote, 5, "yes", 6)}, {6, 7, look(5, "yes", 6)}, {8, 9, look(5, "", 0)}}},
		{"a response read that was never drawn", false, []timedDeed{{5, 6, look(5, "yes", 4)}}},
		{"two responses at one ε", false, []timedDeed{{5, 6, release(vote, 5, "yes", 6)}, {7, 8, release(vote, 5, "no", 6)}}},
		{"one response at one ε, drawn twice", false, []timedDeed{{5, 6, release(vote, 5, "yes", 6)}, {7, 8, release(vote, 5, "yes", 8)}}},
		{"a first draw for many, read twice", true, []timedDeed{{5, 6, raise}, {7, 8, look(5, "no", 6)}, {9, 10, look(5, "no", 6)}}},
		{"a first draw for many, read as two", false, []timedDeed{{5, 6, raise}, {7, 8, look(5, "no", 6)}, {9, 10, look(5, "yes", 6)}}},
		{"a draw with an event that was there", false, []timedDeed{{5, 6, raise}, {7, 8, release(vote, 9, "yes", 6)}}},
		{"a refusal of what is too much", true, []timedDeed{{5, 6, release(vote, 20, "yes", 6)}, {7, 8, overCap(6, 20, 6)}}},
		{"a refusal of what fits", false, []timedDeed{{5, 6, release(vote, 19, "yes", 6)}, {7, 8, overCap(6, 19, 6)}}},
		{"a refusal before there was a reason", false, []timedDeed{{5, 6, overCap(6, 20, 6)}, {7, 8, release(vote, 20, "yes", 6)}}},
		{"a refusal while the reason comes about", true, []timedDeed{{5, 8, overCap(6, 20, 6)}, {6, 7, release(vote, 20, "yes", 6)}}},
		{"a refusal with another sum", false, []timedDeed{{5, 6, release(vote, 20, "yes", 6)}, {7, 8, overCap(6, 19, 6)}}},
		{"more than the cap", false, []timedDeed{{5, 6, release(vote, 20, "yes", 6)}, {7, 8, release(diary, 6, "no", 8)}}},
		{"more than the cap, at the same time", false, []timedDeed{{5, 8, release(vote, 20, "yes", 6)}, {6, 7, release(diary, 6, "no", 8)}}},
		{"an upgrade at the difference", true, []timedDeed{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, sell(1, 10, 35, "raise", 11, 9, 12)}}},
		{"an upgrade at the full price", false, []timedDeed{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, sell(1, 10, 70, "raise", 11, 9, 12)}}},
		{"a resale to a second buyer", true, []timedDeed{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, sell(2, 5, 35, "resale", 7, 9, 12)}}},
		{"a third holder of two", false, []timedDeed{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, sell(2, 5, 35, "resale", 7, 9, 12)}, {9, 10, sell(0, 5, 35, "resale", 7, 13, 15)}}},
		{"sales not in the order of the log", false, []timedDeed{{5, 6, sell(1, 10, 70, "raise", 11, 9, 12)}, {7, 8, sell(2, 5, 35, "degrade", 7, 5, 8)}}},
		{"a reservation captured", true, []timedDeed{{5, 6, reserve}, {7, 8, commit}}},
		{"a reservation captured twice", false, []timedDeed{{5, 6, reserve}, {7, 8, commit}, {9, 10, commit}}},
		{"a reservation gone too early", false, []timedDeed{{5, 6, reserve}, {7, 8, at(late, 40, 49)}}},
		{"a reservation that may have expired", true, []timedDeed{{5, 6, reserve}, {7, 8, at(late, 40, 50)}}},
		{"an upgrade at the new price, less what was paid", true, []timedDeed{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, terms(most, true, false, 9)}, {9, 10, sell(1, 10, 55, "raise", 13, 11, 14)}}},
		{"an upgrade at the old price", false, []timedDeed{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 8, terms(most, true, false, 9)}, {9, 10, sell(1, 10, 35, "raise", 13, 11, 14)}}},
		{"either, while terms change", true, []timedDeed{{5, 6, sell(1, 5, 35, "raise", 7, 5, 8)}, {7, 10, terms(most, true, false, 13)}, {8, 9, sell(1, 10, 35, "raise", 11, 9, 12)}}},
		{"more without consent", false, []timedDeed{{5, 6, terms(most, true, false, 5)}, {7, 8, terms(most, false, false, 7)}}},
		{"more with consent", true, []timedDeed{{5, 6, terms(most, true, false, 5)}, {7, 8, terms(most, false, true, 7)}}},
		{"a higher cap without consent", false, []timedDeed{{5, 6, terms(lessInAll, false, false, 5)}, {7, 8, terms(most, false, false, 7)}}},
		{"more than a lower cap", false, []timedDeed{{5, 6, terms(lessInAll, false, false, 5)}, {7, 8, release(vote, 19, "yes", 9)}}},
		{"a reservation at its old price", true, []timedDeed{{5, 6, reserve}, {7, 8, terms(most, true, false, 9)}, {9, 10, after(commit, 12, 11, 13)}}},
		{"a reservation whose budget was lowered", true, []timedDeed{{5, 6, hold}, {7, 8, terms(most, true, false, 9)}, {9, 10, short}}},
		{"a reservation whose budget was not lowered", false, []timedDeed{{5, 6, hold}, {7, 8, terms(lessInAll, false, false, 9)}, {9, 10, short}}},
		{"a sale after a withdrawal", false, []timedDeed{{5, 6, deed{what: toWithdraw}}, {7, 8, sell(1, 5, 35, "raise", 7, 5, 8)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkOrder(history(t, test.all...))
			check.That(t, !test.right || err == nil, "%v", err)
			check.That(t, test.right || err != nil && strings.Contains(err.Error(), byOrder), "want an error about the order, got %v", err)
		})
	}
}

// A wrong history is shortened to the calls that are wrong.
func TestShorten_WrongHistory_KeepsTheFault(t *testing.T) {
	show := func(epsilon int, event uint64) deed {
		return deed{what: toReadLevel, request: request{question: vote, epsilon: epsilon}, found: event > 0, shown: level{value: "yes", event: event}}
	}
	all := []timedDeed{{5, 6, deed{what: toRelease, request: request{question: vote, epsilon: 5}, shown: level{value: "yes", event: 6}}}}
	for n := range int64(20) {
		all = append(all, timedDeed{10 + 2*n, 11 + 2*n, show(5, 6)})
	}
	all = append(all, timedDeed{100, 101, show(7, 6)}) // this response was never drawn
	for n := range int64(20) {
		all = append(all, timedDeed{110 + 2*n, 111 + 2*n, show(9, 0)})
	}
	cut := shorten(history(t, all...))
	check.That(t, len(cut) == 4 && cut[3].Input.(*deed).epsilon == 7, "shortened to %v", cut)
}

// searchLimit is the time limit of the search for an order of the calls about one object. A search
// takes milliseconds, except with many calls that wait for a takeover at the same time.
func searchLimit() time.Duration { return time.Duration(testenv.Scale(1, 10)) * time.Minute }

// check returns everything that is wrong with a history.
func (tr *trial) check(ctx context.Context) error {
	once := tr.once(ctx)
	tr.checkSales(once)
	faults := append(tr.faults, tr.checkBooks(ctx, once)...)
	for _, operations := range tr.partitions(once) {
		if err := checkOrder(operations); err != nil {
			faults = append(faults, err)
		}
		if len(faults) > 3 {
			break // enough faults
		}
	}
	return errors.Join(faults...)
}

// once returns one record for all executed calls with the same key. The call happened once, after
// the first of them began and before the first result. Refused calls stay as they are, because they
// changed nothing. A canceled call counts together with a later executed one, because it may have
// executed the request. A reservation that a repetition reports as not open was granted earlier.
func (tr *trial) once(ctx context.Context) (all []record) {
	done, given, closed := map[int]record{}, map[int]int64{}, []record(nil)
	for _, r := range tr.records {
		was, repeated := done[r.number]
		switch {
		case errors.Is(r.err, context.Canceled):
			if from, before := given[r.number]; !before || r.from < from {
				given[r.number] = r.from
			}
		case !r.decided():
			tr.fault("call %d, %s: unexpected error: %w", r.number, r.what, r.err)
		case r.what == toReserve && errors.Is(r.err, &api.ReservationError{}):
			all, closed = append(all, r), append(closed, r)
		case r.err != nil, r.isRead():
			all = append(all, r)
		case repeated:
			if !reflect.DeepEqual(was.reply, r.reply) {
				tr.fault("call %d, %s, returned two results:\n%v\n%v", r.number, r.what, was.reply, r.reply)
			}
			was.from, was.till = min(was.from, r.from), min(was.till, r.till)
			done[r.number] = was
		default:
			done[r.number] = r
		}
	}
	for _, r := range closed {
		granted, found := done[r.number]
		if !found { // only a canceled call can have granted it
			granted = r
			granted.reply.Reservation, granted.err = tr.reservationOf(ctx, r.err), nil
		}
		granted.till = min(granted.till, r.till)
		done[r.number] = granted
	}
	for number, r := range done {
		if from, found := given[number]; found {
			r.from = min(r.from, from)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b record) int { return cmp.Compare(a.till, b.till) })
	return all
}

// reservationOf reads the reservation that an error reports as not open.
func (tr *trial) reservationOf(ctx context.Context, notOpen error) api.Reservation {
	var closed *api.ReservationError
	errors.As(notOpen, &closed)
	r, err := tr.real.Reservation(ctx, closed.Number)
	if err != nil || r.State == "open" && closed.State != "expired" {
		tr.fault("the error is %v, and the reservation is read as %+v, %w", notOpen, r, err)
	}
	return r
}

// isRead returns whether a call changes nothing. Then each repetition is a call of its own.
func (r *record) isRead() bool {
	return slices.Contains([]string{toRead, toReadLevel, toQuote, toReceipt}, r.what)
}

// checkSales compares sales with their deliveries.
func (tr *trial) checkSales(all []record) {
	numbers := map[uint64]int{}
	for _, r := range all {
		if r.err != nil || r.what != toSell && r.what != toCommit {
			continue
		}
		sum := int64(0)
		for _, one := range r.reply.Deliveries {
			sum += one.Price
		}
		s := r.reply.Sale
		if sum != s.Price || s.Objects != uint64(len(r.reply.Deliveries)) || len(r.reply.Deliveries)+len(s.Refused) < len(r.objects) {
			tr.fault("call %d: the sale %+v does not match its deliveries %+v", r.number, s, r.reply.Deliveries)
		}
		if !r.partial && len(r.reply.Deliveries) != len(r.objects) {
			tr.fault("call %d: a whole order of %d objects delivers %+v", r.number, len(r.objects), r.reply.Deliveries)
		}
		if other, taken := numbers[s.Number]; taken {
			tr.fault("calls %d and %d returned the same sale, %d", other, r.number, s.Number)
		}
		numbers[s.Number] = r.number
	}
}

// checkBooks compares the sums of the ledger with the replies, and audits the ledger.
func (tr *trial) checkBooks(ctx context.Context, all []record) (faults []error) {
	sales, revenue := uint64(0), int64(0)
	for _, r := range all {
		if r.err == nil && (r.what == toSell || r.what == toCommit) {
			sales, revenue = sales+1, revenue+r.reply.Sale.Price
		}
	}
	sums, err := tr.real.Stats(ctx)
	if err != nil || sums.Sales != sales || sums.Revenue != revenue {
		faults = append(faults, fmt.Errorf("the replies have %d sales with a revenue of %d; the ledger has %+v, %w", sales, revenue, sums, err))
	}
	ahead := uint64(0)
	found, err := tr.real.Verify(ctx, api.VerifyRequest{Report: func(p api.Finding) {
		if p.Kind == "clock" { // the clock was set back
			ahead++
			return
		}
		faults = append(faults, fmt.Errorf("audit: %+v", p))
	}})
	if err != nil || found.Problems > ahead {
		faults = append(faults, fmt.Errorf("audit: %d problems, %w", found.Problems, err))
	}
	return faults
}

// partitions returns the calls about each object, sorted by the names of the objects.
func (tr *trial) partitions(all []record) (parts [][]porcupine.Operation) {
	byObject := map[string][]porcupine.Operation{}
	early := int64(0) // a lower bound of the log's time
	passed := 0       // the calls that early includes
	inOrder := slices.SortedFunc(slices.Values(all), func(a, b record) int { return cmp.Compare(a.from, b.from) })
	for _, r := range inOrder {
		for ; all[passed].till < r.from; passed++ {
			if all[passed].leavesEvents() {
				early = max(early, slices.Min(tr.clock.during(all[passed].from, all[passed].till)))
			}
		}
		clocks := tr.clock.during(r.from, r.till)
		log := [2]int64{max(early, slices.Min(clocks)), tr.clock.latest(r.till)}
		for _, name := range r.objects {
			d := r.deed(name)
			d.terms, d.clocks, d.log = &tr.terms[r.cohort], clocks, log
			byObject[name] = append(byObject[name], porcupine.Operation{ClientId: r.client, Input: d, Call: r.from, Return: r.till})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byObject)) {
		parts = append(parts, byObject[name])
	}
	return parts
}

// leavesEvents returns whether a call has written events, which have times.
func (r *record) leavesEvents() bool { return r.err == nil && !r.isRead() }

// deed returns what a call did with one object.
func (r *record) deed(name string) *deed {
	d := &deed{
		request: r.request, what: r.what, call: r.number, object: name, all: r.all,
		number: r.reservation, price: -1, shown: level{epsilon: r.epsilon},
	}
	var refused *api.RefusedError
	switch {
	case errors.As(r.err, &refused):
		d.failed, d.refusal = true, refusalOf(refused.Refused, name)
	case r.err != nil:
		d.unknown, d.notReserved = errors.Is(r.err, api.ErrUnknown), errors.Is(r.err, &api.ReservationError{})
		var closed *api.ReservationError
		if errors.As(r.err, &closed) {
			d.number = closed.Number
		}
	default:
		d.addReply(r, len(r.objects) == 1)
	}
	return d
}

// addReply adds what the reply of an executed call contains about an object, which may have been
// the only one.
func (d *deed) addReply(r *record, alone bool) {
	switch got := r.reply; d.what {
	case toEnroll:
		d.first, d.last, d.tally = got.Enrolled.First, got.Enrolled.Last, []int{got.Enrolled.Enrolled, got.Enrolled.Already}
		d.refusal = refusalOf(got.Enrolled.Refused, d.object)
	case toTerms:
		n := got.Changed
		d.first, d.last, d.tally, d.refusal = n.First, n.Last, []int{n.Changed, n.Unchanged}, refusalOf(n.Refused, d.object)
	case toRelease:
		d.shown.value, d.shown.event = got.Response.Value, got.Response.Event
	case toRaise:
		n := got.Raised
		d.first, d.last, d.tally, d.refusal = n.First, n.Last, []int{n.Drawn, n.Reused, n.Derived}, refusalOf(n.Refused, d.object)
	case toAdvance:
		d.first, d.last, d.tally = got.Advanced.First, got.Advanced.Last, []int{0, 0, 0}
		for _, one := range got.Advanced.Questions {
			d.tally, d.refusal = []int{one.Raised, one.Unchanged, len(one.Refused)}, refusalOf(one.Refused, d.object)
		}
	case toQuote:
		d.refusal = refusalOf(got.Quote.Refused, d.object)
		if alone {
			d.price = got.Quote.Price
		}
	case toReserve:
		n := got.Reservation
		d.number, d.first, d.last, d.refusal = n.Number, n.First, n.Last, refusalOf(n.Refused, d.object)
		d.expires = int64(n.Expires.Sub(opening()) / time.Minute)
		if alone {
			d.price = n.Price
		}
	case toSell, toCommit:
		d.first, d.last, d.refusal = got.Sale.First, got.Sale.Last, refusalOf(got.Sale.Refused, d.object)
		for _, one := range got.Deliveries {
			if one.Object == d.object {
				d.shown.value, d.shown.event, d.price, d.method = one.Value, one.Event, one.Price, one.Method
			}
		}
	case toAnswer:
		d.shown.value, d.shown.event, d.price = got.Answer.Answer, got.Answer.Event, int64(inTenths(got.Answer.Charged))
	case toRead:
		d.state = &got.Object
	case toReadLevel:
		for _, one := range got.Responses {
			if one.Object == d.object {
				d.found, d.shown.value, d.shown.event = true, one.Value, one.Event
			}
		}
	}
}

// checkOrder searches for an order of the calls about one object. If there is none, the error lists
// the shortest wrong history that was found.
func checkOrder(operations []porcupine.Operation) error {
	switch porcupine.CheckOperationsTimeout(model(), operations, searchLimit()) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("object %q: no order of %d calls found in %v", operations[0].Input.(*deed).object, len(operations), searchLimit())
	}
	cut := shorten(operations)
	var out strings.Builder
	fmt.Fprintf(&out, "object %q: no order of these calls explains their results (%d of %d):",
		operations[0].Input.(*deed).object, len(cut), len(operations))
	for _, one := range cut {
		fmt.Fprintf(&out, "\n  [%d, %d] client %d %v", one.Call, one.Return, one.ClientId, one.Input)
	}
	return errors.New(out.String())
}

// shorten returns the shortest wrong beginning of a history, without reads and refusals that do not
// matter. Calls that change something stay, because without them right results would be wrong.
func shorten(operations []porcupine.Operation) []porcupine.Operation {
	wrong := func(some []porcupine.Operation) bool {
		return porcupine.CheckOperationsTimeout(model(), some, searchLimit()/10) == porcupine.Illegal
	}
	slices.SortFunc(operations, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	low, high := 0, len(operations) // operations[:high] is wrong
	for low < high-1 {
		if middle := (low + high) / 2; wrong(operations[:middle]) {
			high = middle
		} else {
			low = middle
		}
	}
	cut := slices.Clone(operations[:high])
	deadline := time.Now().Add(searchLimit()) // a longer history is wrong all the same
	for i := len(cut) - 1; i >= 0 && time.Now().Before(deadline); i-- {
		if less := slices.Delete(slices.Clone(cut), i, i+1); cut[i].Input.(*deed).reads() && wrong(less) {
			cut = less
		}
	}
	return cut
}

// The kinds of calls.
const (
	toEnroll    = "enroll"
	toWithdraw  = "withdraw"
	toRelease   = "release"
	toRaise     = "raise"
	toAdvance   = "advance"
	toSell      = "sell"
	toReserve   = "reserve"
	toCommit    = "commit"
	toCancel    = "cancel"
	toAnswer    = "answer"
	toQuote     = "quote"
	toRead      = "object"
	toReadLevel = "responses"
	toTerms     = "terms"
)

// deed is what a request did with one object, as far as the reply shows it.
type deed struct {
	request
	what   string
	call   int    // the number of the request
	object string // the name
	terms  *terms
	all    bool   // the request is for all objects
	clocks window // the times at which it may have been decided
	log    [2]int64

	// The result.
	failed      bool         // the request was refused, because of this object or another
	unknown     bool         // ErrUnknown
	notReserved bool         // ReservationError
	refusal     *api.Refusal // of this object, without its name
	first, last uint64       // the events of the request, if they are known
	shown       level        // the response; value "" if there is none
	found       bool         // for a read: there is a response
	method      string
	price       int64  // −1 if it is not known for this object alone
	number      uint64 // of the reservation
	expires     int64
	tally       []int // for a request for many: the number of objects with each outcome
	state       *api.ObjectState
}

// window is the times that a clock showed during a call.
type window []int64

// String returns the deed as a line of a history.
func (d *deed) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "call %d: %s %s", d.call, d.what, d.object)
	if d.epsilon > 0 {
		fmt.Fprintf(&out, " question %d ε=%s", d.question, tenths(d.epsilon))
	}
	switch d.what {
	case toSell, toReserve, toQuote:
		fmt.Fprintf(&out, " buyer %d price %d", d.buyer, d.price)
	case toCommit, toCancel:
		fmt.Fprintf(&out, " reservation %d", d.number)
	case toTerms:
		fmt.Fprintf(&out, " cap %d dearer %t agreed %t", d.cap, d.dear, d.agreed)
	case toRead:
		if d.state != nil {
			fmt.Fprintf(&out, " spent %s of %s, held %s, earned %d", d.state.Spent, d.state.Cap, d.state.Held, d.state.Earned)
			for _, c := range d.state.Chains {
				fmt.Fprintf(&out, ", %q out %t answered %s ceiling %s:", c.Question, c.Withdrawn, c.Answered, c.Ceiling)
				for _, l := range c.Levels {
					fmt.Fprintf(&out, " %s=%s@%d%v", l.Epsilon, l.Response, l.Event, l.Buyers)
				}
			}
		}
	}
	fmt.Fprintf(&out, "; clock %v log %v:", d.clocks, d.log)
	switch {
	case d.unknown:
		out.WriteString(" unknown")
	case d.notReserved:
		out.WriteString(" not reserved")
	case d.refusal != nil:
		fmt.Fprintf(&out, " %+v", *d.refusal)
	case d.failed:
		out.WriteString(" refused because of others")
	case d.shown.value != "":
		fmt.Fprintf(&out, " %q event %d %s", d.shown.value, d.shown.event, d.method)
	default:
		out.WriteString(" done")
	}
	if d.first > 0 {
		fmt.Fprintf(&out, ", events %d to %d", d.first, d.last)
	}
	if d.tally != nil {
		fmt.Fprintf(&out, ", of all %v", d.tally)
	}
	return out.String()
}

// reads returns whether a deed changes nothing.
func (d *deed) reads() bool {
	switch d.what {
	case toQuote, toRead, toReadLevel:
		return true
	}
	return d.failed || d.unknown || d.notReserved
}

// next returns the states after a deed, if it is executed in state p and has the recorded result.
func (d *deed) next(p *person) (all []*person) {
	for _, m := range d.moments(p) {
		q, ok := d.at(p, m)
		if ok && !slices.ContainsFunc(all, q.equal) {
			all = append(all, q)
		}
	}
	return all
}

// moments returns all moments during a call that may make a difference.
func (d *deed) moments(p *person) (all []moment) {
	logs := []int64{d.log[0]}
	for _, h := range p.held {
		if d.log[0] < h.expires && h.expires <= d.log[1] && !slices.Contains(logs, h.expires) {
			logs = append(logs, h.expires)
		}
	}
	for _, clock := range d.clocks {
		for _, log := range logs {
			all = append(all, moment{clock, log})
		}
	}
	return all
}

// at executes a deed at a moment, and returns whether it has the recorded result.
func (d *deed) at(p *person, m moment) (*person, bool) {
	switch d.what {
	case toEnroll:
		return d.enroll(p)
	case toTerms:
		return d.changeTerms(p)
	case toWithdraw:
		return d.withdraw(p)
	case toAdvance:
		return d.advance(p, m)
	case toCancel:
		return d.cancel(p)
	case toRead:
		return d.read(p, m)
	case toReadLevel:
		return d.readLevel(p)
	}
	if d.what == toRaise && d.all && !p.in[d.question] {
		return p, d.refusal == nil && !d.failed
	}
	if d.notReserved && (d.what == toCommit || d.what == toReserve) {
		return p, !slices.ContainsFunc(p.held, func(h holding) bool { return h.number == d.number && m.log < h.expires })
	}
	if !d.isRefusal(d.refusalOf(p, m)) || !d.follows(p) {
		return p, false
	}
	q, ok := *p, true
	switch {
	case d.failed:
		return p, true
	case d.refusal != nil:
		if d.what == toCommit {
			q.settle(d.number)
		}
	default:
		ok = d.execute(&q)
	}
	q.last = max(q.last, d.last)
	return &q, ok
}

// follows returns whether the events of a deed come after earlier ones.
func (d *deed) follows(p *person) bool { return d.first == 0 || d.first > p.last }

func (d *deed) refusalOf(p *person, m moment) *api.Refusal {
	switch d.what {
	case toSell, toReserve, toQuote:
		return p.unsaleable(d.terms, m, d.request)
	case toCommit:
		return p.uncapturable(d.terms, d.number, d.request)
	case toAnswer:
		return p.unanswerable(d.terms, m, d.request)
	}
	return p.undrawable(d.terms, m, d.request)
}

func (d *deed) isRefusal(want *api.Refusal) bool {
	if want == nil || d.refusal == nil {
		return want == d.refusal
	}
	got := *d.refusal
	if got.Why != "" && got.Reason == api.NeedsConsent {
		got.Why = "" // a text for people
	}
	return *want == got
}

// execute changes the state as a call that is not refused does.
func (d *deed) execute(p *person) bool {
	switch d.what {
	case toRelease:
		return d.respond(p)
	case toRaise:
		return d.raise(p)
	case toAnswer:
		return d.answer(p)
	case toQuote:
		return d.price < 0 || d.price == d.owed(p, p.dear)
	case toReserve:
		p.held = append(slices.Clone(p.held), holding{number: d.number, buyer: d.buyer, epsilon: d.epsilon, expires: d.expires, dear: p.dear})
		return d.price < 0 || d.price == d.owed(p, p.dear)
	case toCommit:
		at := slices.IndexFunc(p.held, func(h holding) bool { return h.number == d.number })
		if at < 0 {
			return false
		}
		promised := p.held[at].dear
		return p.settle(d.number) && d.sell(p, promised)
	}
	return d.sell(p, p.dear)
}

func (d *deed) respond(p *person) (ok bool) {
	p.levels[d.question], ok = show(p.levels[d.question], d.shown, p.last)
	p.last = max(p.last, d.shown.event)
	return ok
}

// raise draws a response without returning it. tally is the number of drawn, recorded and derived
// ones.
func (d *deed) raise(p *person) bool {
	way := 2
	switch method(p.levels[d.question], d.epsilon) {
	case "raise":
		way = 0
	case "resale":
		way = 1
	}
	return d.tally[way] > 0 && d.respond(p)
}

// answer answers for a panel. price is the ε charged.
func (d *deed) answer(p *person) (ok bool) {
	cost := rest(d.epsilon, top(p.answers))
	p.answers, ok = show(p.answers, d.shown, p.last)
	p.last = max(p.last, d.shown.event)
	return ok && d.price == int64(cost)
}

// owed returns the price of an order under one of the two policies, less what was paid.
func (d *deed) owed(p *person, dear bool) int64 {
	if d.epsilon <= p.heldBy(d.buyer) {
		return 0
	}
	perTenth := int64(7)
	if dear {
		perTenth = 9
	}
	return max(0, max(10, perTenth*int64(d.epsilon))-p.paid[d.buyer])
}

func (d *deed) sell(p *person, dear bool) bool {
	if d.price != d.owed(p, dear) || d.method != method(p.levels[vote], d.epsilon) {
		return false
	}
	if p.heldBy(d.buyer) == 0 {
		p.buyers++
	}
	p.earned += d.price
	p.paid[d.buyer] += d.price
	if !d.respond(p) {
		return false
	}
	p.levels[vote] = slices.Clone(p.levels[vote])
	at, _ := find(p.levels[vote], d.epsilon)
	p.levels[vote][at].buyers |= 1 << d.buyer
	return true
}

// settle ends a reservation.
func (p *person) settle(number uint64) bool {
	kept := slices.DeleteFunc(slices.Clone(p.held), func(h holding) bool { return h.number == number })
	found := len(kept) < len(p.held)
	p.held = kept
	return found
}

// enroll enrolls an object. tally is the number of new and of known objects.
func (d *deed) enroll(p *person) (*person, bool) {
	if !d.isRefusal(p.differingTerms(d.question)) {
		return p, false
	}
	if d.failed || d.refusal != nil {
		return p, true
	}
	q, way := *p, 0
	if p.in[d.question] {
		way = 1
	}
	q.was[d.question], q.in[d.question] = true, true
	q.last = max(q.last, d.last)
	return &q, d.tally[way] > 0 && d.follows(p)
}

// changeTerms changes the terms of an object. tally is the number of changed and of unchanged
// objects.
func (d *deed) changeTerms(p *person) (*person, bool) {
	if !d.isRefusal(p.unwilling(d.request)) {
		return p, false
	}
	if d.failed || d.refusal != nil {
		return p, true
	}
	q, way := *p, 0
	if q.cap == d.cap && q.dear == d.dear {
		way = 1
	}
	q.cap, q.dear, q.last = d.cap, d.dear, max(q.last, d.last)
	return &q, d.tally[way] > 0 && d.follows(p)
}

func (d *deed) withdraw(p *person) (*person, bool) {
	if known := p.was[vote] || p.was[diary]; d.unknown || !known {
		return p, d.unknown != known
	}
	q := *p
	q.in = [questions]bool{}
	q.held = slices.Clone(q.held)
	for i := range q.held {
		q.held[i].out = true
	}
	return &q, true
}

// advance draws what the policy releases. tally is the number of raised, unchanged and refused
// objects.
func (d *deed) advance(p *person, m moment) (*person, bool) {
	if !p.in[d.question] {
		return p, d.refusal == nil
	}
	q, way := *p, 1
	var refusal *api.Refusal
	for _, step := range d.terms[d.question].Releases(minute(m.clock), 0) {
		r := request{question: d.question, epsilon: inTenths(step.Ceiling)}
		if _, found := find(q.levels[d.question], r.epsilon); found {
			continue
		}
		if refusal = q.undrawable(d.terms, m, r); refusal != nil {
			way = 2
			break
		}
		q.levels[d.question], _ = show(q.levels[d.question], level{epsilon: r.epsilon}, p.last)
		way = 0
	}
	q.last = max(q.last, d.last)
	return &q, d.isRefusal(refusal) && d.tally[way] > 0 && d.follows(p)
}

func (d *deed) cancel(p *person) (*person, bool) {
	q := *p
	return &q, q.settle(d.number) != d.notReserved
}

// readLevel compares the response at one ε, or its absence.
func (d *deed) readLevel(p *person) (*person, bool) {
	if _, found := find(p.levels[d.question], d.epsilon); !found || !d.found {
		return p, found == d.found
	}
	q := *p
	return &q, d.respond(&q)
}

// read compares everything that is known of an object.
func (d *deed) read(p *person, m moment) (*person, bool) {
	if known := p.was[vote] || p.was[diary]; d.unknown || !known {
		return p, d.unknown != known
	}
	held := 0
	for _, h := range p.held {
		if h.holds(m) {
			held = max(held, rest(h.epsilon, top(p.levels[vote])))
		}
	}
	s := d.state
	if s.Cap != tenths(p.cap) || s.Spent != tenths(p.spent()) || s.Earned != p.earned ||
		s.Held != tenths(held) || s.Remaining != tenths(rest(p.cap, p.spent()+held)) {
		return p, false
	}
	q, chains := *p, s.Chains
	for question := range questions {
		if !p.was[question] {
			continue
		}
		if len(chains) == 0 || !d.readChain(&q, m, question, chains[0]) {
			return p, false
		}
		chains = chains[1:]
	}
	return &q, len(chains) == 0
}

func (d *deed) readChain(p *person, m moment, question int, c api.ChainState) bool {
	levels := p.levels[question]
	answered := p.spentOn(question) - top(levels)
	if c.Withdrawn == p.in[question] || c.Epsilon != tenths(top(levels)) || c.Answered != tenths(answered) || len(c.Levels) != len(levels) {
		return false
	}
	if c.Ceiling != p.under(d.terms, question).Ceiling(minute(m.clock), 0) || question == vote && c.Buyers != p.buyers {
		return false
	}
	var paid [3]int64
	for i, read := range c.Levels {
		for j, buyer := range read.Buyers {
			paid[slices.Index(buyers(), buyer)] += read.Paid[j]
		}
		if read.Epsilon != tenths(levels[i].epsilon) || bits(read.Buyers) != levels[i].buyers {
			return false
		}
		var same bool
		levels, same = show(levels, level{epsilon: levels[i].epsilon, value: read.Response, event: read.Event}, p.last)
		if !same {
			return false
		}
	}
	p.levels[question] = levels
	return question != vote || paid == p.paid
}

// model is the sequential ledger of one object, for the checker.
func model() porcupine.Model {
	many := porcupine.NondeterministicModel{
		Init: func() []any { return []any{newPerson()} },
		Step: func(state, input, _ any) (all []any) {
			for _, p := range input.(*deed).next(state.(*person)) {
				all = append(all, p)
			}
			return all
		},
		Equal: func(a, b any) bool { return a.(*person).equal(b.(*person)) },
		Hash:  func(a any) uint64 { return a.(*person).hash() },
	}
	return many.ToModel()
}

// clock is a clock that the tests set forwards and back. It remembers its times.
type clock struct {
	ticks   *atomic.Int64 // the order of all events of a history
	now     atomic.Int64  // in minutes since the opening
	mu      sync.Mutex
	changes []change
}

// change is a time that a clock showed, from one tick at the earliest until another one at the
// latest.
type change struct{ from, until, shown int64 }

func newClock(ticks *atomic.Int64) *clock {
	return &clock{ticks: ticks, changes: []change{{until: forEver}}}
}

const forEver = 1 << 62

func (c *clock) time() time.Time { return minute(c.now.Load()) }

func (c *clock) set(shown int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, change{c.ticks.Add(1), forEver, shown})
	c.now.Store(shown)
	c.changes[len(c.changes)-2].until = c.ticks.Add(1)
}

// during returns the times that the clock may have shown between two ticks.
func (c *clock) during(from, until int64) (shown window) {
	for _, one := range slices.Backward(c.changes) {
		if one.until < from {
			break
		}
		if one.from < until && !slices.Contains(shown, one.shown) {
			shown = append(shown, one.shown)
		}
	}
	return shown
}

// latest returns the latest time that the clock can have shown before a tick.
func (c *clock) latest(before int64) (shown int64) {
	for _, one := range c.changes {
		if one.from < before {
			shown = max(shown, one.shown)
		}
	}
	return shown
}
