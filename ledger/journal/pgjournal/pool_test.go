package pgjournal

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluicedp/sluice/internal/check"
)

// Errors that can only come from a connection pool get the advice about its mode. Other errors are
// unchanged.
func TestOfPool_ErrorsOfPools_NameThePool(t *testing.T) {
	for _, c := range []struct {
		code, message string
		pool          bool
	}{
		{"26000", `prepared statement "s1" does not exist`, true},
		{"42P05", `prepared statement "s1" already exists`, true},
		{"08P01", "transaction blocks not allowed in statement pooling mode", true},
		{"08P01", "invalid message format", false},
		{"42P01", `relation "x" does not exist`, false},
	} {
		in := error(&pgconn.PgError{Code: c.code, Message: c.message})
		out := ofPool(in)
		check.That(t, errors.Is(out, errPooled) == c.pool && errors.Is(out, in), "%s %s: %v", c.code, c.message, out)
	}
	check.OK(t, ofPool(nil))
}
