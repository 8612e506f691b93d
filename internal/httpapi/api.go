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

// EventHeader is the header with the number of the event on which a standby's answer is based. The
// answer has that event and all before it.
const EventHeader = "Sluice-Event"

// Lines is the media type of a list that is sent as a stream: one item per line, then an [End].
const Lines = "application/x-ndjson"

// Stream is the media type of a stream of events.
const Stream = "text/event-stream"

// End is the last line of a streamed list. If it is missing, the list is incomplete.
type End struct {
	End     bool         `json:"end,omitempty"`     // the list is complete
	Problem *api.Problem `json:"problem,omitempty"` // the problem that ended the list early
}

// Page is one page of a list.
type Page[Item any] struct {
	Items []Item `json:"items"`          // in the order of the list
	Next  string `json:"next,omitempty"` // "" on the last page
}

// Truths are true values by object, for the draws of a request. A missing object means that its
// value is not given. "" means that the object has no value.
type Truths map[string]string

// HostDetails describes refused objects of a request in a way that only the host may see, see
// [api.RaiseResult].
type HostDetails struct {
	// Changed are the refused objects whose true value differs from the one of their first draw.
	Changed []string `json:"truth_changed,omitempty"`
	// Invalid are the refused objects whose true value is not a value of the question.
	Invalid []string `json:"truth_invalid,omitempty"`
}

// Questions lists questions.
type Questions struct {
	Questions []api.Question `json:"questions"` // in the order of their definition
}

// NewQuestion is an [api.Question] that is to be defined.
type NewQuestion struct {
	Name      string         `json:"question"`            // its name
	Values    []string       `json:"values"`              // the labels, at least two
	Encoding  string         `json:"encoding,omitempty"`  // the ledger chooses if it is empty
	Mechanism *api.Mechanism `json:"mechanism,omitempty"` // the mechanism of a question in finite encoding
}

// Enrolment is an [api.EnrollRequest].
type Enrolment struct {
	api.EnrollRequest
	Terms map[string]Terms `json:"terms,omitempty"` // by object, instead of Policy and Cap
}

// Terms are the terms under which one object is enrolled.
type Terms struct {
	// Policy is the ceiling of the object's chain; without it, only the cap applies.
	Policy policy.Policy `json:"policy,omitzero"`
	// Cap is the largest ε over all questions; it is required for a new object.
	Cap privacy.Epsilon `json:"cap,omitzero"`
}

// NewTerms is an [api.ChangeTermsRequest].
type NewTerms struct {
	api.ChangeTermsRequest
	// Policy is the new policy of each chain; without it, each chain keeps its policy.
	Policy   policy.Policy `json:"policy,omitzero"`
	NoPolicy bool          `json:"no_policy,omitempty"` // the new policy has no ceiling
}

// Reconcile is an [api.ReconcileRequest].
type Reconcile struct {
	api.ReconcileRequest
	// Members is the whole table, with a row for each object and question.
	Members []api.Member `json:"members"`
	// Expected is the result of a dry run that the client has confirmed.
	Expected *api.ReconcileResult `json:"expected,omitempty"`
}

// Release is an [api.ReleaseRequest].
type Release struct {
	api.ReleaseRequest
	// Truths are true values by object, for the objects that need a draw. Without them, a request
	// that needs one is answered with the problem truth-needed.
	Truths Truths `json:"truths,omitempty"`
}

// Raise is an [api.RaiseRequest].
type Raise struct {
	api.RaiseRequest
	// Truths are true values by object, for the objects that need a draw.
	Truths Truths `json:"truths,omitempty"`
}

// Raised is an [api.RaiseResult].
type Raised struct {
	api.RaiseResult
	HostDetails
}

// Advance is an [api.AdvanceRequest].
type Advance struct {
	api.AdvanceRequest
	Truths map[string]Truths `json:"truths,omitempty"` // by question
}

// AdvancedQuestion is an [api.Advanced].
type AdvancedQuestion struct {
	api.Advanced
	HostDetails
}

// Advanced is an [api.AdvanceResult].
type Advanced struct {
	Questions []AdvancedQuestion `json:"questions"` // the questions with enrolled objects
	First     uint64             `json:"first"`     // the first event
	Last      uint64             `json:"last"`      // the last event
}

// PanelQuery is an [api.AnswerRequest].
type PanelQuery struct {
	api.AnswerRequest
	Truths Truths `json:"truths,omitempty"` // true values by object, of the panel
}

// Answered is an [api.AnswerResult].
type Answered struct {
	api.AnswerResult
	HostDetails
}

// Health is an [observe.Health]. For a ledger that has stopped, it has only the host and the
// problem.
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
	// Truths are true values by object, for the objects that need a draw. If the server has a
	// source of true values, only an operator may send any.
	Truths Truths `json:"truths,omitempty"`
}

// Sold is an [api.Sale].
type Sold struct {
	api.Sale
	HostDetails
}

// Reserve is an [api.ReserveRequest].
type Reserve struct {
	api.ReserveRequest
	// For is how long the reservation holds from when it is granted, such as 15m. Otherwise the
	// field until is set.
	For Duration `json:"for,omitzero"`
}

// Capture is an [api.CaptureRequest] without the reservation, whose number is in the path.
type Capture struct {
	api.CaptureRequest
	// Truths are true values by object, for the objects that need a draw. If the server has a
	// source of true values, only an operator may send any.
	Truths Truths `json:"truths,omitempty"`
}

// Done is the empty result of requests without one, and the empty body of requests without fields.
type Done struct{}

// Levels lists levels.
type Levels struct {
	Levels []api.LevelCount `json:"levels"` // by rising ε
}

// Buyers lists buyers.
type Buyers struct {
	Buyers []api.BuyerState `json:"buyers"`         // in the order of their first orders
	Next   string           `json:"next,omitempty"` // "" on the last page
}

// Consistency proves that one tree is the beginning of another.
type Consistency struct {
	Proof []string `json:"proof"` // hashes in base64
}

// Verify is an [api.VerifyRequest].
type Verify struct {
	Checkpoints []string `json:"checkpoints,omitempty"` // signed notes
	Keys        []string `json:"keys,omitempty"`        // verifier keys that may have signed the checkpoints
}

// Verified is an [api.Verification] by the server.
type Verified struct {
	api.Head
	OK       bool          `json:"ok"`       // there is no problem
	Objects  uint64        `json:"objects"`  // number of objects in the log
	Count    uint64        `json:"count"`    // number of problems
	Problems []api.Finding `json:"problems"` // the first problems
}

// Compacted is the size of a file that was rewritten.
type Compacted struct {
	Bytes int64 `json:"bytes"` // of the file
}

// TakenOver is the last event of a ledger that a standby has taken over.
type TakenOver struct {
	Events uint64 `json:"events"` // number of the last event
}

// Duration is a duration in the text form of [time.Duration], such as "15m0s".
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Panel returns how many objects a request names. others reports whether the request is also about
// objects that it does not name, such as all objects, or those of a reservation. request is the
// body of a request: a pointer to a type of this package or of package api, or nil. For a request
// about no panel the results are 0 and false.
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
	case *PanelQuery:
		return len(r.Objects), r.All
	case *Enrolment:
		return len(r.Objects), false
	case *NewTerms:
		return len(r.Objects), false
	case *Reconcile:
		return len(r.Members), true // also about the enrolled objects that the table lacks
	case *Advance, *Capture:
		return 0, true
	}
	return 0, false
}
