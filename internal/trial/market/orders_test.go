package market

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// wish is what a buyer wants of the people of one region, or of each.
type wish struct {
	buyer, question string
	epsilon         privacy.Epsilon
	region          string // "" for all four
}

func (w wish) String() string {
	where := "everywhere"
	if w.region != "" {
		where = "in the " + w.region
	}
	return fmt.Sprintf("%q at ε = %s %s", w.question, w.epsilon, where)
}

// order is the wish as the ledger takes it, for the people of one region.
func (m *market) order(w wish, region string) api.Order {
	return api.Order{Buyer: w.buyer, Question: w.question, Epsilon: w.epsilon, Objects: m.people.Members(region)}
}

// regions returns the panels that a wish is about.
func (m *market) regions(w wish) []string {
	if w.region != "" {
		return []string{w.region}
	}
	return m.people.Regions()
}

// key is the idempotency key of what is done today for a wish in a region.
func (m *market) key(what string, w wish, region string) string {
	return fmt.Sprintf("day %d: %s for %s, %s in the %s at %s", m.calendar.today(), what, w.buyer, w.question, region, w.epsilon)
}

// purchase is a wish that was fulfilled, by one sale a region.
type purchase struct {
	wish
	day     int
	sales   []api.Sale
	refused []api.Refusal // who was left out, of all sales
}

// buy sells to whom it may, a region at a time, leaving out the others. Quotes, if there are any, must be
// kept.
func (m *market) buy(ctx context.Context, w wish, quotes ...api.Quote) (purchase, error) {
	p := purchase{wish: w, day: m.calendar.today()}
	for i, region := range m.regions(w) {
		r := api.SellRequest{Key: m.key("sale", w, region), Order: m.order(w, region), Partial: true, Truth: m.people.Truth}
		if len(quotes) > 0 {
			r.QuoteID = quotes[i].ID
		}
		sale, err := m.ledger.Sell(ctx, r)
		if err != nil {
			return p, err
		}
		p.sales, p.refused = append(p.sales, sale), append(p.refused, sale.Refused...)
	}
	m.purchases = append(m.purchases, p)
	return p, nil
}

// quote asks what a wish would cost, region by region.
func (m *market) quote(ctx context.Context, w wish) (quotes []api.Quote, err error) {
	for _, region := range m.regions(w) {
		q, err := m.ledger.Quote(ctx, m.order(w, region))
		if err != nil {
			return nil, err
		}
		quotes = append(quotes, q)
	}
	return quotes, nil
}

// sums adds up the sales of a purchase.
func (p purchase) sums() (sum api.Sale) {
	for _, s := range p.sales {
		sum.Price += s.Price
		sum.Objects += s.Objects
		sum.Draws += s.Draws
		sum.Resales += s.Resales
		sum.Degradations += s.Degradations
		sum.Insertions += s.Insertions
		sum.Upgrades += s.Upgrades
	}
	return sum
}

// reasons are why somebody may be left out here, in the order of the columns of printOrders.
func reasons() []api.Reason {
	return []api.Reason{api.NotForSale, api.BuyerRefused, api.NotOnOffer, api.ChainCeiling, api.ObjectCap, api.Withdrawn}
}

// countReasons counts refusals in the order of [reasons].
func countReasons(refused []api.Refusal) ([]int, error) {
	counts := make([]int, len(reasons()))
	for _, r := range refused {
		i := slices.Index(reasons(), r.Reason)
		if i < 0 {
			return nil, fmt.Errorf("an unexpected refusal: %s", r)
		}
		counts[i]++
	}
	return counts, nil
}

func (m *market) printOrders(*books) error {
	fmt.Fprintln(m.out, "\nORDERS   How the answers came about, and why people were left out. Drawing costs ε and needs the truth;")
	fmt.Fprintln(m.out, "answers derived from those recorded above and below, and recorded ones resold, cost and need nothing.")
	table := m.table()
	fmt.Fprintln(table, left("day and buyer")+"\tquestion\tε\tdrawn\tderived\tresold\tnot for sale\tbarred\tnot on offer\tceiling\tcap\twithdrawn\t")
	for _, p := range m.purchases {
		sum := p.sums()
		counts, err := countReasons(p.refused)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t", left(fmt.Sprintf("%2d %s %s", p.day, p.buyer, p.region)), p.question, p.epsilon,
			sum.Draws, sum.Degradations+sum.Insertions, sum.Resales)
		for _, n := range counts {
			fmt.Fprintf(table, "%d\t", n)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}
