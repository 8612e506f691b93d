package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
)

const descriptorsChild = "SLUICE_DESCRIPTORS_CHILD"

// descriptors is the table of file descriptors of this process.
type descriptors struct{ taken []*os.File }

// fill opens files until the table is full.
func (d *descriptors) fill() {
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		d.taken = append(d.taken, f)
	}
}

// free closes them.
func (d *descriptors) free() {
	for _, f := range d.taken {
		_ = f.Close()
	}
	d.taken = nil
}

// TestDescriptorsChild is a host whose table of file descriptors is full now and then. It is run by the test below.
func TestDescriptorsChild(t *testing.T) {
	path := os.Getenv(descriptorsChild)
	if path == "" {
		t.Skip("run by TestLedger_FullTableOfDescriptors_GoesOn")
	}
	limit := syscall.Rlimit{Cur: 128, Max: 128}
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	var table descriptors
	l := open(t, path, Options{})
	people, number := crowd(4), 0
	draw := func(object string) error {
		number++
		return check.Err(l.Release(t.Context(), releaseOf(t, fmt.Sprint("r", number), object, fmt.Sprintf("0.%06d", number))))
	}
	beside := filepath.Join(filepath.Dir(path), "copy.db")
	for _, step := range []struct {
		name string
		call func() error
	}{
		{"the first commit", func() error {
			return check.Err(l.Release(t.Context(), releaseOf(t, "first", people[0], "1")))
		}},
		{"Backup", func() error { return check.Err(l.Backup(t.Context(), beside, nil)) }},
		{"CompactTo", func() error { return check.Err(l.CompactTo(t.Context(), beside+"2", nil)) }},
		{"Compact", func() error { return l.Compact(t.Context(), nil) }},
		{"Forget", func() error { return l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: people[1]}) }},
		{"Open", func() error { return check.Err(Open(t.Context(), beside, Options{ReadOnly: true})) }},
	} {
		table.fill()
		err := step.call()
		check.That(t, errors.Is(err, api.ErrTooManyFiles) && errors.Is(err, syscall.EMFILE) &&
			!errors.Is(err, api.ErrStopped), "%s with a full table: %v", step.name, err)
		if text := fmt.Sprint(err); strings.Contains(text, "sluice-unfinished") || strings.Contains(text, ".gone") || strings.Contains(text, ".new") {
			t.Errorf("%s names a temporary file: %v", step.name, err)
		}
		left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
		check.That(t, err == nil && len(left) == 0, "%s left %v, %v", step.name, left, err)
		if step.name != "the first commit" { // which makes the journal: the others need not wait for a file
			must(t, draw(people[2]))
			must(t, check.Err(l.Object(t.Context(), people[2])))
		}
		table.free()
		if step.name == "Open" {
			continue
		}
		must(t, step.call())
		must(t, draw(people[0]))
	}
	table.fill()
	must(t, draw(people[3]))
	must(t, l.engine.Checkpoint()) // its trim is rejected
	must(t, draw(people[3]))
	table.free()
	before := check.Value(l.Object(t.Context(), people[3]))(t)
	must(t, l.Close())
	l = open(t, path, Options{})
	after := check.Value(l.Object(t.Context(), people[3]))(t)
	check.That(t, fmt.Sprint(before) == fmt.Sprint(after), "%+v, before %+v", after, before)
	auditStore(t, l.engine.Store)
	fmt.Println("went on")
}

func TestLedger_FullTableOfDescriptors_GoesOn(t *testing.T) {
	path := filepath.Join(tests.Scratch(t), "ledger.db")
	must(t, os.Rename(votersFile(t, "9", crowd(4)...), path))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDescriptorsChild$", "-test.v")
	child.Env = append(os.Environ(), descriptorsChild+"="+path)
	out, err := child.CombinedOutput()
	check.That(t, err == nil && bytes.Contains(out, []byte("went on")), "%v\n%.4000s", err, out)
}

// rejecting is a journal that cannot be trimmed while there is an error.
type rejecting struct {
	noting
	err *atomic.Pointer[error]
}

func (j rejecting) Trim(ctx context.Context, through journal.Position) error {
	if err := j.err.Load(); err != nil {
		return *err
	}
	return j.noting.Trim(ctx, through)
}

func TestForget_TrimIsRejected_LeavesTheLedgerOpen(t *testing.T) {
	full := &fs.PathError{Op: "openat", Path: "00000001.segment", Err: syscall.ENFILE}
	path, h := votersFile(t, "9", "ann", "bob"), newHost()
	var rejection atomic.Pointer[error]
	find := h.options().Journal
	l := open(t, path, Options{Journal: func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		j, err := find(ctx, w)
		if err != nil {
			return nil, err
		}
		return rejecting{j.(noting), &rejection}, nil
	}})
	release(t, l, releaseOf(t, "r", "ann", "1"))
	rejected := fmt.Errorf("%w: %w: %w", journal.ErrRejected, api.ErrTooManyFiles, full)
	rejection.Store(&rejected) // of the trim after the checkpoint, and of that of Forget itself
	err := l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "ann"})
	check.Need(t, errors.Is(err, api.ErrTooManyFiles) && !errors.Is(err, api.ErrStopped), "Forget: %v", err)
	rejection.Store(nil)
	release(t, l, releaseOf(t, "other", "bob", "1"))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "ann"}))
	release(t, l, releaseOf(t, "third", "bob", "2"))
}
