package ledgerhttp

import "net/http"

// The roles, which [Holder] describes. No role includes another: each route lists the roles that
// may use it.
const (
	roleOperator = "operator"
	roleDesk     = "desk"
	roleBuyer    = "buyer"
	rolePerson   = "person"
	roleAuditor  = "auditor"
	roleMetrics  = "metrics"
)

// Holder is a caller as [Options.Gate] returns it. [Limits] count buyers and persons by Whom, and
// other roles by Name. A holder with a role that is not listed here is refused, and
// [Options.Logger] gets an error that lists the roles:
//
//   - "operator" may do everything: it is the host's own role
//   - "desk" quotes and sells for any buyer; without [Options.Truth] it sends true values
//   - "buyer" quotes for one buyer, and reads what that buyer bought
//   - "person" has statements made about one object
//   - "auditor" reads everything, including a copy of the file
//   - "metrics" reads counts
//
// docs/howto/serve.md has the table of roles and routes.
type Holder struct {
	Name string // for the server's log, such as "web shop"
	Role string // one of the roles above
	Whom string // the buyer or the object; "" in other roles
}

// Admit is an [Options.Gate] that returns h for every request. Use it only where something else
// checks the caller, such as a Unix socket that only its owner can connect to.
func (h Holder) Admit(*http.Request) (Holder, bool) { return h, true }
