package state

import (
	"encoding/binary"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// QuestionsOf returns the numbers of the questions an object is, or was, enrolled in.
func (s *State) QuestionsOf(name string) (numbers []uint32, err error) {
	prefix := ObjectKey(name)
	err = s.Scan(BucketObjects, MemberKey(name, 1), func(key, _ []byte) bool {
		if len(key) != len(prefix)+4 || string(key[:len(prefix)]) != string(prefix) {
			return false
		}
		numbers = append(numbers, binary.BigEndian.Uint32(key[len(prefix):]))
		return true
	})
	return numbers, err
}

// IsOut tells whether an object takes part in nothing any more.
func (s *State) IsOut(name string, o Object) (bool, error) {
	numbers, err := s.QuestionsOf(name)
	for _, number := range numbers {
		c, found, err := s.Chain(number, name)
		if err != nil || !found {
			return false, errs.Corrupt(err, "object %q has lost its chain in question %d", name, number)
		}
		if !o.Withdrew(c) {
			return false, nil
		}
	}
	return true, err
}

// WriteMember lists a question of an object.
func (s *State) WriteMember(name string, question uint32) error {
	k := s.Buffer.Key()
	k.Buf = AppendMemberKey(k.Buf, name, question)
	s.Buffer.Value().U32(question)
	return s.Write(BucketObjects)
}
