package api

// MaxPanel is the largest number of objects of one answer, sale or reservation: each is one
// transaction. It is also the largest number of refusals that a result or an error lists.
const MaxPanel = 1 << 18

// Question is a function of an object with a fixed list of labelled values.
type Question struct {
	Name   string   `json:"question"` // 1 to 256 bytes; see NameError
	Values []string `json:"values"`   // the labels, each once, at least two
	// Encoding is what a response is:
	//   - "direct": one of the question's values, drawn by randomized response
	//   - "unary": a bit for each of the question's values, drawn in optimized unary encoding (see
	//     [rrchain.Chain]). It is written as a 0 or 1 for each value, in the order of the values.
	//     For questions with many values it tells more at the same ε.
	//   - "finite": an output of the question's own mechanism (see [Mechanism])
	//
	// If it is empty when the question is defined, the ledger picks "finite" if there is a
	// mechanism, and else the one that estimates better at ε = 2: "unary" from 21 values on. A host
	// that means to release less or more may know better: unary is better from 10 values on at
	// ε = 1, from 135 at ε = 4.
	Encoding string `json:"encoding"`
	// Mechanism is how the question is answered, in finite encoding. Else it is nil.
	Mechanism *Mechanism `json:"mechanism,omitempty"`
}

// The encodings, which [Question] describes.
const (
	encodingUnary  = "unary"
	encodingFinite = "finite"
)
