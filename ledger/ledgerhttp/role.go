package ledgerhttp

import (
	"net/http"

	"github.com/sluicedp/sluice/internal/access"
)

// Role says what a caller may do. docs/howto/serve.md has the table.
type Role string

// The roles. None is above another: what each may do is listed with each route.
const (
	Operator Role = "operator" // everything: it is the host's own
	Desk     Role = "desk"     // quotes and sells for any buyer; without [Options.Truth] it brings true values
	Buyer    Role = "buyer"    // quotes for one buyer, and reads what that one bought
	Person   Role = "person"   // has statements made about one object
	Auditor  Role = "auditor"  // reads everything, a copy of the file among it
	Metrics  Role = "metrics"  // reads counts
)

// everyRole returns all roles, the most powerful first.
func everyRole() (all []Role) {
	for _, role := range access.Roles() {
		all = append(all, Role(role))
	}
	return all
}

// Holder is a caller as [Options.Gate] knows it. [Limits] count buyers and persons by Whom, and
// others by Name.
type Holder struct {
	Name string // for the log of the server, such as "web shop"
	Role Role   // what it may do
	Whom string // the buyer, or the object; "" in roles that are of none
}

// Admit is an [Options.Gate] that takes every request as one of this holder. It is for where
// something else checks the caller, such as a Unix socket that only its owner may connect to.
func (h Holder) Admit(*http.Request) (Holder, bool) { return h, true }

func (h Holder) valid() bool { return access.CheckRole(string(h.Role), h.Whom) == nil }
