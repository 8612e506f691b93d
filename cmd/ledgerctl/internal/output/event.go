package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// WriteEvent writes an event on one line for people.
func WriteEvent(w io.Writer, ev ledger.Event) {
	fmt.Fprintf(w, "%6d  %s  %-9s", ev.Number, ev.Time.Format("2006-01-02T15:04:05.000Z07:00"), ev.Kind())
	if ev.Erased {
		fmt.Fprint(w, " erased")
	}
	f := fields{w}
	switch d := ev.Says.(type) { // of these something is left when they are erased
	case event.Settled:
		f.settled(d)
	case event.Held:
		f.text("object", d.Object)
		f.share(d.Question, d.Epsilon, d.Sale, d.Buyer)
		f.number("price", d.Price)
	case event.Sold:
		f.text("object", d.Object)
		f.share(d.Question, d.Epsilon, d.Sale, d.Buyer)
		f.text("response", Brief(d.Response), "method", d.Method)
		f.number("price", d.Price)
	default:
		if !ev.Erased && !f.ofMarket(d) && !f.ofObject(d) {
			f.ofLedger(d)
		}
	}
	fmt.Fprintln(w)
}

// fields writes what an event says: each field with a blank before it, by its name.
type fields struct{ w io.Writer }

// text writes texts behind their names, but for those that are empty.
func (f fields) text(named ...string) {
	for pair := range slices.Chunk(named, 2) {
		if pair[1] != "" {
			fmt.Fprintf(f.w, " %s=%s", pair[0], Quoted(pair[1]))
		}
	}
}

// list writes texts behind one name, if there are any.
func (f fields) list(name string, all []string) {
	f.text(name, strings.ReplaceAll(Listed(all), ", ", ","))
}

func (f fields) number(name string, n int64) { fmt.Fprintf(f.w, " %s=%d", name, n) }

// count writes a number that is left out if it is 0.
func (f fields) count(name string, n uint64) {
	if n > 0 {
		fmt.Fprintf(f.w, " %s=%d", name, n)
	}
}

// share writes what all events of a sale or reservation have in common.
func (f fields) share(question string, epsilon privacy.Epsilon, sale uint64, buyer string) {
	f.text("question", question, "epsilon", epsilon.String())
	f.count("sale", sale)
	f.text("buyer", buyer)
}

func (f fields) settled(d event.Settled) {
	f.text("object", d.Object)
	f.count("sale", d.Sale)
	f.text("key", d.Key)
	fmt.Fprintf(f.w, " counts=%d,%d,%d", d.Counts[0], d.Counts[1], d.Counts[2])
	f.count("refused", d.LeftOut)
}

// ofMarket writes an event of the market, and tells whether it is one.
func (f fields) ofMarket(d event.Detail) bool {
	switch d := d.(type) {
	case event.BuyerNamed:
		f.text("buyer", d.Name)
	case event.Reserved:
		f.share(d.Question, d.Epsilon, d.Sale, d.Buyer)
		f.count("objects", d.Objects)
		f.number("price", d.Price)
		f.text("expires", Stamp(d.Expires))
	case event.Cancelled:
		f.share(d.Question, d.Epsilon, d.Sale, d.Buyer)
	case event.SaleMade:
		f.share(d.Question, d.Epsilon, d.Sale, d.Buyer)
		f.count("objects", d.Objects)
		f.number("price", d.Price)
	default:
		return false
	}
	return true
}

// ofObject writes an event about one object, and tells whether it is one.
func (f fields) ofObject(d event.Detail) bool {
	switch d := d.(type) {
	case event.Enrolled:
		f.enrolled(d)
	case event.Released:
		f.text("object", d.Object, "question", d.Question, "epsilon", d.Epsilon.String(), "response",
			Brief(d.Response), "method", d.Method)
	case event.Charged:
		f.text("object", d.Object, "question", d.Question, "epsilon", d.Epsilon.String())
	case event.TruthBound:
		f.text("object", d.Object, "question", d.Question)
	case event.EpochBegun:
		f.text("object", d.Object, "question", d.Question)
	case event.TermsChanged:
		f.text("object", d.Object, "question", d.Question)
		f.policy(d.Policy)
		f.text("cap", d.Cap.String(), "consent", d.Consent)
	case event.ObjectRefused:
		f.text("object", d.Refusal.Object, "question", d.Question)
		writeRefusal(f.w, d.Refusal)
	case event.Stated:
		f.text("object", d.Object)
	case event.Withdrawn:
		f.text("object", d.Object)
	case event.Forgotten:
		f.text("object", d.Object, "cap", d.Cap.String(), "spent", d.Spent.String())
	default:
		return false
	}
	return true
}

// ofLedger writes an event that is about nobody.
func (f fields) ofLedger(d event.Detail) {
	switch d := d.(type) {
	case event.Created:
		f.text("id", d.ID, "currency", d.Currency)
	case event.NoiseKeySet:
		f.text("noise-key", d.Name)
	case event.QuestionDefined:
		f.text("question", d.Name)
		f.list("values", d.Values)
		f.text("encoding", string(d.Encoding))
		if d.Mechanism != nil {
			f.list("levels", LevelsOf(d.Mechanism))
		}
	case event.PolicyDefined:
		f.policy(&d.Policy)
	case event.Answered:
		f.text("question", d.Question, "epsilon", d.Epsilon.String(), "query", d.Query)
		f.count("objects", d.Objects)
		f.text("response", Brief(d.Response), "method", d.Method)
	}
}

func (f fields) enrolled(d event.Enrolled) {
	f.text("object", d.Object, "question", d.Question, "noise-key", d.NoiseKey)
	f.policy(d.Policy)
	f.text("cap", d.Cap.String())
}

// policy writes a policy as JSON, if there is one.
func (f fields) policy(p *policy.Policy) {
	if p != nil {
		fmt.Fprintf(f.w, " policy=%s", p)
	}
}

func writeRefusal(w io.Writer, r ledger.Refusal) {
	fmt.Fprintf(w, " reason=%s asked=%s", r.Reason, r.Asked)
	if r.Reason == ledger.ChainCeiling || r.Reason == ledger.ObjectCap {
		fmt.Fprintf(w, " cost=%s ceiling=%s spent=%s remaining=%s", r.Cost, r.Ceiling, r.Spent, r.Remaining)
	}
	if r.Why != "" {
		fmt.Fprintf(w, " why=%s", Quoted(r.Why))
	}
	fmt.Fprintf(w, " helps=%s", r.Remedy)
	if !r.Largest.IsZero() {
		fmt.Fprintf(w, " largest=%s", r.Largest)
	}
}

// LevelsOf returns the ε of a mechanism, rising.
func LevelsOf(m *ledger.Mechanism) []string {
	var all []string
	for _, epsilon := range m.Family.Epsilons() {
		all = append(all, epsilon.String())
	}
	return all
}
