//go:build unix

package pgjournal

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
)

// common is a server for tests that leave it as it is, but for the database "journals".
var common struct {
	once   sync.Once
	server *pgtest.Server
}

// shared returns it.
func shared(t testing.TB) *pgtest.Server {
	t.Helper()
	common.once.Do(func() { common.server = pgtest.StartLasting(t) })
	if common.server == nil { // the test before was skipped, or failed, for this one's reason
		return pgtest.Start(t)
	}
	return common.server
}

// hosts are those that share a journal. Each has the keys of the others, in memory.
type hosts struct {
	database string
	ledger   [16]byte
	keys     map[string]*faultyKeys
	change   func(*Options)
}

func newHosts(t testing.TB, database string, names ...string) *hosts {
	h := &hosts{database: database, keys: map[string]*faultyKeys{}}
	_, _ = rand.Read(h.ledger[:])
	for _, name := range names {
		h.keys[name] = newKeys(t, name)
	}
	return h
}

// fail has all calls to the keys of some hosts, or of all if there are no names, fail with an
// error; nil ends that.
func (h *hosts) fail(err error, names ...string) {
	for name, keys := range h.keys {
		if len(names) == 0 || slices.Contains(names, name) {
			keys.Fail(err)
		}
	}
}

// options are those of a host.
func (h *hosts) options(name string) Options {
	o := Options{Database: h.database, Host: name, Keys: h.keys[name], Timeout: 20 * time.Second}
	for other, keys := range h.keys {
		if other != name {
			o.Others = append(o.Others, keys)
		}
	}
	if h.change != nil {
		h.change(&o)
	}
	return o
}

func (h *hosts) create(t testing.TB, name string, at journal.Position) *Journal {
	t.Helper()
	j := check.Value(createJournal(t.Context(), h.options(name), h.ledger, at))(t)
	t.Cleanup(func() { j.Close() })
	return j
}

func (h *hosts) open(t testing.TB, name string) *Journal {
	t.Helper()
	j := check.Value(Open(t.Context(), h.options(name), h.ledger))(t)
	t.Cleanup(func() { j.Close() })
	return j
}

// claimed claims a journal that ends somewhere.
func claimed(t testing.TB, j journal.Journal, want journal.Position) (term uint64) {
	t.Helper()
	term, end, err := j.Claim(t.Context())
	check.Need(t, err == nil && end == want, "Claim: it ends with %v, not %v: %v", end, want, err)
	return term
}

// until waits until something is so.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	pgtest.Until(t, what, func() error {
		if !is() {
			return errors.New("it is not so")
		}
		return nil
	})
}

// appending tells whether a message is a host's that has a group appended.
func appending(m pgtest.Message) bool {
	return m.Kind == 'B' && strings.Contains(m.SQL, "UPDATE") && strings.Contains(m.SQL, "frames") && strings.Contains(m.SQL, "synchronous_standby_names")
}

// broken has a proxy break the next append: what comes of it the host does not hear.
func broken(p *pgtest.Proxy, landed bool) {
	var begun atomic.Bool
	p.SetRule(func(m pgtest.Message) pgtest.Action {
		switch {
		case begun.Load() && m.FromServer:
			p.SetRule(nil)
			return pgtest.Cut
		case appending(m) && landed:
			begun.Store(true)
		case appending(m):
			p.SetRule(nil)
			return pgtest.Cut
		}
		return pgtest.Pass
	})
}

// read returns all groups behind a position.
func read(t testing.TB, j journal.Journal, after journal.Position) (all []journal.Group, err error) {
	t.Helper()
	for g, err := range j.Read(t.Context(), after) {
		if err != nil {
			return all, err
		}
		all = append(all, g)
	}
	return all, nil
}

// author appends groups, and knows what should be there.
type author struct {
	testing.TB
	j    journal.Journal
	log  journaltest.Log
	term uint64
}

func (a *author) claim() {
	a.Helper()
	a.term = claimed(a, a.j, a.log.End())
}

// reopen opens the journal by another handle, and claims it.
func (a *author) reopen(h *hosts, host string) {
	a.Helper()
	a.j = h.open(a, host)
	a.claim()
}

// rejected appends a group, which is rejected for reasons: errors that it wraps, and words that it
// says. So the log is without it.
func (a *author) rejected(g journal.Group, what string, reasons ...any) {
	a.Helper()
	err := a.j.Append(a.Context(), g)
	check.Need(a, isRejected(err), "%s: %v", what, err)
	for _, reason := range reasons {
		if want, is := reason.(error); is {
			check.WantErr(a, err, want, "%s", what)
		} else {
			check.That(a, strings.Contains(err.Error(), reason.(string)), "%s: %v; want %q", what, err, reason)
		}
	}
	a.log.Undo(len(g.Records))
}

// haveKeys checks how many keys of the journal each host has.
func (a *author) haveKeys(h *hosts, want int) {
	a.Helper()
	for name, keys := range h.keys {
		check.Equal(a, keys.Count(a.j.Name()), want, "keys of host %s", name)
	}
}

func (a *author) add(records ...string) journal.Group {
	a.Helper()
	g := a.group(records...)
	err := a.j.Append(a.Context(), g)
	check.Need(a, err == nil, "Append: %v", err)
	return g
}

func (a *author) group(records ...string) journal.Group {
	var all [][]byte
	for _, r := range records {
		all = append(all, []byte(r))
	}
	return a.log.Group(a.term, all...)
}

func isRejected(err error) bool { return errors.Is(err, journal.ErrRejected) }

// isUncertain reports whether an append that returned err may have taken effect.
func isUncertain(err error) bool { return err != nil && !isRejected(err) }

// emptyRoot is the root of a log without events.
func emptyRoot() (root [32]byte) {
	var l journaltest.Log
	return l.End().Root
}

// sharing makes a journal in an empty database, which hosts share, and has the host a claim it.
func sharing(t testing.TB, names ...string) (*pgtest.Server, *hosts, *author) {
	t.Helper()
	s := shared(t)
	h := newHosts(t, s.Database(t, "journals"), names...)
	return s, h, started(t, h, "a")
}
