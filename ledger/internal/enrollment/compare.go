package enrollment

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Kind is what a comparison finds about an object in a question, or about an object.
type Kind int

const (
	Same    Kind = iota // enrolled, with the terms of its row
	New                 // not enrolled; to be enrolled
	Changed             // enrolled; to be put under the terms of its row
	Refused             // like Changed, but the object must first agree to the terms
	Left                // withdrawn or forgotten; its row does not enrol it again
	Dropped             // enrolled, and has rows, but none in this question
	Gone                // enrolled, and has no rows; not about a question
)

// Difference is the result of comparing an object with its rows.
type Difference struct {
	Kind
	Object   string      // name of the object
	Question uint32      // 0 for [Gone]
	Terms    Terms       // of the row, if there is one
	Refusal  api.Refusal // for [Refused]
	// Later means that the object is [New] to the question and known to the ledger, and that its
	// cap must be changed after the enrolment.
	Later bool
}

// Comparison compares a table with the ledger, object by object, in short snapshots.
type Comparison struct {
	*request.Executor                  // of the ledger
	Table             *Table           // of the host
	AsOf              uint64           // objects enrolled by a later event may be missing in the table
	Found             func(Difference) // called for each object and question, in the order of the objects
	Between           func() error     // called between snapshots
	Present           int              // number of enrolled objects
}

// perSnapshot is about how many objects and rows are compared in one snapshot.
const perSnapshot = 4096

// Run compares the table with the ledger. It reads the rows and the objects of the ledger side by
// side, both in the order of names.
func (c *Comparison) Run(ctx context.Context) error {
	rows, err := c.Table.open()
	if err != nil {
		return err
	}
	for after, more := "", true; more; {
		err := c.Engine.View(ctx, func(s *state.State) (err error) {
			after, more, err = c.some(s, rows, after)
			return err
		})
		if err == nil {
			err = c.Between()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// some compares the objects of the ledger after a name, and those of the next rows, up to a limit.
// It returns the last object of the ledger that was compared, and whether there are more objects or
// rows.
func (c *Comparison) some(s *state.State, rows *cursor, after string) (last string, more bool, err error) {
	listed, end, err := s.ObjectsAfter(after, perSnapshot)
	if err != nil {
		return "", false, err
	}
	numbers := &policyNumbers{state: s}
	for read := 0; read < 2*perSnapshot; {
		o := object{Comparison: c, state: s, numbers: numbers}
		switch {
		case len(listed) > 0 && (!rows.more || listed[0].Name <= rows.next.object):
			o.known, o.Listed, after, listed = true, listed[0], listed[0].Name, listed[1:]
		case rows.more && (len(listed) > 0 || end):
			o.Name = rows.next.object
		default:
			return after, !end, nil
		}
		if o.rows, err = rows.rowsOf(o.Name); err == nil {
			err = o.compare()
		}
		if err != nil {
			return "", false, err
		}
		read += 1 + len(o.rows)
	}
	return after, true, nil
}

// object is an object that is compared.
type object struct {
	*Comparison
	state        *state.State
	numbers      *policyNumbers
	state.Listed       // if not known, only its name is set
	known        bool  // known to the ledger
	rows         []row // sorted by the numbers of the questions
	memberships  []membership
	newer        []uint32        // the questions in which its terms are newer than the table
	cap          privacy.Epsilon // the cap after the rows compared so far
}

// compare compares the memberships of the object with its rows.
func (o *object) compare() error {
	var err error
	o.cap = o.Cap
	if o.memberships, err = membershipsIn(o.state, o.Listed); err != nil {
		return err
	}
	if err := o.settleCaps(); err != nil {
		return err
	}
	for _, row := range o.rows {
		if err := o.compareRow(row, o.Withdrawn != 0); err != nil {
			return err
		}
	}
	o.findMissing()
	return nil
}

// settleCaps clears the caps of rows that must not change the cap. It returns an error if the rows
// have different caps.
func (o *object) settleCaps() (err error) {
	limit := privacy.Epsilon{}
	for _, row := range o.rows {
		if !row.limit.IsZero() && !limit.IsZero() && row.limit != limit {
			const text = "object %q has the cap %s in one row of the table, and %s in another: " +
				"a cap applies to all questions, so its rows must agree"
			return errs.Invalid(text, o.Name, limit, row.limit)
		}
		if limit.IsZero() {
			limit = row.limit
		}
	}
	if !o.known {
		return nil
	}
	// Terms that changed after the table began to be read are kept, and the cap with them.
	if o.Latest > o.AsOf {
		if o.newer, err = o.state.TermsChangedSince(o.Object, o.AsOf); err != nil {
			return err
		}
	}
	// Consent in one row is enough for a higher cap, so the rows without consent leave the cap as
	// it is.
	agreed := slices.ContainsFunc(o.rows, func(r row) bool {
		m := o.membership(r.question)
		return r.consent != "" && o.Cap.Less(r.limit) && (m == nil || m.in)
	})
	for i := range o.rows {
		if len(o.newer) > 0 || agreed && o.rows[i].consent == "" {
			o.rows[i].limit = privacy.Epsilon{}
		}
	}
	return nil
}

// membership returns the membership in a question, or nil.
func (o *object) membership(question uint32) *membership {
	for i := range o.memberships {
		if o.memberships[i].question == question {
			return &o.memberships[i]
		}
	}
	return nil
}

// compareRow compares a row with the ledger. An object that has withdrawn from the question or from
// all questions is not enrolled again. withdrew reports whether the object has ever withdrawn.
func (o *object) compareRow(row row, withdrew bool) (err error) {
	d := Difference{Object: o.Name, Question: row.question}
	m := o.membership(row.question)
	switch {
	case m == nil && withdrew && participationOf(o.memberships, 0) == inNone, m != nil && !m.in:
		d.Kind = Left
	case m == nil:
		d.Kind = New
		if err = o.checkNew(row); err == nil {
			err = o.compareTerms(&d, row, nil)
		}
	case !slices.Contains(o.newer, row.question):
		err = o.compareTerms(&d, row, m)
	}
	if err == nil {
		o.Found(d)
	}
	return err
}

// checkNew returns an error if an object cannot be enrolled as its row says.
func (o *object) checkNew(row row) error {
	q, err := o.state.Question(row.question)
	if err != nil {
		return err
	}
	if _, err := o.Rules.Noise.Of(q); err != nil {
		return err
	}
	if !o.known && row.limit.IsZero() {
		return fmt.Errorf("object %q: %w", o.Name, errs.ErrNoCap)
	}
	return nil
}

// compareTerms compares the terms of a row with those of the ledger. For an object that is new to
// the question, only the cap can differ. m is the membership in the question, or nil.
func (o *object) compareTerms(d *Difference, row row, m *membership) (err error) {
	if d.Terms, err = o.Table.terms(row); err != nil || !o.known {
		return err
	}
	wanted, under := d.Terms, uint32(0)
	if m == nil {
		wanted.Policy = nil
	} else {
		under = m.policy
	}
	change, err := wanted.moveFrom(o.numbers, under, o.cap)
	if err != nil {
		return err
	}
	more := change.more(o.state, wanted)
	switch {
	case more != nil:
		d.Kind, d.Refusal = Refused, change.now.Refuse(o.Name, change.to, more)
		return nil
	case !change.isChange:
		d.Terms.Cap = privacy.Epsilon{} // another row may change the cap after this enrolment
		return nil
	case m == nil:
		d.Later = true
	default:
		d.Kind = Changed
	}
	d.Terms.Was, o.cap = o.cap, change.to.Cap
	return nil
}

// findMissing finds the questions in which the object is enrolled without a row.
func (o *object) findMissing() {
	in := participationOf(o.memberships, o.AsOf)
	if in != inNone {
		o.Present++
	}
	if len(o.rows) == 0 {
		if in == inOld {
			o.Found(Difference{Kind: Gone, Object: o.Name})
		}
		return
	}
	for _, m := range o.memberships {
		if m.in && !slices.ContainsFunc(o.rows, func(r row) bool { return r.question == m.question }) {
			o.Found(Difference{Kind: Dropped, Object: o.Name, Question: m.question})
		}
	}
}
