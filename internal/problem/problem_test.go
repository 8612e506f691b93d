package problem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// sent is an error as it arrives elsewhere.
func sent(t *testing.T, err error) *api.Problem {
	t.Helper()
	text, failed := json.Marshal(Of(err))
	check.Must(t, failed)
	var p api.Problem
	check.Must(t, json.Unmarshal(text, &p))
	Restore(&p)
	return &p
}

// Each error that callers branch on is found in the restored problem, which has the same text.
func TestRestore_AnyError_IsTheSameErrorWithItsText(t *testing.T) {
	for _, err := range []error{
		context.Canceled, context.DeadlineExceeded, api.ErrJournal, api.ErrCorrupt, api.ErrVersion, api.ErrReplaced, api.ErrCheckpoint, api.ErrInUse,
		&api.KeyConflictError{}, &api.ReservationError{}, api.ErrForgotten, api.ErrClock, api.ErrTruthKey, api.ErrNoiseKey, api.ErrNoSigner, api.ErrNoResponses, api.ErrUnknown,
		api.ErrNoCap, api.ErrNotNew, api.ErrInvalid, api.ErrTruthSource, api.ErrReadOnly, api.ErrClosed, api.ErrStopped, api.ErrTruthLater, api.ErrTruthFailed, api.ErrTooManyFiles, api.ErrSigner, &journal.HeldError{},
		journal.ErrTrimmed,
	} {
		got := sent(t, fmt.Errorf("the request: %w", err))
		if !errors.Is(got, err) || got.Error() != "the request: "+err.Error() {
			t.Errorf("%v arrives as %v (%+v)", err, errors.Unwrap(got), got)
		}
		for _, c := range classes() { // and as nothing else
			check.That(t, c.target == nil || errors.Is(got, c.target) == errors.Is(err, c.target),
				"%v arrives as %v", err, c.target)
		}
	}
}

// An error that wraps several errors is restored with all of them.
func TestRestore_JoinedErrors_AreAllFound(t *testing.T) {
	refused := &api.RefusedError{Question: "q"}
	for _, errs := range [][]error{
		{api.ErrStopped, api.ErrCorrupt}, {api.ErrStopped, api.ErrReplaced}, {api.ErrStopped, api.ErrJournal}, {api.ErrStopped, api.ErrClock, api.ErrVersion},
		{&journal.HeldError{}, context.DeadlineExceeded}, {context.Canceled, api.ErrStopped}, {refused, context.DeadlineExceeded},
	} {
		err := errors.Join(errs...)
		got := sent(t, err)
		for _, c := range classes() {
			if c.target != nil && errors.Is(got, c.target) != errors.Is(err, c.target) {
				t.Errorf("%q arrives as %v: %t", err, c.target, errors.Is(got, c.target))
			}
		}
	}
	p := sent(t, fmt.Errorf("x: %w", api.ErrNoCap))
	check.That(t, p.Also == nil, "what the kind says is said again: %v", p.Also)
	later := &api.Problem{Kind: Stopped, Also: []string{"of a later version"}}
	if Restore(later); !errors.Is(later, api.ErrStopped) || later.Err.Error() != api.ErrStopped.Error() {
		t.Errorf("%v", later.Err)
	}
}

// The data of typed errors is restored. An empty list is restored as an empty list, because no list
// is null in JSON.
func TestRestore_TypedErrors_KeepTheirData(t *testing.T) {
	most := int64(7)
	at := time.Date(2027, 1, 2, 3, 4, 5, 6, time.UTC)
	refused := &api.RefusedError{Question: "q", Refused: []api.Refusal{{Object: "ann", Reason: api.ObjectCap, Remedy: "less"}}, Unlisted: 3, TruthChanged: []string{"ann"},
		Instead: &api.Budget{Question: "q", Objects: 1, At: at, Levels: []api.BudgetLevel{{Can: 1}}, Refused: []api.RefusalSum{{Reason: api.ObjectCap, Count: 1}}}}
	for _, err := range []error{
		refused,
		&api.QuoteError{Quote: api.Quote{ID: "i", Offer: api.Offer{Buyer: "b", Price: 9}}, Expected: "x", MaxPrice: &most, Remedy: "paying"},
		&api.QuoteError{Quote: api.Quote{ID: "i"}, Expected: "x", Remedy: "quoting", TermsChanged: true},
		&api.GoneError{Gone: 3, Of: 7, Expected: 0},
		&api.DisplacedError{Question: "q", Displaced: []api.Displaced{{Question: "r", Epsilon: privacy.MustEpsilon("2"), Objects: 3, Revenue: 900}}},
		&api.KeyConflictError{Key: "k", Field: "Epsilon"},
		&api.NameError{What: "object", Name: "a\u200bb", Offset: 1, Fault: "U+200B"},
		&api.ClockError{Clock: at.Add(time.Hour), Last: at, Leap: time.Minute},
		&mechanism.ScoreError{Outputs: 3},
	} {
		target := reflect.New(reflect.TypeOf(err))
		if got := sent(t, fmt.Errorf("x: %w", err)); !errors.As(got, target.Interface()) || !reflect.DeepEqual(target.Elem().Interface(), err) {
			t.Errorf("%#v arrives as %#v", err, target.Elem().Interface())
		}
	}
	got := sent(t, fmt.Errorf("%w: %w", api.ErrPartlyDone, refused))
	check.That(t, errors.Is(got, api.ErrPartlyDone) && !errors.Is(sent(t, refused), api.ErrPartlyDone), "%+v", got)
}

// Each kind has a status, a title, an exit code and a type that links to it. An unknown kind of a
// later version is unexpected.
func TestKinds_HaveStatusTitleAndExitCode(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range classes() {
		p := New(c.kind, "x %d", 5)
		check.That(t, p.Status >= 400 && p.Exit >= 1 && p.Exit <= 6 && p.Title != "" && p.Type == Base+c.kind &&
			p.Detail == "x 5" && !seen[c.kind], "%+v", p)
		seen[c.kind] = true
	}
	later := &api.Problem{Kind: "of a later version", Detail: "x"}
	Restore(later)
	if kind, exit, status := Classify(later); exit != 1 || status != 500 || kind != later.Kind || later.Err != nil {
		t.Errorf("%s, %d, %d", kind, exit, status)
	}
	for _, err := range []error{check.Err(policy.Parse(nil)), privacy.ErrInvalid, &privacy.ParseError{Kind: "epsilon"}, &api.NameError{}} {
		kind, exit, status := Classify(err)
		check.That(t, kind == Invalid && exit == 2 && status == 400, "%v: %s, %d, %d", err, kind, exit, status)
	}
	kind, exit, status := Classify(errors.New("x"))
	check.That(t, kind == Unexpected && exit == 1 && status == 500, "%s, %d, %d", kind, exit, status)
	p := Of(errors.Join(New(Busy, "y")))
	check.That(t, p.Kind == Busy, "%+v", p)
}

// A request is to be repeated on another host only where that has all that was acknowledged: not
// after the journal was put back to an earlier state.
func TestOf_JournalWasRestored_DoesNotAdviseToRepeatElsewhere(t *testing.T) {
	for _, c := range []struct {
		err  error
		hint string
	}{
		{fmt.Errorf("%w: %w", api.ErrStopped, journal.ErrFenced), TakenOver},
		{fmt.Errorf("%w: %w", api.ErrStopped, journal.ErrRestored), Restored},
		{fmt.Errorf("%w: %w: %w", api.ErrStopped, journal.ErrFenced, journal.ErrRestored), Restored},
	} {
		p := Of(c.err)
		check.That(t, p.Kind == Stopped && p.Hint == c.hint, "%v: the hint is %q", c.err, p.Hint)
	}
}

// Programs of other languages loop over lists: none is null, also where an error of this process
// has nil.
func TestOf_NilLists_AreEmptyInJSON(t *testing.T) {
	for _, err := range []error{
		&api.QuoteError{Quote: api.Quote{Instead: &api.Budget{}}},
		&api.RefusedError{Refused: []api.Refusal{{Object: "17", Reason: api.ObjectCap}}, Instead: &api.Budget{}},
	} {
		text, failure := json.Marshal(Of(err))
		check.That(t, failure == nil && !bytes.Contains(text, []byte("null")), "%T: %s, %v", err, text, failure)
	}
}

// A client finds an error by its type also where the problem says no more than its kind.
func TestRestore_ProblemOfAKindAlone_IsAnErrorOfItsType(t *testing.T) {
	for kind, want := range map[string]error{
		KeyConflict: &api.KeyConflictError{}, NotReserved: &api.ReservationError{}, Held: &journal.HeldError{},
	} {
		for _, p := range []api.Problem{{Kind: kind}, {Kind: Stopped, Also: []string{kind}}} {
			check.Is(t, Restore(&p), want, "%+v", p)
			check.Equal(t, kindOf(p.Err), kind, "the kind of %q", p.Err)
		}
	}
}

// A server may send anything: the text of what arrives is no panic.
func TestRestore_ProblemWithoutItsParts_HasAText(t *testing.T) {
	for _, p := range []api.Problem{
		{Kind: Refused, Instead: &api.Budget{}},
		{Kind: QuoteChanged, Quote: &api.Quote{}, Helps: "paying"},
	} {
		if Restore(&p); p.Err.Error() == "" {
			t.Errorf("%+v has no text", p)
		}
	}
}
