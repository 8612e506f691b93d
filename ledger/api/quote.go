package api

import "github.com/sluicedp/sluice/privacy"

// Order is a buyer's request for the responses of objects to a question at one ε.
type Order struct {
	// Buyer is a name of 1 to 256 bytes ([NameError]). The ledger does not verify who the buyer is.
	Buyer    string          `json:"buyer"`
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // above 0
	// Objects are at most MaxPanel objects. In unary or finite encoding the limit is lower. Either
	// Objects or All is set.
	Objects []string `json:"objects,omitzero"`
	// All orders every object that is enrolled in the question now and has not withdrawn.
	All bool `json:"all,omitempty"`
	// StopAtRefusal stops at the first object that is refused, unless the order is partial. Nothing
	// is computed about the other objects, nor about what they could answer instead. It is for
	// buyers, who may not see refusals. It is not part of the request that the idempotency key
	// identifies.
	StopAtRefusal bool `json:"stop_at_refusal,omitempty"`
}

// Offer describes what a buyer gets and pays.
type Offer struct {
	Buyer    string          `json:"buyer"`    // by its name
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // of the responses
	Price    int64           `json:"price"`    // of all responses, in minor units of the currency
	Currency string          `json:"currency"` // of the ledger
	Objects  uint64          `json:"objects"`  // how many objects answer
	// Draws, Resales, Degradations and Insertions count the objects by how their responses are
	// made. They add up to Objects. A buyer over HTTP gets 0 for each of them.
	Draws        uint64 `json:"draws"`        // drawn from the true value, and charged to the object
	Resales      uint64 `json:"resales"`      // recorded before at this ε
	Degradations uint64 `json:"degradations"` // derived from the lowest recorded response
	Insertions   uint64 `json:"insertions"`   // derived from the recorded responses below and above
	// Upgrades counts the objects of which the buyer holds a lower level. The buyer pays the
	// difference of the prices.
	Upgrades uint64 `json:"upgrades"`
}

// Quote describes what an order would cost and deliver. The price is promised only by a
// reservation. Without one, a sale can name the ID of the quote, and then either sells exactly that
// offer or is refused.
type Quote struct {
	// ID identifies the buyer, the question, ε, every object with its price, every refused object,
	// and their policies. Equal IDs are equal offers. An order with this ID is executed as this
	// offer, or refused. The [QuoteError] reports whether the quote was made under other terms.
	ID string `json:"id"`
	Offer
	// Refused are the objects that would not answer, with the reasons: the first 100 of them. With
	// [Order.StopAtRefusal] it has only the first refusal, and the quote has neither ID nor price.
	Refused  List[Refusal] `json:"refused"`
	Unlisted int           `json:"unlisted,omitempty"` // how many more refusals there are
	Sums     []RefusalSum  `json:"sums,omitempty"`     // counts of all refusals, by reason
	Event    uint64        `json:"event"`              // the last event that is taken into account; 0 in a [QuoteError]
	// Instead describes what the same objects could answer, if an object is refused: see
	// [RefusedError].
	Instead *Budget `json:"instead,omitempty"`
}
