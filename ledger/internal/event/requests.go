package event

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// This file has the canonical form of each request that can be computed from the events of the
// request. Package ledger uses it to compute the identity of a request. Package fold uses it to
// check the identity in a settled event. The forms of other requests contain data that no event
// has, such as a price limit, or the names of objects for which nothing was recorded.

// DefineRequest returns the identity of a request that defines a question. encoding is the encoding
// that the request names; "" if it leaves the choice to the ledger.
func DefineRequest(q api.Question, encoding string) Identity {
	f := NewForm("question")
	f.Field("Encoding").Text(string(encoding))
	f.Field("Name").Text(q.Name)
	values := f.Field("Values")
	for _, value := range q.Values {
		values.Text(value)
	}
	f.Field("Mechanism").Raw(Behaviour(q.Mechanism))
	return f.Finish()
}

// The kinds of requests that name one object and nothing else: see [ObjectRequest].
const (
	RequestWithdraw  = "withdraw"
	RequestForget    = "forget"
	RequestStatement = "state"
)

// ObjectRequest returns the identity of a request that names one object and nothing else.
func ObjectRequest(kind, object string) Identity {
	f := NewForm(kind)
	f.Field("Object").Text(object)
	return f.Finish()
}

// EpochRequest returns the identity of a request that starts an epoch.
func EpochRequest(question, object string) Identity {
	f := NewForm("epoch")
	f.Field("Question").Text(question)
	f.Field("Object").Text(object)
	return f.Finish()
}

// single is a change that is the only change of its request.
type single interface {
	Change
	requests(Names) ([]Identity, error) // the requests that can have this as their only change
}

// RequestsFor returns the identities of the requests whose only change can be c. It returns nil if
// requests record c only together with other changes.
func RequestsFor(c Change, names Names) ([]Identity, error) {
	if c, is := c.(single); is {
		return c.requests(names)
	}
	return nil, nil
}

// RaiseRequest returns the identity of a release or a raise. partial means that the request leaves
// out objects that refuse, instead of being refused as a whole. If all is true, the request is
// about all objects, and objects is nil. Otherwise objects must be sorted.
func RaiseRequest(question string, epsilon privacy.Epsilon, partial bool, objects []string, all bool) Identity {
	f := NewForm("raise")
	f.Field("Question").Text(question)
	f.Field("Epsilon").Epsilon(epsilon)
	f.Field("Partial").Flag(partial)
	f.Objects(objects, all)
	return f.Finish()
}

// SweepRequest returns the identity of a sweep: a request that draws what policies have released so
// far. It is for one question, or for all if question is "".
func SweepRequest(question string) Identity {
	f := NewForm("advance")
	f.Field("Question").Text(question)
	return f.Finish()
}

// PanelRequest is a panel query.
type PanelRequest struct {
	Question, Query string          // name of the question, and the query as the host wrote it
	Epsilon         privacy.Epsilon // above 0
	Panel           PanelSum        // of the objects that the request names; unused if All is set
	Objects         uint64          // number of named objects; 0 if All is set
	All, Partial    bool            // All: about all objects of the question; Partial: without the refused ones
}

// Identity returns the identity of the request. If the request names several objects, their digest
// is not part of the identity, but is returned in [Identity.Panel]. The answer contains it, and it
// is erased there when one of the objects is forgotten.
func (r PanelRequest) Identity() Identity {
	f := NewForm("answer")
	f.Field("Question").Text(r.Question)
	f.Field("Query").Text(r.Query)
	f.Field("Epsilon").Epsilon(r.Epsilon)
	objects := f.Field("Objects")
	if objects.Flag(r.All); !r.All {
		objects.Uvarint(r.Objects)
	}
	// The digest of a single object can be part of it, because the whole identity is erased with
	// the object.
	if r.Objects == 1 && !r.All {
		objects.Raw(r.Panel[:])
	}
	f.Field("Partial").Flag(r.Partial)
	id := f.Finish()
	if r.Objects > 1 && !r.All {
		id.Panel = r.Panel
	}
	return id
}

// CancelRequest returns the identity of a request that cancels a reservation.
func CancelRequest(reservation uint64) Identity {
	f := NewForm("cancel")
	f.Field("Reservation").U64(reservation)
	return f.Finish()
}

// CaptureRequest returns the identity of a request that captures a reservation.
func CaptureRequest(reservation uint64, partial bool) Identity {
	f := NewForm("commit")
	f.Field("Reservation").U64(reservation)
	f.Field("Partial").Flag(partial)
	return f.Finish()
}

// Of sets the identity of the request in a settled event. The event must settle the request as a
// whole or its first part, because later parts have no names.
func (c *Settled) Of(id *Identity) {
	c.Digest, c.Marks = id.Digest, id.Marks
	c.Names, c.Named = id.Objects, id.Objects != Sum{}
}

// Is reports whether a settled event has this identity. It ignores what the fields about several
// objects are, because they may be erased, but not whether there are such fields.
func (id Identity) Is(c *Settled) bool {
	return id.Sum == Sum{c.Digest, c.Marks} && c.Named == (id.Objects != Sum{})
}

// IsAmong reports whether a settled event has one of the identities.
func (c *Settled) IsAmong(all ...Identity) bool {
	return slices.ContainsFunc(all, func(id Identity) bool { return id.Is(c) })
}

// IsOpen reports whether the request of a settled event may name objects about which it has no
// event. Only the first part of a request for several objects can be open. It is open if later
// parts may follow, or if responses for some objects were recorded before. A sale is never open,
// because it has an event for each of its objects.
func (c *Settled) IsOpen() bool { return c.Named && c.Sale == 0 && (!c.Final || c.Counts[Reused] > 0) }
