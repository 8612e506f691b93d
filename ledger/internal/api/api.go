// Package api holds what requests and results look like in JSON, for the handler and the client. Where package ledger has a JSON form,
// it is that.
package api

import (
	"time"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/ledger/problem"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// KeyHeader is the header with the idempotency key.
const KeyHeader = "Idempotency-Key"

// EventHeader is the header in which a standby says as of which event it answers: the answer has that
// event, and all before it.
const EventHeader = "Sluice-Event"

// Lines is the media type of lists as a stream: an item a line, and then an [End].
const Lines = "application/x-ndjson"

// Stream is the media type of events that are sent as they happen.
const Stream = "text/event-stream"

// End is the last line of a list: without it, something is missing.
type End struct {
	End     bool             `json:"end,omitempty"`     // the list is whole
	Problem *problem.Problem `json:"problem,omitempty"` // or this came between
}

// Page is a part of a list.
type Page[Item any] struct {
	Items []Item `json:"items" doc:"In the order of the list."`
	Next  string `json:"next,omitempty" doc:"Give it as after to get the next part, which may be empty. Without it, this part was the last."`
}

// Truths are true values by object, for the draws of a request. Of an object that is not among them they say nothing, and "" says that there is none.
type Truths map[string]string

// Questions lists questions.
type Questions struct {
	Questions []ledger.Question `json:"questions" doc:"In the order of their definition."`
}

// NewQuestion is a [ledger.Question] to be defined.
type NewQuestion struct {
	Name      string            `json:"question" doc:"Its name."`
	Values    []string          `json:"values" doc:"The labels, at least two."`
	Encoding  ledger.Encoding   `json:"encoding,omitempty" doc:"Direct, unary or finite; without it, the one that estimates better."`
	Mechanism *ledger.Mechanism `json:"mechanism,omitempty" doc:"How it is answered, in finite encoding."`
}

// Enrolment is a [ledger.EnrollRequest].
type Enrolment struct {
	Question string           `json:"question" doc:"By its name."`
	Objects  []string         `json:"objects" doc:"Who is enrolled, by name."`
	Policy   policy.Policy    `json:"policy,omitzero" doc:"The ceiling of each of their chains; without it, only the cap binds."`
	Cap      privacy.Epsilon  `json:"cap,omitzero" doc:"The largest ε of each over all questions; needed if anybody is new."`
	Terms    map[string]Terms `json:"terms,omitempty" doc:"In place of policy and cap, those of each of the objects, by name."`
	Partial  bool             `json:"partial,omitempty" doc:"Leave refused objects out, rather than refuse the request."`
	New      bool             `json:"new,omitempty" doc:"Refuse the request if the ledger knows one of the objects already."`
	DryRun   bool             `json:"dry_run,omitempty" doc:"Check everything, and answer what would be done; nothing is recorded."`
}

// Terms are what one object is enrolled under.
type Terms struct {
	Policy policy.Policy   `json:"policy,omitzero" doc:"The ceiling of its chain; without it, only the cap binds."`
	Cap    privacy.Epsilon `json:"cap,omitzero" doc:"The largest ε over all questions; needed if the object is new."`
}

// Enrolled is a [ledger.EnrollResult].
type Enrolled struct {
	Enrolled int              `json:"enrolled" doc:"Newly, or again after they had withdrawn."`
	Already  int              `json:"already" doc:"Before, with the same policy."`
	Refused  []ledger.Refusal `json:"refused" doc:"Who was left out of a partial request, the first of them."`
	Unlisted int              `json:"unlisted" doc:"How many more were left out."`
	First    uint64           `json:"first" doc:"The first event."`
	Last     uint64           `json:"last" doc:"The last event."`
}

// NewTerms is a [ledger.ChangeTermsRequest].
type NewTerms struct {
	Question string          `json:"question" doc:"By its name."`
	Objects  []string        `json:"objects" doc:"Who is put under them, by name."`
	Policy   policy.Policy   `json:"policy,omitzero" doc:"That of each of their chains from now on; without it, each stays as it is."`
	NoPolicy bool            `json:"no_policy,omitempty" doc:"In place of a policy: only the cap binds from now on."`
	Cap      privacy.Epsilon `json:"cap,omitzero" doc:"The largest ε of each over all questions from now on; without it, each stays as it is."`
	Consent  string          `json:"consent,omitempty" doc:"Where their consent is on record; needed if anything may be more than before."`
	Partial  bool            `json:"partial,omitempty" doc:"Leave refused objects out, rather than refuse the request."`
}

// TermsChanged is a [ledger.ChangeTermsResult].
type TermsChanged struct {
	Changed   int              `json:"changed" doc:"Under other terms now."`
	Unchanged int              `json:"unchanged" doc:"Under these before."`
	Refused   []ledger.Refusal `json:"refused" doc:"Who was left out of a partial request, the first of them."`
	Unlisted  int              `json:"unlisted" doc:"How many more were left out."`
	First     uint64           `json:"first" doc:"The first event."`
	Last      uint64           `json:"last" doc:"The last event."`
}

// Reconcile is a [ledger.ReconcileRequest].
type Reconcile struct {
	Members  []Member `json:"members" doc:"The whole table, a row for each object and question."`
	DryRun   bool     `json:"dry_run,omitempty" doc:"Change nothing: the result is what would be done."`
	Withdraw bool     `json:"withdraw,omitempty" doc:"Withdraw who has no row any more."`
	Gone     int      `json:"gone,omitempty" doc:"How many are expected to be withdrawn, if they are more than one in a hundred."`
	AsOf     uint64   `json:"as_of,omitempty" doc:"The last event that the table knows; without it, that of when the request comes."`
	// Expected is sent by a client that has asked somebody whether that is to be done.
	Expected *ledger.ReconcileResult `json:"expected,omitempty" doc:"What a dry run has said: if anything else is to be done by now, nothing is."`
}

// Member is a [ledger.Member].
type Member struct {
	Object   string          `json:"object" doc:"By its name."`
	Question string          `json:"question" doc:"By its name."`
	Policy   policy.Policy   `json:"policy,omitzero" doc:"The ceiling of its chain; without it, only the cap binds."`
	Cap      privacy.Epsilon `json:"cap,omitzero" doc:"Its largest ε over all questions; without it, it stays as it is."`
	Consent  string          `json:"consent,omitempty" doc:"Where its consent to these terms is on record."`
}

// Release is a [ledger.ReleaseRequest].
type Release struct {
	Question string          `json:"question" doc:"By its name."`
	Object   string          `json:"object" doc:"Whose response, by name."`
	Epsilon  privacy.Epsilon `json:"epsilon" doc:"Of the response."`
	Truths   Truths          `json:"truths,omitempty" doc:"True values by object, for those who need a draw; without them the request is answered by truth-needed if it needs one."`
}

// Panel says whom a request is about.
type Panel struct {
	Objects []string `json:"objects,omitzero" doc:"The objects, by name; or all is set."`
	All     bool     `json:"all,omitempty" doc:"Everyone who takes part, in place of objects."`
	Partial bool     `json:"partial,omitempty" doc:"Leave out who is refused, rather than refuse the request."`
}

// Raise is a [ledger.RaiseRequest].
type Raise struct {
	Question string          `json:"question" doc:"By its name."`
	Epsilon  privacy.Epsilon `json:"epsilon" doc:"To which they are raised."`
	Panel
	Truths Truths `json:"truths,omitempty" doc:"True values by object, for those who need a draw."`
}

// Raised is a [ledger.RaiseResult].
type Raised struct {
	Drawn        int              `json:"drawn" doc:"Drawn, and charged."`
	Reused       int              `json:"reused" doc:"Recorded before."`
	Derived      int              `json:"derived" doc:"Derived from what is recorded."`
	Refused      []ledger.Refusal `json:"refused" doc:"Who was left out."`
	Unlisted     int              `json:"unlisted,omitempty" doc:"How many more were left out."`
	TruthChanged []string         `json:"truth_changed,omitempty" doc:"Of the refused, those whose true value is not the one drawn from before."`
	TruthInvalid []string         `json:"truth_invalid,omitempty" doc:"Of the refused, those whose true value is not one of the question's."`
	First        uint64           `json:"first" doc:"The first event."`
	Last         uint64           `json:"last" doc:"The last event."`
}

// Advance is a [ledger.AdvanceRequest].
type Advance struct {
	Question string            `json:"question,omitempty" doc:"By its name; without it, all."`
	Truths   map[string]Truths `json:"truths,omitempty" doc:"True values by question and object, for those who need a draw."`
}

// AdvancedQuestion is a [ledger.Advanced].
type AdvancedQuestion struct {
	ledger.Advanced
	TruthChanged []string `json:"truth_changed,omitempty" doc:"Of the refused, those whose true value is not the one drawn from before."`
	TruthInvalid []string `json:"truth_invalid,omitempty" doc:"Of the refused, those whose true value is not one of the question's."`
}

// Advanced is a [ledger.AdvanceResult].
type Advanced struct {
	Questions []AdvancedQuestion `json:"questions" doc:"Those with anybody enrolled."`
	First     uint64             `json:"first" doc:"The first event."`
	Last      uint64             `json:"last" doc:"The last event."`
}

// Inquiry is a [ledger.AnswerRequest].
type Inquiry struct {
	Question string          `json:"question" doc:"By its name."`
	Query    string          `json:"query" doc:"Majority:VALUE, threshold:VALUE:N, plurality or winner."`
	Epsilon  privacy.Epsilon `json:"epsilon" doc:"Of the answer."`
	Panel
	AcceptLoss bool   `json:"accept_loss,omitempty" doc:"Answer even if that takes levels on offer off the market."`
	Truths     Truths `json:"truths,omitempty" doc:"True values by object, of the panel."`
}

// Answered is a [ledger.AnswerResult].
type Answered struct {
	ledger.AnswerResult
	TruthChanged []string `json:"truth_changed,omitempty" doc:"Of the refused, those whose true value is not the one drawn from before."`
	TruthInvalid []string `json:"truth_invalid,omitempty" doc:"Of the refused, those whose true value is not one of the question's."`
}

// Health is an [observe.Health]. Of a ledger that has stopped it has the host and the problem only.
type Health struct {
	observe.Health
	Stopped *problem.Problem `json:"stopped,omitempty" doc:"Why the ledger has stopped."`
}

// AnswerQuote is a [ledger.AnswerQuote].
type AnswerQuote struct {
	Objects   uint64              `json:"objects" doc:"The size of the panel, without those refused."`
	Charge    privacy.Epsilon     `json:"charge" doc:"To each."`
	Held      privacy.Epsilon     `json:"held" doc:"The highest ε at which it is answered, or 0."`
	Anew      privacy.Epsilon     `json:"anew" doc:"What it would cost to ask anew."`
	NotRaised *problem.Problem    `json:"not_raised,omitempty" doc:"Why the answer at held is not raised."`
	Displaced []ledger.Displaced  `json:"displaced" doc:"The levels on offer that the charge would take off the market."`
	Refused   []ledger.Refusal    `json:"refused" doc:"Who would be left out, or stand in the way; the first of them."`
	Unlisted  int                 `json:"unlisted,omitempty" doc:"How many more."`
	Sums      []ledger.RefusalSum `json:"sums,omitempty" doc:"All of them, by reason."`
	Event     uint64              `json:"event" doc:"The last event that all this counts."`
}

// Order is a [ledger.Order].
type Order struct {
	Buyer    string          `json:"buyer" doc:"By its name."`
	Question string          `json:"question" doc:"By its name."`
	Epsilon  privacy.Epsilon `json:"epsilon" doc:"Of the responses."`
	Objects  []string        `json:"objects,omitzero" doc:"The objects, by name; or all is set."`
	All      bool            `json:"all,omitempty" doc:"Everyone who takes part, in place of objects."`
	// StopAtRefusal is no part of what a key stands for.
	StopAtRefusal bool `json:"stop_at_refusal,omitempty" doc:"End at the first object that is refused, unless the order is partial: it alone is listed, and nothing is computed about the others."`
}

// Ledger returns the order.
func (o Order) Ledger() ledger.Order {
	return ledger.Order{Buyer: o.Buyer, Question: o.Question, Epsilon: o.Epsilon, Objects: o.Objects, All: o.All, StopAtRefusal: o.StopAtRefusal}
}

// NewOrder returns an order in JSON.
func NewOrder(o ledger.Order) Order {
	return Order{Buyer: o.Buyer, Question: o.Question, Epsilon: o.Epsilon, Objects: o.Objects, All: o.All, StopAtRefusal: o.StopAtRefusal}
}

// BudgetOf is a [ledger.BudgetRequest].
type BudgetOf struct {
	Question string            `json:"question" doc:"By its name."`
	Objects  []string          `json:"objects,omitzero" doc:"The objects, by name; or all is set."`
	All      bool              `json:"all,omitempty" doc:"Everyone who takes part, in place of objects."`
	Buyer    string            `json:"buyer,omitempty" doc:"Who would buy, by name; without it, the host would raise."`
	Epsilons []privacy.Epsilon `json:"epsilons,omitempty" doc:"The levels that are asked about; without them, those at which something changes."`
}

// Limit is what a buyer puts up with.
type Limit struct {
	Partial  bool   `json:"partial,omitempty" doc:"Leave out who is refused, rather than refuse the order."`
	QuoteID  string `json:"quote_id,omitempty" doc:"Carry out exactly what was quoted under this ID, or nothing."`
	MaxPrice *int64 `json:"max_price,omitempty" doc:"The most to be paid in all, in minor units of the currency."`
}

// Sell is a [ledger.SellRequest].
type Sell struct {
	Order
	Limit
	Truths Truths `json:"truths,omitempty" doc:"True values by object, for those who need a draw; where the server has a source of them, only an operator may bring any."`
}

// Sold is a [ledger.Sale].
type Sold struct {
	ledger.Sale
	TruthChanged []string `json:"truth_changed,omitempty" doc:"Of the refused, those whose true value is not the one drawn from before."`
	TruthInvalid []string `json:"truth_invalid,omitempty" doc:"Of the refused, those whose true value is not one of the question's."`
}

// Reserve is a [ledger.ReserveRequest].
type Reserve struct {
	Order
	Limit
	For   Duration  `json:"for,omitzero" doc:"How long it is held from when it is granted, such as 15m; or until is set."`
	Until time.Time `json:"until,omitzero" doc:"Until when it is held."`
}

// Capture is a [ledger.CaptureRequest], but for the reservation.
type Capture struct {
	Partial bool   `json:"partial,omitempty" doc:"Leave out who cannot answer any more."`
	Truths  Truths `json:"truths,omitempty" doc:"True values by object, for those who need a draw; where the server has a source of them, only an operator may bring any."`
}

// Object names an object that something is done about.
type Object struct {
	Object string `json:"object" doc:"By its name."`
}

// Epoch says whose epoch begins, and in which question.
type Epoch struct {
	Object   string `json:"object" doc:"By its name."`
	Question string `json:"question" doc:"By its name."`
}

// Done is the result of requests that have none.
type Done struct{}

// Levels lists levels.
type Levels struct {
	Levels []ledger.LevelCount `json:"levels" doc:"By rising ε."`
}

// Buyers lists buyers.
type Buyers struct {
	Buyers []ledger.BuyerState `json:"buyers" doc:"In the order of their first orders."`
	Next   string              `json:"next,omitempty" doc:"Give it as after to get the next part. Without it, this part was the last."`
}

// Consistency proves that one tree is the beginning of another.
type Consistency struct {
	Proof []string `json:"proof" doc:"Hashes in base64, for RFC 6962's proof between the two sizes."`
}

// Verify is a [ledger.VerifyRequest].
type Verify struct {
	Checkpoints []string `json:"checkpoints,omitempty" doc:"Signed notes that the log must go on from."`
	Keys        []string `json:"keys,omitempty" doc:"The verifier keys that they may be signed by."`
}

// Verified is a [ledger.Verification], as the server sees it.
type Verified struct {
	evidence.Head
	OK       bool             `json:"ok" doc:"There is no problem."`
	Objects  uint64           `json:"objects" doc:"How many the log has."`
	Count    uint64           `json:"count" doc:"How many problems there are."`
	Problems []ledger.Problem `json:"problems" doc:"The first thousand of them."`
}

// Compacted tells the size of a file that was rewritten.
type Compacted struct {
	Bytes int64 `json:"bytes" doc:"Of the file."`
}

// TakenOver tells of a standby that has the ledger now.
type TakenOver struct {
	Events uint64 `json:"events" doc:"The last event of the log as it goes on."`
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
