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

// ReadEntry returns the event with a number. If the event does not match its stored leaf, the error
// is [errs.ErrCorrupt].
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

// proven returns the event's number, salt and leaf, which prove its place in the log.
func (e Entry) proven() evidence.Proven {
	return evidence.Proven{Event: e.Number, Salt: e.Salt[:], Leaf: e.Leaf}
}

// Facts returns events in the form of a statement. Events that others refer to must come before
// them. The error is the first fault. An event of a kind that statements do not have gets no
// content. An event with an undefined reference gets incomplete content.
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
		case err != nil:
		case fault != nil || undefined != nil:
			err = errs.Corrupt(nil, "event %d: %v", ev.Number, cmp.Or(fault, undefined))
		case says == nil:
			err = errs.Corrupt(nil, "event %d: a statement has no event of the kind %s", ev.Number, ev.Change.Kind())
		}
	}
	return facts, err
}

// NewStatement returns the statement about an object. events are those about the object and those
// that they refer to, in order. proof proves that they are in the log of the signed checkpoint. If
// the events cannot form a statement, the error is [errs.ErrCorrupt].
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
