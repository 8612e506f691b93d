// Package journaltest holds what every [journal.Journal] must pass, and a journal in memory with
// faults for the tests of those who use one.
package journaltest
