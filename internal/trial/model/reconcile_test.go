package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// A host reconciles the ledger with its own table.

// rows yields the rows of a table.
func rows(all ...api.Member) iter.Seq2[api.Member, error] {
	return func(yield func(api.Member, error) bool) {
		for _, m := range all {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// member returns a row about the vote.
func member(t testing.TB, object string, p *policy.Policy, limit string) api.Member {
	t.Helper()
	m := api.Member{Object: object, Question: "vote", Cap: Eps(t, limit)}
	if p != nil {
		m.Policy = *p
	}
	return m
}

func reconcile(t testing.TB, l LedgerAPI, r api.ReconcileRequest) api.ReconcileResult {
	t.Helper()
	return check.Value(l.Reconcile(t.Context(), r))(t)
}

// describe returns a result as lines.
func describe(r api.ReconcileResult) (lines []string) {
	names := func(what string, n api.NameList) string {
		if n.Count == 0 {
			return ""
		}
		return fmt.Sprintf(" %s %d %s", what, n.Count, strings.Join(n.First, ","))
	}
	for _, q := range r.Questions {
		line := fmt.Sprintf("%s: same %d", q.Question, q.Same) + names("new", q.New) + names("changed", q.Changed) + names("left", q.Left) + names("dropped", q.Dropped)
		for _, refusal := range q.Refused {
			line += fmt.Sprintf(" refused %s %s", refusal.Object, refusal.Reason)
		}
		lines = append(lines, line)
	}
	if r.Gone.Count > 0 {
		lines = append(lines, fmt.Sprintf("%s, withdrawn %d", strings.TrimSpace(names("gone", r.Gone)), r.Withdrawn))
	}
	return lines
}

func wantResult(t testing.TB, r api.ReconcileResult, want ...string) {
	t.Helper()
	if got := describe(r); !slices.Equal(got, want) {
		t.Errorf("Reconcile returns\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// New objects are enrolled, objects with other terms get the terms of the table, increases without
// consent are refused, and withdrawn objects stay withdrawn. A second call does nothing, and writes
// nothing.
func (anyLedger) Reconcile_MakesTheLedgerMatchTheTable(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	Define(t, l, Smoker())
	smokes := func(object string) api.Member {
		return api.Member{Object: object, Question: "smoker", Cap: Eps(t, "9")}
	}
	table := []api.Member{
		member(t, "dan", priced(t, 100), "9"), member(t, "ann", priced(t, 100), "9"), smokes("ann"), member(t, "cid", priced(t, 70), "3"), smokes("eve"), member(t, "bob", priced(t, 100), "9"),
	}
	wantResult(t, reconcile(t, l, api.ReconcileRequest{Members: rows(table...)}), "vote: same 0 new 4 ann,bob,cid,dan", "smoker: same 0 new 2 ann,eve")
	again := func(want ...string) {
		t.Helper()
		before := len(Events(t, l))
		wantResult(t, reconcile(t, l, api.ReconcileRequest{Members: rows(table...), Withdraw: true}), want...)
		now := len(Events(t, l))
		check.That(t, now == before, "a call without changes writes %d events", now-before)
	}
	again("vote: same 4", "smoker: same 2")
	table[0] = member(t, "dan", priced(t, 130), "8") // dearer, and a lower cap
	table[1] = member(t, "ann", priced(t, 90), "9")  // cheaper, and ann has not agreed
	table[3].Policy, table[3].Consent = *priced(t, 60), "cid agreed on 3 March"
	table = append(table, member(t, "fay", nil, "0.5"))
	wantResult(t, reconcile(t, l, api.ReconcileRequest{Members: rows(table...)}), "vote: same 1 new 1 fay changed 2 cid,dan refused ann needs-consent", "smoker: same 2")
	again("vote: same 4 refused ann needs-consent", "smoker: same 2")
	o := ObjectOf(t, l, "dan")
	check.That(t, o.Cap == Eps(t, "8") && o.Chains[0].Policy.Equal(*priced(t, 130)), "dan is under %+v", o)
	if o := ObjectOf(t, l, "ann"); !o.Chains[0].Policy.Equal(*priced(t, 100)) {
		t.Errorf("ann is under %+v", o)
	}
	var agreed []string
	for _, ev := range Events(t, l) {
		if d, is := ev.Says.(says.TermsChanged); is {
			agreed = append(agreed, d.Object+": "+d.Consent)
		}
	}
	check.That(t, slices.Equal(agreed, []string{"cid: cid agreed on 3 March", "dan: "}), "the log has %q", agreed)
	check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "1", Object: "bob"}))
	check.Must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "2", Object: "eve"}))
	again("vote: same 3 left 1 bob refused ann needs-consent", "smoker: same 1 left 1 eve")
	WantClean(t, l, api.VerifyRequest{})
}

// An object that withdraws during the call stays withdrawn.
func (openLedger) Reconcile_ObjectWithdrawsConcurrently_StaysWithdrawn(t *T) {
	l := Voters(t, NewLedger(t), "9", "cid", "dan")
	Define(t, l, Smoker())
	r := api.ReconcileRequest{Members: rows(member(t, "cid", nil, "7"), api.Member{Object: "dan", Question: "smoker"})}
	r.Progress = func(done, _ int) {
		if done == 1 { // cid's cap is changed, dan is not enrolled yet
			check.Must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "dan leaves", Object: "dan"}))
		}
	}
	reconcile(t, l, r)
	o := ObjectOf(t, l, "dan")
	check.That(t, len(o.Chains) == 1 && o.Chains[0].Withdrawn, "dan is back: %+v", o)
}

// The plan is reported first, by a dry run or by Confirm, which can stop the call.
func (openLedger) Reconcile_DryRunOrConfirm_ReportsThePlanFirst(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", Crowd(100)...)
	EnrollUnder(t, l, "vote", Market(t, "2"), "9", "ann", "bob")
	var table []api.Member
	for _, object := range append(Crowd(100), "ann", "new") {
		table = append(table, member(t, object, new(Market(t, "2")), map[bool]string{true: "7", false: "9"}[object == "ann"]))
	}
	r := api.ReconcileRequest{Members: rows(table...), Withdraw: true, DryRun: true}
	want := []string{"vote: same 100 new 1 new changed 1 ann", "gone 1 bob, withdrawn 1"}
	WantUnchanged(t, l, func() { wantResult(t, reconcile(t, l, r), want...) })
	r.DryRun = false
	mind := errors.New("not today")
	WantUnchanged(t, l, func() {
		r.Confirm = func(plan api.ReconcileResult) error { wantResult(t, plan, want...); return mind }
		check.Is(t, check.Err(l.Reconcile(t.Context(), r)), mind)
	})
	asked, done := 0, []int(nil)
	r.Confirm = func(plan api.ReconcileResult) error {
		asked++
		wantResult(t, plan, want...)
		o := ObjectOf(t, l, "ann")
		check.That(t, o.Cap == Eps(t, "9"), "the change was made before Confirm was called")
		return nil
	}
	r.Progress = func(n, total int) { done = append(done, n, total) }
	wantResult(t, reconcile(t, l, r), want...)
	check.That(t, asked == 1 && slices.Equal(done, []int{1, 3, 2, 3, 3, 3}), "Confirm was called %d times, progress %v", asked, done)
	bob := ObjectOf(t, l, "bob")
	check.That(t, bob.Chains[0].Withdrawn, "%+v", bob)
	WantClean(t, l, api.VerifyRequest{})
}

// A truncated table withdraws no object. Missing objects are reported. They are withdrawn only if
// requested, and above one in a hundred only with the expected number.
func (anyLedger) Reconcile_TruncatedTable_WithdrawsNoObject(t *T) {
	names := Crowd(300)
	l := Sellers(t, NewLedger(t), "2", "9", names...)
	Define(t, l, Smoker())
	Enroll(t, l, "smoker", "9", names[299])
	table := func(n int) []api.Member {
		var all []api.Member
		for _, object := range names[:n] {
			all = append(all, member(t, object, new(Market(t, "2")), "9"))
		}
		return all
	}
	gone := func(r api.ReconcileRequest, n int) {
		t.Helper()
		WantUnchanged(t, l, func() {
			_, err := l.Reconcile(t.Context(), r)
			var e *api.GoneError
			check.That(t, errors.As(err, &e) && *e == (api.GoneError{Gone: n, Of: 300, Expected: r.Gone}),
				"%v", err)
		})
	}
	WantUnchanged(t, l, func() {
		wantResult(t, reconcile(t, l, api.ReconcileRequest{Members: rows(table(298)...)}), "vote: same 298", "gone 2 person-00298,person-00299, withdrawn 0")
		if r := reconcile(t, l, api.ReconcileRequest{Members: rows()}); r.Gone.Count != 300 || r.Withdrawn != 0 || len(r.Questions) != 0 {
			t.Errorf("%+v", r)
		}
	})
	gone(api.ReconcileRequest{Members: rows(table(296)...), Withdraw: true}, 4)
	gone(api.ReconcileRequest{Members: rows(table(296)...), Withdraw: true, Gone: 3}, 4)
	gone(api.ReconcileRequest{Members: rows(table(296)...), Withdraw: true, Gone: 5, DryRun: true}, 4)
	gone(api.ReconcileRequest{Members: rows(append(table(100), member(t, "new", nil, "1"))...), Withdraw: true}, 200)
	gone(api.ReconcileRequest{Members: rows(), Withdraw: true, Gone: 4}, 300)
	cut := errors.New("the connection is gone")
	WantUnchanged(t, l, func() {
		_, err := l.Reconcile(t.Context(), api.ReconcileRequest{Withdraw: true, Gone: 150, Members: func(yield func(api.Member, error) bool) {
			for _, m := range table(150) {
				if !yield(m, nil) {
					return
				}
			}
			check.That(t, !yield(api.Member{}, cut), "the rows are read after an error")
		}})
		check.Is(t, err, cut)
	})
	wantResult(t, reconcile(t, l, api.ReconcileRequest{Members: rows(table(297)...), Withdraw: true}), "vote: same 297", "gone 3 person-00297,person-00298,person-00299, withdrawn 3") // one in a hundred
	o := ObjectOf(t, l, names[299])
	check.That(t, o.Chains[0].Withdrawn && o.Chains[1].Withdrawn, "%+v", o)
	r := reconcile(t, l, api.ReconcileRequest{Members: rows(table(97)...), Withdraw: true, Gone: 200})
	check.That(t, r.Withdrawn == 200 && r.Gone.Count == 200, "%+v", r)
	if r := reconcile(t, l, api.ReconcileRequest{Members: rows(table(97)...), Withdraw: true}); r.Gone.Count != 0 {
		t.Errorf("withdrawn objects are reported as missing again: %+v", r)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// A table with tens of thousands of rows, in random order, is processed in parts. An interrupted
// call is finished by the next one, with the same result as without the interruption.
func (openLedger) Reconcile_Interrupted_IsFinishedByTheNext(t *T) {
	names := Crowd(3 * partSize)
	there, random := names[:2*partSize], rand.New(rand.NewPCG(1, 2))
	begin := func() LedgerAPI { return Sellers(t, NewLedger(t), "2", "9", there...) }
	var table []api.Member
	for i, object := range names {
		if i%50 == 0 && i < len(there) { // two in a hundred are missing
			continue
		}
		m := member(t, object, priced(t, 100), "9")
		if i%3 == 1 {
			m = member(t, object, priced(t, int64(101+i%7)), "8")
		}
		table = append(table, m)
	}
	random.Shuffle(len(table), func(i, j int) { table[i], table[j] = table[j], table[i] })
	gone := (len(there) + 49) / 50
	request := func() api.ReconcileRequest {
		return api.ReconcileRequest{Members: rows(table...), Withdraw: true, Gone: gone}
	}
	quiet := begin()
	first := reconcile(t, quiet, request())
	if q := first.Questions[0]; q.New.Count != partSize || q.Changed.Count == 0 || q.Same+q.Changed.Count != len(there)-gone || first.Withdrawn != gone {
		t.Fatalf("%d new, %d changed, %d same, %d withdrawn", q.New.Count, q.Changed.Count, q.Same, first.Withdrawn)
	}
	l := begin()
	for cut := 1; ; cut++ {
		ctx, cancel := context.WithCancel(t.Context())
		r, parts := request(), 0
		r.Progress = func(int, int) {
			if parts++; parts == 2 {
				cancel()
			}
		}
		plan := check.Value(l.Reconcile(t.Context(), api.ReconcileRequest{Members: rows(table...), DryRun: true}))(t)
		r.Gone = plan.Gone.Count
		_, err := l.Reconcile(ctx, r)
		if cancel(); err == nil {
			check.That(t, cut >= 3, "it was finished by call %d", cut)
			break
		}
		check.Is(t, err, context.Canceled)
	}
	for _, object := range []string{names[0], names[1], names[2], names[50], names[2*partSize-1], names[2*partSize], names[len(names)-1]} {
		got, want := ObjectOf(t, l, object), ObjectOf(t, quiet, object)
		check.That(t, reflect.DeepEqual(got, want), "%s is %+v, and without an interruption %+v", object, got, want)
	}
	if got, want := Stats(t, l), Stats(t, quiet); got.Objects != want.Objects || got.Chains != want.Chains {
		t.Errorf("the statistics are %+v, and without an interruption %+v", got, want)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Changes made after the table began to be read are newer than the table: an object enrolled since
// is not missing, and terms changed since are kept.
func (openLedger) Reconcile_ChangesAfterTheTable_AreKept(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann", "bob", "cid")
	Define(t, l, Smoker())
	Enroll(t, l, "smoker", "9", "bob", "dan", "eve")
	table := []api.Member{
		member(t, "ann", new(Market(t, "2")), "8"), member(t, "bob", priced(t, 120), "9.5"), {Object: "bob", Question: "smoker", Policy: Market(t, "1"), Consent: "for money"},
		{Object: "dan", Question: "smoker", Cap: Eps(t, "9.5"), Consent: "more"}, member(t, "eve", priced(t, 100), "9.5"), {Object: "eve", Question: "smoker"},
	}
	table[4].Consent = "on both"
	r := api.ReconcileRequest{Withdraw: true, Gone: 1, Members: func(yield func(api.Member, error) bool) {
		if !yield(table[0], nil) {
			return
		}
		EnrollUnder(t, l, "vote", Market(t, "2"), "9", "late") // by the very next event
		changeTerms(t, l, to(t, "1", nil, "2", "ann"))
		lower := to(t, "lower", nil, "3", "bob") // a cap is over all questions
		lower.Question = "smoker"
		changeTerms(t, l, lower)
		for _, row := range table[1:] {
			yield(row, nil)
		}
	}}
	r.Confirm = func(plan api.ReconcileResult) error {
		lower := to(t, "lower too", nil, "4", "dan", "eve")
		lower.Question = "smoker"
		changeTerms(t, l, lower)
		return nil
	}
	table[0].Consent, table[1].Consent = "to 8, before they thought better of it", "before that, too"
	done := reconcile(t, l, r)
	check.That(t, done.Gone.Count == 1 && done.Gone.First[0] == "cid" && done.Withdrawn == 1, "%q", describe(done))
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Cap == Eps(t, "2"), "ann has the cap %s", o.Cap)
	for object, limit := range map[string]string{"bob": "3", "dan": "4", "eve": "4"} {
		if o := ObjectOf(t, l, object); o.Cap != Eps(t, limit) {
			t.Errorf("%s has the cap %s, want %s", object, o.Cap, limit)
		}
	}
	if o := ObjectOf(t, l, "bob"); !o.Chains[0].Policy.Equal(*priced(t, 120)) || o.Chains[1].Policy != nil {
		t.Errorf("bob is under %+v", o)
	}
	if o := ObjectOf(t, l, "late"); o.Chains[0].Withdrawn {
		t.Errorf("%+v", o)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// A cap that is lowered between two parts of a call is not raised again by the next part. Terms
// changed since they were compared are kept.
func (openLedger) Reconcile_ChangesBetweenParts_AreKept(t *T) {
	l := Sellers(t, NewLedger(t), "2", "5", "ann", "bob")
	Define(t, l, Smoker())
	Enroll(t, l, "smoker", "5", "ann", "bob")
	row := func(object, question string) api.Member {
		return api.Member{Object: object, Question: question, Policy: *priced(t, 120), Cap: Eps(t, "6"), Consent: "on both"}
	}
	r := api.ReconcileRequest{Members: rows(row("ann", "vote"), row("ann", "smoker"), row("bob", "vote"), row("bob", "smoker"))}
	parts := 0
	r.Progress = func(done, _ int) {
		if parts++; done == 2 { // the rows about the vote are done
			changeTerms(t, l, to(t, "lower", nil, "4", "ann"))
			other := to(t, "other", priced(t, 500), "", "bob")
			other.Question, other.Consent = "smoker", "bob prefers this"
			changeTerms(t, l, other)
		}
	}
	reconcile(t, l, r)
	ann, bob := ObjectOf(t, l, "ann"), ObjectOf(t, l, "bob")
	if parts != 2 || ann.Cap != Eps(t, "4") || !ann.Chains[0].Policy.Equal(*priced(t, 120)) || !ann.Chains[1].Policy.Equal(*priced(t, 120)) {
		t.Errorf("%d parts: ann is under %+v", parts, ann)
	}
	check.That(t, bob.Cap == Eps(t, "6") && bob.Chains[1].Policy.Equal(*priced(t, 500)), "bob is under %+v", bob)
	WantClean(t, l, api.VerifyRequest{})
}

// A table with an invalid row changes nothing.
func (anyLedger) Reconcile_InvalidRow_ChangesNothing(t *T) {
	l := Sellers(t, NewLedger(t), "2", "9", "ann")
	ok := member(t, "ok", nil, "1")
	odd := func(change func(*api.Member)) []api.Member {
		m := member(t, "odd", nil, "1")
		change(&m)
		return []api.Member{ok, m}
	}
	invisible := Market(t, "2", func(m *policy.Market) { m.Barred = []string{"ac\u200bme"} })
	for name, c := range map[string]struct {
		table []api.Member
		want  error
	}{
		"an object twice":         {[]api.Member{ok, ok}, api.ErrInvalid},
		"two caps of an object":   {[]api.Member{ok, {Object: "ok", Question: "smoker", Cap: Eps(t, "2")}}, api.ErrInvalid},
		"no name":                 {odd(func(m *api.Member) { m.Object = "" }), api.ErrInvalid},
		"an invisible name":       {odd(func(m *api.Member) { m.Object = "an\u200bn" }), api.ErrInvalid},
		"an invisible buyer":      {odd(func(m *api.Member) { m.Policy = invisible }), api.ErrInvalid},
		"a name of a megabyte":    {odd(func(m *api.Member) { m.Object = strings.Repeat("n", 1<<20) }), api.ErrInvalid},
		"a consent of a megabyte": {odd(func(m *api.Member) { m.Consent = strings.Repeat("y", 1<<20) }), api.ErrInvalid},
		"no such question":        {odd(func(m *api.Member) { m.Question = "void" }), api.ErrUnknown},
		"no cap of a new object":  {odd(func(m *api.Member) { m.Cap = privacy.Epsilon{} }), api.ErrNoCap},
	} {
		t.Run(name, func(t *T) {
			if name == "two caps of an object" {
				Define(t, l, Smoker())
			}
			WantUnchanged(t, l, func() {
				_, err := l.Reconcile(t.Context(), api.ReconcileRequest{Members: rows(c.table...)})
				check.Is(t, err, c.want)
			})
		})
	}
	for _, r := range []api.ReconcileRequest{{}, {Members: rows(ok), Gone: -1}} {
		check.Is(t, check.Err(l.Reconcile(t.Context(), r)), api.ErrInvalid)
	}
	_, err := l.Reconcile(t.Context(), api.ReconcileRequest{Members: rows(ok, member(t, "an\u200bn", nil, "1"))})
	var fault *api.NameError
	check.That(t, errors.As(err, &fault) && fault.Name == "an\u200bn", "%v", err)
}

// A read-only ledger reports the differences, and changes nothing.
func (anyLedger) Reconcile_ReadOnly_ReportsDifferences(t *T) {
	h := VotersStorage(t, "9", "ann", "bob")
	l := h.Open(t, ledger.Options{ReadOnly: true})
	r := api.ReconcileRequest{Members: rows(member(t, "ann", nil, "8"), member(t, "new", nil, "8")), DryRun: true}
	wantResult(t, reconcile(t, l, r), "vote: same 0 new 1 new changed 1 ann", "gone 1 bob, withdrawn 0")
	r.DryRun = false
	check.Is(t, check.Err(l.Reconcile(t.Context(), r)), api.ErrReadOnly)
}
