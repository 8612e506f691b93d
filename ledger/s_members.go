package ledger

import (
	"encoding/binary"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// questionsOf returns the numbers of the questions an object is, or was, enrolled in.
func (s *state) questionsOf(name string) (numbers []uint32, err error) {
	prefix := objectKey(name)
	err = s.Scan(bucketObjects, memberKey(name, 1), func(key, _ []byte) bool {
		if len(key) != len(prefix)+4 || string(key[:len(prefix)]) != string(prefix) {
			return false
		}
		numbers = append(numbers, binary.BigEndian.Uint32(key[len(prefix):]))
		return true
	})
	return numbers, err
}

// isOut tells whether an object takes part in nothing any more.
func (s *state) isOut(name string, o object) (bool, error) {
	numbers, err := s.questionsOf(name)
	for _, number := range numbers {
		c, found, err := s.chain(number, name)
		if err != nil || !found {
			return false, errs.Corrupt(err, "object %q has lost its chain in question %d", name, number)
		}
		if !o.withdrew(c) {
			return false, nil
		}
	}
	return true, err
}
