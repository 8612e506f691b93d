package api

import (
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// ChangeTermsRequest changes the terms of objects: their policy in one question, their cap, or
// both.
type ChangeTermsRequest struct {
	Key      string   `json:"-"`        // idempotency key, 1 to 256 bytes
	Question string   `json:"question"` // by its name
	Objects  []string `json:"objects"`  // which are, or were, enrolled in the question
	// Policy is the new policy of each object's chain. nil keeps the policies. A pointer to the
	// zero value removes them, so that only the cap limits the chain.
	Policy *policy.Policy `json:"-"`
	// Cap is the largest ε that each object may spend over all its chains from now on. 0 keeps the
	// caps.
	Cap privacy.Epsilon `json:"cap,omitzero"`
	// Consent is the host's statement that the objects have agreed to the new terms. It has 1 to
	// 1,024 bytes of UTF-8 without control characters, which show an auditor where to find the
	// agreement. It is required if the new terms may allow more than before. The log keeps it until
	// the object is forgotten, and the object's statement contains it.
	Consent string `json:"consent,omitempty"`
	// Partial leaves refused objects out, instead of refusing the request.
	Partial  bool                  `json:"partial,omitempty"`
	Progress func(done, total int) `json:"-"` // as in [RaiseRequest]; optional
}

// ChangeTermsResult reports what a change of terms did.
type ChangeTermsResult struct {
	Changed   int `json:"changed"`   // objects that got the new terms
	Unchanged int `json:"unchanged"` // objects that had these terms before
	// Refused are the objects that were left out, if the request was partial: the first [MaxPanel]
	// of them. ledger.Ledger.Refusals yields all.
	Refused List[Refusal] `json:"refused"`
	// Unlisted is the number of objects left out that Refused does not list, including objects that
	// were forgotten since.
	Unlisted int    `json:"unlisted"`
	First    uint64 `json:"first"` // first event of the request; other requests' events may be between
	Last     uint64 `json:"last"`  // last event of the request
}
