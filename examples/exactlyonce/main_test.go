package main

import (
	"os"
	"os/exec"
	"testing"
)

// In the processes that the test starts, the test binary runs the program.
func TestMain(m *testing.M) {
	if os.Getenv("SLUICE_EXACTLYONCE") == "" {
		os.Setenv("SLUICE_EXACTLYONCE", "the program")
		os.Exit(m.Run())
	}
	main()
}

// After the second death the ledger has a sale that the database does not have. The order is not
// sold again.
func TestRun_HostDies_SellsEachOrderOnce(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), os.Args[0]).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := `A LIFE FINDS IN ITS DATABASE                 | AND IN THE LEDGER                        | AND DIES
1 open, 2 open, 3 open                       | sales: 0, paid:   0¢, each spent ε = 0   | before sale 1
1 open, 2 open, 3 open                       | sales: 0, paid:   0¢, each spent ε = 0   | after sale 1
1 open, 2 open, 3 open                       | sales: 1, paid: 150¢, each spent ε = 0.5 | after sale 2
1 sold for 150¢, 2 open, 3 open              | sales: 2, paid: 450¢, each spent ε = 1   | -
1 sold for 150¢, 2 sold for 300¢, 3 refused  | sales: 2, paid: 450¢, each spent ε = 1   | -
`
	if string(out) != want {
		t.Errorf("it prints\n%s", out)
	}
}
