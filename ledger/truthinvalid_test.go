package ledger

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
)

// drawing is a call that draws for ann, bob and eve, with true values from a source.
type drawing struct {
	call    func(t *testing.T, l *Ledger, partial bool, truth api.TruthFunc) (refused []api.Refusal, invalid []string, result any, err error)
	partial []bool // of what it can be
}

func drawings() map[string]drawing {
	either := []bool{false, true}
	return map[string]drawing{
		"Release": {func(t *testing.T, l *Ledger, _ bool, truth api.TruthFunc) ([]api.Refusal, []string, any, error) {
			r, err := l.Release(t.Context(), api.ReleaseRequest{Key: "k", Question: "vote", Object: "bob", Epsilon: eps(t, "0.5"), Truth: truth})
			return nil, nil, r.Object, err
		}, []bool{false}},
		"Raise": {func(t *testing.T, l *Ledger, partial bool, truth api.TruthFunc) ([]api.Refusal, []string, any, error) {
			r, err := l.Raise(t.Context(), api.RaiseRequest{Key: "k", Question: "vote", All: true, Epsilon: eps(t, "0.5"), Partial: partial, Truth: truth})
			return r.Refused, r.TruthInvalid, r.Drawn, err
		}, either},
		"Sell": {func(t *testing.T, l *Ledger, partial bool, truth api.TruthFunc) ([]api.Refusal, []string, any, error) {
			o := api.Order{Buyer: "acme", Question: "vote", All: true, Epsilon: eps(t, "0.5")}
			s, err := l.Sell(t.Context(), api.SellRequest{Key: "k", Order: o, Partial: partial, Truth: truth})
			return s.Refused, s.TruthInvalid, [2]any{s.Objects, s.Price}, err
		}, either},
		"Capture": {func(t *testing.T, l *Ledger, partial bool, truth api.TruthFunc) ([]api.Refusal, []string, any, error) {
			o := api.Order{Buyer: "acme", Question: "vote", All: true, Epsilon: eps(t, "0.5")}
			r := reserve(t, l, api.ReserveRequest{Key: "r", Order: o, For: time.Hour})
			s, err := l.Capture(t.Context(), api.CaptureRequest{Key: "k", Reservation: r.Number, Partial: partial, Truth: truth})
			return s.Refused, s.TruthInvalid, [3]any{s.Objects, s.Price, s.Refund}, err
		}, either},
		"Answer": {func(t *testing.T, l *Ledger, partial bool, truth api.TruthFunc) ([]api.Refusal, []string, any, error) {
			r, err := l.Answer(t.Context(), api.AnswerRequest{Key: "k", Question: "vote", Query: "winner", All: true, Epsilon: eps(t, "0.5"), Partial: partial, AcceptLoss: true, Truth: truth})
			return r.Refused, r.TruthInvalid, r.Objects, err
		}, either},
		"Advance": {func(t *testing.T, l *Ledger, _ bool, truth api.TruthFunc) ([]api.Refusal, []string, any, error) {
			r, err := l.Advance(t.Context(), api.AdvanceRequest{Key: "k", Question: "day", Truth: truth})
			if err != nil || len(r.Questions) != 1 {
				return nil, nil, nil, errors.Join(err, errors.New("no question"))
			}
			return r.Questions[0].Refused, r.Questions[0].TruthInvalid, r.Questions[0].Raised, err
		}, []bool{true}},
	}
}

// newDrawings returns a ledger with a question for sale, and one that a policy releases.
func newDrawings(t *testing.T) *Ledger {
	l := sellers(t, inMemory(t, Options{Now: epoch}), "2", "9", "ann", "bob", "eve")
	define(t, l, api.Question{Name: "day", Values: vote().Values})
	released := check.Value(policy.Parse([]byte(`{"kind":"steps","steps":[["2026-01-01T00:00:00Z","0.5"]]}`)))(t)
	enrollUnder(t, l, "day", released, "9", "ann", "bob", "eve")
	return l
}

// An object whose true value is none of the question's is treated as one without a value, in all that is recorded or said; only the host's call
// gets its name.
func TestEveryDraw_ValueOfNoQuestion_CountsAsNone(t *testing.T) {
	const secret = "MAYBE"
	source := func(bob string) api.TruthFunc {
		return truthsOf(map[string]string{"ann": "yes", "bob": bob, "eve": "no"})
	}
	for call, d := range drawings() {
		for _, partial := range d.partial {
			var said [2]string
			for i, bob := range []string{"", secret} {
				l := newDrawings(t)
				refused, invalid, result, err := d.call(t, l, partial, source(bob))
				var whole *api.RefusedError
				if errors.As(err, &whole) {
					refused, invalid = whole.Refused, whole.TruthInvalid
				}
				if partial != (err == nil) || len(refused) != 1 || refused[0].Object != "bob" || refused[0].Reason != api.NoTruth {
					t.Errorf("%s, partial %v, %q: %v, %v", call, partial, bob, refused, err)
				}
				if want := map[string][]string{secret: {"bob"}}[bob]; !slices.Equal(invalid, want) {
					t.Errorf("%s, partial %v, %q: invalid are %q", call, partial, bob, invalid)
				}
				said[i] = fmt.Sprint(result, refused, err)
				for _, ev := range logOf(t, pairs(t, l.engine.Store)) {
					said[i] += "\n" + ev.Change.Kind().String()
				}
				text := fmt.Sprint(said[i], pairs(t, l.engine.Store))
				check.That(t, !strings.Contains(text, secret), "%s: the value is told", call)
				auditStore(t, l.engine.Store)
			}
			check.That(t, reflect.DeepEqual(said[0], said[1]),
				"%s, partial %v: without a value\n%s\nwith one that is none\n%s", call, partial, said[0], said[1])
		}
	}
}

func TestEnroll_DryRun_ChangesNothing(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "3", "ann")
	r := api.EnrollRequest{Key: "k", Question: "vote", Objects: []string{"ann", "bob", "eve"}, Cap: eps(t, "3"), DryRun: true}
	unchanged(t, l.engine.Store, func() {
		done, err := l.Enroll(t.Context(), r)
		if must(t, err); done.Enrolled != 2 || done.Already != 1 || len(done.Refused) != 0 {
			t.Errorf("%+v", done)
		}
		other := r
		other.Cap = eps(t, "4")
		_, err = l.Enroll(t.Context(), other)
		if refused := refusals(t, err); len(refused) != 1 || refused[0].Object != "ann" || refused[0].Reason != api.CapDiffers {
			t.Errorf("%v", refused)
		}
		other.Partial = true
		if done, err = l.Enroll(t.Context(), other); err != nil || done.Enrolled != 2 || len(done.Refused) != 1 {
			t.Errorf("partial: %+v, %v", done, err)
		}
		other.Cap = eps(t, "0")
		wantErr(t, check.Err(l.Enroll(t.Context(), other)), api.ErrNoCap)
	})
	r.DryRun = false // the key is still free
	done, err := l.Enroll(t.Context(), r)
	check.That(t, err == nil && done.Enrolled == 2 && done.Already == 1, "%+v, %v", done, err)
}

func TestEnroll_NewAndKnown_IsErrNotNewUntilDone(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "3", "ann")
	define(t, l, api.Question{Name: "age", Values: []string{"young", "old"}})
	r := api.EnrollRequest{Key: "k", Question: "age", Objects: []string{"ann", "bob"}, Cap: eps(t, "3"), New: true}
	unchanged(t, l.engine.Store, func() {
		for _, partial := range []bool{false, true} {
			for _, dry := range []bool{false, true} {
				r.Partial, r.DryRun = partial, dry
				_, err := l.Enroll(t.Context(), r)
				wantErr(t, err, api.ErrNotNew)
				wantErr(t, err, api.ErrInvalid)
			}
		}
	})
	r.Partial, r.DryRun, r.Objects = false, false, []string{"bob"}
	first := check.Value(l.Enroll(t.Context(), r))(t)
	again, err := l.Enroll(t.Context(), r) // the same request is done already
	if must(t, err); !reflect.DeepEqual(first, again) || again.Enrolled != 1 {
		t.Errorf("%+v, then %+v", first, again)
	}
	r.Key = "other"
	wantErr(t, check.Err(l.Enroll(t.Context(), r)), api.ErrNotNew)
}
