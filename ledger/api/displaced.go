package api

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

// AnswerQuote says what an answer about a panel would cost.
type AnswerQuote struct {
	Objects uint64          `json:"objects"` // the size of the panel, without the objects refused
	Charge  privacy.Epsilon `json:"charge"`  // to each object; 0 if the answer is recorded or can be derived
	// Held: the highest ε at which this query about this panel is answered, or 0
	Held privacy.Epsilon `json:"held"`
	// Anew is what it would cost to draw the answer again: ε, or 0 if it is recorded or can be
	// derived. Charge is less if the answer at Held is raised.
	Anew privacy.Epsilon `json:"anew"`
	// NotRaised says why the answer at Held is not raised, so that every object is charged in full:
	// a [*mechanism.ScoreError] if answers to the query cannot be raised, or if no panel of this
	// size has another answer; or that an object began a new epoch, or that one of the two answers
	// leaves an object out. It is nil if there is no such answer, or if it is raised.
	NotRaised error `json:"-"`
	// Displaced are the levels on offer that the charge would take off the market. They say what
	// objects have left, and so are for the host alone.
	Displaced List[Displaced] `json:"displaced"`
	// Refused are the objects that would be left out, or for which the answer would be refused: the
	// first 100 of them, or all that an answer left out which is recorded.
	Refused  List[Refusal] `json:"refused"`
	Unlisted int           `json:"unlisted,omitempty"` // how many more
	Sums     []RefusalSum  `json:"sums,omitempty"`     // all of them, by reason
	Event    uint64        `json:"event"`              // the last event that all this counts
}

// Displaced is a level on offer that some objects of a panel could be sold at before they are
// charged for an answer, and not after: at once, or before their sale closes, as time and buyers
// raise ceilings. It is computed as sales are decided: by ceilings, caps, reservations and the
// levels on offer, for a buyer who holds nothing and whom the terms admit. All questions count in
// which an object of the panel has terms of sale, because they share its cap. A free answer
// displaces nothing, and a level that is released already is not lost.
//
// A list is ordered by question and falling ε. It has at most 1000 rows, and of each
// object and question at most the 100 highest levels. Of terms that sell every ε it has the highest
// level that could be sold, and the points of the price curve below it. To compute it takes time
// linear in the panel and in the levels lost, and in the other questions of objects whose cap is
// nearly spent or reserved.
type Displaced struct {
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // the level on offer
	Objects  uint64          `json:"objects"`  // how many objects of the panel lose it
	// Revenue is what a buyer who holds nothing would pay for the level of these objects, in minor
	// units of the currency. The rows of a question do not add up: a buyer pays for the highest
	// only.
	Revenue int64 `json:"revenue"`
}

// DisplacedError reports that an answer about a panel was refused because its charge would take
// levels on offer off the market. Nothing was drawn, charged or recorded, and the idempotency key
// is still free. The same request is answered if it accepts the loss (AnswerRequest.AcceptLoss).
type DisplacedError struct {
	Question  string      // that the answer is about, by its name
	Displaced []Displaced // at least one
}

func (e *DisplacedError) Error() string {
	rows := firstOf(e.Displaced, len(e.Displaced), func(one Displaced) string {
		return fmt.Sprintf("%q at ε=%s of %d objects, for which a new buyer would pay %d minor units",
			one.Question, one.Epsilon, one.Objects, one.Revenue)
	})
	return fmt.Sprintf("question %q: the answer would take levels on offer off the market: %s; "+
		"the request must accept this loss", e.Question, rows)
}
