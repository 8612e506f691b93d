// Package enrollment executes the requests that say which objects take part in what, and on which
// terms: an [Enrolment], a [TermsChange], a [Withdrawal] of many. It also compares a table of the
// host with the ledger ([Table], [Comparison]), and brings the ledger in line with it
// ([Reconciliation]).
package enrollment
