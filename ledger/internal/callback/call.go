package callback

import (
	"errors"
	"iter"

	"github.com/sluicedp/sluice/ledger/api"
)

// Call calls a function of the host, and returns its panic as a [*api.PanicError].
func Call(name string, call func() error) (err error) {
	defer catch(name, &err)
	return call()
}

// catch is deferred around calls of the host.
func catch(name string, err *error) {
	if p := recover(); p != nil {
		*err = &api.PanicError{Function: name, Value: p}
	}
}

// Seq ranges over a sequence of the host, and ends it with a [*api.PanicError] if the
// sequence panics. A panic of the loop body continues.
func Seq[T any](name string, of iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		inBody, left := false, false
		err := func() (err error) {
			defer func() {
				if inBody {
					return
				}
				if p := recover(); p != nil {
					err = &api.PanicError{Function: name, Value: p}
				}
			}()
			of(func(one T, err error) bool {
				inBody = true
				left = !yield(one, err)
				inBody = false
				return !left
			})
			return nil
		}()
		if err != nil && !left {
			var none T
			yield(none, err)
		}
	}
}

// Told is an error with what the host is to be told of it: a line of its log, say. Whatever finds
// the error inside of a transaction leaves the telling to [Tell].
type Told struct {
	error
	tell func()
}

// ToTell returns an error with what [Tell] is to do.
func ToTell(err error, tell func()) error { return &Told{err, tell} }

// Unwrap returns the error.
func (t *Told) Unwrap() error { return t.error }

// Tell does what [ToTell] was given, if err wraps such an error, and returns the error without it.
// It is called where a request ends, outside of any transaction.
func Tell(err error) error {
	t, is := errors.AsType[*Told](err)
	if !is {
		return err
	}
	t.tell()
	if err == error(t) {
		return t.error
	}
	return err
}

// OrClean runs use, and runs clean if use panics, or ends its goroutine, because a function of the
// host does. The panic continues.
func OrClean(use func() error, clean func()) error {
	returned := false
	defer func() {
		if !returned {
			clean()
		}
	}()
	err := use()
	returned = true
	return err
}
