package api

import (
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// ObjectState is everything that the ledger knows about one object.
type ObjectState struct {
	Object    string           `json:"object"`    // its name
	Cap       privacy.Epsilon  `json:"cap"`       // the most that the object may spend over all chains
	Spent     privacy.Epsilon  `json:"spent"`     // over all chains
	Held      privacy.Epsilon  `json:"held"`      // by reservations, in addition to Spent
	Remaining privacy.Epsilon  `json:"remaining"` // of the cap: Cap less Spent and Held
	Earned    int64            `json:"earned"`    // by sales, in minor units of the currency
	Forgotten uint64           `json:"forgotten"` // the last event that destroyed the object's responses, or 0
	Currency  string           `json:"currency"`  // of the ledger
	Event     uint64           `json:"event"`     // the last event that is taken into account
	Chains    List[ChainState] `json:"chains"`    // in the order in which their questions were defined
}

// ChainState is the state of the chain of one object and question. Before the first response,
// Epsilon is 0 and Response is empty.
type ChainState struct {
	Question string `json:"question"` // by its name
	// Epoch is the number of the current epoch, counted from 1 since the object was last forgotten.
	// All other fields but Earlier are about the current epoch. Each epoch is about its own true
	// value (ledger.Ledger.BeginEpoch), and the costs of all epochs add up.
	Epoch   int            `json:"epoch"`
	Earlier []EarlierEpoch `json:"earlier,omitempty"` // in order
	// Withdrawn is true if nothing more is drawn from the chain or sold of it. It ends if the
	// object is enrolled again.
	Withdrawn bool            `json:"withdrawn"`
	Policy    *policy.Policy  `json:"policy,omitempty"` // nil if only the cap limits the chain
	Buyers    uint64          `json:"buyers"`           // how many buyers hold a level
	Epsilon   privacy.Epsilon `json:"epsilon"`          // of the current level, which is the cost of the responses
	// Answered is the cost of the question in addition to Epsilon: answers to panel queries about
	// it, and what was destroyed when the object was forgotten.
	Answered privacy.Epsilon  `json:"answered"`
	Response string           `json:"response"` // at the current level
	Ceiling  privacy.Epsilon  `json:"ceiling"`  // by the policy, now; the object's cap may be a lower limit
	Levels   List[LevelState] `json:"levels"`   // in rising ε
}

// EarlierEpoch is an epoch of a chain that ended when the object began the next one. Its responses
// are not sold any more, and count in no estimate.
type EarlierEpoch struct {
	Epoch    int              `json:"epoch"`    // its number, from 1
	Ended    uint64           `json:"ended"`    // the event that began the next epoch
	Epsilon  privacy.Epsilon  `json:"epsilon"`  // of the highest level
	Answered privacy.Epsilon  `json:"answered"` // as in [ChainState]
	Levels   List[LevelState] `json:"levels"`   // in rising ε
}

// LevelState is one recorded response.
type LevelState struct {
	Epsilon  privacy.Epsilon `json:"epsilon"`          // the cost of the chain up to this level
	Response string          `json:"response"`         // formatted as the question's encoding defines
	Event    uint64          `json:"event"`            // the event that recorded it
	Buyers   []string        `json:"buyers,omitempty"` // the buyers that hold it
	// Paid is what each of Buyers paid when it got this level, in minor units of the currency.
	// Payments for all levels of a buyer count towards a higher level.
	Paid []int64 `json:"paid,omitempty"`
}

// Stats are counts of the contents of the ledger.
type Stats struct {
	Objects   uint64 `json:"objects"`   // ever enrolled, including forgotten objects
	Questions uint64 `json:"questions"` // ever defined
	Chains    uint64 `json:"chains"`    // one for each object and question
	Events    uint64 `json:"events"`    // in the log
	Buyers    uint64 `json:"buyers"`    // with at least one order
	Sales     uint64 `json:"sales"`     // how many sales were made
	Revenue   int64  `json:"revenue"`   // of all sales, in minor units of the currency
	Currency  string `json:"currency"`  // of all prices
	Bytes     int64  `json:"bytes"`     // of the file, without what is only in its journal
}
