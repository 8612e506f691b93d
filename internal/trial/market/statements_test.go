package market

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// item is a line of an invoice: the sales of one day, question and ε.
type item struct {
	day              int
	question         string
	epsilon          privacy.Epsilon
	people           uint64
	upgrades         uint64
	full, difference int64
}

// invoice folds the sales to a buyer.
func (m *market) invoice(b *books, buyer string) (items []item) {
	for _, sale := range b.sales {
		if sale.Buyer != buyer {
			continue
		}
		next := item{day: m.calendar.day(sale.Time), question: sale.Question, epsilon: sale.Epsilon}
		if last := len(items) - 1; last < 0 || items[last].day != next.day || items[last].question != next.question {
			items = append(items, next)
		}
		one := &items[len(items)-1]
		one.people += sale.Objects
		one.upgrades += sale.Upgrades
		one.difference += sale.Price
		for _, delivery := range b.deliveries[sale.Number] {
			one.full += m.offerOf[delivery.Object].policy.Terms().Price(sale.Epsilon)
		}
	}
	return items
}

func (m *market) printInvoices(b *books) error {
	fmt.Fprintln(m.out, "\nINVOICES   Who holds a person's answer at a lower ε pays the difference.")
	table := m.table()
	fmt.Fprintln(table, left("buyer")+"\tday\tquestion\tε\tpeople\tupgrades\tfull price\tpaid before\tto pay\tin all\t")
	for _, buyer := range b.buyers {
		items, sum := m.invoice(b, buyer.Buyer), ""
		for i, one := range items {
			if i == len(items)-1 {
				sum = money(buyer.Paid)
			}
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t\n", left(buyer.Buyer), one.day, one.question, one.epsilon,
				one.people, one.upgrades, money(one.full), money(one.full-one.difference), money(one.difference), sum)
		}
	}
	return table.Flush()
}

// printStatements shows the accounts of four people, and one of them line by line.
func (m *market) printStatements(b *books) error {
	top, median := m.earners(b)
	donor, err := m.someone("west", "donor")
	if err != nil {
		return err
	}
	fmt.Fprintln(m.out, "\nSTATEMENTS   What four people have earned, and what it has cost them.")
	table := m.table()
	fmt.Fprintln(table, left("person")+"\tterms\tsold to\tanswers sold\tearned\tspent\tof\t   who")
	for _, one := range []struct{ person, who string }{
		{top, "earned most"}, {median, "the median of those who sell"}, {m.quitter, "withdrew on day 14"}, {donor, "is not for sale"},
	} {
		state, sold, buyers := b.person(one.person), 0, map[string]bool{}
		for _, n := range b.subscriber.accounts[one.person].lines {
			if n.buyer != "" {
				sold, buyers[n.buyer] = sold+1, true
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\tε = %s\t%s\t   %s\n", left(one.person), m.offerOf[one.person].name,
			buyerCount(len(buyers)), sold, money(state.Earned), state.Spent, state.Cap, one.who)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return m.printStatement(b, top)
}

func buyerCount(n int) string {
	switch n {
	case 0:
		return "nobody"
	case 1:
		return "1 buyer"
	default:
		return fmt.Sprintf("%d buyers", n)
	}
}

// printStatement shows an account line by line. It comes from the subscriber, who has seen every event.
func (m *market) printStatement(b *books, person string) error {
	fmt.Fprintf(m.out, "The account of person %s line by line:\n", person)
	table := m.table()
	fmt.Fprintln(table, left("day and buyer")+"\tquestion\tε\tanswer\tearned\tspent\t")
	a := account{current: map[string]privacy.Epsilon{}}
	for _, n := range b.subscriber.accounts[person].lines {
		before := a.spent()
		a.add(n)
		who := fmt.Sprintf("%2d %s", m.calendar.day(n.at), cmp.Or(n.buyer, "nobody yet"))
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\tε = %s\t\n", left(who), n.question, n.epsilon, manner(n.method), money(n.price), nats(a.spent().Nano()-before.Nano()))
	}
	return table.Flush()
}

// manner puts in words how an answer came about.
func manner(method string) string {
	return map[string]string{"raise": "drawn", "degrade": "derived", "insert": "derived", "resale": "resold"}[method]
}

// earners returns who earned most, and who is in the middle of those whose answers are for sale.
func (m *market) earners(b *books) (top, median string) {
	var sellers []api.ObjectState
	for _, person := range b.people {
		if m.offerOf[person.Object].sold() {
			sellers = append(sellers, person)
		}
	}
	slices.SortStableFunc(sellers, func(x, y api.ObjectState) int { return cmp.Compare(y.Earned, x.Earned) })
	return sellers[0].Object, sellers[len(sellers)/2].Object
}

// person returns the state of one person.
func (b *books) person(name string) api.ObjectState {
	i := slices.IndexFunc(b.people, func(s api.ObjectState) bool { return s.Object == name })
	return b.people[i]
}

// printBudgets shows what is left of the budgets, and what fresh answers would have cost.
func (m *market) printBudgets(b *books) error {
	fmt.Fprintln(m.out, "\nBUDGETS   What is left of them, what a person would have spent had every answer been drawn afresh, and how")
	fmt.Fprintln(m.out, "many that would have put over budget. The ledger charges only the highest level of each question.")
	table := m.table()
	fmt.Fprintln(table, left("terms")+"\tbudget\tleft: least\tmedian\tmost\tafresh: median\tmost\tover budget\tearned: median\t")
	for _, o := range m.offers {
		m.budgetRow(table, b, o)
	}
	return table.Flush()
}

// budgetRow is the row of one kind of terms.
func (m *market) budgetRow(out io.Writer, b *books, o *offer) {
	var remaining, afresh, earned []int64
	over := 0
	for _, person := range b.people {
		if m.offerOf[person.Object] != o {
			continue
		}
		fresh := b.subscriber.accounts[person.Object].fresh
		remaining, afresh, earned = append(remaining, person.Remaining.Nano()), append(afresh, fresh), append(earned, person.Earned)
		if fresh > o.cap.Nano() {
			over++
		}
	}
	for _, list := range [][]int64{remaining, afresh, earned} {
		slices.Sort(list)
	}
	middle, last := len(earned)/2, len(earned)-1
	fmt.Fprintf(out, "%s\tε = %s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t\n", left(o.name), o.cap, nats(remaining[0]), nats(remaining[middle]), nats(remaining[last]),
		nats(afresh[middle]), nats(afresh[last]), over, money(earned[middle]))
}

// printTotals closes the month.
func (m *market) printTotals(b *books) error {
	spent, afresh := 0.0, 0.0
	for _, person := range b.people {
		spent += person.Spent.Float64()
		afresh += float64(b.subscriber.accounts[person.Object].fresh) / 1e9
	}
	n := float64(len(b.people))
	fmt.Fprintln(m.out, "\nIN ALL")
	fmt.Fprintf(m.out, "The sellers earned %s, the invoices come to %s, and the ledger's revenue is %s: the same.\n", money(b.earned()), money(b.invoiced()), money(b.stats.Revenue))
	fmt.Fprintf(m.out, "On average each person spent ε = %.2f; fresh answers would have taken %.2f.\n", spent/n, afresh/n)
	_, err := fmt.Fprintf(m.out, "The subscriber handled all %d events and came to the same earnings, payments and budgets as the ledger.\n", b.subscriber.last)
	return err
}
