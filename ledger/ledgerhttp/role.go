package ledgerhttp

import (
	"net/http"
	"slices"
)

// Role says what somebody may do. docs/howto/serve.md has the table.
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

// Roles returns all roles, the most powerful first.
func Roles() []Role { return []Role{Operator, Desk, Buyer, Person, Auditor, Metrics} }

// named tells whether a role is that of a buyer or an object, which must be said.
func (r Role) named() bool { return r == Buyer || r == Person }

// Holder is who asks. [Limits] count buyers and persons by Whom, and others by Name.
type Holder struct {
	Name string // for the log of the server, such as "web shop"
	Role Role   // what they may do
	Whom string // the buyer, or the object; "" in roles that are of none
}

func (h Holder) valid() bool {
	return slices.Contains(Roles(), h.Role) && (h.Whom != "") == h.Role.named()
}

// Gate tells who asks. It is called for each request, and while an answer takes long each second
// and before more of it is sent, from any number of goroutines.
type Gate interface {
	// Admit returns who asks, and false if nobody knows them.
	Admit(r *http.Request) (Holder, bool)
}

// Everybody is a gate that takes whoever comes for the same holder. It is for where something else
// says who may come, such as a Unix socket that only its owner may connect to.
type Everybody Holder

// Admit implements [Gate].
func (e Everybody) Admit(*http.Request) (Holder, bool) { return Holder(e), true }
