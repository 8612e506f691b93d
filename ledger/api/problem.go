package api

// Problem is an error in the form of RFC 9457. A server sends it, and the client returns it. It
// wraps the error of the ledger, so that [errors.Is] and [errors.As] find the same errors as with a
// ledger in this process. Kind also has the errors that only a served ledger has, such as
// "unreachable". docs/reference/errors.md lists the kinds. A later version may add kinds.
type Problem struct {
	Type   string   `json:"type"`            // a URI that identifies the kind, and links to its documentation
	Title  string   `json:"title"`           // a short description of the kind
	Status int      `json:"status"`          // the HTTP status
	Detail string   `json:"detail"`          // what went wrong, for people
	Kind   string   `json:"kind"`            // what went wrong, for programs; ledgerctl prints the same kind
	Exit   int      `json:"exit"`            // the exit code of ledgerctl for this error
	Also   []string `json:"also,omitempty"`  // other kinds that apply to the error
	Hint   string   `json:"hint,omitempty"`  // what may help
	Field  string   `json:"field,omitempty"` // the field, parameter or header that is wrong

	Key      string       `json:"key,omitempty"`         // the idempotency key that another request used before
	Question string       `json:"question,omitempty"`    // the question in which objects were refused
	Refused  []Refusal    `json:"refused,omitempty"`     // the first refusals
	Unlisted int          `json:"unlisted,omitempty"`    // how many more refusals there are
	Sums     []RefusalSum `json:"sums,omitempty"`        // counts of all refusals, by reason
	Partly   bool         `json:"partly_done,omitempty"` // the first parts of the request are done, and are kept
	// TruthChanged is as in [RefusedError]; handlers send it only to an operator.
	TruthChanged []string `json:"truth_changed,omitempty"`
	// TruthInvalid is as in [RefusedError]; handlers send it only to an operator.
	TruthInvalid []string `json:"truth_invalid,omitempty"`

	// Instead is as in [RefusedError].
	Instead *Budget `json:"instead,omitempty"` // what the same objects could answer

	Quote        *Quote `json:"quote,omitempty"`         // the order as it is now
	Expected     string `json:"expected,omitempty"`      // the ID of the quote in the request
	MaxPrice     *int64 `json:"max_price,omitempty"`     // the limit of the buyer
	TermsChanged bool   `json:"terms_changed,omitempty"` // the quote was made under other terms
	Helps        string `json:"helps,omitempty"`         // the remedy; see [QuoteError]

	Displaced []Displaced `json:"displaced,omitempty"` // levels on offer that an answer would take off the market

	Needs   []Need      `json:"needs,omitempty"`   // the true values that the request needs
	Name    *NameError  `json:"name,omitempty"`    // what is wrong with a name
	Outputs int         `json:"outputs,omitempty"` // the number of outputs of a query that has no score
	Clock   *ClockError `json:"clock,omitempty"`   // a clock that is far ahead of the log
	// Reservation is as in [ReservationError].
	Reservation *ReservationError `json:"reservation,omitempty"` // a reservation that is not open

	Leader string     `json:"leader,omitempty"` // the host that has the ledger, if the server is a standby
	Gone   *GoneError `json:"gone,omitempty"`   // the number of objects that have no row in a table

	// Err is the error of the ledger, which [errors.Is] and [errors.As] find. It is not in the
	// JSON: the client sets it from the other fields.
	Err error `json:"-"`
}

// Error returns Detail.
func (p *Problem) Error() string { return p.Detail }

// Unwrap returns Err.
func (p *Problem) Unwrap() error { return p.Err }

// Need lists objects whose true values a request needs and did not include. It is for the host
// only, because it reveals for which objects a draw is needed.
type Need struct {
	Question string   `json:"question"` // by its name
	Objects  []string `json:"objects"`  // in the order in which the ledger requests their values
}
