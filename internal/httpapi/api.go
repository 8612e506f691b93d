package httpapi

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// KeyHeader is the header with the idempotency key.
const KeyHeader = "Idempotency-Key"

// EventHeader is the header in which a standby says as of which event it answers: the answer has
// that event, and all before it.
const EventHeader = "Sluice-Event"

// Lines is the media type of lists as a stream: an item a line, and then an [End].
const Lines = "application/x-ndjson"

// Stream is the media type of events that are sent as they happen.
const Stream = "text/event-stream"

// End is the last line of a list: without it, something is missing.
type End struct {
	End     bool         `json:"end,omitempty"`     // the list is whole
	Problem *api.Problem `json:"problem,omitempty"` // or this came between
}

// Page is a part of a list.
type Page[Item any] struct {
	Items []Item `json:"items"`          // in the order of the list
	Next  string `json:"next,omitempty"` // "" in the last part
}

// Truths are true values by object, for the draws of a request. Of an object that is not among them
// they say nothing, and "" says that there is none.
type Truths map[string]string

// Aside is what only the host is told of the refused objects of a request, see
// [api.RaiseResult].
type Aside struct {
	// Changed: of the refused, those whose true value is not the one drawn from before
	Changed []string `json:"truth_changed,omitempty"`
	// Invalid: of the refused, those whose true value is not one of the question's
	Invalid []string `json:"truth_invalid,omitempty"`
}

// Questions lists questions.
type Questions struct {
	Questions []api.Question `json:"questions"` // in the order of their definition
}

// NewQuestion is an [api.Question] to be defined.
type NewQuestion struct {
	Name      string         `json:"question"`            // its name
	Values    []string       `json:"values"`              // the labels, at least two
	Encoding  string         `json:"encoding,omitempty"`  // the ledger chooses if it is empty
	Mechanism *api.Mechanism `json:"mechanism,omitempty"` // how it is answered, in finite encoding
}

// Enrolment is an [api.EnrollRequest].
type Enrolment struct {
	api.EnrollRequest
	Terms map[string]Terms `json:"terms,omitempty"` // by object, in place of Policy and Cap
}

// Terms are what one object is enrolled under.
type Terms struct {
	// Policy: the ceiling of its chain; without it, only the cap binds
	Policy policy.Policy `json:"policy,omitzero"`
	// Cap: the largest ε over all questions; needed if the object is new
	Cap privacy.Epsilon `json:"cap,omitzero"`
}

// NewTerms is an [api.ChangeTermsRequest].
type NewTerms struct {
	api.ChangeTermsRequest
	// Policy: that of each of their chains from now on; without it, each stays as it is
	Policy   policy.Policy `json:"policy,omitzero"`
	NoPolicy bool          `json:"no_policy,omitempty"` // a policy without a ceiling is wanted
}

// Reconcile is an [api.ReconcileRequest].
type Reconcile struct {
	api.ReconcileRequest
	// Members: the whole table, a row for each object and question
	Members []api.Member `json:"members"`
	// Expected is sent by a client that has had a dry run confirmed.
	Expected *api.ReconcileResult `json:"expected,omitempty"`
}

// Release is an [api.ReleaseRequest].
type Release struct {
	api.ReleaseRequest
	// Truths: true values by object, for those who need a draw; without them the request is
	// answered by truth-needed if it needs one
	Truths Truths `json:"truths,omitempty"`
}

// Raise is an [api.RaiseRequest].
type Raise struct {
	api.RaiseRequest
	// Truths: true values by object, for those who need a draw
	Truths Truths `json:"truths,omitempty"`
}

// Raised is an [api.RaiseResult].
type Raised struct {
	api.RaiseResult
	Aside
}

// Advance is an [api.AdvanceRequest].
type Advance struct {
	api.AdvanceRequest
	Truths map[string]Truths `json:"truths,omitempty"` // by question
}

// AdvancedQuestion is an [api.Advanced].
type AdvancedQuestion struct {
	api.Advanced
	Aside
}

// Advanced is an [api.AdvanceResult].
type Advanced struct {
	Questions []AdvancedQuestion `json:"questions"` // those with anybody enrolled
	First     uint64             `json:"first"`     // the first event
	Last      uint64             `json:"last"`      // the last event
}

// Inquiry is an [api.AnswerRequest].
type Inquiry struct {
	api.AnswerRequest
	Truths Truths `json:"truths,omitempty"` // true values by object, of the panel
}

// Answered is an [api.AnswerResult].
type Answered struct {
	api.AnswerResult
	Aside
}

// Health is an [observe.Health]. Of a ledger that has stopped it has the host and the problem only.
type Health struct {
	observe.Health
	Stopped *api.Problem `json:"stopped,omitempty"` // why the ledger has stopped
}

// AnswerQuote is an [api.AnswerQuote].
type AnswerQuote struct {
	api.AnswerQuote
	NotRaised *api.Problem `json:"not_raised,omitempty"` // why the answer at held is not raised
}

// Sell is an [api.SellRequest].
type Sell struct {
	api.SellRequest
	// Truths: true values by object, for those who need a draw; where the server has a source of
	// them, only an operator may bring any
	Truths Truths `json:"truths,omitempty"`
}

// Sold is an [api.Sale].
type Sold struct {
	api.Sale
	Aside
}

// Reserve is an [api.ReserveRequest].
type Reserve struct {
	api.ReserveRequest
	// For: how long it is held from when it is granted, such as 15m; or until is set
	For Duration `json:"for,omitzero"`
}

// Capture is an [api.CaptureRequest], but for the reservation.
type Capture struct {
	api.CaptureRequest
	// Truths: true values by object, for those who need a draw; where the server has a source of
	// them, only an operator may bring any
	Truths Truths `json:"truths,omitempty"`
}

// Done is the result of requests that have none.
type Done struct{}

// Levels lists levels.
type Levels struct {
	Levels []api.LevelCount `json:"levels"` // by rising ε
}

// Buyers lists buyers.
type Buyers struct {
	Buyers []api.BuyerState `json:"buyers"`         // in the order of their first orders
	Next   string           `json:"next,omitempty"` // "" in the last part
}

// Consistency proves that one tree is the beginning of another.
type Consistency struct {
	Proof []string `json:"proof"` // hashes in base64
}

// Verify is an [api.VerifyRequest].
type Verify struct {
	Checkpoints []string `json:"checkpoints,omitempty"` // signed notes
	Keys        []string `json:"keys,omitempty"`        // verifier keys that they may be signed by
}

// Verified is an [api.Verification], as the server sees it.
type Verified struct {
	api.Head
	OK       bool          `json:"ok"`       // there is no problem
	Objects  uint64        `json:"objects"`  // how many the log has
	Count    uint64        `json:"count"`    // how many problems there are
	Problems []api.Finding `json:"problems"` // the first of them
}

// Compacted is the size of a file that was rewritten.
type Compacted struct {
	Bytes int64 `json:"bytes"` // of the file
}

// TakenOver is the last event of a ledger that a standby has taken over.
type TakenOver struct {
	Events uint64 `json:"events"` // the last event of the log as it goes on
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

// Panel returns how many objects a request names, and whether it is about others as well, such as
// all that there are. The request is a pointer to a type of this package, or to one of package
// api.
func Panel(request any) (named int, others bool) {
	switch r := request.(type) {
	case *api.Order:
		return len(r.Objects), r.All
	case *Sell:
		return len(r.Objects), r.All
	case *Reserve:
		return len(r.Objects), r.All
	case *api.BudgetRequest:
		return len(r.Objects), r.All
	case *Raise:
		return len(r.Objects), r.All
	case *Inquiry:
		return len(r.Objects), r.All
	case *Enrolment:
		return len(r.Objects), false
	case *NewTerms:
		return len(r.Objects), false
	case *Reconcile:
		return len(r.Members), true
	case *Advance, *Capture:
		return 0, true
	}
	return 0, false
}
