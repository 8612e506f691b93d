package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/observe"
)

// One value of TruthOf never becomes that of a second object, in one request or in several.
func TestTruthOf_SecondObject_IsErrTruthSource(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
	both := order(t, "both", "1", "ann", "bob")
	both.Truth = api.TruthOf("yes")
	wantErr(t, check.Err(l.Raise(t.Context(), both)), api.ErrTruthSource)
	o := objectOf(t, l, "ann")
	check.That(t, o.Spent.IsZero(), "ann has spent %s", o.Spent)
	one := api.TruthOf("yes")
	r := releaseOf(t, "ann", "ann", "1")
	r.Truth = one
	release(t, l, r)
	r = releaseOf(t, "ann again", "ann", "2")
	r.Truth = one
	release(t, l, r)
	both = order(t, "rest", "1.5", "ann", "bob") // only bob needs a true value
	both.Truth = one
	wantErr(t, check.Err(l.Raise(t.Context(), both)), api.ErrTruthSource)
	o = objectOf(t, l, "bob")
	check.That(t, o.Spent.IsZero(), "bob has spent %s", o.Spent)
}

// A request whose context ends while its source runs fails with the error of that context; the source's own deadline is no error of a
// context.
func TestTruthFunc_ContextEnds_IsToldFromTheSource(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthTimeout: time.Hour}), "9", "ann")
	ctx, cancel := context.WithCancel(t.Context())
	r := releaseOf(t, "k", "ann", "1")
	r.Truth = func(context.Context, string, []string) ([]string, error) {
		cancel()
		return nil, errors.New("interrupted")
	}
	_, err := l.Release(ctx, r)
	wantErr(t, err, context.Canceled)
	check.That(t, !errors.Is(err, api.ErrTruthFailed),
		"the end of the request reads as a failure of the source: %v", err)
	own := &deadlineError{}
	r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, own }
	_, err = l.Release(t.Context(), r)
	wantErr(t, err, api.ErrTruthFailed)
	found := new(deadlineError)
	check.That(t, !errors.Is(err, context.DeadlineExceeded) && errors.Is(err, own) && errors.As(err, &found), "%v", err)
}

// deadlineError is a deadline of a source's own.
type deadlineError struct{}

func (*deadlineError) Error() string { return "the database took too long" }
func (*deadlineError) Unwrap() error { return context.DeadlineExceeded }

// handSigner is a signer that returns what a test says.
type handSigner struct {
	note.Signer
	sign func(message []byte) ([]byte, error)
}

func (s *handSigner) Sign(message []byte) ([]byte, error) { return s.sign(message) }

// What a signer does wrong is its own error, and nothing that does not verify is handed out.
func TestCheckpoint_SignerFails_IsErrSigner(t *testing.T) {
	right, verifier, public := logKey(t, "log.example", 1)
	wrong, _, _ := logKey(t, "log.example", 2)
	broken := errors.New("the device is locked")
	for name, c := range map[string]struct {
		sign func([]byte) ([]byte, error)
		want error
	}{
		"error":       {func([]byte) ([]byte, error) { return nil, broken }, broken},
		"garbage":     {func([]byte) ([]byte, error) { return []byte("garbage"), nil }, api.ErrSigner},
		"nothing":     {func([]byte) ([]byte, error) { return nil, nil }, api.ErrSigner},
		"another key": {wrong.Sign, api.ErrSigner},
	} {
		for known, options := range map[string]Options{"log key": {}, "Verifiers": {Verifiers: note.VerifierList(verifier)}} {
			t.Run(name+"/"+known, func(t *testing.T) {
				options.Signer = &handSigner{right, c.sign}
				recorded := public
				if known == "Verifiers" {
					_, _, recorded = logKey(t, "log.example", 3)
				}
				l := openMemory(t, created(t, recorded), options)
				signed, err := l.Checkpoint(t.Context())
				wantErr(t, err, api.ErrSigner)
				wantErr(t, err, c.want)
				check.That(t, !errors.Is(err, api.ErrCheckpoint) && signed == nil, "%q, %v", signed, err)
			})
		}
	}
}

// created is a new ledger in memory, with a log key or without.
func created(t *testing.T, logKey string) kv.Store {
	s := &kv.Memory{}
	beginWithKey(t, s, logKey)
	return s
}

type silentObserver struct{}

func (*silentObserver) Committed(observe.Commit) {}
func (*silentObserver) Audited(observe.Audit)    {}
func (*silentObserver) Refused(observe.Refusal)  {}

// What cannot be is refused when the ledger is opened, and not met in a commit.
func TestOpen_SettingThatCannotBe_IsErrInvalid(t *testing.T) {
	for name, options := range map[string]Options{
		"TruthTimeout": {TruthTimeout: -time.Second},
		"Observer":     {Observer: (*silentObserver)(nil)},
		"Signer":       {Signer: (*handSigner)(nil)},
	} {
		_, err := openStore(t.Context(), created(t, ""), options)
		wantErr(t, err, api.ErrInvalid)
		check.That(t, err == nil || strings.Contains(err.Error(), name), "%s: %v", name, err)
	}
}

// A nil context is an error of the call, never a panic.
func TestEveryCall_NilContext_IsErrInvalid(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann")
	var none context.Context
	for name, call := range everyCallWith(none, t, l) {
		err := recovered(call)
		check.That(t, errors.Is(err, api.ErrInvalid), "%s: %v", name, err)
	}
}
