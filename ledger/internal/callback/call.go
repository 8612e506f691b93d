package callback

import (
	"errors"
	"iter"

	"github.com/sluicedp/sluice/ledger/api"
)

// Call calls a function of the host. If the function panics, Call returns a [*api.PanicError] with
// the name.
func Call(name string, call func() error) (err error) {
	defer catch(name, &err)
	return call()
}

// catch recovers a panic of a function of the host. It is deferred around the call.
func catch(name string, err *error) {
	if p := recover(); p != nil {
		*err = &api.PanicError{Function: name, Value: p}
	}
}

// Seq returns a sequence that ranges over a sequence of the host. If that panics, the result ends
// with a [*api.PanicError]. A panic of the loop body is not recovered.
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

// Told is an error with a function that reports it to the host, for example in a line of the log.
// Code inside a transaction must not call the host, so it returns a Told, and [Tell] calls the
// function later.
type Told struct {
	error
	tell func()
}

// ToTell returns an error for which [Tell] calls the function tell.
func ToTell(err error, tell func()) error { return &Told{err, tell} }

// Unwrap returns the error without the function.
func (t *Told) Unwrap() error { return t.error }

// Tell calls the function of a [Told] that err wraps, if there is one. It returns err; if err
// itself is the Told, it returns the error without the function. Tell must be called at the end of
// a request, outside of any transaction.
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

// OrClean returns the result of use. It runs clean if a function of the host makes use panic or end
// its goroutine. The panic continues.
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
