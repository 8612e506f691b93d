package api

import "github.com/sluicedp/sluice/privacy"

// ReleaseRequest requests the response of one object at one ε.
type ReleaseRequest struct {
	Key      string          `json:"-"`        // idempotency key, 1 to 256 bytes; such as the id of the host's order
	Question string          `json:"question"` // by its name
	Object   string          `json:"object"`   // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // above 0
	Truth    TruthFunc       `json:"-"`        // called only if ε is above the current level
	// TrueValue is the value that Truth would return, if the host has it already; "" means that it
	// is not given. It is faster, because the ledger does not first check whether a true value is
	// needed (except with ledger.Options.TruthKey). It is used only if ε is above the current
	// level. It must be the true value of the epoch that is current during the call: begin no epoch
	// concurrently.
	TrueValue string `json:"-"`
}
