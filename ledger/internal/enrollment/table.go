package enrollment

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Table is a table of the host. Its rows are sorted by the names of the objects, and then by the
// numbers of the questions. They are in memory up to a limit, and beyond that in temporary files.
type Table struct {
	requests *request.Executor // of the ledger
	rows     *memtable.Table
	policies map[string]*policy.Policy // by text: valid policies of some rows, because many rows share few policies
}

const (
	tableMemory = 32 << 20 // about how many bytes of a table are in memory
	tableBucket = "rows"   // the bucket of the rows
	maxPolicies = 1024     // largest number of policies that are kept
)

// NewTable returns an empty table that can be compared with a ledger.
func NewTable(requests *request.Executor) (*Table, error) {
	rows, err := memtable.Over(bolt.NewTemporary(""), memtable.Options{Limit: tableMemory / 2, Newest: true})
	if err != nil {
		return nil, err
	}
	return &Table{requests: requests, rows: rows, policies: map[string]*policy.Policy{}}, nil
}

// Close closes the table and removes its temporary files.
func (t *Table) Close() error { return t.rows.Close() }

// row is an object in a question, with its terms.
type row struct {
	object   string
	question uint32
	policy   string // text of the policy; "" for none
	limit    privacy.Epsilon
	consent  string
}

// Add adds a row. terms.Policy must not be nil; the zero policy is none. Add returns
// [errs.ErrInvalid] for a second row of the same object and question, and for invalid names or
// terms. It returns [errs.ErrUnknown] for a question that the ledger does not have.
func (t *Table) Add(ctx context.Context, object, question string, terms Terms) error {
	if err := event.CheckName("object", object); err != nil {
		return err
	}
	if terms.Consent != "" {
		if err := event.CheckText("consent", terms.Consent); err != nil {
			return fmt.Errorf("object %q: %w", object, err)
		}
	}
	text := ""
	if !terms.Policy.IsZero() {
		text = terms.Policy.String()
	}
	if t.policies[text] == nil { // the kept policies were checked before
		if err := event.CheckPolicy(*terms.Policy); err != nil {
			return err
		}
		t.keep(text, terms.Policy)
	}
	q, err := t.requests.Question(ctx, question)
	if err != nil {
		return err
	}
	key := state.MemberKey(object, q.Number)
	e := &wire.Encoder{}
	e.Text(text)
	e.Epsilon(terms.Cap)
	e.Text(terms.Consent)
	return t.rows.Update(func(w kv.Writer) error {
		before, err := w.Get(tableBucket, key)
		if err == nil && before != nil {
			err = errs.Invalid("the table has two rows for object %q in question %q", object, question)
		}
		if err != nil {
			return err
		}
		return w.Put(tableBucket, key, e.Buf)
	})
}

// keep keeps a policy under its text for later rows. It first drops all kept policies if there are
// maxPolicies.
func (t *Table) keep(text string, p *policy.Policy) {
	if len(t.policies) >= maxPolicies {
		clear(t.policies)
	}
	t.policies[text] = p
}

// terms returns the terms of a row. It parses the policy only if it is not among those that are
// kept.
func (t *Table) terms(r row) (Terms, error) {
	under := t.policies[r.policy]
	if under == nil {
		p := policy.Policy{}
		if r.policy != "" {
			var err error
			if p, err = policy.Parse([]byte(r.policy)); err != nil {
				return Terms{}, err
			}
		}
		under = &p
		t.keep(r.policy, under)
	}
	return Terms{Policy: under, Cap: r.limit, Consent: r.consent}, nil
}

// cursor reads the rows of a table in their order, from the first to the last.
type cursor struct {
	walk *kv.Walk
	next row // valid if more is set
	more bool
}

// open returns a cursor at the first row. Each part of the walk reads the table in a view of its
// own.
func (t *Table) open() (*cursor, error) {
	c := &cursor{walk: kv.NewWalk(nil, func(from []byte, visit func(key, value []byte) bool) error {
		return t.rows.View(func(r kv.Reader) error { return r.Scan(tableBucket, from, visit) })
	})}
	return c, c.step()
}

// step moves to the next row: it sets c.next, or c.more to false after the last row. The key is
// that of [state.MemberKey]: the name, a zero byte, and four bytes for the question.
func (c *cursor) step() error {
	key, value, err := c.walk.Next()
	if c.more = key != nil; err != nil || !c.more {
		return err
	}
	name, question, found := strings.Cut(string(key), "\x00")
	if !found || len(question) != 4 {
		return errors.New("a row of the temporary table has an invalid key")
	}
	d := &wire.Decoder{Rest: value}
	c.next = row{name, binary.BigEndian.Uint32([]byte(question)), d.Text(), d.Epsilon(), d.Text()}
	return d.Done()
}

// rowsOf returns the rows of an object and moves after them, if the cursor is at its first row.
// Otherwise it returns none and does not move.
func (c *cursor) rowsOf(object string) (rows []row, err error) {
	for c.more && c.next.object == object && err == nil {
		rows = append(rows, c.next)
		err = c.step()
	}
	return rows, err
}
