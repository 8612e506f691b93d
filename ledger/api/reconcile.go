package api

// Reconciled is what became of the rows about a question, when a table of the host is compared with
// the ledger. Package ledger describes Reconcile.
type Reconciled struct {
	Question string   `json:"question"` // by its name
	Same     int      `json:"same"`     // rows that say what is so
	New      NameList `json:"new"`      // enrolled
	Changed  NameList `json:"changed"`  // put under the terms of their rows
	// Left have withdrawn, or were forgotten. No row brings an object back: Enroll does.
	Left NameList `json:"left"`
	// Dropped take part, and have rows of other questions, but not of this one. They stay:
	// Withdraw ends the part in all questions, ChangeTerms can end it in one, by a policy that
	// allows nothing.
	Dropped NameList `json:"dropped"`
	// Refused have rows whose terms may allow more than they have agreed to ([NeedsConsent]): the
	// first [MaxPanel] of all questions. They stay on their terms.
	Refused  []Refusal `json:"refused"`
	Unlisted int       `json:"unlisted"` // how many more were refused
}

// NameList counts objects, and names the first of them, in the order of their names: of each kind
// at most [MaxPanel] in one result.
type NameList struct {
	Count int      `json:"count"` // of all
	First []string `json:"first"` // in the order of their names
}
