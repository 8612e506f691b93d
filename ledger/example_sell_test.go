package ledger_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Two people put their answers up for sale. One buyer returns for a higher level and pays the
// difference. Another buyer takes a level in between, which costs no privacy.
func ExampleLedger_Sell() {
	path, remove := newFile()
	defer remove()
	if err := trade(context.Background(), path); err != nil {
		log.Fatal(err)
	}
	// Output:
	// acme at ε=0.5: 2 answers, 2 drawn, 0 upgrades, for 200 USD cents
	// acme at ε=1: 2 answers, 2 drawn, 2 upgrades, for 160 USD cents
	// zeta at ε=0.7: 2 answers, 0 drawn, 0 upgrades, for 264 USD cents
	// person-17 has earned 312 and spent ε=1
}

func trade(ctx context.Context, path string) error {
	if err := ledger.Create(ctx, path, ledger.CreateOptions{Currency: "USD"}); err != nil {
		return err
	}
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.DefineQuestion(ctx, "setup-1", api.Question{Name: "smoker", Values: []string{"yes", "no"}}); err != nil {
		return err
	}
	terms, err := policy.Market{Max: must("2"), Prices: []policy.Price{
		{Epsilon: must("0.5"), Amount: 100}, {Epsilon: must("1"), Amount: 180}, {Epsilon: must("2"), Amount: 300},
	}}.Policy()

	if err != nil {
		return err
	}
	people := []string{"person-17", "person-18"}
	if _, err := l.Enroll(ctx, api.EnrollRequest{Key: "setup-2", Question: "smoker", Objects: people, Policy: terms, Cap: must("2")}); err != nil {
		return err
	}
	for i, buy := range []struct{ buyer, epsilon string }{{"acme", "0.5"}, {"acme", "1"}, {"zeta", "0.7"}} {
		if err := buyAsQuoted(ctx, l, fmt.Sprint("order-", i), buy.buyer, must(buy.epsilon)); err != nil {
			return err
		}
	}
	o, err := l.Object(ctx, "person-17")
	if err == nil {
		fmt.Printf("%s has earned %d and spent ε=%s\n", o.Object, o.Earned, o.Spent)
	}
	return err
}

// smokers looks up who smokes, as a host does in its database. "" is the value of a person without
// one.
func smokers(_ context.Context, _ string, people []string) ([]string, error) {
	smokes := map[string]string{"person-17": "yes", "person-18": "no"}
	values := make([]string, len(people))
	for i, person := range people {
		values[i] = smokes[person]
	}
	return values, nil
}

// buyAsQuoted sells for exactly the price that was quoted, or not at all.
func buyAsQuoted(ctx context.Context, l *ledger.Ledger, key, buyer string, epsilon privacy.Epsilon) error {
	order := api.Order{Buyer: buyer, Question: "smoker", Epsilon: epsilon, All: true}
	quote, err := l.Quote(ctx, order)
	if err != nil {
		return err
	}
	sale, err := l.Sell(ctx, api.SellRequest{Key: key, Order: order, QuoteID: quote.ID, Truth: smokers})
	if err != nil {
		return err
	}
	answers := 0
	for _, err := range l.Deliveries(ctx, sale.Number) {
		if err != nil {
			return err
		}
		answers++
	}
	fmt.Printf("%s at ε=%s: %d answers, %d drawn, %d upgrades, for %d %s cents\n",
		sale.Buyer, sale.Epsilon, answers, sale.Draws, sale.Upgrades, sale.Price, sale.Currency)
	return nil
}
