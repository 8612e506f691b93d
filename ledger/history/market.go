package history

import (
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// BuyerNamed comes before a buyer's first order.
type BuyerNamed struct {
	Name string `json:"buyer,omitempty"`
}

// Reserved holds budget and price of objects for a buyer. A [Held] for each of them follows.
type Reserved struct {
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // of the responses
	Objects  uint64          `json:"objects,omitempty"`  // how many
	Sale     uint64          `json:"sale,omitempty"`     // the number of the reservation, from 1
	Buyer    string          `json:"buyer,omitempty"`    // by its name
	Price    int64           `json:"price"`              // in all
	Expires  time.Time       `json:"expires"`            // in UTC; from then on it holds nothing
}

// Held is one object of the [Reserved] before it.
type Held struct {
	Object   string          `json:"object,omitempty"`   // whose budget is held
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // of the response that it may give
	Sale     uint64          `json:"sale,omitempty"`     // the number of the reservation
	Buyer    string          `json:"buyer,omitempty"`    // by its name
	Price    int64           `json:"price"`              // for this object
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
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // of the responses
	Objects  uint64          `json:"objects,omitempty"`  // how many
	Sale     uint64          `json:"sale,omitempty"`     // its number, from 1
	Buyer    string          `json:"buyer,omitempty"`    // by its name
	Price    int64           `json:"price"`              // in all
}

// Sold is one object of the [SaleMade] before it, with its response.
type Sold struct {
	Object   string          `json:"object,omitempty"`   // who answers
	Question string          `json:"question,omitempty"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`            // the level of the response
	Response string          `json:"response,omitempty"` // as the question's encoding puts it in words
	Method   string          `json:"method,omitempty"`   // "raise", "degrade" or "insert"; "resale" for one that was recorded before
	Sale     uint64          `json:"sale,omitempty"`     // the number of the sale
	Buyer    string          `json:"buyer,omitempty"`    // by its name
	Price    int64           `json:"price"`              // for this object
}

func (BuyerNamed) Kind() string { return "buyer" }
func (Reserved) Kind() string   { return "reserved" }
func (Held) Kind() string       { return "held" }
func (Cancelled) Kind() string  { return "cancelled" }
func (SaleMade) Kind() string   { return "sale" }
func (Sold) Kind() string       { return "sold" }

func (BuyerNamed) about() string { return "" }
func (Reserved) about() string   { return "" }
func (d Held) about() string     { return d.Object }
func (Cancelled) about() string  { return "" }
func (SaleMade) about() string   { return "" }
func (d Sold) about() string     { return d.Object }
