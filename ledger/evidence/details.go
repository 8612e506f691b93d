package evidence

import (
	"time"

	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Created begins the log.
type Created struct {
	ID       string `json:"id,omitempty"`       // the ledger's, a UUID
	Currency string `json:"currency,omitempty"` // of all prices, such as "USD"
	LogKey   string `json:"log_key,omitempty"`  // by which the log is signed, if it is
}

// QuestionDefined adds a question, with all that is needed to read its responses.
type QuestionDefined struct {
	Number    uint32                `json:"number,omitempty"`    // from 1, in the order in which questions were defined
	Name      string                `json:"question,omitempty"`  // as in an order
	Values    []string              `json:"values,omitempty"`    // the labels, at least two, in the order of the definition
	Encoding  vocabulary.Encoding   `json:"encoding,omitempty"`  // what a response is
	Mechanism *vocabulary.Mechanism `json:"mechanism,omitempty"` // in finite encoding, nil in others
}

// PolicyDefined is the first use of a policy.
type PolicyDefined struct {
	Number uint32        `json:"number,omitempty"` // from 1
	Policy policy.Policy `json:"policy,omitzero"`  // ceilings and prices, as enrolments name them from here on
}

// BuyerNamed is the first order of a buyer.
type BuyerNamed struct {
	Number uint32 `json:"number,omitempty"` // from 1
	Name   string `json:"buyer,omitempty"`  // as in an order
}

// Enrolled has an object take part in a question.
type Enrolled struct {
	Object   string          `json:"object,omitempty"`    // by its name
	Question string          `json:"question,omitempty"`  // by its name
	NoiseKey uint32          `json:"noise_key,omitempty"` // the number of the key that responses are drawn from; 0 for chance
	Policy   *policy.Policy  `json:"policy,omitempty"`    // nil if only the cap binds
	Cap      privacy.Epsilon `json:"cap"`                 // of the object, over all questions, from here on
}

// TruthBound ties the responses that follow to one true value.
type TruthBound struct {
	Object   string `json:"object,omitempty"`   // whose value it is
	Question string `json:"question,omitempty"` // by its name
	// Truth is a keyed hash of the true value, 16 bytes. Without the key it says nothing.
	Truth Hex `json:"truth,omitempty"`
}

// Released records a response that was not sold.
type Released struct {
	Object   string          `json:"object,omitempty"`   // whose response it is
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // the response's level
	Response string          `json:"response,omitempty"` // as the question's encoding puts it in words
	Method   string          `json:"method,omitempty"`   // "raise", "degrade" or "insert"
}

// Charged is what an answer to a query about a panel cost an object of the panel.
type Charged struct {
	Object   string          `json:"object,omitempty"`   // who pays
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // that the object has spent more
}

// Reserved holds budget for a sale, at a price, until an instant. The object's part in it is a [Held] behind it.
type Reserved struct {
	Sale     uint64          `json:"sale,omitempty"`     // the number of the reservation, and of the sale that may come of it
	Buyer    string          `json:"buyer,omitempty"`    // by its name
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // of the responses
	Objects  uint64          `json:"objects,omitempty"`  // that are part of it
	Price    int64           `json:"price"`              // of all objects together
	Expires  time.Time       `json:"expires"`            // in UTC
	Refused  uint64          `json:"refused,omitempty"`  // objects left out
}

// Held is the part of an object in a reservation. The [Reserved] before it tells the question and the ε.
type Held struct {
	Sale   uint64         `json:"sale,omitempty"`   // the number of the reservation
	Object string         `json:"object,omitempty"` // whose budget is held
	Price  int64          `json:"price"`            // of the object
	Policy *policy.Policy `json:"policy,omitempty"` // whose prices are promised; nil for none
}

// SaleMade is a sale of responses. The object's part in it is a [Sold] behind it.
type SaleMade struct {
	Sale     uint64          `json:"sale,omitempty"`     // its number
	Buyer    string          `json:"buyer,omitempty"`    // by its name
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // of the responses
	Objects  uint64          `json:"objects,omitempty"`  // that answer
	Price    int64           `json:"price"`              // of all objects together
	// The objects by how their responses came about, and those of which the buyer held a lower level: see
	// ledger.Offer.
	Draws        uint64 `json:"draws,omitempty"`        // drawn from the truth, and charged
	Resales      uint64 `json:"resales,omitempty"`      // recorded before
	Degradations uint64 `json:"degradations,omitempty"` // derived from the lowest response
	Insertions   uint64 `json:"insertions,omitempty"`   // derived from those below and above
	Upgrades     uint64 `json:"upgrades,omitempty"`     // of which the buyer held a lower level
	Refused      uint64 `json:"refused,omitempty"`      // objects left out
}

// Sold is the response of an object in a sale. The [SaleMade] before it tells the question and the ε.
type Sold struct {
	Sale     uint64 `json:"sale,omitempty"`     // the number of the sale
	Object   string `json:"object,omitempty"`   // whose response it is
	Response string `json:"response,omitempty"` // as the question's encoding puts it in words
	Method   string `json:"method,omitempty"`   // "raise", "degrade", "insert" or "resale"
	Price    int64  `json:"price"`              // to the object
}

// Withdrawn ends an object's part in all questions, until it is enrolled again.
type Withdrawn struct {
	Object string `json:"object,omitempty"` // by its name
}

// EpochBegun closes an object's chain of responses to a question, and begins a new one about a value of its own.
type EpochBegun struct {
	Object   string `json:"object,omitempty"`   // by its name
	Question string `json:"question,omitempty"` // by its name
}

// TermsChanged puts an object under another policy, or another cap, from then on. It tells both.
type TermsChanged struct {
	Object   string          `json:"object,omitempty"`   // by its name
	Question string          `json:"question,omitempty"` // by its name
	Policy   *policy.Policy  `json:"policy,omitempty"`   // of the question; nil if only the cap binds
	Cap      privacy.Epsilon `json:"cap"`                // of the object, over all questions
	// Consent is the ledger's host's word that the object agreed. Without it nothing is more than before.
	Consent string `json:"consent,omitempty"`
}

// ObjectRefused tells that a request left an object out, and why.
type ObjectRefused struct {
	Question string             `json:"question,omitempty"` // that it was refused in, by its name
	Refusal  vocabulary.Refusal `json:"refusal"`            // it names the object
}

// Forgotten destroys what came before, and tells what of it still counts.
type Forgotten struct {
	Object string           `json:"object,omitempty"` // its name stays
	Cap    privacy.Epsilon  `json:"cap"`              // of the object, over all questions
	Spent  privacy.Epsilon  `json:"spent"`            // over all chains
	Earned int64            `json:"earned"`           // by sales
	Erased uint64           `json:"erased,omitempty"` // how many events say nothing of the object any more
	Chains []ForgottenChain `json:"chains,omitempty"` // in the order in which the questions were defined
}

// ForgottenChain is what stayed of an object's chain when the object was forgotten.
type ForgottenChain struct {
	Question string          `json:"question"`         // by its name
	Policy   *policy.Policy  `json:"policy,omitempty"` // nil if only the cap bound
	Spent    privacy.Epsilon `json:"spent"`            // for good: the question has so much less left
}

// Stated lists all events about an object. It closes a statement.
type Stated struct {
	Object    string          `json:"object,omitempty"`    // whom the statement is about
	Cap       privacy.Epsilon `json:"cap"`                 // of the object, over all questions
	Spent     privacy.Epsilon `json:"spent"`               // over all chains
	Earned    int64           `json:"earned"`              // by sales
	Forgotten uint64          `json:"forgotten,omitempty"` // the event that destroyed what came before, or 0
	Events    []uint64        `json:"events,omitempty"`    // about the object, since then, by rising number
}

// Kind returns "created".
func (*Created) Kind() string { return "created" }

// Kind returns "question".
func (*QuestionDefined) Kind() string { return "question" }

// Kind returns "policy".
func (*PolicyDefined) Kind() string { return "policy" }

// Kind returns "buyer".
func (*BuyerNamed) Kind() string { return "buyer" }

// Kind returns "enrolled".
func (*Enrolled) Kind() string { return "enrolled" }

// Kind returns "bound".
func (*TruthBound) Kind() string { return "bound" }

// Kind returns "released".
func (*Released) Kind() string { return "released" }

// Kind returns "charged".
func (*Charged) Kind() string { return "charged" }

// Kind returns "reserved".
func (*Reserved) Kind() string { return "reserved" }

// Kind returns "held".
func (*Held) Kind() string { return "held" }

// Kind returns "sale".
func (*SaleMade) Kind() string { return "sale" }

// Kind returns "sold".
func (*Sold) Kind() string { return "sold" }

// Kind returns "withdrawn".
func (*Withdrawn) Kind() string { return "withdrawn" }

// Kind returns "epoch".
func (*EpochBegun) Kind() string { return "epoch" }

// Kind returns "terms".
func (*TermsChanged) Kind() string { return "terms" }

// Kind returns "refused".
func (*ObjectRefused) Kind() string { return "refused" }

// Kind returns "forgotten".
func (*Forgotten) Kind() string { return "forgotten" }

// Kind returns "stated".
func (*Stated) Kind() string { return "stated" }

func (d *Enrolled) about() string      { return d.Object }
func (d *TruthBound) about() string    { return d.Object }
func (d *Released) about() string      { return d.Object }
func (d *Charged) about() string       { return d.Object }
func (d *Held) about() string          { return d.Object }
func (d *Sold) about() string          { return d.Object }
func (d *Withdrawn) about() string     { return d.Object }
func (d *EpochBegun) about() string    { return d.Object }
func (d *TermsChanged) about() string  { return d.Object }
func (d *ObjectRefused) about() string { return d.Refusal.Object }
func (d *Forgotten) about() string     { return d.Object }
func (d *Stated) about() string        { return d.Object }
