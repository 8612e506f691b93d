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
	// errServer is an [ErrOptions]: no journal can be in a server that is a standby or read-only,
	// that does not flush, or that is not PostgreSQL.
	errServer = fmt.Errorf("%w: not a server for a journal", ErrOptions)

	// errPooled says that a session is not one.
	errPooled = errors.New("this is not one session: " + poolMode)
	// errMixed says that an answer is to something else. Nothing more is to be believed of that
	// connection.
	errMixed = errors.New("the answer is to another question: something between this host and the database repeats " +
		"or drops what is sent")
	// errWarned says that the server has warned of something. What it warns of most is that it gave
	// up waiting for standbys, and it says that what was to be done is done.
	errWarned = errors.New("the database has done it, and warned")
)

// poolMode says what to do where settings, statements and transactions of a session do not last.
const poolMode = "the likely cause is pgbouncer with pool_mode transaction or statement: set pool_mode = session for " +
	"this database, " +
	"or connect to PostgreSQL itself"

// ofPool returns an error of the database as one that names the pool, if it is one that sessions
// get only where they share a connection with others.
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
	idleTooLong    = time.Second // after that a session is tried before it is used
	oldestVersion  = 130000
)

// connection reads the address of a database.
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

// session is a connection to the primary. Only one goroutine uses it at a time.
type session struct {
	conn   *pgx.Conn
	pid    int32 // of the server's process
	warned error // what the server has warned of since it was asked last
	number int64 // of what it was asked last
	used   time.Time
	schema string            // as an identifier
	texts  map[string]string // of statements, with the schema in them
}

// in returns a statement with the name of the schema in it.
func (s *session) in(statement string) string {
	text, known := s.texts[statement]
	if !known {
		text = strings.ReplaceAll(statement, "@", s.schema)
		s.texts[statement] = text
	}
	return text
}

// dial connects to the database, and refuses a server that will not do.
func (o *settings) dial(ctx context.Context) (*session, error) {
	s := &session{used: time.Now(), schema: pgx.Identifier{o.Schema}.Sanitize(), texts: map[string]string{}}
	c := o.config.Copy()
	c.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized != "NOTICE" && n.SeverityUnlocalized != "INFO" {
			s.warned = fmt.Errorf("%w: %s: %s %s", errWarned, n.Severity, n.Message, n.Detail)
		}
	}
	var err error
	if s.conn, err = pgx.ConnectConfig(ctx, c); err != nil {
		return nil, connectError(err)
	}
	if err := s.suit(ctx, o.Host, o.Timeout); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// applicationName is what the application name of each session begins with. The name of the host
// follows, as far as there is space.
const applicationName = "sluice "

// suit sets what commits of this session wait for, and says whether the server will do.
func (s *session) suit(ctx context.Context, host string, timeout time.Duration) error {
	var standby bool
	var number int
	var flushes, readOnly, text, ignore string
	// Where the other side of a connection is gone without a word, the server shall notice, too: an
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
		return fmt.Errorf("%w: it is %.60q, which speaks like PostgreSQL", errServer, text)
	case number < oldestVersion:
		return fmt.Errorf("%w: its version is %d", errServer, number)
	case standby:
		return fmt.Errorf("%w: it is a standby; a journal is read and written on the primary only", errServer)
	case readOnly != "off":
		return fmt.Errorf("%w: it is read-only", errServer)
	case flushes != "on":
		return fmt.Errorf("%w: it runs with fsync=%s, and so keeps nothing for sure", errServer, flushes)
	}
	return nil
}

func (s *session) close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // the server notices by itself
}

// alive tells whether the session can be used. One that nobody has used for a while is tried.
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

// next begins a question, and returns its number.
func (s *session) next() int64 {
	s.number++
	s.warned, s.used = nil, time.Now()
	return s.number
}

// ask asks for one row, which begins with the number of the question.
func (s *session) ask(ctx context.Context, sql string, args []any, into ...any) error {
	number, echo := s.next(), int64(0)
	err := s.conn.QueryRow(ctx, s.in(sql), append([]any{number}, args...)...).Scan(append([]any{&echo}, into...)...)
	if err == nil && echo != number {
		err = s.mixed()
	}
	return errors.Join(ofPool(err), s.warned)
}

// mixed gives up the session.
func (s *session) mixed() error {
	s.close()
	return errMixed
}

// number scans a number. NULL is 0.
type number uint64

// ScanInt64 is [pgtype.Int64Scanner].
func (n *number) ScanInt64(v pgtype.Int8) error {
	*n = number(v.Int64)
	return nil
}

// root scans the root of a position. NULL is the root of no events.
type root tlog.Hash

// ScanBytes is [pgtype.BytesScanner].
func (r *root) ScanBytes(b []byte) error {
	*r = root{}
	copy(r[:], b)
	return nil
}

// change has something changed, and returns how many rows were. It is durable then.
func (s *session) change(ctx context.Context, sql string, args ...any) (n int64, err error) {
	err = s.ask(ctx, sql, args, &n)
	return n, err
}

// step is something that is to change one row.
type step struct {
	sql  string
	args []any
}

// together does several steps in one transaction. It tells whether the first one has changed its
// row; if not, nothing is changed. Any of the others must. It is committed only when each has said
// that it did what it should: something in between may have dropped one.
func (s *session) together(ctx context.Context, steps []step) (changed bool, err error) {
	if len(steps) == 1 {
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
			return false, fmt.Errorf("step %d of %d has changed %d rows", i+1, len(steps), n)
		}
	}
	return true, s.command(ctx, "COMMIT")
}

// command begins or ends a transaction.
func (s *session) command(ctx context.Context, what string) error {
	s.next()
	tag, err := s.conn.Exec(ctx, what)
	if err == nil && tag.String() != what {
		err = s.mixed()
	}
	return errors.Join(ofPool(err), s.warned)
}

// refused tells whether the server has refused something, and the session goes on: nothing was
// changed. A transaction that was begun is over.
func (s *session) refused(ctx context.Context, err error) bool {
	reason, is := errors.AsType[*pgconn.PgError](err)
	if !is || reason.SeverityUnlocalized != "ERROR" || s.warned != nil || s.conn.IsClosed() {
		return false
	}
	return s.conn.PgConn().TxStatus() == 'I' || s.command(ctx, "ROLLBACK") == nil
}
