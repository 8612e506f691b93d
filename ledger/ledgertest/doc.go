// Package ledgertest provides a ledger in memory for tests of hosts, with a clock that the test
// sets:
//
//	l := ledgertest.New(t)
//	l.Clock.Advance(24 * time.Hour)
//	l.Reopen() // as after a restart of the host
//
// It is the real ledger on memory instead of a disk: what passes here passes on a file. Requests
// that need a file, such as a backup, return [errors.ErrUnsupported]. Nothing in the ledger
// outlives the test.
//
// Responses are drawn at random, as in production. A test that needs a fixed response opens the
// ledger with a noise key.
package ledgertest
