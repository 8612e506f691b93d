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

// common is a server for tests that change nothing outside of the database "journals".
var common struct {
	once   sync.Once
	server *pgtest.Server
}

// shared returns the common server.
func shared(t testing.TB) *pgtest.Server {
	t.Helper()
	common.once.Do(func() { common.server = pgtest.StartLasting(t) })
	if common.server == nil { // an earlier test was skipped, or failed, for the same reason
		return pgtest.Start(t)
	}
	return common.server
}

// hosts are the hosts that share a journal. Each can reach the key holders of the others.
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

// fail makes all calls of the key holders of some hosts, or of all hosts if there are no names,
// fail with an error. nil ends that.
func (h *hosts) fail(err error, names ...string) {
	for name, keys := range h.keys {
		if len(names) == 0 || slices.Contains(names, name) {
			keys.Fail(err)
		}
	}
}

// options returns the options of a host.
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

// claim claims a journal, which must end at a position, and returns the term.
func claim(t testing.TB, j journal.Journal, want journal.Position) (term uint64) {
	t.Helper()
	term, end, err := j.Claim(t.Context())
	check.Need(t, err == nil && end == want, "Claim: it ends with %v, not %v: %v", end, want, err)
	return term
}

// until waits until a condition is true.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	pgtest.Until(t, what, func() error {
		if !is() {
			return errors.New("the condition is false")
		}
		return nil
	})
}

// appending reports whether a message is an append statement of a host.
func appending(m pgtest.Message) bool {
	return m.Kind == 'B' && strings.Contains(m.SQL, "UPDATE") && strings.Contains(m.SQL, "frames") && strings.Contains(m.SQL, "synchronous_standby_names")
}

// breakAppend makes a proxy break the connection of the next append, so that the host gets no
// answer. landed is whether the server receives the statement.
func breakAppend(p *pgtest.Proxy, landed bool) {
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

// read returns all groups after a position.
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

// author appends groups to a journal, and keeps the log that the journal must have.
type author struct {
	testing.TB
	j    journal.Journal
	log  journaltest.Log
	term uint64
}

func (a *author) claim() {
	a.Helper()
	a.term = claim(a, a.j, a.log.End())
}

// reopen opens the journal in a new handle of a host, and claims it.
func (a *author) reopen(h *hosts, host string) {
	a.Helper()
	a.j = h.open(a, host)
	a.claim()
}

// wantRejected appends a group, which must be rejected, and removes it from the log. reasons are
// errors that the rejection must wrap, and texts that it must contain.
func (a *author) wantRejected(g journal.Group, what string, reasons ...any) {
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

// wantKeyCounts checks how many keys of the journal each host has.
func (a *author) wantKeyCounts(h *hosts, want int) {
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

// newShared creates a journal that some hosts share, in an empty database. Host a claims it.
func newShared(t testing.TB, names ...string) (*pgtest.Server, *hosts, *author) {
	t.Helper()
	s := shared(t)
	h := newHosts(t, s.Database(t, "journals"), names...)
	return s, h, newAuthor(t, h, "a")
}
