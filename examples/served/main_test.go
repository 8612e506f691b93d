package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/examples/internal/killed"
	"github.com/sluicedp/sluice/internal/pace"
)

// golden is what any host prints, whatever language it is in.
const golden = `  The server is killed when it has carried out enrol, and not said so.
order-1: acme asks for ε = 0.5: 3 answers, 150¢
  The server is killed before it gets order-1.
order-1: sale 1, 150¢, 3 drawn
order-2: zeta asks for ε = 1: 3 answers, 300¢
  The server is killed when it has carried out order-2, and not said so.
order-2: sale 2, 300¢, 3 drawn
order-3: acme asks for ε = 1: 3 answers, 150¢
  The server is killed while order-3 is under way.
order-3: sale 3, 150¢, 0 drawn
order-4: acme asks for ε = 3: 0 answers, 0¢
order-4: refused
order-5: zeta asks for ε = 2: 3 answers, 300¢
  The server is killed when it has carried out order-5, and not said so.
order-5: sale 4, 300¢, 3 drawn
The ledger has sold orders 1, 2, 3 and 5 once each. ana has spent ε = 2, and earned 300¢.
The host has its 30 events, each once and in order.
The receipt of sale 1 verifies: acme has paid 150¢.
The ledger verifies: true.
`

// A host in Python sells each order once, and follows each event, whenever the server is killed.
func TestHostInPython(t *testing.T) {
	python := needed(t, "python3")
	if out, err := runs(t, python, "python/host.py"); err != nil || out != golden {
		t.Errorf("%v, and it prints\n%s", err, out)
	}
}

// A host that is run again sells nothing again.
func TestHostIsRunAgain(t *testing.T) {
	if !pace.Deep() {
		t.Skip("a deep form")
	}
	const twice = "import subprocess, sys\nfor _ in range(2): subprocess.check_call([sys.executable, 'python/host.py', sys.argv[1]])"
	out, err := runs(t, needed(t, "python3"), "-c", twice)
	if err != nil || strings.Count(out, "order-5: sale 4, 300¢, 3 drawn") != 2 || !strings.Contains(out, "The ledger has sold orders 1, 2, 3 and 5 once each.") {
		t.Errorf("%v, and it prints\n%s", err, out)
	}
}

// A host in TypeScript does as the one in Python. It is compiled here, with what npm fetches.
func TestHostInTypeScript(t *testing.T) {
	dir := typescript(t)
	if out, err := runs(t, needed(t, "node"), filepath.Join(dir, "build", "host.js")); err != nil || out != golden {
		t.Errorf("%v, and it prints\n%s", err, out)
	}
}

// The types that stand in the repository are those of the API that is served.
func TestTypesAreThoseOfTheAPI(t *testing.T) {
	dir := typescript(t)
	server, err := killed.New(t.Context(), pace.Scratch(t), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.Addr+"/openapi.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+server.Token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	document, err := os.Create(filepath.Join(dir, "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := document.ReadFrom(answer.Body); err != nil || document.Close() != nil {
		t.Fatal(err)
	}
	commanded(t, dir, "npm", "run", "types")
	made, err := os.ReadFile(filepath.Join(dir, "ledger.d.ts"))
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile(filepath.Join("typescript", "ledger.d.ts"))
	if err != nil || string(made) != string(committed) {
		t.Errorf("examples/served/typescript/ledger.d.ts is not what the API is now (%v): make it again, as examples/README.md says", err)
	}
}

// What a host could do wrong is found, with a server that is killed: each fault is one that a host could have.
func TestFaultsOfHostsAreFound(t *testing.T) {
	python := needed(t, "python3")
	for _, c := range []struct {
		fault, file, is, was, found string
		quick                       bool // it is tried in the quick form, too
	}{
		{"a new key for each try", "sluice.py", "request.add_header(name, value)",
			`request.add_header(name, value.replace("order-2", "order-2 at " + str(time.time_ns())))`, "the ledger has sold map[order-1:1 order-2 at ", true},
		{"nothing is asked again", "sluice.py", "time.monotonic() > give_up", "True", "exit status", false},
		{"events from the first one on, after each break", "sluice.py", `"Last-Event-ID": str(after)`, `"Last-Event-ID": "0"`, "the ledger's event ", true},
		{"an event is lost at each break", "sluice.py", `"Last-Event-ID": str(after)`, `"Last-Event-ID": str(after + (after > 0))`, "the ledger's event ", false},
		{"true values that nobody asked for", "sluice.py", "json.loads(self._ask(path, headers, body))",
			`json.loads(self._ask(path, headers, {**body, **({"truths": dict(truths)} if truths else {})}))`, "true values came with order-1", false},
		{"half an event is one", "sluice.py", `elif field == "" and data:`, `if data:`, "exit status", false},
		{"no events are followed", "host.py", "follower.start()", "follower._failed = True", "the server was not killed when it has carried out enrol", false},
		{"an order is forgotten", "host.py", `in shop["orders"]:`, `in shop["orders"][:4]:`, "the server was not killed when it has carried out order-5", false},
		{"another receipt than was made", "host.py", "/receipt\"))", `/receipt").replace(b"acme", b"zeta"))`, "the receipt does not verify", false},
	} {
		t.Run(c.fault, func(t *testing.T) {
			if !c.quick && !pace.Deep() {
				t.Skip("a deep form")
			}
			t.Parallel()
			dir := pace.Scratch(t)
			if err := os.CopyFS(dir, os.DirFS("python")); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, c.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(text), c.is, c.was, 1)
			if changed == string(text) {
				t.Fatalf("%s does not have %q", c.file, c.is)
			}
			if c.fault == "nothing is asked again" {
				changed = strings.ReplaceAll(changed, c.is, c.was)
			}
			if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := runs(t, python, filepath.Join(dir, "host.py")); err == nil || !strings.Contains(err.Error(), c.found) {
				t.Errorf("%v, and it prints\n%s", err, out)
			}
		})
	}
}

// runs runs the example with a host, and returns what both print. They print to one file, so that it is in order.
func runs(t *testing.T, host ...string) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(pace.Scratch(t), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	failed := run(ctx, host, out)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), failed
}

// needed returns where a command is. Where it is not there is nothing to test.
func needed(t *testing.T, command string) string {
	t.Helper()
	path, err := exec.LookPath(command)
	if err != nil {
		pace.Impossible(t, err.Error())
	}
	return path
}

// typescript returns a copy of the host in TypeScript, compiled. This needs the network, or npm's cache.
func typescript(t *testing.T) string {
	t.Helper()
	if !pace.Deep() {
		t.Skip("a deep form: npm fetches packages for it")
	}
	needed(t, "node")
	needed(t, "npm")
	dir := pace.Scratch(t)
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json", "ledger.d.ts", "sluice.ts", "host.ts"} {
		text, err := os.ReadFile(filepath.Join("typescript", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commanded(t, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	commanded(t, dir, "npm", "run", "build")
	return dir
}

func commanded(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
