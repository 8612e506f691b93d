// Command measure runs the operations of package gate's rows on one checkout of Sluice. The gate
// builds it twice, once against each checkout, and runs the two programs in turns.
//
// It reads the names of rows from standard input, one on each line, and responds to each with a
// [turn] on a line of JSON. Its arguments are the directory of its ledgers, the number of people,
// and the number of releases of a turn.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// turn is one measurement of a row.
type turn struct {
	Wall   time.Duration `json:"wall"`   // of one operation
	CPU    time.Duration `json:"cpu"`    // of this process, of one operation
	Allocs float64       `json:"allocs"` // of one operation
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("usage: measure DIR PEOPLE RELEASES [crash]")
	}
	people, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	releases, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	w := &worker{dir: args[0], people: people, releases: releases}
	if len(args) > 3 {
		return w.crash(ctx)
	}
	if w.store, err = create(ctx, filepath.Join(w.dir, "ledger.db"), people); err != nil {
		return err
	}
	answers, lines := json.NewEncoder(os.Stdout), bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		one, err := w.turn(ctx, lines.Text())
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		if err := answers.Encode(one); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), w.store.close())
}

// worker runs the operations of all rows on its ledgers.
type worker struct {
	dir              string
	people, releases int
	store            *store
}

// turn runs the operations of a row once.
func (w *worker) turn(ctx context.Context, row string) (turn, error) {
	switch row {
	case "alone":
		return w.released(ctx, 1, max(1, w.releases/50))
	case "callers64":
		return w.released(ctx, 64, w.releases)
	case "callers256":
		return w.released(ctx, 256, w.releases)
	case "raise":
		return timed(func() (int, error) { return w.people, w.store.raise(ctx) })
	case "enrol":
		w.store.joined++
		prefix := "new-" + strconv.Itoa(w.store.joined)
		return timed(func() (int, error) { return w.people, w.store.enroll(ctx, enrol, prefix, w.people) })
	case "read":
		return timed(func() (int, error) { return w.people, w.readAll(ctx) })
	case "audit":
		return timed(func() (int, error) { return w.store.audit(ctx) })
	case "open":
		return w.opened(ctx)
	}
	return turn{}, errors.New("no such row")
}

// timed measures n operations.
func timed(work func() (n int, err error)) (turn, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := cpuTime(), time.Now()
	n, err := work()
	wall := time.Since(began)
	cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	if err != nil || n == 0 {
		return turn{}, errors.Join(err, fmt.Errorf("%d operations were done", n))
	}
	return turn{wall / time.Duration(n), cpu / time.Duration(n),
		float64(after.Mallocs-before.Mallocs) / float64(n)}, nil
}

func (w *worker) released(ctx context.Context, callers, n int) (turn, error) {
	first := w.store.asked
	w.store.asked += n
	return timed(func() (int, error) { return n, w.releaseAll(ctx, callers, first, n) })
}

// releaseAll requests n releases by concurrent callers, each with one release at a time.
func (w *worker) releaseAll(ctx context.Context, callers, first, n int) error {
	errs := make([]error, callers)
	var next atomic.Int64
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[c] = w.store.release(ctx, first+i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// readAll reads each object once, in an order that differs from that of the index.
func (w *worker) readAll(ctx context.Context) error {
	const stride = 15_485_863 // a prime
	for i := range w.people {
		if err := w.store.read(ctx, i*stride%w.people); err != nil {
			return err
		}
	}
	return nil
}

// opened measures the time to open a ledger whose process has died, for each release since the last
// checkpoint.
func (w *worker) opened(ctx context.Context) (turn, error) {
	self, err := os.Executable()
	if err != nil {
		return turn{}, err
	}
	child := exec.CommandContext(ctx, self, w.dir, strconv.Itoa(w.people), strconv.Itoa(w.releases), "crash")
	child.Stderr = os.Stderr
	if err := child.Run(); err != nil {
		return turn{}, fmt.Errorf("the process that dies: %w", err)
	}
	var s *store
	one, err := timed(func() (_ int, err error) {
		s, err = open(w.crashedFile(), w.people, 0)
		return w.releases, err
	})
	if err != nil {
		return turn{}, err
	}
	return one, s.close()
}

func (w *worker) crashedFile() string { return filepath.Join(w.dir, "crashed.db") }

// crash adds releases to a ledger, and ends without closing it. The commits are only in the
// journal.
func (w *worker) crash(ctx context.Context) (err error) {
	path := w.crashedFile()
	if _, missing := os.Stat(path); missing != nil {
		s, err := create(ctx, path, w.people)
		if err != nil {
			return err
		}
		if err := s.close(); err != nil {
			return err
		}
	}
	const memory = 1 << 30 // enough that there is no checkpoint
	if w.store, err = open(path, w.people, memory); err != nil {
		return err
	}
	count := filepath.Join(w.dir, "crashed.count")
	text, _ := os.ReadFile(count) // at first there is none
	first, _ := strconv.Atoi(string(text))
	if err := os.WriteFile(count, []byte(strconv.Itoa(first+w.releases)), 0o600); err != nil {
		return err
	}
	return w.releaseAll(ctx, 64, first, w.releases)
}
