package api

import "github.com/sluicedp/sluice/privacy"

// ReleaseRequest asks for the response of one object at one ε.
type ReleaseRequest struct {
	Key      string          `json:"-"`        // idempotency key, 1 to 256 bytes: your order's id, say
	Question string          `json:"question"` // by its name
	Object   string          `json:"object"`   // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // above 0
	Truth    TruthFunc       `json:"-"`        // asked only if ε lies above the current level
	// TrueValue is what Truth would say, if it is at hand: faster, as nobody looks first whether it
	// is needed (but with ledger.Options.TruthKey). It is used only if ε lies above the current level,
	// and is that of the epoch then: begin none meanwhile. "" is none.
	TrueValue string `json:"-"`
}
