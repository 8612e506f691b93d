package event

// The limits below bound the work per event. A ledger stores the chain of an object and a question
// as one record, which each event about it rewrites. It reads the open reservations of an object
// for each request that may spend its budget. At these limits, the events with the most work per
// byte were measured. They took up to 0.8 µs of processor time for each byte of log in a running
// ledger, and up to 0.35 µs in an audit.

// MaxEntries is the maximum number of entries in the chain of an object and a question, over all
// its epochs. The entries are the levels, the buyers of each level, and the epochs that have
// ended. In unary encoding, each level counts one more for every BitsPerEntry values of the
// question.
const MaxEntries = 1 << 10

// BitsPerEntry is how many bits of a response in unary encoding count as one more entry.
const BitsPerEntry = 256

// MaxReservations is the maximum number of open reservations of an object.
const MaxReservations = 1 << 7

// MaxUnaryValues is the maximum number of values of a question in unary encoding. Every response
// needs a bit and a draw for each value. For longer lists, such as strings, use package
// rrchain/rappor.
const MaxUnaryValues = 1 << 12

// MaxDocument is the maximum size of a receipt or statement that is read, in bytes.
const MaxDocument = 1 << 30

// ReceiptFormat and StatementFormat are the first field of every receipt and statement. They
// contain the version of the format.
const (
	ReceiptFormat   = "sluice receipt 4"
	StatementFormat = "sluice statement 4"
)

// MaxWhy is the maximum length of Refusal.Why, in bytes.
const MaxWhy = 512
