package api

import (
	"golang.org/x/mod/sumdb/note"
)

// Finding is one problem that ledger.Ledger.Verify found.
type Finding struct {
	// Kind is what the problem is about:
	//
	//	file        how the file stores its records: one cannot be read, or has changed
	//	checkpoint  the log does not extend the checkpoint
	//	event       an event is missing, damaged, or not possible after the events before it
	//	tree        a hash of the tree does not match the event, or the hashes below it
	//	ledger      what the ledger was created with, its format, its truth key
	//	journal     the file was opened without its journal (ledger.Options.WithoutJournal):
	//	            later events are missing
	//	clock       events have a time in the future: the clock was wrong when they were written,
	//	            or is wrong now
	//	counters    the sums over the log, including the revenue
	//	question, policy, object, chain, answers, buyer, sale, request, tally, stranger
	//	            the stored record of one of these
	Kind string `json:"kind"`
	// Event is the event concerned. For a record it is the last event that is known to have changed
	// it. It is 0 if there is none.
	Event    uint64 `json:"event,omitempty"`
	Object   string `json:"object,omitempty"`   // the object concerned, if any
	Question string `json:"question,omitempty"` // the question concerned, if any, by its name
	Text     string `json:"text"`               // with both values, such as "spent is 0.5, the events say 0.7"
}

// VerifyRequest sets how to verify. The zero value verifies the log and the state, and counts the
// problems.
type VerifyRequest struct {
	// Checkpoints are checkpoints that the log must extend. Each is signed by one of the keys in
	// Verifiers.
	Checkpoints [][]byte
	Verifiers   note.Verifiers // the keys for Checkpoints
	// Report, if set, is called for each problem, in the order found. It may use the ledger.
	Report func(Finding)
	// Progress, if set, is called now and then with the number of events read, and the number of
	// events known to exist.
	Progress func(done, total uint64)
}

// Verification is the result of verifying a ledger.
type Verification struct {
	Head            // of the log
	Objects  uint64 `json:"objects"`  // how many objects the log has
	Problems uint64 `json:"problems"` // how many problems were found; 0 for a sound ledger
}
