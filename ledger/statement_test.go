package ledger

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/documents"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// A seller can see all of its history, and prove it.

func statementOf(t testing.TB, l *Ledger, key, object string) evidence.Statement {
	t.Helper()
	return check.Value(l.Statement(t.Context(), api.ObjectRequest{Key: key, Object: object}))(t)
}

// issuerWithFullHistory returns an issuer in which ann has done everything that an object can do,
// once each.
func issuerWithFullHistory(t testing.TB) *issuer {
	t.Helper()
	o := newIssuer(t, 1)
	define(t, o.Ledger, smoker())
	sellers(t, o.Ledger, "4", "8", "ann", "bob")
	enrollUnder(t, o.Ledger, "smoker", inSteps(t), "8", "ann", "bob")
	more, less := market(t, "4"), market(t, "4", func(m *policy.Market) { m.Floor = 200 })
	changes := func(r api.ChangeTermsRequest) { must(t, check.Err(o.ChangeTerms(t.Context(), r))) }
	steps := []func(){
		func() { release(t, o.Ledger, releaseOf(t, "raised", "ann", "1")) },
		func() { release(t, o.Ledger, releaseOf(t, "derived", "ann", "0.25")) },
		func() { sell(t, o.Ledger, purchase(t, "resold", "acme", "1", "ann", "bob")) },
		func() { sell(t, o.Ledger, purchase(t, "inserted", "zeta", "0.5", "ann")) },
		func() { sell(t, o.Ledger, purchase(t, "drawn", "acme", "1.5", "ann")) },
		func() { sell(t, o.Ledger, purchase(t, "bob alone", "acme", "0.5", "bob")) },
		func() {
			r := answerRequest(t, "asked", "majority:yes", "0.5", ballots("ann", "bob"), "ann", "bob")
			r.AcceptLoss = true
			answerTo(t, o.Ledger, r)
		},
		func() {
			r := raiseOf(t, "too much", "2", "ann", "bob")
			r.Question, r.Partial = "smoker", true
			r.Epsilon = eps(t, "0.75")
			raise(t, o.Ledger, r)
			r.Key, r.Epsilon, r.Objects, r.All = "far too much", eps(t, "3"), []string{"ann"}, false
			raise(t, o.Ledger, r)
		},
		func() {
			r := purchase(t, "", "zeta", "2", "ann", "bob").Order
			held := reserve(t, o.Ledger, api.ReserveRequest{Key: "held", Order: r, For: time.Hour})
			must(t, o.Cancel(t.Context(), "given up", held.Number))
			r.Objects = []string{"ann"}
			held = reserve(t, o.Ledger, api.ReserveRequest{Key: "held again", Order: r, For: time.Hour})
			capture(t, o.Ledger, "paid", held.Number)
			reserve(t, o.Ledger, api.ReserveRequest{Key: "held still", Order: purchase(t, "", "third", "1", "ann").Order, For: time.Hour})
		},
		func() { must(t, o.Withdraw(t.Context(), api.ObjectRequest{Key: "out", Object: "ann"})) },
		func() {
			must(t, check.Err(o.Enroll(t.Context(), api.EnrollRequest{Key: "in", Question: "vote", Objects: []string{"ann"}, Policy: more, Cap: eps(t, "8")})))
		},
		func() {
			changes(api.ChangeTermsRequest{Key: "changed to less", Question: "vote", Objects: []string{"ann"}, Policy: &less, Cap: eps(t, "7")})
		},
		func() {
			changes(api.ChangeTermsRequest{Key: "changed to more", Question: "vote", Objects: []string{"ann", "bob"}, Policy: &more, Cap: eps(t, "8"), Consent: "form 17"})
		},
		func() {
			must(t, check.Err(drawing{key: "sweep", question: "smoker", truth: truthsOf(map[string]string{"bob": "no"})}.by(t, o.Ledger, "Advance")))
		},
	}
	for _, step := range steps {
		o.advanceClock()
		step()
	}
	o.advanceClock()
	return o
}

// wantFullHistory compares a statement with the state of the object, and with the log.
func wantFullHistory(t *testing.T, o *issuer, st evidence.Statement) {
	t.Helper()
	known := objectOf(t, o.Ledger, st.Object)
	if st.Cap != known.Cap || st.Spent != known.Spent || st.Earned != known.Earned || st.Currency != known.Currency || len(st.Chains) != len(known.Chains) {
		t.Errorf("%+v\nis stated of\n%+v", st, known)
	}
	var released []evidence.StatedResponse
	for i, c := range known.Chains {
		got := st.Chains[i]
		if got.Question != c.Question || got.Epsilon != c.Epsilon || got.Withdrawn != c.Withdrawn || state.Plus(got.Charged, got.Forgotten) != c.Answered || (got.Policy == nil) != (c.Policy == nil) ||
			c.Policy != nil && !got.Policy.Equal(*c.Policy) || got.Spent != state.Plus(c.Epsilon, c.Answered) {
			t.Errorf("the chain %+v is stated as %+v", c, got)
		}
		for _, at := range c.Levels {
			released = append(released, evidence.StatedResponse{Question: c.Question, Epsilon: at.Epsilon, Response: at.Response, Event: at.Event})
		}
	}
	want := sortedBy(released, func(r evidence.StatedResponse) uint64 { return r.Event })
	got := slices.Clone(st.Released)
	for i := range got {
		got[i].Time, got[i].Method = time.Time{}, ""
	}
	check.That(t, slices.Equal(got, want), "released was %+v, stated is %+v", want, got)
	var about []uint64
	for _, ev := range logOf(t, pairs(t, o.store)) {
		if _, request := ev.Change.(*event.Settled); request {
			continue
		}
		if c, ok := ev.Change.(event.Personal); ok && c.About() == st.Object && ev.Number < st.Event {
			about = append(about, ev.Number)
		}
	}
	last := st.Events[len(st.Events)-1]
	if list, ok := last.Says.(*says.Stated); !ok || last.Event != st.Event || !slices.Equal(list.Events, about) {
		t.Errorf("stated is %+v, the log has %d", last.Says, about)
	}
}

func TestStatement_FullHistory_IsCompleteAndVerifies(t *testing.T) {
	o := issuerWithFullHistory(t)
	st := statementOf(t, o.Ledger, "state", "ann")
	wantSound(t, "the statement", st, o.keys)
	wantFullHistory(t, o, st)
	if head := st.Verify(o.keys).Head; head.Events != st.Event {
		t.Errorf("the checkpoint is of %d events, the statement is event %d", head.Events, st.Event)
	}
	kinds := map[string]int{}
	for _, f := range st.Events {
		kinds[f.Kind()]++
	}
	want := map[string]int{
		"created": 1, "question": 2, "policy": 3, "terms": 2, "buyer": 3, "enrolled": 3, "bound": 2, "released": 3, "charged": 1, "reserved": 3, "held": 3,
		"sale": 4, "sold": 4, "withdrawn": 1, "refused": 1, "stated": 1,
	}
	check.That(t, reflect.DeepEqual(kinds, want), "the events are %v, want %v", kinds, want)
	if len(st.Sales) != 4 || st.Sales[0].Buyer != "acme" || st.Sales[1].Buyer != "zeta" || len(st.Charges) != 1 || !st.Chains[0].Withdrawn || st.Chains[1].Withdrawn {
		t.Errorf("%+v %+v %+v", st.Sales, st.Charges, st.Chains)
	}
	var terms []string
	for _, c := range st.Terms {
		terms = append(terms, fmt.Sprint(c.Question, " ", c.Policy, " ", c.Cap, " ", c.Consent))
	}
	wantTerms := []string{"vote " + market(t, "4", func(m *policy.Market) { m.Floor = 200 }).String() + " 7 ", "vote " + market(t, "4").String() + " 8 form 17"}
	check.That(t, slices.Equal(terms, wantTerms), "the terms were %q, want %q", terms, wantTerms)
	back := check.Value(evidence.ReadStatement(text(t, st)))(t)
	check.That(t, string(text(t, back)) == string(text(t, st)), "%+v became %+v", st, back)
	wantSound(t, "as it was read", back, o.keys)
	auditStore(t, o.store)
}

func TestStatement_SameKey_IsTheSame(t *testing.T) {
	o := issuerWithFullHistory(t)
	st := statementOf(t, o.Ledger, "state", "ann")
	n := stats(t, o.Ledger).Events
	release(t, o.Ledger, releaseOf(t, "more", "ann", "2"))
	again := statementOf(t, o.Ledger, "state", "ann")
	check.That(t, string(text(t, st)) == string(text(t, again)) && stats(t, o.Ledger).Events <= n+2,
		"%+v\nbecame\n%+v", st, again)
	wantErr(t, check.Err(o.Statement(t.Context(), api.ObjectRequest{Key: "state", Object: "bob"})), &api.KeyConflictError{})
	wantErr(t, check.Err(o.Statement(t.Context(), api.ObjectRequest{Key: "raised", Object: "ann"})), &api.KeyConflictError{})
}

func TestStatement_Later_ExtendsTheEarlierOne(t *testing.T) {
	o := issuerWithFullHistory(t)
	early := statementOf(t, o.Ledger, "early", "ann")
	o.advanceClock()
	release(t, o.Ledger, releaseOf(t, "more", "ann", "1.75"))
	late := statementOf(t, o.Ledger, "late", "ann")
	wantSound(t, "the earlier one, later", early, o.keys)
	wantSound(t, "the later one", late, o.keys)
	wantFullHistory(t, o, late)
	wantExtended(t, o, early.Checkpoint, late.Checkpoint)
	if !slices.ContainsFunc(late.Events, func(f evidence.Fact) bool { return f.Event == early.Event && f.Kind() == "stated" }) || len(late.Released) != len(early.Released)+1 {
		t.Errorf("%+v", late)
	}
}

func TestStatement_ObjectForgotten_KeepsSumsOnly(t *testing.T) {
	o := issuerWithFullHistory(t)
	before := statementOf(t, o.Ledger, "before", "ann")
	o.advanceClock()
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "ann"}))
	wantSound(t, "the statement from before", before, o.keys)
	_, err := o.Statement(t.Context(), api.ObjectRequest{Key: "before", Object: "ann"})
	wantErr(t, err, api.ErrForgotten)

	empty := statementOf(t, o.Ledger, "empty", "ann")
	wantSound(t, "forgotten", empty, o.keys)
	wantFullHistory(t, o, empty)
	if empty.Spent != before.Spent || empty.Earned != before.Earned || len(empty.Released)+len(empty.Sales)+len(empty.Charges)+len(empty.Terms) != 0 || empty.Forgotten == 0 || !empty.Chains[0].Withdrawn {
		t.Errorf("%+v", empty)
	}
	o.advanceClock()
	_, err = o.Enroll(t.Context(), api.EnrollRequest{Key: "again", Question: "vote", Objects: []string{"ann"}, Policy: policy.Fixed(eps(t, "5")), Cap: eps(t, "8")})
	refusals(t, err) // its policy is another
	_, err = o.Enroll(t.Context(), api.EnrollRequest{Key: "again", Question: "vote", Objects: []string{"ann"}, Policy: market(t, "4"), Cap: eps(t, "8")})
	must(t, err)
	_, err = o.Release(t.Context(), releaseOf(t, "over", "ann", "2"))
	check.That(t, len(refusals(t, err)) == 1, "it should be over the ceiling")
	other := smoker()
	other.Name = "drinker"
	define(t, o.Ledger, other)
	enroll(t, o.Ledger, "drinker", "8", "ann")
	r := releaseOf(t, "new", "ann", "0.5")
	r.Question = "drinker"
	release(t, o.Ledger, r)
	st := statementOf(t, o.Ledger, "after", "ann")
	wantSound(t, "enrolled again", st, o.keys)
	wantFullHistory(t, o, st)
	if st.Spent != state.Plus(before.Spent, eps(t, "0.5")) || len(st.Released) != 1 || st.Chains[1].Forgotten.IsZero() || st.Chains[1].Withdrawn {
		t.Errorf("%+v", st)
	}
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "forget again", Object: "ann"}))
	twice := statementOf(t, o.Ledger, "twice", "ann")
	wantSound(t, "forgotten twice", twice, o.keys)
	wantFullHistory(t, o, twice)
	check.That(t, twice.Spent == st.Spent && twice.Forgotten > st.Forgotten, "%+v", twice)
}

func TestStatement_UnknownObjectOrInvalid_IsAnError(t *testing.T) {
	o := issuerWithFullHistory(t)
	r := raiseOf(t, "stranger", "0.5", "ann", "dot")
	r.Partial = true
	raise(t, o.Ledger, r)
	for _, name := range []string{"stranger", "dot"} {
		wantErr(t, check.Err(o.Statement(t.Context(), api.ObjectRequest{Key: "k " + name, Object: name})), api.ErrUnknown)
	}
	for _, test := range [][2]string{{"", "ann"}, {"k", ""}, {"k", "a\x00"}, {strings.Repeat("k", 257), "ann"}} {
		wantErr(t, check.Err(o.Statement(t.Context(), api.ObjectRequest{Key: test[0], Object: test[1]})), api.ErrInvalid)
	}
	unchanged(t, o.store, func() {
		_, err := openMemory(t, o.store, Options{}).Statement(t.Context(), api.ObjectRequest{Key: "k", Object: "ann"})
		wantErr(t, err, api.ErrNoSigner)
		_, err = openMemory(t, o.store, Options{ReadOnly: true, Signer: o.documents.Signer}).Statement(t.Context(), api.ObjectRequest{Key: "k", Object: "ann"})
		wantErr(t, err, api.ErrReadOnly)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantErr(t, check.Err(o.Statement(ctx, api.ObjectRequest{Key: "k", Object: "ann"})), context.Canceled)
	})
}

// fullStatement returns an issuer and a statement with events of every kind that one can have.
func fullStatement(t *testing.T) (*issuer, evidence.Statement) {
	t.Helper()
	o := issuerWithFullHistory(t)
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "forget bob", Object: "bob"}))
	_, err := o.Enroll(t.Context(), api.EnrollRequest{Key: "bob again", Question: "smoker", Objects: []string{"bob"}, Policy: inSteps(t), Cap: eps(t, "8")})
	must(t, err)
	return o, statementOf(t, o.Ledger, "ann's", "ann")
}

func inSteps(t testing.TB) policy.Policy {
	t.Helper()
	return check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "1")}))(t)
}

func TestStatementVerify_AnyFieldAltered_NamesIt(t *testing.T) {
	o, st := fullStatement(t)
	bob := statementOf(t, o.Ledger, "bob's", "bob")
	wantAllNamed(t, o, st, 400)
	wantAllNamed(t, o, bob, 60)
}

// wantAllNamed alters every field of a statement, at least so many (if hurried, some of them). The
// faults must name the field.
func wantAllNamed(t *testing.T, o *issuer, st evidence.Statement, least int) {
	t.Helper()
	n, step := 0, oneIn(23)
	eachAltered(t, st, func(way string, other evidence.Statement) {
		if n++; n%step != 0 {
			return
		}
		c := other.Verify(o.keys)
		check.That(t, !c.OK() && (len(other.Verify(nil).Faults) != 0 || way == ".Checkpoint"),
			"%s: Verify reports no fault", way)
		all := strings.Join(faults(c), "\n")
		var i int
		if _, err := fmt.Sscanf(way, ".Events[%d]", &i); err == nil {
			// An event's number is in no hash: it is its place in the log, which the proof covers.
			if !slices.ContainsFunc(c.Faults, func(f evidence.Fault) bool { return f.Item == i+1 }) && !strings.HasSuffix(way, "].Event") {
				t.Errorf("%s: not named, but %q", way, faults(c))
			}
			return
		}
		field := strings.ToLower(strings.Split(strings.Split(way[1:], "[")[0], ".")[0])
		words := map[string]string{"logkey": "log_key", "proof": "do not give the root", "format": "format", "object": "ends the list", "checkpoint": "checkpoint", "currency": "currency"}[field]
		if words == "" {
			words = field + " differs from the value computed from the events"
		}
		if !strings.Contains(all, words) {
			t.Errorf("%s: not named, but %q", way, faults(c))
		}
	})
	check.That(t, n >= least, "only %d fields", n)
}

// A statement without any one of its events does not verify.
func TestStatementVerify_EventLeftOut_IsAFault(t *testing.T) {
	o, st := fullStatement(t)
	for i, f := range st.Events {
		other := copyOf(t, st)
		other.Events = slices.Delete(other.Events, i, i+1)
		what := fmt.Sprintf("without event %d, %s", f.Event, f.Kind())
		if c := other.Verify(o.keys); c.OK() || len(other.Verify(nil).Faults) < 2 {
			t.Errorf("%s: %q", what, faults(c))
		}
		// Also with a valid proof for the rest, which the ledger makes for any caller.
		var numbers []uint64
		for _, f := range other.Events {
			numbers = append(numbers, f.Event)
		}
		must(t, o.engine.View(t.Context(), func(s *state.State) (err error) {
			_, other.Proof, err = o.documents.Prove(s, st.Event, numbers)
			return err
		}))
		c := other.Verify(o.keys)
		if c.OK() || strings.Contains(strings.Join(faults(c), "\n"), "proof") {
			t.Errorf("%s, proven: %q", what, faults(c))
		}
	}
}

// factOf returns the first fact of a statement with such a detail.
func factOf[D says.Detail](s *evidence.Statement) *evidence.Fact {
	return &s.Events[slices.IndexFunc(s.Events, func(f evidence.Fact) bool { _, ok := f.Says.(D); return ok })]
}

// detailOf returns the first such detail of a statement.
func detailOf[D says.Detail](s *evidence.Statement) D { return factOf[D](s).Says.(D) }

// responseIn returns the response of a fact, or nil if it has none.
func responseIn(f *evidence.Fact) *string {
	switch d := f.Says.(type) {
	case *says.Released:
		return &d.Response
	case *says.Sold:
		return &d.Response
	}
	return nil
}

func TestStatementVerify_Spliced_IsAFault(t *testing.T) {
	o, st := fullStatement(t)
	bob := statementOf(t, o.Ledger, "bob's", "bob")
	later := statementOf(t, o.Ledger, "ann's later", "ann")
	for name, test := range map[string]struct {
		change func(*evidence.Statement)
		words  string
	}{
		"events of another":     {func(s *evidence.Statement) { s.Events = bob.Events }, `it is about "bob"`},
		"events of a later one": {func(s *evidence.Statement) { s.Events, s.Proof = later.Events, later.Proof }, "event differs from the value"},
		"a later checkpoint":    {func(s *evidence.Statement) { s.Checkpoint = later.Checkpoint }, "the checkpoint has"},
		"a later end":           {func(s *evidence.Statement) { s.Checkpoint, s.Event = later.Checkpoint, later.Event }, "event differs from the value"},
		"another's name":        {func(s *evidence.Statement) { s.Object = "bob" }, "ends the list"},
		"no events":             {func(s *evidence.Statement) { s.Events = nil }, "ends the list"},
		"swapped":               {func(s *evidence.Statement) { s.Events[6], s.Events[7] = s.Events[7], s.Events[6] }, "but must precede it"},
		"twice":                 {func(s *evidence.Statement) { s.Events = slices.Insert(s.Events, 3, s.Events[3]) }, "but must precede it"},
		"one more": {func(s *evidence.Statement) {
			s.Events = slices.Insert(s.Events, len(s.Events)-1, *factOf[*says.Enrolled](&bob))
		}, "is about"},
		"no price":         {func(s *evidence.Statement) { detailOf[*says.Sold](s).Price = 0 }, "altered"},
		"a negative price": {func(s *evidence.Statement) { detailOf[*says.Sold](s).Price = -1 }, "the amount -1 is negative"},
		"another kind": {func(s *evidence.Statement) {
			charged := detailOf[*says.Charged](s)
			factOf[*says.Charged](s).Says = &says.TruthBound{Object: charged.Object, Question: charged.Question}
		}, "the tag has 0 bytes"},
		"no kind":          {func(s *evidence.Statement) { factOf[*says.Charged](s).Says = nil }, "has no event of the kind"},
		"another sale":     {func(s *evidence.Statement) { detailOf[*says.Sold](s).Sale = 77 }, "no earlier event"},
		"another policy":   {func(s *evidence.Statement) { p := policy.Fixed(eps(t, "3")); detailOf[*says.Enrolled](s).Policy = &p }, "no earlier event defines"},
		"an empty policy":  {func(s *evidence.Statement) { detailOf[*says.PolicyDefined](s).Policy = policy.Policy{} }, "the policy is missing"},
		"created later":    {func(s *evidence.Statement) { s.Events[0].Event = 2 }, "a log begins with the creation"},
		"another question": {func(s *evidence.Statement) { detailOf[*says.Released](s).Question = "drinker" }, "no earlier event defines"},
		"another buyer":    {func(s *evidence.Statement) { detailOf[*says.SaleMade](s).Buyer = "unknown" }, "no earlier event names"},
		"another response": {func(s *evidence.Statement) { detailOf[*says.Released](s).Response = "maybe" }, "invalid response"},
		"another reason":   {func(s *evidence.Statement) { detailOf[*says.ObjectRefused](s).Refusal.Reason = "whim" }, "unknown reason"},
		"a short salt":     {func(s *evidence.Statement) { factOf[*says.Sold](s).Salt = says.Hex{1} }, "the salt has 1 bytes"},
		"an early expiry": {func(s *evidence.Statement) {
			at := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
			detailOf[*says.Reserved](s).Expires = at
		}, "not a time that a log can have"},
		"a broken id": {func(s *evidence.Statement) { detailOf[*says.Created](s).ID = "x" }, "the id"},
		"another spelling of the id": {func(s *evidence.Statement) {
			detailOf[*says.Created](s).ID = strings.ToUpper(detailOf[*says.Created](s).ID)
		}, "the fields are not written as a ledger writes them"},
		"another spelling of the ledger":    {func(s *evidence.Statement) { s.Ledger = strings.ToUpper(s.Ledger) }, "not a UUID in its standard form"},
		"another spelling of the signature": {func(s *evidence.Statement) { s.Checkpoint = respellSignature(t, s.Checkpoint) }, "not canonical base64"},
		"more was spent":                    {func(s *evidence.Statement) { s.Spent = privacy.MaxEpsilon() }, "spent differs from the value computed from the events"},
		"nothing earned":                    {func(s *evidence.Statement) { s.Earned = 0 }, "earned differs from the value"},
		"a response less":                   {func(s *evidence.Statement) { s.Released = s.Released[1:] }, "released differs from the value"},
		"a sale less":                       {func(s *evidence.Statement) { s.Sales = s.Sales[:1] }, "sales differs from the value"},
		"a chain less":                      {func(s *evidence.Statement) { s.Chains = s.Chains[:1] }, "chains differs from the value"},
		"no charges":                        {func(s *evidence.Statement) { s.Charges = nil }, "charges differs from the value"},
		"a response more":                   {func(s *evidence.Statement) { s.Released = append(s.Released, s.Released[0]) }, "released differs from the value"},
		"a sale more":                       {func(s *evidence.Statement) { s.Sales = append(s.Sales, s.Sales[0]) }, "sales differs from the value"},
		"a chain more":                      {func(s *evidence.Statement) { s.Chains = append(s.Chains, s.Chains[0]) }, "chains differs from the value"},
		"a charge more":                     {func(s *evidence.Statement) { s.Charges = append(s.Charges, s.Charges[0]) }, "charges differs from the value"},
	} {
		other := copyOf(t, st)
		test.change(&other)
		wantFault(t, name, other, o.keys, test.words)
		wantFault(t, name, other, nil, test.words)
	}
	wantFault(t, "nothing", evidence.Statement{}, nil, "ends the list")
	wantFault(t, "an empty event", evidence.Statement{Events: []evidence.Fact{{}}}, nil, "has no event of the kind")
	for name, change := range map[string]func(*merkle.Checkpoint){
		"other root": func(c *merkle.Checkpoint) { c.Size, c.Root[0] = st.Event, c.Root[0]+1 },
		"size 0":     func(c *merkle.Checkpoint) { c.Size = 0 },
	} {
		other := copyOf(t, st)
		other.Checkpoint = signChanged(t, o, change)
		wantFault(t, name, other, o.keys, "the checkpoint")
	}
}

// The log breaks the rules itself, with valid leaves and proofs. A statement of it does not verify
// either.
func TestStatementVerify_LogBreaksTheRules_IsAFault(t *testing.T) {
	for name, test := range map[string]struct {
		change func([]event.Event) []event.Event
		words  string
		about  string // ann by default
	}{
		"an event is kept quiet": {last("ann", func(c *event.Stated) { c.Events = slices.Delete(c.Events, 2, 3) }), "it does not list", ""},
		"less is spent":          {last("ann", func(c *event.Stated) { c.Spent = privacy.Epsilon{} }), "it says that the object has spent", ""},
		"more is earned":         {last("ann", func(c *event.Stated) { c.Earned++ }), "it says that the object has spent", ""},
		"another response is resold": {each(func(c *event.Sold, _ *event.Event) {
			if c.Method == event.MethodResale {
				c.Value.Index = 2
			}
		}), "it sells another response", ""},
		"a derived level is above": {each(func(c *event.Released, _ *event.Event) {
			if c.Method == event.MethodDegrade {
				c.Method = event.MethodRaise
			}
		}), "by raise does not fit the chain of 1 other levels", ""},
		"it withdraws earlier":        {each(func(_ *event.Charged, ev *event.Event) { ev.Change = &event.Withdrawn{Object: "ann"} }), "is not enrolled in", ""},
		"time runs back":              {each(func(c *event.Charged, ev *event.Event) { ev.Time = ev.Time.Add(1000 * time.Hour) }), "but must precede it", ""},
		"the cap is far lower":        {each(func(c *event.Enrolled, _ *event.Event) { c.Cap = eps(t, "0.5") }), `object "ann": the object has spent`, ""},
		"the cap changes":             {last("ann", func(c *event.Enrolled) { c.Cap = eps(t, "9") }), "the object's cap was ε=8", ""},
		"the policy changes":          {last("ann", func(c *event.Enrolled) { c.Policy = 3 - c.Policy }), "under another policy", ""},
		"it is enrolled twice":        {each(func(c *event.Withdrawn, ev *event.Event) { ev.Change = refusalOf(c.Object) }), "is already enrolled in question", ""},
		"it is not enrolled":          {each(func(c *event.Enrolled, ev *event.Event) { ev.Change = refusalOf(c.Object) }), "is not enrolled in", ""},
		"it is bound twice":           {last("ann", func(c *event.TruthBound) { c.Question = 3 - c.Question }), "is bound to its true value twice", ""},
		"what is resold was not":      {each(func(c *event.Released, _ *event.Event) { c.Epsilon = state.Plus(c.Epsilon, eps(t, "0.01")) }), "it sells another response", ""},
		"a sale of no objects":        {each(func(c *event.SaleMade, _ *event.Event) { c.Objects = 0 }), "it is not part of sale", ""},
		"a reservation of no objects": {each(func(c *event.Reserved, _ *event.Event) { c.Objects = 0 }), "it is not part of reservation", ""},
		"a response at ε = 0":         {each(func(c *event.Released, _ *event.Event) { c.Epsilon = privacy.Epsilon{} }), "a response at ε=0", ""},
		"more without consent":        {last("ann", func(c *event.TermsChanged) { c.Consent = "" }), "without consent the cap rises from ε=7 to 8", ""},
		"for less without consent":    {last("ann", func(c *event.TermsChanged) { c.Consent, c.Cap = "", eps(t, "7") }), "without consent: the policy may allow more: ", ""},
		"terms of a stranger": {each(func(c *event.Enrolled, ev *event.Event) {
			ev.Change = &event.TermsChanged{Object: c.Object, Question: c.Question, Policy: c.Policy, Cap: c.Cap}
		}), "in which the object was never enrolled", ""},
		"a reservation by others":      {each(func(c *event.Held, _ *event.Event) { c.Policy++ }), "under another policy", ""},
		"a response is given twice":    {each(func(c *event.Released, _ *event.Event) { c.Epsilon = eps(t, "0.5") }), "a response at ε=0.5", ""},
		"another was forgotten":        {last("", func(c *event.Forgotten) { c.Object = "ann" }), "it forgets another object, or", "bob"},
		"more was spent before":        {last("", func(c *event.Forgotten) { c.Spent = eps(t, "7") }), "the object had spent ε=7", "bob"},
		"it was forgotten before that": {last("bob", func(c *event.Stated) { c.Forgotten-- }), "it lists the events after event", "bob"},
		"it was never forgotten":       {last("bob", func(c *event.Stated) { c.Forgotten = 0 }), "it lists the events after event 0", "bob"},
	} {
		o, st := fullStatement(t)
		if test.about == "bob" {
			st = statementOf(t, o.Ledger, "bob's", "bob")
		}
		st = statementOfLog(t, o, st, test.change)
		wantFault(t, name, st, o.keys, test.words)
		all := strings.Join(faults(st.Verify(o.keys)), "\n")
		check.That(t, !strings.Contains(all, "root") && !strings.Contains(all, "altered"), "%s: the proof is not that of the log: %q", name, all)
	}
}

// each changes all events of a kind that are about ann or about no object.
func each[C event.Change](alter func(C, *event.Event)) func([]event.Event) []event.Event {
	return func(log []event.Event) []event.Event {
		for i := range log {
			c, ok := log[i].Change.(C)
			if about, is := any(c).(event.Personal); ok && (!is || about.About() == "ann") {
				alter(c, &log[i])
			}
		}
		return log
	}
}

// last changes the last event of a kind that is about an object, or about no object.
func last[C event.Change](object string, alter func(C)) func([]event.Event) []event.Event {
	return func(log []event.Event) []event.Event {
		for _, ev := range slices.Backward(log) {
			c, ok := ev.Change.(C)
			if about, is := any(c).(event.Personal); ok && (!is || about.About() == object) {
				alter(c)
				break
			}
		}
		return log
	}
}

func refusalOf(object string) event.Change {
	return &event.ObjectRefused{Refusal: api.Refusal{Object: object, Reason: api.NoTruth, Remedy: "truth"}}
}

// statementOfLog makes a statement of a changed log, up to the event of another statement, without
// checking the rules.
func statementOfLog(t *testing.T, o *issuer, st evidence.Statement, change func([]event.Event) []event.Event) evidence.Statement {
	t.Helper()
	log := change(logOf(t, pairs(t, o.store))[:st.Event])
	s := &state.State{Reader: hashesOnly{map[string][]byte{}}}
	edge := &merkle.Frontier{}
	var entries []documents.Entry
	for _, ev := range log {
		hashes := check.Value(edge.Append(ev.Leaf()))(t)
		key := state.EventKey(ev.Number)
		s.Reader.(hashesOnly).records[string(key)] = wire.Seal(state.BucketEvents, key, event.Entry{Event: ev, Previous: 0, Hashes: hashes}.Encode())
		entries = append(entries, documents.Entry{Event: ev, Leaf: hashes[0]})
	}
	facts, _ := documents.Facts(entries) // with fields missing where the log is no ledger's
	s.Counters.Events = st.Event
	numbers := make([]uint64, len(st.Events))
	for i, f := range st.Events {
		numbers[i], st.Events[i] = f.Event, facts[f.Event-1]
	}
	head, proof, err := o.documents.Prove(s, st.Event, numbers)
	must(t, err)
	signed := check.Value(o.documents.Sign(head))(t)
	st.Proof, st.Checkpoint = proof, string(signed)
	return st
}

// hashesOnly reads records from a map.
type hashesOnly struct{ records map[string][]byte }

func (h hashesOnly) Get(_ string, key []byte) ([]byte, error) { return h.records[string(key)], nil }

func (hashesOnly) Scan(string, []byte, func(key, value []byte) bool) error {
	return errors.New("not there")
}

// Other requests commit in the same transaction: the statement is not the end of the log, but its
// checkpoint ends with it.
func TestStatement_ConcurrentCommits_EndsAtItsCheckpoint(t *testing.T) {
	signer, verifier, public := logKey(t, issuerName, 4)
	path := filepath.Join(tests.TempDir(t), "ledger.db")
	must(t, Create(t.Context(), path, CreateOptions{Currency: "USD", LogKey: public}))
	l, s := openShim(t, path, Options{Signer: signer})
	voters(t, l, "5", crowd(200)...)
	commit := s.holdCommit(t)
	first := async(func() (api.Response, error) {
		return l.Release(t.Context(), releaseOf(t, "first", "person-00000", "0.5"))
	})
	commit.wait(t)
	one := async(func() (evidence.Statement, error) {
		return l.Statement(t.Context(), api.ObjectRequest{Key: "one", Object: "person-00001"})
	})
	waitQueued(t, l, 1)
	later := async(func() (api.Response, error) {
		return l.Release(t.Context(), releaseOf(t, "later", "person-00001", "0.5"))
	})
	waitQueued(t, l, 2)
	commit.open()
	await(t, first)
	await(t, later)
	st := await(t, one)
	must(t, st.err)
	wantSound(t, "one in a batch", st.value, note.VerifierList(verifier))
	if n := stats(t, l).Events; st.value.Event >= n || len(st.value.Released) != 0 {
		t.Errorf("the statement is event %d of %d: %+v", st.value.Event, n, st.value.Released)
	}

	var wait sync.WaitGroup
	for i, name := range crowd(200) {
		wait.Go(func() { check.OK(t, check.Err(l.Release(context.Background(), releaseOf(t, "r "+name, name, "1")))) })
		wait.Go(func() {
			st, err := l.Statement(context.Background(), api.ObjectRequest{Key: "s " + name, Object: name})
			if check.OK(t, err); err == nil && i%10 == 0 {
				wantSound(t, name, st, note.VerifierList(verifier))
			}
		})
	}
	wait.Wait()
}

// The object is forgotten while the statement is made, at each of its reads.
func TestStatement_ForgottenDuringReads_VerifiesOrIsErrForgotten(t *testing.T) {
	signer, verifier, public := logKey(t, issuerName, 4)
	for read := range 3 {
		path := filepath.Join(tests.TempDir(t), "ledger.db")
		must(t, Create(t.Context(), path, CreateOptions{Currency: "USD", LogKey: public}))
		l, s := openShim(t, path, Options{Signer: signer})
		voters(t, l, "5", "ann", "bob")
		reads := 0
		s.onRead(func() {
			committing := l.engine.Load().Committing // whose reads are not the statement's
			if committing {
				return
			}
			if reads++; reads == read+1 {
				must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "ann"}))
			}
		})
		st, err := l.Statement(t.Context(), api.ObjectRequest{Key: "k", Object: "ann"})
		if err == nil {
			wantSound(t, fmt.Sprint("forgotten at read ", read), st, note.VerifierList(verifier))
		} else {
			wantErr(t, err, api.ErrForgotten)
		}
		done := err == nil
		check.That(t, done == (read == 2) && reads >= read+1, "forgotten at read %d of %d: %v", read, reads, err)
	}
}

// A statement is for its object: of others it has only the sums of their common sales.
func TestStatement_OtherObjects_AreNotInIt(t *testing.T) {
	o := issuerWithFullHistory(t)
	st := statementOf(t, o.Ledger, "SECRET", "ann")
	data := string(text(t, st))
	for _, ev := range logOf(t, pairs(t, o.store)) {
		switch c := ev.Change.(type) {
		case *event.TruthBound:
			check.That(t, c.Object != "bob" || !strings.Contains(data, hex.EncodeToString(c.Tag[:])),
				"the truth tag of bob's chain is in the statement of ann")
		case event.Personal:
			check.That(t, c.About() != "bob" || !strings.Contains(data, hex.EncodeToString(ev.Salt[:])),
				"the salt of event %d, about bob, is in the statement of ann", ev.Number)
		}
	}
	for _, secret := range []string{"bob", "SECRET", "resold", "previous"} {
		check.That(t, !strings.Contains(data, secret), "%q is in the statement of ann", secret)
	}
}

func TestGoldenStatement_MadeAgain_IsTheSameAndVerifies(t *testing.T) {
	o := issuerWithFullHistory(t)
	must(t, o.Forget(t.Context(), api.ObjectRequest{Key: "forget bob", Object: "bob"}))
	o.advanceClock()
	st := statementOf(t, o.Ledger, "ann's", "ann")
	_, err := o.Enroll(t.Context(), api.EnrollRequest{Key: "bob again", Question: "smoker", Objects: []string{"bob"}, Policy: inSteps(t), Cap: eps(t, "8")})
	must(t, err)
	bob := statementOf(t, o.Ledger, "bob's", "bob")
	for name, one := range map[string]evidence.Statement{"statement-v4.json": st, "statement-forgotten-v4.json": bob} {
		golden(t, name, string(text(t, one)))
		data := check.Value(os.ReadFile(filepath.Join("testdata", "golden", name)))(t)
		kept := check.Value(evidence.ReadStatement(data))(t)
		wantSound(t, name, kept, goldenKeys(t))
	}
}
