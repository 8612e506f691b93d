package api

// Problem is an error in the form of RFC 9457: what a server answers with, and what the client
// returns. It wraps the error of the ledger, so that [errors.Is] and [errors.As] find what they find
// in the error of a ledger in this process. What only a served ledger has, such as "unreachable", is
// in Kind; docs/reference/errors.md lists the kinds. A later version may add kinds.
type Problem struct {
	Type   string   `json:"type"`            // a URI that names the kind, and leads to what it means
	Title  string   `json:"title"`           // the kind in words
	Status int      `json:"status"`          // the HTTP status
	Detail string   `json:"detail"`          // what went wrong, for people
	Kind   string   `json:"kind"`            // what went wrong, for programs; ledgerctl prints the same word
	Exit   int      `json:"exit"`            // the exit code that ledgerctl ends with for it
	Also   []string `json:"also,omitempty"`  // what else it is, by kind
	Hint   string   `json:"hint,omitempty"`  // what may help
	Field  string   `json:"field,omitempty"` // the field, parameter or header that is wrong

	Key      string       `json:"key,omitempty"`         // the idempotency key that another request had before
	Question string       `json:"question,omitempty"`    // whose objects were refused
	Refused  []Refusal    `json:"refused,omitempty"`     // who was refused, and why; the first of them
	Unlisted int          `json:"unlisted,omitempty"`    // how many more were refused
	Sums     []RefusalSum `json:"sums,omitempty"`        // all who were refused, by reason
	Partly   bool         `json:"partly_done,omitempty"` // its first parts are done, and stay
	// TruthChanged is as in [RefusedError]: handlers tell it to an operator only.
	TruthChanged []string `json:"truth_changed,omitempty"`
	// TruthInvalid is as in [RefusedError]; handlers tell it to an operator only.
	TruthInvalid []string `json:"truth_invalid,omitempty"`

	// Instead is as in [RefusedError].
	Instead *Budget `json:"instead,omitempty"` // what the same people could answer

	Quote        *Quote `json:"quote,omitempty"`         // what the order is now
	Expected     string `json:"expected,omitempty"`      // the ID of the quote that it was to be
	MaxPrice     *int64 `json:"max_price,omitempty"`     // the most that was to be paid
	TermsChanged bool   `json:"terms_changed,omitempty"` // the order was quoted under other terms
	Helps        string `json:"helps,omitempty"`         // what would help against it: see [QuoteError]

	Displaced []Displaced `json:"displaced,omitempty"` // levels on offer that an answer takes off the market

	Needs   []Need      `json:"needs,omitempty"`   // whose true values the request needs
	Name    *NameError  `json:"name,omitempty"`    // what is wrong with a name
	Outputs int         `json:"outputs,omitempty"` // how many outputs a query has that has no score
	Clock   *ClockError `json:"clock,omitempty"`   // a clock that is far ahead of the log
	// Reservation is as in [ReservationError].
	Reservation *ReservationError `json:"reservation,omitempty"` // a reservation that is not open

	Leader string     `json:"leader,omitempty"` // the host that has the ledger, if this is a standby
	Gone   *GoneError `json:"gone,omitempty"`   // how many have no row in a table

	// Err is what the problem is, as errors to branch on: [errors.Is] and [errors.As] find it. It is
	// not in the JSON: the client sets it from the other fields.
	Err error `json:"-"`
}

// Error returns Detail.
func (p *Problem) Error() string { return p.Detail }

// Unwrap returns Err.
func (p *Problem) Unwrap() error { return p.Err }

// Need names the objects whose true values a request needs, and did not bring: draws are about
// them, so it is for the host alone.
type Need struct {
	Question string   `json:"question"` // by its name
	Objects  []string `json:"objects"`  // as the ledger asks for them
}
