package state

import (
	"bytes"
	"cmp"
	"encoding/binary"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// QuestionsOf returns the numbers of the questions that an object is or was enrolled in, in rising
// order.
func (s *State) QuestionsOf(name string) (numbers []uint32, err error) {
	prefix := ObjectKey(name)
	// Questions are numbered from 1.
	err = s.Scan(BucketObjects, MemberKey(name, 1), func(key, _ []byte) bool {
		if len(key) != len(prefix)+4 || string(key[:len(prefix)]) != string(prefix) {
			return false
		}
		numbers = append(numbers, binary.BigEndian.Uint32(key[len(prefix):]))
		return true
	})
	return numbers, err
}

// Listed is an object with the numbers of the questions that it is or was enrolled in.
type Listed struct {
	Name      string   // as it was enrolled
	Object             // its record
	Questions []uint32 // rising
}

// ObjectsAfter returns the objects after a name, with their questions. It reads about the given
// number of records: each object has one, and one for each of its questions. It returns at least
// one object if there is any. last reports whether no more objects follow.
func (s *State) ObjectsAfter(name string, records int) (all []Listed, last bool, err error) {
	from := []byte(name)
	if name != "" {
		from = append(from, 1) // all keys of an object continue with a zero byte
	}
	var fault error
	var sums wire.Sums
	last = true
	err = s.Scan(BucketObjects, from, func(key, value []byte) bool {
		records--
		name, member, _ := bytes.Cut(key, []byte{0})
		if len(member) > 0 {
			n := len(all) - 1
			if len(member) != 4 || n < 0 || all[n].Name != string(name) {
				fault = errs.Corrupt(nil, "a record in bucket objects has the invalid key %x", key)
				return false
			}
			all[n].Questions = append(all[n].Questions, binary.BigEndian.Uint32(member))
			return true
		}
		// A new object begins. It is left out if enough records were read, so that each object has
		// all its questions.
		if last = records >= 0 || len(all) == 0; !last {
			return false
		}
		one := Listed{Name: string(name)}
		payload, failed := sums.Unseal(BucketObjects, key, value)
		if fault = failed; fault == nil {
			one.Object, _, fault = decodePayload(BucketObjects, key, payload, DecodeObject)
		}
		all = append(all, one)
		return fault == nil
	})
	return all, last, cmp.Or(err, fault)
}

// IsOut reports whether an object has withdrawn from every question that it was enrolled in.
func (s *State) IsOut(name string, o Object) (bool, error) {
	numbers, err := s.QuestionsOf(name)
	for _, number := range numbers {
		c, found, err := s.Chain(number, name)
		if err != nil || !found {
			return false, errs.Corrupt(err, "object %q: its chain in question %d is missing", name, number)
		}
		if !o.Withdrew(c) {
			return false, nil
		}
	}
	return true, err
}

// WriteMember records that an object is enrolled in a question. The key has both; the value repeats
// the question.
func (s *State) WriteMember(name string, question uint32) error {
	k := s.Buffer.Key()
	k.Buf = AppendMemberKey(k.Buf, name, question)
	s.Buffer.Value().U32(question)
	return s.Write(BucketObjects)
}

// ReadObjects reads the records of the objects that the members name into Object, and sets Known.
// Known stays false for an object that does not exist. The names must be in rising order. Usually
// their records are close together, and one scan reads them all. If an object is missing, or too
// many other records are in between, the remaining objects are looked up one by one.
func (s *State) ReadObjects(members []Member) error {
	// next is the index of the first member not read yet. others counts records of other objects
	// and of memberships.
	next, others := 0, 0
	var fault error
	var sums wire.Sums
	if len(members) == 0 {
		return nil
	}
	err := s.Scan(BucketObjects, ObjectKey(members[0].Name), func(key, value []byte) bool {
		m := &members[next]
		if name, is := bytes.CutSuffix(key, []byte{0}); !is || string(name) != m.Name {
			// All keys of the object are below m.Name+"\x01". A key that is not means that the
			// object does not exist.
			others++
			return others < maxOthers*len(members) && string(key) < m.Name+"\x01"
		}
		payload := value
		if !s.Plain {
			payload, fault = sums.Unseal(BucketObjects, key, value)
		}
		if fault == nil {
			m.Object, m.Known, fault = decodePayload(BucketObjects, key, payload, DecodeObject)
		}
		next++
		return fault == nil && next < len(members)
	})
	if err != nil || fault != nil {
		return cmp.Or(err, fault)
	}
	for ; next < len(members); next++ {
		m := &members[next]
		if m.Known, err = s.ReadObject(m.Name, &m.Object); err != nil {
			return err
		}
	}
	return nil
}

// maxOthers is how many other records are skipped for each object that is read. To look an object
// up costs about as much.
const maxOthers = 6
