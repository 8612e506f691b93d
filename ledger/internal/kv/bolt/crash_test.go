package bolt

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

const (
	crashPath = "SLUICE_TEST_STORE_CRASH_PATH" // set in the child process
	crashRun  = "SLUICE_TEST_STORE_CRASH_RUN"
	kills     = 15
	// kept is the number of latest records that a child keeps. It deletes older ones.
	kept = 20
)

// A child process writes, deletes and compacts, and prints the records that are durable. The parent
// kills it at a random instant. After that the path must lead to a complete file with all of these
// records. The page cache survives a kill, so a missing flush is not found.
func TestCompact_ProcessKilled_KeepsDurableRecords(t *testing.T) {
	path := newFile(t)
	left, commits, compactions := 0, 0, 0
	for run := range kills {
		compacted := 0
		last := runAndKill(t, "TestCompact_InChildProcess", path, run, func(line string, kill func()) {
			if line == "compacted" {
				if compacted++; compacted == 1 {
					time.AfterFunc(time.Duration(rand.IntN(60_000))*time.Microsecond, kill)
				}
			}
		})
		check.That(t, compacted != 0, "the child never compacted")
		commits, compactions = commits+last+1, compactions+compacted
		others := check.Value(filepath.Glob(filepath.Join(filepath.Dir(path), ".*")))(t)
		for _, other := range others {
			name, ok := unfinishedName(filepath.Base(other))
			check.That(t, ok && name == "data.db", "left over: %s", other)
		}
		if left += len(others); len(others) > 1 {
			t.Errorf("%d files are left over: a compaction has not removed the file of the previous crash", len(others))
		}
		s := mustOpen(t, path)
		wantSound(t, s)
		all := records(t, s)
		wantWritten(t, all, run, last)
		// At most one unacknowledged transaction is in the file, too.
		n := len(all)
		check.That(t, n <= kept+2, "run %d: %d records", run, n)
		check.Must(t, s.Update(func(w kv.Writer) error {
			for name := range all {
				bucket, key, _ := strings.Cut(name, "/")
				check.Must(t, w.Delete(bucket, []byte(key)))
			}
			return nil
		}))
		check.Must(t, s.Close())
	}
	t.Logf("%d commits, %d compactions, %d temporary files left by %d kills", commits, compactions, left, kills)
}

// runAndKill runs one of the tests below as a process, until listen calls kill. It passes each line
// of output to listen, and returns the last acknowledged record.
func runAndKill(t *testing.T, test, path string, run int, listen func(line string, kill func())) (last int) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$")
	child.Env = append(os.Environ(), crashPath+"="+path, fmt.Sprintf("%s=%d", crashRun, run))
	child.Stderr = os.Stderr
	out := check.Value(child.StdoutPipe())(t)
	check.Must(t, child.Start())
	last = -1
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // an incomplete line acknowledges nothing
		}
		_, err = fmt.Sscanf(line, "%d\n", &last)
		check.That(t, err == nil || line == "compacted\n", "the child says %q", line)
		listen(strings.TrimSuffix(line, "\n"), func() { _ = child.Process.Kill() })
	}
	check.That(t, child.Wait() != nil, "the child ended by itself, after %d records", last+1)
	return last
}

// wantWritten checks that the records that a child kept are in the file.
func wantWritten(t *testing.T, all map[string]string, run, last int) {
	t.Helper()
	for i := max(0, last-kept+2); i <= last; i++ {
		check.That(t, all[fmt.Sprintf("log/%d/%08d", run, i)] == fmt.Sprint(i),
			"run %d: record %d of %d is lost", run, i, last)
	}
}

// The test that runs in the child process. In other processes it does nothing.

func TestCompact_InChildProcess(*testing.T) {
	runChild(func(s *Store) {
		go func() {
			for {
				if err := s.Compact(context.Background(), nil); err != nil {
					fmt.Println(err)
					return
				}
				fmt.Println("compacted")
			}
		}()
	})
}

// runChild writes to the file that the parent names.
func runChild(prepare func(s *Store)) {
	path, run := os.Getenv(crashPath), os.Getenv(crashRun)
	if path == "" {
		return
	}
	s, err := Open(path, false)
	if err != nil {
		fmt.Println("open:", err)
		return
	}
	prepare(s)
	writeRecords(s, run)
}

// writeRecords writes records, deletes old ones, and prints each durable one.
func writeRecords(s *Store, run string) {
	for i := range 1_000_000 {
		err := s.Update(func(w kv.Writer) error {
			key := func(i int) []byte { return fmt.Appendf(nil, "%s/%08d", run, i) }
			if err := w.Put("log", key(i), fmt.Append(nil, i)); err != nil || i < kept {
				return err
			}
			return w.Delete("log", key(i-kept))
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(i)
	}
}
