package pgjournal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/journal"
)

// alone is set in the environment of a process that has its own mounts.
const alone = "SLUICE_PGJOURNAL_ALONE"

// inOwnMounts runs the test again in a process with its own mounts, which end with it. It reports
// whether this is that process.
func inOwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(alone) != "" {
		check.Must(t, syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""))
		return true
	}
	if os.Getuid() != 0 {
		testenv.Unsupported(t, "only root mounts a small disk for a server that refuses root")
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), alone+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		testenv.Unsupported(t, "no mounts of one's own: "+err.Error())
	}
	if err == nil && strings.Contains(string(out), "--- SKIP") {
		testenv.Unsupported(t, string(out))
	}
	check.That(t, err == nil && strings.Contains(string(out), "--- PASS"), "%v\n%s", err, out)
	return false
}

// mountSmall mounts a small disk at a directory of a server, with a copy of its content.
func mountSmall(t *testing.T, s *pgtest.Server, dir string, megabytes int) {
	t.Helper()
	options := fmt.Sprintf("size=%dm,mode=0700", megabytes)
	if owner, is := owns(t, s.Data); is {
		options += fmt.Sprintf(",uid=%d,gid=%d", owner.Uid, owner.Gid)
	}
	kept := dir + ".kept"
	check.Must(t, os.Rename(dir, kept))
	check.Must(t, os.Mkdir(dir, 0o700))
	check.Must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, options))
	out, err := exec.CommandContext(t.Context(), "cp", "-a", kept+"/.", dir).CombinedOutput()
	check.Need(t, err == nil, "%v: %s", err, out)
	t.Cleanup(func() {
		s.Crash()
		check.Must(t, syscall.Unmount(dir, syscall.MNT_DETACH))
	})
}

func owns(t *testing.T, path string) (*syscall.Stat_t, bool) {
	t.Helper()
	info := check.Value(os.Stat(path))(t)
	stat, is := info.Sys().(*syscall.Stat_t)
	return stat, is
}

// While the disk of the tables is full, appends are rejected. When there is space again, the handle
// appends again.
func TestAppend_DatabaseDiskFull_IsRejected(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	s := pgtest.Start(t)
	place := filepath.Join(s.Dir, "tables")
	check.Must(t, os.Mkdir(place, 0o700))
	if owner, is := owns(t, s.Data); is {
		check.Must(t, os.Chown(place, int(owner.Uid), int(owner.Gid)))
	}
	mountSmall(t, s, place, 24)
	s.Exec(t, "postgres", "CREATE TABLESPACE small LOCATION '"+place+"'")
	s.Exec(t, "postgres", "CREATE DATABASE journals TABLESPACE small")
	h := newHosts(t, s.Address("journals"), "a", "b")
	a := newAuthor(t, h, "a")
	begin := a.log.End()
	there := []journal.Group{a.add("before")}
	filler := filepath.Join(place, "filler") // not a table, because to drop a table takes space
	check.Must(t, os.WriteFile(filler, make([]byte, 8<<20), 0o600))
	refused := 0
	for i := 0; refused < 3; i++ {
		g := a.group(strings.Repeat("x", []int{200_000, 9_000_000, 1000}[i%3]))
		err := a.j.Append(t.Context(), g)
		switch {
		case err == nil:
			there = append(there, g)
		case isRejected(err):
			if refused++; refused == 1 && !strings.Contains(err.Error(), "No space left") {
				t.Errorf("it does not say why: %v", err)
			}
			a.log.Undo(1)
		default:
			t.Fatalf("a full disk: %v", err)
		}
		check.Need(t, i <= 200, "the disk does not get full")
	}
	check.Must(t, os.Remove(filler))
	a.wantGroups(begin, there...)
	there = append(there, a.add("after"))
	a.wantGroups(begin, there...)
	a.reopen(h, "b")
	a.wantGroups(begin, there...)
}

// When the disk of its own log is full, the server ends. Then the last append is uncertain, and the
// journal has all groups before it.
func TestAppend_DatabaseLogFull_IsUncertain(t *testing.T) {
	t.Parallel() // its server is its own
	if !inOwnMounts(t) {
		return
	}
	s := pgtest.Start(t, "wal_keep_size=100MB", "checkpoint_timeout=1h")
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	a := newAuthor(t, h, "a")
	begin := a.log.End()
	s.Stop(t)
	mountSmall(t, s, filepath.Join(s.Data, "pg_wal"), 20)
	s.Begin(t)
	a.reopen(h, "a")
	var there []journal.Group
	var g journal.Group
	var err error
	for err == nil {
		g = a.group(strings.Repeat("x", 300_000))
		if err = a.j.Append(t.Context(), g); err == nil {
			there = append(there, g)
		}
		check.Need(t, len(there) <= 200, "the disk does not get full")
	}
	check.That(t, isUncertain(err), "the server ends because its disk is full: %v", err)
	s.WaitEnded(t)
	check.Must(t, syscall.Mount("", filepath.Join(s.Data, "pg_wal"), "", syscall.MS_REMOUNT, "size=100m"))
	s.Begin(t)
	if a.reopenAfter(h, "b", g) {
		there = append(there, g)
	}
	a.wantGroups(begin, append(there, a.add("after"))...)
}
