package market

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
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
