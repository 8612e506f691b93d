//go:build unix

package pgjournal

import (
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
)

// The journal passes the tests for all journals. Its handles connect through a proxy, which can
// break the connection of an append.
func TestJournal_Conformance(t *testing.T) {
	s := shared(t)
	s.Database(t, "journals")
	kind := journaltest.Kind{Shared: true, ReadsAhead: true, Brief: !testenv.Long(), Large: testenv.Tries(10<<20, 18<<20, 64<<20)}
	kind.New = func(t *testing.T, at journal.Position) journaltest.Medium {
		p := pgtest.NewProxy(t, s)
		h := newHosts(t, p.Address("journals"), "a", "b", "c")
		h.create(t, "a", at)
		follower := h.open(t, "b")
		return journaltest.Medium{
			Open:  func() (journal.Journal, error) { return h.open(t, "a"), nil },
			Break: func(landed bool) { breakAppend(p, landed) },
			Fold:  func(through journal.Position) { check.Must(t, follower.Folded(t.Context(), through)) },
		}
	}
	journaltest.Run(t, kind)
}
