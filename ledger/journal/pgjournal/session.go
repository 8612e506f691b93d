package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/mod/sumdb/tlog"
)

var (
	// errServer is an [ErrOptions]: the server is a standby, read-only, does not flush, or is not
	// PostgreSQL.
	errServer = fmt.Errorf("%w: the server cannot hold a journal", ErrOptions)

	// errPooled is returned if statements of one session ran in different ones.
	errPooled = errors.New("the statements did not run in one session: " + poolMode)
	// errMixed is returned if an answer belongs to another query. The connection is not used any
	// more.
	errMixed = errors.New("the answer belongs to another query: a proxy between this host and the database repeats " +
		"or drops messages")
	// errWarned is returned if the server has sent a warning. The statement was executed. The most
	// important warning is that the server stopped waiting for standbys.
	errWarned = errors.New("the database has executed the statement, and sent a warning")
)

// poolMode is the advice where settings, statements and transactions do not last as long as a
// session.
const poolMode = "the likely cause is pgbouncer with pool_mode transaction or statement: set pool_mode = session for " +
	"this database, " +
	"or connect to PostgreSQL itself"

// ofPool adds errPooled and its advice to an error that only occurs if a connection pool shares
// sessions. It returns other errors unchanged.
func ofPool(err error) error {
	reason, is := errors.AsType[*pgconn.PgError](err)
	if !is {
		return err
	}
	const noStatement, duplicateStatement, protocol = "26000", "42P05", "08P01"
	switch {
	case reason.Code == noStatement, reason.Code == duplicateStatement:
	case reason.Code == protocol && strings.Contains(reason.Message, "pooling mode"):
	default:
		return err
	}
	return fmt.Errorf("%w: %w", errPooled, err)
}

const (
	connectTimeout = 10 * time.Second
	idleTooLong    = time.Second // idle sessions are tested before use after this time
	oldestVersion  = 130000
)

// connection parses the address of a database ([Options.Database]), and returns a configuration
// with keepalives, and with a timeout for connecting unless the address has one. The error has no
// part of the address.
func connection(address string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, parseError(address, err)
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         controlSocket,
	}
	c.DialFunc = dialer.DialContext
	return c, nil
}

// session is a connection to the primary. Only one goroutine may use it at a time.
type session struct {
	conn   *pgx.Conn
	pid    int32             // the process id of the server's process
	warned error             // the warnings since the last query was sent
	number int64             // the number of the last query
	used   time.Time         // when the last query was sent
	schema string            // quoted as an identifier
	texts  map[string]string // statements with the schema inserted
}

// in returns a statement with the schema in place of each "@". It keeps the result, because the
// statements are few.
func (s *session) in(statement string) string {
	text, known := s.texts[statement]
	if !known {
		text = strings.ReplaceAll(statement, "@", s.schema)
		s.texts[statement] = text
	}
	return text
}

// dial connects to the database and configures the session. It returns an [ErrOptions] if the
// server is unsuitable ([session.configure]), and a [*privateError] if it cannot connect. From then
// on, a warning of the server is stored in the session.
func (o *settings) dial(ctx context.Context) (*session, error) {
	s := &session{used: time.Now(), schema: pgx.Identifier{o.Schema}.Sanitize(), texts: map[string]string{}}
	c := o.config.Copy()
	c.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		// Notices and information are not warnings. Only the last warning is kept.
		if n.SeverityUnlocalized != "NOTICE" && n.SeverityUnlocalized != "INFO" {
			s.warned = fmt.Errorf("%w: %s: %s %s", errWarned, n.Severity, n.Message, n.Detail)
		}
	}
	var err error
	if s.conn, err = pgx.ConnectConfig(ctx, c); err != nil {
		return nil, connectError(err)
	}
	if err := s.configure(ctx, o.Host, o.Timeout); err != nil { // errServer: the server is unsuitable
		s.close()
		return nil, err
	}
	return s, nil
}

// applicationName is the prefix of each session's application name. The host's name follows;
// PostgreSQL truncates it.
const applicationName = "sluice "

// configure sets the parameters of the session, including what its commits wait for, and sets
// s.pid. The server then ends a transaction of the session that is idle for longer than timeout.
// The error is an errServer if the server is not PostgreSQL, too old, a standby, read-only, or does
// not flush.
func (s *session) configure(ctx context.Context, host string, timeout time.Duration) error {
	var standby bool
	var number int
	var flushes, readOnly, text, ignore string // text is the version; ignore has the results of set_config
	// The server, too, must notice that the other side of a connection has disappeared, because an
	// open transaction locks the head of a journal.
	err := s.conn.QueryRow(ctx, `SELECT pg_backend_pid(), pg_is_in_recovery(),
		current_setting('server_version_num')::int, current_setting('fsync'),
		current_setting('transaction_read_only'), version(), concat(set_config('client_min_messages', 'warning',
		false), set_config('application_name', $2, false),
		set_config('default_transaction_isolation', 'read committed', false),
		set_config('idle_in_transaction_session_timeout', $1, false), set_config('tcp_user_timeout', '20000', false),
		set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
		set_config('tcp_keepalives_count', '3', false),
		set_config('synchronous_commit',
		CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false))`,
		strconv.FormatInt(max(1, timeout.Milliseconds()), 10), applicationName+host).
		Scan(&s.pid, &standby, &number, &flushes, &readOnly, &text, &ignore)
	switch {
	case err != nil:
		return err
	case !strings.HasPrefix(text, "PostgreSQL ") || strings.Contains(text, "-YB-"):
		return fmt.Errorf("%w: it is %.60q, which only speaks PostgreSQL's protocol", errServer, text)
	case number < oldestVersion:
		return fmt.Errorf("%w: its version is %d, at least %d is needed", errServer, number, oldestVersion)
	case standby:
		return fmt.Errorf("%w: it is a standby; a journal is read and written on the primary only", errServer)
	case readOnly != "off":
		return fmt.Errorf("%w: it is read-only", errServer)
	case flushes != "on":
		return fmt.Errorf("%w: it runs with fsync=%s, so a crash can lose commits", errServer, flushes)
	}
	return nil
}

// close closes the connection, and waits at most a second for that. s may be nil.
func (s *session) close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// If the message of the end of the session is not sent, the server notices by itself.
	_ = s.conn.Close(ctx)
}

// alive reports whether the session can be used. It tests a session that was idle for longer than
// [idleTooLong] with a message to the server.
func (s *session) alive(ctx context.Context) bool {
	if s.conn.IsClosed() {
		return false
	}
	if time.Since(s.used) < idleTooLong {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return s.conn.Ping(ctx) == nil
}

// next must be called before each query. It returns the number of the query, and clears the
// warnings of the one before.
func (s *session) next() int64 {
	s.number++
	s.warned, s.used = nil, time.Now()
	return s.number
}

// ask runs a query that returns one row. It sends the number of the query as $1, and args from $2
// on. The first column of the row must be that number; the other columns are stored in into.
//
// If the number is another one, ask closes the session and returns errMixed. If the server sent a
// warning, it returns errWarned, although the statement was executed.
func (s *session) ask(ctx context.Context, sql string, args []any, into ...any) error {
	number, echo := s.next(), int64(0)
	err := s.conn.QueryRow(ctx, s.in(sql), append([]any{number}, args...)...).Scan(append([]any{&echo}, into...)...)
	if err == nil && echo != number {
		err = s.mixed()
	}
	return errors.Join(ofPool(err), s.warned)
}

// mixed closes the session, because later answers would be mixed up, too, and returns errMixed.
func (s *session) mixed() error {
	s.close()
	return errMixed
}

// number scans a number. NULL is 0.
type number uint64

// ScanInt64 implements [pgtype.Int64Scanner].
func (n *number) ScanInt64(v pgtype.Int8) error {
	*n = number(v.Int64)
	return nil
}

// root scans the root of a position. NULL is the root of no events.
type root tlog.Hash

// ScanBytes implements [pgtype.BytesScanner].
func (r *root) ScanBytes(b []byte) error {
	*r = root{}
	copy(r[:], b)
	return nil
}

// change runs a statement that changes rows, and returns how many it changed ([session.ask]). When
// it returns without an error outside a transaction, the change is durable.
func (s *session) change(ctx context.Context, sql string, args ...any) (n int64, err error) {
	err = s.ask(ctx, sql, args, &n)
	return n, err
}

// step is a statement that must change one row.
type step struct {
	sql  string
	args []any
}

// inTransaction runs steps in one transaction. It returns true if all changes were committed. It
// returns false and nil, and changes nothing, if the first step does not change one row. It returns
// an error if any other step does not change one row; the caller then closes the session, which
// ends the transaction.
//
// It commits only after each step has reported its count, because a proxy may have dropped a step.
// After an error of the connection it is unknown whether anything was committed.
func (s *session) inTransaction(ctx context.Context, steps []step) (changed bool, err error) {
	if len(steps) == 1 { // a single statement is a transaction by itself
		n, err := s.change(ctx, steps[0].sql, steps[0].args...)
		return n == 1, err
	}
	if err := s.command(ctx, "BEGIN"); err != nil {
		return false, err
	}
	for i, do := range steps {
		n, err := s.change(ctx, do.sql, do.args...)
		if err != nil {
			return false, err
		}
		if n != 1 && i == 0 {
			return false, s.command(ctx, "ROLLBACK")
		}
		if n != 1 {
			return false, fmt.Errorf("step %d of %d has changed %d rows instead of 1", i+1, len(steps), n)
		}
	}
	return true, s.command(ctx, "COMMIT")
}

// command begins or ends a transaction: what is "BEGIN", "COMMIT" or "ROLLBACK". If the server
// reports that it did something else, such as a rollback in place of a commit, command closes the
// session and returns errMixed.
func (s *session) command(ctx context.Context, what string) error {
	s.next()
	tag, err := s.conn.Exec(ctx, what)
	if err == nil && tag.String() != what {
		err = s.mixed()
	}
	return errors.Join(ofPool(err), s.warned)
}

// refused reports whether err means that the server has refused a statement, and the session can
// still be used. Then nothing was changed. If a transaction was open, refused rolls it back. It
// returns false if the server sent a warning, or if the rollback fails.
func (s *session) refused(ctx context.Context, err error) bool {
	reason, is := errors.AsType[*pgconn.PgError](err)
	if !is || reason.SeverityUnlocalized != "ERROR" || s.warned != nil || s.conn.IsClosed() {
		return false
	}
	// 'I' is idle: no transaction is open.
	return s.conn.PgConn().TxStatus() == 'I' || s.command(ctx, "ROLLBACK") == nil
}
