package api

import (
	"fmt"
	"iter"

	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Reconciled reports the result for one question when a table of the host is compared with the
// ledger. ledger.Ledger.Reconcile documents the comparison.
type Reconciled struct {
	Question string   `json:"question"` // by its name
	Same     int      `json:"same"`     // rows that equal the state of the ledger
	New      NameList `json:"new"`      // objects that were enrolled
	Changed  NameList `json:"changed"`  // objects that got the terms of their rows
	// Left are objects with a row that have withdrawn, or were forgotten. A row does not enroll
	// such an object again; Enroll does.
	Left NameList `json:"left"`
	// Dropped are objects that take part and have rows for other questions, but not for this one.
	// They stay enrolled. Withdraw ends their part in all questions. ChangeTerms can end it in one
	// question, by a policy that allows nothing.
	Dropped NameList `json:"dropped"`
	// Refused are objects whose rows may allow more than the objects have agreed to
	// ([NeedsConsent]): the first [MaxPanel] of all questions. They keep their terms.
	Refused  List[Refusal] `json:"refused"`
	Unlisted int           `json:"unlisted"` // how many more refusals there are
}

// NameList counts objects, and lists the first of their names in order. For each kind of list, one
// result has at most [MaxPanel] names.
type NameList struct {
	Count int          `json:"count"` // of all objects
	First List[string] `json:"first"` // in the order of the names
}

// Member is a row of the host's own table: an object that takes part in a question, and the terms
// that the object has agreed to.
type Member struct {
	Object   string `json:"object"`   // 1 to 256 bytes; see [NameError]
	Question string `json:"question"` // by its name
	// Policy is the policy of the object's chain. The zero value is no policy, so that only the cap
	// limits the chain.
	Policy policy.Policy `json:"policy,omitzero"`
	// Cap is the cap of the object over all its chains. 0 keeps the current cap; for an object that
	// is new to the ledger it is [ErrNoCap].
	Cap privacy.Epsilon `json:"cap,omitzero"`
	// Consent is the host's statement that the object agrees to exactly these terms now, as in
	// [ChangeTermsRequest]. It is used only when the terms change. A row that is older than the
	// state of the ledger would therefore restore terms that the object has revoked since.
	//
	// Terms that may allow more are refused without a consent. For a higher cap, which applies to
	// all questions, the consent in one row is enough.
	Consent string `json:"consent,omitempty"`
}

// ReconcileRequest requests that the ledger takes over the contents of a table of the host.
type ReconcileRequest struct {
	// Members yields the rows of the table: each row once, in any order. The ledger reads it once,
	// to its end, before it changes anything. An error that it yields ends the call. The ledger
	// keeps the rows in memory up to 32 MiB, and more rows in temporary files.
	Members iter.Seq2[Member, error] `json:"-"`
	// AsOf is the last event that the table takes into account. 0 means the last event when the
	// call begins to read the table. Set it if the table is older than this call, for example
	// because it was sent over a network. Objects that were enrolled, or got other terms, after
	// AsOf are left unchanged.
	AsOf uint64 `json:"as_of,omitempty"`
	// DryRun returns what would be done, and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Confirm, if set, gets the planned result before anything is changed. If it returns an error,
	// nothing is done and the call returns that error.
	Confirm func(ReconcileResult) error `json:"-"`
	// Withdraw withdraws the objects that have no row, as ledger.Ledger.Withdraw does. If these are
	// more than 1 % of the objects that take part in a question, Gone must be their exact number.
	// Otherwise nothing is done, and the error is a [*GoneError].
	Withdraw bool                  `json:"withdraw,omitempty"`
	Gone     int                   `json:"gone,omitempty"` // expected number of objects without a row; see Withdraw
	Progress func(done, total int) `json:"-"`              // as in [RaiseRequest]; optional
}

// ReconcileResult reports how the ledger differs from a table, and what was done about it.
type ReconcileResult struct {
	// Questions has each question with a row, or with an object that takes part, in the order in
	// which the questions were defined.
	Questions List[Reconciled] `json:"questions"`
	// Gone are objects that take part in a question and have no row at all.
	Gone      NameList `json:"gone"`
	Withdrawn int      `json:"withdrawn"` // how many of Gone were withdrawn; 0 unless requested
}

// GoneError reports that too many objects would be withdrawn because a table has no row of them.
// The table may be the wrong one, or incomplete. Nothing was done.
type GoneError struct {
	Gone     int `json:"gone"`     // objects that take part in a question and have no row
	Of       int `json:"of"`       // objects that take part in a question
	Expected int `json:"expected"` // ReconcileRequest.Gone
}

// Error returns the numbers of objects, and what to do.
func (e *GoneError) Error() string {
	const text = "%d of %d objects have no row in the table, %d were expected: " +
		"to withdraw them, set Gone to their number"
	return fmt.Sprintf(text, e.Gone, e.Of, e.Expected)
}
