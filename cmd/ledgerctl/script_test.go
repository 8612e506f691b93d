package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ledgerctl":  func() { os.Exit(runHere(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"exits":      exits,
		"onterminal": onTerminal,
		"onscreen":   onScreen,
	})
}

// exits runs a command line and succeeds if it ends with the given exit code: "exits 3 ledgerctl
// …". A panic, whose code would be that of wrong usage, is a failure. With "exits 3 withfull
// ledgerctl …", standard output is a full disk.
func exits() {
	want, args, stdout, err := expected(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if got := runHere(args, os.Stdin, stdout, os.Stderr); got != want {
		fmt.Fprintf(os.Stderr, "exit code %d, want %d\n", got, want)
		os.Exit(1)
	}
}

// expected parses the arguments of "exits".
func expected(words []string, stdout io.Writer) (code int, args []string, out io.Writer, err error) {
	if len(words) > 1 && words[1] == "withfull" {
		if stdout, err = os.OpenFile("/dev/full", os.O_WRONLY, 0); err != nil {
			return 0, nil, nil, err
		}
		words = slices.Delete(slices.Clone(words), 1, 2)
	}
	if len(words) < 2 || words[1] != "ledgerctl" {
		return 0, nil, nil, fmt.Errorf("usage: exits CODE [withfull] ledgerctl ARGS")
	}
	code, err = strconv.Atoi(words[0])
	return code, words[2:], stdout, err
}

// onTerminal runs a command line whose stderr is the terminal that ttyin set up.
func onTerminal() {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := run(os.Args[2:], os.Stdin, os.Stdout, tty)
	time.Sleep(100 * time.Millisecond) // testscript must read what is on the terminal before it is gone
	os.Exit(code)
}

// onScreen runs a command line whose standard output is the terminal that ttyin set up, with some
// lines: "onscreen 24 ledgerctl …".
func onScreen() {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err == nil {
		size := exec.Command("stty", "rows", os.Args[1], "cols", "80")
		size.Stdin = tty
		err = size.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := run(os.Args[3:], os.Stdin, tty, os.Stderr)
	time.Sleep(100 * time.Millisecond) // testscript must read what is on the terminal before it is gone
	os.Exit(code)
}

// quickExit keeps the race detector from waiting for a second at the end of every process.
const quickExit = "atexit_sleep_ms=10"

func TestScripts_LocalFile_Succeed(t *testing.T) { runScripts(t, scripts(t, "testdata/script", "")) }

// The scripts also succeed on a served ledger: each command is run with --addr on its own server.
func TestScripts_ServedLedger_Succeed(t *testing.T) {
	names := []string{"raise", "sell", "forget", "capture"}
	if testenv.Deep() {
		names = append(names, "answer", "budget", "buyers", "cancel", "completion", "displaced", "enroll", "epoch", "estimate", "finite", "flow", "ids", "log", "names", "question", "quote", "reservations", "reserve", "responses", "sales", "show", "stats", "terms", "withdraw")
	}
	dir := testenv.TempDir(t)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata/script", name+".txtar"))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".txtar"), text, 0o600)
		}
		check.Must(t, err)
	}
	runScripts(t, scripts(t, dir, "1"))
}

// scripts returns how the scripts of a directory are run: on a file or, if served is set, on a
// server.
func scripts(t *testing.T, dir, served string) testscript.Params {
	t.Helper()
	data, err := filepath.Abs("../../testdata")
	check.Must(t, err)
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		WorkdirRoot:         testenv.TempDir(t),
		Setup: func(env *testscript.Env) error {
			env.Setenv("CHILE", filepath.Join(data, "chile_plebiscite_1988.csv"))
			env.Setenv("KARATE", "--nodes="+filepath.Join(data, "karate_nodes.csv"))
			env.Setenv("KARATE_EDGES", "--edges="+filepath.Join(data, "karate_edges.csv"))
			env.Setenv("LEDGER_DB", "")
			env.Setenv(servedName, served)
			env.Setenv("GORACE", quickExit)
			env.Values["open"] = map[string]*ledger.Ledger{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"jsonkeys": jsonKeys, "marked": marked,
			"hold":    takes("hold FILE", hold),
			"letgo":   takes("letgo FILE", letGo),
			"mode":    takes("mode OCTAL FILE", mode),
			"people":  takes("people NUMBER FILE", people),
			"setfrom": takes("setfrom NAME FILE PATH", setFrom),
			"replace": takes("replace FILE OLD NEW", replace),
			"write":   takes("write FILE TEXT", write),
			"await":   takes("await FILE", await),
			"same":    takes("same PATH FILE FILE", same),
		},
	}
}

// takes returns a command of scripts with the number of arguments in its usage.
func takes(usage string, run func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != len(strings.Fields(usage))-1 {
			ts.Fatalf("usage: %s", usage)
		}
		run(ts, args)
	}
}

// hold opens a ledger in this process until letgo, so that it is in use for other processes.
func hold(ts *testscript.TestScript, args []string) {
	l, err := ledger.Open(context.Background(), ts.MkAbs(args[0]), ledger.Options{})
	ts.Check(err)
	ts.Value("open").(map[string]*ledger.Ledger)[args[0]] = l
	ts.Defer(func() { _ = l.Close() })
}

func letGo(ts *testscript.TestScript, args []string) {
	ts.Check(ts.Value("open").(map[string]*ledger.Ledger)[args[0]].Close())
}

// people writes a CSV file with the votes of a number of people: "people 100 FILE".
func people(ts *testscript.TestScript, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(votes(n)), 0o600))
}

// mode checks a file's permissions: "mode 600 FILE".
func mode(ts *testscript.TestScript, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// jsonKeys checks that a file holds one JSON object, on one line, with the given keys: "jsonkeys
// FILE PATH[=VALUE]…". A path goes through objects by name and lists by number, or by len to the
// length, or by * to a list of what every item has there; =VALUE compares a string, or the JSON
// text of anything else.
func jsonKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: jsonkeys FILE PATH[=VALUE]...")
	}
	text, object := readObject(ts, args[0])
	for _, arg := range args[1:] {
		path, want, compare := strings.Cut(arg, "=")
		got, err := lookUp(object, strings.Split(path, "."))
		if err != nil {
			ts.Fatalf("%s: %v in %s", path, err, text)
		}
		if compare && got != want {
			ts.Fatalf("%s is %s, want %s, in %s", path, got, want, text)
		}
	}
}

// setFrom sets a variable to the value at a path in a file with one JSON object: "setfrom NAME FILE
// PATH".
func setFrom(ts *testscript.TestScript, args []string) {
	text, object := readObject(ts, args[1])
	value, err := lookUp(object, strings.Split(args[2], "."))
	if err != nil {
		ts.Fatalf("%s: %v in %s", args[2], err, text)
	}
	ts.Setenv(args[0], value)
}

// replace replaces the first occurrence of a text in a file: "replace FILE OLD NEW".
func replace(ts *testscript.TestScript, args []string) {
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s does not contain %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, args[1], args[2], 1)), 0o600))
}

// await waits for a file that a command in the background creates: "await FILE".
func await(ts *testscript.TestScript, args []string) {
	for range 6000 {
		if _, err := os.Lstat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s was not created within a minute", args[0])
}

// write writes a line to a file: "write FILE TEXT".
func write(ts *testscript.TestScript, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(args[1]+"\n"), 0o600))
}

// marked puts a byte order mark before the text of files: "marked FILE…".
func marked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: marked FILE...")
	}
	for _, file := range args {
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte("\ufeff"+ts.ReadFile(file)), 0o600))
	}
}

// same checks that two files with one JSON object each agree on a path: "same PATH FILE FILE".
func same(ts *testscript.TestScript, args []string) {
	var found [2]string
	for i, file := range args[1:] {
		text, object := readObject(ts, file)
		got, err := lookUp(object, strings.Split(args[0], "."))
		if err != nil {
			ts.Fatalf("%s: %v in %s", args[0], err, text)
		}
		found[i] = got
	}
	if found[0] != found[1] {
		ts.Fatalf("%s is %s and %s", args[0], found[0], found[1])
	}
}

// readObject reads one JSON object on one line.
func readObject(ts *testscript.TestScript, file string) (text string, object map[string]any) {
	text = ts.ReadFile(file)
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("%s is not one line: %q", file, text)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	ts.Check(decoder.Decode(&object))
	if members := membersOf(ts, text); len(members) != len(object) {
		ts.Fatalf("a key is there twice: %s", text)
	}
	return text, object
}

// membersOf returns the keys of a JSON object, including repeated keys.
func membersOf(ts *testscript.TestScript, text string) (keys []json.Token) {
	decoder := json.NewDecoder(strings.NewReader(text))
	_, err := decoder.Token()
	for err == nil && decoder.More() {
		var key json.Token
		var value json.RawMessage
		if key, err = decoder.Token(); err == nil {
			keys, err = append(keys, key), decoder.Decode(&value)
		}
	}
	ts.Check(err)
	return keys
}

func lookUp(value any, path []string) (string, error) {
	for depth, step := range path {
		switch v := value.(type) {
		case map[string]any:
			next, found := v[step]
			if !found {
				return "", fmt.Errorf("no key %q", step)
			}
			value = next
		case []any:
			if step == "len" {
				value = len(v)
				continue
			}
			if step == "*" {
				return lookUpAll(v, path[depth+1:])
			}
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return "", fmt.Errorf("no item %q", step)
			}
			value = v[i]
		default:
			return "", fmt.Errorf("nothing below %q", step)
		}
	}
	if text, ok := value.(string); ok {
		return text, nil
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// lookUpAll returns the values at a path in all items of a list.
func lookUpAll(items []any, path []string) (string, error) {
	var all []string
	for _, item := range items {
		found, err := lookUp(item, path)
		if err != nil {
			return "", err
		}
		all = append(all, found)
	}
	return strings.Join(all, ","), nil
}

// Every command is used in a script with its name, or with the name of its parent.
func TestCommands_EachCommand_HasAScript(t *testing.T) {
	for name, cmd := range commands() {
		if cmd.HasSubCommands() {
			continue // it only prints its help
		}
		words := strings.Fields(name)
		found := false
		for n := range words {
			for _, dir := range []string{"script", "journal"} {
				text, err := os.ReadFile(filepath.Join("testdata", dir, strings.Join(words[:n+1], "_")+".txtar"))
				found = found || err == nil && strings.Contains(string(text), " "+name)
			}
		}
		check.That(t, found, "no script is about %q", name)
	}
}
