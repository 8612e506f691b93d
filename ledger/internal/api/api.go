// Package api holds what requests and results look like in JSON, for the handler and the client. Where package ledger has a JSON form,
// it is that.
package api

import (
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/problem"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// KeyHeader is the header with the idempotency key.
const KeyHeader = "Idempotency-Key"

// Lines is the media type of lists: an item a line, and then an [End].
const Lines = "application/x-ndjson"

// Stream is the media type of events that are sent as they happen.
const Stream = "text/event-stream"

// End is the last line of a list: without it, something is missing.
type End struct {
	End     bool             `json:"end,omitempty"`     // the list is whole
	Problem *problem.Problem `json:"problem,omitempty"` // or this came between
}

// Truths are true values by object, for the draws of a request. Of an object that is not among them they say nothing, and "" says that there is none.
type Truths map[string]string

// Questions lists questions.
type Questions struct {
	Questions []ledger.Question `json:"questions" doc:"in the order of their definition"`
}

// NewQuestion is a [ledger.Question] to be defined.
type NewQuestion struct {
	Name      string            `json:"question" doc:"its name"`
	Values    []string          `json:"values" doc:"the labels, at least two"`
	Encoding  ledger.Encoding   `json:"encoding,omitempty" doc:"direct, unary or finite; without it, the one that estimates better"`
	Mechanism *ledger.Mechanism `json:"mechanism,omitempty" doc:"how it is answered, in finite encoding"`
}

// Enrolment is a [ledger.EnrollRequest].
type Enrolment struct {
	Question string          `json:"question" doc:"by its name"`
	Objects  []string        `json:"objects" doc:"who is enrolled, by name"`
	Policy   policy.Policy   `json:"policy,omitzero" doc:"the ceiling of each of their chains; without it, only the cap binds"`
	Cap      privacy.Epsilon `json:"cap,omitzero" doc:"the largest ε of each over all questions; needed if anybody is new"`
	Partial  bool            `json:"partial,omitempty" doc:"leave refused objects out, rather than refuse the request"`
}

// Enrolled is a [ledger.EnrollResult].
type Enrolled struct {
	Enrolled int              `json:"enrolled" doc:"newly, or again after they had withdrawn"`
	Already  int              `json:"already" doc:"before, with the same policy"`
	Refused  []ledger.Refusal `json:"refused" doc:"who was left out of a partial request, the first of them"`
	Unlisted int              `json:"unlisted" doc:"how many more were left out"`
	First    uint64           `json:"first" doc:"the first event"`
	Last     uint64           `json:"last" doc:"the last event"`
}

// Release is a [ledger.ReleaseRequest].
type Release struct {
	Question string          `json:"question" doc:"by its name"`
	Object   string          `json:"object" doc:"whose response, by name"`
	Epsilon  privacy.Epsilon `json:"epsilon" doc:"of the response"`
	Truths   Truths          `json:"truths,omitempty" doc:"true values by object, for those who need a draw; without them the request is answered by truth-needed if it needs one"`
}

// Panel says whom a request is about.
type Panel struct {
	Objects []string `json:"objects,omitempty" doc:"the objects, by name; or"`
	All     bool     `json:"all,omitempty" doc:"everyone who takes part"`
	Partial bool     `json:"partial,omitempty" doc:"leave out who is refused, rather than refuse the request"`
}

// Raise is a [ledger.RaiseRequest].
type Raise struct {
	Question string          `json:"question" doc:"by its name"`
	Epsilon  privacy.Epsilon `json:"epsilon" doc:"to which they are raised"`
	Panel
	Truths Truths `json:"truths,omitempty" doc:"true values by object, for those who need a draw"`
}

// Raised is a [ledger.RaiseResult].
type Raised struct {
	Drawn        int              `json:"drawn" doc:"drawn, and charged"`
	Reused       int              `json:"reused" doc:"recorded before"`
	Derived      int              `json:"derived" doc:"derived from what is recorded"`
	Refused      []ledger.Refusal `json:"refused" doc:"who was left out"`
	Unlisted     int              `json:"unlisted,omitempty" doc:"how many more were left out"`
	TruthChanged []string         `json:"truth_changed,omitempty" doc:"of the refused, those whose true value is not the one drawn from before"`
	First        uint64           `json:"first" doc:"the first event"`
	Last         uint64           `json:"last" doc:"the last event"`
}

// Advance is a [ledger.AdvanceRequest].
type Advance struct {
	Question string            `json:"question,omitempty" doc:"by its name; without it, all"`
	Truths   map[string]Truths `json:"truths,omitempty" doc:"true values by question and object, for those who need a draw"`
}

// AdvancedQuestion is a [ledger.Advanced].
type AdvancedQuestion struct {
	ledger.Advanced
	TruthChanged []string `json:"truth_changed,omitempty" doc:"of the refused, those whose true value is not the one drawn from before"`
}

// Advanced is a [ledger.AdvanceResult].
type Advanced struct {
	Questions []AdvancedQuestion `json:"questions" doc:"those with anybody enrolled"`
	First     uint64             `json:"first" doc:"the first event"`
	Last      uint64             `json:"last" doc:"the last event"`
}

// Inquiry is a [ledger.AnswerRequest].
type Inquiry struct {
	Question string          `json:"question" doc:"by its name"`
	Query    string          `json:"query" doc:"majority:VALUE, threshold:VALUE:N, plurality or winner"`
	Epsilon  privacy.Epsilon `json:"epsilon" doc:"of the answer"`
	Panel
	Truths Truths `json:"truths,omitempty" doc:"true values by object, of the panel"`
}

// Answered is a [ledger.AnswerResult].
type Answered struct {
	ledger.AnswerResult
	TruthChanged []string `json:"truth_changed,omitempty" doc:"of the refused, those whose true value is not the one drawn from before"`
}

// AnswerQuote is a [ledger.AnswerQuote].
type AnswerQuote struct {
	Objects   uint64           `json:"objects" doc:"the size of the panel, without those refused"`
	Charge    privacy.Epsilon  `json:"charge" doc:"to each"`
	Held      privacy.Epsilon  `json:"held" doc:"the highest ε at which it is answered, or 0"`
	Anew      privacy.Epsilon  `json:"anew" doc:"what it would cost to ask anew"`
	NotRaised *problem.Problem `json:"not_raised,omitempty" doc:"why the answer at held is not raised"`
	Refused   []ledger.Refusal `json:"refused" doc:"who would be left out, or stand in the way"`
}

// Order is a [ledger.Order].
type Order struct {
	Buyer    string          `json:"buyer" doc:"by its name"`
	Question string          `json:"question" doc:"by its name"`
	Epsilon  privacy.Epsilon `json:"epsilon" doc:"of the responses"`
	Objects  []string        `json:"objects,omitempty" doc:"the objects, by name; or"`
	All      bool            `json:"all,omitempty" doc:"everyone who takes part"`
}

// Ledger returns the order.
func (o Order) Ledger() ledger.Order {
	return ledger.Order{Buyer: o.Buyer, Question: o.Question, Epsilon: o.Epsilon, Objects: o.Objects, All: o.All}
}

// NewOrder returns an order in JSON.
func NewOrder(o ledger.Order) Order {
	return Order{Buyer: o.Buyer, Question: o.Question, Epsilon: o.Epsilon, Objects: o.Objects, All: o.All}
}

// Limit is what a buyer puts up with.
type Limit struct {
	Partial  bool   `json:"partial,omitempty" doc:"leave out who is refused, rather than refuse the order"`
	QuoteID  string `json:"quote_id,omitempty" doc:"carry out exactly what was quoted under this ID, or nothing"`
	MaxPrice *int64 `json:"max_price,omitempty" doc:"the most to be paid in all, in minor units of the currency"`
}

// Sell is a [ledger.SellRequest].
type Sell struct {
	Order
	Limit
	Truths Truths `json:"truths,omitempty" doc:"true values by object, for those who need a draw"`
}

// Sold is a [ledger.Sale].
type Sold struct {
	ledger.Sale
	TruthChanged []string `json:"truth_changed,omitempty" doc:"of the refused, those whose true value is not the one drawn from before"`
}

// Reserve is a [ledger.ReserveRequest].
type Reserve struct {
	Order
	Limit
	For Duration `json:"for" doc:"how long it is held from when it is granted, such as 15m"`
}

// Capture is a [ledger.CaptureRequest], but for the reservation.
type Capture struct {
	Partial bool   `json:"partial,omitempty" doc:"leave out who cannot answer any more"`
	Truths  Truths `json:"truths,omitempty" doc:"true values by object, for those who need a draw"`
}

// Object names an object that something is done about.
type Object struct {
	Object string `json:"object" doc:"by its name"`
}

// Epoch says whose epoch begins, and in which question.
type Epoch struct {
	Object   string `json:"object" doc:"by its name"`
	Question string `json:"question" doc:"by its name"`
}

// Done is the result of requests that have none.
type Done struct{}

// Levels lists levels.
type Levels struct {
	Levels []ledger.LevelCount `json:"levels" doc:"by rising ε"`
}

// Buyers lists buyers.
type Buyers struct {
	Buyers []ledger.BuyerState `json:"buyers" doc:"in the order of their first orders"`
}

// Consistency proves that one tree is the beginning of another.
type Consistency struct {
	Proof []string `json:"proof" doc:"hashes in base64, for RFC 6962's proof between the two sizes"`
}

// Verify is a [ledger.VerifyRequest].
type Verify struct {
	Checkpoints []string `json:"checkpoints,omitempty" doc:"signed notes that the log must go on from"`
	Keys        []string `json:"keys,omitempty" doc:"the verifier keys that they may be signed by"`
}

// Verified is a [ledger.Verification], as the server sees it.
type Verified struct {
	evidence.Head
	OK       bool             `json:"ok" doc:"there is no problem"`
	Objects  uint64           `json:"objects" doc:"how many the log has"`
	Count    uint64           `json:"count" doc:"how many problems there are"`
	Problems []ledger.Problem `json:"problems" doc:"the first thousand of them"`
}

// Compacted tells the size of a file that was rewritten.
type Compacted struct {
	Bytes int64 `json:"bytes" doc:"of the file"`
}

// Duration is a time as Go writes it, such as "15m0s".
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}
