package pgjournal

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

// faultyKeys is the key holder of a host, in a directory, with injected faults.
type faultyKeys struct {
	keyholder.Holder
	name, dir string

	mu    sync.Mutex
	fault func(keyCall) error
}

// keyCall is a call of a holder's method, with its segment if it has one.
type keyCall struct {
	context.Context
	method string
	of     keyholder.Segment
}

func newKeys(t testing.TB, name string) *faultyKeys {
	t.Helper()
	k := &faultyKeys{name: name, dir: testenv.TempDir(t)}
	var err error
	k.Holder, err = keyholder.OpenDirectory(k.dir)
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, k.Close()) })
	return k
}

// Inject sets a function that runs before each call; nil removes it. If it returns an error, the
// call returns that error and is not executed. Several goroutines may call it.
func (k *faultyKeys) Inject(fault func(keyCall) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = fault
}

// Fail makes all calls fail with an error; nil ends that.
func (k *faultyKeys) Fail(err error) { k.Inject(func(keyCall) error { return err }) }

// FailAt makes the calls of one method fail with an error.
func (k *faultyKeys) FailAt(method string, err error) {
	k.Inject(func(c keyCall) error {
		if c.method == method {
			return err
		}
		return nil
	})
}

// Count returns how many keys of a journal the holder has.
func (k *faultyKeys) Count(journal string) int {
	files, _ := filepath.Glob(filepath.Join(k.dir, strings.Replace(journal, ":", "-", 1), "*.key"))
	return len(files)
}

func (k *faultyKeys) Name() string { return k.name }

// failed returns the error that is injected into a call, or nil.
func (k *faultyKeys) failed(c keyCall) error {
	k.mu.Lock()
	fault := k.fault
	k.mu.Unlock()
	if fault == nil {
		return nil
	}
	if err := fault(c); err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	return nil
}

func (k *faultyKeys) Put(ctx context.Context, journal string, of keyholder.Segment, key keyholder.Key) error {
	if err := k.failed(keyCall{ctx, "Put", of}); err != nil {
		return err
	}
	return k.Holder.Put(ctx, journal, of, key)
}

func (k *faultyKeys) Get(ctx context.Context, journal string, of keyholder.Segment) (keyholder.Key, error) {
	if err := k.failed(keyCall{ctx, "Get", of}); err != nil {
		return keyholder.Key{}, err
	}
	return k.Holder.Get(ctx, journal, of)
}

func (k *faultyKeys) Keep(ctx context.Context, journal string, below keyholder.Segment, live []keyholder.Segment) error {
	if err := k.failed(keyCall{ctx, "Keep", keyholder.Segment{}}); err != nil {
		return err
	}
	return k.Holder.Keep(ctx, journal, below, live)
}

func (k *faultyKeys) Mark(ctx context.Context, journal string, mark keyholder.Mark) error {
	if err := k.failed(keyCall{ctx, "Mark", keyholder.Segment{}}); err != nil {
		return err
	}
	return k.Holder.Mark(ctx, journal, mark)
}

func (k *faultyKeys) Seen(ctx context.Context, journal string) (keyholder.Mark, uint64, error) {
	if err := k.failed(keyCall{ctx, "Seen", keyholder.Segment{}}); err != nil {
		return keyholder.Mark{}, 0, err
	}
	return k.Holder.Seen(ctx, journal)
}
