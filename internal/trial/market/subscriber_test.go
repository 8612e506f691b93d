package market

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/privacy"
)

// subscriber follows the log and keeps running accounts of its own, from nothing but the events.
type subscriber struct {
	last     uint64 // the last event handled
	accounts map[string]*account
	paid     map[string]int64 // by buyer
	revenue  int64
}

// account is what the subscriber knows of a person.
type account struct {
	earned  int64
	current map[string]privacy.Epsilon // by question
	fresh   int64                      // nano-nats that fresh answers would have cost
	lines   []line
}

// line is one answer that was drawn or sold; buyer is "" if it was drawn because time had come.
type line struct {
	at              time.Time
	buyer, question string
	epsilon         privacy.Epsilon
	method          string
	price           int64
}

func newSubscriber() *subscriber {
	return &subscriber{accounts: map[string]*account{}, paid: map[string]int64{}}
}

// start follows the log in the background until the returned function is called.
func (s *subscriber) start(ctx context.Context, l *ledger.Ledger) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.follow(ctx, l, 0) }()
	return func() error {
		cancel()
		err := <-ended
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return fmt.Errorf("the subscriber: %w", err)
	}
}

// catchUp goes on after the last event handled.
func (s *subscriber) catchUp(ctx context.Context, l *ledger.Ledger, through uint64) error {
	if s.last == through {
		return nil
	}
	return s.follow(ctx, l, through)
}

// follow handles the events after the last one handled, through a number, or until ctx ends.
func (s *subscriber) follow(ctx context.Context, l *ledger.Ledger, through uint64) error {
	for ev, err := range l.Watch(ctx, s.last+1) {
		if err != nil {
			return err
		}
		if ev.Number != s.last+1 {
			return fmt.Errorf("event %d came after %d", ev.Number, s.last)
		}
		s.handle(ev)
		if s.last = ev.Number; s.last == through {
			return nil
		}
	}
	return nil
}

func (s *subscriber) handle(ev says.Event) {
	switch d := ev.Says.(type) {
	case says.Enrolled:
		if s.accounts[d.Object] == nil {
			s.accounts[d.Object] = &account{current: map[string]privacy.Epsilon{}}
		}
	case says.Released:
		s.accounts[d.Object].add(line{ev.Time, "", d.Question, d.Epsilon, d.Method, 0})
	case says.Sold:
		s.accounts[d.Object].add(line{ev.Time, d.Buyer, d.Question, d.Epsilon, d.Method, d.Price})
		s.paid[d.Buyer] += d.Price
		s.revenue += d.Price
	}
}

// add books one answer. Only the highest level of a question costs; fresh answers would add up.
func (a *account) add(n line) {
	a.lines = append(a.lines, n)
	a.earned += n.price
	a.fresh += n.epsilon.Nano()
	if a.current[n.question].Less(n.epsilon) {
		a.current[n.question] = n.epsilon
	}
}

// spent adds up the highest levels.
func (a *account) spent() privacy.Epsilon {
	sum := int64(0)
	for _, current := range a.current {
		sum += current.Nano()
	}
	return nats(sum)
}
