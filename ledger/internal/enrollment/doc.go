// Package enrollment carries out the requests that say who takes part in what, and on which terms:
// an [Enrolment], a [TermsChange], a [Withdrawal] of many; and it finds out in what the ledger
// differs from a table of the host's ([Table], [Comparison]). It rests on batch.
package enrollment
