//go:build unix

package pgjournal

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/journal"
)

// An append to a database that was restored to an earlier state returns ErrRestored. It does not
// return ErrFenced, even if another host has claimed the journal since.
func TestAppend_DatabaseWasPutBack_IsRestored(t *testing.T) {
	s := shared(t)
	for name, change := range map[string]string{
		"an older term":                   "term = term - 1",
		"another host has claimed it":     "term = term + 1, host = 'b'",
		"the same term, and fewer events": "term = term",
	} {
		h := newHosts(t, s.Database(t, "journals"), "a", "b")
		a := newAuthor(t, h, "a")
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

// A connection pool in transaction or statement mode loses prepared statements and settings. The
// error names the setting of the pool.
func TestAppend_StatementsOfTheSessionAreGone_NamesThePoolMode(t *testing.T) {
	s := shared(t)
	for name, does := range map[string]string{
		"another connection": `EXECUTE 'DEALLOCATE ALL'`,
		"other settings":     `PERFORM set_config('client_min_messages', 'error', false)`,
	} {
		h := newHosts(t, s.Database(t, "journals"), "a", "b")
		a := newAuthor(t, h, "a")
		s.Exec(t, "journals", `
			CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+does+`; RETURN NULL; END $$;
			CREATE TRIGGER change AFTER INSERT ON sluice.frames FOR EACH ROW EXECUTE FUNCTION change();`)
		a.add("changes the session")
		err := a.j.Append(t.Context(), a.group("is not appended"))
		check.That(t, err != nil && strings.Contains(err.Error(), "pgbouncer") &&
			strings.Contains(err.Error(), "pool_mode = session"), "%s: %v", name, err)
	}
}
