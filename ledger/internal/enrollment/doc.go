// Package enrollment executes the requests that enrol objects, change their terms, or withdraw many
// of them: [Enrolment], [TermsChange] and [Withdrawal]. It also compares a table of the host with
// the ledger ([Table], [Comparison]), and changes the ledger to match the table ([Reconciliation]).
package enrollment
