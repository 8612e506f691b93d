package pgjournal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// privateError replaces an error whose own text may contain parts of the connection string, and so
// of its password. In a malformed string, the password can be parsed as a user, a host or a
// database. Then pgx and the server name it in their errors. A privateError has a fixed text
// instead. errors.Is and errors.As find the cause, whose text must not be shown.
type privateError struct {
	text  string
	cause error
}

// Error implements error.
func (e *privateError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *privateError) Unwrap() error { return e.cause }

// parseError returns the error for a connection string that pgx rejects with err. Its text says how
// such a string is written, and why it is rejected, but has no part of the string.
func parseError(address string, err error) error {
	form := `as keyword=value pairs; a value with a blank, a quote or a backslash is written 'like \'this\''`
	if strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://") {
		form = "as a URL; special characters of a password are written %XX"
	}
	return &privateError{"the connection string cannot be read, " + form + parseReason(err) +
		" (it is not shown, because it may have a password)", err}
}

// parseReason returns why a connection string is rejected, as the end of a phrase that begins with
// ": ". It returns "" unless the reason begins with a text of pgx that is known to contain no part
// of the string. Only that text is returned, because the rest may contain a part.
func parseReason(err error) string {
	_, reason, _ := strings.Cut(err.Error(), "`: ") // pgx masks what it parses as a password
	for _, known := range []string{
		"failed to parse as keyword/value", "failed to parse as URL", "failed to read service", "invalid port",
		"invalid connect_timeout", "invalid keepalive",
		"failed to configure TLS", "unknown target_session_attrs value", "invalid statement_cache_capacity",
		"invalid default_query_exec_mode",
	} {
		if strings.HasPrefix(reason, known) {
			return ": " + known
		}
	}
	return ""
}

// connectError returns a [*privateError] for a connection that failed with err.
func connectError(err error) error {
	return &privateError{"connect to the database: " + connectReason(err), err}
}

// connectReason returns why the connection failed, without any part of the connection string. It
// chooses a fixed text by the type of the error. The last text is for all errors of other types.
func connectReason(err error) string {
	if refusal, is := errors.AsType[*pgconn.PgError](err); is {
		return refusalReason(refusal.Code)
	}
	for _, known := range []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENOENT,
		syscall.EACCES, syscall.EPIPE, context.Canceled,
		context.DeadlineExceeded, pgconn.ErrReadOnlyConnection, pgconn.ErrReadWriteConnection,
		pgconn.ErrPrimaryConnection, pgconn.ErrStandbyConnection,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if at, is := errors.AsType[net.Error](err); is && at.Timeout() {
		return "the server does not answer in time"
	}
	if _, is := errors.AsType[*net.DNSError](err); is {
		return "its host has no address: check the host, and that it is not the value of another keyword"
	}
	var unknown x509.UnknownAuthorityError
	var other x509.HostnameError
	var invalid x509.CertificateInvalidError
	var broken *tls.CertificateVerificationError
	if errors.As(err, &unknown) || errors.As(err, &other) || errors.As(err, &invalid) || errors.As(err, &broken) {
		return "the certificate of the server does not verify (sslrootcert, sslmode and host say what it must be)"
	}
	return "the server, or a proxy in front of it, does not do what sslmode and the user's authentication require"
}

// refusalReason returns why a server refuses a connection: a fixed text for the SQLSTATE code of
// its error, and the code.
func refusalReason(code string) string {
	reason := map[string]string{
		"28P01": "the server refuses the password", "28000": "the server refuses the user",
		"3D000": "the server has no such database", "42501": "the user may not connect",
		"53300": "the server has too many connections", "57P03": "the server is starting or stopping",
		"57P01": "the server is stopping",
		"42704": "the server does not know a parameter of the connection string",
		"22023": "the server does not take a parameter of the connection string",
	}[code]
	if reason == "" {
		reason = "the server refuses the connection"
	}
	return reason + " (SQLSTATE " + code + ")"
}
