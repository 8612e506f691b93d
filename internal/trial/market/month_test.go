package market

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
)

// script says what happens on which day, at noon.
func (m *market) script() map[int]func(context.Context) error {
	return map[int]func(context.Context) error{
		2:  m.buyAs(wish{atlas, insured, epsilon("0.5"), ""}, "buys"),
		3:  m.reserveWest,
		4:  m.refuseWest,
		5:  m.commitWest,
		8:  m.reserveSouth,
		10: m.comeTooLateAndQuote,
		11: m.honourQuote,
		12: m.backup,
		14: m.withdraw,
		22: m.buyAs(wish{beacon, insured, epsilon("1"), ""}, "buys"),
		24: m.buyAs(wish{cobalt, insured, epsilon("0.7"), ""}, "buys"),
		26: m.buyAs(wish{atlas, insured, epsilon("1"), ""}, "comes back and buys"),
		28: m.buyAs(wish{atlas, healthy, epsilon("1"), ""}, "comes back and buys"),
	}
}

// month lets thirty days pass: what policies release for free is drawn in the morning, and orders come at noon.
func (m *market) month(ctx context.Context) error {
	fmt.Fprintln(m.out, "\nTHE MONTH")
	m.calendar.set(1, 3)
	if err := m.enroll(ctx); err != nil {
		return err
	}
	script := m.script()
	for day := 1; day <= 30; day++ {
		m.calendar.set(day, 6)
		if err := m.sweep(ctx, day); err != nil {
			return err
		}
		m.calendar.set(day, 12)
		if act := script[day]; act != nil {
			if err := act(ctx); err != nil {
				return fmt.Errorf("day %d: %w", day, err)
			}
		}
	}
	return nil
}

// sweep draws what policies have released. On days 15 to 20 the host is being repaired.
func (m *market) sweep(ctx context.Context, day int) error {
	if day >= 15 && day <= 20 {
		return nil
	}
	result, err := m.ledger.Advance(ctx, api.AdvanceRequest{Key: fmt.Sprintf("sweep of day %d", day), Truth: m.people.Truth})
	if err != nil {
		return err
	}
	raised, refused := 0, []api.Refusal(nil)
	for _, q := range result.Questions {
		raised, refused = raised+q.Raised, append(refused, q.Refused...)
	}
	if len(refused) > 0 {
		return fmt.Errorf("an unexpected refusal: %s", refused[0])
	}
	if day == 21 {
		return m.tellCatchUp(ctx, raised)
	}
	return nil
}

// buyAs makes a step of the script of a purchase.
func (m *market) buyAs(w wish, verb string) func(context.Context) error {
	return func(ctx context.Context) error {
		p, err := m.buy(ctx, w)
		if err != nil {
			return err
		}
		m.tellPurchase(p, verb)
		return nil
	}
}

func (m *market) tellPurchase(p purchase, verb string) {
	sum := p.sums()
	upgrades := ""
	if sum.Upgrades > 0 {
		upgrades = fmt.Sprintf(" (%d upgrades)", sum.Upgrades)
	}
	m.tell("%s %s %s: %d people, %s%s.", p.buyer, verb, p.wish, sum.Objects, money(sum.Price), upgrades)
}

// west is what Beacon reserves, and Cobalt cannot have meanwhile.
func west(buyer string) wish { return wish{buyer, healthy, epsilon("1"), "west"} }

// reserveWest is for a buyer who pays by a slow bank: budget and price are held until the money is there.
func (m *market) reserveWest(ctx context.Context) (err error) {
	w := west(beacon)
	m.reserved, err = m.ledger.Reserve(ctx, api.ReserveRequest{
		Key: m.key("reservation", w, w.region), Order: m.order(w, w.region), For: 72 * time.Hour, Partial: true,
	})
	if err == nil {
		m.tell("%s reserves %s for three days: %d people, %s.", w.buyer, w, m.reserved.Objects, money(m.reserved.Price))
	}
	return err
}

func (m *market) commitWest(ctx context.Context) error {
	w := west(beacon)
	sale, err := m.ledger.Capture(ctx, api.CaptureRequest{
		Key: m.key("sale", w, w.region), Reservation: m.reserved.Number, Truth: m.people.Truth,
	})
	if err != nil {
		return err
	}
	p := purchase{w, m.calendar.today(), []api.Sale{sale}, m.reserved.Refused}
	m.purchases = append(m.purchases, p)
	m.tellPurchase(p, "pays, and gets")
	return nil
}

// refuseWest asks for everybody or nobody, and is told why it is nobody.
func (m *market) refuseWest(ctx context.Context) error {
	w := west(cobalt)
	_, err := m.ledger.Sell(ctx, api.SellRequest{Key: m.key("sale", w, w.region), Order: m.order(w, w.region), Truth: m.people.Truth})
	var refused *api.RefusedError
	if !errors.As(err, &refused) {
		return fmt.Errorf("the order should have been refused: %w", err)
	}
	counts, err := countReasons(refused.Refused)
	if err != nil {
		return err
	}
	var words []string
	for i, reason := range reasons() {
		if counts[i] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[i], reason))
		}
	}
	m.tell("%s wants %s, from all %d or not at all, and is refused:", w.buyer, w, len(m.people.Members(w.region)))
	fmt.Fprintf(m.out, "        %s. For example\n", strings.Join(words, ", "))
	i := slices.IndexFunc(refused.Refused, func(r api.Refusal) bool { return r.Reason == api.ChainCeiling })
	fmt.Fprintf(m.out, "        %s\n", refused.Refused[max(i, 0)])
	return nil
}

// reserveSouth is a reservation that nobody comes back for.
func (m *market) reserveSouth(ctx context.Context) error {
	w := wish{cobalt, healthy, epsilon("1"), "south"}
	var err error
	m.reserved, err = m.ledger.Reserve(ctx, api.ReserveRequest{
		Key: m.key("reservation", w, w.region), Order: m.order(w, w.region), For: 24 * time.Hour, Partial: true,
	})
	if err != nil {
		return err
	}
	rest, err := m.leftOfSouthern(ctx)
	if err != nil {
		return err
	}
	m.tell("%s reserves %s for one day: %d people, %s. %s.", w.buyer, w, m.reserved.Objects, money(m.reserved.Price), rest)
	return nil
}

// leftOfSouthern says what budget is left of a person whose budget is reserved.
func (m *market) leftOfSouthern(ctx context.Context) (string, error) {
	person, err := m.someone("south", "open")
	if err != nil {
		return "", err
	}
	state, err := m.ledger.Object(ctx, person)
	return fmt.Sprintf("Person %s has ε = %s left", person, state.Remaining), err
}

func (m *market) comeTooLateAndQuote(ctx context.Context) error {
	_, err := m.ledger.Capture(ctx, api.CaptureRequest{
		Key: "too late", Reservation: m.reserved.Number, Truth: m.people.Truth,
	})
	if !errors.Is(err, api.ErrNotReserved) {
		return fmt.Errorf("the reservation should have expired: %w", err)
	}
	rest, err := m.leftOfSouthern(ctx)
	if err != nil {
		return err
	}
	m.tell("%s comes to pay too late, and is refused: the reservation has expired. %s again.", m.reserved.Buyer, rest)
	w := quotedWish()
	if m.quoted, err = m.quote(ctx, w); err != nil {
		return err
	}
	people, price := total(m.quoted)
	m.tell("%s asks what %s costs. The quote: %d people, %s.", w.buyer, w, people, money(price))
	return nil
}

// quotedWish is what Atlas gets quotes for before it buys.
func quotedWish() wish { return wish{atlas, healthy, epsilon("0.5"), ""} }

func total(quotes []api.Quote) (people uint64, price int64) {
	for _, q := range quotes {
		people, price = people+q.Objects, price+q.Price
	}
	return people, price
}

// honourQuote tries a quote of yesterday, and then one of today, which is kept to the last cent.
func (m *market) honourQuote(ctx context.Context) error {
	w := quotedWish()
	_, err := m.buy(ctx, w, m.quoted...)
	var changed *api.QuoteError
	if !errors.As(err, &changed) {
		return fmt.Errorf("yesterday's quote should not hold: %w", err)
	}
	quotes, err := m.quote(ctx, w)
	if err != nil {
		return err
	}
	p, err := m.buy(ctx, w, quotes...)
	if err != nil {
		return err
	}
	for i, sale := range p.sales {
		if sale.Price != quotes[i].Price || sale.Objects != quotes[i].Objects {
			return fmt.Errorf("quoted were %d people for %d, and sold %d for %d", quotes[i].Objects, quotes[i].Price, sale.Objects, sale.Price)
		}
	}
	people, price := total(quotes)
	m.tell("The quote has lapsed: the patient have more for sale since midnight. A new one is kept: %d people, %s.", people, money(price))
	return nil
}

func (m *market) withdraw(ctx context.Context) (err error) {
	if m.quitter, err = m.someone("midwest", "open"); err != nil {
		return err
	}
	if err := m.ledger.Withdraw(ctx, "withdrawal of "+m.quitter, m.quitter); err != nil {
		return err
	}
	m.tell("Person %s (open) withdraws: what was sold stays sold, and nothing more will be.", m.quitter)
	return nil
}

// tellCatchUp tells of a late sweep, which leaves the levels that daily ones would have left.
func (m *market) tellCatchUp(ctx context.Context, raised int) error {
	person, err := m.someone("midwest", "donor")
	if err != nil {
		return err
	}
	state, err := m.ledger.Object(ctx, person)
	if err != nil {
		return err
	}
	var levels []string
	for _, level := range state.Chains[0].Levels {
		levels = append(levels, level.Epsilon.String())
	}
	m.tell("The first sweep after six days raises %d chains: person %s (donor) is at ε = %s now.", raised, person, strings.Join(levels, ", "))
	return nil
}
