package state

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
)

// Answers is everything answered to one query about one panel, by rising ε.
type Answers []AnswerLevel

// AnswerLevel is one answer.
type AnswerLevel struct {
	Epsilon privacy.Epsilon // what it cost, with those below
	event.Result
	Event uint64 // that recorded it
	// Began is the event of the fresh answer that it was raised or derived from, or its own
	Began uint64 `audit:"the first event of the answers"`
	// Objects is the size of the panel it is about: that of a partial request may have become
	// another by the time of the next answer.
	Objects uint64 `audit:"the number of objects"`
}

// AsScore returns the answer as package mechanism raises it. It must be a score.
func (l AnswerLevel) AsScore() mechanism.Score {
	return mechanism.Score{Epsilon: l.Epsilon, Value: l.Score}
}

// Find returns the place of an answer, or where it would stand.
func (a Answers) Find(epsilon privacy.Epsilon) (place int, recorded bool) {
	return slices.BinarySearchFunc(a, epsilon, func(l AnswerLevel,
		e privacy.Epsilon) int {
		return l.Epsilon.Compare(e)
	})
}

// Below returns the highest answer below an ε that has the same beginning as another, or none.
func (a Answers) Below(epsilon privacy.Epsilon, other AnswerLevel) (AnswerLevel, bool) {
	for _, l := range slices.Backward(a) {
		if l.Epsilon.Less(epsilon) && l.Began == other.Began {
			return l, true
		}
	}
	return AnswerLevel{}, false
}

// Top returns the highest answer, or none.
func (a Answers) Top() AnswerLevel {
	if len(a) == 0 {
		return AnswerLevel{}
	}
	return a[len(a)-1]
}

// Best returns the answer at an ε or, if there is none, the lowest above it.
func (a Answers) Best(epsilon privacy.Epsilon) (AnswerLevel, bool) {
	for _, l := range a {
		if !l.Epsilon.Less(epsilon) {
			return l, true
		}
	}
	return AnswerLevel{}, false
}

// Fields implements [wire.Record].
func (a *Answers) Fields(x wire.Codec) {
	const smallest = 6 // bytes of an answer
	wire.List(x, (*[]AnswerLevel)(a), smallest, func(l *AnswerLevel) {
		x.Epsilon(&l.Epsilon)
		l.Result.Fields(x)
		x.Uvarint(&l.Event, &l.Began, &l.Objects)
	})
}

// Encode returns the payload of the record.
func (a Answers) Encode() []byte { return wire.Encode(&a) }

// DecodeAnswers reads what [Answers.Encode] writes.
func DecodeAnswers(payload []byte) (Answers, error) { return wire.Decode[Answers](payload) }

// AnswerKey is where the answers to a query about a panel are kept.
func AnswerKey(question uint32, query string, panel [sha256.Size]byte) []byte {
	key := binary.BigEndian.AppendUint32(nil, question)
	return append(append(key, panel[:]...), query...)
}

// Answers returns the answers to a query about a panel: see [AnswerKey].
func (s *State) Answers(key []byte) (Answers, bool, error) {
	return Lookup(s, BucketAnswers, key, DecodeAnswers)
}

// LeftOutOf returns whom a recorded answer left out, without those forgotten since.
func (s *State) LeftOutOf(a AnswerLevel) (left []api.Refusal, err error) {
	all, err := s.LeftOutAt(a.Event)
	for _, c := range all {
		if c.Object != "" {
			left = append(left, c.Refusal)
		}
	}
	return left, err
}

// LeftOutAt returns the refusals, erased ones too, of the request that an answer was recorded for:
// the event that settled it follows.
func (s *State) LeftOutAt(answer uint64) ([]*event.ObjectRefused, error) {
	for number := answer + 1; number <= s.Counters.Events; number++ {
		ev, err := s.Event(number)
		if err != nil {
			return nil, err
		}
		switch end := ev.Change.(type) {
		case *event.Settled:
			return s.RefusedBefore(number, end.Refused)
		case *event.ObjectRefused:
		default:
			return nil, errs.Corrupt(nil, "the answer of event %d was never settled", answer)
		}
	}
	return nil, errs.Corrupt(nil, "the answer of event %d was never settled", answer)
}
