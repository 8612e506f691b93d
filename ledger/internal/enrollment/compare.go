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

// Kind is the result of a comparison: for an object in one question or, for [Gone], in all
// questions.
type Kind int

const (
	Same    Kind = iota // enrolled, with the terms of its row or with newer terms
	New                 // not enrolled; to be enrolled
	Changed             // enrolled; to be put under the terms of its row
	Refused             // like Changed, but the object must first agree to the terms
	Left                // withdrawn or forgotten; its row does not enrol it again
	Dropped             // enrolled, and has rows, but none in this question
	Gone                // enrolled, and has no rows; not about a question
)

// Difference is the result of comparing an object in one question with its row or, for [Gone], of
// comparing it in all questions.
type Difference struct {
	Kind
	Object   string      // name of the object
	Question uint32      // 0 for [Gone]
	Terms    Terms       // of the row, if there is one; for [Changed], and if Later is set, Terms.Was is the cap found
	Refusal  api.Refusal // for [Refused]
	// Later is set if the object is [New] to the question but known to the ledger with another cap.
	// The cap must then be changed after the enrolment, which changes no terms.
	Later bool
}

// Comparison compares a table with the ledger, object by object, in short snapshots.
type Comparison struct {
	*request.Executor                  // executes the requests to the ledger
	Table             *Table           // the rows of the host
	AsOf              uint64           // objects enrolled by a later event may be missing in the table
	Found             func(Difference) // called for each result, in the order of the objects
	Between           func() error     // called between snapshots
	Present           int              // number of enrolled objects among those compared so far
}

// perSnapshot is about how many objects and rows are compared in one snapshot.
const perSnapshot = 4096

// Run compares the table with the ledger, and passes each result to Found. It reads the rows and
// the objects of the ledger side by side, both in the order of names. Each step of the loop reads
// one snapshot, and continues after the last object of the ledger that was compared.
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

// some compares the next objects in one snapshot: those of the ledger whose names follow the name
// after, and those that only have rows. It stops after about 2·perSnapshot objects and rows. last
// is the last object of the ledger that was compared, or the name after if there was none. more
// reports whether objects or rows may be left.
func (c *Comparison) some(s *state.State, rows *cursor, after string) (last string, more bool, err error) {
	listed, end, err := s.ObjectsAfter(after, perSnapshot) // end: the ledger has no further objects
	if err != nil {
		return "", false, err
	}
	numbers := &policyNumbers{state: s}
	for read := 0; read < 2*perSnapshot; {
		o := object{Comparison: c, state: s, numbers: numbers}
		switch {
		// The next object of the ledger is before the next row, or it is the object of that row.
		case len(listed) > 0 && (!rows.more || listed[0].Name <= rows.next.object):
			o.known, o.Listed, after, listed = true, listed[0], listed[0].Name, listed[1:]
		// The next row is of an object that the ledger does not know. This is certain only if a
		// later object of the ledger is in listed, or if the ledger has no further objects.
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

// object is an object that is compared: it is in the ledger, in the table, or in both.
type object struct {
	*Comparison
	state        *state.State
	numbers      *policyNumbers
	state.Listed       // if not known, only its name is set
	known        bool  // known to the ledger
	rows         []row // sorted by the numbers of the questions
	memberships  []membership
	newer        []uint32        // the questions in which its terms were changed after AsOf
	cap          privacy.Epsilon // the cap that it will have after the changes found so far
}

// compare compares the memberships of the object, which are its enrolments in questions, with its
// rows.
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

// settleCaps sets to 0 the caps of the rows that must not change the cap of the object. These are
// all rows if the terms of the object were changed after AsOf. Otherwise they are the rows without
// consent, if a row with consent raises the cap. settleCaps also sets o.newer. It returns an error
// if two rows have different caps.
func (o *object) settleCaps() (err error) {
	limit := privacy.Epsilon{} // the cap in the rows read so far, or 0
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
	// A change of terms after AsOf, when reading of the table began, is newer than the table. It is
	// kept, and the cap with it.
	if o.Latest > o.AsOf {
		if o.newer, err = o.state.TermsChangedSince(o.Object, o.AsOf); err != nil {
			return err
		}
	}
	// A row has consent and raises the cap, in a question from which the object has not withdrawn.
	// That is enough for a higher cap, so the rows without consent must not be refused for it.
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

// membership returns the membership in a question, or nil if the object was never enrolled in it.
func (o *object) membership(question uint32) *membership {
	for i := range o.memberships {
		if o.memberships[i].question == question {
			return &o.memberships[i]
		}
	}
	return nil
}

// compareRow compares a row with the ledger, and passes the result to Found. The result is [Left]
// if the object has withdrawn from the question, or has withdrawn and is enrolled nowhere. It is
// [Same] if the terms in the ledger are newer than the table. withdrew reports whether the object
// has ever withdrawn.
func (o *object) compareRow(row row, withdrew bool) (err error) {
	d := Difference{Object: o.Name, Question: row.question}
	m := o.membership(row.question)
	switch {
	// As of event 0, participationOf counts every enrolment.
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

// checkNew returns an error if an object cannot be enrolled as its row says. That is so if the
// ledger was opened without its noise keys, or if neither the ledger nor the row has a cap.
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

// compareTerms adds to d the terms of a row, and how they differ from the terms in the ledger. It
// sets d.Kind to [Refused] or [Changed], or d.Later, or nothing if they do not differ. It sets
// o.cap to the cap after the change.
//
// m is the membership in the question, or nil if the object is new to the question. Then there is
// no policy to compare, so only the cap can differ.
func (o *object) compareTerms(d *Difference, row row, m *membership) (err error) {
	if d.Terms, err = o.Table.terms(row); err != nil || !o.known {
		return err
	}
	wanted, under := d.Terms, uint32(0) // under: the number of the policy in force
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
		d.Terms.Cap = privacy.Epsilon{} // unchanged: another row may change it, but only after this enrolment
		return nil
	case m == nil:
		d.Later = true
	default:
		d.Kind = Changed
	}
	d.Terms.Was, o.cap = o.cap, change.to.Cap
	return nil
}

// findMissing passes to Found the questions in which the object is enrolled without a row
// ([Dropped]). If it has no rows at all, it passes the object once ([Gone]), unless an event after
// AsOf enrolled it. It also counts the object in Present if it is enrolled.
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
