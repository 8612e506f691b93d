// Package prover shows what is in a log: it makes receipts and statements with their proofs, signs checkpoints, and hands them
// to the host as the log grows. What it makes package evidence verifies.
package prover
