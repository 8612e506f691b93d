package market

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/privacy"
)

// steps are all that a host does that outlives it. It can be killed before and after each.
var steps = []string{
	"enrol", "place", "sell", "reserve", "charge", "commit", "cancel", "outcome", "refund", "note refund", "answer",
}

// boundaries are the instants between steps.
func boundaries() (all []string) {
	for _, step := range steps {
		all = append(all, "before "+step, "after "+step)
	}
	return all
}

// demonstrate kills a host at each boundary. Each of its lives begins with what the last one left, and
// gets some new orders.
func demonstrate(ctx context.Context, dir string, out io.Writer) error {
	fmt.Fprintf(out, "%-20s| %-22s| %-15s | %s\n", "THE HOST", "ITS OWN DATABASE", "LEDGER", "MONEY, USD")
	fmt.Fprintf(out, "%-20s| %6s %6s %7s | %6s %8s | %8s %8s\n",
		"was killed", "placed", "sold", "refused", "sales", "revenue", "invoiced", "by card")
	b := &buyers{answers: map[uuid.UUID]orderAnswer{}}
	for _, boundary := range append(boundaries(), "") {
		if boundary != "" {
			b.order()
		}
		died, err := b.visit(command(ctx, dir, boundary), b.waiting())
		if err != nil {
			return err
		}
		if died != (boundary != "") {
			return fmt.Errorf("host to be killed %s: died: %t", boundary, died)
		}
		if err := report(ctx, out, dir, boundary); err != nil {
			return err
		}
	}
	if err := look(ctx, dir, func(h *host) error { return h.reconcile(ctx) }); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nAll %d orders are answered, and the three agree on every sale, response and cent.\n", len(b.answers))
	return nil
}

func report(ctx context.Context, out io.Writer, dir, boundary string) error {
	if boundary == "" {
		boundary = "(not killed)"
	}
	return look(ctx, dir, func(h *host) error {
		s, err := h.standing(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%-20s| %6d %6d %7d | %6d %8s | %8s %8s\n", boundary,
			s.placed, s.sold, s.refused, s.sales, shopMoney(s.revenue), shopMoney(s.invoiced), shopMoney(s.charged))
		return err
	})
}

func shopMoney(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// command is a life of the host: this program, by [TestMain].
func command(ctx context.Context, dir, kill string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	cmd := exec.CommandContext(ctx, program, dir, kill)
	cmd.Stderr = os.Stderr
	return cmd
}

// buyers are those outside, who outlive the host and ask until they are answered.
type buyers struct {
	orders  []order
	answers map[uuid.UUID]orderAnswer
}

// order adds orders that end in all ways there are. Each has a buyer of its own: who has bought an ε
// gets it again for nothing.
func (b *buyers) order() []order {
	n := len(b.orders)
	want := func(epsilon string, maxPrice int64, card string) {
		b.orders = append(b.orders, order{
			ID: uuid.New(), Buyer: fmt.Sprintf("buyer %d", len(b.orders)+1),
			Question: question, Epsilon: privacy.MustEpsilon(epsilon), MaxPrice: maxPrice, Card: card,
		})
	}
	levels := []string{"0.5", "1", "0.25", "1.5", "0.75", "2"}
	want(levels[n%len(levels)], 10_000, "")
	want(levels[(n+1)%len(levels)], 10_000, "good")
	want("1", 10_000, blockedCard)
	want("1", 1, "")     // too dear
	want("3", 1, "good") // not on offer
	return b.orders[n:]
}

// waiting are the orders without an answer.
func (b *buyers) waiting() (orders []order) {
	for _, o := range b.orders {
		if _, answered := b.answers[o.ID]; !answered {
			orders = append(orders, o)
		}
	}
	return orders
}

// visit sends orders to a life of the host and notes the answers. It tells whether the host died.
func (b *buyers) visit(host *exec.Cmd, orders []order) (died bool, err error) {
	var in, out bytes.Buffer
	write := lines(&in)
	for _, o := range orders {
		if err := write(o); err != nil {
			return false, err
		}
	}
	host.Stdin, host.Stdout = &in, &out
	err = host.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, err
	}
	return exit != nil, b.note(&out)
}

// note reads answers. What was cut off is no answer; whoever has one already must get the same again.
func (b *buyers) note(out *bytes.Buffer) error {
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var a orderAnswer
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("the host says %q: %w", line, err)
		}
		if a.Error != "" {
			return fmt.Errorf("order %v: %s", a.Order, a.Error)
		}
		if before, again := b.answers[a.Order]; again && !reflect.DeepEqual(a, before) {
			return fmt.Errorf("order %v was answered with %+v, and now with %+v", a.Order, before, a)
		}
		b.answers[a.Order] = a
	}
}
