package evidence

import (
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/event"
)

// Fact is an event of the log in a statement: all that it says, in words, with its salt and its leaf. Questions,
// policies and buyers are given as they were defined; the events that defined them are facts before.
//
// As JSON it is one object: "event", "time" and "kind", the fields of the [Detail], "salt" and "leaf". Reading it takes the fields of the
// kind, and no other.
type Fact struct {
	Event uint64    // its number in the log, from 1
	Time  time.Time // in UTC
	Says  Detail    // nil only in a fact that was not read
	Salt  Hex       // 16 bytes
	Leaf  tlog.Hash // the event's leaf in the log
}

// Kind returns the kind of what the fact says, or "" if it says nothing.
func (f Fact) Kind() string {
	if f.Says == nil {
		return ""
	}
	return f.Says.Kind()
}

// about returns the object that the fact is about, or "".
func (f Fact) about() string {
	if d, ok := f.Says.(interface{ about() string }); ok {
		return d.about()
	}
	return ""
}

// Detail is what an event says: *[Created], *[QuestionDefined], *[PolicyDefined], *[BuyerNamed], *[Enrolled], *[TruthBound], *[Released],
// *[Charged], *[Reserved], *[Held], *[SaleMade], *[Sold], *[Withdrawn], *[EpochBegun], *[TermsChanged], *[ObjectRefused], *[Forgotten] or *[Stated]. There are no
// others. ε are in nats, and amounts of money in minor units of the ledger's currency.
type Detail interface {
	// Kind returns the name of the kind, as JSON and the log have it: "created", "sold".
	Kind() string
	// change returns what the event says in the log, or tells r why there is no such event.
	change(r *reading) event.Change
}
