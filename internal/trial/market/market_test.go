package market

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// The buyers.
const (
	atlas  = "Atlas"
	beacon = "Beacon"
	cobalt = "Cobalt"
)

// market is the host: it knows the truth, and it opens the ledger.
type market struct {
	out       io.Writer
	people    health
	offers    []*offer          // all kinds of terms
	offerOf   map[string]*offer // by person
	calendar  *calendar
	ledger    *ledger.Ledger
	purchases []purchase
	quoted    []api.Quote     // what Atlas was told on day 10
	reserved  api.Reservation // the latest
	quitter   string          // who withdraws
	dir       string          // for the ledger and its backup
	keys      keys
	witness   witness
}

func newMarket(out io.Writer, people health) (*market, error) {
	m := &market{out: out, people: people, calendar: newCalendar()}
	var err error
	if m.offers, err = allOffers(m.calendar); err != nil {
		return nil, err
	}
	m.offerOf = drawOffers(m.offers, people.People)
	m.keys, err = newKeys()
	return m, err
}

func questions() []string { return []string{insured, healthy} }

// run lets the month pass and closes the books. A subscriber keeps books of its own meanwhile.
func (m *market) run(ctx context.Context) (*books, error) {
	if err := m.printOffers(); err != nil {
		return nil, err
	}
	s := newSubscriber()
	stop := s.start(ctx, m.ledger)
	if err := errors.Join(m.month(ctx), stop()); err != nil {
		return nil, err
	}
	b, err := m.closeBooks(ctx)
	if err != nil {
		return nil, err
	}
	b.subscriber = s
	if err := s.catchUp(ctx, m.ledger, b.stats.Events); err != nil {
		return nil, err
	}
	b.evidence, err = m.prove(ctx, b)
	return b, err
}

// report checks the books and prints what they say.
func (m *market) report(b *books) error {
	if err := b.check(); err != nil {
		return err
	}
	for _, print := range []func(*books) error{
		m.printOrders, m.printEstimates, m.printPooling, m.printInvoices, m.printStatements, m.printBudgets, m.printTotals, m.printEvidence,
	} {
		if err := print(b); err != nil {
			return err
		}
	}
	return nil
}

func (m *market) table() *tabwriter.Writer {
	return tabwriter.NewWriter(m.out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// tell prints what happened on the day that it is.
func (m *market) tell(format string, values ...any) {
	fmt.Fprintf(m.out, "day %2d  %s\n", m.calendar.today(), fmt.Sprintf(format, values...))
}

// left pads the first column of a table, whose other columns are aligned to the right.
func left(text string) string { return fmt.Sprintf("%-18s", text) }

// money writes an amount in cents.
func money(cents int64) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }

// epsilon reads a constant of this program.
func epsilon(text string) privacy.Epsilon {
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		panic(err)
	}
	return e
}

// nats makes an ε of a number of nano-nats that is one by construction.
func nats(nano int64) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(nano)
	if err != nil {
		panic(err)
	}
	return e
}
