// Package journaltest has the tests that every [journal.Journal] must pass. It also has a journal
// in memory with injected faults, for tests of the code that uses journals.
package journaltest
