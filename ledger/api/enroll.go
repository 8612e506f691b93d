package api

import (
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// EnrollRequest enrolls objects in one question.
type EnrollRequest struct {
	Key      string   `json:"-"`        // idempotency key, 1 to 256 bytes
	Question string   `json:"question"` // by its name
	Objects  []string `json:"objects"`  // 1 to 256 bytes each; see [NameError]
	// Policy sets the ceiling of each object's chain. The zero value sets none: only the cap limits
	// the chain.
	Policy policy.Policy `json:"policy,omitzero"`
	// Cap is the largest ε that each object may spend over all its chains. 0 keeps the cap of an
	// object that the ledger knows; for a new object it is [ErrNoCap].
	Cap privacy.Epsilon `json:"cap,omitzero"`
	// Terms, if set, returns the policy and the cap of each object; the fields Policy and Cap must
	// be empty then. It is called once for each object, in the order of the names, before anything
	// is recorded. A repeated request with the same key must get the same terms.
	Terms func(object string) (policy.Policy, privacy.Epsilon) `json:"-"`
	// Partial leaves refused objects out, instead of refusing the request.
	Partial bool `json:"partial,omitempty"`
	// New returns [ErrNotNew] if the ledger knows one of the objects, in any question, unless this
	// request was already executed.
	New bool `json:"new,omitempty"`
	// DryRun checks the request and returns what it would do. Nothing is recorded, and the key
	// stays unused.
	DryRun   bool                  `json:"dry_run,omitempty"`
	Progress func(done, total int) `json:"-"` // as in [RaiseRequest]; optional
}

// EnrollResult reports what an enrollment did.
type EnrollResult struct {
	Enrolled int `json:"enrolled"` // new in the question, or enrolled again after a withdrawal
	Already  int `json:"already"`  // enrolled in the question before, with the same policy
	// Refused are the objects that were left out, if the request was partial: the first [MaxPanel]
	// of them. ledger.Ledger.Refusals yields all.
	Refused List[Refusal] `json:"refused"`
	// Unlisted is the number of objects left out that Refused does not list, including objects that
	// were forgotten since.
	Unlisted int    `json:"unlisted"`
	First    uint64 `json:"first"` // first event of the request; other requests' events may be between
	Last     uint64 `json:"last"`  // last event of the request
}
