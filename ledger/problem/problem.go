// Package problem puts the errors of a ledger in the form of RFC 9457, for other programs, and
// reads them back: with the kinds and exit codes of the command, and with everything that a caller
// branches on. A handler writes what [Of] returns; who reads it has an error of which [errors.Is]
// and [errors.As] say what they would have said of the first one.
package problem

import (
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/mechanism"
)

// Base begins the type of each problem: behind it stands the kind. The page says what each means.
const Base = "https://github.com/sluicedp/sluice/blob/main/docs/reference/errors.md#"

// ContentType is the media type of a problem in JSON.
const ContentType = "application/problem+json"

// Problem is an error as other programs read it. It is an error itself, whose text is Detail.
type Problem struct {
	Type   string `json:"type"`            // a URI that names the kind, and leads to what it means
	Title  string `json:"title"`           // the kind in words
	Status int    `json:"status"`          // the HTTP status
	Detail string `json:"detail"`          // what went wrong, for people
	Kind   Kind   `json:"kind"`            // what went wrong, for programs; ledgerctl prints the same word
	Exit   int    `json:"exit"`            // the exit code that ledgerctl ends with for it
	Also   []Kind `json:"also,omitempty"`  // what else it is, by kind
	Hint   string `json:"hint,omitempty"`  // what may help
	Field  string `json:"field,omitempty"` // the field, parameter or header that is wrong

	Key      string           `json:"key,omitempty"`         // the idempotency key that another request had before
	Question string           `json:"question,omitempty"`    // whose objects were refused
	Refused  []api.Refusal    `json:"refused,omitempty"`     // who was refused, and why; the first of them
	Unlisted int              `json:"unlisted,omitempty"`    // how many more were refused
	Sums     []api.RefusalSum `json:"sums,omitempty"`        // all who were refused, by reason
	Partly   bool             `json:"partly_done,omitempty"` // its first parts are done, and stay
	// TruthChanged is as in [api.RefusedError]: handlers tell it to an operator only.
	TruthChanged []string `json:"truth_changed,omitempty"`
	// TruthInvalid is as in [api.RefusedError]; handlers tell it to an operator only.
	TruthInvalid []string `json:"truth_invalid,omitempty"`

	// Instead is as in [api.RefusedError].
	Instead *api.Budget `json:"instead,omitempty"` // what the same people could answer

	Quote        *api.Quote `json:"quote,omitempty"`         // what the order is now
	Expected     string     `json:"expected,omitempty"`      // the ID of the quote that it was to be
	MaxPrice     *int64     `json:"max_price,omitempty"`     // the most that was to be paid
	TermsChanged bool       `json:"terms_changed,omitempty"` // the order was quoted under other terms
	Helps        api.Remedy `json:"helps,omitempty"`         // what would help against it

	Displaced []api.Displaced `json:"displaced,omitempty"` // levels on offer that an answer takes off the market

	Needs   []Need          `json:"needs,omitempty"`   // whose true values the request needs
	Name    *api.NameError  `json:"name,omitempty"`    // what is wrong with a name
	Outputs int             `json:"outputs,omitempty"` // how many outputs a query has that has no score
	Clock   *api.ClockError `json:"clock,omitempty"`   // a clock that is far ahead of the log
	// Reservation is as in [api.ReservationError].
	Reservation *api.ReservationError `json:"reservation,omitempty"` // a reservation that is not open

	Leader string         `json:"leader,omitempty"` // the host that has the ledger, if this is a standby
	Gone   *api.GoneError `json:"gone,omitempty"`   // how many have no row in a table

	cause error // what it was made of, if it was made here
}

// Need names the objects whose true values a request needs, and did not bring: draws are about
// them, so it is for the host alone.
type Need struct {
	Question string   `json:"question"` // by its name
	Objects  []string `json:"objects"`  // as the ledger asks for them
}

// New returns a problem of a kind that has no error of its own. The format is that of
// [fmt.Sprintf].
func New(kind Kind, format string, args ...any) *Problem {
	c := classOf(kind)
	return &Problem{
		Type: Base + string(kind), Title: c.title, Status: c.status, Kind: kind, Exit: c.exit, Hint: c.hint,
		Detail: fmt.Sprintf(format, args...),
	}
}

// At returns the problem with the field that it is about.
func (p *Problem) At(field string) *Problem {
	p.Field = field
	return p
}

// Error implements error: it is the detail.
func (p *Problem) Error() string { return p.Detail }

// TakenOver is the hint of a [Stopped] problem where another host has the ledger now.
const TakenOver = "another host, which the text names, has taken the ledger over: " +
	"repeat the request there, with its key"

// Restored is the hint of a [Stopped] problem where the journal lacks what was acknowledged.
const Restored = "the journal was put back to an earlier state: do not repeat the request on another host " +
	"before an operator has found out what is lost (docs/howto/postgres.md, what is lost when)"

// Of puts an error in this form. One that is a [*Problem] already is returned as it is.
func Of(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	p = New(kindOf(err), "%s", err.Error())
	switch {
	case errors.Is(err, journal.ErrRestored):
		p.Hint = Restored
	case errors.Is(err, journal.ErrFenced):
		p.Hint = TakenOver
	}
	p.refused(err)
	p.quoted(err)
	p.smaller(err)
	p.also(err)
	p.cause = err
	return p
}

// also notes what an error is beside its kind: damage that has stopped the ledger is both.
func (p *Problem) also(err error) {
	for _, c := range classes() {
		if c.target != nil && errors.Is(err, c.target) && !errors.Is(p, c.target) {
			p.Also = append(p.Also, c.kind)
		}
	}
}

// refused notes who was refused.
func (p *Problem) refused(err error) {
	var refused *api.RefusedError
	if errors.As(err, &refused) {
		p.Question, p.Refused, p.Unlisted, p.Sums = refused.Question, refused.Refused, refused.Unlisted, refused.Sums
		p.TruthChanged, p.TruthInvalid, p.Instead = refused.TruthChanged, refused.TruthInvalid, listed(refused.Instead)
		p.Partly = errors.Is(err, api.ErrPartlyDone)
	}
}

// quoted notes what an order would be instead.
func (p *Problem) quoted(err error) {
	var quote *api.QuoteError
	if errors.As(err, &quote) {
		now := quote.Quote
		now.Refused, now.Instead = orNone(now.Refused), listed(now.Instead)
		p.Quote, p.Expected, p.MaxPrice = &now, quote.Expected, quote.MaxPrice
		p.Helps, p.TermsChanged = quote.Remedy, quote.TermsChanged
	}
}

// listed returns a budget with all lists there, also those that are empty: in JSON none is null.
func listed(b *api.Budget) *api.Budget {
	if b == nil {
		return nil
	}
	out := *b
	out.Levels, out.Refused = orNone(b.Levels), orNone(b.Refused)
	return &out
}

func orNone[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// smaller notes what other errors have to say.
func (p *Problem) smaller(err error) {
	var displaced *api.DisplacedError
	var score *mechanism.ScoreError
	var conflict *api.KeyConflictError
	switch {
	case errors.As(err, &displaced):
		p.Question, p.Displaced = displaced.Question, displaced.Displaced
	case errors.As(err, &p.Reservation):
		p.Hint = closedHint(p.Reservation.State)
	case errors.As(err, &score):
		p.Outputs = score.Outputs
	case errors.As(err, &conflict):
		p.Key, p.Field = conflict.Key, conflict.Field
	case errors.As(err, &p.Name):
		p.Field = p.Name.What
	case errors.As(err, &p.Gone), errors.As(err, &p.Clock): // there is nothing more to say
	case errors.Is(err, api.ErrTruthSource):
		p.Field = truths
	}
}

// closedHint says what to do about a reservation that is not open.
func closedHint(state api.ReservationState) string {
	switch state {
	case api.ReservationCaptured:
		return "its sale is made, and may be read by its number: charge nothing again"
	case api.ReservationExpired:
		return "charge nothing for it; cancel it before a charge is refunded; reserve again with another key"
	}
	return "charge nothing for it, and refund what was charged; reserve again with another key"
}

// truths is the field of requests that holds true values.
const truths = "truths"

// Unwrap returns what the problem says, as errors to branch on.
func (p *Problem) Unwrap() []error {
	if p.cause != nil {
		return []error{p.cause}
	}
	var all []error
	kinds := append([]Kind{p.Kind}, p.Also...)
	if err := p.typed(); err != nil {
		all, kinds = append(all, err), p.Also
	}
	if p.Kind == Invalid && p.Field == truths {
		all = append(all, api.ErrTruthSource)
	}
	for _, kind := range kinds {
		if target := classOf(kind).target; target != nil {
			all = append(all, target)
		}
	}
	return all
}

// typed returns an error that carries what the problem does, or nil if it carries nothing but
// words.
func (p *Problem) typed() error {
	switch {
	case p.Kind == Refused:
		refused := &api.RefusedError{
			Question: p.Question, Refused: p.Refused, Unlisted: p.Unlisted, Sums: p.Sums,
			TruthChanged: p.TruthChanged, TruthInvalid: p.TruthInvalid, Instead: p.Instead,
		}
		if p.Partly {
			return fmt.Errorf("%w: %w", api.ErrPartlyDone, refused)
		}
		return refused
	case p.Kind == Displaced:
		return &api.DisplacedError{Question: p.Question, Displaced: p.Displaced}
	case p.Quote != nil:
		return &api.QuoteError{
			Quote: *p.Quote, Expected: p.Expected, MaxPrice: p.MaxPrice, Remedy: p.Helps, TermsChanged: p.TermsChanged,
		}
	case p.Kind == KeyConflict:
		return &api.KeyConflictError{Key: p.Key, Field: p.Field}
	case p.Name != nil:
		return p.Name
	case p.Outputs > 0:
		return &mechanism.ScoreError{Outputs: p.Outputs}
	case p.Gone != nil:
		return p.Gone
	case p.Reservation != nil:
		return p.Reservation
	case p.Clock != nil:
		return p.Clock
	}
	return nil
}

// Classify returns the kind of an error, and the exit code and the HTTP status that go with it. The
// kind of an error that it does not know is [Unexpected].
func Classify(err error) (kind Kind, exit, status int) {
	kind = kindOf(err)
	c := classOf(kind)
	return kind, c.exit, c.status
}
