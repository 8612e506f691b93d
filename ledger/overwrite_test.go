package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// A file that is overwritten in place keeps its inode, its name and its lock.

// overwrite replaces the content of a file in place, as cp does.
func overwrite(t testing.TB, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path, content, 0o600))
}

func content(t testing.TB, path string) []byte {
	t.Helper()
	return check.Value(os.ReadFile(path))(t)
}

func TestLedger_BackupCopiedOverFile_DrawsNoSecondResponse(t *testing.T) {
	people := crowd(20)
	path := votersFile(t, "5", people...)
	backup := filepath.Join(tests.TempDir(t), "backup.db")
	l := open(t, path, Options{})
	must(t, check.Err(l.Backup(t.Context(), backup, nil)))
	for i, name := range people {
		release(t, l, releaseOf(t, fmt.Sprint("first ", i), name, "1"))
	}
	old := content(t, backup)
	overwrite(t, path, old)
	for i, name := range people {
		_, err := l.Release(t.Context(), releaseOf(t, fmt.Sprint("second ", i), name, "1"))
		wantErr(t, err, api.ErrReplaced)
	}
	wantErr(t, check.Err(l.Verify(t.Context(), api.VerifyRequest{})), api.ErrReplaced)
	wantErr(t, l.Close(), api.ErrReplaced)
	check.That(t, bytes.Equal(content(t, path), old), "something was written to the file")
	wantErr(t, check.Err(Open(t.Context(), path, Options{})), api.ErrJournal) // what was drawn since the backup is in the journal beside it
	must(t, os.RemoveAll(path+".journal"))
	if n := len(responses(t, open(t, path, Options{}), "vote", eps(t, "1"))); n != 0 { // it is the backup now
		t.Errorf("there are %d responses", n)
	}
}

// fileWithSales returns a ledger file with a sale and a reservation.
func fileWithSales(t testing.TB) (path string, options Options) {
	t.Helper()
	signer, _, public := logKey(t, "example.com/busy", 7)
	path, options = filepath.Join(tests.TempDir(t), "ledger.db"), Options{Signer: signer}
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD", LogKey: public}))
	l := open(t, path, options)
	sellers(t, l, "3", "9", crowd(20)...)
	sell(t, l, purchase(t, "sold", "acme", "0.5"))
	must(t, check.Err(l.Reserve(t.Context(), reserveOne(t, "reserved"))))
	closed(t, l)
	return path, options
}

func reserveOne(t testing.TB, key string) api.ReserveRequest {
	t.Helper()
	return api.ReserveRequest{Key: key, Order: purchase(t, "", "acme", "1", crowd(1)...).Order, For: 1 << 50}
}

// calls returns every call that a host can make on a ledger that fileWithSales made.
func calls(t *testing.T, l *Ledger) map[string]func() error {
	all := everyCall(t, l)
	maps.Copy(all, map[string]func() error{
		"Backup":       func() error { return check.Err(l.Backup(t.Context(), filepath.Join(tests.TempDir(t), "copy"), nil)) },
		"CompactTo":    func() error { return check.Err(l.CompactTo(t.Context(), filepath.Join(tests.TempDir(t), "copy"), nil)) },
		"Compact":      func() error { return l.Compact(t.Context(), nil) },
		"Checkpoint":   func() error { return check.Err(l.Checkpoint(t.Context())) },
		"Levels":       func() error { return check.Err(api.Collect(l.Levels(t.Context(), "vote"))) },
		"Watch":        func() error { return firstError(l.Watch(t.Context(), 1)) },
		"Refusals":     func() error { return firstError(l.Refusals(t.Context(), "sold", 1)) },
		"Reservations": func() error { return firstError(l.Reservations(t.Context(), "acme")) },
		"Sale":         func() error { return check.Err(l.Sale(t.Context(), 1)) },
		"Deliveries":   func() error { return firstError(l.Deliveries(t.Context(), 1)) },
		"Receipt":      func() error { return check.Err(l.Receipt(t.Context(), 1)) },
		"Reserve":      func() error { return check.Err(l.Reserve(t.Context(), reserveOne(t, "again"))) },
		"Reservation":  func() error { return check.Err(l.Reservation(t.Context(), 2)) },
		"Statement": func() error {
			return check.Err(l.Statement(t.Context(), api.ObjectRequest{Key: "k", Object: crowd(1)[0]}))
		},
	})
	return all
}

func submitted(ctx context.Context, l *Ledger, decide engine.Decision) error {
	_, _, err := l.engine.Submit(ctx, decide)
	return err
}

// branch returns a file that diverged from another: with one more release, in as many pages as
// other branches.
func branch(t testing.TB, from []byte, options Options, key string) []byte {
	t.Helper()
	path := filepath.Join(tests.TempDir(t), "branch.db")
	overwrite(t, path, from)
	l := open(t, path, options)
	release(t, l, releaseOf(t, key, crowd(3)[2], "1.5"))
	closed(t, l)
	return content(t, path)
}

// wantReplaced opens a copy of a ledger whose file is overwritten during a call, or before. The
// call and all later ones return ErrReplaced, even after the file is restored. Nothing is written
// to it.
func wantReplaced(t *testing.T, live, over []byte, options Options, call func(l *Ledger, overwrite func()) error) {
	t.Helper()
	path := filepath.Join(tests.TempDir(t), "live.db")
	overwrite(t, path, live)
	l := open(t, path, options)
	wantErr(t, call(l, func() { overwrite(t, path, over) }), api.ErrReplaced)
	check.That(t, bytes.Equal(content(t, path), over), "something was written to the file")
	overwrite(t, path, live)
	wantErr(t, check.Err(l.Stats(t.Context())), api.ErrReplaced)
	wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "y", crowd(1)[0], "1"))), api.ErrReplaced)
	_ = l.Close()
	check.That(t, bytes.Equal(content(t, path), live), "something was written to the file")
}

// committing is a decision without refusals.
func committing(*state.State) ([]event.Change, error) {
	return []event.Change{&event.TruthKeySet{}}, nil
}

// The first call after the file was overwritten notices it, whichever call that is, and so do all
// later ones.
func TestEveryCall_FileOverwritten_IsErrReplaced(t *testing.T) {
	path, options := fileWithSales(t)
	old := content(t, path)
	live := branch(t, old, options, "x")
	same := func(other []byte) bool { return len(live) == len(other) && bytes.Equal(live[:8192], other[:8192]) }
	other := branch(t, old, options, "x")
	for n := 0; n < 10 && !same(other); n++ { // seldom another page is free
		other = branch(t, old, options, "x")
	}
	check.Need(t, same(other),
		"the branches differ in their meta pages: this test is to show that their logs are compared")
	for _, name := range sortedKeys(calls(t, nil)) {
		t.Run(name, func(t *testing.T) {
			wantReplaced(t, live, other, options, func(l *Ledger, overwrite func()) error {
				overwrite()
				return calls(t, l)[name]()
			})
		})
	}
}

func TestLedger_FileOverwrittenByAnyContent_IsErrReplaced(t *testing.T) {
	path, options := fileWithSales(t)
	old := content(t, path)
	live := branch(t, old, options, "x")
	compacted := filepath.Join(tests.TempDir(t), "compacted.db")
	l := open(t, path, options)
	must(t, check.Err(l.CompactTo(t.Context(), compacted, nil)))
	closed(t, l)
	foreign, _ := fileWithSales(t)
	for name, over := range map[string][]byte{
		"older": old, "newer": branch(t, live, options, "y"), "another branch": branch(t, old, options, "x"), "another ledger": content(t, foreign),
		"other pages": content(t, compacted), "zeros": make([]byte, len(live)), "longer zeros": make([]byte, 2*len(live)), "shorter": live[:8192], "nothing": nil,
		"a page": live[:4096], "text": []byte(strings.Repeat("no ledger\n", len(live)/10)),
	} {
		for call, do := range map[string]func(*Ledger) error{
			"view": func(l *Ledger) error {
				return check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote"}))
			},
			"commit": func(l *Ledger) error { return submitted(t.Context(), l, committing) },
		} {
			t.Run(name+", "+call, func(t *testing.T) {
				start := live
				if name == "other pages" {
					start = old // so that the logs are the same, and only the pages differ
				}
				wantReplaced(t, start, over, options, func(l *Ledger, overwrite func()) error { overwrite(); return do(l) })
			})
		}
	}
}

// Records that are read before and after the overwriting do not belong together, not even for a
// refusal.
func TestLedger_FileOverwrittenDuringRead_IsErrReplaced(t *testing.T) {
	path, options := fileWithSales(t)
	old := content(t, path)
	live, other := branch(t, old, options, "x"), branch(t, old, options, "x")
	for name, over := range map[string][]byte{"older": old, "another branch": other, "nothing": nil} {
		refuse := errors.New("refused for what was read")
		for call, do := range map[string]func(l *Ledger, over func()) error{
			"view": func(l *Ledger, over func()) error {
				return l.engine.View(t.Context(), func(*state.State) error { over(); return nil })
			},
			"refusing view": func(l *Ledger, over func()) error {
				return l.engine.View(t.Context(), func(*state.State) error { over(); return refuse })
			},
			"refusing": func(l *Ledger, over func()) error {
				return submitted(t.Context(), l, func(*state.State) ([]event.Change, error) { over(); return nil, refuse })
			},
			"commit": func(l *Ledger, over func()) error {
				return submitted(t.Context(), l, func(s *state.State) ([]event.Change, error) { over(); return committing(s) })
			},
			"reading commit": func(l *Ledger, over func()) error {
				return submitted(t.Context(), l, func(s *state.State) ([]event.Change, error) {
					over()
					_, _, err := s.Object(crowd(1)[0])
					return nil, err
				})
			},
		} {
			t.Run(name+", "+call, func(t *testing.T) {
				wantReplaced(t, live, over, options, do)
			})
		}
	}
}

// Commits and compactions during a read are not mistaken for an overwritten file.
func TestLedger_ReadsDuringCommitsAndCompact_AreNotErrReplaced(t *testing.T) {
	path, options := fileWithSales(t)
	l := open(t, path, options)
	var all sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		all.Go(func() {
			for !stop.Load() {
				must(t, check.Err(l.Object(t.Context(), crowd(1)[0])))
				must(t, check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote"})))
				must(t, firstError(l.Events(t.Context(), 1)))
			}
		})
	}
	for i := range tests.Tries(32, 60, 60) {
		raise(t, l, raiseOf(t, fmt.Sprint(i), fmt.Sprintf("1.%03d", i), crowd(20)[i%19:]...))
		if i%20 == 10 {
			must(t, l.Compact(t.Context(), nil))
		}
	}
	stop.Store(true)
	all.Wait()
	auditStore(t, l.engine.Store)
}

const overwriteChild = "SLUICE_OVERWRITE_CHILD"

// TestOverwrite_ChildProcess is a host that works until its file is overwritten.
// TestLedger_FileOverwrittenUnderLoad_EndsWithErrors runs it.
func TestOverwrite_ChildProcess(t *testing.T) {
	path := os.Getenv(overwriteChild)
	if path == "" {
		t.Skip("run by TestLedger_FileOverwrittenUnderLoad_EndsWithErrors")
	}
	l := open(t, path, Options{})
	jobs := []func(i int) error{
		func(i int) error {
			return check.Err(l.Raise(t.Context(), raiseOf(t, fmt.Sprint("all", i), fmt.Sprintf("1.%06d", i))))
		},
		func(i int) error {
			return check.Err(l.Release(t.Context(), releaseOf(t, fmt.Sprint("one", i), crowd(2)[1], fmt.Sprintf("2.%06d", i))))
		},
		func(i int) error {
			return check.Err(l.Release(t.Context(), releaseOf(t, fmt.Sprint("low", i), crowd(3)[2], fmt.Sprintf("0.%06d", 999_999-i))))
		},
		func(int) error { return check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote"})) },
		func(int) error { return firstError(l.Responses(t.Context(), "vote", eps(t, "1"))) },
		func(int) error { return check.Err(l.Object(t.Context(), crowd(1)[0])) },
		func(int) error { return firstError(l.Events(t.Context(), 1)) },
		func(int) error { return check.Err(l.Verify(t.Context(), api.VerifyRequest{})) },
		func(i int) error {
			to := filepath.Join(filepath.Dir(path), fmt.Sprint("copy", i%2))
			_ = os.Remove(to)
			return check.Err(l.Backup(t.Context(), to, nil))
		},
	}
	var all sync.WaitGroup
	var going atomic.Int64
	for n, job := range jobs {
		all.Go(func() {
			var err error
			for i := 0; err == nil; i++ {
				if err = job(i); i == 0 && going.Add(1) == int64(len(jobs)) {
					fmt.Println("ready")
				}
			}
			fmt.Printf("job %d ended: %v, %v\n", n, errors.Is(err, api.ErrReplaced) || errors.Is(err, api.ErrStopped), err)
		})
	}
	all.Wait()
	_, err := l.Release(t.Context(), releaseOf(t, "late", crowd(1)[0], "3"))
	fmt.Printf("job late ended: %v, %v\n", errors.Is(err, api.ErrReplaced) || errors.Is(err, api.ErrStopped), err)
}

// The memory to which the file is mapped ends where the file does, and changes with it. All
// goroutines of the host meet that concurrently. The process must end by itself, with errors that
// say what happened.
func TestLedger_FileOverwrittenUnderLoad_EndsWithErrors(t *testing.T) {
	path := votersFile(t, "9", crowd(300)...)
	old := content(t, path)
	l := open(t, path, Options{})
	raise(t, l, raiseOf(t, "first", "1"))
	closed(t, l)
	live := content(t, path)
	for name, over := range map[string][]byte{"older": old, "nothing": nil, "zeros": make([]byte, 2*len(live)), "shorter": live[:8192]} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(tests.TempDir(t), "live.db")
			overwrite(t, path, live)
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOverwrite_ChildProcess$")
			child.Env = append(os.Environ(), overwriteChild+"="+path)
			said := &heard{want: "ready", reached: make(chan struct{})}
			child.Stdout, child.Stderr = said, said
			must(t, child.Start())
			ended := make(chan error, 1)
			go func() { ended <- child.Wait() }()
			select {
			case <-said.reached:
			case err := <-ended:
				t.Fatalf("the host ended early: %v\n%s", err, said.text())
			}
			overwrite(t, path, over)
			if err := <-ended; err != nil {
				t.Fatalf("the host died: %v\n%.3000s", err, said.text())
			}
			if out := said.text(); strings.Count(out, " ended: true") != 10 || strings.Contains(out, "ended: false") {
				t.Errorf("the host said\n%s", out)
			}
		})
	}
}

// heard collects the output of a child process.
type heard struct {
	mu      sync.Mutex
	all     bytes.Buffer
	want    string
	reached chan struct{} // closed when it has said what is wanted
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := bytes.Contains(h.all.Bytes(), []byte(h.want))
	h.all.Write(b)
	if !before && bytes.Contains(h.all.Bytes(), []byte(h.want)) {
		close(h.reached)
	}
	return len(b), nil
}

func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all.String()
}

// After a commit that failed without a trace, the process still recognizes its own file.
func TestRelease_AfterFailedCommit_IsNotErrReplaced(t *testing.T) {
	l, s := openShim(t, votersFile(t, "5", "ann"), Options{})
	s.set(failing, nil)
	wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "1", "ann", "1"))), errDisk)
	s.set(nil, nil)
	release(t, l, releaseOf(t, "1", "ann", "1"))
	got := objectOf(t, l, "ann")
	check.That(t, got.Spent == eps(t, "1"), "%+v", got)
}
