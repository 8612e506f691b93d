// Package pgtest starts PostgreSQL servers for tests: primaries, standbys, and what lies between
// them and a host. Only tests import it.
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

// patience is how long anything may take that ends.
const patience = time.Minute

// Server is a PostgreSQL server of a test, on a Unix socket in a directory of its own. It ends with
// the test, or with this process.
type Server struct {
	Dir      string // where the socket is
	Data     string // the database
	settings []string
	bin      string
	as       *account
	wrap     []string // a command to run it by

	running *exec.Cmd
	stdin   io.WriteCloser
	log     bytes.Buffer
}

// Start makes a database, and starts a server for it with settings such as "fsync=off". Where
// PostgreSQL is not installed, the test is impossible.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return StartIn(t, nil, settings...)
}

// StartLasting is Start of a server that ends with this process, and not with the test: other tests
// can use it, too.
func StartLasting(t testing.TB, settings ...string) *Server {
	t.Helper()
	return StartIn(lasting{t}, nil, settings...)
}

// lasting is a test behind which nothing is tidied up.
type lasting struct{ testing.TB }

func (lasting) Cleanup(func()) {}

// StartIn is Start by way of a command, such as "ip netns exec name".
func StartIn(t testing.TB, wrap []string, settings ...string) *Server {
	t.Helper()
	s := prepare(t, settings)
	s.wrap = wrap
	made.Do(func() { made.data = initialize(t) })
	if made.data == "" {
		t.Fatal("no database could be made")
	}
	if out, err := exec.Command("cp", "-a", made.data, s.Data).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	s.Begin(t)
	return s
}

// made is an empty database, to be copied: it takes a second to make one.
var made struct {
	sync.Once
	data string
	open io.Closer // a pipe, as long as this process is
}

// initialize makes an empty database, which is removed when this process is gone.
func initialize(t testing.TB) (data string) {
	t.Helper()
	s := prepare(lasting{t}, nil)
	c := exec.Command("sh", "-c", `read _; rm -rf "$1"`, "sh", s.Dir)
	c.SysProcAttr = attributes(nil)
	var err error
	if made.open, err = c.StdinPipe(); err == nil {
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

// prepare makes a directory for a server.
func prepare(t testing.TB, settings []string) *Server {
	t.Helper()
	s := &Server{settings: settings}
	var err error
	if s.bin, err = programs(); err != nil {
		testenv.Unsupported(t, err.Error())
	}
	root := "/dev/shm"
	if _, err := os.Stat(root); err != nil {
		root = "" // a disk takes longer
	}
	if s.Dir, err = os.MkdirTemp(root, "sluice-pg-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Crash()
		if t.Failed() && s.log.Len() > 0 {
			t.Logf("the log of %s ends so:\n%s", s.Dir, s.log.Bytes()[max(0, s.log.Len()-4000):])
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

// programs returns the directory of PostgreSQL's programs: that of the path or, on Debian, that of
// the newest version.
func programs() (dir string, err error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))) // 0 sorts last
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
	return "", errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql-15)")
}

// command is a program of PostgreSQL.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir, c.Env = s.Dir, append(os.Environ(), "LC_ALL=C")
	c.SysProcAttr = attributes(s.as)
	return c
}

func (s *Server) run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %.2000s", name, err, out)
	}
}

// write writes a file of the database.
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

// Begin starts the server of a database that none is running for, and waits until it answers.
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
	// When this process is gone, so is the other end of the pipe: the shell ends the server, and
	// removes what it had.
	script := `dir=$1; shift; "$@" </dev/null & p=$!; read word; kill -QUIT $p; wait $p
		[ "$word" = keep ] || rm -rf "$dir"`
	c := exec.Command("sh", append([]string{"-c", script, "sh", s.Dir}, args...)...)
	if len(s.wrap) > 0 {
		c = exec.Command(s.wrap[0], slices.Concat(s.wrap[1:], s.demoted(), c.Args)...)
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

// demoted is a command that runs another one as the user of the server.
func (s *Server) demoted() []string {
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

// Until waits until something is so.
func Until(t testing.TB, what string, is func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
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

// Address is that of a database, on the socket.
func (s *Server) Address(database string) string {
	return "host=" + s.Dir + " port=5432 user=postgres dbname=" + database
}

// Socket is the path of the socket.
func (s *Server) Socket() string { return filepath.Join(s.Dir, ".s.PGSQL.5432") }

// Exec runs statements in a database, and returns the first column of what the last of them
// returns.
func (s *Server) Exec(t testing.TB, database, sql string) (rows []string) {
	t.Helper()
	rows, err := s.Try(database, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// Try is Exec of what may fail.
func (s *Server) Try(database, sql string) (rows []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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

// Database makes an empty database, in place of one that had its name, and returns its address.
func (s *Server) Database(t testing.TB, name string) (address string) {
	t.Helper()
	id := pgx.Identifier{name}.Sanitize()
	s.Exec(t, "postgres", "DROP DATABASE IF EXISTS "+id+" WITH (FORCE)")
	s.Exec(t, "postgres", "CREATE DATABASE "+id)
	return s.Address(name)
}

// Stop ends the server in order: commits are flushed, and sent to the standbys.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.run(t, "pg_ctl", "stop", "-D", s.Data, "-m", "fast", "-t", strconv.Itoa(int(patience.Seconds())))
	s.Crash()
}

// Crash ends the server at once, if it is running, as a power cut would, but for what the system has
// in its memory.
func (s *Server) Crash() {
	if s.running != nil {
		_, _ = io.WriteString(s.stdin, "keep\n")
		_ = s.stdin.Close()
		_ = s.running.Wait() // it was killed
		s.running = nil
	}
}

// Ended waits until the server has ended by itself.
func (s *Server) Ended(t testing.TB) {
	t.Helper()
	Until(t, "the server has ended by itself", func() error {
		if _, err := s.Try("postgres", "SELECT 1"); err == nil {
			return errors.New("it answers")
		}
		return nil
	})
	s.Crash()
}

// Standby makes a standby that follows the server, under a name, and starts it.
func (s *Server) Standby(t testing.TB, name string, settings ...string) *Server {
	t.Helper()
	b := s.Backup(t, settings...)
	b.Follow(t, s, name)
	b.Begin(t)
	return b
}

// Follow has the database of a server that is not running follow another one.
func (s *Server) Follow(t testing.TB, primary *Server, name string) {
	t.Helper()
	s.write(t, "standby.signal", "")
	s.write(t, "postgresql.auto.conf",
		fmt.Sprintf("primary_conninfo = 'host=%s port=5432 user=postgres application_name=%s'\n", primary.Dir, name))
}

// Promote makes a primary of a standby.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "postgres", "SELECT pg_promote()") // returns when it is one
}

// answers waits until a query returns a text.
func (s *Server) answers(t testing.TB, want, query string) {
	t.Helper()
	Until(t, query+" returns "+want, func() error {
		rows, err := s.Try("postgres", query)
		if err == nil && !slices.Equal(rows, []string{want}) {
			err = fmt.Errorf("it returns %q", rows)
		}
		return err
	})
}

// Waits sets which standbys the commits of a server wait for, such as "ANY 1 (a, b)"; "" for none.
func (s *Server) Waits(t testing.TB, standbys string) {
	t.Helper()
	s.Exec(t, "postgres", "ALTER SYSTEM SET synchronous_standby_names = '"+standbys+"'")
	s.Exec(t, "postgres", "SELECT pg_reload_conf()")
	s.answers(t, standbys, "SELECT current_setting('synchronous_standby_names')")
}

// Streaming waits until standbys have all that the server has committed.
func (s *Server) Streaming(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		s.answers(t, "t", "SELECT replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication "+
			"WHERE application_name = '"+name+"' AND state = 'streaming'")
	}
}

// Backup copies the database of a running server into a new server that is not running.
func (s *Server) Backup(t testing.TB, settings ...string) *Server {
	t.Helper()
	b := prepare(t, settings)
	b.run(t, "pg_basebackup", "-D", b.Data, "-d", s.Address("postgres"), "--checkpoint=fast", "--no-sync", "-X",
		"stream")
	return b
}
