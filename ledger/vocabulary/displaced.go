package vocabulary

import (
	"fmt"
	"strings"

	"github.com/sluicedp/sluice/privacy"
)

// Displaced is a level that some objects of a panel could be sold at before they are charged for an answer, and not after.
type Displaced struct {
	Question string          `json:"question"` // by its name: an object's cap is shared by its questions
	Epsilon  privacy.Epsilon `json:"epsilon"`  // the level on offer
	Objects  uint64          `json:"objects"`  // how many objects of the panel lose it
	// Revenue is what a buyer who holds nothing would pay for the level of these objects, in minor units of the currency. The rows of
	// a question do not add up: a buyer pays for the highest level only.
	Revenue int64 `json:"revenue"`
}

// MaxDisplaced is how many rows a list of displaced levels has at most: those of the highest ε.
const MaxDisplaced = 1000

// DisplacedError reports that an answer about a panel was refused because its charge would take levels that are on offer off the
// market. Nothing was drawn, charged or recorded, and the idempotency key is still free. The same request is answered if it accepts
// the loss (AnswerRequest.AcceptLoss).
type DisplacedError struct {
	Question  string      // that the answer is about, by its name
	Displaced []Displaced // at least one, in the order of AnswerQuote.Displaced
}

func (e *DisplacedError) Error() string {
	const shown = 3
	var text strings.Builder
	fmt.Fprintf(&text, "question %q: the answer would take levels on offer off the market: ", e.Question)
	for i, one := range e.Displaced {
		if i == shown {
			fmt.Fprintf(&text, "; and %d more", len(e.Displaced)-shown)
			break
		}
		if i > 0 {
			text.WriteString("; ")
		}
		fmt.Fprintf(&text, "%q at ε=%s of %d objects, for which a new buyer would pay %d minor units", one.Question, one.Epsilon, one.Objects, one.Revenue)
	}
	text.WriteString("; the request must accept this loss")
	return text.String()
}
