// Package api holds the words that hosts, verifiers and the ledger share: what a [Question]
// is, in which [Encoding] it is answered, by which [Mechanism], and why an object is refused
// ([Refusal], [Reason], [Remedy]).
//
// They are here, below the ledger, so that who verifies a receipt need not link a database. Package
// ledger has the same types under the same names; most programs import that one.
//
// The types have JSON forms, which documents and the commands use. No name, reason or encoding is
// ever given a second meaning.
package api
