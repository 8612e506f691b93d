package check

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Member is an object and its chain before an event that enrols the object or changes its terms.
type Member struct {
	Object   state.Object // of a new object, only the cap of its enrolment
	Chain    state.Chain  // the existing chain, or the new one
	IsKnown  bool         // the object exists
	HasChain bool         // the chain exists
}

// Enrolled checks that everything that an enrolment refers to exists, and that the object is not
// enrolled in the question now. An object that enrols again must have the policy, cap and noise key
// that it had.
func Enrolled(s *state.State, c *event.Enrolled, _ event.Event) (m Member, err error) {
	if err := checkEnrolment(s, c); err != nil {
		return m, err
	}
	if m.Object, m.IsKnown, err = s.Object(c.Object); err != nil {
		return m, err
	}
	if !m.IsKnown {
		m.Object.Cap = c.Cap
	}
	if m.Chain, m.HasChain, err = s.Chain(c.Question, c.Object); err != nil {
		return m, err
	}
	switch {
	case !m.HasChain:
		m.Chain = state.Chain{Policy: c.Policy, Noise: c.Noise}
	case !m.Object.Withdrew(m.Chain):
		return m, fault("object %q is enrolled twice in question %d", c.Object, c.Question)
	case m.Object.Forgotten > m.Chain.Enrolled:
		m.Chain.Noise = 0 // buyers may still have responses drawn from the key, perhaps for another true value
	}
	if m.Chain.Policy != c.Policy || m.Object.Cap != c.Cap {
		return m, fault("object %q is enrolled again in question %d with another policy or cap than it had",
			c.Object, c.Question)
	}
	if m.Chain.Noise != c.Noise {
		return m, fault("object %q is enrolled again in question %d with another noise key than its chain began with",
			c.Object, c.Question)
	}
	return m, noteMember(&s.Counters.InProgress, c.Question, c.Object)
}

// checkEnrolment checks the name of the object, and that the question, the policy and the noise key
// of an enrolment exist. The cap must be above 0. A question in finite encoding has no noise keys.
func checkEnrolment(s *state.State, c *event.Enrolled) error {
	if err := checkName("object", c.Object); err != nil {
		return err
	}
	n := &s.Counters
	if c.Question == 0 || c.Question > n.Questions || c.Policy > n.Policies || c.Noise > n.Noises || c.Cap.IsZero() {
		return fault("object %q, question %d, policy %d, cap %s: one of them or the noise key is not possible",
			c.Object, c.Question, c.Policy, c.Cap)
	}
	q, err := s.Question(c.Question)
	if err == nil && q.Encoding == event.EncodingFinite && c.Noise != 0 {
		err = fault("object %q has a noise key in question %d, which is in finite encoding", c.Object, c.Question)
	}
	return err
}

// Withdrawn checks that an object that withdraws is enrolled in some question. It returns the
// object.
func Withdrawn(s *state.State, c *event.Withdrawn, _ event.Event) (o state.Object, err error) {
	o, found, err := s.Object(c.Object)
	if err != nil || !found {
		return o, errs.Corrupt(err, "object %q withdraws, but does not exist", c.Object)
	}
	if out, err := s.IsOut(c.Object, o); err != nil || out {
		return o, errs.Corrupt(err, "object %q withdraws twice", c.Object)
	}
	s.Counters.InProgress.Enrolled++
	return o, noteObject(&s.Counters.InProgress, c.Object)
}

// Epoch checks that the epoch that an object closes is not empty, and that the chain has an entry
// left for the closed epoch.
func Epoch(s *state.State, c *event.EpochBegun, _ event.Event) (d Draw, err error) {
	if d, err = enrolledIn(s, c.Question, c.Object); err != nil {
		return d, err
	}
	if d.Chain.Unused() {
		return d, fault("object %q begins a new epoch of question %d, but its current epoch is unused",
			c.Object, c.Question)
	}
	if d.Question, err = s.Question(c.Question); err != nil {
		return d, err
	}
	if n := d.Chain.Entries(d.Question) + 1; n > event.MaxEntries { // its reservations end, so they need no entries
		return d, fault("object %q begins a new epoch of question %d: its chain would have %d entries, the limit is %d",
			c.Object, c.Question, n, event.MaxEntries)
	}
	return d, nil
}

// Terms checks that an event changes the terms of an object that was enrolled in the question, and
// that the new policy exists. If the new terms may allow more than the old ones, the event must
// have the consent of the object.
func Terms(s *state.State, c *event.TermsChanged, ev event.Event) (m Member, err error) {
	m.Chain, m.HasChain, err = s.Chain(c.Question, c.Object)
	if err != nil || !m.HasChain {
		return m, errs.Corrupt(err, "the terms of object %q change in question %d, but it was never enrolled there",
			c.Object, c.Question)
	}
	if m.Object, m.IsKnown, err = s.Object(c.Object); err != nil || !m.IsKnown {
		return m, errs.Corrupt(err, "object %q has a chain but no budget", c.Object)
	}
	same := c.Policy == m.Chain.Policy && c.Cap == m.Object.Cap
	if c.Policy > s.Counters.Policies || c.Cap.IsZero() || same {
		return m,
			fault("object %q gets policy %d and the cap %s in question %d: they are not possible, or change nothing",
				c.Object, c.Policy, c.Cap, c.Question)
	}
	if err := checkConsent(s, c, &m, ev); err != nil {
		return m, err
	}
	return m, noteMember(&s.Counters.InProgress, c.Question, c.Object)
}

// checkConsent returns [errs.ErrCorrupt] for a change without consent if the new terms may allow
// more than the object agreed to. A consent must be a valid text, and is then sufficient.
func checkConsent(s *state.State, c *event.TermsChanged, m *Member, ev event.Event) error {
	if c.Consent != "" {
		if err := event.CheckText("consent", c.Consent); err != nil {
			return fault("%v", err)
		}
		return nil
	}
	now, to := rules.Agreed{Cap: m.Object.Cap}, rules.Agreed{Cap: c.Cap}
	var err error
	if now.Policy, err = s.Policy(m.Chain.Policy); err != nil {
		return err
	}
	if to.Policy, err = s.Policy(c.Policy); err != nil {
		return err
	}
	if more := now.More(s.Known, to, ev.Time); more != nil {
		return fault("object %q, question %d: terms change without consent: %v", c.Object, c.Question, more)
	}
	return nil
}
