package api

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// Budget says what some people can answer to a question, as of an event.
type Budget struct {
	Question string    `json:"question"` // by its name
	Objects  uint64    `json:"objects"`  // how many it is about
	Event    uint64    `json:"event"`    // the last event of the ledger that it knows
	At       time.Time `json:"at"`       // the instant whose ceilings bind
	// Largest is the largest ε, on offer to the buyer of all of them, at which all can answer at
	// once; 0 if there is none.
	Largest privacy.Epsilon   `json:"largest"`
	Levels  List[BudgetLevel] `json:"levels"` // by rising ε
	// Refused are those who cannot answer at the highest of the levels, by reason, the most
	// frequent first.
	Refused List[RefusalSum] `json:"refused"`
}

// BudgetLevel says how many can answer at an ε.
type BudgetLevel struct {
	Epsilon privacy.Epsilon `json:"epsilon"` // the level
	Can     uint64          `json:"can"`     // how many can answer at once
	// Price is what the buyer would pay for these, in minor units of the currency; 0 without a
	// buyer.
	Price int64 `json:"price"`
	// Later is how many more will be able to by time alone: if nothing else is released of them
	// until then, and all reservations that hold something of them end unused.
	Later uint64 `json:"later"`
	// From is when the last of those will be able to, at the latest: a reservation that holds
	// something of them is waited for, even if it stands in nobody's way. It is the zero time if
	// there are none.
	From time.Time `json:"from,omitzero"`
}

// RefusalSum is how many objects are refused for a reason.
type RefusalSum struct {
	Reason Reason `json:"reason"` // what stands in the way
	Count  uint64 `json:"count"`  // the number of objects
	// Largest is the smallest of what each of them can have at most at once; 0 if somebody can have
	// nothing.
	Largest privacy.Epsilon `json:"largest"`
	// From is when time alone will have helped all of them, as in [BudgetLevel]; the zero time if
	// it does not help somebody.
	From time.Time `json:"from,omitzero"`
}

// Compare puts the most frequent reason first. It is negative if s stands before other.
func (s RefusalSum) Compare(other RefusalSum) int {
	return cmp.Or(cmp.Compare(other.Count, s.Count), cmp.Compare(s.Reason, other.Reason))
}

// nearest says what is allowed in place of a request at the highest level, "" if nothing is.
// Whether there are true values for it nobody has asked. A budget that a server sent may have no
// levels.
func (b *Budget) nearest() string {
	if len(b.Levels) == 0 {
		return ""
	}
	var would []string
	top, all := b.Levels[len(b.Levels)-1], ""
	if b.Objects > 1 {
		all = fmt.Sprintf(" for all %d", b.Objects)
	}
	if !b.Largest.IsZero() && b.Largest.Less(top.Epsilon) {
		would = append(would, fmt.Sprintf("ε=%s%s", b.Largest, all))
	}
	if top.Can > 0 && top.Can < b.Objects {
		would = append(would, fmt.Sprintf("ε=%s for %d of them", top.Epsilon, top.Can))
	}
	if top.Later > 0 && top.Can+top.Later == b.Objects {
		would = append(would, fmt.Sprintf("ε=%s%s from %s on", top.Epsilon, all, top.From.Format(time.RFC3339)))
	}
	if len(would) == 0 {
		return ""
	}
	return "; what budgets and terms allow is " + strings.Join(would, ", or ")
}

// BudgetRequest asks what people can answer to a question.
type BudgetRequest struct {
	Question string   `json:"question"`         // by its name
	Objects  []string `json:"objects,omitzero"` // the people, or
	All      bool     `json:"all,omitempty"`    // everyone enrolled in the question, who has not withdrawn
	// Buyer: who would buy; "" for the host itself, which may raise whatever budgets allow
	Buyer string `json:"buyer,omitempty"`
	// Epsilons are the levels that are asked about, in any order, above 0, at most
	// [MaxBudgetLevels]. If there are none, the answer is about those at which the number of people
	// who can answer changes, or 100 of them if there are more.
	Epsilons []privacy.Epsilon `json:"epsilons,omitempty"`
}
