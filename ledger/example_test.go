package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// One person, one question: a first sale, a dearer one, and one that is refused.
func Example() {
	path, remove := newFile()
	defer remove()
	if err := embed(context.Background(), path); err != nil {
		log.Fatal(err)
	}
	// Output:
	// sold at ε=0.5: true
	// sold at ε=1.5: true
	// refused: ε=3 asked, ceiling 2, spent 1.5, remaining 0.5
}

// newFile returns where an example may make its ledger, and how to remove that.
func newFile() (path string, remove func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(dir, "panel.db"), func() { _ = os.RemoveAll(dir) }
}

// must is for constants.
func must(text string) privacy.Epsilon {
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		panic(err)
	}
	return e
}

func embed(ctx context.Context, path string) error {
	if err := ledger.Create(ctx, path, ledger.CreateOptions{Currency: "USD"}); err != nil {
		return err
	}
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	err = l.DefineQuestion(ctx, "setup-1", api.Question{Name: "smoker", Values: []string{"yes", "no"}})
	if err != nil {
		return err
	}
	_, err = l.Enroll(ctx, api.EnrollRequest{
		Key: "setup-2", Question: "smoker", Objects: []string{"person-17"}, Policy: policy.Fixed(must("2")), Cap: must("5"),
	})
	if err != nil {
		return err
	}
	for i, epsilon := range []privacy.Epsilon{must("0.5"), must("1.5"), must("3")} {
		answer, err := sell(ctx, l, fmt.Sprint("order-", i), "person-17", "no", epsilon)
		var refused *api.RefusedError
		if errors.As(err, &refused) {
			r := refused.Refused[0]
			fmt.Printf("refused: ε=%s asked, ceiling %s, spent %s, remaining %s\n", r.Asked, r.Ceiling, r.Spent, r.Remaining)
		} else if err != nil {
			return err
		} else {
			fmt.Printf("sold at ε=%s: %t\n", epsilon, answer == "yes" || answer == "no")
		}
	}
	return nil
}

// sell hands a buyer one person's answer to "do you smoke?" at ε.
func sell(ctx context.Context, l *ledger.Ledger, order, person, truth string, epsilon privacy.Epsilon) (string, error) {
	response, err := l.Release(ctx, api.ReleaseRequest{
		Key:       order, // the id of your order: try it as often as you must
		Question:  "smoker",
		Object:    person,
		Epsilon:   epsilon,
		TrueValue: truth, // used only if a draw needs it, and never stored
	})
	return response.Value, err
}

// orders is a table in the host's own database: the answers that buyers have ordered, and those
// delivered. It has its own transactions, and may fail between any two steps.
type orders map[string]*order

type order struct {
	object    string
	epsilon   privacy.Epsilon
	delivered string // the answer, or "" while the order is open
}

var errPowerCut = errors.New("power cut")

// fulfil completes every open order. It can be called again after any failure: the order's own id
// is the idempotency key, so an answer is drawn and charged once, however often the order is tried.
func (db orders) fulfil(ctx context.Context, l *ledger.Ledger, powerCut bool) error {
	for id, order := range db {
		if order.delivered != "" {
			continue
		}
		response, err := l.Release(ctx, api.ReleaseRequest{
			Key: id, Question: "smoker", Object: order.object, Epsilon: order.epsilon, TrueValue: "no",
		})
		if err != nil {
			return err
		}
		if powerCut { // the ledger has committed, the host's database has not
			return errPowerCut
		}
		order.delivered = response.Value
	}
	return nil
}

// A host that keeps its orders in a database of its own gets each order's answer exactly once,
// without a transaction over both, by using the id of the order as the idempotency key.
func Example_exactlyOnce() {
	path, remove := newFile()
	defer remove()
	ctx := context.Background()
	if err := setUp(ctx, path); err != nil {
		log.Fatal(err)
	}
	db := orders{"order 4711": {object: "person-17", epsilon: must("1")}}

	fmt.Println("first run:", attempt(ctx, path, db, true))
	fmt.Println("order open:", db["order 4711"].delivered == "")
	fmt.Println("second run:", attempt(ctx, path, db, false))

	l, err := ledger.Open(context.Background(), path, ledger.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	person, err := l.Object(ctx, "person-17")
	if err != nil {
		log.Fatal(err)
	}
	chain := person.Chains[0]
	fmt.Printf("drawn %d time(s), spent ε=%s, delivered what was drawn: %t\n", len(chain.Levels), person.Spent, db["order 4711"].delivered == chain.Response)
	// Output:
	// first run: power cut
	// order open: true
	// second run: <nil>
	// drawn 1 time(s), spent ε=1, delivered what was drawn: true
}

// attempt is one run of the host's process.
func attempt(ctx context.Context, path string, db orders, powerCut bool) error {
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	return db.fulfil(ctx, l, powerCut)
}

func setUp(ctx context.Context, path string) error {
	if err := ledger.Create(ctx, path, ledger.CreateOptions{}); err != nil {
		return err
	}
	l, err := ledger.Open(ctx, path, ledger.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.DefineQuestion(ctx, "q", api.Question{Name: "smoker", Values: []string{"yes", "no"}}); err != nil {
		return err
	}
	_, err = l.Enroll(ctx, api.EnrollRequest{Key: "e", Question: "smoker", Objects: []string{"person-17"}, Cap: must("2")})
	return err
}
