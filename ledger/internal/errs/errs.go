// Package errs holds the errors that callers branch on, for the packages that make up the ledger.
// It is the lowest layer: it imports nothing of this module. Package api exports the errors, and
// documents when each is returned and what the caller can do.
package errs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// The errors that package api exports, and documents, under the same names.
var (
	ErrInvalid     = errors.New("invalid request")
	ErrTruthSource = fmt.Errorf("%w: source of true values", ErrInvalid)
	ErrTruthLater  = errors.New("true values are told later")
	ErrTruthFailed = errors.New("source of true values failed")
	ErrNoCap       = fmt.Errorf("%w: it is new to the ledger, and its enrolment gives no cap", ErrInvalid)
	ErrNotNew      = fmt.Errorf("%w: it is in the ledger already, and the enrolment is of new objects only", ErrInvalid)
	ErrUnknown     = errors.New("unknown")
	ErrKeyConflict = errors.New("idempotency key was used for another request")
	ErrTruthKey    = errors.New("wrong truth key")
	ErrNoiseKey    = errors.New("not the noise key of this ledger")
	ErrVersion     = errors.New("file format is of another version")
	ErrStopped     = errors.New("ledger stopped after a failed commit; open it again")
	ErrClosed      = errors.New("ledger is closed")
	ErrReadOnly    = errors.New("ledger is open for reading only")
	ErrClock       = errors.New("the clock is wrong")
	ErrNotReserved = errors.New("not open")
	ErrForgotten   = errors.New("forgotten")
	ErrPartlyDone  = errors.New("carried out in part")
	ErrNoSigner    = errors.New("the ledger was opened without a signer")
	ErrSigner      = errors.New("the signer failed")
	ErrCorrupt     = errors.New("damaged data")
	ErrJournal     = fmt.Errorf("%w: file and journal do not belong together", ErrCorrupt)
	ErrReplaced    = errors.New("file was replaced while open")
	ErrInUse       = errors.New("file in use")
	ErrCheckpoint  = errors.New("invalid checkpoint")
	ErrNoResponses = errors.New("no responses")

	ErrTooManyFiles = errors.New("no file can be opened until others are closed, or the limit is raised")
)

// Invalid returns an [ErrInvalid] that says what is wrong with a request. The format is that of
// [fmt.Errorf].
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// Corrupt returns err or, if that is nil, an [ErrCorrupt] that says what is damaged. So "it could
// not be read, or it is not there" takes one line.
func Corrupt(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// Context returns ctx.Err(), and an [ErrInvalid] if ctx is nil.
func Context(ctx context.Context) error {
	if ctx == nil {
		return Invalid("the context is nil: context.Background() never ends")
	}
	return ctx.Err()
}

// NilPointers returns [ErrInvalid] if one of the values is an interface that holds a nil pointer or
// function: to call it would panic. An interface that holds nothing is fine. named are names, after
// prefix, each with its value.
func NilPointers(prefix string, named ...any) error {
	for i := 0; i+1 < len(named); i += 2 {
		v := reflect.ValueOf(named[i+1])
		switch v.Kind() {
		case reflect.Pointer, reflect.Func:
			if v.IsNil() {
				return Invalid("%s%v is an interface with a nil %v in it: leave it nil, or set it", prefix, named[i],
					v.Type())
			}
		}
	}
	return nil
}

// OfSource returns an error of a source of true values as one that wraps [ErrTruthFailed], unless
// it is [ErrTruthLater] or [ErrTruthSource]. It wraps no error of package context: the request's
// own context has not ended.
func OfSource(err error) error {
	if errors.Is(err, ErrTruthLater) || errors.Is(err, ErrTruthSource) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrTruthFailed, ownContext{err})
}

// ownContext is an error of a source, which is not one of a context to the caller: the context of
// the request has not ended.
type ownContext struct{ err error }

func (e ownContext) Error() string { return e.err.Error() }

// As has errors.As find what the error of the source wraps.
func (e ownContext) As(target any) bool { return errors.As(e.err, target) }

// Is has errors.Is find what the error of the source wraps, but for errors of contexts.
func (e ownContext) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.err, target)
}
