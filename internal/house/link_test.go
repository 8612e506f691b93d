package house

import (
	"go/build"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// linked returns which packages a package links, outside of the module too, that are some of these
// or below them.
func linked(t *testing.T, folder string, without ...string) (found []string) {
	t.Helper()
	ours, others := closureOn(t, build.Default, root(), folder)
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

// Who embeds the ledger links nothing of what only a journal in PostgreSQL needs, nor of what
// serves the ledger; who calls a ledger elsewhere links nothing of what only its server needs. What
// is left out is needed elsewhere, so that the test sees it.
func TestLinked_WhatOnlyOthersNeed_IsLeftOut(t *testing.T) {
	postgres := []string{"ledger/journal/pgjournal", "ledger/journal/keyholder", "github.com/jackc", "net/http"}
	server := []string{"ledger/ledgerhttp"}
	both := append([]string{"ledger/ledgerclient", "internal/httpapi", "internal/problem", "github.com/go-json-experiment", "net/http", "gonum.org/v1/gonum"}, server...)
	for _, c := range []struct {
		folders string
		without []string
		least   int // of those that are found
	}{
		{"ledger ledger/ledgertest ledger/journal ledger/internal/journalfile ledger/evidence", postgres, 0},
		{"ledger/journal/pgjournal", postgres, 3},
		{"ledger ledger/ledgertest ledger/evidence ledger/event", both, 0},
		{"ledger/ledgerclient", server, 0},
		{"ledger/ledgerhttp", both, 6},
	} {
		for folder := range strings.FieldsSeq(c.folders) {
			found := linked(t, folder, c.without...)
			check.That(t, len(found) >= c.least && (c.least > 0 || len(found) == 0), "%s links %v", folder, found)
		}
	}
}
