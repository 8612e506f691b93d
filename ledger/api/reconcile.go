package api

import (
	"fmt"
	"iter"

	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

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
	Refused  List[Refusal] `json:"refused"`
	Unlisted int           `json:"unlisted"` // how many more were refused
}

// NameList counts objects, and names the first of them, in the order of their names: of each kind
// at most [MaxPanel] in one result.
type NameList struct {
	Count int          `json:"count"` // of all
	First List[string] `json:"first"` // in the order of their names
}

// Member is a row of the host's own table: an object that takes part in a question, and the terms
// that it has agreed to.
type Member struct {
	Object   string `json:"object"`   // 1 to 256 bytes; see [NameError]
	Question string `json:"question"` // by its name
	// Policy: of the object's chain; the zero value is none, so that only the cap binds
	Policy policy.Policy `json:"policy,omitzero"`
	// Cap: of the object, over all its chains; 0 leaves it as it is, and is [ErrNoCap] for one new
	// to the ledger
	Cap privacy.Epsilon `json:"cap,omitzero"`
	// Consent is the host's word that the object agrees to exactly these terms now, as in
	// [ChangeTermsRequest]. It is used only when they change: so a row that is older than what the
	// ledger has would bring back what somebody has taken back since. What may be more is refused
	// without it; to a higher cap, which is over all questions, the consent in one row is enough.
	Consent string `json:"consent,omitempty"`
}

// ReconcileRequest brings the ledger in line with a table of the host's.
type ReconcileRequest struct {
	// Members yields the table: each row once, in any order. It is read to its end, once, before
	// anything happens; if it yields an error, that ends the call. The ledger keeps the rows in
	// memory up to 32 MiB, and beyond that in temporary files.
	Members iter.Seq2[Member, error] `json:"-"`
	// AsOf is the last event that the table knows of; 0 stands for that of when it begins to be
	// read. Give it if the table is older than this call, such as one that was sent: who is
	// enrolled or put under other terms behind it is left as that says.
	AsOf uint64 `json:"as_of,omitempty"`
	// DryRun changes nothing: the result is what would be done.
	DryRun bool `json:"dry_run,omitempty"`
	// Confirm, if set, is told what is to be done before anything is. An error ends the call, with
	// nothing done, and is returned.
	Confirm func(ReconcileResult) error `json:"-"`
	// Withdraw withdraws who is gone, as ledger.Ledger.Withdraw does. If they are more than one in a
	// hundred of those who take part in something, Gone must be their number; else nothing is done,
	// and the error is a [*GoneError].
	Withdraw bool                  `json:"withdraw,omitempty"`
	Gone     int                   `json:"gone,omitempty"` // how many the host expects to be gone; see Withdraw
	Progress func(done, total int) `json:"-"`              // as in [RaiseRequest]; optional
}

// ReconcileResult tells what the ledger differs in from a table, and what was done about it.
type ReconcileResult struct {
	// Questions are those with a row, or with an object that takes part, in the order in which they
	// were defined.
	Questions List[Reconciled] `json:"questions"`
	// Gone are those who take part in something and have no row at all.
	Gone      NameList `json:"gone"`
	Withdrawn int      `json:"withdrawn"` // of those gone; 0 unless that was asked for
}

// GoneError says that too many would be withdrawn because a table has no row of them: it may be the
// wrong table, or half of one. Nothing was done.
type GoneError struct {
	Gone     int `json:"gone"`     // who take part in something, and have no row
	Of       int `json:"of"`       // who take part in something
	Expected int `json:"expected"` // ReconcileRequest.Gone
}

func (e *GoneError) Error() string {
	const text = "%d of %d objects have no row in the table, %d were expected: " +
		"so many are withdrawn only if the request says how many (Gone)"
	return fmt.Sprintf(text, e.Gone, e.Of, e.Expected)
}
