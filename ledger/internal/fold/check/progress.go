package check

import (
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// noteEvent counts an event that is to be settled. It refuses one that no request records after
// those before it.
func noteEvent(u *state.Underway, k event.Kind) error {
	before := u.Requests
	if u.Events++; before == 0 {
		before = ^state.Requests(0)
	}
	u.Requests = before & state.RequestsWith(k)
	if u.Events > 1 {
		u.Requests &^= state.OfChange
	}
	if !u.Loose && u.Requests == 0 {
		return fault("no request records an event of the kind %s behind the %d before it", k, u.Events-1)
	}
	return nil
}

// noteName notes an object that an event is about.
func noteName(u *state.Underway, object string) {
	if u.One == "" {
		u.One = object
	}
	u.More = u.More || u.One != object && object != ""
}

// noteMember notes an object that is enrolled in a question, or put under other terms in it.
func noteMember(u *state.Underway, question uint32, object string) error {
	u.Enrolled++
	noteWanted(u, question, privacy.Epsilon{})
	return noteObject(u, object)
}

// noteObject notes an object that is enrolled or has a response: a request goes through them in
// order.
func noteObject(u *state.Underway, object string) error {
	if object < u.Last && !u.Loose {
		return fault("object %q comes behind %q in one request", object, u.Last)
	}
	u.Sweep = u.Sweep || object == u.Last
	u.Last = object
	return nil
}

// noteResponse counts a response.
func noteResponse(u *state.Underway, c *event.Released, cost privacy.Epsilon) error {
	noteWanted(u, c.Question, c.Epsilon)
	if c.Method == event.MethodRaise {
		u.Raised++
	} else {
		u.Derived++
	}
	noteSpent(u, cost, 1)
	return noteObject(u, c.Object)
}

// noteBound notes that an event binds a chain to its truth.
func noteBound(u *state.Underway, question uint32, number uint64) {
	b := &u.Bound
	if b.Last+1 != number || b.Question != question {
		b.First, b.Question = number, question
	}
	b.Last = number
	b.Undrawn++
}

// noteDrawn notes a draw from the truth of an object, of which an event was the last one. It was
// the one that bound the chain, if the request did.
func noteDrawn(u *state.Underway, question uint32, latest uint64) {
	if b := &u.Bound; b.Undrawn > 0 && b.Question == question && b.First <= latest && latest <= b.Last {
		b.Undrawn--
	}
}

// noteSpent adds what some objects are charged each. No transaction is about so many that it could
// overflow.
func noteSpent(u *state.Underway, cost privacy.Epsilon, objects uint64) {
	u.Spent += uint64(cost.Nano()) * objects
}

// noteWanted notes what the request is about. Only a sweep is about several ε, or questions.
func noteWanted(u *state.Underway, question uint32, epsilon privacy.Epsilon) {
	if u.Question == 0 {
		u.Question, u.Asked = question, epsilon
	}
	u.Sweep = u.Sweep || u.Question != question || u.Asked != epsilon
}

// noteRefusal notes an object that is refused. A request goes through them in order.
func noteRefusal(u *state.Underway, c *event.ObjectRefused) error {
	if !u.Loose && (c.Question < u.Refused.Question || c.Question == u.Refused.Question && c.Object <= u.Refused.Name) {
		return fault("object %q is refused behind %q in one request", c.Object, u.Refused.Name)
	}
	u.Refused = state.RecordID{Question: c.Question, Name: c.Object}
	if isOfTerms(&c.Refusal) {
		noteWanted(u, c.Question, privacy.Epsilon{})
	} else {
		noteWanted(u, c.Question, c.Asked)
	}
	if u.Requests &= refusing(&c.Refusal); !u.Loose && u.Requests == 0 {
		return fault("object %q is refused for %s by a request that refuses nobody for it", c.Object, c.Reason)
	}
	return nil
}

// isOfTerms reports whether a refusal is one of an enrolment, or of a change of terms: not about a
// level that is asked for.
func isOfTerms(r *api.Refusal) bool {
	switch r.Reason {
	case api.CapDiffers, api.PolicyDiffers, api.NeedsConsent:
		return true
	case api.NotEnrolled:
		return r.Asked.IsZero()
	}
	return false
}

// refusing returns the sorts of requests that refuse an object for a reason.
func refusing(r *api.Refusal) state.Requests {
	switch {
	case r.Reason == api.CapDiffers, r.Reason == api.PolicyDiffers:
		return state.OfEnrolment
	case isOfTerms(r):
		return state.OfTerms
	}
	return state.OfRaise | state.OfAnswer | state.OfSale | state.OfReservation
}
