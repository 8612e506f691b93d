package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
)

// The answers vary from run to run. The rest of the output does not.
func TestRun_Survey_PrintsAnswersAndBudgets(t *testing.T) {
	t.Chdir("../..")
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "panel.db")
	if err := run(t.Context(), &out, file); err != nil {
		t.Fatal(err)
	}
	cells := func(sure ...string) string {
		return `( +(no|yes|undecided|abstain)( ✗)? +` + strings.Join(sure, ` %)( +(no|yes|undecided|abstain)( ✗)? +`) + ` %)\n`
	}
	for _, want := range []string{
		`region +people +commonest +changes +ε = 0\.05 +sure +ε = 0\.2 +sure +ε = 1 +sure\n`,
		`Metropolitan area +81 +yes +8` + cells("37", "79", ">99"),
		`North +313 +yes +17` + cells("57", "96", ">99"),
		`Central +569 +no +19` + cells("61", "98", ">99"),
		`South +679 +yes +31` + cells("79", ">99", ">99"),
		`City of Santiago +890 +no +50` + cells("92", ">99", ">99"),
		`ALL REGIONS +2532 +no +11` + cells("43", "88", ">99"),
		`for Pinochet\? At ε = 0\.05 the answer is "(yes|no)"\.\n`,
		`each has spent ε = 2\.55\. Asked again at\nε = 0\.2, all people say "\w+", as before, and that costs ε = 0\.\n`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	whole := regexp.MustCompile(`ALL REGIONS .* 43 % +(\w+)(?: ✗)? +88 %`).FindStringSubmatch(out.String())
	if again := regexp.MustCompile(`all people say "(\w+)"`).FindStringSubmatch(out.String()); whole == nil || again == nil || whole[1] != again[1] {
		t.Errorf("asked again, the answer is another:\n%s", out.String())
	}
	allHaveSpent(t, file, privacy.MustEpsilon("2.55"))
}

// allHaveSpent checks all people. The program prints only one, because all are alike.
func allHaveSpent(t *testing.T, file string, want privacy.Epsilon) {
	t.Helper()
	chile, err := kit.ReadSurvey("testdata/chile_plebiscite_1988.csv")
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(t.Context(), file, ledger.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, person := range chile.People {
		if state, err := l.Object(t.Context(), person); err != nil || state.Spent != want {
			t.Fatalf("person %s has spent %s: %v", person, state.Spent, err)
		}
	}
}

func TestRun_MissingData_ErrorSaysWhereToRun(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := run(t.Context(), new(bytes.Buffer), "panel.db"); err == nil || !strings.Contains(err.Error(), "top of the repository") {
		t.Errorf("error %v", err)
	}
}
