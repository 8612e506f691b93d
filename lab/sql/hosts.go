package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
	"github.com/sluicedp/sluice/ledger/journal/pgjournal"
	"github.com/sluicedp/sluice/privacy"
)

// site is a database server, with the round trip time from the host.
type site struct {
	name string
	at   *server
	trip time.Duration
}

// hostEngines returns the engines for measurements with hosts: Sluice with its journal in a file,
// and then Sluice with its journal in PostgreSQL and ledgers by hand there. The database is alone,
// or has two standbys, for one of which commits wait, at a distance of 0, 1 or 10 milliseconds.
func hostEngines(ctx context.Context, dir string) (engines []*engine, closeAll func() error, err error) {
	var servers []*server
	stop := func() (err error) {
		for i := len(servers) - 1; i >= 0; i-- { // the standbys first
			err = errors.Join(err, servers[i].stop())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	var alone, pair *server
	for _, s := range []**server{&alone, &pair} {
		if *s, err = startServer(ctx, filepath.Dir(dir)); err != nil {
			return nil, nil, err
		}
		servers = append(servers, *s)
	}
	for _, name := range []string{"one", "two"} {
		b, err := pair.standby(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		servers = append(servers, b)
	}
	if err := pair.waits(ctx, "one, two"); err != nil {
		return nil, nil, err
	}
	engines = []*engine{{name: "Sluice, a file", version: "bbolt " + moduleVersion("bbolt"), open: openSluice}}
	for _, p := range []site{
		{"PostgreSQL", alone, 0}, {"1 of 2 standbys", pair, 0}, {"1 of 2, 1 ms away", pair, time.Millisecond},
		{"1 of 2, 10 ms away", pair, 10 * time.Millisecond},
	} {
		engines = append(engines, p.sluice(dir), p.byHand(dir))
	}
	return engines, stop, nil
}

// fresh creates an empty database, and returns its address for the host.
func (p site) fresh(ctx context.Context, dir, name string) (string, error) {
	address, err := p.at.fresh(ctx, name)
	if err != nil || p.trip == 0 {
		return address, err
	}
	between, err := os.MkdirTemp(dir, "relay-")
	if err != nil {
		return "", err
	}
	l, err := net.Listen("unix", filepath.Join(between, filepath.Base(p.at.socket())))
	if err != nil {
		return "", err
	}
	go pgtest.Relay(l, p.at.socket(), p.trip) // until this process ends
	return strings.Replace(address, p.at.dir, between, 1), nil
}

// database returns a new name for a database.
func (p site) database(kind string) string {
	return fmt.Sprintf("%s_%d_%d", kind, p.trip.Milliseconds(), time.Now().UnixNano())
}

func (p site) byHand(dir string) *engine {
	return &engine{name: "by hand, " + p.name, open: func(ctx context.Context, _ string) (contestant, error) {
		address, err := p.fresh(ctx, dir, p.database("hand"))
		if err != nil {
			return nil, err
		}
		return asContestant(openPostgres(ctx, address))
	}}
}

func (p site) sluice(dir string) *engine {
	return &engine{name: "Sluice, " + p.name, open: func(ctx context.Context, life string) (contestant, error) {
		address, err := p.fresh(ctx, dir, p.database("journal"))
		if err != nil {
			return nil, err
		}
		o := pgjournal.Options{Database: address, Host: "a"}
		if o.Keys, err = keyholder.OpenDirectory(filepath.Join(life, "keys")); err != nil { // closed with the process
			return nil, err
		}
		other, err := keyholder.OpenDirectory(filepath.Join(life, "keys of b"))
		if err != nil {
			return nil, err
		}
		o.Others = []keyholder.Holder{other}
		return openSluiceBy(ctx, life, ledger.Options{Journal: pgjournal.For(o)})
	}}
}

// hosts measures single durable releases.
func (r *race) hosts(ctx context.Context) (err error) {
	f, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close(), r.clear()) }()
	ceiling, err := tenths(5000)
	if err != nil {
		return err
	}
	names := namesOf(r.objects)
	for _, c := range f {
		if err := c.enroll(ctx, names, privacy.MaxEpsilon(), ceiling); err != nil {
			return err
		}
	}
	o := newOrders(r.objects)
	for _, callers := range []int{1, 64, 256} {
		if err := r.releases(ctx, f, o, callers); err != nil {
			return err
		}
	}
	return nil
}
