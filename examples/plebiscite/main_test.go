package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// With a noise key the estimates do not vary from run to run, and the output is exactly
// testdata/printed.txt.
func TestRun_NoiseKey_PrintsTheGoldenText(t *testing.T) {
	want, err := os.ReadFile("testdata/printed.txt")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "panel.db")
	if err := run(&out, file, ledger.Options{NoiseKey: noise()}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("it prints\n%s", out.String())
	}
	allHaveSpent(t, file, privacy.MustEpsilon("2"))
}

func noise() api.NoiseKeys {
	return api.NoiseKeys{Current: "test", Key: func(string) ([]byte, error) { return bytes.Repeat([]byte{7}, 32), nil }}
}

// allHaveSpent checks all people. The program prints only one, because all are alike.
func allHaveSpent(t *testing.T, file string, want privacy.Epsilon) {
	t.Helper()
	l, err := ledger.Open(t.Context(), file, ledger.Options{ReadOnly: true, NoiseKey: noise()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	chile, err := kit.ReadSurvey("testdata/chile_plebiscite_1988.csv")
	if err != nil || len(chile.People) != 2532 {
		t.Fatalf("%d people: %v", len(chile.People), err)
	}
	for _, person := range chile.People {
		if state, err := l.Object(t.Context(), person); err != nil || state.Spent != want {
			t.Fatalf("person %s has spent %s: %v", person, state.Spent, err)
		}
	}
}

func TestRun_MissingData_ErrorSaysWhereToRun(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := run(new(bytes.Buffer), "panel.db", ledger.Options{}); err == nil || !strings.Contains(err.Error(), "top of the repository") {
		t.Errorf("error %v", err)
	}
}
