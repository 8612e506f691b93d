package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// A month is released at once in one ledger, daily in another, and with gaps, repetitions and jumps
// back in a third. All ledgers end with the same levels.
func TestAdvance_OnceDailyOrWithGaps_ReleasesSameLevels(t *testing.T) {
	const policy = `{"kind":"linear","from":"0.1","to":"1.05","start":"2101-01-01T00:00:00Z","end":"2101-02-01T00:00:00Z","stride":"0.05"}`
	start := time.Date(2101, 1, 1, 12, 0, 0, 0, time.UTC)
	var daily []int
	for day := range 31 {
		daily = append(daily, day)
	}
	var first string
	for _, days := range [][]int{{30}, daily, {3, 1, 3, 17, 16, 29, 0, 30, 30}} {
		db, people := newLedger(t, 4, policy)
		for _, day := range days {
			at := start.AddDate(0, 0, day).Format(time.RFC3339)
			code, _, stderr := invoke(t, "--db", db, "--quiet", "--clock-ahead", at, "advance", "--truth", people, "--at", at)
			check.Need(t, code == 0 && stderr == "", "%s: exit code %d, stderr %q", at, code, stderr)
		}
		got := ""
		for object := 1; object <= 4; object++ {
			got += epsilons(t, mustInvoke(t, "--db", db, "show", fmt.Sprint(object), "--json")) + "\n"
		}
		if first == "" {
			first = got
		}
		check.That(t, got == first, "days %v: levels\n%s, at once\n%s", days, got, first)
	}
	if want := "[0.1 0.15 0.2 "; !bytes.HasPrefix([]byte(first), []byte(want)) || !bytes.Contains([]byte(first), []byte(" 1]")) {
		t.Errorf("levels %s, want %s…", first, want)
	}
}

// epsilons returns the ε of the levels that "show --json" printed.
func epsilons(t *testing.T, text string) string {
	t.Helper()
	var shown struct {
		Chains []struct {
			Levels []struct{ Epsilon string }
		}
	}
	if err := json.Unmarshal([]byte(text), &shown); err != nil || len(shown.Chains) != 1 {
		t.Fatalf("%v in %s", err, text)
	}
	var all []string
	for _, level := range shown.Chains[0].Levels {
		all = append(all, level.Epsilon)
	}
	return fmt.Sprint(all)
}

// The number of unlisted refusals is printed below each question, even if no refusal is listed.
func TestTableAdvanced_UnlistedRefusals_AreUnderTheirQuestion(t *testing.T) {
	var out output.Table
	tableAdvanced(&out, []api.Advanced{
		{Question: "vote", Refused: []api.Refusal{{Object: "ann", Reason: api.NoTruth}}, Unlisted: 7},
		{Question: "wage", Unlisted: 9},
		{Question: "age", Raised: 1},
	}, "day")
	_, got, _ := strings.Cut(out.String(), "\nquestion ")
	const refusals = "vote:\n\nREFUSED  REASON    CEILING  SPENT  REMAINING  ASKED  HELPS  LARGEST\n" +
		"ann      no-truth  0        0      0          0             0\n"
	const unlisted = "… and %d that are not listed; \"ledgerctl log --refused-by day\" prints all but the forgotten\n"
	if want := refusals + fmt.Sprintf(unlisted, 7) + "\nquestion wage:\n" + fmt.Sprintf(unlisted, 9); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
