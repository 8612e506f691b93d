// Package evidence has the proofs that a ledger can give to a party without access to it, and
// verifies them: checkpoints, receipts of buyers, and statements about objects.
//
// A receipt or a statement contains in readable fields what some events of the log say, and proves
// it. The verifier encodes each event again from the fields and its salt, and compares the hash
// with the leaf that is stored next to them. One proof leads from all leaves to the root that the
// checkpoint signs. So an altered field can be located. A document contains no opaque data.
//
//	r, err := evidence.ReadReceipt(file)
//	// handle err
//	checked := r.Verify(note.VerifierList(key))
//	if !checked.OK() {
//		// checked.Faults says what is wrong, and where
//	}
//
// Each document has exactly one encoding, to the byte, and the readers refuse any other. Their
// memory is proportional to the size of their input, and they never panic.
//
// Package ledger creates documents. [Statement.Summarize] computes the readable part of a
// statement from its events. Verifying needs no disk and no database, and runs in a browser. The
// package depends on the encoding of events, on package policy, and on the Merkle tree of the log.
//
// The names of the formats contain a version, which is tied to the version of the event encoding.
// If the log ever gets another encoding, the present encoder is kept for these documents, because
// they must remain verifiable for ever. Golden files test this. Checkpoints have the format of
// https://c2sp.org/tlog-checkpoint.
package evidence
