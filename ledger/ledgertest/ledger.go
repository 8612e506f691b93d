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
	*ledger.Ledger         // changes with Reopen
	Clock          *Clock  // what the ledger takes for the time, unless Settings.Options has a clock of its own
	Memory         *Memory // where it is kept

	t       testing.TB
	options ledger.Options
}

// Settings are those of a ledger in memory. The zero value is ready for use.
type Settings struct {
	Origin  Origin         // how it is created
	Options ledger.Options // how it is opened; Now is the test's clock, unless it is set
	Draws   Draws          // for the tests of this module
}

// New returns a new, empty ledger for a test, which fails if there is none.
func New(t testing.TB) *Ledger {
	t.Helper()
	return With(t, Settings{})
}

// With is [New] with settings.
func With(t testing.TB, s Settings) *Ledger {
	t.Helper()
	s.Origin = s.Origin.orUsual()
	m, err := NewMemory(s.Origin)
	if err != nil {
		t.Fatalf("a ledger in memory: %v", err)
	}
	m.Draws = s.Draws
	l := &Ledger{Clock: NewClock(s.Origin.Created), Memory: m, t: t, options: s.Options}
	l.Reopen()
	t.Cleanup(func() { _ = l.Close() }) // not before there is one to close
	return l
}

// Reopen opens the ledger again, as after a restart of the host, with the settings it was opened
// with. Before that it is closed, if it is open. Nothing but what was committed is left.
func (l *Ledger) Reopen() {
	l.t.Helper()
	if err := l.ReopenWith(l.options); err != nil {
		l.t.Fatalf("open the ledger again: %v", err)
	}
}

// ReopenWith is [Ledger.Reopen] with other options, and returns what [ledger.Open] does. After an
// error the ledger is closed.
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

// Origin is what a ledger is created with. The zero value is ready for use.
type Origin struct {
	Created  time.Time // [Begin] if it is zero
	Currency string    // "" for USD
	LogKey   string    // the verifier key of the log, or "" for none
}

func (o Origin) orUsual() Origin {
	if o.Created.IsZero() {
		o.Created = Begin()
	}
	o.Currency = cmp.Or(o.Currency, "USD")
	return o
}
