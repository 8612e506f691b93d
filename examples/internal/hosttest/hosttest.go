// Package hosttest runs examples with hosts in other languages: only tests of examples import it. Paths are relative to
// the folder of an example, where its tests run.
package hosttest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
)

// Document is the document of the API, from which the client in TypeScript is generated.
const Document = "../../docs/reference/openapi.json"

// Output returns what an example and its host print, and the error of the example. Both print to one file, so that the
// lines are in order.
func Output(t *testing.T, example func(context.Context, []string, *os.File) error, host ...string) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(pace.Scratch(t), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	failed := example(ctx, host, out)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), failed
}

// Command returns the path of a command that the test needs. A test on a machine without it ends.
func Command(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		pace.Impossible(t, err.Error())
	}
	return path
}

// TypeScript compiles the programs in TypeScript, and returns the folder of the results. This needs the network, or the
// cache of npm.
func TypeScript(t *testing.T) string {
	t.Helper()
	if !pace.Deep() {
		t.Skip("a deep form: npm fetches packages for it")
	}
	Command(t, "node")
	Command(t, "npm")
	const from = "../served/typescript/"
	dir := pace.Scratch(t)
	for _, name := range []string{
		from + "package.json", from + "package-lock.json", from + "tsconfig.json",
		from + "sluice.ts", from + "host.ts", from + "tour.ts", Document,
	} {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	npm(t, dir, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm(t, dir, "run", "build")
	return filepath.Join(dir, "build")
}

func npm(t *testing.T, dir string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "npm", args...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("npm %v: %v\n%s", args, err, out)
	}
}
