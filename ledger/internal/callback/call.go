package callback

import (
	"errors"
	"iter"

	"github.com/sluicedp/sluice/ledger/api"
)

// Call calls a function of the host and returns its error. If the function panics, Call returns a
// [*api.PanicError] with the name.
func Call(name string, call func() error) (err error) {
	defer catch(name, &err)
	return call()
}

// catch recovers a panic of a function of the host, and stores it in *err as a [*api.PanicError].
// It must be deferred directly, because recover has no effect in a deeper call.
func catch(name string, err *error) {
	if p := recover(); p != nil {
		*err = &api.PanicError{Function: name, Value: p}
	}
}

// Seq returns a sequence that ranges over of, a sequence of the host. If of panics, the result ends
// with a [*api.PanicError]. A panic of the loop body continues, because it is not a fault of the
// host.
func Seq[T any](name string, of iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		inBody, left := false, false // the loop body runs; the loop body has left the loop
		err := func() (err error) {
			defer func() {
				// the panic is that of the loop body; without recover it continues
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
		if err != nil && !left { // after the loop body has left, yield must not be called
			var none T
			yield(none, err)
		}
	}
}

// Reported is an error with a function that reports it to the host, for example in a line of the
// log. Code inside a transaction must not call the host, so it returns a Reported, and [Report]
// calls the function later.
type Reported struct {
	error
	report func()
}

// WithReport returns an error that wraps err, and for which [Report] calls the function report.
func WithReport(err error, report func()) error { return &Reported{err, report} }

// Unwrap returns the error without the function.
func (r *Reported) Unwrap() error { return r.error }

// Report calls the function of the first [Reported] that err is or wraps, if there is one. If err
// itself is the Reported, it returns the error without the function, and otherwise err. Report must
// be called at the end of a request, outside of any transaction.
func Report(err error) error {
	reported, is := errors.AsType[*Reported](err)
	if !is {
		return err
	}
	reported.report()
	if err == error(reported) {
		return reported.error
	}
	return err
}

// OrClean returns the result of use. It runs clean only if use does not return, because a function
// of the host panics or ends its goroutine. The panic continues.
func OrClean(use func() error, clean func()) error {
	returned := false // recover would not detect the end of the goroutine
	defer func() {
		if !returned {
			clean()
		}
	}()
	err := use()
	returned = true
	return err
}
