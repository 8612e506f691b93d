package api

// Delivery is one response of a sale, with everything that an estimate needs. A response at a
// higher ε replaces the responses of the same object to the same question at lower ε. It is a more
// exact version of the same answer. An estimate must not count an object twice.
type Delivery struct {
	// Response's event is the one that recorded the response, which may have been for an earlier
	// sale.
	Response
	Price int64 `json:"price"` // in minor units of the currency
	// Method is "raise", "degrade", "insert" or "resale". It is "" for a buyer over HTTP.
	Method string `json:"method,omitempty"`
	Sold   uint64 `json:"sold"` // the event that recorded this delivery
	Sale   uint64 `json:"sale"` // the number of the sale
	Channel
	// Erased is true if the object was forgotten since. Then only the price of the response is
	// left.
	Erased bool `json:"erased,omitempty"`
}

// BuyerState is what the ledger knows about a buyer.
type BuyerState struct {
	Buyer    string `json:"buyer"`    // by its name
	Sales    uint64 `json:"sales"`    // how many sales were made
	Paid     int64  `json:"paid"`     // in minor units of the currency
	Currency string `json:"currency"` // of the ledger
	Event    uint64 `json:"event"`    // the last event that is taken into account
}
