package event

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// A detail has two forms in JSON. The tag json says how a field is written in an event. The tag
// fact says how it is written in a fact of a statement: its place there, from 1, and its name and
// options if these differ. A field without one of the tags is not part of that form.

// kinds returns an empty detail of each kind.
func kinds() []Detail {
	return []Detail{
		Created{}, TruthKeySet{}, NoiseKeySet{}, QuestionDefined{}, PolicyDefined{}, Enrolled{}, Released{}, Charged{},
		Answered{}, TruthBound{}, EpochBegun{}, TermsChanged{}, ObjectRefused{}, Settled{}, Stated{}, Withdrawn{},
		Forgotten{}, BuyerNamed{}, Reserved{}, Held{}, Cancelled{}, SaleMade{}, Sold{},
	}
}

// Created begins the log.
type Created struct {
	ID       string `json:"id,omitempty" fact:"1"`        // of the ledger: a random UUID
	Currency string `json:"currency,omitempty" fact:"2"`  // of all prices, such as "USD"
	LogKey   string `json:"-" fact:"3,log_key,omitempty"` // the verifier key of the log; "" for none
}

// TruthKeySet records that from here on chains are bound to their true values by keyed hashes.
type TruthKeySet struct{}

// NoiseKeySet records that from here on chains may be drawn from a noise key of the host.
type NoiseKeySet struct {
	Name string `json:"noise_key,omitempty"` // as the host names it
}

// QuestionDefined defines a question. It is never changed.
type QuestionDefined struct {
	Number    uint32         `json:"-" fact:"1,number,omitempty"`          // from 1, in the order of the log
	Name      string         `json:"question" fact:"2,question,omitempty"` // its name
	Values    []string       `json:"values" fact:"3,values,omitempty"`     // the labels, at least two
	Encoding  string         `json:"encoding" fact:"4,encoding,omitempty"` // what a response is
	Mechanism *api.Mechanism `json:"mechanism,omitempty" fact:"5"`         // in finite encoding; else nil
}

// PolicyDefined records the first use of a policy.
type PolicyDefined struct {
	Number uint32        `json:"-" fact:"1,number,omitempty"`     // from 1, in the order of the log
	Policy policy.Policy `json:"policy" fact:"2,policy,omitzero"` // its ceilings and prices
}

// BuyerNamed comes before the first order of a buyer.
type BuyerNamed struct {
	Number uint32 `json:"-" fact:"1,number,omitempty"` // from 1, in the order of the log
	Name   string `json:"buyer,omitempty" fact:"2"`    // its name
}

// Enrolled begins the chain of an object in a question, or resumes it after the object withdrew.
type Enrolled struct {
	Object   string          `json:"object,omitempty" fact:"1"`      // by its name
	Question string          `json:"question,omitempty" fact:"2"`    // by its name, like all questions below
	NoiseKey string          `json:"noise_key,omitempty"`            // that the chain is drawn from; "" for chance
	Noise    uint32          `json:"-" fact:"3,noise_key,omitempty"` // the number of that key; 0 for chance
	Policy   *policy.Policy  `json:"policy,omitempty" fact:"4"`      // nil if only the cap binds
	Cap      privacy.Epsilon `json:"cap" fact:"5"`                   // of the object, over all questions
}

// Withdrawn ends the part of an object in all questions, until it is enrolled again.
type Withdrawn struct {
	Object string `json:"object,omitempty" fact:"1"` // by its name
}

// EpochBegun closes the chain of an object in a question, and begins a new one about another true
// value.
type EpochBegun struct {
	Object   string `json:"object,omitempty" fact:"1"`   // by its name
	Question string `json:"question,omitempty" fact:"2"` // by its name
}

// TermsChanged puts an object's chain in a question under another policy, and the object under
// another cap, from here on. It has both, also if one of them is the same as before.
type TermsChanged struct {
	Object   string          `json:"object,omitempty" fact:"1"`   // by its name
	Question string          `json:"question,omitempty" fact:"2"` // by its name
	Policy   *policy.Policy  `json:"policy,omitempty" fact:"3"`   // of the question; nil if only the cap binds
	Cap      privacy.Epsilon `json:"cap" fact:"4"`                // of the object, over all questions
	// Consent is the host's statement that the object agreed. It is "" if nothing is more than
	// before.
	Consent string `json:"consent,omitempty" fact:"5"`
}

// TruthBound binds the chain of an object in a question to the true value of the next draw.
type TruthBound struct {
	Object   string `json:"object,omitempty" fact:"1"`   // by its name
	Question string `json:"question,omitempty" fact:"2"` // by its name
	// Truth is a keyed hash of the true value, 16 bytes. It reveals nothing without the key, and is
	// in statements alone.
	Truth Hex `json:"-" fact:"3,truth,omitempty"`
}

// Released records a response that was not sold.
type Released struct {
	Object   string          `json:"object,omitempty" fact:"1"`   // by its name
	Question string          `json:"question,omitempty" fact:"2"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon" fact:"3"`            // the level of the response
	Response string          `json:"response,omitempty" fact:"4"` // in the text form of the question's encoding
	Method   string          `json:"method,omitempty" fact:"5"`   // "raise", "degrade" or "insert"
}

// Charged records what the next [Answered] costs an object of its panel.
type Charged struct {
	Object   string          `json:"object,omitempty" fact:"1"`   // by its name
	Question string          `json:"question,omitempty" fact:"2"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon" fact:"3"`            // what is added to what the object has spent
}

// Answered records the answer to a query about a panel of objects.
type Answered struct {
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // of the answer
	Query    string          `json:"query,omitempty"`    // such as "majority:yes"
	Objects  uint64          `json:"objects,omitempty"`  // the size of the panel
	Response string          `json:"response,omitempty"` // the answer
	// Method is "fresh" or "degrade"; of an answer that can be raised also "raise" or "insert".
	Method string `json:"method,omitempty"`
}

// Reserved holds the budget of objects for a buyer, at a price. A [Held] for each of them follows.
type Reserved struct {
	Question string          `json:"question,omitempty" fact:"3"`  // by its name
	Epsilon  privacy.Epsilon `json:"epsilon" fact:"4"`             // of the responses
	Objects  uint64          `json:"objects,omitempty" fact:"5"`   // how many take part
	Sale     uint64          `json:"sale,omitempty" fact:"1"`      // the number of the reservation, from 1
	Buyer    string          `json:"buyer,omitempty" fact:"2"`     // by its name
	Price    int64           `json:"price" fact:"6"`               // of all objects together
	Expires  time.Time       `json:"expires" fact:"7"`             // in UTC; from then on it holds nothing
	Refused  uint64          `json:"-" fact:"8,refused,omitempty"` // objects left out
}

// Held is one object of the [Reserved] before it. In a statement it does not repeat what that has.
type Held struct {
	Object   string          `json:"object,omitempty" fact:"2"`   // by its name
	Question string          `json:"question,omitempty"`          // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`                     // of the response that it may give
	Sale     uint64          `json:"sale,omitempty" fact:"1"`     // the number of the reservation
	Buyer    string          `json:"buyer,omitempty"`             // by its name
	Price    int64           `json:"price" fact:"3"`              // of this object
	Policy   *policy.Policy  `json:"-" fact:"4,policy,omitempty"` // whose prices are promised; nil for none
}

// Cancelled ends a reservation that was not captured.
type Cancelled struct {
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // of the responses
	Sale     uint64          `json:"sale,omitempty"`     // the number of the reservation
	Buyer    string          `json:"buyer,omitempty"`    // by its name
}

// SaleMade begins a sale. A [Sold] for each of its objects follows.
type SaleMade struct {
	Question string          `json:"question,omitempty" fact:"3"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon" fact:"4"`            // of the responses
	Objects  uint64          `json:"objects,omitempty" fact:"5"`  // how many take part
	Sale     uint64          `json:"sale,omitempty" fact:"1"`     // its number, from 1
	Buyer    string          `json:"buyer,omitempty" fact:"2"`    // by its name
	Price    int64           `json:"price" fact:"6"`              // of all objects together
	// The objects by how their responses came about, and those of which the buyer held a lower
	// level: see api.Offer.
	Draws        uint64 `json:"-" fact:"7,draws,omitempty"`        // drawn from the true value, and charged
	Resales      uint64 `json:"-" fact:"8,resales,omitempty"`      // recorded before
	Degradations uint64 `json:"-" fact:"9,degradations,omitempty"` // derived from the lowest response
	Insertions   uint64 `json:"-" fact:"10,insertions,omitempty"`  // derived from those below and above
	Upgrades     uint64 `json:"-" fact:"11,upgrades,omitempty"`    // of which the buyer held a lower level
	Refused      uint64 `json:"-" fact:"12,refused,omitempty"`     // objects left out
}

// Sold is one object of the [SaleMade] before it, with its response. In a statement it does not
// repeat what that has.
type Sold struct {
	Object   string          `json:"object,omitempty" fact:"2"`   // by its name
	Question string          `json:"question,omitempty"`          // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`                     // the level of the response
	Response string          `json:"response,omitempty" fact:"3"` // in the text form of the question's encoding
	// Method is "raise", "degrade" or "insert"; "resale" for a response that was recorded before.
	Method string `json:"method,omitempty" fact:"4"`
	Sale   uint64 `json:"sale,omitempty" fact:"1"` // the number of the sale
	Buyer  string `json:"buyer,omitempty"`         // by its name
	Price  int64  `json:"price" fact:"5"`          // of this object
}

// ObjectRefused records that a request left an object out of a question, and why. The [Settled] of
// the request, or of the part of it, follows.
type ObjectRefused struct {
	Question string      `json:"question,omitempty" fact:"1"` // by its name
	Refusal  api.Refusal `json:"refusal" fact:"2"`            // it has the name of the object
}

// Settled ends a request, or one part of a large one.
type Settled struct {
	Object string `json:"object,omitempty"` // of a request about one object alone
	Sale   uint64 `json:"sale,omitempty"`   // the sale or reservation that the request made; 0 for none
	Key    string `json:"key,omitempty"`    // the idempotency key of the request
	// Counts are how many responses, or answers, were drawn, handed out again, and derived without
	// the true value. Of an enrolment they count objects that were enrolled, and had been before.
	// Of a change of terms they count changes, and terms that were so before. Of a withdrawal of
	// many they count objects that withdrew, and had before.
	Counts  [3]uint64 `json:"counts"`
	LeftOut uint64    `json:"left_out,omitempty"` // objects refused: the events before it have each
}

// Stated records that a statement about an object was made, and closes it. Its fields other than
// Object are those of the statement.
type Stated struct {
	Object    string          `json:"object,omitempty" fact:"1"`      // by its name
	Cap       privacy.Epsilon `json:"-" fact:"2,cap"`                 // of the object, over all questions
	Spent     privacy.Epsilon `json:"-" fact:"3,spent"`               // over all chains
	Earned    int64           `json:"-" fact:"4,earned"`              // by sales
	Forgotten uint64          `json:"-" fact:"5,forgotten,omitempty"` // the event that erased all before it, or 0
	Events    []uint64        `json:"-" fact:"6,events,omitempty"`    // all since then that are about the object
}

// Forgotten destroys all events about an object, and everything that was released of it. What the
// object has spent stays, and so does this event.
type Forgotten struct {
	Object string           `json:"object,omitempty" fact:"1"`   // its name stays, here and as an object
	Cap    privacy.Epsilon  `json:"cap" fact:"2"`                // of the object, over all questions
	Spent  privacy.Epsilon  `json:"epsilon" fact:"3,spent"`      // over all chains: it still counts towards Cap
	Earned int64            `json:"-" fact:"4,earned"`           // by sales
	Erased uint64           `json:"-" fact:"5,erased,omitempty"` // how many events were erased
	Chains []ForgottenChain `json:"-" fact:"6,chains,omitempty"` // in the order in which questions were defined
}

// ForgottenChain is what stayed of an object's chain when the object was forgotten.
type ForgottenChain struct {
	Question string          `json:"question"`         // by its name
	Policy   *policy.Policy  `json:"policy,omitempty"` // nil if only the cap bound
	Spent    privacy.Epsilon `json:"spent"`            // for good: the question has so much less left
}

func (Created) Kind() string         { return "created" }
func (TruthKeySet) Kind() string     { return "truth-key" }
func (NoiseKeySet) Kind() string     { return "noise-key" }
func (QuestionDefined) Kind() string { return "question" }
func (PolicyDefined) Kind() string   { return "policy" }
func (BuyerNamed) Kind() string      { return "buyer" }
func (Enrolled) Kind() string        { return "enrolled" }
func (Withdrawn) Kind() string       { return "withdrawn" }
func (EpochBegun) Kind() string      { return "epoch" }
func (TermsChanged) Kind() string    { return "terms" }
func (TruthBound) Kind() string      { return "bound" }
func (Released) Kind() string        { return "released" }
func (Charged) Kind() string         { return "charged" }
func (Answered) Kind() string        { return "answered" }
func (Reserved) Kind() string        { return "reserved" }
func (Held) Kind() string            { return "held" }
func (Cancelled) Kind() string       { return "cancelled" }
func (SaleMade) Kind() string        { return "sale" }
func (Sold) Kind() string            { return "sold" }
func (ObjectRefused) Kind() string   { return "refused" }
func (Settled) Kind() string         { return "settled" }
func (Stated) Kind() string          { return "stated" }
func (Forgotten) Kind() string       { return "forgotten" }

func (d Enrolled) about() string      { return d.Object }
func (d Withdrawn) about() string     { return d.Object }
func (d EpochBegun) about() string    { return d.Object }
func (d TermsChanged) about() string  { return d.Object }
func (d TruthBound) about() string    { return d.Object }
func (d Released) about() string      { return d.Object }
func (d Charged) about() string       { return d.Object }
func (d Held) about() string          { return d.Object }
func (d Sold) about() string          { return d.Object }
func (d ObjectRefused) about() string { return d.Refusal.Object }
func (d Settled) about() string       { return d.Object }
func (d Stated) about() string        { return d.Object }
func (d Forgotten) about() string     { return d.Object }
