//go:build unix

package pgjournal

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/journal"
)

// A database that was put back to an earlier state, and may have been claimed there by another
// host, is not taken for one that another host goes on with: what it lacks is lost.
func TestAppend_DatabaseWasPutBack_IsRestored(t *testing.T) {
	s := shared(t)
	for name, change := range map[string]string{
		"an older term":                   "term = term - 1",
		"another host has claimed it":     "term = term + 1, host = 'b'",
		"the same term, and less is told": "term = term",
	} {
		h := newHosts(t, s.Database(t, "journals"), "a", "b")
		a := started(t, h, "a")
		a.add("is kept")
		s.Exec(t, "journals", "CREATE TABLE kept AS SELECT * FROM sluice.heads")
		a.add("is lost")
		s.Exec(t, "journals", `DELETE FROM sluice.frames WHERE after_events > (SELECT events FROM kept);
			UPDATE sluice.heads SET events = kept.events, root = kept.root FROM kept;
			UPDATE sluice.heads SET `+change)
		err := a.j.Append(t.Context(), a.group("goes on"))
		check.That(t, errors.Is(err, journal.ErrRestored) && errors.Is(err, journal.ErrOrder) &&
			!errors.Is(err, journal.ErrFenced), "%s: %v", name, err)
	}
}

// A pool that hands out connections by the transaction, or the statement, loses the statements that
// a session has prepared, and refuses transactions: the error names its setting.
func TestAppend_StatementsOfTheSessionAreGone_NamesThePoolMode(t *testing.T) {
	s := shared(t)
	for name, does := range map[string]string{
		"another connection": `EXECUTE 'DEALLOCATE ALL'`,
		"other settings":     `PERFORM set_config('client_min_messages', 'error', false)`,
	} {
		h := newHosts(t, s.Database(t, "journals"), "a", "b")
		a := started(t, h, "a")
		s.Exec(t, "journals", `
			CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+does+`; RETURN NULL; END $$;
			CREATE TRIGGER change AFTER INSERT ON sluice.frames FOR EACH ROW EXECUTE FUNCTION change();`)
		a.add("changes the session")
		err := a.j.Append(t.Context(), a.group("is not appended"))
		check.That(t, err != nil && strings.Contains(err.Error(), "pgbouncer") &&
			strings.Contains(err.Error(), "pool_mode = session"), "%s: %v", name, err)
	}
}
