package documents

import (
	"cmp"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Entry is an event for a document, whole or erased, with its leaf in the log.
type Entry struct {
	event.Event
	Leaf tlog.Hash // as stored in the log's tree
}

// ReadEntry returns the event with a number, and its leaf as stored in the tree. If the event does
// not match that leaf, the error is [errs.ErrCorrupt].
func ReadEntry(s *state.State, number uint64) (Entry, error) {
	n, err := s.Entry(number)
	if err != nil {
		return Entry{}, err
	}
	leaf := n.Leaf()
	if leaf != n.Hashes[0] {
		return Entry{}, errs.Corrupt(nil, "event %d does not match its leaf in the tree", number)
	}
	return Entry{Event: n.Event, Leaf: leaf}, nil
}

// proven returns the number, salt and leaf of the event, which prove its place in the log.
func (e Entry) proven() evidence.Proven {
	return evidence.Proven{Event: e.Number, Salt: e.Salt[:], Leaf: e.Leaf}
}

// Facts returns a fact of a statement for each event. Events that others refer to must come before
// them.
//
// The facts are complete even if there is an error, which is the first fault: an event of a kind
// that statements do not have, a second definition of the same thing, or an undefined reference. An
// event of such a kind has a fact without content. An undefined reference leaves fields of its fact
// empty.
func Facts(events []Entry) (facts []evidence.Fact, err error) {
	facts = make([]evidence.Fact, 0, len(events))
	g := event.NewGlossary()
	for _, ev := range events {
		fault := g.Learn(ev.Event)
		says, undefined := event.DescribeFact(ev.Change, g)
		facts = append(facts, evidence.Fact{
			Event: ev.Number, Time: ev.Time, Says: says, Salt: ev.Salt[:], Leaf: ev.Leaf,
		})
		switch {
		case err != nil: // keep the first fault
		case fault != nil || undefined != nil:
			err = errs.Corrupt(nil, "event %d: %v", ev.Number, cmp.Or(fault, undefined))
		case says == nil:
			err = errs.Corrupt(nil, "event %d: a statement has no event of the kind %s", ev.Number, ev.Change.Kind())
		}
	}
	return facts, err
}

// NewStatement returns the statement about an object. events are those about the object and those
// that they refer to, in the order of the log. proof proves that they are in the log of checkpoint,
// a signed note. If the events cannot form a statement, the error is [errs.ErrCorrupt].
func NewStatement(object string, events []Entry, proof []tlog.Hash, checkpoint []byte) (evidence.Statement, error) {
	facts, err := Facts(events)
	if err != nil {
		return evidence.Statement{}, err
	}
	st := evidence.Statement{Object: object, Events: facts, Proof: proof, Checkpoint: string(checkpoint)}
	if err := st.Summarize(); err != nil {
		return evidence.Statement{}, err
	}
	return st, nil
}
