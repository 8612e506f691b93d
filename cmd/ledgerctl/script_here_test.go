package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// In the deep form of the tests, each command line of a script has its own process. In the quick
// form most run in the process of the test, because starting a process takes longer than the
// command.

// runScripts runs scripts in the deep or the quick form.
func runScripts(t *testing.T, p testscript.Params) {
	t.Helper()
	if testenv.Deep() {
		testscript.Run(t, p)
		return
	}
	p.Dir = withoutProcesses(t, p.Dir)
	p.Cmds["here"] = here
	testscript.RunT(oneByOne{t}, p)
}

// oneByOne runs scripts sequentially, because a process has only one working directory.
type oneByOne struct{ *testing.T }

func (t oneByOne) Parallel() {}

func (t oneByOne) Verbose() bool { return testing.Verbose() }

func (t oneByOne) Run(name string, do func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { do(oneByOne{t}) })
}

var (
	// execs matches a line of a script that starts a process.
	execs = regexp.MustCompile(`(?m)^((?:\[\w+\] )?)exec ((?:exits \d|ledgerctl) .*)$`)
	// needsProcess matches a command line that reads standard input or runs in the background.
	needsProcess = regexp.MustCompile(` - | -$|&$`)
)

// withoutProcesses copies scripts to another directory, and replaces "exec" by "here" where no
// process is needed.
func withoutProcesses(t *testing.T, dir string) string {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	check.Must(t, err)
	changed := testenv.TempDir(t)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		check.Must(t, err)
		text = execs.ReplaceAllFunc(text, func(line []byte) []byte {
			if needsProcess.Match(line) {
				return line
			}
			return execs.ReplaceAll(line, []byte("${1}here $2"))
		})
		check.Must(t, os.WriteFile(filepath.Join(changed, filepath.Base(script)), text, 0o600))
	}
	return changed
}

// here runs "ledgerctl" or "exits" in this process, in the directory of the script and with its
// environment.
func here(ts *testscript.TestScript, neg bool, words []string) {
	if neg || len(words) == 0 {
		ts.Fatalf("usage: here exits CODE ledgerctl ARGS, or here ledgerctl ARGS")
	}
	if words[0] == "ledgerctl" {
		words = append([]string{"exits", "0"}, words...)
	}
	want, args, stdout, err := expected(words[1:], ts.Stdout())
	ts.Check(err)
	folder, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer func() { ts.Check(os.Chdir(folder)) }()
	for _, name := range []string{"LEDGER_DB", "LEDGER_CHECKPOINT", "LEDGER_LOG_KEY", "LEDGER_ADDR", "LEDGER_TOKEN", "TMPDIR", servedName} {
		before := os.Getenv(name)
		ts.Check(os.Setenv(name, ts.Getenv(name)))
		defer func() { ts.Check(os.Setenv(name, before)) }()
	}
	if got := runHere(args, strings.NewReader(""), stdout, ts.Stderr()); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
