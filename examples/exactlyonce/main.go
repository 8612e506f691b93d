// Exactlyonce is a host with its own SQL database. No transaction spans that database and the
// ledger, and the host may die between any two steps. It still sells every order exactly once,
// because the id of an order is the key of its request to the ledger.
//
// "go run ./examples/exactlyonce" starts it five times. Each life is a process, prints what it
// finds, and dies as the table says.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

func main() { kit.Exit(run(context.Background(), os.Args[1:])) }

// run runs one life of the host if args has its directory and death. Otherwise it starts all lives.
func run(ctx context.Context, args []string) error {
	if len(args) == 2 {
		return live(ctx, args[0], args[1])
	}
	dir, err := os.MkdirTemp("", "exactlyonce")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("%-45s| %-41s| %s\n", "A LIFE FINDS IN ITS DATABASE", "AND IN THE LEDGER", "AND DIES")
	for _, death := range []string{"before sale 1", "after sale 1", "after sale 2", "-", "-"} {
		life := exec.CommandContext(ctx, os.Args[0], dir, death)
		life.Stdout, life.Stderr = os.Stdout, os.Stderr
		if err := life.Run(); err != nil {
			return err
		}
	}
	return nil
}

// step ends the process immediately if it is to die here. Nothing is closed or written.
func step(death, here string) {
	if death == here {
		os.Exit(0)
	}
}

// live runs one life of the host. It sells every open order, with the same key as in earlier lives.
func live(ctx context.Context, dir, death string) error {
	db, err := openOrders(ctx, dir)
	if err != nil {
		return err
	}
	defer db.Close()
	l, err := openLedger(ctx, dir)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := printState(ctx, db, l, death); err != nil {
		return err
	}
	for {
		var id, buyer, epsilon string
		row := db.QueryRowContext(ctx, `select id, buyer, epsilon from orders where state = 'open' order by id`)
		err := row.Scan(&id, &buyer, &epsilon)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		level, failed := privacy.ParseEpsilon(epsilon)
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		step(death, "before sale "+id)
		sale, err := l.Sell(ctx, api.SellRequest{
			Key:   id, // the same key gets the same sale: nothing is drawn, or charged, twice
			Order: api.Order{Buyer: buyer, Question: "smoker", Epsilon: level, All: true},
			Truth: func(_ context.Context, _ string, people []string) ([]string, error) {
				return []string{"no", "no", "no"}[:len(people)], nil
			},
		})
		state := fmt.Sprintf("sold for %d¢", sale.Price)
		if refused := new(api.RefusedError); errors.As(err, &refused) {
			state = "refused"
		} else if err != nil {
			return err // the order stays open
		}
		step(death, "after sale "+id)
		if _, err := db.ExecContext(ctx, `update orders set state = ? where id = ?`, state, id); err != nil {
			return err
		}
	}
}

// openOrders opens the host's database with three orders. Its commits survive a power failure.
func openOrders(ctx context.Context, dir string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "host.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `
		create table if not exists orders (id text primary key, buyer text, epsilon text, state text default 'open');
		insert into orders (id, buyer, epsilon) values (1, 'acme', '0.5'), (2, 'zeta', '1'), (3, 'acme', '3')
			on conflict do nothing`)
	return db, err
}

// openLedger opens a ledger with three people who sell up to ε = 2. It creates what is missing.
func openLedger(ctx context.Context, dir string) (*ledger.Ledger, error) {
	file := filepath.Join(dir, "ledger.db")
	err := ledger.Create(ctx, file, ledger.CreateOptions{Currency: "USD"})
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	l, err := ledger.Open(ctx, file, ledger.Options{})
	if err != nil {
		return nil, err
	}
	terms, err := policy.Parse([]byte(`{"kind": "market", "max": "2", "price": [["2", 200]]}`))
	if err != nil {
		return nil, err
	}
	defining := l.DefineQuestion(ctx, "define", api.Question{Name: "smoker", Values: []string{"yes", "no"}})
	_, enrolling := l.Enroll(ctx, api.EnrollRequest{
		Key: "enrol", Question: "smoker", Objects: []string{"ana", "eva", "leo"}, Policy: terms, Cap: terms.Limit(),
	})
	return l, errors.Join(defining, enrolling)
}

// printState prints a row: the states of the orders, of the ledger, and where this life ends.
func printState(ctx context.Context, db *sql.DB, l *ledger.Ledger, death string) error {
	var noted string
	row := db.QueryRowContext(ctx, `select group_concat(id || ' ' || state, ', ' order by id) from orders`)
	if err := row.Scan(&noted); err != nil {
		return err
	}
	ana, err := l.Object(ctx, "ana")
	stats, other := l.Stats(ctx)
	fmt.Printf("%-45s| sales: %d, paid: %3d¢, each spent ε = %-4s| %s\n",
		noted, stats.Sales, stats.Revenue, ana.Spent, death)
	return errors.Join(err, other)
}
