// Package event has the events of a ledger's log, as hosts and verifiers read them. An [Event] has
// a number, a time and a [Detail], which is one of the types of this package: one for each kind.
//
//	for ev, err := range l.Watch(ctx, last+1) {
//		if err != nil {
//			return err
//		}
//		switch d := ev.Says.(type) {
//		case event.Released:
//			...
//		case event.Forgotten:
//			...
//		}
//	}
//
// Package ledger returns events, and has [Event] under the same name. A statement of package
// evidence has the same details as pointers, with proofs. This package links no database.
//
// Questions, buyers and noise keys are given by their names. Prices are in minor units of the
// ledger's currency. Sales and reservations share their numbers: a reservation and its sale have
// the same.
//
// # Forgotten objects
//
// When an object is forgotten, events about it stay where they are, without what they said:
// [Event.Erased] is true, and the fields of the detail are zero. Three kinds keep more: [Held] and
// [Sold] all but the object and its response, [Settled] all but the object.
//
// # JSON
//
// An event is one flat object: the keys event, time, kind and, of an erased event, erased; then
// those of its detail. Empty texts and lists are left out, and so are a sale's number and counts of
// objects that are 0. Later versions may add kinds and keys; none is renamed, or gets another
// meaning. A kind or key that this version does not know is refused when it is read, so that
// nothing is lost.
//
// A detail has more fields than keys: a statement has the others too, and so has an event that
// package ledger returns in the process of the ledger. An event that was read from JSON has them
// zero.
package event
