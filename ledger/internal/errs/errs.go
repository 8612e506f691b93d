// Package errs defines the errors that callers branch on, for the packages that implement the
// ledger. It is the lowest layer: it imports no other package of this module. Package api exports
// the errors, and documents when each is returned and what the caller can do.
package errs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Errors that package api exports and documents under the same names.
var (
	ErrInvalid     = errors.New("invalid request")
	ErrTruthSource = fmt.Errorf("%w: source of true values", ErrInvalid)
	ErrTruthLater  = errors.New("true values are not available yet")
	ErrTruthFailed = errors.New("source of true values failed")
	ErrNoCap       = fmt.Errorf("%w: the object is new to the ledger, and its enrollment gives no cap", ErrInvalid)
	ErrNotNew      = fmt.Errorf("%w: the object is already in the ledger, but only new ones may enroll", ErrInvalid)
	ErrUnknown     = errors.New("unknown")
	ErrTruthKey    = errors.New("wrong truth key")
	ErrNoiseKey    = errors.New("not the noise key of this ledger")
	ErrVersion     = errors.New("file format is of another version")
	ErrStopped     = errors.New("ledger stopped after a failed commit; open it again")
	ErrClosed      = errors.New("ledger is closed")
	ErrReadOnly    = errors.New("ledger is open for reading only")
	ErrClock       = errors.New("the clock is wrong")
	ErrForgotten   = errors.New("forgotten")
	ErrPartlyDone  = errors.New("done in part")
	ErrNoSigner    = errors.New("the ledger was opened without a signer")
	ErrSigner      = errors.New("the signer failed")
	ErrCorrupt     = errors.New("damaged data")
	ErrJournal     = fmt.Errorf("%w: file and journal do not belong together", ErrCorrupt)
	ErrReplaced    = errors.New("file was replaced while open")
	ErrInUse       = errors.New("file in use")
	ErrCheckpoint  = errors.New("invalid checkpoint")
	ErrNoResponses = errors.New("no responses")

	ErrTooManyFiles = errors.New("too many open files: close some, or raise the limit of the process")
)

// Invalid returns an [ErrInvalid] that describes what is wrong with a request. The format is that
// of [fmt.Errorf].
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// Corrupt returns err, unless it is nil. If err is nil, it returns an [ErrCorrupt] that describes
// what is damaged, in the format of [fmt.Errorf]. So a caller can handle a failed read and a
// missing record in one line.
func Corrupt(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// Context returns ctx.Err(), or an [ErrInvalid] if ctx is nil.
func Context(ctx context.Context) error {
	if ctx == nil {
		return Invalid("the context is nil: pass context.Background() if the call may take any time")
	}
	return ctx.Err()
}

// NilPointers returns an [ErrInvalid] if one of the values is an interface that holds a nil pointer
// or a nil function. A call of it would panic. A nil interface is valid. named has pairs: a name
// and its value. The error has prefix before the name.
func NilPointers(prefix string, named ...any) error {
	for i := 0; i+1 < len(named); i += 2 {
		v := reflect.ValueOf(named[i+1])
		switch v.Kind() {
		case reflect.Pointer, reflect.Func:
			if v.IsNil() {
				const text = "%s%v is an interface that holds a nil %v: set it, or leave the interface nil"
				return Invalid(text, prefix, named[i], v.Type())
			}
		}
	}
	return nil
}

// OfSource returns the error of a request whose source of true values returned err. An
// [ErrTruthLater] or [ErrTruthSource] is returned as it is. Any other error is wrapped in
// [ErrTruthFailed], and then does not match the errors of package context. A caller would conclude
// from these that the context of the request has ended, which it has not.
func OfSource(err error) error {
	if errors.Is(err, ErrTruthLater) || errors.Is(err, ErrTruthSource) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrTruthFailed, ownContext{err})
}

// ownContext hides the errors of package context in an error of a source of true values: see
// [OfSource].
type ownContext struct{ err error }

func (e ownContext) Error() string { return e.err.Error() }

// As implements the interface of [errors.As] for what the error of the source wraps.
func (e ownContext) As(target any) bool { return errors.As(e.err, target) }

// Is implements the interface of [errors.Is] for what the error of the source wraps, except errors
// of package context.
func (e ownContext) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.err, target)
}
