package market

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

const question = "smokes"

const (
	people = 40
	silent = 10 // one in so many is enrolled but has not answered yet: the host has no truth of them
)

// openLedger opens the ledger and makes it first if there is none. Create leaves a whole file or none,
// so a process that died here has done no harm.
func openLedger(path string, options ledger.Options) (*ledger.Ledger, error) {
	if err := ledger.Create(context.Background(), path, ledger.CreateOptions{Currency: "USD"}); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return ledger.Open(context.Background(), path, options)
}

// enrol tells both sides who there is. Every start repeats it: the keys are always the same.
func (h *host) enrol(ctx context.Context) error {
	names := make([]string, people)
	for i := range names {
		names[i] = fmt.Sprintf("person-%02d", i+1)
	}
	if err := h.books.enrol(ctx, names); err != nil {
		return err
	}
	err := h.ledger.DefineQuestion(ctx, "setup/question", api.Question{Name: question, Values: []string{"yes", "no"}})
	if err != nil {
		return err
	}
	terms, err := policy.Market{Max: constEpsilon("2"), Prices: []policy.Price{
		{Epsilon: constEpsilon("1"), Amount: 100}, {Epsilon: constEpsilon("2"), Amount: 180},
	}}.Policy()

	if err != nil {
		return err
	}
	_, err = h.ledger.Enroll(ctx, api.EnrollRequest{Key: "setup/people", Question: question, Objects: names, Policy: terms, Cap: constEpsilon("2")})
	return err
}

func (b *orderBooks) enrol(ctx context.Context, names []string) error {
	return b.change(ctx, "enrol", func(tx *sql.Tx) error {
		for i, name := range names {
			smokes := "no"
			switch {
			case i%silent == silent-1:
				continue
			case i%3 == 0:
				smokes = "yes"
			}
			_, err := tx.ExecContext(ctx, `insert into people (id, smokes) values (?, ?) on conflict do nothing`, name, smokes)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// constEpsilon is for constants.
func constEpsilon(text string) privacy.Epsilon {
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		panic(err)
	}
	return e
}
