package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Who takes part, and on which terms, on paper.

// agreement is what is wanted for an object.
type agreement struct {
	under   rule
	keeps   bool // the policy that there is
	cap     int64
	was     int64 // if it is not 0: a cap that is another one by now stays
	consent string
}

func (m *paper) enrol(r api.EnrollRequest, of func(string) agreement) (out api.EnrollResult, err error) {
	q, err := m.question(r.Question)
	if err != nil {
		return out, err
	}
	names := m.members("", r.Objects)
	var refusals []api.Refusal
	var fresh []string
	for _, name := range names {
		p, c, want := m.people[name], m.chain(r.Question, name), of(name)
		switch {
		case p == nil && want.cap == 0:
			return out, api.ErrNoCap
		case p != nil && want.cap != 0 && want.cap != p.cap:
			refusals = append(refusals, api.Refusal{Object: name, Reason: api.CapDiffers, Ceiling: epsilonOf(p.cap), Spent: epsilonOf(p.spent), Asked: epsilonOf(want.cap), Remedy: api.RemedyTerms})
		case c != nil && !c.rule.policy.Equal(want.under.policy):
			refusals = append(refusals, api.Refusal{Object: name, Reason: api.PolicyDiffers, Spent: epsilonOf(c.current()), Remedy: api.RemedyTerms})
		case c == nil:
			if _, err := m.noiseOf(q); err != nil {
				return out, err
			}
			fresh = append(fresh, name)
		case c.withdrawn:
			fresh = append(fresh, name)
		}
	}
	if len(refusals) > 0 && !r.Partial {
		return out, refusedError(r.Question, refusals)
	}
	out = api.EnrollResult{Enrolled: len(fresh), Already: len(names) - len(fresh) - len(refusals), Refused: refusals, First: m.next()}
	for _, name := range fresh {
		m.definePolicy(of(name).under)
	}
	for _, name := range fresh {
		m.begin(q, name, of(name))
	}
	out.Last = m.settleList(r.Objects, refusals...)
	return out, nil
}

// definePolicy adds a policy to the log, if it is not there.
func (m *paper) definePolicy(of rule) {
	if text := of.policy.String(); text != "" && !m.policies[text] {
		m.policies[text] = true
		m.write("policy", "")
	}
}

// begin enrols one object, or lets it come back with everything it has spent.
func (m *paper) begin(q api.Question, name string, want agreement) {
	if m.people[name] == nil {
		m.people[name] = &person{cap: want.cap, chains: map[string]*paperChain{}}
	}
	c := m.chain(q.Name, name)
	if c == nil {
		c = &paperChain{rule: want.under, levels: map[int64]*paperLevel{}}
		c.noise, _ = m.noiseOf(q)
		m.people[name].chains[q.Name] = c
	}
	c.withdrawn = false
	m.write("enrolled", name)
}

// orAll is a policy of which the zero value says that only the cap binds.
func orAll(p policy.Policy) policy.Policy {
	if p.IsZero() {
		return policy.Fixed(privacy.MaxEpsilon())
	}
	return p
}

// more says what other terms may allow beyond those that there are, "" if nothing.
func (m *paper) more(now, to rule, limit, cap int64) string {
	var texts []string
	if limit < cap {
		texts = append(texts, fmt.Sprintf("the cap would be ε=%s, and is ε=%s", epsilonOf(cap), epsilonOf(limit)))
	}
	err := orAll(to.policy).AtMost(orAll(now.policy), m.clock)
	if err != nil && orAll(to.policy).Equal(policy.Fixed(privacy.MaxEpsilon())) {
		texts = append(texts, "the policy may allow more: without a policy only the cap binds")
	} else if err != nil {
		texts = append(texts, err.Error())
	} else if at, orders, is := higher(to, now, m.clock); is {
		panic(fmt.Sprintf("%s is proven to allow no more than %s from %v on, and does at %v after %d buyers", to.policy, now.policy, m.clock, at, orders))
	}
	return strings.Join(texts, "; ")
}

// higher finds an instant, from one on, and a number of buyers at which a ceiling is above another.
func higher(to, now rule, from time.Time) (at time.Time, orders int64, is bool) {
	for _, at := range append(append([]time.Time{from, doomsday()}, to.turns...), now.turns...) {
		for orders := range int64(5) {
			if !at.Before(from) && to.ceiling(at, orders) > now.ceiling(at, orders) {
				return at, orders, true
			}
		}
	}
	return at, 0, false
}

// termsOf says what an agreement changes of a chain: nothing, something, or why it is refused.
func (m *paper) termsOf(name string, c *paperChain, limit int64, want agreement) (to rule, cap int64, changes bool, refusal *api.Refusal) {
	to, cap = c.rule, limit
	if !want.keeps {
		to = want.under
	}
	if want.cap != 0 && (want.was == 0 || want.was == limit) {
		cap = want.cap
	}
	if to.policy.Equal(c.rule.policy) && cap == limit {
		return to, cap, false, nil
	}
	if why := m.more(c.rule, to, limit, cap); why != "" && want.consent == "" {
		r := &api.Refusal{Object: name, Reason: api.NeedsConsent, Remedy: api.RemedyConsent, Why: why}
		if limit < cap {
			r.Ceiling, r.Asked = epsilonOf(limit), epsilonOf(cap)
		}
		return to, cap, false, r
	}
	return to, cap, true, nil
}

func (m *paper) changeTerms(r api.ChangeTermsRequest, of func(string) agreement) (out api.ChangeTermsResult, err error) {
	if _, err := m.question(r.Question); err != nil {
		return out, err
	}
	names := m.members("", r.Objects)
	var refusals []api.Refusal
	var changed []string
	for _, name := range names {
		c := m.chain(r.Question, name)
		if c == nil {
			refusals = append(refusals, api.Refusal{Object: name, Reason: api.NotEnrolled, Remedy: api.RemedyEnrolling})
			continue
		}
		_, _, changes, refusal := m.termsOf(name, c, m.people[name].cap, of(name))
		if refusal != nil {
			refusals = append(refusals, *refusal)
		} else if changes {
			changed = append(changed, name)
		}
	}
	if len(refusals) > 0 && !r.Partial {
		return out, refusedError(r.Question, refusals)
	}
	out = api.ChangeTermsResult{Changed: len(changed), Unchanged: len(names) - len(changed) - len(refusals), Refused: refusals, First: m.next()}
	for _, name := range changed {
		if want := of(name); !want.keeps {
			m.definePolicy(want.under)
		}
	}
	for _, name := range changed {
		c, p := m.chain(r.Question, name), m.people[name]
		c.rule, p.cap, _, _ = m.termsOf(name, c, p.cap, of(name))
		m.write("terms", name)
	}
	out.Last = m.settleList(r.Objects, refusals...)
	return out, nil
}

// The moves.

func (one moveReturn) play(g *game) {
	if c := g.paper.chain(one.Question, one.Object); c != nil {
		g.enrol(api.EnrollRequest{Key: g.key(), Question: one.Question, Objects: []string{one.Object}, Policy: c.rule.policy}, func(string) agreement { return agreement{under: c.rule} })
	}
}

func (one moveEnroll) play(g *game) {
	r := api.EnrollRequest{Key: g.key(), Question: one.Question, Objects: one.Objects, Partial: one.Partial}
	of := func(string) agreement { return agreement{under: allRules()[one.Rule], cap: one.Cap} }
	if one.Other == 0 {
		r.Policy, r.Cap = allRules()[one.Rule].policy, epsilonOf(one.Cap)
	} else {
		of = func(name string) agreement {
			return agreement{under: allRules()[[]int{one.Rule, one.Other}[len(name)%2]], cap: one.Cap}
		}
		r.Terms = func(name string) (policy.Policy, privacy.Epsilon) {
			want := of(name)
			return want.under.policy, epsilonOf(want.cap)
		}
	}
	g.enrol(r, of)
}

func (g *game) enrol(r api.EnrollRequest, of func(string) agreement) {
	want, refused := g.paper.enrol(r, of)
	call := func(ctx context.Context, r api.EnrollRequest) (api.EnrollResult, error) {
		return g.ledger.Enroll(ctx, r)
	}
	demand(g, r, call, want, refused,
		func(r *api.EnrollRequest) {
			if r.Cap = epsilonOf(7 + r.Cap.Nano()%7); r.Terms != nil {
				given, limit := r.Terms, r.Cap
				r.Cap = privacy.Epsilon{}
				r.Terms = func(name string) (policy.Policy, privacy.Epsilon) {
					p, _ := given(name)
					return p, limit
				}
			}
		},
		func(r *api.EnrollRequest) { r.Objects = append([]string{"zoe"}, r.Objects...) },
		func(r *api.EnrollRequest) { r.Terms, r.Policy = nil, fixedRule(7).policy },
		func(r *api.EnrollRequest) { r.Partial = !r.Partial })
}

func (one moveTerms) play(g *game) {
	r := api.ChangeTermsRequest{Key: g.key(), Question: one.Question, Objects: one.Objects, Cap: epsilonOf(one.Cap), Consent: one.Consent, Partial: one.Partial}
	want := agreement{keeps: one.Rule == 0, cap: one.Cap, consent: one.Consent}
	if !want.keeps {
		want.under = allRules()[one.Rule-1]
		r.Policy = &want.under.policy
	}
	if want.keeps && one.Cap == 0 {
		_, err := g.ledger.ChangeTerms(g.Context(), r)
		g.wantError(err, api.ErrInvalid)
		return
	}
	result, refused := g.paper.changeTerms(r, func(string) agreement { return want })
	call := func(ctx context.Context, r api.ChangeTermsRequest) (api.ChangeTermsResult, error) {
		return g.ledger.ChangeTerms(ctx, r)
	}
	demand(g, r, call, result, refused,
		func(r *api.ChangeTermsRequest) { r.Cap = epsilonOf(7 + r.Cap.Nano()%7) },
		func(r *api.ChangeTermsRequest) { r.Objects = append([]string{"zoe"}, r.Objects...) },
		func(r *api.ChangeTermsRequest) { r.Policy = new(fixedRule(7).policy) },
		func(r *api.ChangeTermsRequest) { r.Consent += "!" },
		func(r *api.ChangeTermsRequest) { r.Partial = !r.Partial })
	if g.closed == nil {
		g.compareObjects()
	}
}

// table yields the rows of the host's table.
func (one moveReconcile) table() iter.Seq2[api.Member, error] {
	return func(yield func(api.Member, error) bool) {
		for _, r := range one.Rows {
			if !yield(api.Member{Object: r.Object, Question: r.Question, Policy: allRules()[r.Rule].policy, Cap: epsilonOf(r.Cap), Consent: r.Consent}, nil) {
				return
			}
		}
	}
}

func (one moveReconcile) play(g *game) {
	r := api.ReconcileRequest{Members: one.table(), Withdraw: one.Withdraw, DryRun: one.Dry}
	kept := g.paper
	if one.Dry {
		g.paper = kept.clone()
	}
	expected := -1
	if one.Expected {
		expected = len(g.paper.missing(one))
		r.Gone = expected
	}
	want, refused := g.paper.reconcile(one, expected)
	if one.Dry {
		g.paper = kept
	}
	got, err := g.ledger.Reconcile(g.Context(), r)
	var gone, goneOnPaper *api.GoneError
	switch {
	case errors.As(refused, &goneOnPaper) && errors.As(err, &gone):
		gone.Expected = goneOnPaper.Expected
		g.same("the refusal", gone, goneOnPaper)
		return
	case one.Dry && refused == nil && err == nil:
		g.same("the dry run", got, want)
		return
	case one.Dry:
		g.wantError(err, refused)
		return
	}
	if refused == nil && err == nil && leavesAll(want) { // nothing is written, also by a clock that is wrong
		g.same("the reconciliation", got, want)
		return
	}
	if g.failed(err, refused) {
		return
	}
	g.same("the reconciliation", got, want)
	again, err := g.ledger.Reconcile(g.Context(), r) // there is nothing left to do
	Must(g, err)
	for _, q := range again.Questions {
		if q.New.Count+q.Changed.Count+again.Withdrawn > 0 {
			g.Fatalf("a second time there is still to do: %s", asJSON(again))
		}
	}
	if g.closed == nil {
		g.compareObjects()
	}
}

// leavesAll tells whether there is nothing to do.
func leavesAll(r api.ReconcileResult) bool {
	n := r.Withdrawn
	for _, q := range r.Questions {
		n += q.New.Count + q.Changed.Count
	}
	return n == 0
}

// rowsAbout returns the rows about somebody, in the order of questions.
func (one moveReconcile) rowsAbout(m *paper, name string) (all []row) {
	for _, q := range m.questions {
		for _, r := range one.Rows {
			if r.Object == name && r.Question == q.Name {
				all = append(all, r)
			}
		}
	}
	return all
}

func (p *person) takesPart() bool {
	for _, c := range p.chains {
		if !c.withdrawn {
			return true
		}
	}
	return false
}

// missing returns who takes part in something and has no row, in order.
func (m *paper) missing(one moveReconcile) (names []string) {
	for _, name := range SortedKeys(m.people) {
		if m.people[name].takesPart() && len(one.rowsAbout(m, name)) == 0 {
			names = append(names, name)
		}
	}
	return names
}

func named(l *api.NameList, name string) { l.Count, l.First = l.Count+1, append(l.First, name) }

// reconcile brings the paper in line with a table.
func (m *paper) reconcile(one moveReconcile, expected int) (out api.ReconcileResult, err error) {
	gone, present := m.missing(one), 0
	for _, p := range m.people {
		if p.takesPart() {
			present++
		}
	}
	results := map[string]*api.Reconciled{}
	in := func(question string) *api.Reconciled {
		if results[question] == nil {
			results[question] = &api.Reconciled{Question: question}
		}
		return results[question]
	}
	todo := newReconciling()
	everybody := map[string]bool{}
	for name := range m.people {
		everybody[name] = true
	}
	for _, r := range one.Rows {
		everybody[r.Object] = true
	}
	for _, name := range SortedKeys(everybody) {
		if err := m.compareRows(name, one.rowsAbout(m, name), in, todo); err != nil {
			return out, err
		}
	}
	for _, name := range gone {
		named(&out.Gone, name)
	}
	if one.Withdraw && len(gone)*100 > present && len(gone) != max(0, expected) {
		return out, &api.GoneError{Gone: len(gone), Of: present, Expected: max(0, expected)}
	}
	if one.Withdraw {
		out.Withdrawn = len(gone)
	}
	for _, q := range m.questions {
		if results[q.Name] != nil {
			out.Questions = append(out.Questions, *results[q.Name])
		}
	}
	if err := m.carryOut(todo); err != nil {
		return out, err
	}
	if one.Withdraw && len(gone) > 0 {
		for _, name := range gone {
			m.leave(name)
		}
		m.settle(gone)
	}
	return out, nil
}

// reconciling is what is to be done: names by question, with what is wanted for each.
type reconciling struct {
	change, enrol, then map[string][]string
	changed, enrolled   map[[2]string]agreement
}

func newReconciling() *reconciling {
	return &reconciling{map[string][]string{}, map[string][]string{}, map[string][]string{}, map[[2]string]agreement{}, map[[2]string]agreement{}}
}

// compareRows compares somebody with the rows about it.
func (m *paper) compareRows(name string, rows []row, in func(string) *api.Reconciled, todo *reconciling) error {
	p, limit := m.people[name], int64(0)
	if p != nil {
		limit = p.cap
	}
	agreed := false // to a higher cap, in some row
	for _, r := range rows {
		c := m.chain(r.Question, name)
		agreed = agreed || p != nil && r.Cap > limit && r.Consent != "" && (c == nil || !c.withdrawn)
	}
	for _, r := range rows {
		if agreed && r.Consent == "" {
			r.Cap = 0
		}
		id, want := [2]string{r.Question, name}, agreement{under: allRules()[r.Rule], cap: r.Cap, was: limit, consent: r.Consent}
		c := m.chain(r.Question, name)
		switch {
		case c != nil && c.withdrawn, c == nil && p != nil && !p.takesPart():
			named(&in(r.Question).Left, name)
		case c != nil:
			_, cap, changes, refusal := m.termsOf(name, c, limit, want)
			switch {
			case refusal != nil:
				in(r.Question).Refused = append(in(r.Question).Refused, *refusal)
			case changes:
				named(&in(r.Question).Changed, name)
				todo.change[r.Question], todo.changed[id], limit = append(todo.change[r.Question], name), want, cap
			default:
				in(r.Question).Same++
			}
		case !m.hasNoise(r.Question):
			return api.ErrNoiseKey
		case p == nil && r.Cap == 0:
			return api.ErrNoCap
		case p != nil && r.Cap > limit && r.Consent == "":
			why := fmt.Sprintf("the cap would be ε=%s, and is ε=%s", epsilonOf(r.Cap), epsilonOf(limit))
			in(r.Question).Refused = append(in(r.Question).Refused, api.Refusal{Object: name, Reason: api.NeedsConsent, Ceiling: epsilonOf(limit), Asked: epsilonOf(r.Cap), Remedy: api.RemedyConsent, Why: why})
		default:
			named(&in(r.Question).New, name)
			todo.enrol[r.Question] = append(todo.enrol[r.Question], name)
			if p != nil && r.Cap != 0 && r.Cap != limit {
				todo.then[r.Question] = append(todo.then[r.Question], name)
				todo.changed[id], limit = agreement{keeps: true, cap: r.Cap, was: limit, consent: r.Consent}, r.Cap
			}
			if p != nil {
				want.cap = 0
			}
			todo.enrolled[id] = want
		}
	}
	for _, q := range m.questions {
		has := slices.ContainsFunc(rows, func(r row) bool { return r.Question == q.Name })
		if c := m.chain(q.Name, name); c != nil && !c.withdrawn && !has && len(rows) > 0 {
			named(&in(q.Name).Dropped, name)
		}
	}
	return nil
}

// hasNoise tells whether chains of a question can begin.
func (m *paper) hasNoise(question string) bool {
	q, _ := m.question(question)
	_, err := m.noiseOf(q)
	return err == nil
}

// carryOut does what is to be done, in one part.
func (m *paper) carryOut(todo *reconciling) error {
	for _, step := range []func(q string) error{
		func(q string) error { return m.changeAll(q, todo.change[q], todo) },
		func(q string) error {
			if len(todo.enrol[q]) == 0 {
				return nil
			}
			_, err := m.enrol(api.EnrollRequest{Question: q, Objects: todo.enrol[q], Partial: true}, func(name string) agreement { return todo.enrolled[[2]string{q, name}] })
			return err
		},
		func(q string) error { return m.changeAll(q, todo.then[q], todo) },
	} {
		for _, q := range m.questions {
			if err := step(q.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *paper) changeAll(q string, names []string, todo *reconciling) error {
	if len(names) == 0 {
		return nil
	}
	_, err := m.changeTerms(api.ChangeTermsRequest{Question: q, Objects: names, Partial: true}, func(name string) agreement { return todo.changed[[2]string{q, name}] })
	return err
}
