package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// SumLength is the length in bytes of the checksum at the end of a stored value.
const SumLength = 4

// Seal appends to a payload the CRC-32C of bucket, length of the key, key and payload. Because the
// key is included, the checksum detects a record under the wrong key as well as a flipped bit.
func Seal(bucket string, key, payload []byte) []byte {
	return binary.BigEndian.AppendUint32(payload, checksum(bucket, key, payload))
}

// Unseal checks the checksum of a stored value and returns the payload before it, which shares its
// memory. A value that is too short or has another checksum is [errs.ErrCorrupt].
func Unseal(bucket string, key, value []byte) ([]byte, error) {
	return new(Sums).Unseal(bucket, key, value)
}

// Sums caches the first part of checksums, which depends on the name of the bucket and the length
// of the key. Many records in a row have the same of both. The zero value is ready for use. It must
// not be used concurrently.
type Sums struct {
	heads [4]sumHead // an unused entry has no bucket; every bucket has a name
	next  int        // the entry to replace next
}

// sumHead is the checksum over a bucket and the length of a key.
type sumHead struct {
	bucket string
	length int // of the key
	head   uint32
}

// Unseal is the function [Unseal] with the cache.
func (h *Sums) Unseal(bucket string, key, value []byte) ([]byte, error) {
	n := len(value) - SumLength
	if n < 0 {
		return nil, fmt.Errorf("%w: record %x in %s is too short", errs.ErrCorrupt, key, bucket)
	}
	payload := value[:n:n]
	if binary.BigEndian.Uint32(value[n:]) != h.checksum(bucket, key, payload) {
		return nil, fmt.Errorf("%w: wrong checksum of record %x in %s", errs.ErrCorrupt, key, bucket)
	}
	return payload, nil
}

// checksum is [Sums.checksum] without a cache.
func checksum(bucket string, key, payload []byte) uint32 {
	return new(Sums).checksum(bucket, key, payload)
}

// checksum returns the checksum that [Seal] appends: the CRC-32C of the bucket, the length of the
// key, the key and the payload.
func (h *Sums) checksum(bucket string, key, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(h.Head(bucket, len(key)), table, key), table, payload)
}

// Head is [ChecksumHead] with the cache. If the cache has no such entry, it replaces the oldest
// one.
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

// ChecksumHead returns the CRC-32C of a bucket and the length of a key, as 4 bytes, big-endian. The
// checksums of all records with such keys in the bucket continue it.
//
// It computes the checksum byte by byte with the table, as crc32 does without hardware support. A
// call of crc32 needs one slice of both, which would be allocated. The algorithm starts with all
// bits set, and inverts the result.
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
