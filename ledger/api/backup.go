package api

// Copied describes a copy of the ledger.
type Copied struct {
	Bytes  int64  `json:"bytes"`  // size of the copied file
	Events uint64 `json:"events"` // number of events in the copy, which is the ledger at one instant
}
