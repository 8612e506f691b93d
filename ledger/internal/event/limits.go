package event

// A ledger keeps the chain of an object and a question as one record, which each event about it
// rewrites, and reads the open reservations of an object for each request that may spend its
// budget. The limits below bound that work. At them, the events that are shortest for the work that
// they make took up to 0.8 µs of processor time for each byte of log live, and up to 0.35 µs in an
// audit.

// MaxEntries is how many entries the chain of an object in a question may have, over all its
// epochs. The entries are the levels, the buyers of each level, and the epochs that have ended. In
// unary encoding each level counts once more for each BitsPerEntry values of the question.
const MaxEntries = 1 << 10

// BitsPerEntry is how many bits of a response in unary encoding count as another entry.
const BitsPerEntry = 256

// MaxReservations is how many open reservations an object may be part of.
const MaxReservations = 1 << 7

// MaxUnaryValues is the largest number of values a question in unary encoding may have: every
// response takes a bit, and a draw, for each of them. For longer lists, strings say, there is
// package rrchain/rappor.
const MaxUnaryValues = 1 << 12

// MaxDocument is the largest size of a receipt or statement that is read, in bytes.
const MaxDocument = 1 << 30

// ReceiptFormat and StatementFormat are the first field of every receipt and statement. They name
// the version of its form.
const (
	ReceiptFormat   = "sluice receipt 4"
	StatementFormat = "sluice statement 4"
)

// MaxWhy is the longest Refusal.Why, in bytes.
const MaxWhy = 512
