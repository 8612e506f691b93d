package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/internal/testenv"
)

// golden is the output of a host in every language.
const golden = `  The server is killed after it has done enrol, before it responds.
order-1: acme asks for ε = 0.5: 3 answers, 150¢
  The server is killed before it gets order-1.
order-1: sale 1, 150¢, 3 drawn
order-2: zeta asks for ε = 1: 3 answers, 300¢
  The server is killed after it has done order-2, before it responds.
order-2: sale 2, 300¢, 3 drawn
order-3: acme asks for ε = 1: 3 answers, 150¢
  The server is killed while order-3 is in progress.
order-3: sale 3, 150¢, 0 drawn
order-4: acme asks for ε = 3: 0 answers, 0¢
order-4: refused
order-5: zeta asks for ε = 2: 3 answers, 300¢
  The server is killed after it has done order-5, before it responds.
order-5: sale 4, 300¢, 3 drawn
The ledger has sold orders 1, 2, 3 and 5 once each. ana has spent ε = 2, and earned 300¢.
The host has its 30 events, each once and in order.
The receipt of sale 1 verifies: acme has paid 150¢.
The ledger verifies: true.
`

// A host in Python sells each order once, and follows each event, although the server is killed.
func TestHost_Python_SellsOnceAndFollowsEvents(t *testing.T) {
	python := testenv.Command(t, "python3")
	if out, err := kit.Output(t.Context(), testenv.TempDir(t), run, python, "python/host.py"); err != nil || out != golden {
		t.Errorf("%v, and it prints\n%s", err, out)
	}
}

// A host that runs a second time sells no order again.
func TestHost_RunTwice_SellsNothingAgain(t *testing.T) {
	if !testenv.Deep() {
		t.Skip("a deep form")
	}
	const twice = "import subprocess, sys\nfor _ in range(2): subprocess.check_call([sys.executable, 'python/host.py', sys.argv[1]])"
	out, err := kit.Output(t.Context(), testenv.TempDir(t), run, testenv.Command(t, "python3"), "-c", twice)
	if err != nil || strings.Count(out, "order-5: sale 4, 300¢, 3 drawn") != 2 || !strings.Contains(out, "The ledger has sold orders 1, 2, 3 and 5 once each.") {
		t.Errorf("%v, and it prints\n%s", err, out)
	}
}

// A host in TypeScript has the same output. The test compiles it with packages from npm.
func TestHost_TypeScript_SellsOnceAndFollowsEvents(t *testing.T) {
	build := typeScript(t)
	if out, err := kit.Output(t.Context(), testenv.TempDir(t), run, testenv.Command(t, "node"), filepath.Join(build, "host.js")); err != nil || out != golden {
		t.Errorf("%v, and it prints\n%s", err, out)
	}
}

// The API document in the repository, from which clients are generated, is the one that the command
// serves to every caller.
func TestDocument_InRepository_IsTheServedOne(t *testing.T) {
	if !testenv.Deep() {
		t.Skip("a deep form: it links the command")
	}
	server, err := kit.NewServer(t.Context(), testenv.TempDir(t), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	answer, err := http.Get(server.Addr + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	served, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.FromSlash(kit.Document))
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, written); err != nil || !bytes.Equal(compact.Bytes(), served) {
		t.Errorf("docs/reference/openapi.json is not what is served (%v)", err)
	}
}

// The example detects each fault that a host could have.
func TestRun_FaultyHosts_AreDetected(t *testing.T) {
	if !testenv.Deep() {
		t.Skip("a deep form")
	}
	python := testenv.Command(t, "python3")
	for _, c := range []struct {
		fault, file, is, was, found string
	}{
		{"a new key for each try", "sluice.py", "request.add_header(name, value)",
			`request.add_header(name, value.replace("order-2", "order-2 at " + str(time.time_ns())))`, "the ledger has sold map[order-1:1 order-2 at "},
		{"nothing is asked again", "sluice.py", "time.monotonic() > give_up", "True", "exit status"},
		{"events from the first one on, after each break", "sluice.py", `"Last-Event-ID": str(after)`, `"Last-Event-ID": "0"`, "the ledger's event "},
		{"an event is lost at each break", "sluice.py", `"Last-Event-ID": str(after)`, `"Last-Event-ID": str(after + (after > 0))`, "the ledger's event "},
		{"true values that were not requested", "sluice.py", `sent: Json = {}`,
			`sent: Json = dict(truths or {})`, "true values came with order-1"},
		{"half an event is one", "sluice.py", `elif field == "" and data:`, `if data:`, "exit status"},
		{"no events are followed", "host.py", "follower.start()", "follower._failed = True", "the server was not killed after it has done enrol"},
		{"an order is forgotten", "host.py", `in shop["orders"]:`, `in shop["orders"][:4]:`, "the server was not killed after it has done order-5"},
		{"another receipt than was made", "host.py", "/receipt\"))", `/receipt").replace(b"acme", b"zeta"))`, "the receipt does not verify"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			dir := testenv.TempDir(t)
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
			if out, err := kit.Output(t.Context(), testenv.TempDir(t), run, python, filepath.Join(dir, "host.py")); err == nil || !strings.Contains(err.Error(), c.found) {
				t.Errorf("%v, and it prints\n%s", err, out)
			}
		})
	}
}

// askThree returns a host that requests three sales, and prints the results.
func askThree(language string) string {
	return map[string]string{
		"python": `
import sys
sys.path.insert(0, "python")
from sluice import Ledger, Problem
ledger = Ledger(sys.argv[1], "token", patience=0.2)
for key in ("twice", "repeated", "never"):
    try:
        print(ledger.post("/v1/sales", {}, key=key, truths={"ana": "no", "eva": "yes", "leo": "no"})["sale"])
    except Problem as problem:
        print(problem.kind)
`,
		"typescript": `
const { Ledger } = await import(process.argv[1]);
const ledger = new Ledger(process.argv[2], "token", 200);
for (const key of ["twice", "repeated", "never"]) {
  await ledger.sell(key, {}, { ana: "no", eva: "yes", leo: "no" }).then((sold) => console.log(sold.sale), (problem) => console.log(problem.says.kind));
}
`,
	}[language]
}

// wanting is a server that requests true values. For the key "twice" it requests two, one after the
// other. For "repeated" it requests a value again that it already got. For "never" it has no such
// route.
type wanting struct {
	mu  sync.Mutex
	all []string // the requests
}

func (s *wanting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key, text := r.Header.Get("Idempotency-Key"), string(body)
	s.mu.Lock()
	s.all = append(s.all, key+" "+strings.ReplaceAll(text, " ", ""))
	s.mu.Unlock()
	answer := func(status int, text string) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
	need := func(name string) {
		answer(http.StatusConflict, `{"kind":"truth-needed","status":409,"detail":"","needs":[{"question":"smoker","objects":["`+name+`"]}]}`)
	}
	switch {
	case key == `"never"`:
		answer(http.StatusNotImplemented, `{"kind":"usage","status":501,"detail":""}`)
	case key == `"repeated"` || !strings.Contains(text, "ana"):
		need("ana")
	case !strings.Contains(text, "eva"):
		need("eva")
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"sale":7}`)
	}
}

func (s *wanting) check(t *testing.T, command ...string) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	host := exec.CommandContext(t.Context(), command[0], append(command[1:], server.URL)...)
	host.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	out, err := host.CombinedOutput()
	if err != nil || string(out) != "7\ntruth-needed\nusage\n" {
		t.Errorf("%v, and it prints\n%s", err, out)
	}
	want := []string{
		`"twice" {}`, `"twice" {"truths":{"ana":"no"}}`, `"twice" {"truths":{"ana":"no","eva":"yes"}}`,
		`"repeated" {}`, `"repeated" {"truths":{"ana":"no"}}`,
		`"never" {}`,
	}
	if !slices.Equal(s.all, want) {
		t.Errorf("the server got\n%s", strings.Join(s.all, "\n"))
	}
}

// A concurrent request can make more true values necessary. A client sends them, until the server
// requests a value that it already got. A request without a route is sent once.
func TestClients_TruthNeeded_SendOnlyNeededValues(t *testing.T) {
	t.Run("python", func(t *testing.T) {
		new(wanting).check(t, testenv.Command(t, "python3"), "-c", askThree("python"))
	})
	t.Run("typescript", func(t *testing.T) {
		build := typeScript(t)
		new(wanting).check(t, testenv.Command(t, "node"), "--input-type=module", "-e", askThree("typescript"), filepath.Join(build, "sluice.js"))
	})
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
