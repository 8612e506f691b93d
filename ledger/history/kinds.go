package history

import (
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Created begins the log.
type Created struct {
	ID       string `json:"id,omitempty"`       // of the ledger: a random UUID
	Currency string `json:"currency,omitempty"` // in which all prices are
}

// TruthKeySet says that from here on chains are bound to their truth by keyed hashes.
type TruthKeySet struct{}

// NoiseKeySet says that chains may be drawn from a noise key of the host's from here on.
type NoiseKeySet struct {
	Name string `json:"noise_key,omitempty"` // what the host calls it
}

// QuestionDefined defines a question, for good.
type QuestionDefined struct{ vocabulary.Question }

// PolicyDefined says that a policy is used for the first time.
type PolicyDefined struct {
	Policy policy.Policy `json:"policy"`
}

// Enrolled begins the chain of an object in a question, or puts it on other terms.
type Enrolled struct {
	Object   string          `json:"object,omitempty"`    // "" once it is erased, as in all events about one
	Question string          `json:"question,omitempty"`  // by its name
	NoiseKey string          `json:"noise_key,omitempty"` // the key that the chain is drawn from; "" for chance
	Policy   *policy.Policy  `json:"policy,omitempty"`    // nil for none
	Cap      privacy.Epsilon `json:"cap"`                 // the object's, over all its chains, from here on
}

// Released records a response that the host asked for.
type Released struct {
	Object   string          `json:"object,omitempty"`   // who answers
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // the level of the response
	Response string          `json:"response,omitempty"` // as the question's encoding puts it in words
	Method   string          `json:"method,omitempty"`   // "raise", "degrade" or "insert"
}

// Charged says that an object pays for the answer about a question that follows: the next [Answered].
type Charged struct {
	Object   string          `json:"object,omitempty"`   // who pays
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // what is added to what it has spent
}

// Answered records the answer to a query about a panel of objects.
type Answered struct {
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // of the answer
	Query    string          `json:"query,omitempty"`    // such as "majority:yes"
	Objects  uint64          `json:"objects,omitempty"`  // the size of the panel
	Response string          `json:"response,omitempty"` // the answer
	Method   string          `json:"method,omitempty"`   // "fresh" or "degrade"; of an answer that can be raised also "raise" or "insert"
}

// TruthBound ties the chain of an object in a question to the true value that is drawn from next.
type TruthBound struct {
	Object   string `json:"object,omitempty"`   // whose value it is
	Question string `json:"question,omitempty"` // by its name
}

// EpochBegun closes the chain of an object in a question, and begins a new one, about a value of its own.
type EpochBegun struct {
	Object   string `json:"object,omitempty"`   // by its name
	Question string `json:"question,omitempty"` // by its name
}

// TermsChanged puts an object's chain in a question under another policy, and the object under another cap, from here on. It says both,
// also if one of them stays.
type TermsChanged struct {
	Object   string          `json:"object,omitempty"`   // by its name
	Question string          `json:"question,omitempty"` // by its name
	Policy   *policy.Policy  `json:"policy,omitempty"`   // nil for none
	Cap      privacy.Epsilon `json:"cap"`                // the object's, over all its chains
	Consent  string          `json:"consent,omitempty"`  // the host's word that the object agreed; "" if nothing is more than before
}

// ObjectRefused says whom a request left out of a question, and why. The [Settled] of the request, or of the part of it, follows.
type ObjectRefused struct {
	Question string             // by its name
	Refusal  vocabulary.Refusal // it names the object
}

// Settled ends a request, or one part of a large one.
type Settled struct {
	Object string `json:"object,omitempty"` // whom the request was about, if it named no other
	Sale   uint64 `json:"sale,omitempty"`   // the number of the sale or reservation that the request made; 0 for none
	Key    string `json:"key,omitempty"`    // the idempotency key of the request
	// Counts are how many responses, or answers, were drawn, handed out again, and derived without the truth; of an enrolment how many
	// objects were enrolled, and had been before; of a change of terms how many changed, and were so before; of the withdrawal of many how
	// many withdrew, and had before.
	Counts  [3]uint64 `json:"counts"`
	LeftOut uint64    `json:"left_out,omitempty"` // how many objects were refused: the events before it say whom
}

// Stated says that a statement about an object was made.
type Stated struct {
	Object string `json:"object,omitempty"`
}

// Withdrawn says that an object takes part in nothing any more, until it is enrolled again.
type Withdrawn struct {
	Object string `json:"object,omitempty"`
}

// Forgotten says that all events about an object, and everything released of it, are destroyed. What it has spent stays, and so does
// this event.
type Forgotten struct {
	Object string          `json:"object,omitempty"` // its name stays, here and as an object
	Cap    privacy.Epsilon `json:"cap"`              // over all its chains
	Spent  privacy.Epsilon `json:"epsilon"`          // which still counts towards Cap
}

func (Created) Kind() string         { return "created" }
func (TruthKeySet) Kind() string     { return "truth-key" }
func (NoiseKeySet) Kind() string     { return "noise-key" }
func (QuestionDefined) Kind() string { return "question" }
func (PolicyDefined) Kind() string   { return "policy" }
func (Enrolled) Kind() string        { return "enrolled" }
func (Released) Kind() string        { return "released" }
func (Charged) Kind() string         { return "charged" }
func (Answered) Kind() string        { return "answered" }
func (TruthBound) Kind() string      { return "bound" }
func (EpochBegun) Kind() string      { return "epoch" }
func (TermsChanged) Kind() string    { return "terms" }
func (ObjectRefused) Kind() string   { return "refused" }
func (Settled) Kind() string         { return "settled" }
func (Stated) Kind() string          { return "stated" }
func (Withdrawn) Kind() string       { return "withdrawn" }
func (Forgotten) Kind() string       { return "forgotten" }

func (Created) about() string         { return "" }
func (TruthKeySet) about() string     { return "" }
func (NoiseKeySet) about() string     { return "" }
func (QuestionDefined) about() string { return "" }
func (PolicyDefined) about() string   { return "" }
func (d Enrolled) about() string      { return d.Object }
func (d Released) about() string      { return d.Object }
func (d Charged) about() string       { return d.Object }
func (Answered) about() string        { return "" }
func (d TruthBound) about() string    { return d.Object }
func (d EpochBegun) about() string    { return d.Object }
func (d TermsChanged) about() string  { return d.Object }
func (d ObjectRefused) about() string { return d.Refusal.Object }
func (d Settled) about() string       { return d.Object }
func (d Stated) about() string        { return d.Object }
func (d Withdrawn) about() string     { return d.Object }
func (d Forgotten) about() string     { return d.Object }
