package api

// AdvanceRequest asks for everything that policies have released by now.
type AdvanceRequest struct {
	Key      string `json:"-"`                  // idempotency key, 1 to 256 bytes: the day, say
	Question string `json:"question,omitempty"` // "" for all
	// Truth is asked for the objects that rise, up to 4,096 at a time.
	Truth    TruthFunc             `json:"-"`
	Progress func(done, total int) `json:"-"` // as in [RaiseRequest]; optional
}

// AdvanceResult tells what a sweep did.
type AdvanceResult struct {
	Questions List[Advanced] `json:"questions"` // those with anybody enrolled, in the order of their definition
	First     uint64         `json:"first"`     // first and last event; other requests' events may lie between
	Last      uint64         `json:"last"`      // as First
}

// Advanced tells what a sweep did in one question. Raised, Unchanged, Refused and Unlisted add up
// to the objects that take part.
type Advanced struct {
	Question  string `json:"question"`  // by its name
	Raised    int    `json:"raised"`    // have got every level released by now, at least one of them anew
	Unchanged int    `json:"unchanged"` // had them all, or have none coming, or are for sale
	// Refused fall short of what is released, for this reason. A sweep lists the first [MaxPanel]
	// of all questions; ledger.Ledger.Refusals yields all.
	Refused List[Refusal] `json:"refused"`
	// Unlisted is how many more fall short, or did and are forgotten since.
	Unlisted                   int      `json:"unlisted,omitempty"`
	TruthChanged, TruthInvalid []string `json:"-"` // of those refused, for the host alone: see [RaiseResult]
}
