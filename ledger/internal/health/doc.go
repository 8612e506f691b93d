// Package health finds out how a ledger is doing.
//
// It changes nothing, but for a ledger that stops because another host has taken over. The package rests on engine and prover.
package health
