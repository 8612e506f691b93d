package enrollment

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Table is a table of the host's, put in order: of objects by their names, and of each by the
// numbers of the questions. It is in memory up to a bound, and beyond that in temporary files.
type Table struct {
	engine    *engine.Engine
	question  func(context.Context, string) (*event.Question, error) // by its name
	rows      *memtable.Table
	questions map[string]uint32 // few questions and policies are in many rows
	policies  map[string]row
}

const (
	tableMemory = 32 << 20 // about how many bytes of a table are in memory
	tableBucket = "rows"   // where they are
	mostKnown   = 1024     // how many policies are remembered
)

// NewTable returns an empty one, for a ledger with an engine. Questions are found by a function.
func NewTable(e *engine.Engine, question func(context.Context, string) (*event.Question, error)) (*Table, error) {
	rows, err := memtable.Over(bolt.NewTemporary(""), memtable.Options{Limit: tableMemory / 2, Newest: true})
	if err != nil {
		return nil, err
	}
	return &Table{engine: e, question: question, rows: rows, questions: map[string]uint32{}, policies: map[string]row{}}, nil
}

// Close removes it, with its files.
func (t *Table) Close() error { return t.rows.Close() }

// row is an object in a question, with its terms. A policy that the ledger has is told by its
// number, another one by its text.
type row struct {
	object   string
	question uint32
	number   uint32 // of the policy, 0 for none; unless there is a text
	text     string
	limit    privacy.Epsilon
	consent  string
}

// Add adds a row, with a policy. The same object twice in a question is [errs.ErrInvalid], and so
// is what cannot be.
func (t *Table) Add(ctx context.Context, object, question string, terms Terms) error {
	if err := check(object, terms); err != nil {
		return err
	}
	r, err := t.under(ctx, *terms.Policy)
	if err != nil {
		return err
	}
	if r.question, err = t.numberOf(ctx, question); err != nil {
		return err
	}
	key := state.MemberKey(object, r.question)
	e := &wire.Encoder{}
	e.U32(r.number)
	e.Text(r.text)
	e.Epsilon(terms.Cap)
	e.Text(terms.Consent)
	return t.rows.Update(func(w kv.Writer) error {
		before, err := w.Get(tableBucket, key)
		if err == nil && before != nil {
			err = errs.Invalid("object %q is twice in the table, in question %q", object, question)
		}
		if err != nil {
			return err
		}
		return w.Put(tableBucket, key, e.Buf)
	})
}

func check(object string, terms Terms) error {
	if err := event.CheckName("object", object); err != nil {
		return err
	}
	if terms.Consent != "" {
		if err := event.CheckText("consent", terms.Consent); err != nil {
			return fmt.Errorf("object %q: %w", object, err)
		}
	}
	return nil
}

// numberOf returns the number of a question.
func (t *Table) numberOf(ctx context.Context, name string) (uint32, error) {
	if number, known := t.questions[name]; known {
		return number, nil
	}
	q, err := t.question(ctx, name)
	if err != nil {
		return 0, err
	}
	t.questions[name] = q.Number
	return q.Number, nil
}

// under returns what a row says of a policy: its number or, if the ledger has it not yet, its text.
func (t *Table) under(ctx context.Context, p policy.Policy) (r row, err error) {
	if p.IsZero() {
		return r, nil
	}
	r, known := t.policies[p.String()]
	if known {
		return r, nil
	}
	err = t.engine.View(ctx, func(s *state.State) (err error) {
		r.number, known, err = s.PolicyNumber(p)
		return err
	})
	if err == nil && !known {
		r.text = p.String()
		err = event.CheckPolicy(p)
	}
	if err != nil {
		return r, err
	}
	if len(t.policies) >= mostKnown {
		clear(t.policies)
	}
	t.policies[p.String()] = r
	return r, nil
}

// cursor reads a table from its beginning.
type cursor struct {
	walk *kv.Walk
	next row // if there is one
	more bool
}

// open begins to read the table.
func (t *Table) open() (*cursor, error) {
	c := &cursor{walk: kv.NewWalk(nil, func(from []byte, visit func(key, value []byte) bool) error {
		return t.rows.View(func(r kv.Reader) error { return r.Scan(tableBucket, from, visit) })
	})}
	return c, c.step()
}

// step goes on to the next row.
func (c *cursor) step() error {
	key, value, err := c.walk.Next()
	if c.more = key != nil; err != nil || !c.more {
		return err
	}
	name, question, found := strings.Cut(string(key), "\x00")
	if !found || len(question) != 4 {
		return errors.New("a row of the table has a key that none has")
	}
	d := &wire.Decoder{Rest: value}
	c.next = row{name, binary.BigEndian.Uint32([]byte(question)), d.U32(), d.Text(), d.Epsilon(), d.Text()}
	return d.Done()
}

// rowsOf appends the rows of an object, if the next are such.
func (c *cursor) rowsOf(object string, into []row) ([]row, error) {
	for c.more && c.next.object == object {
		into = append(into, c.next)
		if err := c.step(); err != nil {
			return into, err
		}
	}
	return into, nil
}

// terms returns those of a row.
func (r *row) terms(s *state.State) (Terms, error) {
	p := policy.Policy{}
	var err error
	switch {
	case r.text != "":
		p, err = policy.Parse([]byte(r.text))
	case r.number != 0:
		p, err = s.Policy(r.number)
	}
	return Terms{Policy: &p, Cap: r.limit, Consent: r.consent}, err
}
