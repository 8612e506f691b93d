// Package fold says what each event does to the state. [Apply] is the only code that changes it: recording, recovery and audit are folds of
// the same function. It is pure. No clock, no chance and no key comes into it; all of that is in the event.
//
// Apply also guards the log. An event that no ledger can have written behind those before it is
// [errs.ErrCorrupt]: one that spends more than a cap or a ceiling allows, a raise that no truth is bound to, a
// sale that is not the sum of its objects, a refusal for what is not so. What a request says of itself at its end is compared with what its
// events came to ([state.Underway]). Where events are erased, only what they left can be compared.
//
// [Record] is how new events come into being: it numbers and salts the changes of a request, applies them and appends them to the log, and
// erases what they destroy. What was recorded before is read from a journal ([Reader]), and added again ([Restore]). [Flush] writes what was
// kept in memory.
//
// The package rests on state and terms. Which events a request yields is decided above it.
package fold
