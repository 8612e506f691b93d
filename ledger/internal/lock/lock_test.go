package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/lock"
)

func TestLock_ContextEnded_FailsOnlyIfTheLockIsHeld(t *testing.T) {
	l := lock.New()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := l.Lock(ended); err != nil {
		t.Errorf("a free lock is not acquired: %v", err)
	}
	if err := l.Lock(ended); !errors.Is(err, context.Canceled) || l.TryLock() {
		t.Errorf("a held lock is acquired: %v", err)
	}
	locked := make(chan error)
	go func() { locked <- l.Lock(t.Context()) }()
	l.Unlock()
	if err := <-locked; err != nil || l.TryLock() {
		t.Errorf("a waiting caller does not acquire a released lock: %v", err)
	}
}
