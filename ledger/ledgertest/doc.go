// Package ledgertest gives the tests of hosts a ledger in memory, with a clock that they set:
//
//	l := ledgertest.New(t)
//	l.Clock.Advance(24 * time.Hour)
//	l.Reopen() // as after a restart of the host
//
// It is the ledger itself, with everything but a disk: what passes here passes on a file. What
// needs a file, such as a backup, returns [errors.ErrUnsupported]. Nothing in it outlives the test.
//
// Responses are drawn at random, as always: a test that wants a certain one gives the ledger a
// noise key.
package ledgertest
