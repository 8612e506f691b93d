package house

import (
	"go/build"
	"path/filepath"
	"strings"
	"testing"
)

// Who embeds the ledger links nothing of what only a journal in PostgreSQL needs; and that journal does need it, so that the test would see it.
func TestTheLedgerDoesNotLinkPostgreSQL(t *testing.T) {
	needs := func(folder string) (found []string) {
		ours, others := closureOn(t, build.Default, filepath.Join("..", ".."), folder)
		for name := range ours {
			if strings.HasPrefix(name, "ledger/journal/pgjournal") || strings.HasPrefix(name, "ledger/journal/keyholder") {
				found = append(found, name)
			}
		}
		for name := range others {
			if strings.HasPrefix(name, "github.com/jackc/") || name == "net/http" {
				found = append(found, name)
			}
		}
		return found
	}
	for _, folder := range []string{"ledger", "ledger/ledgertest", "ledger/journal", "ledger/internal/journalfile", "ledger/evidence"} {
		if found := needs(folder); len(found) > 0 {
			t.Errorf("%s links %v", folder, found)
		}
	}
	if found := needs("ledger/journal/pgjournal"); len(found) < 3 {
		t.Errorf("a journal in PostgreSQL links %v only: this test sees nothing", found)
	}
}

// Who embeds the ledger links nothing of what serves it, and who calls a ledger elsewhere nothing of what only its server needs.
func TestTheLedgerDoesNotLinkItsServer(t *testing.T) {
	needs := func(folder string, without ...string) (found []string) {
		ours, others := closureOn(t, build.Default, filepath.Join("..", ".."), folder)
		for name := range others {
			ours[name] = true
		}
		for name := range ours {
			for _, one := range without {
				if name == one || strings.HasPrefix(name, one+"/") {
					found = append(found, name)
				}
			}
		}
		return found
	}
	server := []string{"ledger/ledgerhttp"}
	both := append([]string{"ledger/ledgerclient", "ledger/internal/httpapi", "ledger/problem", "github.com/go-json-experiment", "net/http", "gonum.org/v1/gonum"}, server...)
	for _, folder := range []string{"ledger", "ledger/ledgertest", "ledger/evidence", "ledger/event"} {
		if found := needs(folder, both...); len(found) > 0 {
			t.Errorf("%s links %v", folder, found)
		}
	}
	if found := needs("ledger/ledgerclient", server...); len(found) > 0 {
		t.Errorf("ledger/ledgerclient links %v", found)
	}
	if found := needs("ledger/ledgerhttp", both...); len(found) < 6 {
		t.Errorf("ledger/ledgerhttp links %v only: this test sees nothing", found)
	}
}
