// Package lock has a mutex that is waited for no longer than a context lasts.
package lock

import "context"

// Lock is a mutex. Whoever takes it need not be who leaves it.
type Lock chan struct{}

// New returns a lock that nobody has.
func New() Lock { return make(Lock, 1) }

// Take waits for a lock. It takes one that nobody has even if ctx has ended.
func (l Lock) Take(ctx context.Context) error {
	if l.TryTake() {
		return nil
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TryTake takes a lock if nobody has it.
func (l Lock) TryTake() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave lets go of a lock.
func (l Lock) Leave() { <-l }
