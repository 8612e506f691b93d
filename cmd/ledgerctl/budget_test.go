package main

import (
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
)

// What a stranger behind an address leaves out of a budget is not in the table, and no reason to
// panic.
func TestForecast_EmptyBudgetOfAServer_IsShown(t *testing.T) {
	var out output.Table
	tableInstead(&out, &api.Budget{Question: "vote"}, "USD")
	if out.String() != "" {
		t.Errorf("it is shown as %q", out.String())
	}
	forecast(api.Budget{Question: "vote", Refused: []api.RefusalSum{{Reason: api.Withdrawn, Count: 1}}}, 0, "").Table(&out)
	if !strings.Contains(out.String(), "vote") {
		t.Errorf("it is shown as %q", out.String())
	}
}
