package check

import (
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// noteEvent counts an event of the request in progress, and reduces the kinds of requests that it
// can be. It returns [errs.ErrCorrupt] if no kind of request records an event of the kind k after
// those before it.
func noteEvent(u *state.InProgress, k event.Kind) error {
	before := u.Requests
	if u.Events++; before == 0 {
		before = ^state.Requests(0) // the first event can be of any kind of request
	}
	u.Requests = before & state.RequestsWith(k)
	if u.Events > 1 {
		u.Requests &^= state.OfChange // such a request has a single event
	}
	if !u.IsIncomplete && u.Requests == 0 {
		return fault("no request records an event of kind %s after its %d earlier events", k, u.Events-1)
	}
	return nil
}

// noteName notes the object that an event is about, or "". Later checks need to know whether all
// events of the request are about one object.
func noteName(u *state.InProgress, object string) {
	if u.FirstObject == "" {
		u.FirstObject = object
	}
	u.HasOthers = u.HasOthers || u.FirstObject != object && object != ""
}

// noteMember notes an object that is enrolled in a question or put under other terms in it. It
// returns [errs.ErrCorrupt] if the objects are not in order.
func noteMember(u *state.InProgress, question uint32, object string) error {
	u.Enrolled++
	noteWanted(u, question, privacy.Epsilon{})
	return noteObject(u, object)
}

// noteObject notes an object that is enrolled, withdrawn, or gets a response. It returns
// [errs.ErrCorrupt] if the objects of a request are not in order. Only a sweep may have the same
// object several times.
func noteObject(u *state.InProgress, object string) error {
	if object < u.LastObject && !u.IsIncomplete {
		return fault("object %q is after %q in one request: the names must be in order", object, u.LastObject)
	}
	u.MustBeSweep = u.MustBeSweep || object == u.LastObject
	u.LastObject = object
	return nil
}

// noteResponse counts a response outside a sale, and its cost. It returns [errs.ErrCorrupt] if the
// objects are not in order.
func noteResponse(u *state.InProgress, c *event.Released, cost privacy.Epsilon) error {
	noteWanted(u, c.Question, c.Epsilon)
	if c.Method == event.MethodRaise {
		u.Raised++
	} else {
		u.Derived++
	}
	noteSpent(u, cost, 1)
	return noteObject(u, c.Object)
}

// noteBound notes that the event with a number binds a chain to its true value. Bindings in the
// same question with consecutive numbers are a run, from First to Last.
func noteBound(u *state.InProgress, question uint32, number uint64) {
	b := &u.Bindings
	if b.Last+1 != number || b.Question != question {
		b.First, b.Question = number, question
	}
	b.Last = number
	b.Undrawn++
}

// noteDrawn notes a draw from the true value of an object. latest is the last event about the
// object before the draw. If it is one of the last run of bindings, the chain bound by it was drawn
// from now.
func noteDrawn(u *state.InProgress, question uint32, latest uint64) {
	if b := &u.Bindings; b.Undrawn > 0 && b.Question == question && b.First <= latest && latest <= b.Last {
		b.Undrawn--
	}
}

// noteSpent adds a cost for each of some objects to what the request has cost. The sum cannot
// overflow, because a transaction is about too few objects.
func noteSpent(u *state.InProgress, cost privacy.Epsilon, objects uint64) {
	u.Spent += uint64(cost.Nano()) * objects
}

// noteWanted notes a question and an ε that the request is for. Only a sweep may have several of
// them.
func noteWanted(u *state.InProgress, question uint32, epsilon privacy.Epsilon) {
	if u.Question == 0 {
		u.Question, u.Epsilon = question, epsilon
	}
	u.MustBeSweep = u.MustBeSweep || u.Question != question || u.Epsilon != epsilon
}

// noteRefusal notes a refused object. It returns [errs.ErrCorrupt] if the refusals of a request are
// not in order, or if no kind of request refuses an object for this reason. Their order is by
// question, then by name.
func noteRefusal(u *state.InProgress, c *event.ObjectRefused) error {
	isAfter := c.Question > u.Refused.Question || c.Question == u.Refused.Question && c.Object > u.Refused.Name
	if !u.IsIncomplete && !isAfter {
		return fault("object %q is refused after %q in one request: the names must be in order",
			c.Object, u.Refused.Name)
	}
	u.Refused = state.RecordID{Question: c.Question, Name: c.Object}
	if isOfTerms(&c.Refusal) {
		// Asked is a cap here, and not a requested ε.
		noteWanted(u, c.Question, privacy.Epsilon{})
	} else {
		noteWanted(u, c.Question, c.Asked)
	}
	if u.Requests &= refusing(&c.Refusal); !u.IsIncomplete && u.Requests == 0 {
		return fault("object %q is refused for %s by a request that has no such refusals", c.Object, c.Reason)
	}
	return nil
}

// isOfTerms reports whether a refusal is one of an enrolment or a change of terms, which is not
// about a requested level.
func isOfTerms(r *api.Refusal) bool {
	switch r.Reason {
	case api.CapDiffers, api.PolicyDiffers, api.NeedsConsent:
		return true
	case api.NotEnrolled:
		return r.Asked.IsZero()
	}
	return false
}

// refusing returns the kinds of requests that refuse an object for a reason.
func refusing(r *api.Refusal) state.Requests {
	switch {
	case r.Reason == api.CapDiffers, r.Reason == api.PolicyDiffers:
		return state.OfEnrolment
	case isOfTerms(r):
		return state.OfTerms
	}
	return state.OfRaise | state.OfAnswer | state.OfSale | state.OfReservation
}
