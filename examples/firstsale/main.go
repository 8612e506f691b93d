// Firstsale sells the answers of three people to a buyer who returns for a higher ε, and to a
// second buyer, without true values. It verifies a receipt without the ledger.
// Run it by: go run ./examples/firstsale
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "firstsale:", err)
		os.Exit(1)
	}
}

// run creates a ledger whose log is signed by a new key, and sells through it.
func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "firstsale")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	secret, public, err := note.GenerateKey(rand.Reader, "market.example")
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "market.db")
	if err := ledger.Create(ctx, file, ledger.CreateOptions{Currency: "USD", LogKey: public}); err != nil {
		return err
	}
	l, err := ledger.Open(ctx, file, ledger.Options{Signer: signer})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := enrol(ctx, l); err != nil {
		return err
	}
	for _, order := range [][2]string{{"acme", "0.5"}, {"acme", "1"}, {"zeta", "0.7"}, {"acme", "2"}} {
		if err := sell(ctx, out, l, order[0], order[1]); err != nil {
			return err
		}
	}
	return prove(ctx, out, l, public)
}

// enrol enrols three people, each with their own terms of sale. Prices are in cents. The key does
// not contain a name, because keys are kept even after a person is forgotten.
func enrol(ctx context.Context, l *ledger.Ledger) error {
	smoker := api.Question{Name: "smoker", Values: []string{"yes", "no"}}
	if err := l.DefineQuestion(ctx, "define", smoker); err != nil {
		return err
	}
	people, terms := []string{"ana", "eva", "leo"}, map[string]policy.Policy{}
	for i, text := range []string{
		`{"kind": "market", "max": "2", "price": [["0.5", 100], ["1", 180], ["2", 300]]}`,
		`{"kind": "market", "max": "2", "price": [["1", 100], ["2", 200]]}`,
		`{"kind": "market", "max": "1", "price": [["1", 150]]}`,
	} {
		p, err := policy.Parse([]byte(text))
		if err != nil {
			return err
		}
		terms[people[i]] = p
	}
	_, err := l.Enroll(ctx, api.EnrollRequest{
		Key: "enrol", Question: "smoker", Objects: people,
		Terms: func(person string) (policy.Policy, privacy.Epsilon) { return terms[person], privacy.MustEpsilon("3") },
	})
	return err
}

// truth returns true values of the host. The ledger requests them for a draw, and forgets them.
func truth(_ context.Context, _ string, people []string) (values []string, err error) {
	for _, person := range people {
		values = append(values, map[string]string{"ana": "no", "eva": "yes", "leo": "no"}[person])
	}
	return values, nil
}

// sell requests a quote, and sells at exactly that price or not at all.
func sell(ctx context.Context, out io.Writer, l *ledger.Ledger, buyer, at string) error {
	order := api.Order{Buyer: buyer, Question: "smoker", Epsilon: privacy.MustEpsilon(at), All: true}
	quote, err := l.Quote(ctx, order)
	if err != nil {
		return err
	}
	sale, err := l.Sell(ctx, api.SellRequest{
		Key: "order of " + buyer + " at " + at, Order: order, QuoteID: quote.ID, Truth: truth,
	})
	if refused := new(api.RefusedError); errors.As(err, &refused) {
		fmt.Fprintf(out, "%s wants ε = %s, and gets nothing: %v\n", buyer, at, refused.Refused[0])
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s buys at ε = %s for %s: %d drawn from the truth, %d derived without it.\n  ",
		buyer, at, money(sale.Price), sale.Draws, sale.Degradations+sale.Insertions)
	for one, err := range l.Deliveries(ctx, sale.Number) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, " %s: %s (%s)", one.Object, one.Value, money(one.Price))
	}
	fmt.Fprintln(out)
	return nil
}

// prove prints the state of a seller, and verifies a buyer's receipt with only the log key.
func prove(ctx context.Context, out io.Writer, l *ledger.Ledger, logKey string) error {
	ana, err := l.Object(ctx, "ana")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ana has earned %s, and spent ε = %s: the largest that was sold of her, and not the sum.\n",
		money(ana.Earned), ana.Spent)
	receipt, err := l.Receipt(ctx, 1)
	if err != nil {
		return err
	}
	key, err := note.NewVerifier(logKey)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The receipt of acme's first sale verifies: %t.\n", receipt.Verify(note.VerifierList(key)).OK())
	receipt.Price = 1
	fmt.Fprintf(out, "With another price it does not: %v\n", receipt.Verify(note.VerifierList(key)).Faults[0])
	return nil
}

func money(cents int64) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }
