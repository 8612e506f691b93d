package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/internal/testenv"
)

// toured is the output of the tour.
const toured = `enrolled: 4
terms changed: 1
released: ana at ε = 0.25
sale 1: 4 responses for 200 of 200 USD
sale 2: 4 upgrades for 200
reservation 3: open
sale 3: 4 resales
refused: leo, buyer-refused, nothing helps
a wrong word: false
problem: refused, 409, 1 refused
problem: unknown
problem: key-conflict
answered at ε = 0.5 for 4 people
sluice receipt 4: 4 responses, 200
sluice statement 4: ana has spent ε = 1.5, and earned 150 by 3 sales
sales to acme: 1,2; the newest of all: 3
reservations: captured
events: {"sale":3,"sold":12}; people have earned 600
followed the log to its end: settled
The receipt of sale 1 verifies: acme has paid 200¢.
The ledger verifies: true.
`

// The client is generated from the API document, and compiled with its types.
func TestTour_GeneratedClient_PrintsEachStep(t *testing.T) {
	build := typeScript(t)
	out, err := kit.Output(t.Context(), testenv.TempDir(t), run, testenv.Command(t, "node"), filepath.Join(build, "tour.js"))
	if err != nil || out != toured {
		t.Errorf("%v, and it prints\n%s", err, out)
	}
}

func TestTour_NoCommand_ErrorNamesOne(t *testing.T) {
	if _, err := kit.Output(t.Context(), testenv.TempDir(t), run); err == nil || !strings.Contains(err.Error(), "no command is given") {
		t.Error(err)
	}
}

// The test uses the go command, which every machine with tests has.
func TestTour_BadCommand_IsAnError(t *testing.T) {
	if !testenv.Deep() {
		t.Skip("a deep form: it links the command")
	}
	for _, c := range []struct {
		name  string
		host  []string
		found string
	}{
		{"it fails", []string{"go", "no-such-command"}, "running the host go: exit status"},
		{"it leaves no receipt", []string{"go", "env"}, "receipt.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, err := kit.Output(t.Context(), testenv.TempDir(t), run, c.host...); err == nil || !strings.Contains(err.Error(), c.found) {
				t.Errorf("%v, and it prints\n%s", err, out)
			}
		})
	}
}

// typeScript compiles the programs in TypeScript, and returns the directory of the results.
func typeScript(t *testing.T) string {
	t.Helper()
	if !testenv.Deep() {
		t.Skip("a deep form: npm fetches packages for it")
	}
	testenv.Command(t, "node")
	testenv.Command(t, "npm")
	build, err := kit.TypeScript(t.Context(), testenv.TempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	return build
}
