package main

import (
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/pgtest"
)

// Two hosts hang, one of them after a sale that the database does not have yet. The order is not
// sold again, and a host that wakes up sells nothing.
func TestRun_HostHangs_SellsEachOrderOnce(t *testing.T) {
	s := pgtest.Start(t)
	var out strings.Builder
	if err := run(t.Context(), s.Address("postgres"), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	want := `HOST | FINDS IN THE DATABASE                         | AND IN ITS LEDGER                        | AND
a    | 1 open, 2 open, 3 open, 4 open                | sales: 0, paid:   0¢, each spent ε = 0   | hangs after sale 2
b    | 1 for 150¢, 2 open, 3 open, 4 open            | sales: 2, paid: 450¢, each spent ε = 1   | hangs before sale 4
a    | 1 for 150¢, 2 for 300¢, 3 refused, 4 open     | sales: 2, paid: 450¢, each spent ε = 1   | wakes up
a    | learns that the other host has the journal, and stops
a    | 1 for 150¢, 2 for 300¢, 3 refused, 4 open     | sales: 2, paid: 450¢, each spent ε = 1   | has sold all
b    | 1 for 150¢, 2 for 300¢, 3 refused, 4 for 150¢ | sales: 2, paid: 450¢, each spent ε = 1   | wakes up
a    | 1 for 150¢, 2 for 300¢, 3 refused, 4 for 150¢ | sales: 3, paid: 600¢, each spent ε = 1   | ends
`
	if out.String() != want {
		t.Errorf("it prints\n%s", out.String())
	}
}
