// Package lock provides a mutex whose callers can stop waiting when a context ends.
package lock

import "context"

// Lock is a mutex. It may be released by another goroutine than the one that acquired it. The
// channel has a capacity of one, and holds an element while the lock is held.
type Lock chan struct{}

// New returns a lock that is free.
func New() Lock { return make(Lock, 1) }

// Lock acquires the lock. It returns ctx.Err() only if it would have to wait: a free lock is
// acquired even if ctx has ended.
func (l Lock) Lock(ctx context.Context) error {
	if l.TryLock() {
		return nil
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TryLock acquires the lock if it is free, and reports whether it did.
func (l Lock) TryLock() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock releases the lock, which must be held.
func (l Lock) Unlock() { <-l }
