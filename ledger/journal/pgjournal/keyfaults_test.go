package pgjournal

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

// faultyKeys are the keys of a host, in a directory, with faults.
type faultyKeys struct {
	keyholder.Holder
	name, dir string

	mu    sync.Mutex
	fault func(call string) error
}

func newKeys(t testing.TB, name string) *faultyKeys {
	t.Helper()
	k := &faultyKeys{name: name, dir: pace.Scratch(t)}
	var err error
	k.Holder, err = keyholder.OpenDirectory(k.dir)
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, k.Close()) })
	return k
}

// Inject calls fault before each call, with the name of the method; nil ends that. A call for which it returns an error
// returns that and is not executed. It may be called by several goroutines.
func (k *faultyKeys) Inject(fault func(call string) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = fault
}

// Fail has all calls fail with an error; nil ends that.
func (k *faultyKeys) Fail(err error) { k.Inject(func(string) error { return err }) }

// FailAt has the calls of one method fail with an error.
func (k *faultyKeys) FailAt(method string, err error) {
	k.Inject(func(call string) error {
		if call == method {
			return err
		}
		return nil
	})
}

// Count returns how many keys of a journal it has.
func (k *faultyKeys) Count(journal string) int {
	files, _ := filepath.Glob(filepath.Join(k.dir, strings.Replace(journal, ":", "-", 1), "*.key"))
	return len(files)
}

func (k *faultyKeys) Name() string { return k.name }

// failed returns the error that is injected into a call, or nil.
func (k *faultyKeys) failed(call string) error {
	k.mu.Lock()
	fault := k.fault
	k.mu.Unlock()
	if fault == nil {
		return nil
	}
	if err := fault(call); err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	return nil
}

func (k *faultyKeys) Put(ctx context.Context, journal string, of keyholder.Segment, key keyholder.Key) error {
	if err := k.failed("Put"); err != nil {
		return err
	}
	return k.Holder.Put(ctx, journal, of, key)
}

func (k *faultyKeys) Get(ctx context.Context, journal string, of keyholder.Segment) (keyholder.Key, error) {
	if err := k.failed("Get"); err != nil {
		return keyholder.Key{}, err
	}
	return k.Holder.Get(ctx, journal, of)
}

func (k *faultyKeys) Keep(ctx context.Context, journal string, below keyholder.Segment, live []keyholder.Segment) error {
	if err := k.failed("Keep"); err != nil {
		return err
	}
	return k.Holder.Keep(ctx, journal, below, live)
}

func (k *faultyKeys) Mark(ctx context.Context, journal string, mark keyholder.Mark) error {
	if err := k.failed("Mark"); err != nil {
		return err
	}
	return k.Holder.Mark(ctx, journal, mark)
}

func (k *faultyKeys) Seen(ctx context.Context, journal string) (keyholder.Mark, uint64, error) {
	if err := k.failed("Seen"); err != nil {
		return keyholder.Mark{}, 0, err
	}
	return k.Holder.Seen(ctx, journal)
}
