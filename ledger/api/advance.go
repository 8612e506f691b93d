package api

// AdvanceRequest requests every response that policies have released by now.
type AdvanceRequest struct {
	Key      string `json:"-"`                  // idempotency key, 1 to 256 bytes; for example the day
	Question string `json:"question,omitempty"` // by its name; "" for all questions
	// Truth is called for the objects that need a draw, with at most 4,096 objects a call.
	Truth    TruthFunc             `json:"-"`
	Progress func(done, total int) `json:"-"` // as in [RaiseRequest]; optional
}

// AdvanceResult reports what a sweep did.
type AdvanceResult struct {
	Questions List[Advanced] `json:"questions"` // with an enrolled object, in order of definition
	First     uint64         `json:"first"`     // first event of the request; other requests' events may be between
	Last      uint64         `json:"last"`      // last event of the request
}

// Advanced reports what a sweep did in one question. Raised, Unchanged, Refused and Unlisted add up
// to the number of objects that take part.
type Advanced struct {
	Question  string `json:"question"`  // by its name
	Raised    int    `json:"raised"`    // objects that have every level released by now, at least one of them new
	Unchanged int    `json:"unchanged"` // had every released level before, have none released, or have terms of sale
	// Refused are the objects that did not get every released level, with the reason. One sweep
	// lists at most the first [MaxPanel] refusals of all questions. ledger.Ledger.Refusals yields
	// all.
	Refused List[Refusal] `json:"refused"`
	// Unlisted is the number of refused objects that Refused does not list, including objects that
	// were forgotten since.
	Unlisted                   int      `json:"unlisted,omitempty"`
	TruthChanged, TruthInvalid []string `json:"-"` // among Refused, for the host only; see [RaiseResult]
}
