package api

import (
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// EnrollRequest puts objects under the ledger's care for one question.
type EnrollRequest struct {
	Key      string   `json:"-"`        // idempotency key, 1 to 256 bytes
	Question string   `json:"question"` // by its name
	Objects  []string `json:"objects"`  // 1 to 256 bytes each; see [NameError]
	// Policy is the ceiling of each object's chain. The zero value sets none: only the cap binds.
	Policy policy.Policy `json:"policy,omitzero"`
	// Cap is the largest ε each object may spend over all its chains. 0 leaves the cap of an object
	// that is known already as it is; for a new one it is [ErrNoCap].
	Cap privacy.Epsilon `json:"cap,omitzero"`
	// Terms, if set, says what Policy and Cap are for each object; the fields of these names are
	// empty then. It is asked once about each, in the order of their names, before anything
	// happens. Asked again for the same key it must say the same.
	Terms func(object string) (policy.Policy, privacy.Epsilon) `json:"-"`
	// Partial: leave refused objects out, rather than refuse the request
	Partial bool `json:"partial,omitempty"`
	// New: if the ledger knows one of the objects, in any question, the request is an [ErrNotNew],
	// unless it is done already
	New bool `json:"new,omitempty"`
	// DryRun: check everything and return what would be done; nothing is recorded, and the key
	// stays free
	DryRun   bool                  `json:"dry_run,omitempty"`
	Progress func(done, total int) `json:"-"` // as in [RaiseRequest]; optional
}

// EnrollResult tells what an enrolment did.
type EnrollResult struct {
	Enrolled int `json:"enrolled"` // newly enrolled, or again after they had withdrawn
	Already  int `json:"already"`  // enrolled in the question before, with the same policy
	// Refused were left out, only if the request was partial: the first [MaxPanel] of them.
	// ledger.Ledger.Refusals yields all.
	Refused  List[Refusal] `json:"refused"`
	Unlisted int           `json:"unlisted"` // how many more were left out, or were and are forgotten since
	First    uint64        `json:"first"`    // first and last event; other requests' events may lie between
	Last     uint64        `json:"last"`     // as First
}
