package main

import (
	"context"
	"testing"

	"github.com/sluicedp/sluice/privacy"
)

// A small ledger is in its journal alone until a checkpoint is made, so that its file is all but
// empty. Its records take more than 600 bytes an object, however few there are.
func TestSize_FewObjects_CountsWhatIsInTheJournal(t *testing.T) {
	const objects, least = 500, 600
	for name, open := range map[string]func(context.Context, string) (contestant, error){
		"Sluice":        openSluice,
		"SQLite, in C":  sqliteEngine("", "sqlite3", "").open,
		"SQLite, in Go": sqliteEngine("", "sqlite", "").open,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := open(t.Context(), t.TempDir())
			must(t, err)
			defer func() { must(t, c.close()) }()
			must(t, c.enroll(t.Context(), namesOf(objects), privacy.MaxEpsilon(), eps(t, "500")))
			for _, epsilon := range []string{"0.1", "0.2", "0.3"} {
				must(t, c.raise(t.Context(), epsilon, eps(t, epsilon)))
			}
			written, compact, err := c.size(t.Context())
			must(t, err)
			if written < compact || compact < least*objects {
				t.Errorf("%d bytes as written, %d compacted; want at least %d of both", written, compact, least*objects)
			}
			t.Logf("%.0f bytes an object, %.0f compacted", float64(written)/objects, float64(compact)/objects)
		})
	}
}
