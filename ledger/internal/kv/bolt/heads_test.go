package bolt

import (
	"errors"
	"os"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// If another bbolt has other locks, this package has to know.
func TestBboltHasTheLocksThatAreTakenBack(t *testing.T) {
	s := mustOpen(t, newFile(t))
	if meta, mapped := bboltLocks(s.current.db); meta == nil || mapped == nil {
		t.Error("the locks are not there")
	}
}

// bbolt panics with its locks held where it finds no meta page. Those who wait for them must learn why.
func TestNobodyWaitsForAFileThatWasOverwritten(t *testing.T) {
	for name, over := range map[string]func(path string) error{
		"zeros":   func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) },
		"nothing": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // as whoever begins a transaction does
			path := newFile(t)
			s := mustOpen(t, path)
			inside, done := make(chan struct{}), make(chan struct{})
			var all sync.WaitGroup
			all.Go(func() { // ends a transaction, for which bbolt needs a lock, after another could not begin
				_ = s.View(func(kv.Reader) error {
					close(inside)
					<-done
					return nil
				})
			})
			<-inside
			if err := over(path); err != nil {
				t.Fatal(err)
			}
			if tx, err := s.current.begin(false); err == nil || tx != nil {
				t.Error("a transaction began")
			}
			meta, mapped := bboltLocks(s.current.db)
			if !meta.TryLock() {
				t.Error("a lock is kept")
			} else {
				meta.Unlock()
			}
			if !mapped.TryRLock() {
				t.Error("a lock is kept")
			} else {
				mapped.RUnlock()
			}
			close(done)
			all.Wait()
			if err := s.Update(putK("lost")); !errors.Is(err, kv.ErrOverwritten) {
				t.Errorf("Update: %v", err)
			}
			if err := s.View(func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrOverwritten) {
				t.Errorf("View: %v", err)
			}
		})
	}
}

// Who comes after the one in whose call bbolt gave up on an overwritten file is told the same.
func TestWhoComesAfterAPanicIsToldWhy(t *testing.T) {
	path := newFile(t)
	s := mustOpen(t, path)
	s.current.broken.Store(true) // as after a panic, before it is known what it was about
	if err := s.View(func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrOverwritten) {
		t.Errorf("a file that was not overwritten: %v", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = file.WriteAt(make([]byte, 8192), 0)
	must(t, errors.Join(err, file.Close()))
	if err := s.View(func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrOverwritten) {
		t.Errorf("an overwritten file: %v", err)
	}
}
