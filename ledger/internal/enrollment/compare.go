package enrollment

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// Kind says what there is to do about an object in a question, or about an object.
type Kind int

const (
	Same    Kind = iota // it takes part on the terms of its row
	New                 // it is to be enrolled
	Changed             // it is to be put under the terms of its row
	Refused             // it would have to agree to them first
	Left                // it has withdrawn, or was forgotten: its row does not bring it back
	Dropped             // it takes part, and has rows, but not of this question
	Gone                // it takes part, and has no row at all; of no question
)

// Difference is what a comparison finds out about an object.
type Difference struct {
	Kind
	Object   string             // by name
	Question uint32             // 0 for [Gone]
	Terms    Terms              // of the row, where it has any
	Refusal  vocabulary.Refusal // of [Refused]
	// Later: of somebody [New] to the question whom the ledger knows, the cap is to be changed
	// behind the enrolment.
	Later bool
}

// Comparison compares a table with the ledger, object by object, in short snapshots.
type Comparison struct {
	*request.Executor                        // of the ledger
	Table             *Table                 // of the host
	AsOf              uint64                 // who was enrolled by a later event may be missing in the table
	Found             func(Difference) error // is called for each object and question, in order
	// Between is called between snapshots.
	Between func() error
	Present int // objects that take part in something

	rows   *cursor
	own    []row    // of the object that is looked at
	asked  []uint32 // the questions that it is listed in
	newer  []uint32 // those in which its terms are newer than the table
	seen   int      // records and rows in the snapshot
	before privacy.Epsilon
}

// perSnapshot is how many records and rows are looked at in one snapshot, about.
const perSnapshot = 4096

// Run compares.
func (x *Comparison) Run(ctx context.Context) (err error) {
	if x.rows, err = x.Table.open(); err != nil {
		return err
	}
	for from, more := []byte(nil), true; more; {
		if err := errs.Context(ctx); err != nil {
			return err
		}
		x.seen = 0
		err := x.Engine.View(ctx, func(s *state.State) (err error) {
			from, more, err = x.some(s, from)
			return err
		})
		if err == nil {
			err = x.Between()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listed is an object as its records stand one behind the other.
type listed struct {
	name string
	state.Object
	found bool
}

// some looks at the objects from a key on, and returns the key to go on with, if there is more.
func (x *Comparison) some(s *state.State, from []byte) (next []byte, more bool, err error) {
	var now listed
	var fault error
	full := false
	var sums wire.Sums
	err = s.Scan(state.BucketObjects, from, func(key, value []byte) bool {
		name, member, found := bytes.Cut(key, []byte{0})
		if len(member) == 4 && found {
			x.asked = append(x.asked, binary.BigEndian.Uint32(member))
			x.seen++
			return true
		}
		if fault = x.finish(s, &now); fault != nil {
			return false
		}
		// Rows of strangers who come before it may be many.
		if full, fault = x.strangers(s, string(name)); fault != nil || full {
			next = bytes.Clone(key)
			return false
		}
		payload, err := sums.Unseal(state.BucketObjects, key, value)
		if err == nil {
			now.Object, err = state.DecodeObject(payload)
		}
		now.name, now.found, fault = string(name), true, err
		x.seen++
		return fault == nil
	})
	if err == nil {
		err = fault
	}
	if err != nil || full {
		return next, full, err
	}
	if err := x.finish(s, &now); err != nil {
		return nil, false, err
	}
	full, err = x.strangers(s, "")
	return []byte{0xff}, full, err // no name begins with this byte
}

// strangers looks at the rows of those whom the ledger does not know, up to an object, or all of
// them if that is "". It tells whether the snapshot has lasted long enough.
func (x *Comparison) strangers(s *state.State, object string) (full bool, err error) {
	for x.rows.more && (object == "" || x.rows.next.object < object) {
		if x.seen >= perSnapshot {
			return true, nil
		}
		name := x.rows.next.object
		if x.own, err = x.rows.rowsOf(name, x.own[:0]); err != nil {
			return false, err
		}
		x.seen += len(x.own)
		if err := x.person(s, name, listed{}); err != nil {
			return false, err
		}
	}
	return x.seen >= perSnapshot, nil
}

// finish looks at an object whose records were read, with its rows.
func (x *Comparison) finish(s *state.State, now *listed) (err error) {
	if !now.found {
		return nil
	}
	if x.own, err = x.rows.rowsOf(now.name, x.own[:0]); err != nil {
		return err
	}
	x.seen += len(x.own)
	err = x.person(s, now.name, *now)
	x.asked, now.found = x.asked[:0], false
	return err
}

// person compares the questions of an object with its rows. Both are in order.
func (x *Comparison) person(s *state.State, name string, o listed) error {
	if err := checkCaps(name, x.own); err != nil {
		return err
	}
	if err := x.keepNewer(s, o); err != nil {
		return err
	}
	if err := x.shareConsent(s, name, o); err != nil {
		return err
	}
	x.before = o.Cap
	part, dropped := partNone, []uint32(nil)
	rows := x.own
	for _, question := range x.asked {
		c, found, err := s.Chain(question, name)
		if err != nil || !found {
			return errs.Corrupt(err, "object %q has lost its chain in question %d", name, question)
		}
		in := !o.Withdrew(c)
		if in && part != partNew {
			if part = partOld; c.Enrolled > x.AsOf {
				part = partNew
			}
		}
		for len(rows) > 0 && rows[0].question < question {
			if err := x.compareNew(s, name, o, rows[0]); err != nil {
				return err
			}
			rows = rows[1:]
		}
		has := len(rows) > 0 && rows[0].question == question
		switch {
		case has:
			err = x.compare(s, name, in, c, rows[0])
			rows = rows[1:]
		case in:
			dropped = append(dropped, question)
		}
		if err != nil {
			return err
		}
	}
	for _, row := range rows {
		if err := x.compareNew(s, name, o, row); err != nil {
			return err
		}
	}
	return x.missing(name, part, dropped)
}

// keepNewer finds out in what an object was put under other terms after the table began to be read.
// They stay, and the cap with them.
func (x *Comparison) keepNewer(s *state.State, o listed) (err error) {
	x.newer = nil
	if !o.found || o.Latest <= x.AsOf {
		return nil
	}
	if x.newer, err = s.TermsChangedSince(o.Object, x.AsOf); len(x.newer) > 0 {
		for i := range x.own {
			x.own[i].limit = privacy.Epsilon{}
		}
	}
	return err
}

// shareConsent leaves a higher cap to the rows that have the consent of the object, if there are
// any: it is over all questions.
func (x *Comparison) shareConsent(s *state.State, name string, o listed) error {
	agreed := false
	for _, row := range x.own {
		if row.consent == "" || !o.Cap.Less(row.limit) || !o.found {
			continue
		}
		c, found, err := s.Chain(row.question, name)
		if err != nil {
			return err
		}
		agreed = agreed || !found || !o.Withdrew(c)
	}
	for i := range x.own {
		if agreed && x.own[i].consent == "" {
			x.own[i].limit = privacy.Epsilon{}
		}
	}
	return nil
}

// missing tells what an object takes part in and has no rows of.
func (x *Comparison) missing(name string, in part, dropped []uint32) error {
	if in != partNone {
		x.Present++
	}
	if len(x.own) == 0 {
		if in != partOld {
			return nil
		}
		return x.Found(Difference{Kind: Gone, Object: name})
	}
	for _, question := range dropped {
		if err := x.Found(Difference{Kind: Dropped, Object: name, Question: question}); err != nil {
			return err
		}
	}
	return nil
}

// checkCaps refuses rows of an object that give it several caps.
func checkCaps(name string, rows []row) error {
	limit := privacy.Epsilon{}
	for _, row := range rows {
		if !row.limit.IsZero() && !limit.IsZero() && row.limit != limit {
			return errs.Invalid("object %q has the cap %s in one row of the table, and %s in another: a cap is over all questions", name, limit, row.limit)
		}
		if limit.IsZero() {
			limit = row.limit
		}
	}
	return nil
}

// compare compares a chain with the row about it.
func (x *Comparison) compare(s *state.State, name string, in bool, c state.Chain, row row) error {
	d := Difference{Object: name, Question: row.question}
	if !in {
		d.Kind = Left
		return x.Found(d)
	}
	if slices.Contains(x.newer, row.question) || row.text == "" && row.number == c.Policy && (row.limit.IsZero() || row.limit == x.before) {
		return x.Found(d)
	}
	var err error
	if d.Terms, err = row.terms(s); err != nil {
		return err
	}
	d.Terms.Was = x.before
	m, err := d.Terms.moveFrom(&policyNumbers{state: s}, c, x.before)
	if err != nil {
		return err
	}
	if m.is {
		d.Kind = Changed
		if more := m.more(s, d.Terms); more != nil {
			d.Kind, d.Refusal = Refused, m.now.Refuse(name, m.to, more)
		} else {
			x.before = m.to.Cap
		}
	}
	return x.Found(d)
}

// compareNew looks at the row of an object that was never enrolled in its question. It brings
// nobody back who has withdrawn from all others.
func (x *Comparison) compareNew(s *state.State, name string, o listed, row row) error {
	d := Difference{Kind: New, Object: name, Question: row.question}
	if left, err := hasLeft(s, name, o.Object); err != nil {
		return err
	} else if left {
		d.Kind = Left
		return x.Found(d)
	}
	q, err := s.Question(row.question)
	if err != nil {
		return err
	}
	if _, err := x.Rules.Noise.Of(q); err != nil {
		return err
	}
	if d.Terms, err = row.terms(s); err != nil {
		return err
	}
	if !o.found {
		if row.limit.IsZero() {
			return fmt.Errorf("object %q: %w", name, errs.ErrNoCap)
		}
		return x.Found(d)
	}
	if row.limit.IsZero() || row.limit == x.before {
		d.Terms.Cap = privacy.Epsilon{} // as it is: another row may change it, and that behind this enrolment
		return x.Found(d)
	}
	capOnly := Terms{Cap: row.limit, Consent: row.consent}
	m, err := capOnly.moveFrom(&policyNumbers{state: s}, state.Chain{}, x.before)
	if err != nil {
		return err
	}
	if more := m.more(s, capOnly); more != nil {
		d.Kind, d.Refusal = Refused, m.now.Refuse(name, m.to, more)
		return x.Found(d)
	}
	d.Terms.Was = x.before
	d.Later, x.before = true, m.to.Cap
	return x.Found(d)
}

// hasLeft tells whether an object has withdrawn, or was forgotten, and takes part in nothing since.
func hasLeft(s *state.State, name string, o state.Object) (bool, error) {
	if o.Withdrawn == 0 {
		return false, nil
	}
	return s.IsOut(name, o)
}
