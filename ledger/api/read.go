package api

import (
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// ObjectState is everything the ledger knows of one object.
type ObjectState struct {
	Object    string           `json:"object"`    // its name
	Cap       privacy.Epsilon  `json:"cap"`       // the most that it may spend over all chains
	Spent     privacy.Epsilon  `json:"spent"`     // over all chains
	Held      privacy.Epsilon  `json:"held"`      // by reservations, beyond what is spent
	Remaining privacy.Epsilon  `json:"remaining"` // of the cap, without what is held
	Earned    int64            `json:"earned"`    // by sales, in minor units of the currency
	Forgotten uint64           `json:"forgotten"` // the event that last destroyed what was released, or 0
	Currency  string           `json:"currency"`  // the ledger's
	Event     uint64           `json:"event"`     // the last one that all this counts
	Chains    List[ChainState] `json:"chains"`    // in the order in which their questions were defined
}

// ChainState is everything released of one object and question. Before the first response Epsilon
// is 0 and Response is empty.
type ChainState struct {
	Question string `json:"question"` // by its name
	// Epoch is the number of the current epoch, from 1 since the object was last forgotten: what
	// follows is of that one but for Earlier. Each is about a value of its own
	// (ledger.Ledger.BeginEpoch), and what they cost adds up.
	Epoch   int            `json:"epoch"`
	Earlier []EarlierEpoch `json:"earlier,omitempty"` // in order
	// Withdrawn: nothing more is drawn from it or sold of it, unless the object is enrolled again.
	Withdrawn bool            `json:"withdrawn"`
	Policy    *policy.Policy  `json:"policy,omitempty"` // nil if only the cap binds
	Buyers    uint64          `json:"buyers"`           // how many hold a level
	Epsilon   privacy.Epsilon `json:"epsilon"`          // of the current level, which is what the responses cost
	// Answered is what the question cost besides: answers to queries about it, and what was
	// destroyed when the object was forgotten.
	Answered privacy.Epsilon  `json:"answered"`
	Response string           `json:"response"` // at the current level
	Ceiling  privacy.Epsilon  `json:"ceiling"`  // by the policy, now; the object's cap may bind before
	Levels   List[LevelState] `json:"levels"`   // by rising ε
}

// EarlierEpoch is what a chain was before its object began a new epoch. It is sold no more, and
// counts in no estimate.
type EarlierEpoch struct {
	Epoch    int              `json:"epoch"`    // its number, from 1
	Ended    uint64           `json:"ended"`    // the event that began the next
	Epsilon  privacy.Epsilon  `json:"epsilon"`  // of the highest level
	Answered privacy.Epsilon  `json:"answered"` // as in [ChainState]
	Levels   List[LevelState] `json:"levels"`   // by rising ε
}

// LevelState is one recorded response.
type LevelState struct {
	Epsilon  privacy.Epsilon `json:"epsilon"`          // what the chain had cost up to here
	Response string          `json:"response"`         // as the question's encoding puts it in words
	Event    uint64          `json:"event"`            // that recorded it
	Buyers   []string        `json:"buyers,omitempty"` // who hold it
	// Paid is what each of Buyers paid when it got this level, in minor units of the currency. What
	// one has paid at all levels counts towards a higher one.
	Paid []int64 `json:"paid,omitempty"`
}

// Stats counts what is in the ledger.
type Stats struct {
	Objects   uint64 `json:"objects"`   // ever enrolled, the forgotten among them
	Questions uint64 `json:"questions"` // defined
	Chains    uint64 `json:"chains"`    // of an object and a question
	Events    uint64 `json:"events"`    // in the log
	Buyers    uint64 `json:"buyers"`    // who have ordered
	Sales     uint64 `json:"sales"`     // carried out
	Revenue   int64  `json:"revenue"`   // of all sales, in minor units of the currency
	Currency  string `json:"currency"`  // of all prices
	Bytes     int64  `json:"bytes"`     // of the file; what only its journal has is not counted
}
