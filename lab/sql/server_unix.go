//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is a private PostgreSQL server with default settings, on a socket in its own directory.
type server struct {
	dir      string
	postgres string // the program
	as       *syscall.Credential
	process  *exec.Cmd
	log      bytes.Buffer
	address  string // of the database, for pgx
}

// startServer creates a database in a new directory under another one, and starts a server for it.
// The server refuses to run as root. If this process does, the server runs as the user postgres.
func startServer(ctx context.Context, under string) (_ *server, err error) {
	initdb, postgres, err := findPostgres()
	if err != nil {
		return nil, err
	}
	s := &server{}
	if s.dir, err = os.MkdirTemp(under, "sluice-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if s.as, err = unprivileged(s.dir); err != nil {
		return nil, err
	}
	create := s.command(initdb, "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
	if out, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %.500s", err, out)
	}
	if s.postgres, err = filepath.EvalSymlinks(postgres); err != nil {
		return nil, err
	}
	return s, s.start(ctx)
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

// socket returns the path at which the server listens.
func (s *server) socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// start starts the server of a database.
func (s *server) start(ctx context.Context) error {
	s.process = s.command(s.postgres, "-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-p", "5432")
	s.process.Stdout, s.process.Stderr = &s.log, &s.log
	if err := s.process.Start(); err != nil {
		s.process = nil
		return err
	}
	s.address = "host=" + s.dir + " port=5432 user=postgres dbname=postgres"
	return s.await(ctx)
}

// standby starts a standby of the server with a name.
func (s *server) standby(ctx context.Context, name string) (_ *server, err error) {
	b := &server{postgres: s.postgres}
	if b.dir, err = os.MkdirTemp(filepath.Dir(s.dir), "sluice-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	if b.as, err = unprivileged(b.dir); err != nil {
		return nil, err
	}
	from := fmt.Sprintf("host=%s port=5432 user=postgres application_name=%s", s.dir, name)
	copying := b.command(filepath.Join(filepath.Dir(s.postgres), "pg_basebackup"), "-D", b.data(), "-d", from,
		"--checkpoint=fast", "-X", "stream", "-R")
	if out, err := copying.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %.500s", err, out)
	}
	return b, b.start(ctx)
}

// waits makes commits wait for any one of the named standbys.
func (s *server) waits(ctx context.Context, names string) error {
	c, err := pgx.Connect(ctx, s.address)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ("+names+")'")
	if err == nil {
		_, err = c.Exec(ctx, "SELECT pg_reload_conf()")
	}
	return errors.Join(err, c.Close(ctx))
}

// findPostgres finds the programs in the path, or in the directory of Debian.
func findPostgres() (initdb, postgres string, err error) {
	if initdb, err = exec.LookPath("initdb"); err == nil {
		if postgres, err = exec.LookPath("postgres"); err == nil {
			return initdb, postgres, nil
		}
	}
	places, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(places) == 0 {
		return "", "", errors.New("initdb and postgres are not installed")
	}
	initdb = slices.MaxFunc(places, func(a, b string) int { return versionOf(a) - versionOf(b) })
	return initdb, filepath.Join(filepath.Dir(initdb), "postgres"), nil
}

// versionOf returns the version in a path of Debian.
func versionOf(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 sorts last
	return n
}

// unprivileged returns the user as which the server runs, and makes that user the owner of the
// directory. nil means the user of this process.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("as root: %w", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
}

// command returns a command in the server's directory. It has its own process group, so that a
// signal from the terminal does not end it before stop does.
func (s *server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return c
}

// await waits until the server answers.
func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, s.address)
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the server and removes its directory.
func (s *server) stop() error {
	if s.process != nil {
		// the server rolls back and ends; an error means that it has already ended
		_ = s.process.Process.Signal(os.Interrupt)
		if err := s.process.Wait(); err != nil {
			return fmt.Errorf("postgres: %w: %.500s", err, s.log.String())
		}
	}
	return os.RemoveAll(s.dir)
}

// fresh creates an empty database, and returns its address.
func (s *server) fresh(ctx context.Context, name string) (address string, err error) {
	c, err := pgx.Connect(ctx, s.address)
	if err != nil {
		return "", err
	}
	_, err = c.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err := errors.Join(err, c.Close(ctx)); err != nil {
		return "", err
	}
	return "host=" + s.dir + " port=5432 user=postgres dbname=" + name, nil
}
