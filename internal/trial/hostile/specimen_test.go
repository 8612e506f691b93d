package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// The specimen is a ledger with everything in it, large enough that its buckets have branch pages.

const (
	origin  = "sluice-hostile"
	vote    = "vote"
	home    = "home"
	party   = "party"
	members = 400
)

// opening is later than the creation of any file of the tests.
func opening() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

func tenths(n int) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(int64(n) * 100_000_000)
	if err != nil {
		panic(err) // a constant of the tests
	}
	return e
}

// people returns the names of those with numbers in a range.
func people(from, to int) (names []string) {
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprintf("person %05d", i))
	}
	return names
}

func valuesOf(question string) []string {
	switch question {
	case home:
		return []string{"north", "south", "east", "west", "abroad"}
	case party:
		return []string{"A", "B", "C", "D"}
	}
	return []string{"yes", "no"}
}

// truths are the host's.
func truths(_ context.Context, question string, objects []string) (values []string, err error) {
	for _, name := range objects {
		values = append(values, valuesOf(question)[int(name[len(name)-1])%len(valuesOf(question))])
	}
	return values, nil
}

// keys are those by which the log is signed. They depend on nothing, so that each process has them.
func keys() (note.Signer, note.Verifiers, string, error) {
	secret, public, err := note.GenerateKey(bytes.NewReader(make([]byte, 64)), origin)
	if err != nil {
		return nil, nil, "", err
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		return nil, nil, "", err
	}
	verifier, err := note.NewVerifier(public)
	return signer, note.VerifierList(verifier), public, err
}

func open(path string, readOnly bool) (*ledger.Ledger, error) {
	signer, _, _, err := keys()
	if err != nil {
		return nil, err
	}
	return ledger.Open(context.Background(), path, ledger.Options{ReadOnly: readOnly, Signer: signer, Now: opening, ClockAhead: opening()})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// questions are of each encoding.
func questions(t testing.TB) []api.Question {
	t.Helper()
	design, err := finite.SubsetSelection(4, 2)
	must(t, err)
	family, err := design.Family(tenths(5), tenths(10))
	must(t, err)
	return []api.Question{
		{Name: vote, Values: valuesOf(vote)},
		{Name: home, Values: valuesOf(home), Encoding: api.Unary},
		{Name: party, Values: valuesOf(party), Mechanism: &api.Mechanism{Family: family}},
	}
}

// specimen makes the file, and a checkpoint of its log.
func specimen(t testing.TB) (file, checkpoint []byte) {
	t.Helper()
	path, ctx := filepath.Join(t.TempDir(), "ledger.db"), t.Context()
	_, _, public, err := keys()
	must(t, err)
	must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{Currency: "EUR", LogKey: public}))
	l, err := open(path, false)
	must(t, err)
	terms, err := policy.Market{Max: tenths(20), Prices: []policy.Price{{Epsilon: tenths(20), Amount: 200}}}.Policy()
	must(t, err)
	for i, q := range questions(t) {
		must(t, l.DefineQuestion(ctx, fmt.Sprint("define ", i), q))
		_, err := l.Enroll(ctx, api.EnrollRequest{Key: fmt.Sprint("enroll ", i), Question: q.Name, Objects: people(0, members), Policy: terms, Cap: tenths(90)})
		must(t, err)
		trade(ctx, t, l, i, q.Name)
	}
	leave(ctx, t, l)
	must(t, l.Compact(ctx, nil))
	// What is written now leaves free pages behind, here and there.
	for i := range 12 {
		_, err := l.Release(ctx, api.ReleaseRequest{Key: fmt.Sprint("late ", i), Question: vote, Object: people(300, 400)[7*i], Epsilon: tenths(13), Truth: truths})
		must(t, err)
	}
	checkpoint, err = l.Checkpoint(ctx)
	must(t, errors.Join(err, l.Close()))
	file, err = os.ReadFile(path)
	must(t, err)
	return file, checkpoint
}

// trade lets buyers buy, reserve and ask.
func trade(ctx context.Context, t testing.TB, l *ledger.Ledger, i int, question string) {
	t.Helper()
	key := func(what string) string { return fmt.Sprintf("%s of %s", what, question) }
	order := func(buyer string, epsilon, from, to int) api.Order {
		return api.Order{Buyer: buyer, Question: question, Epsilon: tenths(epsilon), Objects: people(from, to)}
	}
	for n, o := range []api.Order{order("acme", 5, 0, 250), order("zeta", 10, 100, 400), order("acme", 5, 200, 300)} {
		_, err := l.Sell(ctx, api.SellRequest{Key: key(fmt.Sprint("sale ", n)), Order: o, Truth: truths})
		must(t, err)
	}
	kept, err := l.Reserve(ctx, api.ReserveRequest{Key: key("kept"), Order: order("hooli", 10, 10, 20), For: time.Hour})
	must(t, err)
	_, err = l.Capture(ctx, api.CaptureRequest{Key: key("commit"), Reservation: kept.Number, Truth: truths})
	must(t, err)
	given, err := l.Reserve(ctx, api.ReserveRequest{Key: key("given up"), Order: order("hooli", 10, 20, 30), For: time.Hour})
	must(t, err)
	must(t, l.Cancel(ctx, key("cancel"), given.Number))
	_, err = l.Reserve(ctx, api.ReserveRequest{Key: key("held"), Order: order("hooli", 10, 30, 60), For: time.Hour})
	must(t, err)
	for n := range 3 {
		_, err = l.Answer(ctx, api.AnswerRequest{Key: key(fmt.Sprint("answer ", n)), Question: question, Query: "majority:" + valuesOf(question)[0], Epsilon: tenths(2 + i + n), Objects: people(0, 30), AcceptLoss: true, Truth: truths})
		must(t, err)
	}
	_, err = l.Raise(ctx, api.RaiseRequest{Key: key("raise"), Question: question, Epsilon: tenths(10), Objects: people(0, 80), Truth: truths})
	must(t, err)
}

// leave lets some go, and some be forgotten.
func leave(ctx context.Context, t testing.TB, l *ledger.Ledger) {
	t.Helper()
	for i, name := range people(80, 90) {
		must(t, l.Withdraw(ctx, "leave "+name, name))
		_, err := l.Statement(ctx, "state "+name, name)
		must(t, err)
		if i%2 == 0 {
			must(t, l.Forget(ctx, "forget "+name, name))
		}
	}
}
