package state

import (
	"encoding/binary"
)

// The buckets of the file. The documentation of the package describes their records.
const (
	BucketMeta      = "meta"
	BucketQuestions = "questions"
	BucketPolicies  = "policies"
	BucketObjects   = "objects"
	BucketChains    = "chains"
	BucketAnswers   = "answers"
	BucketRequests  = "requests"
	BucketBuyers    = "buyers"
	BucketSales     = "sales"
	BucketOrders    = "orders"
	BucketEvents    = "events"
	BucketTallies   = "tallies"
	BucketStrangers = "strangers"
)

// The keys of the bucket meta.
const (
	KeyFormat   = "format"    // [FormatName] and the version in 2 bytes
	KeyAbout    = "about"     // [event.About]
	KeyCounters = "counters"  // [Counters]
	KeyTruthKey = "truth key" // the tag by which the truth key is recognized
	KeyJournal  = "journal"   // the name of the journal of the open ledger
	KeyPlace    = "place"     // which files the ledger was in when they were last written
	KeyNoise    = "noise"     // followed by the number of a noise key
)

// OfFile reports whether a record describes the file that it is in. No event leads to such a
// record.
func OfFile(bucket string, key []byte) bool {
	return bucket == BucketMeta && (string(key) == KeyJournal || string(key) == KeyPlace)
}

// EventKey returns the key of an event, or of a sale: its number in 8 bytes, big-endian, so that
// keys sort by number.
func EventKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// NameKey returns the key under which the number of a question or buyer is stored. The first byte
// distinguishes it from [NumberKey].
func NameKey(name string) []byte { return append([]byte("n"), name...) }

// NumberKey returns the key of a question or buyer.
func NumberKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte("q"), number)
}

// PolicyJSONKey returns the key under which the number of a policy is stored, by the hash of its
// canonical JSON.
func PolicyJSONKey(hash [32]byte) []byte { return append([]byte("h"), hash[:]...) }

// PolicyNumberKey returns the key of a policy.
func PolicyNumberKey(number uint32) []byte { return binary.BigEndian.AppendUint32([]byte("p"), number) }

// OrderKey returns the key under which the number of a sale or reservation is stored, by its
// ordinal among the orders of its buyer.
func OrderKey(buyer uint32, ordinal uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, buyer), ordinal)
}

// ObjectKey returns the key of an object. It ends with a zero byte, which no name contains. The
// records of an object are thus adjacent, and no key is a prefix of another object's key.
func ObjectKey(name string) []byte {
	return AppendObjectKey(make([]byte, 0, len(name)+5), name) // with capacity for a question
}

// AppendObjectKey appends [ObjectKey] to key.
func AppendObjectKey(key []byte, name string) []byte { return append(append(key, name...), 0) }

// MemberKey returns the key of an object's membership in a question. It directly follows the key of
// the object.
func MemberKey(name string, question uint32) []byte {
	return AppendMemberKey(make([]byte, 0, len(name)+5), name, question)
}

// AppendMemberKey appends [MemberKey] to key.
func AppendMemberKey(key []byte, name string, question uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendObjectKey(key, name), question)
}

// ChainKey returns the key of a chain. The chains of a question are adjacent, in the order of their
// objects' names.
func ChainKey(question uint32, name string) []byte {
	return AppendChainKey(make([]byte, 0, 4+len(name)), question, name)
}

// AppendChainKey appends [ChainKey] to key.
func AppendChainKey(key []byte, question uint32, name string) []byte {
	return append(binary.BigEndian.AppendUint32(key, question), name...)
}
