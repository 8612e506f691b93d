package request

import (
	"context"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Reserve executes a request to reserve an order, and returns the number of the reservation. An
// order that names up to [state.PartSize] objects is decided at once. A larger order is first
// assessed outside the transaction, so that others do not wait for a refusal to be found.
func (e *Executor) Reserve(ctx context.Context, r api.ReserveRequest) (uint64, error) {
	held := term{length: r.For, until: r.Until}
	if err := held.check(); err != nil {
		return 0, err
	}
	sl := &selling{}
	form, err := sl.setOrder(ctx, e, "reserve", r.Key, r.Order, limits{r.QuoteID, r.MaxPrice, r.Partial})
	if err != nil {
		return 0, err
	}
	form.Field("For").U64(uint64(r.For))
	if !r.Until.IsZero() {
		form.Field("Until").U64(uint64(r.Until.UnixNano()))
	}
	sl.id, sl.isReservation, sl.term = form.Finish(), true, held
	sl.decidesFirst = !r.All && len(sl.names) <= state.PartSize
	number, _, err := sl.execute(ctx)
	return number, err
}

// reserve assesses the order in the transaction. It returns the events of the reservation, of its
// objects and its refusals, and the event that settles the request.
func (sl *selling) reserve(s *state.State) ([]event.Change, error) {
	expires, err := sl.term.expires(s.Now)
	if err != nil {
		return nil, err
	}
	if expires.Year() > event.LastYear {
		return nil, errs.Invalid("reservation expiry %v is after the year %d", expires, event.LastYear)
	}
	var under []uint32 // by index in sl.lines: the policies of the objects that answer
	note := func(o rules.Subject, _ *line) { under = append(under, o.Chain.Policy) }
	if err := sl.assessPanel(s, s.Clock, note); err != nil {
		return nil, err
	}
	if err := sl.accept(sl.limits); err != nil {
		return nil, err
	}
	changes, d := sl.deal(s)
	changes = append(changes, &event.Reserved{Deal: d, Expires: expires})
	for i, one := range sl.lines {
		held := event.Held{Object: sl.names[one.at], Sale: d.Sale, Price: one.price, Policy: under[i]}
		changes = append(changes, &held)
	}
	sl.sale, sl.end.Sale = d.Sale, d.Sale
	return AppendSettled(changes, sl.question.Number, sl.refused.Listed, sl.end), nil
}

// readReservation reads the reservation that is captured, and sets the order of sl to its terms and
// objects. Objects that were forgotten since are refused. If the capture is not partial, or no
// other object is left, it returns the error of a refused request.
func (sl *selling) readReservation(s *state.State) error {
	r, err := OpenReservation(s, sl.Reserved)
	if err != nil {
		return err
	}
	if sl.question, err = s.Question(r.Question); err != nil {
		return err
	}
	b, err := s.Buyer(r.Buyer)
	if err != nil {
		return err
	}
	sl.epsilon, sl.buyer, sl.names, sl.reservedPolicies = r.Epsilon, b.Name, nil, nil
	sl.Bid = rules.Bid{
		Question: sl.question, Client: b.Name, Epsilon: r.Epsilon, Granted: r.Granted, Reserved: sl.Reserved,
	}
	var gone RefusalList // the forgotten objects
	// The event of the reservation is followed by one event for each of its objects.
	for n := r.Event + 1; n <= r.Event+r.Objects; n++ {
		ev, err := s.Event(n)
		if err != nil {
			return err
		}
		c, ok := ev.Change.(*event.Held)
		if !ok {
			return errs.Corrupt(nil, "event %d reserves no object", n)
		}
		if ev.Erased != nil { // the object and its name were forgotten
			withdrawn := api.Refusal{
				Reason: api.Withdrawn, Asked: r.Epsilon, Remedy: event.RemedyNothing,
			}
			gone.Add(withdrawn)
			continue
		}
		sl.names, sl.reservedPolicies = append(sl.names, c.Object), append(sl.reservedPolicies, c.Policy)
	}
	if gone.Count() > 0 && (!sl.partial || len(sl.names) == 0) {
		return sl.refuse(gone)
	}
	return nil
}

// Cancel executes a request to cancel a reservation.
func (e *Executor) Cancel(ctx context.Context, key string, reservation uint64) error {
	id := event.CancelRequest(reservation)
	return e.Once(ctx, key, "", id, func(s *state.State) (event.Change, error) {
		r, err := Reservation(s, reservation)
		if err == nil && r.Status != state.SaleReserved {
			err = ClosedReservation(reservation, r, s.Now)
		}
		if err != nil {
			return nil, err
		}
		return &event.Cancelled{Sale: reservation}, nil
	})
}

// OrderRefusals returns the refusals of an order, first those of its reservation and then those of
// its sale. If it has both, they are sorted by the names of the objects. Objects that were
// forgotten since then are not included. Every function that reads a reservation or a sale uses it.
func OrderRefusals(s *state.State, r state.Sale) (all []api.Refusal, err error) {
	var ends []uint64 // the events that settled the requests
	if r.Granted != 0 {
		begun, err := s.Event(r.Granted)
		if err != nil {
			return nil, err
		}
		c, ok := begun.Change.(*event.Reserved)
		if !ok {
			return nil, errs.Corrupt(nil, "event %d is not a reservation", begun.Number)
		}
		ends = append(ends, r.Granted+c.Objects+c.Refused+1) // after the events of the objects and of the refusals
	}
	if r.Status == state.SaleSold {
		ends = append(ends, r.Last())
	}
	for _, last := range ends {
		end, err := s.Settlement(last)
		if err != nil {
			return nil, err
		}
		left, err := RefusalsOf(s, last, end)
		if err != nil {
			return nil, err
		}
		all = append(all, left...)
	}
	if len(ends) > 1 {
		all = event.SortRefusals(all)
	}
	return all, nil
}

// AsGranted is [Reservation], but returns the reservation as it was when it was granted: open, not
// captured or cancelled. Its expiry is set to a time just after the time of the log.
func AsGranted(s *state.State, number uint64) (state.Sale, error) {
	r, err := Reservation(s, number)
	r.Status, r.Expires = state.SaleReserved, s.Now.Add(1)
	return r, err
}

// OpenReservation returns the reservation with a number that a caller gave, or a
// [*api.ReservationError] if it is not open.
func OpenReservation(s *state.State, number uint64) (state.Sale, error) {
	r, err := Reservation(s, number)
	if err == nil && !r.Holds(s.Now) {
		err = ClosedReservation(number, r, s.Now)
	}
	return r, err
}

// ClosedReservation returns the error that says why a reservation is not open at a time: it was
// captured or cancelled, or has expired.
func ClosedReservation(number uint64, r state.Sale, at time.Time) *api.ReservationError {
	err := &api.ReservationError{Number: number, State: r.ReservationState(at)}
	switch err.State {
	case event.ReservationCaptured:
		err.Sale = number // a captured reservation is a sale of the same number
	case event.ReservationExpired:
		err.Expires = r.Expires
	}
	return err
}

// term is how long a reservation is held: for a duration, or until a time. Exactly one field is
// set.
type term struct {
	length time.Duration // from the time of the grant
	until  time.Time     // by the time of the log
}

// check returns an error unless exactly one field is set, and the time is in the range of the log.
// It runs before anything is read.
func (r term) check() error {
	switch {
	case r.until.IsZero() && r.length <= 0, !r.until.IsZero() && r.length != 0:
		return errs.Invalid("a reservation for %v and until %v: set exactly one, For above 0 or Until",
			r.length, r.until)
	case !r.until.IsZero() && (r.until.UTC().Year() < 1970 || r.until.UTC().Year() > event.LastYear):
		return errs.Invalid("reservation expiry %v is not in the years 1970 to %d", r.until, event.LastYear)
	}
	return nil
}

// expires returns when a reservation that is granted now ends. It returns an error if that is not
// in the future.
func (r term) expires(now time.Time) (time.Time, error) {
	if r.until.IsZero() {
		return now.Add(r.length), nil
	}
	until := r.until.UTC()
	if !until.After(now) {
		return time.Time{}, errs.Invalid("reservation expiry %s is not after the ledger's time %s",
			until.Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano))
	}
	return until, nil
}
