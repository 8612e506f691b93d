// Package state has the records of the ledger, as types over ordered keys (package kv). It defines
// what each record means; package fold changes them. The package depends on event and kv.
//
// # Records
//
// A [State] is the ledger inside one transaction or snapshot. Each bucket has records of one type,
// under keys that this package computes:
//
//	meta        the format, the first event (event.About), the Counters, checks of keys
//	questions   event.Question by number; the number by name
//	policies    policy.Policy by number; the number by hash
//	objects     Object by name, followed by the questions that it is enrolled in
//	chains      Chain by question and object
//	answers     Answers by question, panel and query
//	requests    Request by idempotency key
//	buyers      Buyer by number; the number by name
//	sales       Sale by number, including reservations
//	orders      the number of a sale by its buyer and its ordinal among the buyer's orders
//	events      event.Entry by number
//	tallies     Tally by question, ε and response
//	strangers   Stranger by name
//
// A record that is damaged, or that refers to a missing record, is [errs.ErrCorrupt]. Stored values
// have checksums ([wire.Seal]), except those in the memory of an audit ([State.Plain]). Amounts of
// ε are in nano-nats, and prices in minor units of the currency. A number that refers to a record
// is 0 for "none".
//
// # Memory
//
// A record is encoded in the [Buffer], which is reused. It is copied from there only if the store
// does not copy it ([State.Copied]). A transaction of many records thus allocates seldom.
//
// Decoded [Tally] records are kept until [State.FlushTallies], because a transaction of many draws
// changes the same few tallies.
//
// Questions and policies never change, so a [Cache] keeps them beyond the transaction.
package state
