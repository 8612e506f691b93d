package api

import "github.com/sluicedp/sluice/privacy"

// Order is what a buyer asks for: the responses of objects to a question at one ε.
type Order struct {
	// Buyer: 1 to 256 bytes; the ledger does not know who it is; see [NameError]
	Buyer    string          `json:"buyer"`
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // above 0
	// Objects: the objects, at most MaxPanel (of questions in unary or finite encoding fewer), or
	Objects []string `json:"objects,omitzero"`
	// All: all objects enrolled in the question by now that have not withdrawn
	All bool `json:"all,omitempty"`
	// StopAtRefusal ends the order at the first object that is refused, unless it is sold in part:
	// nothing is computed about the others, nor what would be possible instead. It is for buyers
	// who may not see refusals, and no part of what a key stands for.
	StopAtRefusal bool `json:"stop_at_refusal,omitempty"`
}

// Offer is what a buyer gets and pays.
type Offer struct {
	Buyer    string          `json:"buyer"`    // by its name
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // of the responses
	Price    int64           `json:"price"`    // in all, in minor units of the currency
	Currency string          `json:"currency"` // the ledger's
	Objects  uint64          `json:"objects"`  // that answer
	// The objects by how their responses come about; together they are all. A buyer behind an
	// address is quoted 0 of each kind.
	Draws        uint64 `json:"draws"`        // drawn from the truth and charged to the object
	Resales      uint64 `json:"resales"`      // recorded before
	Degradations uint64 `json:"degradations"` // derived from the lowest response
	Insertions   uint64 `json:"insertions"`   // derived from those below and above
	// Upgrades are the objects of which the buyer holds a lower level, and pays the difference.
	Upgrades uint64 `json:"upgrades"`
}

// Quote says what an order would cost and bring. It is a promise only together with a reservation;
// without one, a sale can be held to it by its ID.
type Quote struct {
	// ID stands for the buyer, the question, ε, every object with its price, and every object
	// refused; and for the policies that they are under. Equal IDs are equal offers. An order that
	// is held to it is the same offer, or refused; then [QuoteError] tells whether it was made
	// under other terms.
	ID string `json:"id"`
	Offer
	// Refused are the objects that would not answer, and why: the first 100 of
	// them. With [Order.StopAtRefusal] it is the first alone, and the quote has neither ID nor
	// price.
	Refused  List[Refusal] `json:"refused"`
	Unlisted int           `json:"unlisted,omitempty"` // how many more
	Sums     []RefusalSum  `json:"sums,omitempty"`     // all of them, by reason
	Event    uint64        `json:"event"`              // the last one that all this counts; 0 in a [QuoteError]
	// Instead says what the same objects could answer, if somebody is refused: see [RefusedError].
	Instead *Budget `json:"instead,omitempty"`
}
