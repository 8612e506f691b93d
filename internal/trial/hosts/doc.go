// Package hosts holds no code of its own: its tests let processes be hosts of one ledger, whose
// journal is in PostgreSQL, each with a file and keys of its own. One is stopped, taken over from,
// and woken; its disk is destroyed at any instant; there is a long way between two of them, which
// is cut; somebody is forgotten while the other host has not heard of them yet. What anybody was
// told must be there, for good, and once.
//
// # Histories
//
// The histories let many clients use one ledger at the same time, write down what each was told and
// when, and look for an order of all calls, one after the other, in which a ledger of one client
// would have told them the same: Herlihy and Wing's linearizability, checked by
// github.com/anishathalye/porcupine.
//
// The order is looked for object by object, with a request about several objects as one call for
// each. Linearizability is a local property, so for requests about one object this is as good as
// looking at all together. That a request about several is whole or nothing shows in what it says
// of each; that it saw all of them at one moment does not. Refusals must have a place in the order
// too, with every number in them.
//
// With two seeds of three a checkpoint begins behind every commit, and with one of them the file is
// compacted all the time.
//
// A quick form runs with all other tests. The long form runs if SLUICE_LONG is set in the
// environment:
//
//	SLUICE_LONG=1 go test -timeout 12h -v ./internal/trial/hosts
//
// SLUICE_SEED makes it run one seed only. What the clients ask for follows from the seed (but for
// the numbers of reservations); who comes first does not.
package hosts
