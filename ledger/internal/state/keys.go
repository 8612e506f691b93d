package state

import (
	"encoding/binary"
)

// The buckets of the file; the documentation of the package says what is in each.
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
	KeyFormat   = "format"    // [FormatName] and the version, 2 bytes
	KeyAbout    = "about"     // [event.About]
	KeyCounters = "counters"  // [Counters]
	KeyTruthKey = "truth key" // the check of the key
	KeyJournal  = "journal"   // the name of the journal that the ledger has while it is open
	KeyPlace    = "place"     // which files it was in when they were last written to
	KeyNoise    = "noise"     // with a number behind it
)

// OfFile tells whether a record is about the file that it is in, and follows from no event.
func OfFile(bucket string, key []byte) bool {
	return bucket == BucketMeta && (string(key) == KeyJournal || string(key) == KeyPlace)
}

// EventKey is the key of an event, or of a sale.
func EventKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// NameKey is the key of the number of a question or buyer. A name and a number are told apart by
// their first byte.
func NameKey(name string) []byte { return append([]byte("n"), name...) }

// NumberKey is the key of a question or buyer.
func NumberKey(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte("q"), number)
}

// PolicyJSONKey is the key of the number of a policy, by the hash of its canonical JSON.
func PolicyJSONKey(hash [32]byte) []byte { return append([]byte("h"), hash[:]...) }

// PolicyNumberKey is the key of a policy.
func PolicyNumberKey(number uint32) []byte { return binary.BigEndian.AppendUint32([]byte("p"), number) }

// OrderKey is the key of the number of a sale or reservation, by its place among those of its
// buyer.
func OrderKey(buyer uint32, ordinal uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, buyer), ordinal)
}

// ObjectKey ends with a zero byte, which no name contains, so that the records of an object stand
// together and no name is the beginning of another's.
func ObjectKey(name string) []byte {
	return AppendObjectKey(make([]byte, 0, len(name)+5), name) // with room for a question
}

// AppendObjectKey appends [ObjectKey].
func AppendObjectKey(key []byte, name string) []byte { return append(append(key, name...), 0) }

// MemberKey lists a question of an object right behind the object.
func MemberKey(name string, question uint32) []byte {
	return AppendMemberKey(make([]byte, 0, len(name)+5), name, question)
}

// AppendMemberKey appends [MemberKey].
func AppendMemberKey(key []byte, name string, question uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendObjectKey(key, name), question)
}

// ChainKey puts all chains of a question together, in the order of the objects' names.
func ChainKey(question uint32, name string) []byte {
	return AppendChainKey(make([]byte, 0, 4+len(name)), question, name)
}

// AppendChainKey appends [ChainKey].
func AppendChainKey(key []byte, question uint32, name string) []byte {
	return append(binary.BigEndian.AppendUint32(key, question), name...)
}
