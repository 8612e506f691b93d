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

// DefineRequest returns the identity of a request that defines a question. encoding is the
// encoding in the request, and may be "".
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

// RaiseRequest returns the identity of a release or a raise. objects must be sorted, and nil if
// the request is about all objects.
func RaiseRequest(question string, epsilon privacy.Epsilon, partial bool, objects []string, all bool) Identity {
	f := NewForm("raise")
	f.Field("Question").Text(question)
	f.Field("Epsilon").Epsilon(epsilon)
	f.Field("Partial").Flag(partial)
	f.Objects(objects, all)
	return f.Finish()
}

// SweepRequest returns the identity of a sweep of one question, or of all if question is "".
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

// Identity returns the identity of the request. The digest of several objects is not part of it.
// It is stored in the answer, where it can be erased.
func (r PanelRequest) Identity() Identity {
	f := NewForm("answer")
	f.Field("Question").Text(r.Question)
	f.Field("Query").Text(r.Query)
	f.Field("Epsilon").Epsilon(r.Epsilon)
	objects := f.Field("Objects")
	if objects.Flag(r.All); !r.All {
		objects.Uvarint(r.Objects)
	}
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

// Of sets the identity of the request in a settled event, which settles the request or its first
// part.
func (c *Settled) Of(id *Identity) {
	c.Digest, c.Marks = id.Digest, id.Marks
	c.Names, c.Named = id.Objects, id.Objects != Sum{}
}

// Is reports whether a settled event has this identity, ignoring the fields about several objects.
func (id Identity) Is(c *Settled) bool {
	return id.Sum == Sum{c.Digest, c.Marks} && c.Named == (id.Objects != Sum{})
}

// IsAmong reports whether a settled event has one of the identities.
func (c *Settled) IsAmong(all ...Identity) bool {
	return slices.ContainsFunc(all, func(id Identity) bool { return id.Is(c) })
}

// IsOpen reports whether the request of a settled event may name objects without an event. This is
// possible for a request that names several objects: later parts may follow, or some objects
// needed nothing.
func (c *Settled) IsOpen() bool { return c.Named && c.Sale == 0 && (!c.Final || c.Counts[Reused] > 0) }
