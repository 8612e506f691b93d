// Package documents makes the documents that prove parts of a ledger's log: receipts and statements
// with proofs, and signed checkpoints. [Publisher] makes checkpoints as the log grows. Package
// evidence verifies the documents.
package documents
