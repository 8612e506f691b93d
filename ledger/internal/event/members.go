package event

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// Enrolled begins the chain of an object and a question. Cap is the object's from here on.
type Enrolled struct {
	Object   string          // by name
	Question uint32          // by number
	Policy   uint32          // 0 for none
	Noise    uint32          // the key that the chain is drawn from; 0 for chance
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

func (c *Enrolled) describe(to *describer) event.Enrolled {
	return event.Enrolled{
		Object: c.Object, Question: to.question(c.Question), NoiseKey: to.noiseKey(c.Noise), Noise: c.Noise,
		Policy: to.policy(c.Policy), Cap: c.Cap,
	}
}

func (c *Enrolled) parse(d *event.Enrolled, p *parser) {
	c.Object, c.Question, c.Policy = d.Object, p.question(d.Question), p.policy(d.Policy)
	c.Noise, c.Cap = d.Noise, d.Cap
}

func (c *Enrolled) references() References { return References{Question: c.Question, Policy: c.Policy} }

// Withdrawn ends the object's part in all questions, until it is enrolled again.
type Withdrawn struct{ Object string }

func (*Withdrawn) Kind() Kind { return KindWithdrawn }

func (c *Withdrawn) About() string { return c.Object }

// Fields implements [Change].
func (c *Withdrawn) Fields(x wire.Codec) { x.Text(&c.Object) }

func (c *Withdrawn) requests(Names) ([]Identity, error) {
	return []Identity{ObjectRequest(RequestWithdraw, c.Object)}, nil
}

func (c *Withdrawn) describe(*describer) event.Withdrawn { return event.Withdrawn{Object: c.Object} }

func (c *Withdrawn) parse(d *event.Withdrawn, _ *parser) { c.Object = d.Object }

// EpochBegun closes the chain of an object and begins a new one, about a value of its own.
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

func (c *EpochBegun) requests(names Names) ([]Identity, error) {
	q, err := names.Question(c.Question)
	if err != nil {
		return nil, err
	}
	return []Identity{EpochRequest(q.Name, c.Object)}, nil
}

func (c *EpochBegun) describe(to *describer) event.EpochBegun {
	return event.EpochBegun{Object: c.Object, Question: to.question(c.Question)}
}

func (c *EpochBegun) parse(d *event.EpochBegun, p *parser) {
	c.Object, c.Question = d.Object, p.question(d.Question)
}

func (c *EpochBegun) references() References { return References{Question: c.Question} }

// TermsChanged puts the chain of an object and a question under another policy, and the object
// under another cap, from here on. It says both, also if one of them stays.
type TermsChanged struct {
	Object   string          // by name
	Question uint32          // by number
	Policy   uint32          // 0 for none
	Cap      privacy.Epsilon // over all questions
	Consent  string          // the host's word that the object agreed; "" if nothing is more than before
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

func (c *TermsChanged) describe(to *describer) event.TermsChanged {
	return event.TermsChanged{
		Object: c.Object, Question: to.question(c.Question), Policy: to.policy(c.Policy), Cap: c.Cap, Consent: c.Consent,
	}
}

func (c *TermsChanged) parse(d *event.TermsChanged, p *parser) {
	c.Object, c.Question, c.Policy = d.Object, p.question(d.Question), p.policy(d.Policy)
	c.Cap, c.Consent = d.Cap, d.Consent
}

func (c *TermsChanged) references() References {
	return References{Question: c.Question, Policy: c.Policy}
}

// ObjectRefused says whom a request left out, and why. The settled event of the request follows.
type ObjectRefused struct {
	Question uint32 // by number
	vocabulary.Refusal
}

func (*ObjectRefused) Kind() Kind { return KindRefused }

func (c *ObjectRefused) About() string { return c.Object }

// Fields implements [Change].
func (c *ObjectRefused) Fields(x wire.Codec) {
	x.U32(&c.Question)
	x.Text(&c.Object)
	coded(x, &c.Reason, ReasonCodes())
	coded(x, &c.Remedy, RemedyCodes())
	x.Epsilon(&c.Ceiling, &c.Spent, &c.Asked, &c.Cost, &c.Remaining, &c.Largest)
	if c.Reason == vocabulary.NeedsConsent {
		x.Text(&c.Why)
	}
}

func (c *ObjectRefused) describe(to *describer) event.ObjectRefused {
	return event.ObjectRefused{Question: to.question(c.Question), Refusal: c.Refusal}
}

func (c *ObjectRefused) parse(d *event.ObjectRefused, p *parser) {
	c.Question, c.Refusal = p.question(d.Question), d.Refusal
	if !slices.Contains(ReasonCodes(), c.Reason) || !slices.Contains(RemedyCodes(), c.Remedy) {
		p.fail("the reason %q, helped by %q, is none", c.Reason, c.Remedy)
	}
	if c.Why != "" && c.Reason != vocabulary.NeedsConsent {
		p.fail("it says why, which is said of %s only", vocabulary.NeedsConsent)
	}
}

func (c *ObjectRefused) references() References { return References{Question: c.Question} }

// Stated lists all events about an object, so that a statement made of them can be seen to leave
// out none. It is the last of them.
type Stated struct {
	Object    string   // by name
	Forgotten uint64   // the event that last destroyed what came before, or 0
	Events    []uint64 // since then, in order
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

func (c *Stated) requests(Names) ([]Identity, error) {
	return []Identity{ObjectRequest(RequestStatement, c.Object)}, nil
}

func (c *Stated) describe(*describer) event.Stated {
	return event.Stated{
		Object: c.Object, Cap: c.Cap, Spent: c.Spent, Earned: int64(c.Earned), Forgotten: c.Forgotten, Events: c.Events,
	}
}

func (c *Stated) parse(d *event.Stated, p *parser) {
	c.Object, c.Forgotten, c.Events = d.Object, d.Forgotten, d.Events
	c.Account = Account{d.Cap, d.Spent, p.amount(d.Earned)}
}

// Forgotten destroys all events about an object, and everything that was released of it. What it
// spent and earned stays, so that it cannot begin anew.
type Forgotten struct {
	Object string // by name: that stays
	Events uint64 // that are erased
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

func (c *Forgotten) requests(Names) ([]Identity, error) {
	return []Identity{ObjectRequest(RequestForget, c.Object)}, nil
}

func (c *Forgotten) describe(to *describer) event.Forgotten {
	d := event.Forgotten{Object: c.Object, Cap: c.Cap, Spent: c.Spent, Earned: int64(c.Earned), Erased: c.Events}
	for _, r := range c.Chains {
		d.Chains = append(d.Chains, event.ForgottenChain{
			Question: to.question(r.Question), Policy: to.policy(r.Policy), Spent: r.Spent,
		})
	}
	return d
}

func (c *Forgotten) parse(d *event.Forgotten, p *parser) {
	c.Object, c.Events, c.Account = d.Object, d.Erased, Account{d.Cap, d.Spent, p.amount(d.Earned)}
	for _, one := range d.Chains {
		c.Chains = append(c.Chains, Remnant{p.question(one.Question), p.policy(one.Policy), one.Spent})
	}
}

// Remnant is what stays of a chain.
type Remnant struct {
	Question uint32          // by number
	Policy   uint32          // by number, 0 for none
	Spent    privacy.Epsilon // which still counts
}

// Account is what an object has spent and earned.
type Account struct {
	Cap, Spent privacy.Epsilon // of the object, and what all chains have cost it
	Earned     uint64          // by sales, in minor units
}

func (a *Account) fields(x wire.Codec) {
	x.Epsilon(&a.Cap, &a.Spent)
	x.Uvarint(&a.Earned)
}
