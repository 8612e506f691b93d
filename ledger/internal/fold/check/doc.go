// Package check refuses events that no ledger can have written after those before them: one that
// spends more than a cap or a ceiling allows, a raise that no truth is bound to, a sale that is not
// the sum of its objects, a refusal for what is not so. Each such event is [errs.ErrCorrupt], with
// the reason.
//
// There is a function for each kind of event. It reads the state before the event, and returns what
// it found there for package fold, which does what the event says. Commits, recovery and audits run
// the same checks.
//
// What a request says of itself at its end is compared with what its events came to. Until then
// they are summed up in the counters ([state.Underway], [state.Charges], [state.Answering],
// [state.Opened] and [state.Erasure]), which are empty between transactions. These sums are all
// that this package changes. Where events are erased, only what they left can be compared.
package check
