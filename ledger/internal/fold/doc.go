// Package fold defines what each event does to the state. [Apply] is the only code that changes the
// state: recording, recovery and audit fold events with it. It is pure. It uses no clock,
// randomness or key, because the event has all their results.
//
// Before an event is applied, package check compares it with the state. An event that no ledger can
// have written after the events before it is [errs.ErrCorrupt]. The functions in this package check
// nothing.
//
// [Record] creates new events: it numbers and salts the changes of a request, applies them, appends
// them to the log, and erases the events that they destroy. Events of a journal are read with
// [Reader] and added again with [Restore]. [Flush] writes what a transaction keeps in memory.
//
// The package depends on state and check. Package request decides which events a request yields.
package fold
