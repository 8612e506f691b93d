package market

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/privacy"
)

// keys sign the log. The host keeps the first; everybody has the second.
type keys struct {
	signer note.Signer
	public string
}

func newKeys() (k keys, err error) {
	secret, public, err := note.GenerateKey(rand.Reader, "datamarket.example")
	if err != nil {
		return k, err
	}
	k.public = public
	k.signer, err = note.NewSigner(secret)
	return k, err
}

// verifiers is all that somebody who verifies has of the host.
func (k keys) verifiers() (note.Verifiers, error) {
	verifier, err := note.NewVerifier(k.public)
	if err != nil {
		return nil, err
	}
	return note.VerifierList(verifier), nil
}

// witness is somebody who keeps the newest checkpoint, and does not trust the host.
type witness struct {
	mu     sync.Mutex
	newest []byte
	kept   int
}

// keep is called by the ledger.
func (w *witness) keep(_ context.Context, checkpoint []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest, w.kept = bytes.Clone(checkpoint), w.kept+1
	return nil
}

// proofs is what the people of the market have in the end.
type proofs struct {
	receipt, altered evidence.Checked // of the largest sale, as it is and with one answer altered
	sale             evidence.Receipt
	statement        evidence.Checked // of the person who earned most
	stated           evidence.Statement
	audit            api.Verification
	rollback         *api.RollbackError // of the backup of day 12, opened as if it were the ledger
	afterwards       evidence.Checked   // the same receipt, after a person in it was forgotten
	again            api.Verification
}

// prove has everybody verify what they have. The ledger is closed behind it.
func (m *market) prove(ctx context.Context, b *books) (*proofs, error) {
	e := &proofs{}
	verifiers, err := m.keys.verifiers()
	if err != nil {
		return nil, err
	}
	receipt, err := m.buyersReceipt(ctx, b)
	if err != nil {
		return nil, err
	}
	if e.sale, err = evidence.ReadReceipt(receipt); err != nil {
		return nil, err
	}
	e.receipt = e.sale.Verify(verifiers)
	if e.altered, err = verifyAltered(receipt, verifiers); err != nil {
		return nil, err
	}
	top, _ := m.earners(b)
	if e.stated, err = m.ledger.Statement(ctx, "statement for "+top, top); err != nil {
		return nil, err
	}
	e.statement = e.stated.Verify(verifiers)
	if e.audit, err = m.audit(ctx, verifiers); err != nil {
		return nil, err
	}
	if err := m.ledger.Forget(ctx, "forget", m.quitter); err != nil {
		return nil, err
	}
	if err := m.ledger.Compact(ctx, nil); err != nil {
		return nil, err
	}
	e.afterwards = e.sale.Verify(verifiers)
	if e.again, err = m.audit(ctx, verifiers); err != nil {
		return nil, err
	}
	e.rollback, err = m.openBackup(verifiers)
	return e, err
}

// buyersReceipt returns the receipt of the largest sale that the person who withdrew was part of.
func (m *market) buyersReceipt(ctx context.Context, b *books) ([]byte, error) {
	largest := uint64(0)
	most := 0
	for _, sale := range b.sales {
		for _, one := range b.deliveries[sale.Number] {
			if one.Object == m.quitter && len(b.deliveries[sale.Number]) > most {
				largest, most = sale.Number, len(b.deliveries[sale.Number])
			}
		}
	}
	receipt, err := m.ledger.Receipt(ctx, largest)
	if err != nil {
		return nil, err
	}
	return json.Marshal(receipt)
}

// verifyAltered turns one answer of a receipt around.
func verifyAltered(receipt []byte, verifiers note.Verifiers) (evidence.Checked, error) {
	r, err := evidence.ReadReceipt(receipt)
	if err != nil {
		return evidence.Checked{}, err
	}
	one := &r.Responses[len(r.Responses)/2]
	for _, value := range r.Values {
		if value != one.Response {
			one.Response = value
			break
		}
	}
	return r.Verify(verifiers), nil
}

// audit verifies the whole ledger against the newest checkpoint that the witness has.
func (m *market) audit(ctx context.Context, verifiers note.Verifiers) (api.Verification, error) {
	m.witness.mu.Lock()
	newest := m.witness.newest
	m.witness.mu.Unlock()
	return m.ledger.Verify(ctx, api.VerifyRequest{Checkpoints: [][]byte{newest}, Verifiers: verifiers})
}

// backup copies the ledger, on day 12.
func (m *market) backup(ctx context.Context) error {
	made, err := m.ledger.Backup(ctx, m.backupFile(), nil)
	if err == nil {
		m.tell("A backup is made while the market is open, and verified: %d events.", made.Events)
	}
	return err
}

func (m *market) backupFile() string { return filepath.Join(m.dir, "backup.db") }

// openBackup tries to go on with the backup of day 12, in which the sales since are not recorded.
func (m *market) openBackup(verifiers note.Verifiers) (*api.RollbackError, error) {
	m.witness.mu.Lock()
	newest := m.witness.newest
	m.witness.mu.Unlock()
	l, err := ledger.Open(context.Background(), m.backupFile(), ledger.Options{Checkpoint: newest, Verifiers: verifiers})
	var rolledBack *api.RollbackError
	if errors.As(err, &rolledBack) {
		return rolledBack, nil
	}
	if err == nil {
		err = errors.Join(errors.New("an old backup was opened as if nothing had happened since"), l.Close())
	}
	return nil, err
}

// check says what of the evidence is not as it should be.
func (e *proofs) check() error {
	switch {
	case !e.receipt.OK() || !e.afterwards.OK() || !e.statement.OK():
		return fmt.Errorf("the evidence is wrong: %v %v %v", e.receipt.Faults, e.afterwards.Faults, e.statement.Faults)
	case e.altered.OK():
		return errors.New("an altered receipt verifies")
	case e.audit.Problems+e.again.Problems > 0:
		return fmt.Errorf("the audits found %d and %d problems", e.audit.Problems, e.again.Problems)
	}
	return nil
}

func (m *market) printEvidence(b *books) error {
	e := b.evidence
	fmt.Fprintln(m.out, "\nEVIDENCE   What people can verify who trust nobody, with nothing but the market's public key.")
	fmt.Fprintf(m.out, "%s has the receipt of sale %d: %d answers to %q at ε = %s for %s, all in the log.\n",
		e.sale.Buyer, e.sale.Sale, e.sale.Objects, e.sale.Question, e.sale.Epsilon, money(e.sale.Price))
	fmt.Fprintf(m.out, "With one answer altered, the receipt does not verify:\n    %s\n", e.altered.Faults[0])
	fmt.Fprintf(m.out, "Person %s has a statement: %d answers sold for %s, ε = %s spent, and nothing left out up to event %d.\n",
		e.stated.Object, len(e.stated.Sales), money(e.stated.Earned), e.stated.Spent, e.stated.Event)
	fmt.Fprintf(m.out, "An auditor derives all accounts of %d people from %d events, which go on from the witness's newest checkpoint\n(it was given %d): %d problems.\n",
		e.audit.Objects, e.audit.Events, m.witness.kept, e.audit.Problems)
	fmt.Fprintf(m.out, "The backup of day 12 is no longer taken for the ledger:\n    %v\n", e.rollback)
	fmt.Fprintf(m.out, "Person %s, who withdrew, is forgotten: no answer is left in the file. The receipt verifies as before, and\nthe audit finds %d problems.\n",
		m.quitter, e.again.Problems)
	return nil
}

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
