package ledger

import (
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

// An object whose true value is none of the question's is treated as one without a value, in all
// that is recorded or returned. Only the result of the host's call has its name.
func TestEveryDraw_InvalidTrueValue_CountsAsMissing(t *testing.T) {
	const secret = "MAYBE"
	released := check.Value(policy.Parse([]byte(`{"kind":"steps","steps":[["2026-01-01T00:00:00Z","0.5"]]}`)))(t)
	for call, partially := range map[string][]bool{
		"Release": {false}, "Raise": {false, true}, "Sell": {false, true}, "Capture": {false, true}, "Answer": {false, true}, "Advance": {true},
	} {
		for _, partial := range partially {
			var said [2]string
			for i, bob := range []string{"", secret} {
				l := sellers(t, inMemory(t, Options{Now: epoch}), "2", "9", "ann", "bob", "eve")
				define(t, l, api.Question{Name: "day", Values: vote().Values})
				enrollUnder(t, l, "day", released, "9", "ann", "bob", "eve")
				l.requests.Sampler = medians()
				d := drawing{key: "k", epsilon: "0.5", partial: partial, truth: truthsOf(map[string]string{"ann": "yes", "bob": bob, "eve": "no"})}
				switch call {
				case "Release":
					d.objects = []string{"bob"}
				case "Capture":
					d.reservation = reserve(t, l, api.ReserveRequest{Key: "r", Order: d.order(t), For: time.Hour}).Number
				case "Advance":
					d.question = "day"
				}
				got, err := d.by(t, l, call)
				if partial != (err == nil) || len(got.refused) != 1 || got.refused[0].Object != "bob" || got.refused[0].Reason != api.NoTruth {
					t.Errorf("%s, partial %v, %q: %v, %v", call, partial, bob, got.refused, err)
				}
				want := map[string][]string{secret: {"bob"}}[bob]
				check.That(t, slices.Equal(got.invalid, want), "%s, partial %v, %q: invalid are %q", call, partial, bob, got.invalid)
				said[i] = fmt.Sprint(string(text(t, got.result)), got.refused, err)
				for _, ev := range logOf(t, pairs(t, l.engine.Store)) {
					said[i] += "\n" + ev.Change.Kind().String()
				}
				all := fmt.Sprint(said[i], pairs(t, l.engine.Store))
				check.That(t, !strings.Contains(all, secret), "%s: the value is in the result or in the store", call)
				auditStore(t, l.engine.Store)
			}
			check.That(t, said[0] == said[1],
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

func TestEnroll_NewWithKnownObject_IsErrNotNew(t *testing.T) {
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
