package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/lock"
)

func TestALockIsWaitedForAsLongAsAContextLasts(t *testing.T) {
	l := lock.New()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := l.Take(ended); err != nil {
		t.Errorf("nobody has it, and it cannot be taken: %v", err)
	}
	if err := l.Take(ended); !errors.Is(err, context.Canceled) || l.TryTake() {
		t.Errorf("somebody has it, and it is taken: %v", err)
	}
	taken := make(chan error)
	go func() { taken <- l.Take(t.Context()) }()
	l.Leave()
	if err := <-taken; err != nil || l.TryTake() {
		t.Errorf("it was left, and is not taken: %v", err)
	}
}
