package state

import (
	"encoding/binary"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Payload returns the payload of a record, or nil if there is none. It checks the checksum unless
// the state is Plain. The result is valid until the transaction ends.
func (s *State) Payload(bucket string, key []byte) ([]byte, error) {
	value, err := s.Get(bucket, key)
	if err != nil || value == nil || s.Plain {
		return value, err
	}
	return s.Buffer.head.Unseal(bucket, key, value)
}

// Put writes a record, with a checksum unless the state is Plain. The caller must not change the
// key afterwards.
func (s *State) Put(bucket string, key, payload []byte) error {
	if s.Plain {
		return s.Writer.Put(bucket, key, payload)
	}
	return s.Writer.Put(bucket, key, wire.Seal(bucket, key, payload))
}

// PutNumber writes a record that is a number of 4 bytes.
func (s *State) PutNumber(bucket string, key []byte, number uint32) error {
	return s.Put(bucket, key, binary.BigEndian.AppendUint32(nil, number))
}

// Lookup returns the decoded record with a key. If there is none, it returns the zero value, and
// found is false.
func Lookup[T any](
	s *State, bucket string, key []byte, decode func([]byte) (T, error),
) (record T, found bool, err error) {
	payload, err := s.Payload(bucket, key)
	if err != nil || payload == nil {
		return record, false, err
	}
	return decodePayload(bucket, key, payload, decode)
}

// DecodeRecord checks the checksum of a stored value and decodes its payload. found is false if the
// value is nil.
func DecodeRecord[T any](
	bucket string, key, value []byte, decode func([]byte) (T, error),
) (record T, found bool, err error) {
	if value == nil {
		return record, false, nil
	}
	payload, err := wire.Unseal(bucket, key, value)
	if err != nil {
		return record, false, err
	}
	return decodePayload(bucket, key, payload, decode)
}

// decodePayload decodes the payload of a record. Its error has the key and the bucket.
func decodePayload[T any](
	bucket string, key, payload []byte, decode func([]byte) (T, error),
) (record T, found bool, err error) {
	if record, err = decode(payload); err != nil {
		return record, false, fmt.Errorf("record %x in %s: %w", key, bucket, err)
	}
	return record, true, nil
}

// DecodeNumber32 decodes a record that is a number of 4 bytes.
func DecodeNumber32(payload []byte) (uint32, error) {
	d := &wire.Decoder{Rest: payload}
	return d.U32(), d.Done()
}

// DecodeNumber64 decodes a record that is a number of 8 bytes.
func DecodeNumber64(payload []byte) (uint64, error) {
	d := &wire.Decoder{Rest: payload}
	return d.U64(), d.Done()
}
