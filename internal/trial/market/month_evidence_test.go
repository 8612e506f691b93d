package market

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
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

// keys sign the log. The host keeps the signer, and the public key is known to all.
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

// verifiers returns what a verifier knows of the host.
func (k keys) verifiers() (note.Verifiers, error) {
	verifier, err := note.NewVerifier(k.public)
	if err != nil {
		return nil, err
	}
	return note.VerifierList(verifier), nil
}

// witness keeps the newest checkpoint, and does not trust the host.
type witness struct {
	mu     sync.Mutex
	newest []byte
}

// keep is called by the ledger.
func (w *witness) keep(_ context.Context, checkpoint []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest = bytes.Clone(checkpoint)
	return nil
}

// proofs are the results of the verifications at the end.
type proofs struct {
	receipt, altered evidence.Checked // of the largest sale, unchanged and with one answer altered
	sale             evidence.Receipt
	statement        evidence.Checked // of the person who earned most
	stated           evidence.Statement
	audit            api.Verification
	rollback         *api.RollbackError // of the backup of day 12, opened as if it were the ledger
	afterwards       evidence.Checked   // the same receipt, after a person in it was forgotten
	again            api.Verification
}

// prove verifies all evidence as its holders do.
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
	top := b.topEarner()
	if e.stated, err = m.ledger.Statement(ctx, api.ObjectRequest{Key: "statement for " + top, Object: top}); err != nil {
		return nil, err
	}
	e.statement = e.stated.Verify(verifiers)
	if e.audit, err = m.audit(ctx, verifiers); err != nil {
		return nil, err
	}
	if err := m.ledger.Forget(ctx, api.ObjectRequest{Key: "forget", Object: m.withdrawn}); err != nil {
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

// buyersReceipt returns the receipt of the largest sale that includes the person who withdrew.
func (m *market) buyersReceipt(ctx context.Context, b *books) ([]byte, error) {
	largest := uint64(0)
	most := 0
	for _, sale := range b.sales {
		for _, one := range b.deliveries[sale.Number] {
			if one.Object == m.withdrawn && len(b.deliveries[sale.Number]) > most {
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

// verifyAltered changes one answer of a receipt and verifies it.
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

// audit verifies the whole ledger against the newest checkpoint of the witness.
func (m *market) audit(ctx context.Context, verifiers note.Verifiers) (api.Verification, error) {
	m.witness.mu.Lock()
	newest := m.witness.newest
	m.witness.mu.Unlock()
	return m.ledger.Verify(ctx, api.VerifyRequest{Checkpoints: [][]byte{newest}, Verifiers: verifiers})
}

func (m *market) backupFile() string { return filepath.Join(m.dir, "backup.db") }

// openBackup tries to open the backup of day 12, which lacks the later sales.
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
		err = errors.Join(errors.New("open an old backup with a newer checkpoint: it should be refused"), l.Close())
	}
	return nil, err
}

// check returns an error if some evidence is not as it should be.
func (e *proofs) check() error {
	switch {
	case !e.receipt.OK() || !e.afterwards.OK() || !e.statement.OK():
		return fmt.Errorf("valid evidence does not verify: receipt %v, after forgetting %v, statement %v", e.receipt.Faults, e.afterwards.Faults, e.statement.Faults)
	case e.altered.OK():
		return errors.New("an altered receipt verifies")
	case e.audit.Problems+e.again.Problems > 0:
		return fmt.Errorf("the audits found %d and %d problems", e.audit.Problems, e.again.Problems)
	}
	return nil
}

// person returns the state of one person.
func (b *books) person(name string) api.ObjectState {
	i := slices.IndexFunc(b.people, func(s api.ObjectState) bool { return s.Object == name })
	return b.people[i]
}

// subscriber follows the log and keeps its own accounts, from the events alone.
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
	lines   []line
}

// line is one answer that was drawn or sold. buyer is "" for a draw by the calendar.
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
		return fmt.Errorf("subscriber follows the log: %w", err)
	}
}

// catchUp handles the events after the last one handled, through a number.
func (s *subscriber) catchUp(ctx context.Context, l *ledger.Ledger, through uint64) error {
	if s.last == through {
		return nil
	}
	return s.follow(ctx, l, through)
}

// follow handles the events after the last one handled, through a number or until ctx ends.
func (s *subscriber) follow(ctx context.Context, l *ledger.Ledger, through uint64) error {
	for ev, err := range l.Watch(ctx, s.last+1) {
		if err != nil {
			return err
		}
		if ev.Number != s.last+1 {
			return fmt.Errorf("follow the log: event %d came after event %d", ev.Number, s.last)
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

// add adds one answer. Only the highest level of a question costs.
func (a *account) add(n line) {
	a.lines = append(a.lines, n)
	a.earned += n.price
	if a.current[n.question].Less(n.epsilon) {
		a.current[n.question] = n.epsilon
	}
}

// spent returns the sum of the highest levels.
func (a *account) spent() privacy.Epsilon {
	sum := int64(0)
	for _, current := range a.current {
		sum += current.Nano()
	}
	return nats(sum)
}
