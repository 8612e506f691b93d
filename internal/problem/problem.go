// Package problem converts the errors of a ledger to an [api.Problem] (RFC 9457) and back. It has
// the table of kinds with their exit codes and HTTP statuses. A handler writes the result of [Of].
// A client calls [Restore] on a problem that it has read. Then [errors.Is] and [errors.As] find
// the same errors in the problem as in the original error.
package problem

import (
	"errors"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/mechanism"
)

// Base is the prefix of the type of each problem; the kind follows it. The page describes each
// kind.
const Base = "https://github.com/sluicedp/sluice/blob/main/docs/reference/errors.md#"

// ContentType is the media type of a problem in JSON.
const ContentType = "application/problem+json"

// New returns a problem of a kind, with the status, exit code, title and hint of the kind. Its
// detail is the text that [fmt.Sprintf] makes of format and args.
func New(kind, format string, args ...any) *api.Problem {
	c := classOf(kind)
	return &api.Problem{
		Type: Base + kind, Title: c.title, Status: c.status, Kind: kind, Exit: c.exit, Hint: c.hint,
		Detail: fmt.Sprintf(format, args...), Err: c.target,
	}
}

// At is [New] with the name of the field, parameter or header that is wrong.
func At(field, kind, format string, args ...any) *api.Problem {
	p := New(kind, format, args...)
	p.Field = field
	return p
}

// TakenOver is the hint of a [Stopped] problem if another host has the ledger now.
const TakenOver = "another host, which detail names, has taken over the ledger: " +
	"repeat the request there, with its key"

// Restored is the hint of a [Stopped] problem if the journal lacks acknowledged events.
const Restored = "the journal was restored to an earlier state: do not repeat the request on another host " +
	"before an operator knows what is lost (docs/howto/postgres.md, what is lost when)"

// Of returns a problem that wraps err, with the data of the error types in err. If err wraps an
// [*api.Problem], it returns that one, unchanged.
func Of(err error) *api.Problem {
	if p, is := errors.AsType[*api.Problem](err); is {
		return p
	}
	p := New(kindOf(err), "%s", err.Error())
	switch {
	case errors.Is(err, journal.ErrRestored):
		p.Hint = Restored
	case errors.Is(err, journal.ErrFenced):
		p.Hint = TakenOver
	}
	addRefused(p, err)
	addQuoted(p, err)
	addOthers(p, err)
	p.Also = alsoOf(p, err)
	p.Err = err // alsoOf has set it to an error made from the fields of p
	return p
}

// alsoOf returns the kinds that err has, and that the receiver of its problem p would not find
// without them. For example, an error may mean both damage and a stopped ledger. alsoOf sets p.Err.
func alsoOf(p *api.Problem, err error) (kinds []string) {
	Restore(p) // now p wraps what the receiver would find
	for _, c := range classes() {
		if c.target != nil && errors.Is(err, c.target) && !errors.Is(p, c.target) {
			kinds = append(kinds, c.kind)
		}
	}
	return kinds
}

// addRefused adds the refused objects of an [api.RefusedError] to p, if err wraps one.
func addRefused(p *api.Problem, err error) {
	var refused *api.RefusedError
	if errors.As(err, &refused) {
		p.Question, p.Refused, p.Unlisted, p.Sums = refused.Question, refused.Refused, refused.Unlisted, refused.Sums
		p.TruthChanged, p.TruthInvalid, p.Instead = refused.TruthChanged, refused.TruthInvalid, refused.Instead
		p.Partly = errors.Is(err, api.ErrPartlyDone)
	}
}

// addQuoted adds the current quote of an [api.QuoteError] to p, if err wraps one.
func addQuoted(p *api.Problem, err error) {
	var quote *api.QuoteError
	if errors.As(err, &quote) {
		now := quote.Quote
		p.Quote, p.Expected, p.MaxPrice = &now, quote.Expected, quote.MaxPrice
		p.Helps, p.TermsChanged = quote.Remedy, quote.TermsChanged
	}
}

// addOthers adds the data of another error type to p: of the first one below that err wraps. Where
// the type is that of a field of p, errors.As sets this field.
func addOthers(p *api.Problem, err error) {
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
	case errors.As(err, &p.Gone), errors.As(err, &p.Clock): // nothing else is needed
	case errors.Is(err, api.ErrTruthSource):
		p.Field = truths
	}
}

// closedHint returns what to do about a reservation that is no longer open, by its state.
func closedHint(state string) string {
	switch state {
	case "captured":
		return "it was sold, and the sale can be read by its number: do not charge the buyer again"
	case "expired":
		return "do not charge the buyer; cancel it before you refund a charge; reserve again with another key"
	}
	return "do not charge the buyer, and refund what was charged; reserve again with another key"
}

// truths is the request field with true values.
const truths = "truths"

// Restore sets the error that a problem wraps, from its kinds and its data, after the problem was
// read. If the data is that of an error type, such as [api.RefusedError], it wraps an error of this
// type, and otherwise the target of its kind. It also wraps the targets of its other kinds. Then
// [errors.Is] and [errors.As] find the same errors as before the problem was sent. Restore changes
// p, and returns it.
func Restore(p *api.Problem) *api.Problem {
	var all []error
	kinds := append([]string{p.Kind}, p.Also...)
	if err := typed(p); err != nil {
		all, kinds = append(all, err), p.Also // without the target of p.Kind, for which err is enough
	}
	if p.Kind == Invalid && p.Field == truths {
		all = append(all, api.ErrTruthSource)
	}
	for _, kind := range kinds {
		all = append(all, classOf(kind).target) // may be nil, which Join omits
	}
	p.Err = errors.Join(all...)
	return p
}

// typed returns the error type that has the data of the problem, or nil if the problem has only
// text.
func typed(p *api.Problem) error {
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

// Classify returns the kind of an error with its exit code and HTTP status. The kind of an unknown
// error is [Unexpected].
func Classify(err error) (kind string, exit, status int) {
	kind = kindOf(err)
	c := classOf(kind)
	return kind, c.exit, c.status
}
