// Package pgtest starts PostgreSQL servers for tests: primaries, standbys, and proxies between them
// and a host. Only tests import it.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicedp/sluice/internal/testenv"
)

// timeout limits each wait for a server.
const timeout = time.Minute

// Server is a PostgreSQL server of a test. It listens on a Unix socket in a directory of its own.
// It ends with the test, or with this process.
type Server struct {
	Dir      string   // the directory of the socket
	Data     string   // the data directory
	settings []string // such as "fsync=off"
	bin      string   // the directory of PostgreSQL's programs
	as       *account // the user that the server runs as; nil: the user of the tests
	wrap     []string // a command that runs the server, such as "ip netns exec name"

	running *exec.Cmd      // the shell that runs the server; nil: the server does not run
	stdin   io.WriteCloser // of that shell, which ends the server when this is closed
	log     bytes.Buffer   // what the server has printed
}

// Start creates a database and starts a server for it, with settings such as "fsync=off". If
// PostgreSQL is not installed, the test ends as with [testenv.Unsupported].
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return StartIn(t, nil, settings...)
}

// StartLasting is [Start] for a server that later tests use, too: it ends with this process.
func StartLasting(t testing.TB, settings ...string) *Server {
	t.Helper()
	return StartIn(withoutCleanup{t}, nil, settings...)
}

// withoutCleanup is a test whose cleanup functions do not run.
type withoutCleanup struct{ testing.TB }

func (withoutCleanup) Cleanup(func()) {}

// StartIn is [Start] with a command that runs the server, such as "ip netns exec name".
func StartIn(t testing.TB, wrap []string, settings ...string) *Server {
	t.Helper()
	s := prepare(t, settings)
	s.wrap = wrap
	template.Do(func() { template.data = initialize(t) })
	if template.data == "" {
		t.Fatal("copy the empty database: an earlier initdb failed")
	}
	if out, err := exec.Command("cp", "-a", template.data, s.Data).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	s.Begin(t)
	return s
}

// template is an empty database from which servers are copied, because initdb takes a second.
var template struct {
	sync.Once
	data string
	open io.Closer // a pipe that closes when this process ends
}

// initialize creates an empty database, and returns its data directory. A shell removes it when the
// pipe to the shell closes, which is when this process ends.
func initialize(t testing.TB) (data string) {
	t.Helper()
	s := prepare(withoutCleanup{t}, nil)
	c := exec.Command("sh", "-c", `read _; rm -rf "$1"`, "sh", s.Dir)
	c.SysProcAttr = attributes(nil)
	var err error
	if template.open, err = c.StdinPipe(); err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, "initdb", "-D", s.Data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync",
		"--wal-segsize=1")
	s.write(t, "pg_hba.conf",
		"local all all trust\nlocal replication all trust\nhost all all all trust\nhost replication all all trust\n")
	return s.Data
}

// prepare creates a directory for a server that does not run yet.
func prepare(t testing.TB, settings []string) *Server {
	t.Helper()
	s := &Server{settings: settings}
	var err error
	if s.bin, err = programDir(); err != nil {
		testenv.Unsupported(t, err.Error())
	}
	root := "/dev/shm"
	if _, err := os.Stat(root); err != nil {
		root = "" // slower, on a disk
	}
	if s.Dir, err = os.MkdirTemp(root, "sluice-pg-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Crash()
		if t.Failed() && s.log.Len() > 0 {
			t.Logf("end of the log of the server in %s:\n%s", s.Dir, s.log.Bytes()[max(0, s.log.Len()-4000):])
		}
		if err := os.RemoveAll(s.Dir); err != nil {
			t.Error(err)
		}
	})
	if s.as, err = unprivileged(); err == nil && s.as != nil {
		err = os.Chown(s.Dir, int(s.as.Uid), int(s.as.Gid))
	}
	if err != nil {
		testenv.Unsupported(t, err.Error())
	}
	s.Data = filepath.Join(s.Dir, "data")
	return s
}

// programDir returns the directory of PostgreSQL's programs: the one in PATH or, on Debian, the one
// of the newest version.
func programDir() (dir string, err error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))) // 0, for a name that is no number, sorts last
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = slices.Insert(dirs, 0, filepath.Dir(path))
	}
	for _, dir := range dirs {
		lacks := func(name string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err != nil
		}
		if !slices.ContainsFunc([]string{"postgres", "initdb", "pg_basebackup", "pg_ctl"}, lacks) {
			return dir, nil
		}
	}
	return "", errors.New("find PostgreSQL: not installed (Debian: apt-get install postgresql-15)")
}

// command returns a command that runs a program of PostgreSQL.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir, c.Env = s.Dir, append(os.Environ(), "LC_ALL=C")
	c.SysProcAttr = attributes(s.as)
	return c
}

// run runs a program of PostgreSQL until it ends, and fails the test if the program fails.
func (s *Server) run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %.2000s", name, err, out)
	}
}

// write writes a file in the data directory.
func (s *Server) write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(s.Data, name)
	err := os.WriteFile(path, []byte(text), 0o600)
	if err == nil && s.as != nil {
		err = os.Chown(path, int(s.as.Uid), int(s.as.Gid))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Begin starts the server, which must not run, and waits until it answers.
func (s *Server) Begin(t testing.TB) {
	t.Helper()
	args := []string{s.command("postgres").Path, "-D", s.Data, "-k", s.Dir}
	for _, setting := range slices.Concat([]string{
		"listen_addresses=", "port=5432", "shared_buffers=16MB", "max_connections=60", "min_wal_size=8MB",
		"wal_keep_size=64MB", "wal_receiver_status_interval=1s",
		"wal_retrieve_retry_interval=100ms", "hot_standby=on", "log_min_messages=warning", "jit=off",
		"restart_after_crash=off",
	}, s.settings) {
		args = append(args, "-c", setting)
	}
	// When this process ends, the pipe closes. The shell then ends the server and removes its
	// directory, unless the word "keep" was written to the pipe.
	script := `dir=$1; shift; "$@" </dev/null & p=$!; read word; kill -QUIT $p; wait $p
		[ "$word" = keep ] || rm -rf "$dir"`
	c := exec.Command("sh", append([]string{"-c", script, "sh", s.Dir}, args...)...)
	if len(s.wrap) > 0 {
		c = exec.Command(s.wrap[0], slices.Concat(s.wrap[1:], s.asUser(), c.Args)...)
	} else {
		c.SysProcAttr = attributes(s.as)
	}
	c.Dir, c.Env = s.Dir, append(os.Environ(), "LC_ALL=C")
	c.Stdout, c.Stderr = &s.log, &s.log
	var err error
	if s.stdin, err = c.StdinPipe(); err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.running = c
	s.Await(t)
}

// asUser returns a command that runs another command as the user of the server.
func (s *Server) asUser() []string {
	if s.as == nil {
		return nil
	}
	return []string{"setpriv", fmt.Sprintf("--reuid=%d", s.as.Uid), fmt.Sprintf("--regid=%d", s.as.Gid),
		"--clear-groups"}
}

// Await waits until the server answers.
func (s *Server) Await(t testing.TB) {
	t.Helper()
	Until(t, "the server answers", func() error {
		_, err := s.Try("postgres", "SELECT 1")
		return err
	})
}

// Until calls is again and again until it returns nil. If that takes longer than timeout, the test
// fails with the last error; what completes the sentence "waiting until …".
func Until(t testing.TB, what string, is func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := is()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting until %s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Address returns the connection string of a database.
func (s *Server) Address(database string) string {
	return "host=" + s.Dir + " port=5432 user=postgres dbname=" + database
}

// Socket returns the path of the socket.
func (s *Server) Socket() string { return filepath.Join(s.Dir, ".s.PGSQL.5432") }

// Exec runs statements in a database. It returns the first column of the result of the last one.
func (s *Server) Exec(t testing.TB, database, sql string) (rows []string) {
	t.Helper()
	rows, err := s.Try(database, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// Try is [Server.Exec] for statements that may fail.
func (s *Server) Try(database, sql string) (rows []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := pgx.Connect(ctx, s.Address(database))
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	results, err := c.PgConn().Exec(ctx, sql).ReadAll()
	for _, r := range results {
		rows = nil
		for _, row := range r.Rows {
			rows = append(rows, string(row[0]))
		}
	}
	return rows, err
}

// Database creates an empty database and returns its connection string. An existing database of
// that name is dropped.
func (s *Server) Database(t testing.TB, name string) (address string) {
	t.Helper()
	id := pgx.Identifier{name}.Sanitize()
	s.Exec(t, "postgres", "DROP DATABASE IF EXISTS "+id+" WITH (FORCE)")
	s.Exec(t, "postgres", "CREATE DATABASE "+id)
	return s.Address(name)
}

// Stop shuts the server down: commits are flushed and sent to the standbys.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.run(t, "pg_ctl", "stop", "-D", s.Data, "-m", "fast", "-t", strconv.Itoa(int(timeout.Seconds())))
	s.Crash()
}

// Crash kills the server if it is running. It is like a power cut, except that the kernel still
// writes the file data that it holds.
func (s *Server) Crash() {
	if s.running != nil {
		_, _ = io.WriteString(s.stdin, "keep\n")
		_ = s.stdin.Close()
		_ = s.running.Wait() // an error is expected: the server was killed
		s.running = nil
	}
}

// WaitEnded waits until the server has ended by itself, and no longer answers.
func (s *Server) WaitEnded(t testing.TB) {
	t.Helper()
	Until(t, "the server has ended by itself", func() error {
		if _, err := s.Try("postgres", "SELECT 1"); err == nil {
			return errors.New("the server still answers")
		}
		return nil
	})
	s.Crash() // only ends the shell that ran the server
}

// Standby creates a standby of the database, which follows the server under a name, and starts it.
func (s *Server) Standby(t testing.TB, name string, settings ...string) *Server {
	t.Helper()
	b := s.Backup(t, settings...)
	b.Follow(t, s, name)
	b.Begin(t)
	return b
}

// Follow makes a server that does not run follow a primary when it starts.
func (s *Server) Follow(t testing.TB, primary *Server, name string) {
	t.Helper()
	s.write(t, "standby.signal", "")
	s.write(t, "postgresql.auto.conf",
		fmt.Sprintf("primary_conninfo = 'host=%s port=5432 user=postgres application_name=%s'\n", primary.Dir, name))
}

// Promote makes the standby a primary.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "postgres", "SELECT pg_promote()") // returns when the server is a primary
}

// waitAnswer waits until a query returns exactly one row, whose first column is want.
func (s *Server) waitAnswer(t testing.TB, want, query string) {
	t.Helper()
	Until(t, query+" returns "+want, func() error {
		rows, err := s.Try("postgres", query)
		if err == nil && !slices.Equal(rows, []string{want}) {
			err = fmt.Errorf("the query returns %q", rows)
		}
		return err
	})
}

// SetSynchronous sets the standbys that commits of the server wait for, such as "ANY 1 (a, b)", or
// "" for none.
func (s *Server) SetSynchronous(t testing.TB, standbys string) {
	t.Helper()
	s.Exec(t, "postgres", "ALTER SYSTEM SET synchronous_standby_names = '"+standbys+"'")
	s.Exec(t, "postgres", "SELECT pg_reload_conf()")
	s.waitAnswer(t, standbys, "SELECT current_setting('synchronous_standby_names')")
}

// WaitStreaming waits until the standbys have replayed everything that the server has committed.
func (s *Server) WaitStreaming(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		s.waitAnswer(t, "t", "SELECT replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication "+
			"WHERE application_name = '"+name+"' AND state = 'streaming'")
	}
}

// Backup copies the data of a running server, and returns a new server for it that is not started.
func (s *Server) Backup(t testing.TB, settings ...string) *Server {
	t.Helper()
	b := prepare(t, settings)
	b.run(t, "pg_basebackup", "-D", b.Data, "-d", s.Address("postgres"), "--checkpoint=fast", "--no-sync", "-X",
		"stream")
	return b
}
