package hostile

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// start is later than the creation of any file of the tests.
func start() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

// offer sells up to ε = 2, and releases 0.1 an hour from the start by itself.
func offer(t testing.TB) (sale, calendar policy.Policy) {
	t.Helper()
	sale, err := policy.Market{Max: tenths(20), Prices: []policy.Price{{Epsilon: tenths(5), Amount: 35}, {Epsilon: tenths(20), Amount: 140}}}.Policy()
	must(t, err)
	calendar, err = policy.Linear(tenths(1), tenths(20), start(), start().Add(19*time.Hour), tenths(1))
	must(t, err)
	return sale, calendar
}

// signer is a key of the tests.
func signer(t testing.TB) (key note.Signer, verifier string) {
	t.Helper()
	private, verifier, err := note.GenerateKey(nil, "limits.example")
	must(t, err)
	key, err = note.NewSigner(private)
	must(t, err)
	return key, verifier
}

// market makes a ledger with the question "vote", in which some objects are for sale.
func market(t testing.TB, objects ...string) (l *ledger.Ledger, path string) {
	t.Helper()
	key, verifier := signer(t)
	path = filepath.Join(pace.Scratch(t), "ledger.db")
	must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{Currency: "USD", LogKey: verifier}))
	l, err := ledger.Open(t.Context(), path, ledger.Options{Signer: key, Now: func() time.Time { return start().Add(time.Hour) }, ClockAhead: start().AddDate(1, 0, 0)})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	must(t, l.DefineQuestion(t.Context(), "vote", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	sale, _ := offer(t)
	if len(objects) > 0 {
		_, err = l.Enroll(t.Context(), api.EnrollRequest{Key: "enroll", Question: "vote", Objects: objects, Policy: sale, Cap: boundless()})
		must(t, err)
	}
	return l, path
}

// wantClean has the ledger audited.
func wantClean(t testing.TB, l *ledger.Ledger) {
	t.Helper()
	found, err := l.Verify(context.Background(), api.VerifyRequest{Report: func(p api.Finding) { t.Errorf("audit: %+v", p) }})
	if err != nil || found.Problems != 0 {
		t.Errorf("audit: %d problems, %v", found.Problems, err)
	}
}

func events(t testing.TB, l *ledger.Ledger) uint64 {
	t.Helper()
	s, err := l.Stats(context.Background())
	must(t, err)
	return s.Events
}

// allocated is how many bytes are allocated while something is done. Nothing else may run meanwhile.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// boundless is the cap of those whom only a policy bounds, or nothing.
func boundless() privacy.Epsilon { return privacy.MaxEpsilon() }

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// sameTruth is a source with one value for all objects.
func sameTruth(value string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{value}, len(objects)), nil
	}
}
