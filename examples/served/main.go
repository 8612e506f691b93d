// Served sells through a ledger that another program serves. The host is a command in any language.
// The server is killed several times while the host waits for a response. Every order is still sold
// exactly once, and the host misses no event.
//
//	go run ./examples/served python3 examples/served/python/host.py
//
// The host gets $LEDGER_ADDR, $LEDGER_TOKEN, and as its last argument a directory with a shop.json.
// It writes events.ndjson and receipt.json there.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/ledger"
)

//go:embed shop.json
var shop []byte

func main() { kit.Exit(run(context.Background(), os.Args[1:], os.Stdout)) }

// run runs a host with a server that is killed, and checks the result.
func run(ctx context.Context, host []string, out *os.File) error {
	if len(host) == 0 {
		return errors.New("no host is given; give a command, such as: python3 examples/served/python/host.py")
	}
	dir, err := os.MkdirTemp("", "served")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "shop.json"), shop, 0o600); err != nil {
		return err
	}
	server, err := kit.NewServer(ctx, dir, out,
		kit.Death{Key: "enrol", When: kit.After},
		kit.Death{Key: "order-1", When: kit.Before},
		kit.Death{Key: "order-2", When: kit.After},
		kit.Death{Key: "order-3", When: kit.During},
		kit.Death{Key: "order-5", When: kit.After})
	if err != nil {
		return err
	}
	failed, faults := server.Run(ctx, host[0], host[1:]...), server.Close()
	if failed != nil {
		return errors.Join(failed, faults)
	}
	l, err := ledger.Open(ctx, server.File, ledger.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer l.Close()
	events := filepath.Join(dir, "events.ndjson")
	return errors.Join(faults, checkSales(ctx, l, out), checkEvents(ctx, l, events, out), server.Check(ctx, l))
}

// checkSales checks that each order was sold once, except the order that no terms allow.
func checkSales(ctx context.Context, l *ledger.Ledger, out io.Writer) error {
	sold := map[string]int{}
	for sale, err := range l.Sales(ctx, "") {
		if err != nil {
			return err
		}
		sold[sale.Key]++
	}
	if want := map[string]int{"order-1": 1, "order-2": 1, "order-3": 1, "order-5": 1}; !reflect.DeepEqual(sold, want) {
		return fmt.Errorf("the ledger has sold %v, not %v", sold, want)
	}
	ana, err := l.Object(ctx, "ana")
	fmt.Fprintf(out, "The ledger has sold orders 1, 2, 3 and 5 once each. ana has spent ε = %s, and earned %d¢.\n",
		ana.Spent, ana.Earned)
	return err
}

// checkEvents checks that the host has followed the log: each event once, and in order.
func checkEvents(ctx context.Context, l *ledger.Ledger, file string, out io.Writer) error {
	followed, err := os.Open(file)
	if err != nil {
		return err
	}
	defer followed.Close()
	lines := bufio.NewScanner(followed)
	n := 0
	for event, err := range l.Events(ctx, 0) {
		if err != nil {
			return err
		}
		var want, got any
		text, err := json.Marshal(event)
		if err := errors.Join(err, json.Unmarshal(text, &want)); err != nil {
			return err
		}
		if n++; !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("the ledger's event %d is %s, and the host's %q", event.Number, text, lines.Text())
		}
	}
	if lines.Scan() {
		return fmt.Errorf("the ledger has %d events, but the host has further ones, from %q", n, lines.Text())
	}
	fmt.Fprintf(out, "The host has its %d events, each once and in order.\n", n)
	return lines.Err()
}
