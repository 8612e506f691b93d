package ledger

import (
	"fmt"
	"os"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// With no memory to speak of every commit is followed by a checkpoint, beside what comes next.
func TestALedgerWithHardlyAnyMemory(t *testing.T) {
	names := crowd(300)
	path := votersFile(t, "9", names...)
	l := open(t, path, Options{Memory: 1})
	for round := range 3 {
		for i, name := range names {
			release(t, l, releaseOf(t, fmt.Sprint(round, " ", i), name, fmt.Sprint(1+round)))
		}
	}
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
	_, err := os.Stat(path + ".journal")
	check.That(t, os.IsNotExist(err), "the journal is left: %v", err)
	l = open(t, path, Options{})
	wantClean(t, l, api.VerifyRequest{})
	o := objectOf(t, l, names[7])
	check.That(t, o.Spent == eps(t, "3") && len(o.Chains[0].Levels) == 3, "there is %+v", o)
}
