package event

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// This file has the canonical form of each request that can be computed again from the events that
// the request recorded. Package ledger builds the identity of a request with it, and package fold
// checks that a settled event bears that identity. The forms of other requests contain what is in
// no event: a price limit, or the names of objects for which nothing was recorded.

// DefineRequest returns the identity of a request that defines a question. encoding is the one that
// was asked for, and may be "".
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

// EpochRequest returns the identity of a request that begins an epoch.
func EpochRequest(question, object string) Identity {
	f := NewForm("epoch")
	f.Field("Question").Text(question)
	f.Field("Object").Text(object)
	return f.Finish()
}

// single is a change that is the only one of a request.
type single interface {
	Change
	requests(Names) ([]Identity, error) // the requests of which it can be the one change
}

// RequestsFor returns the identities of the requests of which a change can be the only one; nil for
// a change that requests with other changes record.
func RequestsFor(c Change, names Names) ([]Identity, error) {
	if c, is := c.(single); is {
		return c.requests(names)
	}
	return nil, nil
}

// RaiseRequest returns the identity of a release or a raise: objects are in order, and nil if it is
// for all.
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

// PanelRequest is a request for an answer about a panel.
type PanelRequest struct {
	Question, Query string          // the question by its name, and the query as the host wrote it
	Epsilon         privacy.Epsilon // above 0
	Panel           PanelSum        // of the objects that the request names; not used if All is set
	Objects         uint64          // how many it names; 0 if All is set
	All, Partial    bool            // about all objects of the question; without those that are refused
}

// Identity returns the identity of the request. The sum of several objects is not in its digest: it
// is in the answer, and erased there.
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

// CaptureRequest returns the identity of a request that sells what was reserved.
func CaptureRequest(reservation uint64, partial bool) Identity {
	f := NewForm("commit")
	f.Field("Reservation").U64(reservation)
	f.Field("Partial").Flag(partial)
	return f.Finish()
}

// Of gives a settled event the identity of the request that it settles, or begins to settle.
func (c *Settled) Of(id *Identity) {
	c.Digest, c.Marks = id.Digest, id.Marks
	c.Names, c.Named = id.Objects, id.Objects != Sum{}
}

// Is reports whether the identity is the one that a settled event bears, but for its fields about
// several objects.
func (id Identity) Is(c *Settled) bool {
	return id.Sum == Sum{c.Digest, c.Marks} && c.Named == (id.Objects != Sum{})
}

// IsAmong reports whether one of the identities is the one that a settled event bears.
func (c *Settled) IsAmong(all ...Identity) bool {
	return slices.ContainsFunc(all, func(id Identity) bool { return id.Is(c) })
}

// IsOpen reports whether the request of a settled event that names several objects may name some
// for which it has recorded no event. Parts of it may be to come, or some objects needed nothing.
func (c *Settled) IsOpen() bool { return c.Named && c.Sale == 0 && (!c.Final || c.Counts[Reused] > 0) }
