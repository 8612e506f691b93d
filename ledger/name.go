package ledger

import "github.com/sluicedp/sluice/ledger/internal/names"

// CheckName returns nil if a text may be a name in a ledger: of an object, a question, a value, a buyer or an idempotency key. Otherwise it
// returns the [ErrInvalid] that every request with that name returns, most often a [*NameError]. what says in the error what is named. A host
// calls it where it takes names from people, such as in a sign-up form.
func CheckName(what, name string) error { return names.Check(what, name) }
