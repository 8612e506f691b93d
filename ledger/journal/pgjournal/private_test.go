package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

const secret = "Hunter2"

// No error contains a part of the connection string. pgx names what it cannot parse, and the user,
// host and database of a failed connection; in a malformed string these may be the password.
func TestOptions_ConnectionString_IsNotInErrors(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "none")
	service := filepath.Join(t.TempDir(), "service.conf")
	check.Must(t, os.WriteFile(service, []byte("[given]\nhost="+nowhere+"\nuser="+secret+"\npassword="+secret+"\n"), 0o600))
	t.Setenv("PGPASSWORD", secret+"env")
	for _, address := range []string{
		"host=" + nowhere + " user= password=" + secret + " dbname=x sslmode=disable",
		"host= password=" + secret,
		"host=" + nowhere + " dbname= password=" + secret,
		"host=localhost password = " + secret + " port=abc",
		"host=localhost PASSWORD=" + secret + " port=abc",
		`host=localhost password=ab\ ` + secret + ` port=abc`,
		`host=localhost password='ab\' ` + secret + `' port=abc`,
		`host=localhost password='ab ` + secret,
		"host=localhost user=u password " + secret,
		secret,
		secret + "=1 port=abc",
		"host=localhost port=" + secret,
		"host=localhost sslmode=" + secret,
		"host=localhost connect_timeout=" + secret,
		"host=localhost target_session_attrs=" + secret,
		"host=localhost sslrootcert=/" + secret + " sslmode=verify-full",
		"host=localhost channel_binding=" + secret,
		"host=localhost min_protocol_version=" + secret,
		"host=localhost default_query_exec_mode=" + secret,
		"host=localhost statement_cache_capacity=" + secret,
		"service=" + secret + " servicefile=" + service,
		"service=given servicefile=/" + secret,
		"service=given servicefile=" + service + " port=abc",
		"service=given servicefile=" + service,
		"postgres://u:" + secret + "@localhost:abc/x",
		"postgres://u:a/" + secret + "@localhost/x",
		"postgres://u:a#" + secret + "@localhost/x?port=abc",
		"postgres://u:a%" + secret + "@localhost/x",
		"postgresql://u:" + secret + "@[::1/x",
		"postgres://localhost/x?password=" + secret + "&port=abc",
		"postgres://u: " + secret + "@localhost/x",
		"POSTGRES://u:" + secret + "@localhost:abc/x",
		" postgres://u:" + secret + "@localhost:abc/x",
		"postgres://" + secret + "@" + nowhere,
	} {
		o := Options{Database: address, Host: "a", Keys: unused{}, Others: []keyholder.Holder{unused{}}, Timeout: 20 * time.Second}
		_, err := Open(t.Context(), o, [16]byte{1})
		check.That(t, err != nil && !strings.Contains(fmt.Sprintf("%v %+v %s %q", err, err, err, err), secret),
			"%s: %v; want an error without the password", address, err)
	}
}

// The error of a failed connection contains nothing of the text of pgx or of the server, because
// that may name parts of the string.
func TestConnectReason_HasNothingOfTheError(t *testing.T) {
	for want, err := range map[string]error{
		"the server refuses the password (SQLSTATE 28P01)":                &pgconn.PgError{Code: "28P01", Message: "password authentication failed for user " + secret},
		"the server has no such database (SQLSTATE 3D000)":                &pgconn.PgError{Code: "3D000", Message: "database " + secret + " does not exist"},
		"the server refuses the connection (SQLSTATE 0A000)":              &pgconn.PgError{Code: "0A000", Message: secret},
		"its host has no address: check the host":                         &net.DNSError{Err: "no such host", Name: secret},
		"context deadline exceeded":                                       fmt.Errorf("%s: %w", secret, context.DeadlineExceeded),
		"server is in standby mode":                                       fmt.Errorf("%s: %w", secret, pgconn.ErrStandbyConnection),
		"the server, or a proxy in front of it, does not do what sslmode": errors.New(secret),
	} {
		got := connectError(err)
		check.That(t, strings.Contains(got.Error(), want) && !strings.Contains(got.Error(), secret) &&
			errors.Is(got, err), "%v is shown as %v; want %q", err, got, want)
	}
}

// unused is a holder that is never called.
type unused struct{ keyholder.Holder }
