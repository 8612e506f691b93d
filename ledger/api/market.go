package api

// Delivery is one response of a sale, with all that an estimate from it needs. A response at a
// higher ε replaces those of the same object to the same question at a lower one: it is the more
// exact version of the same answer, and counting an object twice is wrong.
type Delivery struct {
	Response       // its event is the one that recorded the response, perhaps for another sale before
	Price    int64 `json:"price"` // in minor units of the currency
	// Method is "raise", "degrade", "insert" or "resale"; it is empty for a buyer over HTTP.
	Method string `json:"method,omitempty"`
	Sold   uint64 `json:"sold"` // the event that records this
	Sale   uint64 `json:"sale"` // the number of the sale
	Channel
	// Erased: the object was forgotten since. Of its response only the price is left.
	Erased bool `json:"erased,omitempty"`
}

// BuyerState is what the ledger knows of a buyer.
type BuyerState struct {
	Buyer    string `json:"buyer"`    // by its name
	Sales    uint64 `json:"sales"`    // how many were carried out
	Paid     int64  `json:"paid"`     // in minor units of the currency
	Currency string `json:"currency"` // the ledger's
	Event    uint64 `json:"event"`    // the last one that all this counts
}
