// Package documents makes what a ledger hands out about its log: receipts and statements with
// proofs, and signed checkpoints, also as the log grows ([Publisher]). Package evidence verifies
// them.
package documents
