package main

import (
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
)

// A budget from a server may lack members. The table lacks them too, and printing does not panic.
func TestForecast_EmptyBudgetOfServer_IsPrinted(t *testing.T) {
	var out output.Table
	tableInstead(&out, &api.Budget{Question: "vote"}, "USD")
	if out.String() != "" {
		t.Errorf("the table is %q", out.String())
	}
	forecast(api.Budget{Question: "vote", Refused: []api.RefusalSum{{Reason: api.Withdrawn, Count: 1}}}, 0, "").Table(&out)
	if !strings.Contains(out.String(), "vote") {
		t.Errorf("the table is %q", out.String())
	}
}
