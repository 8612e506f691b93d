package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"lab":        func() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) },
		"exits":      exits,
		"onterminal": onTerminal,
	})
}

// exits runs a command line and succeeds if it ends with the given code: "exits 2 lab …". The code
// of a panic is that of wrong usage, so a panic ends with another one.
func exits() {
	defer func() {
		if what := recover(); what != nil {
			fmt.Fprintln(os.Stderr, "panic:", what)
			os.Exit(1)
		}
	}()
	if got := run(os.Args[3:], os.Stdout, os.Stderr); strconv.Itoa(got) != os.Args[1] {
		fmt.Fprintf(os.Stderr, "exit code %d, want %s\n", got, os.Args[1])
		os.Exit(1)
	}
}

// onTerminal runs a command line whose standard error is the terminal that ttyin has set up.
func onTerminal() {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := run(os.Args[2:], os.Stdout, tty)
	time.Sleep(100 * time.Millisecond) // testscript reads the terminal before it is gone
	os.Exit(code)
}

func TestLab_Scripts_Succeed(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"jsonkeys": jsonKeys},
	})
}

// jsonKeys checks that a file holds one JSON object, on one line, with the given keys: "jsonkeys
// FILE PATH[=VALUE]…". A path goes through objects by name and lists by number, or by len to the
// length; =VALUE compares a string, or the JSON text of anything else.
func jsonKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: jsonkeys FILE PATH[=VALUE]...")
	}
	text := ts.ReadFile(args[0])
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("%s is not one line: %q", args[0], text)
	}
	var object any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	ts.Check(decoder.Decode(&object))
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

func lookUp(value any, path []string) (string, error) {
	for _, step := range path {
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

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestRun_CannotPrint_IsAnError(t *testing.T) {
	for _, line := range []string{
		"kernel --m 2 --from 0 --to 1", "kernel --m 2 --from 0 --to 1 --json", "mechanism line --alpha 0.5 --epsilon 1 --n 3",
		"mechanism rainbow --boundary 0.5,0.5 --epsilon 1 --n 3", "simulate binary --runs 2",
	} {
		var stderr bytes.Buffer
		code := run(strings.Fields(line), brokenWriter{}, &stderr)
		if code != unexpected || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%q: exit code %d, standard error %q", line, code, &stderr)
		}
	}
	if code := run([]string{"bogus"}, &bytes.Buffer{}, brokenWriter{}); code != misuse {
		t.Errorf("standard error is broken: exit code %d", code)
	}
}

func TestNumber_HasAllDigits(t *testing.T) {
	text, err := json.Marshal([]number{0.1, 1, number(1) / 3})
	if want := "[0.10000000000000001,1,0.33333333333333331]"; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}
