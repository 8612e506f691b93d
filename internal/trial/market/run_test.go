package market

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/ledger"
)

// run returns the market after its month, and its closed books, which have been checked and printed.
func run(out io.Writer, path string, every int) (*market, *books, error) {
	if every < 1 {
		return nil, nil, errors.New("every takes a number from 1 on")
	}
	people, err := readHealth(path, every)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "month")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "market.db")
	m, err := newMarket(out, people)
	if err != nil {
		return nil, nil, err
	}
	if err := ledger.Create(context.Background(), file, ledger.CreateOptions{Currency: "USD", LogKey: m.keys.public}); err != nil {
		return nil, nil, err
	}
	m.dir = dir
	m.ledger, err = ledger.Open(context.Background(), file, ledger.Options{
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
