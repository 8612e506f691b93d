package model

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Invariant 13: people may change their terms.

// to returns a request for other terms of the vote. A limit of "" keeps the cap.
func to(t testing.TB, key string, p *policy.Policy, limit string, objects ...string) api.ChangeTermsRequest {
	t.Helper()
	r := api.ChangeTermsRequest{Key: key, Question: "vote", Policy: p, Objects: objects}
	if limit != "" {
		r.Cap = Eps(t, limit)
	}
	return r
}

func changeTerms(t testing.TB, l LedgerAPI, r api.ChangeTermsRequest) api.ChangeTermsResult {
	t.Helper()
	return check.Value(l.ChangeTerms(t.Context(), r))(t)
}

// priced returns a policy that sells up to ε=2, for the given amount per nat.
func priced(t testing.TB, amount int64) *policy.Policy {
	t.Helper()
	p := Market(t, "2", func(m *policy.Market) {
		m.Prices = []policy.Price{{Epsilon: Eps(t, "1"), Amount: amount}, {Epsilon: Eps(t, "2"), Amount: 2 * amount}}
	})
	return &p
}

// A change of terms is one event for each object and question, and changes nothing else. A repeated
// request does nothing, and objects under these terms already are unchanged.
func (anyLedger) ChangeTerms_WritesOneEventPerObject(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann", "bob", "cid")
	Define(t, l, Smoker())
	Enroll(t, l, "smoker", "9", "ann")
	before := uint64(len(Events(t, l)))
	r := to(t, "1", priced(t, 150), "3", "cid", "ann")
	done := changeTerms(t, l, r)
	want := (api.ChangeTermsResult{Changed: 2, First: before + 1, Last: before + 4})
	check.That(t, reflect.DeepEqual(done, want), "ChangeTerms returns %+v, want %+v", done, want)
	var kinds []string
	for _, ev := range Events(t, l)[before:] {
		kinds = append(kinds, strings.TrimSpace(ev.Kind()+" "+ev.Object()))
		if d, is := ev.Says.(says.TermsChanged); is && (!d.Policy.Equal(*priced(t, 150)) || d.Cap != Eps(t, "3") || d.Question != "vote" || d.Consent != "") {
			t.Errorf("event %d has other terms: %+v", ev.Number, d)
		}
	}
	check.That(t, slices.Equal(kinds, []string{"policy", "terms ann", "terms cid", "settled"}),
		"the log has %q", kinds)
	ann := ObjectOf(t, l, "ann")
	check.That(t, ann.Cap == Eps(t, "3") && ann.Chains[0].Policy.Equal(*priced(t, 150)) && ann.Chains[1].Policy == nil,
		"ann is under %+v", ann)
	bob := ObjectOf(t, l, "bob")
	check.That(t, bob.Cap == Eps(t, "9") && bob.Chains[0].Policy.Equal(Market(t, "2")), "bob is under %+v", bob)
	again := changeTerms(t, l, r)
	check.That(t, reflect.DeepEqual(again, done), "the repeated request returns %+v, before %+v", again, done)
	r.Key = "2"
	same := changeTerms(t, l, r)
	check.That(t, same.Changed == 0 && same.Unchanged == 2, "under the same terms: %+v", same)
	r.Key, r.Consent = "1", "they agreed"
	_, err := l.ChangeTerms(t.Context(), r)
	check.Is(t, err, &api.KeyConflictError{})
	conflict := new(api.KeyConflictError)
	check.That(t, errors.As(err, &conflict) && conflict.Field == "Consent", "%+v", conflict)
	WantClean(t, l, api.VerifyRequest{})
}

// lowerings returns terms that allow less than a market up to ε=2 for 100 a nat, with a cap of 9,
// in each possible way.
func lowerings(t testing.TB) map[string]api.ChangeTermsRequest {
	market := func(more func(*policy.Market)) *policy.Policy {
		p := Market(t, "2", more)
		return &p
	}
	day := ledgertest.Begin().Add(time.Hour)
	calendar := check.Value(policy.Linear(Eps(t, "0"), Eps(t, "2"), day, day.Add(10*time.Hour), Eps(t, "1")))(t)
	slower := check.Value(policy.Min(Market(t, "2"), calendar))(t)
	shares := check.Value(policy.Unlock(Eps(t, "2"), 4))(t)
	shared := check.Value(policy.Min(Market(t, "2"), shares))(t)
	lower := Market(t, "1")
	return map[string]api.ChangeTermsRequest{
		"a lower cap":      to(t, "", nil, "8.999999999"),
		"a lower ceiling":  to(t, "", &lower, ""),
		"a higher price":   to(t, "", priced(t, 101), ""),
		"a higher floor":   to(t, "", market(func(m *policy.Market) { m.Floor = 1 }), ""),
		"a barred buyer":   to(t, "", market(func(m *policy.Market) { m.Barred = []string{"acme"} }), ""),
		"few buyers":       to(t, "", market(func(m *policy.Market) { m.Buyers = []string{"acme"} }), ""),
		"one holder":       to(t, "", market(func(m *policy.Market) { m.Stride, m.Holders = Eps(t, "0.5"), 1 }), ""),
		"few levels":       to(t, "", market(func(m *policy.Market) { m.Stride = Eps(t, "0.5") }), ""),
		"a last day":       to(t, "", market(func(m *policy.Market) { m.Until = day }), ""),
		"a first day":      to(t, "", market(func(m *policy.Market) { m.From = day }), ""),
		"by the calendar":  to(t, "", &slower, ""),
		"buyer by buyer":   to(t, "", &shared, ""),
		"all of it at one": to(t, "", priced(t, 500), "0.000000001"),
	}
}

// Lowering always works, at once. Each way back needs consent, and the refusal says why.
func (anyLedger) ChangeTerms_MoreAllowed_NeedsConsent(t *T) {
	for name, r := range lowerings(t) {
		t.Run(name, func(t *T) {
			l := Sellers(t, NewLedger(t), "2", "9", "ann")
			first := Market(t, "2")
			r.Key, r.Objects = "down", []string{"ann"}
			done := changeTerms(t, l, r)
			check.That(t, done.Changed == 1, "down: %+v", done)
			up := to(t, "up", &first, "9", "ann")
			var refused []api.Refusal
			WantUnchanged(t, l, func() {
				refused = Refusals(t, check.Err(l.ChangeTerms(t.Context(), up)))
			})
			if len(refused) != 1 || refused[0].Object != "ann" || refused[0].Reason != api.NeedsConsent || refused[0].Remedy != "consent" || refused[0].Why == "" {
				t.Errorf("up, without consent: %+v", refused)
			}
			if capped := !r.Cap.IsZero(); capped != strings.Contains(refused[0].Why, "the cap would be") || capped && (refused[0].Ceiling != r.Cap || refused[0].Asked != Eps(t, "9")) {
				t.Errorf("the cap is %v: %+v", r.Cap, refused[0])
			}
			up.Consent = "ann agreed on the telephone"
			if done := changeTerms(t, l, up); done.Changed != 1 {
				t.Errorf("up, with consent: %+v", done)
			}
			WantClean(t, l, api.VerifyRequest{})
		})
	}
}

// These changes need consent, with any ceilings: to a policy that releases for free what was for
// sale, to no policy, to other buyers, and to a policy that cannot be compared.
func (anyLedger) ChangeTerms_Incomparable_NeedsConsent(t *T) {
	unlock := func(total string, orders int) policy.Policy {
		return check.Value(policy.Unlock(Eps(t, total), orders))(t)
	}
	sum := func(of ...policy.Policy) policy.Policy {
		return check.Value(policy.Sum(of...))(t)
	}
	steps := func(of ...policy.Step) policy.Policy {
		return check.Value(policy.Steps(of...))(t)
	}
	for name, c := range map[string]struct{ now, to policy.Policy }{
		"the calendar instead":        {Market(t, "2"), steps(policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "0.1")})},
		"no policy":                   {Market(t, "2"), policy.Policy{}},
		"a market for nothing":        {policy.Policy{}, Market(t, "2")},
		"another buyer":               {Market(t, "2", func(m *policy.Market) { m.Buyers = []string{"acme"} }), Market(t, "1", func(m *policy.Market) { m.Buyers = []string{"zeta"} })},
		"earlier":                     {steps(policy.Step{At: ledgertest.Begin().Add(48 * time.Hour), Ceiling: Eps(t, "1")}), steps(policy.Step{At: ledgertest.Begin().Add(47 * time.Hour), Ceiling: Eps(t, "1")})},
		"cannot be compared":          {sum(unlock("0.700000001", 999_999_937), unlock("0.3", 333_333_000)), sum(unlock("0.69", 999_999_937), unlock("0.31", 333_333_001))},
		"cannot be compared, by time": {sum(unlock("0.3", 999_999_937), steps(policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "0.2")})), sum(unlock("0.3", 999_999_936), steps(policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "0.2")}))},
	} {
		t.Run(name, func(t *T) {
			l := NewLedger(t)
			Define(t, l, Vote())
			EnrollUnder(t, l, "vote", c.now, "9", "ann")
			got := Refusals(t, check.Err(l.ChangeTerms(t.Context(), to(t, "1", &c.to, "", "ann"))))
			check.That(t, got[0].Reason == api.NeedsConsent, "%+v", got)
			r := to(t, "1", &c.to, "", "ann")
			r.Consent = "form 17"
			changeTerms(t, l, r)
			WantClean(t, l, api.VerifyRequest{})
		})
	}
}

// The log lists the refusals of a request by its key.
func (anyLedger) Refusals_OfAPartialRequest_AreListedByKey(t *T) {
	l := Sellers(t, NewLedger(t), "2", "5", "ann", "bob")
	r := to(t, "1", nil, "7", "zoe", "bob", "ann")
	r.Partial = true
	done := changeTerms(t, l, r)
	var listed []api.Refusal
	for ev, err := range l.Refusals(t.Context(), "1", 0) {
		check.Must(t, err)
		listed = append(listed, ev.Says.(says.ObjectRefused).Refusal)
	}
	check.That(t, len(listed) == 3 && slices.Equal(listed, done.Refused), "the log refuses %+v, want %+v", listed, done.Refused)
}

// Each object may be enrolled with its own terms. The function is called once for each, in order.
// Other terms are another request.
func (anyLedger) Enroll_TermsPerObject_AreUsed(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	names, dearest, asked := Crowd(partSize+1), 7, []string(nil)
	at := func(object string) int { return slices.Index(names, object) }
	r := api.EnrollRequest{Key: "1", Question: "vote", Objects: slices.Clone(names), Terms: func(object string) (policy.Policy, privacy.Epsilon) {
		asked = append(asked, object)
		switch i := at(object) % dearest; i {
		case 0:
			return policy.Policy{}, Eps(t, "1")
		default:
			return *priced(t, int64(i)), Nano(t, int64(i))
		}
	}}
	slices.Reverse(r.Objects)
	done := check.Value(l.Enroll(t.Context(), r))(t)
	check.That(t, done.Enrolled == len(names) && slices.Equal(asked, names),
		"%+v, and the function was called for %d objects", done, len(asked))
	for _, object := range []string{names[0], names[1], names[6], names[partSize]} {
		o, i := ObjectOf(t, l, object), at(object)%dearest
		if i == 0 && (o.Chains[0].Policy != nil || o.Cap != Eps(t, "1")) || i > 0 && (!o.Chains[0].Policy.Equal(*priced(t, int64(i))) || o.Cap.Nano() != int64(i)) {
			t.Errorf("%s is under %+v", object, o)
		}
	}
	if again, err := l.Enroll(t.Context(), r); err != nil || !reflect.DeepEqual(again, done) {
		t.Errorf("the repeated request returns %+v, %v", again, err)
	}
	dearest = 6
	_, err := l.Enroll(t.Context(), r)
	conflict := new(api.KeyConflictError)
	check.That(t, errors.As(err, &conflict) && conflict.Field == "Terms", "on other terms: %v", err)
	r.Key, r.Cap = "2", Eps(t, "1")
	check.Is(t, check.Err(l.Enroll(t.Context(), r)), api.ErrInvalid)
	r.Cap, r.Terms = privacy.Epsilon{}, func(string) (policy.Policy, privacy.Epsilon) { return policy.Policy{}, privacy.Epsilon{} }
	r.Objects = []string{"new"}
	check.Is(t, check.Err(l.Enroll(t.Context(), r)), api.ErrNoCap)
	WantClean(t, l, api.VerifyRequest{})
}

// An invalid change returns a typed error, and changes nothing.
func (anyLedger) ChangeTerms_InvalidRequest_IsRefused(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann")
	_, err := policy.Steps(policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "1")}, policy.Step{At: ledgertest.Begin().Add(1), Ceiling: Eps(t, "0.5")})
	check.Is(t, err, privacy.ErrInvalid) // steps that are not monotone are invalid
	invisible := Market(t, "2", func(m *policy.Market) { m.Barred = []string{"ac\u200bme"} })
	for name, c := range map[string]struct {
		change func(*api.ChangeTermsRequest)
		want   error
	}{
		"no objects":                 {func(r *api.ChangeTermsRequest) { r.Objects = nil }, api.ErrInvalid},
		"an object twice":            {func(r *api.ChangeTermsRequest) { r.Objects = []string{"ann", "ann"} }, api.ErrInvalid},
		"no name":                    {func(r *api.ChangeTermsRequest) { r.Objects = []string{""} }, api.ErrInvalid},
		"a name of a megabyte":       {func(r *api.ChangeTermsRequest) { r.Objects = []string{strings.Repeat("n", 1<<20)} }, api.ErrInvalid},
		"nothing":                    {func(r *api.ChangeTermsRequest) { r.Cap = privacy.Epsilon{} }, api.ErrInvalid},
		"no key":                     {func(r *api.ChangeTermsRequest) { r.Key = "" }, api.ErrInvalid},
		"a consent of a megabyte":    {func(r *api.ChangeTermsRequest) { r.Consent = strings.Repeat("y", 1<<20) }, api.ErrInvalid},
		"a consent a byte too long":  {func(r *api.ChangeTermsRequest) { r.Consent = strings.Repeat("y", 1025) }, api.ErrInvalid},
		"a consent of two lines":     {func(r *api.ChangeTermsRequest) { r.Consent = "a\nb" }, api.ErrInvalid},
		"a consent that is no UTF-8": {func(r *api.ChangeTermsRequest) { r.Consent = "\xff" }, api.ErrInvalid},
		"no such question":           {func(r *api.ChangeTermsRequest) { r.Question = "void" }, api.ErrUnknown},
		"an invisible buyer":         {func(r *api.ChangeTermsRequest) { r.Policy = &invisible }, api.ErrInvalid},
	} {
		t.Run(name, func(t *T) {
			r := to(t, "1", nil, "3", "ann")
			c.change(&r)
			WantUnchanged(t, l, func() {
				check.Is(t, check.Err(l.ChangeTerms(t.Context(), r)), c.want)
			})
		})
	}
	WantUnchanged(t, l, func() {
		_, err := l.ChangeTerms(t.Context(), to(t, "1", nil, "3", "zoe", "ann"))
		if got := Refusals(t, err); len(got) != 1 || got[0] != (api.Refusal{Object: "zoe", Reason: api.NotEnrolled, Remedy: "enrolling"}) {
			t.Errorf("an object that is not enrolled: %+v", got)
		}
	})
	longest := to(t, "2", nil, "3", "ann")
	longest.Consent = strings.Repeat("y", 1024)
	changeTerms(t, l, longest)
	WantClean(t, l, api.VerifyRequest{})
}

// Events of changed terms are streamed.
func (openLedger) ChangeTerms_EventsAreStreamed(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann")
	seen := make(chan says.TermsChanged, 1)
	from := uint64(len(Events(t, l))) + 1
	go func() {
		for ev, err := range l.Watch(t.Context(), from) {
			if d, is := ev.Says.(says.TermsChanged); err != nil || is {
				seen <- d
				return
			}
		}
	}()
	r := to(t, "1", priced(t, 20), "10", "ann")
	r.Consent = "form 17"
	changeTerms(t, l, r)
	if d := <-seen; d.Object != "ann" || d.Consent != "form 17" || d.Cap != Eps(t, "10") || !d.Policy.Equal(*priced(t, 20)) {
		t.Errorf("%+v", d)
	}
}

// A change of terms of many objects is executed in parts. After an interruption, the same key
// continues. A cap that another request has lowered since is not raised.
func (openLedger) ChangeTerms_Interrupted_ContinuesWithItsKey(t *T) {
	names := Crowd(2*partSize + 10)
	l := Sellers(t, NewLedger(t), "2", "9", names...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := to(t, "1", priced(t, 120), "5", names...)
	var told []int
	r.Progress = func(done, total int) {
		if told = append(told, done, total); done == partSize {
			cancel()
		}
	}
	before := len(Events(t, l))
	_, err := l.ChangeTerms(ctx, r)
	check.That(t, err != nil && len(Events(t, l)) == before+1+partSize+1,
		"%v: interrupted after %d events", err, len(Events(t, l))-before)
	last := names[len(names)-1]
	changeTerms(t, l, to(t, "2", nil, "4", last))
	_, err = l.ChangeTerms(t.Context(), r)
	check.Is(t, err, api.ErrPartlyDone)
	got := Refusals(t, err)
	check.That(t, len(got) == 1 && got[0].Object == last && got[0].Reason == api.NeedsConsent, "%+v", got)
	back := to(t, "3", nil, "9", last)
	back.Consent = "agreed"
	changeTerms(t, l, back)
	done := check.Value(l.ChangeTerms(t.Context(), r))(t)
	check.That(t, done.Changed == len(names) && done.Unchanged == 0, "%+v", done)
	check.That(t, slices.Equal(told[:2], []int{partSize, len(names)}), "the progress was %v", told)
	for _, object := range []string{names[0], names[partSize], last} {
		o := ObjectOf(t, l, object)
		check.That(t, o.Cap == Eps(t, "5") && o.Chains[0].Policy.Equal(*priced(t, 120)), "%s is under %+v", object, o)
	}
	WantClean(t, l, api.VerifyRequest{})
}
