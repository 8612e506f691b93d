// Package hosts tests processes that are hosts of one ledger with a journal in PostgreSQL. Each
// host has its own file and keys. A host is stopped, another takes over, and the first is resumed;
// its disk is destroyed at any instant; the network between two distant hosts is cut; an object is
// forgotten before the other host knows of it. Every reported result must stay, once. The package
// holds no code of its own.
//
// # Histories
//
// In a history, many clients use one ledger at the same time, and record each result with its
// times. Then the test searches for an order of all calls, one after the other, in which a ledger
// with one client returns the same results. This is Herlihy and Wing's linearizability, checked by
// github.com/anishathalye/porcupine.
//
// The search is done object by object, with a request about several objects as one call for each.
// Linearizability is a local property, so for requests about one object this equals a search over
// all objects together. Whether a request about several objects is whole or nothing shows in its
// result for each object. Whether it saw all of them at one moment is not checked. Refusals must
// have a place in the order too, with every number in them.
//
// With two of three seeds, a checkpoint begins after every commit. With one of these two, the file
// is also compacted all the time.
//
// A quick form runs with all other tests. The long form runs if SLUICE_LONG is set in the
// environment:
//
//	SLUICE_LONG=1 go test -timeout 12h -v ./internal/trial/hosts
//
// SLUICE_SEED selects one seed. The requests of the clients follow from the seed, except the
// numbers of reservations. The order in which they arrive does not.
package hosts
