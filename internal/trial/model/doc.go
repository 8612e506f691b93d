// Package model plays random games on the ledger and on a model of it, in plain integers with maps
// for memory: what the documentation says, written down a second time. There is nothing in it but
// tests.
//
// Other tests hold what any ledger must do, wherever it is kept: each test runs on a ledger of
// package ledgertest, and on one in a file.
package model
