package ledgertest

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// Ledger is a ledger in memory that is open until the test ends.
type Ledger struct {
	*ledger.Ledger         // Reopen replaces it
	Clock          *Clock  // the clock of the ledger, unless Settings.Options has one
	Memory         *Memory // the storage of the ledger

	t       testing.TB
	options ledger.Options
}

// Settings are the settings of a ledger in memory. The zero value is ready for use.
type Settings struct {
	Origin  Origin         // how the ledger is created
	Options ledger.Options // how it is opened; if Now is nil, Clock is used
	Draws   Draws          // for the tests of this module only
}

// New returns a new, empty ledger, or fails the test.
func New(t testing.TB) *Ledger {
	t.Helper()
	return With(t, Settings{})
}

// With returns a new, empty ledger with the given settings, or fails the test. The ledger is closed
// when the test ends.
func With(t testing.TB, s Settings) *Ledger {
	t.Helper()
	s.Origin = s.Origin.withDefaults()
	m, err := NewMemory(s.Origin)
	if err != nil {
		t.Fatalf("create a ledger in memory: %v", err)
	}
	m.Draws = s.Draws
	l := &Ledger{Clock: NewClock(s.Origin.Created), Memory: m, t: t, options: s.Options}
	l.Reopen()
	t.Cleanup(func() { _ = l.Close() }) // after Reopen, which may fail the test: then there is no ledger
	return l
}

// Reopen closes the ledger if it is open, and opens it again with the same settings, as after a
// restart of the host. Only what was committed remains.
func (l *Ledger) Reopen() {
	l.t.Helper()
	if err := l.ReopenWith(l.options); err != nil {
		l.t.Fatalf("open the ledger again: %v", err)
	}
}

// ReopenWith is [Ledger.Reopen] with other options. It returns the errors of [ledger.Open] and of
// closing. After an error of [ledger.Open], the ledger is closed.
func (l *Ledger) ReopenWith(o ledger.Options) error {
	if l.Ledger != nil {
		if err := l.Close(); err != nil && !errors.Is(err, api.ErrClosed) {
			return err
		}
	}
	if o.Now == nil {
		o.Now = l.Clock.Now
	}
	opened, err := l.Memory.Open(o)
	if err == nil {
		l.Ledger = opened
	}
	return err
}

// Origin has the parameters with which a ledger is created. The zero value is ready for use.
type Origin struct {
	Created  time.Time // [Begin] if it is zero
	Currency string    // "" is USD
	LogKey   string    // the verifier key of the log; "" for none
}

// withDefaults returns the origin with a value in place of each zero field that has a default.
func (o Origin) withDefaults() Origin {
	if o.Created.IsZero() {
		o.Created = Begin()
	}
	o.Currency = cmp.Or(o.Currency, "USD")
	return o
}
