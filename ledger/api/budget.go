package api

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// Budget reports at which ε some objects can answer a question, as of one event.
type Budget struct {
	Question string    `json:"question"` // by its name
	Objects  uint64    `json:"objects"`  // how many objects it is about
	Event    uint64    `json:"event"`    // the last event that is taken into account
	At       time.Time `json:"at"`       // the time at which ceilings are evaluated
	// Largest is the largest ε at which all objects can answer now, and which is on offer to the
	// buyer for each of them. It is 0 if there is none.
	Largest privacy.Epsilon   `json:"largest"`
	Levels  List[BudgetLevel] `json:"levels"` // in rising ε
	// Refused counts the objects that cannot answer at the highest of the levels, by reason. The
	// most frequent reason is first.
	Refused List[RefusalSum] `json:"refused"`
}

// BudgetLevel reports how many objects can answer at one ε.
type BudgetLevel struct {
	Epsilon privacy.Epsilon `json:"epsilon"` // the level
	Can     uint64          `json:"can"`     // how many objects can answer now
	// Price is what the buyer would pay for the objects that can answer now, in minor units of the
	// currency. It is 0 without a buyer.
	Price int64 `json:"price"`
	// Later is how many more objects will be able to answer through the passage of time alone. It
	// assumes that nothing else is released of them, and that all reservations that hold their
	// budget end unused.
	Later uint64 `json:"later"`
	// From is a time from which all objects counted in Later can answer. It can be later than
	// necessary, because every reservation that holds budget of these objects counts, even one that
	// does not prevent the answer. It is the zero time if Later is 0.
	From time.Time `json:"from,omitzero"`
}

// RefusalSum counts the objects that are refused for one reason.
type RefusalSum struct {
	Reason Reason `json:"reason"` // why the objects are refused
	Count  uint64 `json:"count"`  // how many objects are refused
	// Largest is the smallest of the objects' Largest ([Refusal]): each of them can answer at this
	// ε now. It is 0 if one of them can answer at no ε.
	Largest privacy.Epsilon `json:"largest"`
	// From is a time from which all of these objects can answer, as in [BudgetLevel]. It is the
	// zero time if time alone does not help all of them.
	From time.Time `json:"from,omitzero"`
}

// Compare orders sums by falling count, and then by reason. It is negative if s is before other.
func (s RefusalSum) Compare(other RefusalSum) int {
	return cmp.Or(cmp.Compare(other.Count, s.Count), cmp.Compare(s.Reason, other.Reason))
}

// nearest describes for an error text what budgets and terms allow instead of a request at the
// highest level of the budget. It returns "" if they allow nothing, or if a budget from a server
// has no levels. It does not know whether the host has true values for it.
func (b *Budget) nearest() string {
	if len(b.Levels) == 0 {
		return ""
	}
	var options []string
	// top is the requested level, and all the words that mean every object.
	top, all := b.Levels[len(b.Levels)-1], ""
	if b.Objects > 1 {
		all = fmt.Sprintf(" for all %d", b.Objects)
	}
	if !b.Largest.IsZero() && b.Largest.Less(top.Epsilon) {
		options = append(options, fmt.Sprintf("ε=%s%s", b.Largest, all))
	}
	if top.Can > 0 && top.Can < b.Objects {
		options = append(options, fmt.Sprintf("ε=%s for %d of them", top.Epsilon, top.Can))
	}
	if top.Later > 0 && top.Can+top.Later == b.Objects {
		options = append(options, fmt.Sprintf("ε=%s%s from %s on", top.Epsilon, all, top.From.Format(time.RFC3339)))
	}
	if len(options) == 0 {
		return ""
	}
	return "; what budgets and terms allow is " + strings.Join(options, ", or ")
}

// BudgetRequest requests a [Budget].
type BudgetRequest struct {
	Question string   `json:"question"`         // by its name
	Objects  []string `json:"objects,omitzero"` // the objects; or All
	All      bool     `json:"all,omitempty"`    // every object that is enrolled in the question and has not withdrawn
	// Buyer is the buyer of the responses. It is "" for the host itself, whose raises are limited
	// only by budgets and not by terms of sale.
	Buyer string `json:"buyer,omitempty"`
	// Epsilons are the levels to report, in any order. Each is above 0, and there are at most
	// [MaxBudgetLevels]. If there are none, the budget reports the levels at which the number of
	// objects that can answer changes. It reports at most 100 of these levels.
	Epsilons []privacy.Epsilon `json:"epsilons,omitempty"`
}
