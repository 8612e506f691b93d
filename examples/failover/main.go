// Failover shows how a standby takes over from a host that hangs. The orders and the journal of the
// ledger are in a PostgreSQL database. Every order is sold exactly once, because its id is the key
// of the request. Both hosts run in one process, so that they share the keys of the journal without
// a network: go run ./examples/failover "host=/run/postgresql dbname=postgres"
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
	"github.com/sluicedp/sluice/ledger/journal/pgjournal"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

func main() { kit.Exit(run(context.Background(), append(os.Args, "")[1], os.Stdout)) }

// host is a host with orders in the database. Its ledger is a standby, or open for writing.
type host struct {
	name, file string
	keys       keyholder.Holder // of the journal, which is encrypted; the database has no keys
	orders     *pgx.Conn
	ledger     *ledger.Ledger
	out        io.Writer
}

// run runs two hosts, which hang in turn and take over from each other. dsn is the database's.
func run(ctx context.Context, dsn string, out io.Writer) error {
	orders, connecting := pgx.Connect(ctx, dsn)
	dir, err := os.MkdirTemp("", "failover")
	if err := errors.Join(connecting, err); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer orders.Close(ctx)
	var hosts [2]*host
	for i, name := range []string{"a", "b"} {
		hosts[i] = &host{name: name, file: filepath.Join(dir, name+".db"), orders: orders, out: out}
		if hosts[i].keys, err = keyholder.OpenDirectory(filepath.Join(dir, name+" keys")); err != nil {
			return err
		}
		defer hosts[i].keys.Close()
	}
	a, b := hosts[0], hosts[1] // true: both open the ledger as standbys
	if err := errors.Join(prepare(ctx, dsn, a, b), a.open(ctx, dsn, b, true), b.open(ctx, dsn, a, true)); err != nil {
		return err
	}
	fmt.Fprintf(out, "HOST | %-46s| %-41s| %s\n", "FINDS IN THE DATABASE", "AND IN ITS LEDGER", "AND")
	for i, until := range []string{"hangs after sale 2", "hangs before sale 4", "has sold all"} {
		h, former := hosts[i%2], hosts[1-i%2]
		if h.ledger, err = h.ledger.TakeOver(ctx); err == nil {
			err = h.sell(ctx, until)
		}
		if err == nil && i > 0 { // the former host wakes up, without knowing of the takeover
			err = errors.Join(former.sell(ctx, "wakes up"), former.ledger.Close(), former.open(ctx, dsn, h, true))
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(a.printState(ctx, "ends"), a.ledger.Close(), b.ledger.Close())
}

// prepare creates four orders, a ledger with three people who sell up to ε = 2, and a copy for b.
func prepare(ctx context.Context, dsn string, a, b *host) error {
	_, err := a.orders.Exec(ctx, `drop schema if exists failover cascade; create schema failover;
		create table failover.orders (id text primary key, buyer text, epsilon text, state text default 'open');
		insert into failover.orders values (1, 'acme', '0.5'), (2, 'zeta', '1'), (3, 'acme', '3'), (4, 'acme', '1')`)
	terms, wrong := policy.Parse([]byte(`{"kind": "market", "max": "2", "price": [["2", 200]]}`))
	creating := ledger.Create(ctx, a.file, ledger.CreateOptions{Currency: "USD"})
	if err := errors.Join(err, wrong, creating, a.open(ctx, dsn, b, false)); err != nil {
		return err
	}
	l := a.ledger
	defining := l.DefineQuestion(ctx, "define", api.Question{Name: "smoker", Values: []string{"yes", "no"}})
	_, enrolling := l.Enroll(ctx, api.EnrollRequest{
		Key: "enrol", Question: "smoker", Objects: []string{"ana", "eva", "leo"}, Policy: terms, Cap: terms.Limit(),
	})
	_, copying := l.Backup(ctx, b.file, nil)
	return errors.Join(defining, enrolling, copying, l.Close())
}

// open opens the ledger as a standby of the other host, or for writing (which creates the journal).
func (h *host) open(ctx context.Context, dsn string, other *host, standby bool) (err error) {
	j := pgjournal.For(pgjournal.Options{
		Database: dsn, Schema: "failover", Host: h.name, Keys: h.keys, Others: []keyholder.Holder{other.keys},
	})
	h.ledger, err = ledger.Open(ctx, h.file, ledger.Options{Standby: standby, Journal: j})
	return err
}

type order struct{ ID, Buyer, Epsilon string }

// sell sells every open order, up to an incident such as "hangs after sale 2", or to a takeover.
func (h *host) sell(ctx context.Context, until string) error {
	query := `select id, buyer, epsilon from failover.orders where state = 'open' order by id`
	rows, _ := h.orders.Query(ctx, query) // CollectRows returns its error
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[order])
	if err := errors.Join(err, h.printState(ctx, until)); err != nil {
		return err
	}
	for _, o := range open {
		if until == "hangs before sale "+o.ID {
			return nil
		}
		sale, err := h.ledger.Sell(ctx, api.SellRequest{
			Key:   o.ID, // both hosts get the same sale for it
			Order: api.Order{Buyer: o.Buyer, Question: "smoker", Epsilon: privacy.MustEpsilon(o.Epsilon), All: true},
			Truth: func(_ context.Context, _ string, people []string) ([]string, error) {
				return []string{"no", "no", "no"}[:len(people)], nil
			},
		})
		state := fmt.Sprintf("for %d¢", sale.Price)
		if refused := new(api.RefusedError); errors.As(err, &refused) {
			state, err = "refused", nil
		} else if errors.Is(err, journal.ErrFenced) {
			fmt.Fprintf(h.out, "%s    | learns that the other host has the journal, and stops\n", h.name)
			return nil
		}
		if err != nil || until == "hangs after sale "+o.ID {
			return err
		}
		if _, err = h.orders.Exec(ctx, `update failover.orders set state = $1 where id = $2`, state, o.ID); err != nil {
			return err
		}
	}
	return nil
}

// printState prints a row: the states of the orders and of the ledger, and what the host does next.
func (h *host) printState(ctx context.Context, and string) error {
	var noted string
	row := h.orders.QueryRow(ctx, `select string_agg(id || ' ' || state, ', ' order by id) from failover.orders`)
	stats, err := h.ledger.Stats(ctx)
	ana, unknown := h.ledger.Object(ctx, "ana")
	err = errors.Join(row.Scan(&noted), err, unknown)
	fmt.Fprintf(h.out, "%s    | %-46s| sales: %d, paid: %3d¢, each spent ε = %-4s| %s\n",
		h.name, noted, stats.Sales, stats.Revenue, ana.Spent, and)
	return err
}
