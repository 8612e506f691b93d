package ledger_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/policy"
)

// The host signs the log with its own key. The buyer has the public key, which is enough to see
// whether a receipt was altered, and where.
func ExampleLedger_Receipt() {
	path, remove := newFile()
	defer remove()
	secret, public, err := note.GenerateKey(rand.Reader, "example.com/panel")
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := sellWithReceipt(context.Background(), path, secret, public)
	if err != nil {
		log.Fatal(err)
	}
	checkReceipt(receipt, public)

	var forged evidence.Receipt
	if err := json.Unmarshal(receipt, &forged); err != nil {
		log.Fatal(err)
	}
	forged.Responses[1].Price = 30
	receipt, err = json.Marshal(forged)
	if err != nil {
		log.Fatal(err)
	}
	checkReceipt(receipt, public)
	// Output:
	// acme paid 200 for 2 responses: true
	// acme paid 200 for 2 responses: false
	//   no. 2, event 11, object "person-18": altered: the object, response, price, salt, leaf or what is withheld
	//   the prices of the responses do not add up to that of the sale, 200
}

// checkReceipt is what a buyer does with a receipt, years later, without the ledger.
func checkReceipt(receipt []byte, public string) {
	key, err := note.NewVerifier(public)
	if err != nil {
		log.Fatal(err)
	}
	r, err := evidence.ReadReceipt(receipt)
	if err != nil {
		log.Fatal(err)
	}
	checked := r.Verify(note.VerifierList(key))
	fmt.Printf("%s paid %d for %d responses: %v\n", r.Buyer, r.Price, len(r.Responses), checked.OK())
	for _, fault := range checked.Faults {
		fmt.Println("  " + fault.String())
	}
}

func sellWithReceipt(ctx context.Context, path, secret, public string) ([]byte, error) {
	if err := ledger.Create(ctx, path, ledger.CreateOptions{Currency: "USD", LogKey: public}); err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		return nil, err
	}
	l, err := ledger.Open(ctx, path, ledger.Options{Signer: signer})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := l.DefineQuestion(ctx, "setup-1", api.Question{Name: "smoker", Values: []string{"yes", "no"}}); err != nil {
		return nil, err
	}
	terms, err := policy.Market{Max: must("1"), Prices: []policy.Price{{Epsilon: must("1"), Amount: 100}}}.Policy()
	if err != nil {
		return nil, err
	}
	people := []string{"person-17", "person-18"}
	if _, err := l.Enroll(ctx, api.EnrollRequest{Key: "setup-2", Question: "smoker", Objects: people, Policy: terms, Cap: must("2")}); err != nil {
		return nil, err
	}
	sale, err := l.Sell(ctx, api.SellRequest{
		Key: "order-1", Order: api.Order{Buyer: "acme", Question: "smoker", Epsilon: must("1"), All: true},
		Truth: func(_ context.Context, _ string, people []string) ([]string, error) {
			return []string{"yes", "no"}[:len(people)], nil // in the order of people
		},
	})
	if err != nil {
		return nil, err
	}
	receipt, err := l.Receipt(ctx, sale.Number)
	if err != nil {
		return nil, err
	}
	return json.Marshal(receipt)
}
