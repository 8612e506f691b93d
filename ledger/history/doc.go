// Package history is the log of a ledger in words: an [Event] has a number, a time and a [Detail], which is one of the types of this
// package, one for each kind.
//
//	for ev, err := range l.Watch(ctx, last+1) {
//		if err != nil {
//			return err
//		}
//		switch d := ev.Says.(type) {
//		case history.Released:
//			...
//		case history.Forgotten:
//			...
//		}
//	}
//
// Package ledger has [Event] under the same name, and hands events out. This package links no database: whoever is sent events as JSON
// needs no other to read them.
//
// Prices are in minor units of the ledger's currency. Sales and reservations share their numbers: a reservation and the sale that comes
// of it have the same.
//
// # Forgotten objects
//
// When an object is forgotten, events about it stay where they are, without what they said: [Event.Erased] is true, and the fields of
// the detail are zero. Three kinds keep more: [Held] and [Sold] all but the object and its response, [Settled] all but the object.
//
// # JSON
//
// An event is one flat object: the keys event, time, kind and, of an erased one, erased; then those of its detail. Texts and lists that
// are empty are left out, and so are a sale's number and counts of objects that are 0. Later versions may add kinds and keys; none is
// renamed, or gets another meaning. A kind or key that this version does not know is refused when it is read, so that nothing is
// passed over.
package history
