// Package fold says what each event does to the state. [Apply] is the only code that changes it:
// recording, recovery and audit are folds of the same function. It is pure. No clock, no chance and
// no key comes into it; all of that is in the event.
//
// Before an event does anything, package check compares it with the state: an event that no ledger
// can have written after those before it is [errs.ErrCorrupt]. The effects here check nothing.
//
// [Record] is how new events come into being: it numbers and salts the changes of a request,
// applies them and appends them to the log, and erases what they destroy. What was recorded before
// is read from a journal ([Reader]), and added again ([Restore]). [Flush] writes what was kept in
// memory.
//
// The package rests on state and check. Which events a request yields is decided above it.
package fold
