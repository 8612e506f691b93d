package ledgerhttp

import "net/http"

// The roles, which [Holder] describes. None is above another: what each may do is listed with each
// route.
const (
	roleOperator = "operator"
	roleDesk     = "desk"
	roleBuyer    = "buyer"
	rolePerson   = "person"
	roleAuditor  = "auditor"
	roleMetrics  = "metrics"
)

// Holder is a caller as [Options.Gate] knows it. [Limits] count buyers and persons by Whom, and
// others by Name. Each request of a holder with any other role is refused, and [Options.Logger]
// gets the error with a list of the roles:
//
//   - "operator" may do everything: it is the host's own
//   - "desk" quotes and sells for any buyer; without [Options.Truth] it brings true values
//   - "buyer" quotes for one buyer, and reads what that one bought
//   - "person" has statements made about one object
//   - "auditor" reads everything, a copy of the file among it
//   - "metrics" reads counts
//
// docs/howto/serve.md has the table.
type Holder struct {
	Name string // for the log of the server, such as "web shop"
	Role string // what it may do
	Whom string // the buyer, or the object; "" in roles that are of none
}

// Admit is an [Options.Gate] that takes every request as one of this holder. It is for where
// something else checks the caller, such as a Unix socket that only its owner may connect to.
func (h Holder) Admit(*http.Request) (Holder, bool) { return h, true }
