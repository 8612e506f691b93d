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
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
)

// patience is how long the order of the calls about one object is looked for. It takes milliseconds, but for many that wait
// at a time for a takeover.
func patience() time.Duration { return time.Duration(pace.Scale(1, 10)) * time.Minute }

// check looks for everything that is wrong with a history.
func (x *trial) check(ctx context.Context) error {
	once := x.once(ctx)
	x.checkSales(once)
	faults := append(x.faults, x.checkBooks(ctx, once)...)
	for _, operations := range x.partitions(once) {
		if err := checkOrder(operations); err != nil {
			faults = append(faults, err)
		}
		if len(faults) > 3 {
			break // it is wrong enough
		}
	}
	return errors.Join(faults...)
}

// once makes one record of all calls with the same key that were carried out: it happened once, after the first of them
// began and before anybody was told. Refused calls stay as they are: nothing came of them. Those that were given up count
// with one that was carried out later, because they may have done it. A reservation that a repetition was told is not open was granted before.
func (x *trial) once(ctx context.Context) (all []record) {
	done, given, closed := map[int]record{}, map[int]int64{}, []record(nil)
	for _, r := range x.told {
		was, repeated := done[r.number]
		switch {
		case errors.Is(r.err, context.Canceled):
			if from, before := given[r.number]; !before || r.from < from {
				given[r.number] = r.from
			}
		case !r.decided():
			x.fault("call %d, %s: %w", r.number, r.what, r.err)
		case r.what == toReserve && errors.Is(r.err, api.ErrNotReserved):
			all, closed = append(all, r), append(closed, r)
		case r.err != nil, r.mereReading():
			all = append(all, r)
		case repeated:
			if !reflect.DeepEqual(was.reply, r.reply) {
				x.fault("call %d, %s, came to two things:\n%v\n%v", r.number, r.what, was.reply, r.reply)
			}
			was.from, was.till = min(was.from, r.from), min(was.till, r.till)
			done[r.number] = was
		default:
			done[r.number] = r
		}
	}
	for _, r := range closed {
		granted, found := done[r.number]
		if !found { // only a call that was given up can have granted it
			granted = r
			granted.reply.Reservation, granted.err = x.reservationOf(ctx, r.err), nil
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

// reservationOf reads the reservation that is not open, by the error that says so.
func (x *trial) reservationOf(ctx context.Context, told error) api.Reservation {
	var closed *api.ReservationError
	errors.As(told, &closed)
	r, err := x.real.Reservation(ctx, closed.Number)
	if err != nil || r.State == api.ReservationOpen && closed.State != api.ReservationExpired {
		x.fault("%v, and it is read as %+v, %w", told, r, err)
	}
	return r
}

// mereReading tells whether a call changes nothing, so that each repetition is a call of its own.
func (r *record) mereReading() bool {
	return slices.Contains([]string{toRead, toReadLevel, toQuote, toReceipt}, r.what)
}

// checkSales compares sales with what they delivered.
func (x *trial) checkSales(all []record) {
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
			x.fault("call %d: the sale is %+v and delivers %+v", r.number, s, r.reply.Deliveries)
		}
		if !r.partial && len(r.reply.Deliveries) != len(r.objects) {
			x.fault("call %d: a whole order of %d objects delivers %+v", r.number, len(r.objects), r.reply.Deliveries)
		}
		if other, taken := numbers[s.Number]; taken {
			x.fault("calls %d and %d came to the same sale, %d", other, r.number, s.Number)
		}
		numbers[s.Number] = r.number
	}
}

// checkBooks compares the ledger's sums with what was told, and lets an auditor look at it.
func (x *trial) checkBooks(ctx context.Context, all []record) (faults []error) {
	sales, revenue := uint64(0), int64(0)
	for _, r := range all {
		if r.err == nil && (r.what == toSell || r.what == toCommit) {
			sales, revenue = sales+1, revenue+r.reply.Sale.Price
		}
	}
	sums, err := x.real.Stats(ctx)
	if err != nil || sums.Sales != sales || sums.Revenue != revenue {
		faults = append(faults, fmt.Errorf("%d sales of %d in all were told; the books: %+v, %w", sales, revenue, sums, err))
	}
	ahead := uint64(0)
	found, err := x.real.Verify(ctx, api.VerifyRequest{Report: func(p api.Finding) {
		if p.Kind == "clock" { // it has jumped back
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

// partitions returns the calls about each object, in the order of their names.
func (x *trial) partitions(all []record) (parts [][]porcupine.Operation) {
	byObject := map[string][]porcupine.Operation{}
	early := int64(0) // the log has come at least so far
	behind := 0       // the calls that early stands for
	inOrder := slices.SortedFunc(slices.Values(all), func(a, b record) int { return cmp.Compare(a.from, b.from) })
	for _, r := range inOrder {
		for ; all[behind].till < r.from; behind++ {
			if all[behind].leavesEvents() {
				early = max(early, slices.Min(x.clock.during(all[behind].from, all[behind].till)))
			}
		}
		clocks := x.clock.during(r.from, r.till)
		log := [2]int64{max(early, slices.Min(clocks)), x.clock.latest(r.till)}
		for _, name := range r.objects {
			d := r.deed(name)
			d.terms, d.clocks, d.log = &x.terms[r.cohort], clocks, log
			byObject[name] = append(byObject[name], porcupine.Operation{ClientId: r.client, Input: d, Call: r.from, Return: r.till})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byObject)) {
		parts = append(parts, byObject[name])
	}
	return parts
}

// leavesEvents tells whether the log has events of a call, with a time of their own.
func (r *record) leavesEvents() bool { return r.err == nil && !r.mereReading() }

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
		d.unknown, d.notReserved = errors.Is(r.err, api.ErrUnknown), errors.Is(r.err, api.ErrNotReserved)
		var closed *api.ReservationError
		if errors.As(r.err, &closed) {
			d.number = closed.Number
		}
	default:
		d.tell(r, len(r.objects) == 1)
	}
	return d
}

// tell adds what a call that was carried out told about an object, which may have been the only one.
func (d *deed) tell(r *record, alone bool) {
	switch told := r.reply; d.what {
	case toEnroll:
		d.first, d.last, d.tally = told.Enrolled.First, told.Enrolled.Last, []int{told.Enrolled.Enrolled, told.Enrolled.Already}
		d.refusal = refusalOf(told.Enrolled.Refused, d.object)
	case toTerms:
		n := told.Changed
		d.first, d.last, d.tally, d.refusal = n.First, n.Last, []int{n.Changed, n.Unchanged}, refusalOf(n.Refused, d.object)
	case toRelease:
		d.shown.value, d.shown.event = told.Response.Value, told.Response.Event
	case toRaise:
		n := told.Raised
		d.first, d.last, d.tally, d.refusal = n.First, n.Last, []int{n.Drawn, n.Reused, n.Derived}, refusalOf(n.Refused, d.object)
	case toAdvance:
		d.first, d.last, d.tally = told.Advanced.First, told.Advanced.Last, []int{0, 0, 0}
		for _, one := range told.Advanced.Questions {
			d.tally, d.refusal = []int{one.Raised, one.Unchanged, len(one.Refused)}, refusalOf(one.Refused, d.object)
		}
	case toQuote:
		d.refusal = refusalOf(told.Quote.Refused, d.object)
		if alone {
			d.price = told.Quote.Price
		}
	case toReserve:
		n := told.Reservation
		d.number, d.first, d.last, d.refusal = n.Number, n.First, n.Last, refusalOf(n.Refused, d.object)
		d.expires = int64(n.Expires.Sub(opening()) / time.Minute)
		if alone {
			d.price = n.Price
		}
	case toSell, toCommit:
		d.first, d.last, d.refusal = told.Sale.First, told.Sale.Last, refusalOf(told.Sale.Refused, d.object)
		for _, one := range told.Deliveries {
			if one.Object == d.object {
				d.shown.value, d.shown.event, d.price, d.method = one.Value, one.Event, one.Price, one.Method
			}
		}
	case toAnswer:
		d.shown.value, d.shown.event, d.price = told.Answer.Answer, told.Answer.Event, int64(inTenths(told.Answer.Charged))
	case toRead:
		d.state = &told.Object
	case toReadLevel:
		for _, one := range told.Responses {
			if one.Object == d.object {
				d.found, d.shown.value, d.shown.event = true, one.Value, one.Event
			}
		}
	}
}

// checkOrder looks for an order of the calls about one object. If there is none, the error tells the shortest history
// found that has none.
func checkOrder(operations []porcupine.Operation) error {
	switch porcupine.CheckOperationsTimeout(model(), operations, patience()) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("object %q: no order of %d calls found in %v", operations[0].Input.(*deed).object, len(operations), patience())
	}
	cut := shorten(operations)
	var out strings.Builder
	fmt.Fprintf(&out, "object %q: no order of these calls comes to what they were told (%d of %d):",
		operations[0].Input.(*deed).object, len(cut), len(operations))
	for _, one := range cut {
		fmt.Fprintf(&out, "\n  [%d, %d] client %d %v", one.Call, one.Return, one.ClientId, one.Input)
	}
	return errors.New(out.String())
}

// shorten returns the shortest beginning of a wrong history that is wrong, without the readings and refusals that do not
// matter. What changes something stays: without it, others would be wrong that are right.
func shorten(operations []porcupine.Operation) []porcupine.Operation {
	wrong := func(some []porcupine.Operation) bool {
		return porcupine.CheckOperationsTimeout(model(), some, patience()/10) == porcupine.Illegal
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
	deadline := time.Now().Add(patience()) // what is long by then stays long: it is wrong all the same
	for i := len(cut) - 1; i >= 0 && time.Now().Before(deadline); i-- {
		if less := slices.Delete(slices.Clone(cut), i, i+1); cut[i].Input.(*deed).reads() && wrong(less) {
			cut = less
		}
	}
	return cut
}
