package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
)

// subscriber represents a program that follows new answers, such as a search index. A real one
// stores the number of the last event it handled in the same transaction as the result.
type subscriber struct {
	handled uint64
	answers int
}

// follow handles events until an order is settled. It can be called again after any failure: it
// continues after the last event it handled.
func (s *subscriber) follow(ctx context.Context, l *ledger.Ledger, order string) error {
	for ev, err := range l.Watch(ctx, s.handled+1) {
		if err != nil {
			return err
		}
		s.handled = ev.Number
		switch d := ev.Says.(type) {
		case event.Released:
			s.answers++
		case event.Settled:
			if d.Key == order {
				return nil
			}
		}
	}
	return nil
}

// A subscriber that stores the number of the last event it handled gets every event once, even if
// it and the ledger are restarted.
func ExampleLedger_Watch() {
	path, remove := newFile()
	defer remove()
	if err := setUp(context.Background(), path); err != nil {
		log.Fatal(err)
	}
	var s subscriber
	for run, epsilon := range []string{"0.5", "1"} {
		if err := sellAndFollow(path, &s, fmt.Sprint("order-", run), epsilon); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("run %d: %d answer(s) seen\n", run+1, s.answers)
	}
	// Output:
	// run 1: 1 answer(s) seen
	// run 2: 2 answer(s) seen
}

// sellAndFollow is one run of the process: it sells an answer while the subscriber watches.
func sellAndFollow(path string, s *subscriber, order, epsilon string) error {
	l, err := ledger.Open(context.Background(), path, ledger.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sold := make(chan error)
	go func() {
		_, err := l.Release(ctx, api.ReleaseRequest{
			Key: order, Question: "smoker", Object: "person-17", Epsilon: must(epsilon), TrueValue: "no",
		})
		if err != nil {
			cancel() // nothing will come
		}
		sold <- err
	}()
	err = s.follow(ctx, l, order)
	return errors.Join(<-sold, err)
}
