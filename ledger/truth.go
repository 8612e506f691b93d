package ledger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// TruthFunc is how the host tells true values when draws need them. It gets a batch of objects and
// returns one value for each, in the same order, or "" for an object it has none for. It is called
// outside of any transaction, so it may be slow, and it should stop when ctx ends; if it fails,
// nothing has changed. A value is kept no longer than the call that asked for it.
//
// One object's value must not change while its chain lives; see [Options.TruthKey].
type TruthFunc func(ctx context.Context, question string, objects []string) (values []string, err error)

// TruthOf is a TruthFunc for a single object whose value the host has at hand.
func TruthOf(value string) TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i := range values {
			values[i] = value
		}
		return values, nil
	}
}

// noTruth stands for "the host has no value" where the number of a value is expected.
const noTruth = -1

// ask returns the numbers of the objects' true values. An error says which object's value is not
// one of the question's, but never what it is.
func (q *question) ask(ctx context.Context, truth TruthFunc, objects []string) ([]int32, error) {
	if truth == nil {
		return nil, invalid("question %q: draws need true values, and the request has no source of them", q.name)
	}
	values, err := truth(ctx, q.name, objects)
	if err != nil {
		return nil, fmt.Errorf("question %q: source of true values: %w", q.name, err)
	}
	if len(values) != len(objects) {
		return nil, invalid("question %q: the source of true values returned %d of them for %d objects", q.name, len(values), len(objects))
	}
	numbers := make([]int32, len(values))
	for i, value := range values {
		number, known := q.index[value]
		switch {
		case known:
			numbers[i] = int32(number)
		case value == "":
			numbers[i] = noTruth
		default:
			return nil, invalid("question %q: the true value of object %q is not one of the question's values", q.name, objects[i])
		}
	}
	return numbers, nil
}

// tag is a truncated keyed hash.
type tag [16]byte

// binder makes the keyed hashes that bind a chain to the truth it began with. Without the key a
// hash tells nothing about the value, however few values there are.
type binder struct {
	key    []byte
	ledger [16]byte
}

// minTruthKey is the shortest truth key, in bytes.
const minTruthKey = 16

// check recognizes the key.
func (b *binder) check() tag { return b.hash("check", "", 0, 0) }

// truth binds the chain of an object and a question to the number of its true value.
func (b *binder) truth(object string, question uint32, value int) tag {
	return b.hash("truth", object, question, uint32(value))
}

func (b *binder) hash(use, object string, question, value uint32) (t tag) {
	mac := hmac.New(sha256.New, b.key)
	mac.Write([]byte("sluice " + use + " v1\x00"))
	mac.Write(b.ledger[:])
	mac.Write(binary.BigEndian.AppendUint32(nil, question))
	mac.Write(binary.BigEndian.AppendUint32(nil, value))
	mac.Write([]byte(object))
	copy(t[:], mac.Sum(nil))
	return t
}

func (t tag) equal(other tag) bool { return hmac.Equal(t[:], other[:]) }

// encodeTag writes a tag that may be absent.
func encodeTag(e *encoder, t *tag) {
	e.flag(t != nil)
	if t != nil {
		e.raw(t[:])
	}
}

func decodeTag(d *decoder) *tag {
	if !d.flag() {
		return nil
	}
	t := &tag{}
	d.array(t[:])
	return t
}
