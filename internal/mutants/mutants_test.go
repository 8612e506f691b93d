package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// sample is a variable of the environment that selects entries: "24:1234" selects at most 24,
// spread over the list. The number after the colon says where they begin.
const sample = "SLUICE_MUTANTS"

// atOnce is the number of mutants that are tried at the same time.
const atOnce = 2

// chosen returns a function that returns whether an entry is to be tried: all in the long form,
// else the sample that the environment names. It returns nil for none, as under the race detector,
// which finds nothing here.
func chosen(entries int) (func(i int) bool, error) {
	asked := os.Getenv(sample)
	switch {
	case testenv.Short() || asked == "" && !testenv.Long():
		return nil, nil
	case asked == "":
		return func(int) bool { return true }, nil
	}
	most, begin, _ := strings.Cut(asked, ":")
	n, err := strconv.Atoi(most)
	first, err2 := strconv.Atoi(begin)
	if err = errors.Join(err, err2); err != nil || n < 1 || first < 0 {
		return nil, fmt.Errorf("%s=%q: not a sample such as 24:1234 (number:first)", sample, asked)
	}
	step := (entries + n - 1) / n
	return func(i int) bool { return i%step == first%step }, nil
}

func TestMutants_NoneSurvives(t *testing.T) {
	all := mutants(t)
	isChosen := check.Value(chosen(len(all)))(t)
	if isChosen == nil {
		t.Skipf("skipped: it compiles a program for each mutant. SLUICE_LONG=1 tries all of them, %s=24:0 a sample", sample)
	}
	places := make(chan struct{}, atOnce)
	for i, m := range all {
		if !isChosen(i) {
			continue
		}
		t.Run(m.title(), func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			err := try(t, m)
			check.That(t, err == nil, "%s: %v", m.at, err)
		})
	}
}

// try makes a fault in a copy that only the compiler sees. It returns nil if its test fails.
func try(t *testing.T, m mutant) error {
	t.Helper()
	file, content, err := code{}.apply(m)
	if err != nil {
		return err
	}
	overlay, err := overlaid(t.TempDir(), map[string]string{file: content})
	if err != nil {
		return err
	}
	limit := "300s"
	if m.hangs {
		limit = "20s"
	}
	out, err := run(t, overlay, m.pkg, m.test, limit)
	if verdict := judge(m, out, err); verdict != "" {
		return fmt.Errorf("%s\n%s", verdict, last(out, 3000))
	}
	return nil
}

// run runs a test with an overlay and a time limit.
func run(t *testing.T, overlay, pkg, test, limit string) (out string, err error) {
	dir := root
	if inLab, is := strings.CutPrefix(pkg, "lab/"); is { // a module of its own
		dir, pkg = filepath.Join(root, "lab"), inLab
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-overlay", overlay, "-timeout", limit,
		"-run", exactly(test), "./"+pkg)
	cmd.Dir, cmd.Env = dir, quick()
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// overlaid writes the contents of files, and the overlay list for the go command. It returns the
// path of the list.
func overlaid(dir string, files map[string]string) (list string, err error) {
	replace := map[string]string{}
	for file, content := range files {
		original, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		replace[original] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(replace[original], []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, text, 0o600)
}

// exactly returns the pattern for -run that matches one test or one subtest.
func exactly(test string) string {
	return "^" + strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^") + "$"
}

// quick returns an environment in which tests run in their quick form, and skip what the machine
// cannot do. A test that fails for another reason than the mutant catches nothing.
func quick() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "SLUICE_") })
}

// judge returns why a mutant does not count as caught, or "". The test itself must fail: a mutant
// that does not compile, or that only a time limit ends, shows nothing.
func judge(m mutant, out string, err error) string {
	var ended *exec.ExitError
	timedOut := strings.Contains(out, "panic: test timed out after")
	switch {
	case err == nil:
		return "SURVIVES: the test passes, or does not exist"
	case !errors.As(err, &ended):
		return "cannot be tried: " + err.Error()
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return "does not compile"
	case timedOut != m.hangs:
		return map[bool]string{true: "hangs", false: "does not hang"}[timedOut]
	case !timedOut && !failed(m.test, out):
		return "something other than the test fails"
	}
	return ""
}

// failed returns whether the output of a run reports that a test failed.
func failed(test, out string) bool {
	return regexp.MustCompile(`(?m)^\s*--- FAIL: ` + regexp.QuoteMeta(test) + ` \(`).MatchString(out)
}

// last returns the last n bytes of a text.
func last(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return "… " + strings.ToValidUTF8(text[len(text)-n:], "")
}

// A mutant counts as caught only if the test itself fails.
func TestJudge_OnlyAFailureOfTheTest_Counts(t *testing.T) {
	ended := &exec.ExitError{}
	for _, c := range []struct {
		out, want string
		hangs     bool
		err       error
	}{
		{"--- FAIL: TestX (0.00s)\nFAIL\n", "", false, ended},
		{"--- FAIL: TestX (0.00s)\npanic: index out of range\nFAIL\n", "", false, ended},
		{"ok\n", "SURVIVES", false, nil},
		{"ok\n", "SURVIVES", true, nil},
		{"--- FAIL: TestXY (0.00s)\nFAIL\n", "something other", false, ended},
		{"panic: elsewhere\n", "something other", false, ended},
		{"x.go:1: undefined\nFAIL\tx [build failed]\n", "does not compile", false, ended},
		{"panic: test timed out after 20s\n", "hangs", false, ended},
		{"panic: test timed out after 20s\n", "", true, ended},
		{"--- FAIL: TestX (0.00s)\nFAIL\n", "does not hang", true, ended},
		{"", "cannot be tried", false, os.ErrNotExist},
	} {
		if got := judge(mutant{test: "TestX", hangs: c.hangs}, c.out, c.err); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("output %q: judged %q, want %q", c.out, got, c.want)
		}
	}
	check.That(t, failed("TestX/a", "--- FAIL: TestX (0.00s)\n    --- FAIL: TestX/a (0.00s)\n"), "failed does not find the failure of a subtest")
}

// A sample is spread over the list and begins at its number.
func TestChosen_Sample_IsSpreadOverTheList(t *testing.T) {
	if testenv.Short() {
		t.Skip("no mutant is tried with -short and under the race detector")
	}
	for asked, want := range map[string]string{"7:0": "1111111", "9:5": "1111111", "3:0": "1001001", "3:4": "0100100", "1:13": "0000001", "": "none"} {
		t.Setenv(sample, asked)
		t.Setenv("SLUICE_LONG", "")
		isChosen, err := chosen(7)
		got := ""
		for i := range 7 {
			if isChosen == nil {
				got = "none"
				break
			}
			got += map[bool]string{true: "1", false: "0"}[isChosen(i)]
		}
		check.That(t, err == nil && got == want, "sample %q chooses %s (%v), want %s", asked, got, err, want)
	}
	for _, asked := range []string{"3", "0:1", "3:-1", "x:1", ":", "3:x"} {
		t.Setenv(sample, asked)
		check.That(t, check.Err(chosen(7)) != nil, "sample %q is accepted", asked)
	}
}
