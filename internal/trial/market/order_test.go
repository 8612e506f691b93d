package market

import (
	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// order is what a buyer asks for. It holds everything that the ledger is asked with, so that every
// attempt asks for the same.
type order struct {
	ID       uuid.UUID       `json:"order"` // chosen by the buyer
	Buyer    string          `json:"buyer"`
	Question string          `json:"question"`
	Epsilon  privacy.Epsilon `json:"epsilon"`
	MaxPrice int64           `json:"max_price"`      // in minor units
	Card     string          `json:"card,omitempty"` // none: by invoice
}

// wanted is the order in the ledger's terms: everyone who answered the question.
func (o order) wanted() api.Order {
	return api.Order{Buyer: o.Buyer, Question: o.Question, Epsilon: o.Epsilon, All: true}
}

// The states of an order.
const (
	placed  = "placed"
	sold    = "sold"
	refused = "refused"
)

// outcome is what came of an order.
type outcome struct {
	state      string
	refusal    string
	sale       api.Sale
	deliveries []api.Delivery
	charged    int64 // to the card
	refund     int64 // of it, because it is not owed
}

func refusing(reason string) outcome { return outcome{state: refused, refusal: reason} }

// orderAnswer is what a buyer is told.
type orderAnswer struct {
	Order     uuid.UUID         `json:"order"`
	State     string            `json:"state,omitempty"`
	Refusal   string            `json:"refusal,omitempty"`
	Sale      uint64            `json:"sale,omitempty"`
	Price     int64             `json:"price"`
	Responses map[string]string `json:"responses,omitempty"` // by object
	Error     string            `json:"error,omitempty"`     // nothing is decided; ask again
}
