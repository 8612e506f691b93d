// Package check refuses events that no ledger can have written after the events before them. The
// error is [errs.ErrCorrupt], with the reason. Examples of such events:
//
//   - a charge that exceeds a cap or a ceiling
//   - a raise of a chain that is not bound to a true value
//   - a sale that is not the sum of its objects
//   - a refusal for a reason that does not apply
//
// There is a function for each kind of event. It reads the state before the event. It returns what
// it found to package fold, which applies the event. Commits, recovery and audits run the same
// checks.
//
// The last event of a request, or of a part of one, is compared with its other events. These are
// summed up in the counters ([state.InProgress], [state.Charges], [state.Answering], [state.Opened]
// and [state.Erasure]), which are empty between transactions. This package changes nothing else. Of
// erased events, only the public parts can be compared.
package check
