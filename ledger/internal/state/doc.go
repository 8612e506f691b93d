// Package state holds what the ledger knows, as typed records over ordered keys (package kv). What
// a record means is here; what changes it is in package fold. The package rests on event and kv.
//
// # Records
//
// A [State] is the ledger inside one transaction or snapshot. Each bucket has records of one type,
// under keys that this package makes:
//
//	meta        the format, the first event (event.About), the Counters, checks of keys
//	questions   event.Question by number; the number by name
//	policies    policy.Policy by number; the number by hash
//	objects     Object by name, and behind each the questions that it is enrolled in
//	chains      Chain by question and object
//	answers     Answers by question, panel and query
//	requests    Request by idempotency key
//	buyers      Buyer by number; the number by name
//	sales       Sale by number, reservations too
//	orders      the number of a sale by its buyer and its place among the buyer's
//	events      event.Entry by number
//	tallies     Tally by question, ε and response
//	strangers   Stranger by name
//
// A record that is damaged, or misses another that must be there, is [errs.ErrCorrupt]. Stored
// values have checksums ([wire.Seal]), but for those in the memory of an audit ([State.Plain]).
// Amounts of ε are in nano-nats, prices in minor units of the currency, and 0 stands for "none"
// wherever a number refers to something.
//
// # Memory
//
// A record is written out in the [Buffer], which is used again, and copied from there only if the
// store does not copy it ([State.Copied]). So a transaction of many records allocates seldom.
//
// [Tally] records are kept, decoded, until [State.FlushTallies]: a transaction of many draws
// changes the same few.
//
// Questions and policies never change, so a [Cache] keeps them beyond the transaction.
package state
