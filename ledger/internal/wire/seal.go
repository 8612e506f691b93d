package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// SumLength is how many bytes of a stored value are its checksum, which ends it.
const SumLength = 4

// Seal appends to a payload the CRC-32C of bucket, key and payload. With the key in it, a record that
// turns up under another key is noticed as well as one with a flipped bit.
func Seal(bucket string, key, payload []byte) []byte {
	return binary.BigEndian.AppendUint32(payload, checksum(bucket, key, payload))
}

// Unseal checks the checksum of a stored value and returns the payload before it, which shares its
// memory. A value that is too short or has another sum is [errs.ErrCorrupt].
func Unseal(bucket string, key, value []byte) ([]byte, error) {
	return new(Sums).Unseal(bucket, key, value)
}

// Sums remembers how the last checksums began: many records in a row are of few buckets, with keys of
// one length. The zero value is ready.
type Sums struct {
	heads [4]sumHead
	next  int // the one to be given up next
}

type sumHead struct {
	bucket string
	length int // of the key
	head   uint32
}

// Unseal is [Unseal] for one record of many.
func (h *Sums) Unseal(bucket string, key, value []byte) ([]byte, error) {
	n := len(value) - SumLength
	if n < 0 {
		return nil, fmt.Errorf("%w: record %x in %s is too short", errs.ErrCorrupt, key, bucket)
	}
	payload := value[:n:n]
	if binary.BigEndian.Uint32(value[n:]) != h.checksum(bucket, key, payload) {
		return nil, fmt.Errorf("%w: checksum of record %x in %s", errs.ErrCorrupt, key, bucket)
	}
	return payload, nil
}

func checksum(bucket string, key, payload []byte) uint32 {
	return new(Sums).checksum(bucket, key, payload)
}

// checksum returns what [Seal] appends.
func (h *Sums) checksum(bucket string, key, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(h.Head(bucket, len(key)), table, key), table, payload)
}

// Head returns how the checksum begins for a record of a bucket whose key has so many bytes.
func (h *Sums) Head(bucket string, keyLength int) uint32 {
	for i := range h.heads {
		if k := &h.heads[i]; k.length == keyLength && k.bucket == bucket {
			return k.head
		}
	}
	k := &h.heads[h.next]
	h.next = (h.next + 1) % len(h.heads)
	*k = sumHead{bucket, keyLength, ChecksumHead(bucket, keyLength)}
	return k.head
}

// ChecksumHead begins the checksums of all records of a bucket whose keys have so many bytes. It takes
// bucket and length byte by byte, as crc32 does where it has no instruction for it: so nothing is
// allocated to put them together.
func ChecksumHead(bucket string, keyLength int) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	crc := ^uint32(0)
	for i := range len(bucket) {
		crc = table[byte(crc)^bucket[i]] ^ crc>>8
	}
	for shift := 24; shift >= 0; shift -= 8 {
		crc = table[byte(crc)^byte(keyLength>>shift)] ^ crc>>8
	}
	return ^crc
}
