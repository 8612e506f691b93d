package evidence

import (
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Fact is an event of the log in a statement: all that it says, in words, with its salt and its leaf. Questions,
// policies and buyers are given as they were defined; the events that defined them are facts before.
type Fact struct {
	Event uint64    `json:"event"`
	Time  time.Time `json:"time"`
	// Kind tells which fields there are:
	//   created    ID, Currency, LogKey of the ledger
	//   question   Number, Question, Values, Encoding, Mechanism
	//   policy     Number, Policy
	//   buyer      Number, Buyer
	//   enrolled   Object, Question, Policy (if any), NoiseKey (if any), Cap
	//   bound      Object, Question, Truth: a keyed hash of the true value, which says nothing without the key
	//   released   Object, Question, Epsilon, Response, Method
	//   charged    Object, Question, Epsilon
	//   reserved   Sale, Buyer, Question, Epsilon, Objects, Price, Refused, Expires; Price is that of all objects
	//   held       Sale, Object, Price
	//   sale       Sale, Buyer, Question, Epsilon, Objects, Price, Refused, and how the responses came about
	//   sold       Sale, Object, Price, Response, Method; the sale tells Question and Epsilon
	//   withdrawn  Object
	//   epoch      Object, Question: the chain is closed, and a new one begins
	//   refused    Refusal, Question
	//   forgotten  Object, Erased, Cap, Spent, Earned, Chains: what stayed when Erased events were destroyed
	//   stated     Object, Forgotten, Events, Cap, Spent, Earned
	Kind         string                `json:"kind"`
	ID           string                `json:"id,omitempty"`
	Currency     string                `json:"currency,omitempty"`
	LogKey       string                `json:"log_key,omitempty"`
	Number       uint32                `json:"number,omitempty"`
	Sale         uint64                `json:"sale,omitempty"`
	Buyer        string                `json:"buyer,omitempty"`
	Object       string                `json:"object,omitempty"`
	Question     string                `json:"question,omitempty"`
	Values       []string              `json:"values,omitempty"`
	Encoding     vocabulary.Encoding   `json:"encoding,omitempty"`
	Mechanism    *vocabulary.Mechanism `json:"mechanism,omitempty"`
	NoiseKey     uint32                `json:"noise_key,omitempty"` // its number; 0 for chance
	Policy       *policy.Policy        `json:"policy,omitempty"`
	Cap          *privacy.Epsilon      `json:"cap,omitempty"`
	Epsilon      *privacy.Epsilon      `json:"epsilon,omitempty"`
	Spent        *privacy.Epsilon      `json:"spent,omitempty"`
	Earned       *int64                `json:"earned,omitempty"` // in minor units of the currency
	Response     string                `json:"response,omitempty"`
	Method       string                `json:"method,omitempty"`
	Truth        Hex                   `json:"truth,omitempty"`
	Objects      uint64                `json:"objects,omitempty"`
	Price        *int64                `json:"price,omitempty"` // in minor units of the currency
	Draws        uint64                `json:"draws,omitempty"`
	Resales      uint64                `json:"resales,omitempty"`
	Degradations uint64                `json:"degradations,omitempty"`
	Insertions   uint64                `json:"insertions,omitempty"`
	Upgrades     uint64                `json:"upgrades,omitempty"`
	Expires      *time.Time            `json:"expires,omitempty"`
	Refusal      *vocabulary.Refusal   `json:"refusal,omitempty"`
	Refused      uint64                `json:"refused,omitempty"`
	Forgotten    uint64                `json:"forgotten,omitempty"` // the event that destroyed what came before
	Erased       uint64                `json:"erased,omitempty"`
	Chains       []FactChain           `json:"chains,omitempty"`
	Events       []uint64              `json:"events,omitempty"` // all about Object, since then
	Salt         Hex                   `json:"salt"`
	Leaf         tlog.Hash             `json:"leaf"`
}

// FactChain is what stayed of an object's chain when the object was forgotten.
type FactChain struct {
	Question string          `json:"question"`
	Policy   *policy.Policy  `json:"policy,omitempty"`
	Spent    privacy.Epsilon `json:"spent"`
}
