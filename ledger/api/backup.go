package api

// Copied tells what is in a copy of the ledger.
type Copied struct {
	Bytes  int64  `json:"bytes"`  // of the file
	Events uint64 `json:"events"` // as many as the ledger had at one instant
}
