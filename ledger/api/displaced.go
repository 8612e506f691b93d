package api

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

// AnswerQuote describes what an answer about a panel would cost.
type AnswerQuote struct {
	Objects uint64          `json:"objects"` // the size of the panel, without refused objects
	Charge  privacy.Epsilon `json:"charge"`  // to each object; 0 if it is recorded or can be derived
	// Held is the highest ε at which this query about this panel has an answer; 0 if there is none.
	Held privacy.Epsilon `json:"held"`
	// NewDraw is what each object would be charged for a new draw: ε, or 0 if the answer is
	// recorded or can be derived. Charge is less than NewDraw if the answer at Held is raised.
	NewDraw privacy.Epsilon `json:"anew"`
	// NotRaised is the reason why the answer at Held is not raised, so that every object is charged
	// the full ε. It is nil if there is no answer at Held, or if that answer is raised. The reasons
	// are:
	//   - a [*mechanism.ScoreError], if answers to the query cannot be raised, or if no panel of
	//     this size has another answer;
	//   - an object has begun a new epoch since the answer at Held was first drawn;
	//   - the answer at Held or the new answer leaves an object out.
	NotRaised error `json:"-"`
	// Displaced are the levels on offer that the charge would take off the market. They reveal how
	// much budget objects have left, and are therefore for the host only.
	Displaced List[Displaced] `json:"displaced"`
	// Refused are the objects that would be left out, or because of which the answer would be
	// refused. It lists the first 100 of them. For a recorded answer it lists all objects that the
	// answer left out.
	Refused  List[Refusal] `json:"refused"`
	Unlisted int           `json:"unlisted,omitempty"` // how many more refusals there are
	Sums     []RefusalSum  `json:"sums,omitempty"`     // counts of all refusals, by reason
	Event    uint64        `json:"event"`              // the last event that is taken into account
}

// Displaced is a level on offer at which some objects of a panel could be sold before a charge for
// an answer, but not after it. It counts objects that could be sold at the level now, or later
// before their sale closes, as time and buyers raise ceilings.
//
// It is computed by the rules that decide sales: ceilings, caps, reservations and levels on offer.
// The buyer is assumed to hold nothing, and to be admitted by the terms. All questions count in
// which an object of the panel has terms of sale, because they share the cap of the object. A free
// answer displaces nothing. A level that is already released is not lost.
//
// A list is ordered by question and falling ε. It has at most 1000 rows, and for each object and
// question at most the 100 highest levels. For terms that sell every ε, it has the highest level
// that could be sold, and the points of the price curve below it. The computation takes time linear
// in the panel and in the number of levels lost. It also reads the other questions of objects whose
// cap is nearly spent or reserved.
type Displaced struct {
	Question string          `json:"question"` // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // the level on offer
	Objects  uint64          `json:"objects"`  // how many objects of the panel lose it
	// Revenue is what a buyer who holds nothing would pay for the level of these objects, in minor
	// units of the currency. The rows of a question must not be added up, because a buyer pays only
	// for the highest level.
	Revenue int64 `json:"revenue"`
}

// DisplacedError reports that an answer about a panel was refused because its charge would take
// levels on offer off the market. Nothing was drawn, charged or recorded, and the idempotency key
// is still unused. The same request succeeds if it accepts the loss (AnswerRequest.AcceptLoss).
type DisplacedError struct {
	Question  string      // the question of the answer, by its name
	Displaced []Displaced // at least one
}

// Error lists the first displaced levels, and says that the request must accept the loss.
func (e *DisplacedError) Error() string {
	rows := firstOf(e.Displaced, len(e.Displaced), func(one Displaced) string {
		return fmt.Sprintf("%q at ε=%s of %d objects, for which a new buyer would pay %d minor units",
			one.Question, one.Epsilon, one.Objects, one.Revenue)
	})
	return fmt.Sprintf("question %q: the answer would take levels on offer off the market: %s; "+
		"the request must accept this loss", e.Question, rows)
}
