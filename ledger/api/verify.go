package api

import (
	"golang.org/x/mod/sumdb/note"
)

// Finding is one difference that ledger.Ledger.Verify found.
type Finding struct {
	// Kind says what it is about:
	//   file        how the file keeps its records: what cannot be read, or is not as it was written
	//   checkpoint  the log is not a continuation of the checkpoint
	//   event       an event is missing, damaged, or cannot follow on those before it
	//   tree        a hash of the tree is not that of the event, or of the hashes below it
	//   ledger      what the ledger was created with, its format, its truth key
	//   journal     the file was opened without its journal (ledger.Options.WithoutJournal): what comes
	//               after the event is missing
	//   clock       events lie in the future: a clock was wrong when they were written, or is now
	//   counters    the sums over the log, the revenue among them
	//   question, policy, object, chain, answers, buyer, sale, request, tally, stranger
	//               the stored record of one of them
	Kind string `json:"kind"`
	// Event is the event concerned. Of a record it is the last one known to have changed it; 0 is
	// none.
	Event    uint64 `json:"event,omitempty"`
	Object   string `json:"object,omitempty"`   // whom it is about, if anybody
	Question string `json:"question,omitempty"` // by its name, if it is about one
	Text     string `json:"text"`               // value by value: "spent is 0.5, the events say 0.7"
}

// VerifyRequest says how to verify. The zero value verifies, and counts the problems.
type VerifyRequest struct {
	// Checkpoints are signed by one of the keys in Verifiers. The log must extend each of them.
	Checkpoints [][]byte
	Verifiers   note.Verifiers // the keys for Checkpoints
	// Report is called for each problem, in the order found. It may use the ledger.
	Report func(Finding)
	// Progress is called now and then with the number of events read and of those known to be
	// there.
	Progress func(done, total uint64)
}

// Verification tells what was verified.
type Verification struct {
	Head            // the log
	Objects  uint64 `json:"objects"`  // how many the log has
	Problems uint64 `json:"problems"` // 0 if all is as it should be
}
