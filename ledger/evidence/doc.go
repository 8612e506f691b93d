// Package evidence holds what can be proven of a ledger to somebody who has not got it, and
// verifies it: checkpoints, the receipts of buyers, and the statements about objects.
//
// A receipt and a statement say in readable fields what some events of the log say, and prove it.
// The verifier encodes each event anew from the fields and its salt, and compares the hash with the
// leaf that stands next to them. One proof leads from the leaves to the root that the checkpoint
// signs. So what was altered can be named. Nothing opaque is in a document.
//
//	r, err := evidence.ReadReceipt(file)
//	// handle err
//	checked := r.Verify(note.VerifierList(key))
//	if !checked.OK() {
//		// checked.Faults says what is wrong, and where
//	}
//
// There is one way to write a document, to the byte, and the readers refuse every other. They take
// memory in proportion to what they read, and never panic.
//
// Documents are made by package ledger. [Statement.Summarize] makes the readable part of a statement
// from its events. Verifying needs no disk and no database, and runs in a
// browser. The package rests on the encoding of events, on package policy, and on the tree over the
// log.
//
// The formats, whose names have a version, are tied to the version of the event encoding. If the
// log ever gets another one, its encoder is kept for these documents: they must verify for ever.
// Golden files see to that. Checkpoints are those of https://c2sp.org/tlog-checkpoint.
package evidence
