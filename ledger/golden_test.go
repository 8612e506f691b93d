package ledger

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// The golden files fix the format: files that users have must stay readable and keep their meaning.
// After an intended change of the format, which doc.go describes, rewrite them with
//
//	go test ./ledger -run Golden -update
//
// and review every changed line.
var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with a golden file, or writes the file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	fixture.Golden(t, filepath.Join("testdata", "golden", name), text, *update)
}

// goldenStore returns a store with the records of a golden file.
func goldenStore(t *testing.T, name string) *kv.Memory {
	t.Helper()
	return fill(t, recordsIn(t, string(content(t, filepath.Join("testdata", "golden", name)))))
}

// recordsIn parses the text that dump writes.
func recordsIn(t *testing.T, text string) (records []pair) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			var p pair
			must(t, check.Err(fmt.Sscanf(line, "%s %x %x", &p.bucket, &p.key, &p.value)))
			records = append(records, p)
		}
	}
	return records
}

// dump returns all records of a store as text, one a line.
func dump(t *testing.T, s kv.Store) string {
	t.Helper()
	text := "# bucket, key and value of every record, in hex\n"
	for _, p := range pairs(t, s) {
		text += p.String() + "\n"
	}
	return text
}

// writeGoldenLedger writes the same small ledger on every call: by the calls of a host, with a
// clock set by the test and fixed draws. It adds by hand the events that calls seldom record.
func writeGoldenLedger(t *testing.T, s kv.Store) {
	t.Helper()
	beginWithKey(t, s, goldenLogKey(t, "example.com/golden"))
	clock := newClock(epoch())
	l := check.Value(openStore(t.Context(), s, Options{Now: clock.read}))(t)
	l.engine.Chances.Values, l.requests.Sampler, l.engine.Salts = steadySampler(), medians(), steadySalts(2)
	must(t, l.useKeys(t.Context(), truthKey(), nil, api.NoiseKeys{}))
	steps := []func(){
		func() { define(t, l, vote()) },
		func() {
			define(t, l, api.Question{Name: "Größe", Values: []string{"klein", "groß"}, Encoding: "direct"})
		},
		func() { enroll(t, l, "vote", "2.5", "ann", "bob") },
		func() {
			must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "policy", Question: "Größe", Objects: []string{"ann", "çid"}, Policy: policy.Fixed(eps(t, "0.000000001")), Cap: eps(t, "2.5")})))
		},
		func() { release(t, l, releaseOf(t, "raise", "ann", "1")) },
		func() { release(t, l, releaseOf(t, "degrade", "ann", "0.25")) },
		func() { release(t, l, releaseOf(t, "insert", "ann", "0.5")) },
		func() { release(t, l, releaseOf(t, "resale", "ann", "0.5")) },
		func() {
			r := raiseOf(t, "partial", "2.5", "ann", "bob", "dot")
			r.Partial, r.Truth = true, listOf("yes", "")
			raise(t, l, r)
		},
		func() { answerTo(t, l, answerRequest(t, "fresh", "majority:yes", "0.5", ballots("bob"), "bob")) },
		func() { answerTo(t, l, answerRequest(t, "degraded", "majority:yes", "0.25", mustNotAsk(t), "bob")) },
	}
	steps = append(steps, marketDay(t, l)...)
	steps = append(steps, func() { byHand(t, l) })
	steps = append(steps, forgetfulDay(t, l)...)
	steps = append(steps, noisyDay(t, l)...)
	steps = append(steps, termsDay(t, l)...)
	for i, step := range steps {
		clock.set(epoch().Add(time.Duration(i) * (time.Hour + time.Nanosecond)))
		step()
	}
}

// goldenLogKey returns the log key of the golden ledger.
func goldenLogKey(t testing.TB, name string) string {
	t.Helper()
	_, key, err := note.GenerateKey(bytes.NewReader(make([]byte, 64)), name)
	must(t, err)
	return key
}

// marketDay returns a host's calls on a day of the market: two buyers, every method of a response,
// every end of a reservation, a sweep, and an object that withdraws and returns.
func marketDay(t *testing.T, l *Ledger) []func() {
	t.Helper()
	terms := goldenTerms(t)
	hold := func(key, buyer, epsilon string, hours int, objects ...string) uint64 {
		o := purchase(t, "", buyer, epsilon, objects...).Order
		return reserve(t, l, api.ReserveRequest{Key: key, Order: o, For: time.Duration(hours) * time.Hour}).Number
	}
	bound := int64(1000)
	return []func(){
		func() { enrollUnder(t, l, "vote", terms, "2.5", "eve", "fay", "gus") },
		func() {
			timed := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}, policy.Step{At: epoch().Add(time.Hour), Ceiling: eps(t, "1")}))(t)
			enrollUnder(t, l, "Größe", timed, "2.5", "fay")
		},
		func() { sell(t, l, purchase(t, "two drawn", "acme", "0.5", "eve", "fay")) },
		func() {
			r := purchase(t, "resold", "zeta", "0.5", "eve", "fay", "ann")
			r.Partial, r.MaxPrice = true, &bound
			sell(t, l, r)
		},
		func() { sell(t, l, purchase(t, "upgraded", "acme", "1", "eve")) },
		func() { sell(t, l, purchase(t, "inserted", "zeta", "0.75", "eve")) },
		func() { sell(t, l, purchase(t, "below", "acme", "0.25", "eve")) },
		func() { hold("held and paid", "zeta", "1", 3, "eve", "fay") },
		func() { capture(t, l, "paid", 6) },
		func() { hold("held and given up", "acme", "1.5", 3, "fay") },
		func() { must(t, l.Cancel(t.Context(), "given up", 7)) },
		func() { hold("forgotten", "acme", "1.5", 1, "fay", "gus") },
		func() { hold("running", "acme", "2", 300, "gus") },
		func() { must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "gone", Object: "eve"})) },
		func() {
			must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"eve", "fay"}, Policy: terms})))
		},
		func() {
			must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: sameTruth("groß")})))
		},
		func() { must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "gone for good", Object: "çid"})) },
	}
}

// goldenTerms returns terms that use every field.
func goldenTerms(t *testing.T) policy.Policy {
	t.Helper()
	return market(t, "2", func(m *policy.Market) {
		m.Stride, m.Floor, m.Holders = eps(t, "0.25"), 30, 2
		m.Buyers, m.Barred = []string{"zeta", "acme"}, []string{"initech"}
		m.From, m.Until = epoch(), epoch().Add(365*24*time.Hour)
	})
}

// byHand records one part of a large raise, with refusals of unknown objects, and two statements.
func byHand(t *testing.T, l *Ledger) {
	t.Helper()
	end := &event.Settled{Key: "large", Digest: [32]byte{31: 1}, Object: "bob"}
	p := request.Part{Question: 1, Counts: event.Counts{1, 0, 0}}
	p.Changes = []event.Change{&event.Released{Object: "bob", Question: 1, Epsilon: nano(t, 1), Response: event.Response{Value: event.Value{Index: 2}, Method: event.MethodRaise}}}
	for i := range 10 {
		p.Refused = append(p.Refused, api.Refusal{Object: fmt.Sprint("a stranger ", i), Reason: api.NotEnrolled, Asked: nano(t, 1), Remedy: "enrolling"})
	}
	_, _, err := l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
		end.First, end.Through = s.Counters.Events+1, s.Counters.Events
		return p.Settle(end), nil
	})
	must(t, err)
	makeStatement(t, l, "bob")
	makeStatement(t, l, "fay")
}

// makeStatement records that a statement about an object was made.
func makeStatement(t testing.TB, l *Ledger, name string) {
	t.Helper()
	_, _, err := l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
		o, _, err := s.Object(name)
		if err != nil {
			return nil, err
		}
		numbers, err := s.EventsAbout(o)
		first := s.Counters.Events + 1
		end := &event.Settled{Key: fmt.Sprint("state ", first), First: first, Final: true, Alone: true, Object: name}
		id := event.ObjectRequest(event.RequestStatement, name)
		end.Digest, end.Marks = id.Digest, id.Marks
		return []event.Change{&event.Stated{Object: name, Forgotten: o.Forgotten, Events: numbers, Account: o.Account()}, end}, err
	})
	must(t, err)
}

// forgetfulDay returns calls that forget an object with a part in nearly everything, which then
// returns, and an object with a part in nothing. Responses in unary encoding follow.
func forgetfulDay(t *testing.T, l *Ledger) []func() {
	t.Helper()
	return []func(){
		func() { must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget fay", Object: "fay"})) },
		func() { must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget dot", Object: "dot"})) },
		func() {
			must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "fay again", Question: "vote", Objects: []string{"fay"}, Policy: goldenTerms(t)})))
		},
		func() { release(t, l, releaseOf(t, "fay's", "fay", "0.25")) },
		func() {
			define(t, l, api.Question{Name: "home", Values: []string{"Aachen", "Bonn", "Celle", "Dresden", "Erfurt", "Fulda", "Gera", "Halle", "Jena"}, Encoding: "unary"})
		},
		func() { enrollUnder(t, l, "home", goldenTerms(t), "9", "ida", "jon") },
		func() {
			raise(t, l, api.RaiseRequest{Key: "homes", Question: "home", All: true, Epsilon: eps(t, "1"), Truth: sameTruth("Celle")})
		},
		func() {
			r := purchase(t, "a home", "acme", "0.75", "ida")
			r.Question, r.Truth = "home", mustNotAsk(t)
			sell(t, l, r)
		},
	}
}

// noisyDay returns calls for answers that are raised, and for responses drawn from a noise key.
func noisyDay(t *testing.T, l *Ledger) []func() {
	t.Helper()
	return []func(){
		func() { enroll(t, l, "vote", "9", "kim", "lea") },
		func() {
			answerTo(t, l, answerRequest(t, "first score", "majority:yes", "0.5", ballots("kim"), "kim", "lea"))
		},
		func() {
			answerTo(t, l, answerRequest(t, "raised score", "majority:yes", "1", ballots("kim"), "kim", "lea"))
		},
		func() {
			answerTo(t, l, answerRequest(t, "score between", "majority:yes", "0.75", mustNotAsk(t), "kim", "lea"))
		},
		func() {
			answerTo(t, l, answerRequest(t, "score below", "majority:yes", "0.25", mustNotAsk(t), "kim", "lea"))
		},
		func() { answerTo(t, l, answerRequest(t, "no score", "plurality", "1", ballots("kim"), "kim", "lea")) },
		func() { must(t, l.useKeys(t.Context(), nil, nil, noiseKeys("2026"))) },
		func() { enroll(t, l, "vote", "9", "max") },
		func() { enroll(t, l, "home", "9", "max") },
		func() { release(t, l, releaseOf(t, "keyed", "max", "1")) },
		func() { release(t, l, releaseOf(t, "keyed, below", "max", "0.5")) },
		func() {
			must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "kim has moved on", Question: "vote", Object: "kim"}))
		},
		func() {
			must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "max has moved on", Question: "vote", Object: "max"}))
		},
		func() { release(t, l, releaseOf(t, "by chance", "max", "0.5")) },
		func() {
			release(t, l, api.ReleaseRequest{Key: "keyed home", Question: "home", Object: "max", Epsilon: eps(t, "1"), Truth: sameTruth("Jena")})
		},
	}
}

// termsDay returns calls that change terms: to less, and with consent to more. A reservation and
// upgrades span the change. One object is refused, one is forgotten, and several withdraw together.
func termsDay(t *testing.T, l *Ledger) []func() {
	t.Helper()
	change := func(r api.ChangeTermsRequest) {
		r.Question = "vote"
		must(t, check.Err(l.ChangeTerms(t.Context(), r)))
	}
	dearer := market(t, "2", func(m *policy.Market) { m.Floor = 120 })
	return []func(){
		func() { must(t, l.useKeys(t.Context(), nil, nil, api.NoiseKeys{})) },
		func() { enrollUnder(t, l, "vote", market(t, "2", func(*policy.Market) {}), "3", "nan", "oto", "pia") },
		func() { sell(t, l, purchase(t, "before", "acme", "0.5", "nan", "oto")) },
		func() {
			reserve(t, l, api.ReserveRequest{Key: "held before", Order: purchase(t, "", "zeta", "1", "nan", "oto", "pia").Order, For: 9 * time.Hour})
		},
		func() {
			change(api.ChangeTermsRequest{Key: "dearer", Objects: []string{"nan", "oto", "pia"}, Policy: &dearer, Cap: eps(t, "2")})
		},
		func() {
			change(api.ChangeTermsRequest{Key: "nobody asked", Objects: []string{"nan", "zoë"}, Cap: eps(t, "4"), Partial: true})
		},
		func() {
			change(api.ChangeTermsRequest{Key: "agreed", Objects: []string{"pia"}, Policy: &policy.Policy{}, Cap: eps(t, "4"), Consent: "form 17, of 1 March"})
		},
		func() {
			change(api.ChangeTermsRequest{Key: "taken back", Objects: []string{"oto"}, Cap: eps(t, "0.75")})
		},
		func() {
			must(t, check.Err(l.Capture(t.Context(), api.CaptureRequest{Key: "captured after", Reservation: l.latestDeal(t), Partial: true, Truth: sameTruth("yes")})))
		},
		func() { sell(t, l, purchase(t, "after", "acme", "1", "nan")) },
		func() {
			must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "some", Question: "vote", Objects: []string{"nan", "oto", "qin"}, Partial: true, Terms: func(object string) (policy.Policy, privacy.Epsilon) {
				return map[string]policy.Policy{"qin": dearer}[object], eps(t, map[string]string{"nan": "2", "oto": "9", "qin": "1"}[object])
			}})))
		},
		func() { must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget pia", Object: "pia"})) },
		func() {
			gone := enrollment.Withdrawal{Request: enrollment.Request{Executor: &l.requests, Key: "gone together", Id: event.NewForm("gone").Finish()}, Names: []string{"nan", "oto", "pia"}, AsOf: 1 << 40}
			must(t, check.Err(gone.Run(t.Context())))
		},
	}
}

// latestDeal returns the number of the last sale or reservation.
func (l *Ledger) latestDeal(t testing.TB) (number uint64) {
	t.Helper()
	must(t, l.engine.View(t.Context(), func(s *state.State) error {
		number = s.Counters.Sales
		return nil
	}))
	return number
}

func TestGoldenLedger_WrittenAgain_IsTheSameBytes(t *testing.T) {
	memory := &kv.Memory{}
	writeGoldenLedger(t, memory)
	golden(t, "format-v7.txt", dump(t, memory))
	auditStore(t, memory)
	written := map[event.Kind]bool{}
	for _, ev := range logOf(t, pairs(t, memory)) {
		written[ev.Change.Kind()] = true
	}
	for k := event.Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		check.That(t, written[k], "the ledger has no event of the kind %s", k)
	}

	path := filepath.Join(testenv.TempDir(t), "ledger.db")
	must(t, bolt.Create(path, func(kv.Writer) error { return nil }))
	file := check.Value(bolt.Open(path, false))(t)
	defer file.Close()
	writeGoldenLedger(t, file)
	golden(t, "format-v7.txt", dump(t, file))
}

// A ledger written when the golden file was made still opens and means the same.
func TestGoldenLedger_OpenedToday_MeansTheSame(t *testing.T) {
	l := check.Value(openStore(t.Context(), goldenStore(t, "format-v7.txt"), Options{TruthKey: truthKey(), Now: func() time.Time { return epoch().Add(40 * time.Hour) }}))(t)
	o := objectOf(t, l, "ann")
	check.That(t, o.Spent == eps(t, "2.5") && len(o.Chains) == 2 && len(o.Chains[0].Levels) == 4 &&
		o.Chains[0].Response == "yes", "%+v", o)
	r := release(t, l, releaseBy(releaseOf(t, "degrade", "ann", "0.25"), mustNotAsk(t)))
	check.That(t, r.Value == "yes", "%+v", r)
	wantGoldenMarket(t, l)
	wantGoldenTerms(t, l)
	wantGoldenForgotten(t, l)
	about := l.About()
	check.That(t, about.ID == "01020300-0000-0000-0000-0000000000ff" && about.Created.Equal(epoch()) &&
		about.Currency == "EUR" && about.LogKey == goldenLogKey(t, "example.com/golden") && about.Origin == "example.com/golden", "%+v", about)
	auditStore(t, l.engine.Store)
}

// wantGoldenMarket checks the sales, objects and revenue of the golden ledger.
func wantGoldenMarket(t *testing.T, l *Ledger) {
	t.Helper()
	var sales []string
	for s, err := range l.Sales(t.Context(), "") {
		must(t, err)
		sales = append(sales, fmt.Sprintf("%d %s %s %d-%d %d/%d/%d/%d/%d", s.Number, s.Buyer, s.Epsilon, s.Price, s.Refund, s.Draws, s.Resales, s.Degradations, s.Insertions, s.Upgrades))
	}
	want := []string{"1 acme 0.5 100-0 2/0/0/0/0", "2 zeta 0.5 100-0 0/2/0/0/0", "3 acme 1 50-0 1/0/0/0/1", "4 zeta 0.75 25-0 0/0/0/1/1", "5 acme 0.25 0-0 0/0/1/0/0", "6 zeta 1 75-0 1/1/0/0/2", "10 acme 0.75 75-0 0/0/1/0/0", "11 acme 0.5 100-0 2/0/0/0/0", "12 zeta 1 200-100 2/0/0/0/0", "13 acme 1 70-0 0/1/0/0/1"}
	check.That(t, slices.Equal(sales, want), "the sales are %q, want %q", sales, want)
	eve, gus := objectOf(t, l, "eve"), objectOf(t, l, "gus")
	if c := eve.Chains[0]; eve.Earned != 200 || eve.Spent != eps(t, "1") || c.Withdrawn || c.Buyers != 2 || !slices.Equal(c.Levels[1].Buyers, []string{"acme", "zeta"}) {
		t.Errorf("eve is %+v", eve)
	}
	if gus.Held.IsZero() || !objectOf(t, l, "çid").Chains[0].Withdrawn || stats(t, l).Revenue != 795 {
		t.Errorf("gus is %+v, the ledger %+v", gus, stats(t, l))
	}
	auditMarket(t, l)
}

// wantGoldenTerms checks the objects whose terms were changed.
func wantGoldenTerms(t *testing.T, l *Ledger) {
	t.Helper()
	nan, oto, pia, qin := objectOf(t, l, "nan"), objectOf(t, l, "oto"), objectOf(t, l, "pia"), objectOf(t, l, "qin")
	levels := nan.Chains[0].Levels
	check.That(t, nan.Cap == eps(t, "2") && nan.Earned == 220 && len(levels) == 2 &&
		slices.Equal(levels[1].Buyers, []string{"zeta", "acme"}) && slices.Equal(levels[1].Paid, []int64{100, 70}), "nan is %+v", nan)
	check.That(t, oto.Cap == eps(t, "0.75") && oto.Earned == 50 && oto.Spent == eps(t, "0.5") &&
		oto.Chains[0].Withdrawn, "oto is %+v", oto)
	check.That(t, pia.Cap == eps(t, "4") && pia.Forgotten != 0 && pia.Earned == 100 && pia.Chains[0].Policy == nil &&
		pia.Chains[0].Buyers == 0, "pia is %+v", pia)
	check.That(t, qin.Cap == eps(t, "1") && qin.Chains[0].Policy != nil && !qin.Chains[0].Withdrawn,
		"qin is %+v", qin)
}

// wantGoldenForgotten checks what is left of forgotten objects, and what one of them has done
// since.
func wantGoldenForgotten(t *testing.T, l *Ledger) {
	t.Helper()
	fay := objectOf(t, l, "fay")
	c := fay.Chains[0]
	check.That(t, fay.Forgotten != 0 && fay.Earned == 150 && fay.Spent == eps(t, "2.25") &&
		fay.Chains[1].Answered == eps(t, "1") && fay.Chains[1].Withdrawn, "fay is %+v", fay)
	check.That(t, !c.Withdrawn && c.Buyers == 0 && c.Answered == eps(t, "1") && c.Epsilon == eps(t, "0.25") &&
		len(c.Levels) == 1 && len(c.Levels[0].Buyers) == 0, "fay is %+v", c)
	again := purchase(t, "two drawn", "acme", "0.5", "eve", "fay")
	again.Truth = mustNotAsk(t)
	all, err := collect(l.Deliveries(t.Context(), sell(t, l, again).Number))
	check.That(t, err == nil && len(all) == 2 && all[0].Object == "eve" && !all[0].Erased && all[1].Object == "" &&
		all[1].Value == "" && all[1].Erased && all[1].Price == 50, "what was sold is %+v, %v", all, err)
	wantErr(t, check.Err(l.Object(t.Context(), "dot")), api.ErrUnknown)
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget dot", Object: "dot"}))
	partial := raiseOf(t, "partial", "2.5", "ann", "bob", "dot")
	partial.Partial, partial.Truth = true, mustNotAsk(t)
	r := raise(t, l, partial)
	check.That(t, len(r.Refused) == 1 && r.Refused[0].Object == "bob", "the refusals are %+v", r)
}

func bitsOf(t testing.TB, text string) rrchain.Bits {
	t.Helper()
	var bits rrchain.Bits
	must(t, bits.UnmarshalText([]byte(text)))
	return bits
}

// Questions with a mechanism.

// writeGoldenMechanisms writes the same small ledger on every call. It has responses to questions
// with a mechanism, by every method.
func writeGoldenMechanisms(t testing.TB, s kv.Store) {
	t.Helper()
	begin(t, s)
	clock := newClock(epoch())
	l := openMemory(t, s, Options{Now: clock.read})
	l.engine.Chances.Outputs, l.engine.Salts = steadyOutputs(1), steadySalts(2)
	partySellers(t, l, "ann", "bob")
	define(t, l, fixture.Odds(t))
	enroll(t, l, "odds", "9", "ann")
	raise(t, l, partiesOf(t, "1", "1"))
	sell(t, l, partiesFor(t, "2", "acme", "2", "ann"))
	release(t, l, partyOf(t, "3", "bob", "0.5"))
	release(t, l, partyOf(t, "4", "bob", "2"))
	sell(t, l, partiesFor(t, "5", "zeta", "1", "bob"))
	release(t, l, api.ReleaseRequest{Key: "6", Question: "odds", Object: "ann", Epsilon: eps(t, "1.609437913"), Truth: sameTruth("yes")})
	release(t, l, api.ReleaseRequest{Key: "7", Question: "odds", Object: "ann", Epsilon: eps(t, threeToOne), Truth: sameTruth("yes")})
}

func TestGoldenMechanisms_WrittenAgain_AreTheSameBytes(t *testing.T) {
	memory := &kv.Memory{}
	writeGoldenMechanisms(t, memory)
	golden(t, "finite-v7.txt", dump(t, memory))
	auditStore(t, memory)
}

// A ledger written when the golden file was made still opens and means the same.
func TestGoldenMechanisms_OpenedToday_MeanTheSame(t *testing.T) {
	l := openMemory(t, goldenStore(t, "finite-v7.txt"), Options{Now: epoch})
	all := questionsOf(t, l)
	for i, want := range []api.Question{finiteParty(t), fixture.Odds(t)} {
		want.Encoding = "finite"
		if got := all[i]; got.Name != want.Name || string(text(t, got)) != string(text(t, want)) {
			t.Errorf("question %d is %s, want %s", i+1, text(t, got), text(t, want))
		}
	}
	got := allResponses(t, l, []string{"ann", "bob"})
	want := map[string]string{
		"party ann 1": "C", "party ann 2": "C", "party bob 0.5": "AC", "party bob 1": "C", "party bob 2": "B",
		"odds ann 1.098612289": "Y", "odds ann 1.609437913": "Y2",
	}
	check.That(t, reflect.DeepEqual(got, want), "the responses are %v", got)
	r := releaseBy(partyOf(t, "8", "ann", "1"), mustNotAsk(t))
	if got := release(t, l, r); got.Value != want["party ann 1"] {
		t.Errorf("%+v", got)
	}
	r = partyOf(t, "9", "ann", "0.5")
	r.Truth = mustNotAsk(t)
	release(t, l, r)
	auditLedger(t, l)
}

// Events as JSON: hosts store this output, and scripts parse it.

// logAsJSON returns the log of a store as JSON, one event a line, as ledgerctl prints it.
func logAsJSON(t testing.TB, s kv.Store) string {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for _, ev := range events(t, openMemory(t, s, Options{TruthKey: hostKeyOf(t, s), Now: lateInMarch})) {
		must(t, encoder.Encode(ev))
	}
	return out.String()
}

// hostKeyOf returns the truth key if the log of a store has one, and otherwise nil.
func hostKeyOf(t testing.TB, s kv.Store) []byte {
	t.Helper()
	if !slices.ContainsFunc(logOf(t, pairs(t, s)), func(ev event.Event) bool { return ev.Change.Kind() == event.KindTruthKey }) {
		return nil
	}
	return truthKey()
}

// lateInMarch is a time after all events of the golden ledgers.
func lateInMarch() time.Time { return epoch().Add(20 * 24 * time.Hour) }

// writeGoldenOddities adds to the golden ledger of mechanisms names that JSON spells in several
// ways, and a free sale.
func writeGoldenOddities(t testing.TB, s kv.Store) {
	t.Helper()
	writeGoldenMechanisms(t, s)
	l := openMemory(t, s, Options{Now: lateInMarch})
	l.engine.Chances.Values, l.engine.Salts = steadySampler(), steadySalts(1000)
	define(t, l, api.Question{Name: "a<b> & c", Values: []string{"<yes>", "\"no\" & 'never'"}, Encoding: "direct"})
	enrollUnder(t, l, "a<b> & c", market(t, "2", func(*policy.Market) {}), "9", "R&D <1>", "b\\c")
	r := purchase(t, "<order & key>", "buyer & <sons>", "1", "R&D <1>", "stranger <&>")
	r.Question, r.Truth, r.Partial = "a<b> & c", sameTruth("<yes>"), true
	sell(t, l, r)
	again := purchase(t, "for nothing", "buyer & <sons>", "0.5", "R&D <1>")
	again.Question = "a<b> & c"
	sell(t, l, again)
}

// forgetAll forgets every object that the log of a store names.
func forgetAll(t testing.TB, s kv.Store) {
	t.Helper()
	l := openMemory(t, s, Options{TruthKey: hostKeyOf(t, s), Now: lateInMarch})
	l.engine.Salts = steadySalts(2000)
	var names []string
	for _, ev := range logOf(t, pairs(t, s)) {
		if c, is := ev.Change.(event.Personal); is && c.About() != "" {
			names = append(names, c.About())
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		must(t, l.Forget(t.Context(), api.ObjectRequest{Key: fmt.Sprintf("forget all: %s", name), Object: name}))
	}
}

// Every kind of event, whole and erased, is printed byte for byte as before.
func TestGoldenEvents_EveryKind_IsPrintedTheSame(t *testing.T) {
	text, whole, erased := "", map[event.Kind]bool{}, map[event.Kind]bool{}
	add := func(s kv.Store) {
		text += logAsJSON(t, s)
		for _, ev := range logOf(t, pairs(t, s)) {
			_, personal := ev.Change.(event.Personal)
			k := ev.Change.Kind()
			whole[k], erased[k] = whole[k] || ev.Erased == nil, erased[k] || ev.Erased != nil || !personal
		}
	}
	for _, begin := range []func(kv.Store){func(s kv.Store) { writeGoldenLedger(t, s) }, func(s kv.Store) { writeGoldenOddities(t, s) }} {
		memory := &kv.Memory{}
		begin(memory)
		add(memory)
		forgetAll(t, memory)
		add(memory)
	}
	golden(t, "events.jsonl", text)
	for k := event.KindCreated; !strings.HasPrefix(k.String(), "kind "); k++ {
		check.That(t, whole[k] && erased[k], "the file has no event of the kind %s, or none that is erased", k)
	}
}
