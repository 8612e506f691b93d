// Package event has the events of a ledger's log, as hosts and verifiers read them. An [Event] has
// a number, a time and a [Detail]. There is a type of detail for each kind of event.
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
// evidence has the same details as pointers, with proofs. This package does not depend on a
// database.
//
// Events contain questions, buyers and noise keys by name. Prices are in minor units of the
// ledger's currency. A reservation and its sale have the same number.
//
// # Forgotten objects
//
// When an object is forgotten, the events about it stay in the log, but their contents are erased:
// [Event.Erased] is true, and the fields of the detail are zero. Three kinds keep some fields:
// [Held] and [Sold] keep all but the object and its response, [Settled] keeps all but the object.
//
// # JSON
//
// An event is one flat object. It has the keys event, time and kind and, if the event is erased,
// erased. The keys of its detail follow. Empty texts and lists are omitted, and so are a sale
// number of 0 and counts of objects that are 0. Later versions may add kinds and keys. No key is
// renamed or gets another meaning. Reading an unknown kind or key is an error, so that nothing is
// lost.
//
// A detail has more fields than JSON keys. Statements have all of these fields, and so do events
// that package ledger returns in the process that has the ledger open. In an event that was read
// from JSON, the fields without a key are zero.
package event
