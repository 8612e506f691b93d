package event

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// A detail has two JSON forms. The tag json describes a field in an event. The tag fact describes
// it in a fact of a statement: its position there, from 1, and its name and options if they differ
// from those of the tag json. A field without one of the tags is not part of that form.

// kinds returns an empty detail of each kind, to look a kind up by its name.
func kinds() []Detail {
	return []Detail{
		Created{}, TruthKeySet{}, NoiseKeySet{}, QuestionDefined{}, PolicyDefined{}, Enrolled{}, Released{}, Charged{},
		Answered{}, TruthBound{}, EpochBegun{}, TermsChanged{}, ObjectRefused{}, Settled{}, Stated{}, Withdrawn{},
		Forgotten{}, BuyerNamed{}, Reserved{}, Held{}, Cancelled{}, SaleMade{}, Sold{},
	}
}

// Created is the first event of the log.
type Created struct {
	ID       string `json:"id,omitempty" fact:"1"`        // the ID of the ledger, a random UUID
	Currency string `json:"currency,omitempty" fact:"2"`  // the currency of all prices, such as "USD"
	LogKey   string `json:"-" fact:"3,log_key,omitempty"` // the verifier key of the log; "" for none
}

// TruthKeySet records that from this event on chains are bound to their true values by keyed
// hashes.
type TruthKeySet struct{}

// NoiseKeySet records that from this event on chains may be drawn from a noise key of the host.
type NoiseKeySet struct {
	Name string `json:"noise_key,omitempty"` // the host's name of the key
}

// QuestionDefined defines a question. A definition never changes.
type QuestionDefined struct {
	Number    uint32         `json:"-" fact:"1,number,omitempty"`          // from 1, in the order of the log
	Name      string         `json:"question" fact:"2,question,omitempty"` // its name
	Values    []string       `json:"values" fact:"3,values,omitempty"`     // the labels, at least two
	Encoding  string         `json:"encoding" fact:"4,encoding,omitempty"` // the form of responses
	Mechanism *api.Mechanism `json:"mechanism,omitempty" fact:"5"`         // set for finite encoding; otherwise nil
}

// PolicyDefined records a policy before its first use.
type PolicyDefined struct {
	Number uint32        `json:"-" fact:"1,number,omitempty"`     // from 1, in the order of the log
	Policy policy.Policy `json:"policy" fact:"2,policy,omitzero"` // its ceilings and prices
}

// BuyerNamed records a buyer before the buyer's first order.
type BuyerNamed struct {
	Number uint32 `json:"-" fact:"1,number,omitempty"` // from 1, in the order of the log
	Name   string `json:"buyer,omitempty" fact:"2"`    // its name
}

// Enrolled starts the chain of an object in a question, or resumes it after the object withdrew.
type Enrolled struct {
	Object   string          `json:"object,omitempty" fact:"1"`      // by its name
	Question string          `json:"question,omitempty" fact:"2"`    // by its name
	NoiseKey string          `json:"noise_key,omitempty"`            // of the chain; "" for random draws
	Noise    uint32          `json:"-" fact:"3,noise_key,omitempty"` // the number of that key; 0 for random draws
	Policy   *policy.Policy  `json:"policy,omitempty" fact:"4"`      // nil if only the cap applies
	Cap      privacy.Epsilon `json:"cap" fact:"5"`                   // of the object, over all questions
}

// Withdrawn ends the participation of an object in all questions, until it is enrolled again.
type Withdrawn struct {
	Object string `json:"object,omitempty" fact:"1"` // by its name
}

// EpochBegun closes the chain of an object in a question, and starts a new chain for another true
// value.
type EpochBegun struct {
	Object   string `json:"object,omitempty" fact:"1"`   // by its name
	Question string `json:"question,omitempty" fact:"2"` // by its name
}

// TermsChanged changes the policy of an object's chain in a question, and the cap of the object.
// It contains both, even if one of them is unchanged.
type TermsChanged struct {
	Object   string `json:"object,omitempty" fact:"1"`   // by its name
	Question string `json:"question,omitempty" fact:"2"` // by its name
	// Policy is the new policy of the chain; nil if only the cap applies.
	Policy *policy.Policy  `json:"policy,omitempty" fact:"3"`
	Cap    privacy.Epsilon `json:"cap" fact:"4"` // of the object, over all questions
	// Consent is the host's statement that the object agreed. It is "" if the new terms allow
	// nothing more than the old ones.
	Consent string `json:"consent,omitempty" fact:"5"`
}

// TruthBound binds the chain of an object in a question to the true value of the next draw.
type TruthBound struct {
	Object   string `json:"object,omitempty" fact:"1"`   // by its name
	Question string `json:"question,omitempty" fact:"2"` // by its name
	// Truth is a keyed hash of the true value, 16 bytes. It reveals nothing without the key. Only
	// statements contain it.
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

// Charged records what the next [Answered] costs one object of its panel.
type Charged struct {
	Object   string          `json:"object,omitempty" fact:"1"`   // by its name
	Question string          `json:"question,omitempty" fact:"2"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon" fact:"3"`            // the amount added to the object's spent ε
}

// Answered records the answer to a query about a panel of objects.
type Answered struct {
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // the ε of the answer
	Query    string          `json:"query,omitempty"`    // such as "majority:yes"
	Objects  uint64          `json:"objects,omitempty"`  // the size of the panel
	Response string          `json:"response,omitempty"` // the answer
	// Method is "fresh" or "degrade"; for an answer that can be raised also "raise" or "insert".
	Method string `json:"method,omitempty"`
}

// Reserved reserves the budget of objects for a buyer, at a price. A [Held] for each of the
// objects follows.
type Reserved struct {
	Question string          `json:"question,omitempty" fact:"3"`  // by its name
	Epsilon  privacy.Epsilon `json:"epsilon" fact:"4"`             // the ε of the responses
	Objects  uint64          `json:"objects,omitempty" fact:"5"`   // number of objects that take part
	Sale     uint64          `json:"sale,omitempty" fact:"1"`      // the number of the reservation, from 1
	Buyer    string          `json:"buyer,omitempty" fact:"2"`     // by its name
	Price    int64           `json:"price" fact:"6"`               // the total for all objects
	Expires  time.Time       `json:"expires" fact:"7"`             // in UTC; from then on nothing is reserved
	Refused  uint64          `json:"-" fact:"8,refused,omitempty"` // objects left out
}

// Held is one object of the preceding [Reserved]. In a statement it omits the fields of that
// event.
type Held struct {
	Object   string          `json:"object,omitempty" fact:"2"` // by its name
	Question string          `json:"question,omitempty"`        // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`                   // the ε of the response that it reserves
	Sale     uint64          `json:"sale,omitempty" fact:"1"`   // the number of the reservation
	Buyer    string          `json:"buyer,omitempty"`           // by its name
	Price    int64           `json:"price" fact:"3"`            // the price for this object
	// Policy is the policy whose prices are promised; nil for none.
	Policy *policy.Policy `json:"-" fact:"4,policy,omitempty"`
}

// Cancelled ends a reservation that was not captured.
type Cancelled struct {
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // the ε of the responses
	Sale     uint64          `json:"sale,omitempty"`     // the number of the reservation
	Buyer    string          `json:"buyer,omitempty"`    // by its name
}

// SaleMade starts a sale. A [Sold] for each of its objects follows.
type SaleMade struct {
	Question string          `json:"question,omitempty" fact:"3"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon" fact:"4"`            // the ε of the responses
	Objects  uint64          `json:"objects,omitempty" fact:"5"`  // number of objects that take part
	Sale     uint64          `json:"sale,omitempty" fact:"1"`     // its number, from 1
	Buyer    string          `json:"buyer,omitempty" fact:"2"`    // by its name
	Price    int64           `json:"price" fact:"6"`              // the total for all objects
	// The next fields count the objects by how their responses were made, and the objects of
	// which the buyer held a lower level: see api.Offer.
	Draws   uint64 `json:"-" fact:"7,draws,omitempty"`   // drawn from the true value, and charged
	Resales uint64 `json:"-" fact:"8,resales,omitempty"` // recorded before this sale
	// Degradations counts responses derived from the lowest one, at a lower level.
	Degradations uint64 `json:"-" fact:"9,degradations,omitempty"`
	// Insertions counts responses derived from those at the levels below and above.
	Insertions uint64 `json:"-" fact:"10,insertions,omitempty"`
	Upgrades   uint64 `json:"-" fact:"11,upgrades,omitempty"` // objects of which the buyer held a lower level
	Refused    uint64 `json:"-" fact:"12,refused,omitempty"`  // objects left out
}

// Sold is one object of the preceding [SaleMade], with its response. In a statement it omits the
// fields of that event.
type Sold struct {
	Object   string          `json:"object,omitempty" fact:"2"`   // by its name
	Question string          `json:"question,omitempty"`          // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`                     // the level of the response
	Response string          `json:"response,omitempty" fact:"3"` // in the text form of the question's encoding
	// Method is "raise", "degrade" or "insert", or "resale" for a response that was recorded
	// before.
	Method string `json:"method,omitempty" fact:"4"`
	Sale   uint64 `json:"sale,omitempty" fact:"1"` // the number of the sale
	Buyer  string `json:"buyer,omitempty"`         // by its name
	Price  int64  `json:"price" fact:"5"`          // the price for this object
}

// ObjectRefused records that a request left out an object, and why. The [Settled] of the request,
// or of that part of the request, follows.
type ObjectRefused struct {
	Question string      `json:"question,omitempty" fact:"1"` // by its name
	Refusal  api.Refusal `json:"refusal" fact:"2"`            // contains the name of the object
}

// Settled ends a request, or one part of a large request.
type Settled struct {
	Object string `json:"object,omitempty"` // the object of a request about a single object
	Sale   uint64 `json:"sale,omitempty"`   // the sale or reservation that the request created; 0 for none
	Key    string `json:"key,omitempty"`    // the idempotency key of the request
	// Counts has three counts of responses or answers: drawn, recorded before, and derived without
	// the true value. For an enrolment the first two count objects enrolled now, and enrolled
	// before. For a change of terms they count changes, and terms that were the same before. For a
	// withdrawal of many they count objects withdrawn now, and withdrawn before.
	Counts  [3]uint64 `json:"counts"`
	LeftOut uint64    `json:"left_out,omitempty"` // number of refused objects; each has a preceding event
}

// Stated records that a statement about an object was made. It is the last event of the statement.
// Its fields other than Object are also fields of the statement.
type Stated struct {
	Object    string          `json:"object,omitempty" fact:"1"`      // by its name
	Cap       privacy.Epsilon `json:"-" fact:"2,cap"`                 // of the object, over all questions
	Spent     privacy.Epsilon `json:"-" fact:"3,spent"`               // over all chains
	Earned    int64           `json:"-" fact:"4,earned"`              // by sales
	Forgotten uint64          `json:"-" fact:"5,forgotten,omitempty"` // the event that erased all earlier ones, or 0
	Events    []uint64        `json:"-" fact:"6,events,omitempty"`    // all events since then that are about the object
}

// Forgotten erases all earlier events about an object, and destroys all of its responses. What the
// object has spent is kept, and so is this event.
type Forgotten struct {
	Object string           `json:"object,omitempty" fact:"1"`   // its name is kept, here and in the ledger
	Cap    privacy.Epsilon  `json:"cap" fact:"2"`                // of the object, over all questions
	Spent  privacy.Epsilon  `json:"epsilon" fact:"3,spent"`      // over all chains; it still counts towards Cap
	Earned int64            `json:"-" fact:"4,earned"`           // by sales
	Erased uint64           `json:"-" fact:"5,erased,omitempty"` // number of erased events
	Chains []ForgottenChain `json:"-" fact:"6,chains,omitempty"` // in the order in which the questions were defined
}

// ForgottenChain is the part of an object's chain that is kept when the object is forgotten.
type ForgottenChain struct {
	Question string          `json:"question"`         // by its name
	Policy   *policy.Policy  `json:"policy,omitempty"` // nil if only the cap applied
	Spent    privacy.Epsilon `json:"spent"`            // kept: it still counts against the policy
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
