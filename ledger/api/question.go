package api

// MaxPanel is the largest number of objects of one answer, sale or reservation, because each of
// these is one transaction. It is also the largest number of refusals that a result or an error
// lists.
const MaxPanel = 1 << 18

// Question is a function of an object with a fixed list of labelled values.
type Question struct {
	Name   string   `json:"question"` // 1 to 256 bytes; see NameError
	Values []string `json:"values"`   // the labels: at least two, all different
	// Encoding is the form of a response:
	//   - "direct": one of the question's values, drawn by randomized response
	//   - "unary": a bit for each of the question's values, drawn in optimized unary encoding (see
	//     [rrchain.Chain]). It is written as a 0 or 1 for each value, in the order of the values.
	//     For questions with many values it is more accurate at the same ε.
	//   - "finite": an output of the question's own mechanism (see [Mechanism])
	//
	// If it is empty when the question is defined and there is a mechanism, the ledger sets
	// "finite". Without a mechanism it sets the encoding that estimates better at ε = 2, which is
	// "unary" from 21 values on. A host that plans to release at another ε may choose otherwise:
	// unary is better from 10 values on at ε = 1, and from 135 at ε = 4.
	Encoding string `json:"encoding"`
	// Mechanism defines how the question is answered in finite encoding. It is nil in other
	// encodings.
	Mechanism *Mechanism `json:"mechanism,omitempty"`
}

// The encodings that the code compares with; [Question] documents all.
const (
	encodingUnary  = "unary"
	encodingFinite = "finite"
)
