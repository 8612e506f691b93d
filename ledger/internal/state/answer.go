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

// Answers is all recorded answers to one query about one panel, in rising order of ε.
type Answers []AnswerLevel

// AnswerLevel is one recorded answer.
type AnswerLevel struct {
	Epsilon privacy.Epsilon // its cost, including the levels below it that it was raised from
	event.Result
	Event uint64 // the event that recorded it
	// Began is the event of the fresh answer that it was raised or derived from; its own event if
	// it is fresh.
	Began uint64 `audit:"the first event of the answers"`
	// Objects is the size of the panel of the answer. Answers to a partial request may have
	// different panels.
	Objects uint64 `audit:"the number of objects"`
}

// AsScore returns the answer in the form that package mechanism raises. The answer must be a score.
func (l AnswerLevel) AsScore() mechanism.Score {
	return mechanism.Score{Epsilon: l.Epsilon, Value: l.Score}
}

// Find returns the index of the answer at exactly this ε, and true. If there is none, it returns
// the index where the answer would be inserted, and false.
func (a Answers) Find(epsilon privacy.Epsilon) (place int, recorded bool) {
	return slices.BinarySearchFunc(a, epsilon, func(l AnswerLevel,
		e privacy.Epsilon) int {
		return l.Epsilon.Compare(e)
	})
}

// Below returns the highest answer below an ε that continues the same fresh answer as other: both
// have the same Began. It returns false if there is none.
func (a Answers) Below(epsilon privacy.Epsilon, other AnswerLevel) (AnswerLevel, bool) {
	for _, l := range slices.Backward(a) {
		if l.Epsilon.Less(epsilon) && l.Began == other.Began {
			return l, true
		}
	}
	return AnswerLevel{}, false
}

// Top returns the highest answer, or the zero value if there is none.
func (a Answers) Top() AnswerLevel {
	if len(a) == 0 {
		return AnswerLevel{}
	}
	return a[len(a)-1]
}

// Best returns the answer at an ε or, if there is none, the lowest answer above it. It returns
// false if all answers are below the ε.
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
	const smallest = 6 // of an answer, in bytes
	wire.List(x, (*[]AnswerLevel)(a), smallest, func(l *AnswerLevel) {
		x.Epsilon(&l.Epsilon)
		l.Result.Fields(x)
		x.Uvarint(&l.Event, &l.Began, &l.Objects)
	})
}

// Encode returns the payload of the record.
func (a Answers) Encode() []byte { return wire.Encode(&a) }

// DecodeAnswers decodes what [Answers.Encode] returns.
func DecodeAnswers(payload []byte) (Answers, error) { return wire.Decode[Answers](payload) }

// AnswerKey returns the key of the record of answers to a query about a panel. It has the number of
// the question in 4 bytes, the digest of the panel, and the text of the query.
func AnswerKey(question uint32, query string, panel [sha256.Size]byte) []byte {
	key := binary.BigEndian.AppendUint32(nil, question)
	return append(append(key, panel[:]...), query...)
}

// Answers returns the answers to a query about a panel, by the key that [AnswerKey] returns. The
// bool is false if there are none.
func (s *State) Answers(key []byte) (Answers, bool, error) {
	return Lookup(s, BucketAnswers, key, DecodeAnswers)
}

// LeftOutOf returns the refusals of the objects that the request of a recorded answer refused, and
// so left out of its panel. Objects that were forgotten since then are omitted.
func (s *State) LeftOutOf(a AnswerLevel) (left []api.Refusal, err error) {
	all, err := s.LeftOutAt(a.Event)
	for _, c := range all {
		if c.Object != "" {
			left = append(left, c.Refusal)
		}
	}
	return left, err
}

// LeftOutAt returns the refusals of the request that an answer was recorded for. answer is the
// event of the answer. The refusals are the next events, up to the settled event of the request.
// Those of forgotten objects are included, with an empty Object. It returns [errs.ErrCorrupt] if no
// settled event follows.
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
			return nil, errs.Corrupt(nil, "the answer of event %d is not settled", answer)
		}
	}
	return nil, errs.Corrupt(nil, "the answer of event %d is not settled", answer)
}
