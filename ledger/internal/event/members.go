package event

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// Enrolled starts the chain of an object and a question, or resumes it. It also sets the object's
// cap.
type Enrolled struct {
	Object   string          // by name
	Question uint32          // by number
	Policy   uint32          // 0 for none
	Noise    uint32          // the key that the chain is drawn from; 0 for random draws
	Cap      privacy.Epsilon // over all questions
}

func (*Enrolled) Kind() Kind { return KindEnrolled }

func (c *Enrolled) About() string { return c.Object }

// Fields implements [Change].
func (c *Enrolled) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question, &c.Policy, &c.Noise)
	x.Epsilon(&c.Cap)
}

// mapTo copies the fields to the detail or, if m parses, from the detail. A statement has the
// number of the noise key, but not the event that names it. So the name is set only in the detail.
func (c *Enrolled) mapTo(d *event.Enrolled, m *mapper) {
	same(m, &c.Object, &d.Object)
	m.question(&c.Question, &d.Question)
	if !m.parses() {
		d.NoiseKey = m.noiseKey(c.Noise)
	}
	same(m, &c.Noise, &d.Noise)
	m.policy(&c.Policy, &d.Policy)
	same(m, &c.Cap, &d.Cap)
}

// references implements [referring].
func (c *Enrolled) references() References { return References{Question: c.Question, Policy: c.Policy} }

// Withdrawn ends the participation of an object in all questions, until it is enrolled again.
type Withdrawn struct{ Object string }

func (*Withdrawn) Kind() Kind { return KindWithdrawn }

func (c *Withdrawn) About() string { return c.Object }

// Fields implements [Change].
func (c *Withdrawn) Fields(x wire.Codec) { x.Text(&c.Object) }

// requests implements [single].
func (c *Withdrawn) requests(Names) ([]Identity, error) {
	return []Identity{ObjectRequest(RequestWithdraw, c.Object)}, nil
}

// mapTo copies the fields to the detail or, if m parses, from the detail.
func (c *Withdrawn) mapTo(d *event.Withdrawn, m *mapper) {
	same(m, &c.Object, &d.Object)
}

// EpochBegun closes the chain of an object and starts a new one, with a true value of its own.
type EpochBegun struct {
	Object   string // by name
	Question uint32 // by number
}

func (*EpochBegun) Kind() Kind { return KindEpoch }

func (c *EpochBegun) About() string { return c.Object }

// Fields implements [Change].
func (c *EpochBegun) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question)
}

// requests implements [single]. The request has the name of the question, and the event only its
// number.
func (c *EpochBegun) requests(names Names) ([]Identity, error) {
	q, err := names.Question(c.Question)
	if err != nil {
		return nil, err
	}
	return []Identity{EpochRequest(q.Name, c.Object)}, nil
}

// mapTo copies the fields to the detail or, if m parses, from the detail.
func (c *EpochBegun) mapTo(d *event.EpochBegun, m *mapper) {
	same(m, &c.Object, &d.Object)
	m.question(&c.Question, &d.Question)
}

// references implements [referring].
func (c *EpochBegun) references() References { return References{Question: c.Question} }

// TermsChanged sets the policy of the chain of an object and a question, and the cap of the
// object, from here on. It contains both, even if one of them is unchanged.
type TermsChanged struct {
	Object   string          // by name
	Question uint32          // by number
	Policy   uint32          // 0 for none
	Cap      privacy.Epsilon // over all questions
	Consent  string          // the host's statement that the object agreed; "" if nothing more is allowed than before
}

func (*TermsChanged) Kind() Kind { return KindTerms }

func (c *TermsChanged) About() string { return c.Object }

// Fields implements [Change].
func (c *TermsChanged) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question, &c.Policy)
	x.Epsilon(&c.Cap)
	x.Text(&c.Consent)
}

// mapTo copies the fields to the detail or, if m parses, from the detail.
func (c *TermsChanged) mapTo(d *event.TermsChanged, m *mapper) {
	same(m, &c.Object, &d.Object)
	m.question(&c.Question, &d.Question)
	m.policy(&c.Policy, &d.Policy)
	same(m, &c.Cap, &d.Cap)
	same(m, &c.Consent, &d.Consent)
}

// references implements [referring].
func (c *TermsChanged) references() References {
	return References{Question: c.Question, Policy: c.Policy}
}

// ObjectRefused records an object that a request left out, and why. The settled event of the
// request follows.
type ObjectRefused struct {
	Question uint32 // by number
	api.Refusal
}

func (*ObjectRefused) Kind() Kind { return KindRefused }

func (c *ObjectRefused) About() string { return c.Object }

// Fields implements [Change]. It has the text Why only for the reason [api.NeedsConsent].
func (c *ObjectRefused) Fields(x wire.Codec) {
	x.U32(&c.Question)
	x.Text(&c.Object)
	coded(x, &c.Reason, ReasonCodes())
	coded(x, &c.Remedy, RemedyCodes())
	x.Epsilon(&c.Ceiling, &c.Spent, &c.Asked, &c.Cost, &c.Remaining, &c.Largest)
	if c.Reason == api.NeedsConsent {
		x.Text(&c.Why)
	}
}

// mapTo copies the fields to the detail or, if m parses, from the detail. It records an error for a
// detail that Fields could not encode: with an unknown reason or remedy, or a text Why without its
// reason.
func (c *ObjectRefused) mapTo(d *event.ObjectRefused, m *mapper) {
	m.question(&c.Question, &d.Question)
	same(m, &c.Refusal, &d.Refusal)
	if !m.parses() {
		return
	}
	if !slices.Contains(ReasonCodes(), c.Reason) || !slices.Contains(RemedyCodes(), c.Remedy) {
		m.fail("unknown reason %q, or unknown remedy %q", c.Reason, c.Remedy)
	}
	if c.Why != "" && c.Reason != api.NeedsConsent {
		m.fail("it has the field why, which only the reason %s has", api.NeedsConsent)
	}
}

// references implements [referring].
func (c *ObjectRefused) references() References { return References{Question: c.Question} }

// Stated lists all events about an object, which proves that a statement made of them is complete.
// It is the last of these events.
type Stated struct {
	Object    string   // by name
	Forgotten uint64   // the event that last erased all earlier events, or 0
	Events    []uint64 // the events since then, in order
	Account
}

func (*Stated) Kind() Kind { return KindStated }

func (c *Stated) About() string { return c.Object }

// Fields implements [Change].
func (c *Stated) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.Uvarint(&c.Forgotten)
	x.Numbers(&c.Events)
	c.Account.fields(x)
}

// requests implements [single].
func (c *Stated) requests(Names) ([]Identity, error) {
	return []Identity{ObjectRequest(RequestStatement, c.Object)}, nil
}

// mapTo copies the fields to the detail or, if m parses, from the detail.
func (c *Stated) mapTo(d *event.Stated, m *mapper) {
	same(m, &c.Object, &d.Object)
	same(m, &c.Cap, &d.Cap)
	same(m, &c.Spent, &d.Spent)
	m.amount(&c.Earned, &d.Earned)
	same(m, &c.Forgotten, &d.Forgotten)
	same(m, &c.Events, &d.Events)
}

// Forgotten erases all events about an object, and destroys all of its responses. What the object
// spent and earned is kept, so that the object does not get a new budget.
type Forgotten struct {
	Object string // by name, which is kept
	Events uint64 // number of erased events
	Account
	Chains []Remnant // by rising question
}

func (*Forgotten) Kind() Kind { return KindForgotten }

// Fields implements [Change].
func (c *Forgotten) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.Uvarint(&c.Events)
	c.Account.fields(x)
	const smallest = 9 // bytes of a remnant
	wire.List(x, &c.Chains, smallest, func(r *Remnant) {
		x.U32(&r.Question, &r.Policy)
		x.Epsilon(&r.Spent)
	})
}

// requests implements [single].
func (c *Forgotten) requests(Names) ([]Identity, error) {
	return []Identity{ObjectRequest(RequestForget, c.Object)}, nil
}

// mapTo copies the fields to the detail or, if m parses, from the detail. It first gives the list
// of chains in the target the length of the list in the source.
func (c *Forgotten) mapTo(d *event.Forgotten, m *mapper) {
	same(m, &c.Object, &d.Object)
	same(m, &c.Cap, &d.Cap)
	same(m, &c.Spent, &d.Spent)
	m.amount(&c.Earned, &d.Earned)
	same(m, &c.Events, &d.Erased)
	if m.parses() {
		c.Chains = append(c.Chains, make([]Remnant, len(d.Chains))...)
	} else {
		d.Chains = append(d.Chains, make([]event.ForgottenChain, len(c.Chains))...)
	}
	for i := range c.Chains {
		m.question(&c.Chains[i].Question, &d.Chains[i].Question)
		m.policy(&c.Chains[i].Policy, &d.Chains[i].Policy)
		same(m, &c.Chains[i].Spent, &d.Chains[i].Spent)
	}
}

// Remnant is the part of a chain that is kept when its object is forgotten: its ε, without its
// responses.
type Remnant struct {
	Question uint32          // by number
	Policy   uint32          // by number, 0 for none
	Spent    privacy.Epsilon // which still counts
}

// Account is what an object has spent and earned.
type Account struct {
	Cap, Spent privacy.Epsilon // the object's cap, and the cost of all its chains
	Earned     uint64          // by sales, in minor units
}

// fields describes the fields of an account, in their order.
func (a *Account) fields(x wire.Codec) {
	x.Epsilon(&a.Cap, &a.Spent)
	x.Uvarint(&a.Earned)
}
