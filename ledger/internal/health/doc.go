// Package health finds out how a ledger is doing.
//
// It reads and changes nothing. The package rests on engine and prover.
package health
