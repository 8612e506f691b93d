// Datamarket runs a month of a market over the health insurance survey of 1996: 8,802 people sell their
// answers to two questions, each on terms of their own, to three buyers. One buyer comes back for more,
// two pool what they bought, and in the end the ledger's books are closed and checked.
//
// Run it from the top of the repository:
//
//	go run ./examples/datamarket
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/examples/internal/survey"
	"github.com/sluicedp/sluice/ledger"
)

func main() {
	data := flag.String("data", "testdata/health_insurance_1996.csv", "the survey")
	every := flag.Int("every", 1, "take every N-th person only")
	flag.Parse()
	if _, _, err := run(os.Stdout, *data, *every); err != nil {
		fmt.Fprintln(os.Stderr, "datamarket:", err)
		os.Exit(1)
	}
}

// run returns the market after its month, and its closed books, which have been checked and printed.
func run(out io.Writer, path string, every int) (*market, *books, error) {
	if every < 1 {
		return nil, nil, errors.New("-every takes a number from 1 on")
	}
	people, err := survey.ReadHealth(path, every)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "datamarket")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "market.db")
	m, err := newMarket(out, people)
	if err != nil {
		return nil, nil, err
	}
	if err := ledger.Create(file, "USD", m.keys.public); err != nil {
		return nil, nil, err
	}
	m.dir = dir
	m.ledger, err = ledger.Open(file, ledger.Options{
		Now: m.calendar.Now, Signer: m.keys.signer, Publish: ledger.Publishing{To: m.witness.keep, Events: 5_000},
	})
	if err != nil {
		return nil, nil, err
	}
	b, err := m.run(context.Background())
	if err := errors.Join(err, m.ledger.Close()); err != nil {
		return nil, nil, err
	}
	return m, b, m.report(b)
}
