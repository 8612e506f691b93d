package api

import (
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// ChangeTermsRequest puts objects under other terms.
type ChangeTermsRequest struct {
	Key      string   `json:"-"`        // idempotency key, 1 to 256 bytes
	Question string   `json:"question"` // by its name
	Objects  []string `json:"objects"`  // that are, or were, enrolled in the question
	// Policy is that of each object's chain from now on. nil leaves each as it is; a pointer to the
	// zero value sets none, so that only the cap binds.
	Policy *policy.Policy `json:"-"`
	// Cap is the largest ε each object may spend over all its chains, from now on. 0 leaves each as
	// it is.
	Cap privacy.Epsilon `json:"cap,omitzero"`
	// Consent is the host's word that the objects have agreed to the new terms: 1 to 1,024 bytes of
	// UTF-8 without control characters, that tell an auditor where to look. It is needed if
	// anything is more than before. The log keeps it until the object is forgotten, and the
	// object's statement shows it.
	Consent string `json:"consent,omitempty"`
	// Partial: leave refused objects out, rather than refuse the request
	Partial  bool                  `json:"partial,omitempty"`
	Progress func(done, total int) `json:"-"` // as in [RaiseRequest]; optional
}

// ChangeTermsResult tells what a change of terms did.
type ChangeTermsResult struct {
	Changed   int `json:"changed"`   // under other terms now
	Unchanged int `json:"unchanged"` // under these before
	// Refused were left out, only if the request was partial: the first [MaxPanel] of them.
	// ledger.Ledger.Refusals yields all.
	Refused  List[Refusal] `json:"refused"`
	Unlisted int           `json:"unlisted"` // how many more were left out, or were and are forgotten since
	First    uint64        `json:"first"`    // first and last event; other requests' events may lie between
	Last     uint64        `json:"last"`     // as First
}
