package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// The golden files of questions with a mechanism; see golden_test.go.

// tellOfMechanisms writes the same small ledger whenever it is called, with responses to questions with a mechanism in
// every way in which they come about.
func tellOfMechanisms(t testing.TB, s kv.Store) {
	t.Helper()
	begin(t, s)
	clock := newClock(epoch())
	l := openMemory(t, s, Options{Now: clock.read})
	l.engine.Chances.Outputs, l.engine.Salts = steadyOutputs(1), steadySalts(2)
	guests(t, l, "ann", "bob")
	define(t, l, fixture.Odds(t))
	enroll(t, l, "odds", "9", "ann")
	carryOut(t, l, partiesOf(t, "1", "1"))
	sell(t, l, partiesFor(t, "2", "acme", "2", "ann"))
	release(t, l, partyOf(t, "3", "bob", "0.5"))
	release(t, l, partyOf(t, "4", "bob", "2"))
	sell(t, l, partiesFor(t, "5", "zeta", "1", "bob"))
	release(t, l, api.ReleaseRequest{Key: "6", Question: "odds", Object: "ann", Epsilon: eps(t, "1.609437913"), Truth: sameTruth("yes")})
	release(t, l, api.ReleaseRequest{Key: "7", Question: "odds", Object: "ann", Epsilon: eps(t, threeToOne), Truth: sameTruth("yes")})
}

func TestGoldenMechanisms(t *testing.T) {
	memory := &kv.Memory{}
	tellOfMechanisms(t, memory)
	golden(t, "finite-v7.txt", dump(t, memory))
	auditStore(t, memory)
}

// A ledger that was written when the golden file was is still read, and means what it meant.
func TestGoldenMechanismsAreRead(t *testing.T) {
	content := check.Value(os.ReadFile(filepath.Join("testdata", "golden", "finite-v7.txt")))(t)
	var records []pair
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var p pair
		must(t, check.Err(fmt.Sscanf(line, "%s %x %x", &p.bucket, &p.key, &p.value)))
		records = append(records, p)
	}
	l := openMemory(t, fill(t, records), Options{Now: epoch})
	all := questionsOf(t, l)
	for i, want := range []api.Question{finiteParty(t), fixture.Odds(t)} {
		want.Encoding = "finite"
		if got := all[i]; got.Name != want.Name || string(text(t, got)) != string(text(t, want)) {
			t.Errorf("question %d is %s, want %s", i+1, text(t, got), text(t, want))
		}
	}
	got := allResponses(t, l, []string{"ann", "bob"})
	want := map[string]string{
		"party ann 1": "C", "party ann 2": "C", "party bob 0.5": "AC", "party bob 1": "C", "party bob 2": "B",
		"odds ann 1.098612289": "Y", "odds ann 1.609437913": "Y2",
	}
	check.That(t, reflect.DeepEqual(got, want), "the responses are %v", got)
	r := partyOf(t, "8", "ann", "1")
	r.Truth = never(t)
	if got := release(t, l, r); got.Value != want["party ann 1"] {
		t.Errorf("%+v", got)
	}
	r = partyOf(t, "9", "ann", "0.5")
	r.Truth = never(t)
	release(t, l, r)
	auditStore(t, l.engine.Store)
	wantClean(t, l, api.VerifyRequest{})
}
