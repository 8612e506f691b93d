package house

import (
	"go/build"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// browser is where documents must be verifiable: no disk, no network, no C.
func browser() build.Context {
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = "js", "wasm", false
	return context
}

// closure returns the packages of this module that some of them need in a browser, themselves
// included, and what all of these import besides.
func closure(t *testing.T, root string, packages ...string) (ours, others map[string]bool) {
	t.Helper()
	return closureOn(t, browser(), root, packages...)
}

// closureOn is closure on another system.
func closureOn(t *testing.T, context build.Context, root string, packages ...string) (ours, others map[string]bool) {
	t.Helper()
	ours, others = map[string]bool{}, map[string]bool{}
	for len(packages) > 0 {
		name := packages[0]
		if packages = packages[1:]; ours[name] {
			continue
		}
		ours[name] = true
		p := check.Value(context.ImportDir(filepath.Join(root, filepath.FromSlash(name)), 0))(t)
		for _, imports := range p.Imports {
			if inside, is := strings.CutPrefix(imports, module); is {
				packages = append(packages, inside)
			} else {
				others[imports] = true
			}
		}
	}
	return ours, others
}

// Who verifies a document, or reads events that were sent as JSON, links neither a database nor
// linear algebra, and needs no disk and no network.
func TestEvidence_Verifier_LinksNoLedger(t *testing.T) {
	ours, others := closure(t, filepath.Join("..", ".."), "ledger/evidence", "ledger/event", "ledger/api")
	check.Need(t, ours["ledger/internal/event"] && others["encoding/json"],
		"the imports were not found: %v, %v", ours, others)
	heavy := []string{"ledger", "ledger/internal/kv", "ledger/internal/state", "ledger/internal/fold", "rrchain/estimate"}
	for name := range ours {
		for _, one := range heavy {
			check.That(t, name != one && (one == "ledger" || !strings.HasPrefix(name, one+"/")),
				"ledger/evidence or ledger/event needs %s", name)
		}
	}
	// These rest on the standard library alone; of what is there, nothing opens a file or a
	// connection.
	outside := []string{"github.com/google/uuid", "golang.org/x/mod/sumdb/note", "golang.org/x/mod/sumdb/tlog", "golang.org/x/text/unicode/norm"}
	for name := range others {
		host, _, _ := strings.Cut(name, "/")
		check.That(t, !strings.Contains(host, ".") || slices.Contains(outside, name),
			"ledger/evidence or ledger/event needs %s", name)
		check.That(t, !slices.Contains([]string{"os", "os/exec", "net", "net/http", "syscall", "unsafe", "C"}, name),
			"ledger/evidence or ledger/event needs %s", name)
	}
}
