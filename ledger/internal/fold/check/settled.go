package check

import (
	"crypto/sha256"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Settled checks the event that ends a request, or a part of one, against the events of the
// request. Then it clears the counters of the request. It returns the record of the request before
// this event.
func Settled(s *state.State, c *event.Settled, ev event.Event) (r state.Request, err error) {
	if err := checkName("idempotency key", c.Key); err != nil {
		return r, err
	}
	r, before, err := s.LastPart(c.Key)
	if err != nil {
		return r, err
	}
	if err := checkPart(s, c, before, ev); err != nil {
		return r, err
	}
	if err := checkNamed(s, c, before, ev); err != nil {
		return r, err
	}
	if err := checkSettledSale(s, c, ev.Number); err != nil {
		return r, err
	}
	if err := checkAnswer(s, c, ev.Number); err != nil {
		return r, err
	}
	if err := checkRequest(s, c, before, ev); err != nil {
		return r, err
	}
	if err := checkOutcome(s, c, before, ev.Number); err != nil {
		return r, err
	}
	if c.Object != "" {
		err = checkName("object", c.Object)
	}
	n := &s.Counters
	n.Refused, n.Unsettled, n.Answer, n.InProgress = 0, 0, state.Answering{}, state.InProgress{}
	if c.IsOpen() && ev.Erased != nil {
		n.Erased.Named++ // a forgotten event must follow that accounts for it
	}
	return r, err
}

// checkPart checks that the settled event c can end a part of its request, and that it counts the
// refusals before it. before is the event that settled the previous part, or nil for the first
// part.
func checkPart(s *state.State, c, before *event.Settled, ev event.Event) error {
	if before != nil && (before.Final || c.Alone || before.Digest != c.Digest) {
		return fault("request %q is settled twice", c.Key)
	}
	if c.Refused != s.Counters.Refused || c.First == 0 || c.First > ev.Number {
		return fault("request %q, begun by event %d, counts %d refusals, but the log has %d",
			c.Key, c.First, c.Refused, s.Counters.Refused)
	}
	isWhole := ev.Erased == nil
	// isOpenEnd: the event is final, but says where the next part begins. isNone: it has no digest
	// or, if Alone, no object.
	isOpenEnd := c.Final && (c.Done != 0 || !c.Alone && c.Object != "")
	isNone := isWhole && (c.Digest == [sha256.Size]byte{} || c.Alone && c.Object == "")
	if isOpenEnd || isNone || c.Alone && !c.Final {
		return fault("request %q: its settled event is not one of such a request", c.Key)
	}
	return nil
}

// checkNamed checks the digests of the objects in a request that names several objects. They must
// be erased if, and only if, an event about one of the objects is. Open requests are an exception:
// they are erased when any object is forgotten.
func checkNamed(s *state.State, c, before *event.Settled, ev event.Event) error {
	isErased := ev.Erased != nil
	if !c.Named {
		return nil
	}
	isOfMany := !c.Alone && before == nil && c.Answer == 0 && len(c.Swept) == 0
	if !isOfMany || !isErased && c.Names == (event.Sum{}) {
		return fault("request %q is settled as a request of several objects, which it is not", c.Key)
	}
	if s.Counters.InProgress.IsIncomplete {
		return nil
	}
	if !isErased && s.Counters.InProgress.ErasedEvents > 0 {
		return fault("request %q: an object of it is forgotten, but the digests of its objects are not erased", c.Key)
	}
	if isErased && !c.IsOpen() {
		return checkGone(s, ev.Number, c.Key)
	}
	return nil
}

// checkGone returns [errs.ErrCorrupt] if no event of a request is erased. settled is the event that
// settles the request. The events are read again, because during an audit they may have been erased
// after they were folded.
func checkGone(s *state.State, settled uint64, key string) error {
	u := &s.Counters.InProgress
	if u.ErasedEvents > 0 {
		return nil
	}
	for at := settled - min(settled, u.Events); at < settled; at++ {
		ev, err := s.Event(at)
		if err != nil {
			return err
		}
		if _, is := ev.Change.(event.Personal); is && ev.Erased != nil {
			return nil
		}
	}
	return fault("request %q: the digests of its objects are erased, but no event about one of them is", key)
}

// checkSettledSale checks that c settles the sale or reservation directly before it, if there is
// one, and no other. Its objects and refusals must be complete. number is the settled event. A
// captured reservation may refuse only reserved objects.
func checkSettledSale(s *state.State, c *event.Settled, number uint64) error {
	if c.Sale != s.Counters.Unsettled {
		return fault("request %q settles sale %d, not sale %d",
			c.Key, c.Sale, s.Counters.Unsettled)
	}
	if c.Sale == 0 {
		return nil
	}
	r, err := s.Sale(c.Sale)
	if err == nil && (r.Refused != c.Refused || r.Last() != number) {
		err = fault("request %q settles sale %d, which does not end with this event", c.Key, c.Sale)
	}
	isCapture := err == nil && r.Status == state.SaleSold && r.Granted != 0
	if isCapture && r.Refused > 0 && !s.Counters.InProgress.IsIncomplete {
		err = checkReserved(s, r, c, number)
	}
	return err
}

// checkOutcome checks that a settled event agrees with the events before it: their number, their
// objects, the counts, and the cost. before is the settled event of the previous part, or nil.
// number is that of c.
func checkOutcome(s *state.State, c, before *event.Settled, number uint64) error {
	u := &s.Counters.InProgress
	if u.IsIncomplete {
		return nil
	}
	if before == nil {
		before = &event.Settled{Through: c.Through} // the first part may have any Through
	}
	if c.First != number-u.Events || c.Through >= number || c.Through != before.Through {
		return fault("request %q, of objects up to event %d, begins with event %d, but has %d events",
			c.Key, c.Through, c.First, u.Events)
	}
	if u.ImplausibleRefusal != "" && c.Answer == 0 {
		return fault("request %q: %s", c.Key, u.ImplausibleRefusal)
	}
	if c.Alone && c.Object != "" && (u.HasOthers || u.FirstObject != "" && u.FirstObject != c.Object) {
		return fault("request %q is about object %q only, but its events are about %q", c.Key, c.Object, u.FirstObject)
	}
	if u.Bindings.Undrawn > u.ErasedResponses+u.ErasedDraws { // erased responses may have been drawn from some of them
		return fault("request %q binds %d chains to true values, but draws no response from them",
			c.Key, u.Bindings.Undrawn)
	}
	if err := checkCounts(s, c, number); err != nil {
		return err
	}
	// The objects that this part is done with.
	dealt := c.Refused
	for _, n := range c.Counts {
		dealt += n
	}
	if c.Done != 0 && c.Done-before.Done != dealt || c.Alone && dealt > 1 {
		return fault("request %q counts %d objects done, but %d were done before and %d by this part",
			c.Key, c.Done, before.Done, dealt)
	}
	return checkSpent(s, c)
}

// checkCounts checks the counts of a request. number is its settled event. Objects for which
// nothing had to be recorded have no events. Their number can only be compared with the number of
// chains.
func checkCounts(s *state.State, c *event.Settled, number uint64) error {
	known := s.Counters.Chains + s.Counters.Erased.Events // erased events may have been enrolments
	for _, n := range c.Counts {
		if n > max(known, 1) {
			return fault("request %q counts %v, but there are only %d chains", c.Key, c.Counts, known)
		}
	}
	switch {
	case c.Sale != 0:
		return checkSaleCounts(s, c)
	case len(c.Swept) > 0 && c.Answer == 0:
		return checkSwept(s, c, number)
	}
	u := &s.Counters.InProgress
	// The kinds of requests that can have these counts.
	of := state.OfRaise | state.OfEnrolment | state.OfChange | state.OfTerms | state.OfWithdrawal
	want := c.Counts // of an answer, these are checked by checkAnswer
	if c.Answer != 0 {
		of = state.OfAnswer
	} else {
		want = countsOf(u, c)
	}
	isOther := u.Events > 0 && u.Requests&of == 0 || u.MustBeSweep && c.Answer == 0
	if want != c.Counts || isOther || u.Requests == state.OfChange && c.Counts != (event.Counts{}) {
		return fault("request %q counts %v, but its events enrol, withdraw or put under other terms %d objects, "+
			"raise %d and derive %d responses", c.Key, c.Counts, u.Enrolled, u.Raised, u.Derived)
	}
	return nil
}

// countsOf returns the counts that follow from the events of a request. Counts of recorded
// responses have no events, and are taken from c. If exactly the erased events account for the
// difference, it returns the counts of c, and sets u.ErasedDraws.
func countsOf(u *state.InProgress, c *event.Settled) event.Counts {
	if u.Requests&state.OfChange != 0 && c.Counts == (event.Counts{}) {
		return c.Counts // a request that withdraws a single object has no counts
	}
	want := event.Counts{u.Enrolled + u.Raised, c.Counts[event.Reused], u.Derived}
	drawn, derived := c.Counts[event.Drawn], c.Counts[event.Derived]
	// May wrap around; then it differs from the number of erased responses.
	erased := drawn + derived - u.Enrolled - u.Raised - u.Derived
	if erased == u.ErasedResponses && drawn >= want[event.Drawn] && derived >= want[event.Derived] {
		u.ErasedDraws = drawn - want[event.Drawn]
		return c.Counts
	}
	return want
}

// checkSaleCounts checks the counts of a sale against the tally in its event, which was compared
// with its objects. The counts of a reservation are 0.
func checkSaleCounts(s *state.State, c *event.Settled) error {
	r, err := s.Sale(c.Sale)
	if err != nil {
		return err
	}
	ev, err := s.Event(r.Event)
	if err != nil {
		return err
	}
	want := event.Counts{}
	if made, is := ev.Change.(*event.SaleMade); is {
		want = event.Counts{made.Tally.Draws, made.Tally.Resales, made.Tally.Degradations + made.Tally.Insertions}
	}
	if c.Counts != want {
		return fault("request %q counts %v, but its sale counts %v", c.Key, c.Counts, want)
	}
	return nil
}

// checkSpent checks the cost of a request to all objects. It must be the sum over its events, plus
// a possible cost of its erased draws. That cost is checked later, by the forgotten events of their
// objects.
func checkSpent(s *state.State, c *event.Settled) error {
	u := &s.Counters.InProgress
	hidden, least, most := c.Spent-u.Spent, u.ErasedDraws, u.ErasedDraws*uint64(privacy.MaxEpsilon().Nano())
	if len(c.Swept) > 0 {
		least = 0 // an object raised before by the host may get lower levels at no cost
	}
	if c.Spent < u.Spent || hidden < least || hidden > 0 && u.ErasedDraws == 0 || hidden > most {
		return fault("request %q costs %d nano-nats, but its events cost %d, without %d erased draws",
			c.Key, c.Spent, u.Spent, u.ErasedDraws)
	}
	s.Counters.Erased.Spent += hidden
	return nil
}
