//go:build unix

package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
)

// Three hosts share the journal of a ledger in PostgreSQL: the primary, a standby that takes over,
// and a holder of keys.
func TestStandby_PrimaryKilled_TakesOver(t *testing.T) { runHosts(t, "testdata/standby") }

// After a database has lost a journal or the end of it, or a host is lost, an operator repairs the
// journal by commands.
func TestJournal_LostDataOrHost_IsRepaired(t *testing.T) { runHosts(t, "testdata/journal") }

// runHosts runs the scripts in a directory. Each can use the hosts a, b and c, which share a
// database.
func runHosts(t *testing.T, dir string) {
	server := pgtest.Start(t)
	p := scripts(t, dir, "")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		database := server.Address("postgres")
		authority := pgtest.NewAuthority(t)
		at := map[string]string{"a": freePort(t), "b": freePort(t), "c": freePort(t)}
		for host := range at {
			dir := filepath.Join(env.WorkDir, host)
			others := map[string]string{}
			for other, address := range at {
				if other != host {
					others[other] = "https://" + address
				}
			}
			text, err := json.Marshal(map[string]any{
				"database": database, "host": host, "keys": "keys", "listen": at[host], "others": others, "cert": "host.pem", "key": "host.key", "authority": "authority.pem",
			})
			if err == nil {
				err = os.Mkdir(dir, 0o700)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "journal.json"), text, 0o600)
			}
			if err != nil {
				return err
			}
			authority.Files(dir, host)
		}
		return setup(env)
	}
	p.Cmds["events"] = events
	p.Cmds["sql"] = func(ts *testscript.TestScript, neg bool, args []string) {
		_, err := server.Try("postgres", args[0])
		ts.Check(err)
	}
	runScripts(t, p)
}

// events waits until the ledger at one address has all events of that at another: "events ADDRESS
// ADDRESS".
func events(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: events ADDRESS ADDRESS")
	}
	count := func(address string) uint64 {
		l, err := ledgerclient.Dial(context.Background(), "unix:"+ts.MkAbs(address[len("unix:"):]), ledgerclient.Options{})
		ts.Check(err)
		defer func() { _ = l.Close() }()
		stats, err := l.Stats(context.Background())
		ts.Check(err)
		return stats.Events
	}
	for range 6000 {
		if count(args[0]) >= count(args[1]) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s has not all events of %s after a minute", args[0], args[1])
}

// freePort returns an address of this machine on which no process listens.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
