package market

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// books is what the ledger says at the end of the month, and what the subscriber says beside it.
type books struct {
	stats      api.Stats
	people     []api.ObjectState // in the order of the survey
	sales      []api.Sale
	deliveries map[uint64][]api.Delivery // by sale
	buyers     []api.BuyerState
	subscriber *subscriber
	evidence   *proofs
}

// closeBooks reads the books of the ledger.
func (m *market) closeBooks(ctx context.Context) (*books, error) {
	b := &books{deliveries: map[uint64][]api.Delivery{}}
	for _, person := range m.people.People {
		state, err := m.ledger.Object(ctx, person)
		if err != nil {
			return nil, err
		}
		b.people = append(b.people, state)
	}
	for sale, err := range m.ledger.Sales(ctx, "") {
		if err != nil {
			return nil, err
		}
		b.sales = append(b.sales, sale)
		for delivery, err := range m.ledger.Deliveries(ctx, sale.Number) {
			if err != nil {
				return nil, err
			}
			b.deliveries[sale.Number] = append(b.deliveries[sale.Number], delivery)
		}
	}
	var err error
	if b.buyers, err = m.ledger.Buyers(ctx); err != nil {
		return nil, err
	}
	b.stats, err = m.ledger.Stats(ctx)
	return b, err
}

// check holds the books against each other. Nothing in them is a matter of chance.
func (b *books) check() error {
	for _, check := range []func() error{b.checkMoney, b.checkBudgets, b.checkDifferences, b.checkSubscriber, b.evidence.check} {
		if err := check(); err != nil {
			return fmt.Errorf("the books are wrong: %w", err)
		}
	}
	return nil
}

// earned is what the sellers have earned in all.
func (b *books) earned() (sum int64) {
	for _, person := range b.people {
		sum += person.Earned
	}
	return sum
}

// invoiced is what the sales come to.
func (b *books) invoiced() (sum int64) {
	for _, sale := range b.sales {
		sum += sale.Price
	}
	return sum
}

// checkMoney checks that what buyers pay is what sellers earn, answer by answer.
func (b *books) checkMoney() error {
	delivered, paid := int64(0), int64(0)
	for _, sale := range b.sales {
		for _, one := range b.deliveries[sale.Number] {
			delivered += one.Price
		}
	}
	for _, buyer := range b.buyers {
		paid += buyer.Paid
	}
	if sums := []int64{b.stats.Revenue, b.earned(), b.invoiced(), delivered, paid}; len(slices.Compact(sums)) != 1 {
		return fmt.Errorf("revenue, earnings, invoices, deliveries and payments are %d", sums)
	}
	return nil
}

// checkBudgets checks that nobody is over budget, and that the highest levels are all that was spent.
func (b *books) checkBudgets() error {
	for _, person := range b.people {
		levels := int64(0)
		for _, chain := range person.Chains {
			levels += chain.Epsilon.Nano()
			if chain.Ceiling.Less(chain.Epsilon) {
				return fmt.Errorf("person %s is at ε = %s of %s in %q", person.Object, chain.Epsilon, chain.Ceiling, chain.Question)
			}
		}
		if person.Cap.Less(person.Spent) || person.Spent.Nano() != levels {
			return fmt.Errorf("person %s has spent ε = %s of %s, with levels of %s", person.Object, person.Spent, person.Cap, nats(levels))
		}
	}
	return nil
}

// holding names what one buyer has of one person.
type holding struct{ buyer, question, person string }

// checkDifferences checks that each buyer has paid, in however many steps, the price of the highest level
// held of each person.
func (b *books) checkDifferences() error {
	paid, highest := map[holding]int64{}, map[holding]privacy.Epsilon{}
	for _, sale := range b.sales {
		for _, one := range b.deliveries[sale.Number] {
			h := holding{sale.Buyer, sale.Question, one.Object}
			paid[h] += one.Price
			if highest[h].Less(sale.Epsilon) {
				highest[h] = sale.Epsilon
			}
		}
	}
	for _, person := range b.people {
		for _, chain := range person.Chains {
			for _, buyer := range b.buyers {
				h := holding{buyer.Buyer, chain.Question, person.Object}
				level := highest[h]
				if level.IsZero() {
					continue
				}
				if price := chain.Policy.Terms().Price(level); paid[h] != price {
					return fmt.Errorf("%s has paid %d for person %s at ε = %s, which costs %d", h.buyer, paid[h], h.person, level, price)
				}
			}
		}
	}
	return nil
}

// checkSubscriber checks that the subscriber came to the same accounts.
func (b *books) checkSubscriber() error {
	s := b.subscriber
	if s.last != b.stats.Events || s.revenue != b.stats.Revenue || len(s.accounts) != len(b.people) || len(s.paid) != len(b.buyers) {
		return fmt.Errorf("the subscriber saw %d events and revenues of %d, the ledger %d and %d", s.last, s.revenue, b.stats.Events, b.stats.Revenue)
	}
	for _, person := range b.people {
		if a := s.accounts[person.Object]; a.earned != person.Earned || a.spent() != person.Spent {
			return fmt.Errorf("person %s: the subscriber's account and the ledger's differ", person.Object)
		}
	}
	for _, buyer := range b.buyers {
		if s.paid[buyer.Buyer] != buyer.Paid {
			return fmt.Errorf("%s has paid %d, and %d by the subscriber's account", buyer.Buyer, buyer.Paid, s.paid[buyer.Buyer])
		}
	}
	return nil
}
