package state

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// LeftOutOf returns whom a recorded answer left out, without those forgotten since.
func (s *State) LeftOutOf(a AnswerLevel) (left []vocabulary.Refusal, err error) {
	all, err := s.LeftOutAt(a.Event)
	for _, c := range all {
		if c.Object != "" {
			left = append(left, c.Refusal)
		}
	}
	return left, err
}

// LeftOutAt returns the refusals, erased ones too, of the request that an answer was recorded for: the event that settled
// it follows.
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

// AnswerKey is where the answers to a query about a panel are kept.
func AnswerKey(question uint32, query string, panel [sha256.Size]byte) []byte {
	key := binary.BigEndian.AppendUint32(nil, question)
	return append(append(key, panel[:]...), query...)
}
