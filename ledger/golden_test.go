package ledger

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/rrchain"
)

// The golden files hold the format still: files that people have must stay readable, and mean the
// same. After a change of the format that is meant, and that doc.go describes, write them anew with
//
//	go test ./ledger -run Golden -update
//
// and look at every line that has changed.
var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a golden file, or writes the file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	got, wanted := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(wanted)) {
		if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
			t.Fatalf("%s: from line %d on there is\n%.300q\nwant\n%.300q", path, i+1, got[min(i, len(got)):], wanted[min(i, len(wanted)):])
		}
	}
}

// dump is the text of everything a store holds, one record a line.
func dump(t *testing.T, s kv.Store) string {
	t.Helper()
	text := "# bucket, key and value of every record, in hex\n"
	for _, p := range pairs(t, s) {
		text += p.String() + "\n"
	}
	return text
}

// tell writes the same small ledger whenever it is called: by the calls of a host, with the clock set
// by hand and draws that always come out the same; and by hand what calls seldom make.
func tell(t *testing.T, s kv.Store) {
	t.Helper()
	beginWithKey(t, s, goldenLogKey(t, "example.com/golden"))
	clock := newClock(epoch())
	l, err := openStore(s, Options{Now: clock.read})
	must(t, err)
	l.engine.chances.Sampler, l.queries, l.engine.salts = steadySampler(), medians(), steadySalts(2)
	must(t, l.useKeys(truthKey(), nil, NoiseKeys{}))
	steps := []func(){
		func() { define(t, l, vote()) },
		func() { define(t, l, Question{Name: "Größe", Values: []string{"klein", "groß"}, Encoding: Direct}) },
		func() { enroll(t, l, "vote", "2.5", "ann", "bob") },
		func() {
			_, err := l.Enroll(t.Context(), EnrollRequest{Key: "policy", Question: "Größe", Objects: []string{"ann", "çid"}, Policy: policy.Fixed(eps(t, "0.000000001")), Cap: eps(t, "2.5")})
			must(t, err)
		},
		func() { release(t, l, releaseOf(t, "raise", "ann", "1")) },
		func() { release(t, l, releaseOf(t, "degrade", "ann", "0.25")) },
		func() { release(t, l, releaseOf(t, "insert", "ann", "0.5")) },
		func() { release(t, l, releaseOf(t, "resale", "ann", "0.5")) },
		func() {
			r := order(t, "partial", "2.5", "ann", "bob", "dot")
			r.Partial, r.Truth = true, listOf("yes", "")
			carryOut(t, l, r)
		},
		func() { answerTo(t, l, inquire(t, "fresh", "majority:yes", "0.5", ballots("bob"), "bob")) },
		func() { answerTo(t, l, inquire(t, "degraded", "majority:yes", "0.25", never(t), "bob")) },
	}
	steps = append(steps, marketDay(t, l)...)
	steps = append(steps, func() { byHand(t, l) })
	steps = append(steps, forgetfulDay(t, l)...)
	steps = append(steps, noisyDay(t, l)...)
	for i, step := range steps {
		clock.set(epoch().Add(time.Duration(i) * (time.Hour + time.Nanosecond)))
		step()
	}
}

// goldenLogKey is the key by which the golden ledger says that it is signed.
func goldenLogKey(t testing.TB, name string) string {
	t.Helper()
	_, key, err := note.GenerateKey(bytes.NewReader(make([]byte, 64)), name)
	must(t, err)
	return key
}

// marketDay is what a host calls on a day of the market: two buyers, every way in which a response comes
// about, every way in which a reservation ends, a sweep, and an object that leaves and comes back.
func marketDay(t *testing.T, l *Ledger) []func() {
	t.Helper()
	terms := goldenTerms(t)
	hold := func(key, buyer, epsilon string, hours int, objects ...string) uint64 {
		o := purchase(t, "", buyer, epsilon, objects...).Order
		return reserve(t, l, ReserveRequest{Key: key, Order: o, For: time.Duration(hours) * time.Hour}).Number
	}
	bound := int64(1000)
	return []func(){
		func() { enrollUnder(t, l, "vote", terms, "2.5", "eve", "fay", "gus") },
		func() {
			timed, err := policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}, policy.Step{At: epoch().Add(time.Hour), Ceiling: eps(t, "1")})
			must(t, err)
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
		func() { commit(t, l, "paid", 6) },
		func() { hold("held and given up", "acme", "1.5", 3, "fay") },
		func() { must(t, l.Cancel(t.Context(), "given up", 7)) },
		func() { hold("forgotten", "acme", "1.5", 1, "fay", "gus") },
		func() { hold("running", "acme", "2", 300, "gus") },
		func() { must(t, l.Withdraw(t.Context(), "gone", "eve")) },
		func() {
			_, err := l.Enroll(t.Context(), EnrollRequest{Key: "back", Question: "vote", Objects: []string{"eve", "fay"}, Policy: terms})
			must(t, err)
		},
		func() {
			_, err := l.Advance(t.Context(), AdvanceRequest{Key: "day", Truth: TruthOf("groß")})
			must(t, err)
		},
		func() { must(t, l.Withdraw(t.Context(), "gone for good", "çid")) },
	}
}

// goldenTerms use every field.
func goldenTerms(t *testing.T) policy.Policy {
	t.Helper()
	return market(t, "2", func(m *policy.Market) {
		m.Stride, m.Floor, m.Holders = eps(t, "0.25"), 30, 2
		m.Buyers, m.Barred = []string{"zeta", "acme"}, []string{"initech"}
		m.From, m.Until = epoch(), epoch().Add(365*24*time.Hour)
	})
}

// byHand records the part of a large raise, with some that nobody knows.
func byHand(t *testing.T, l *Ledger) {
	t.Helper()
	end := &event.Settled{Key: "large", Digest: [32]byte{31: 1}, Object: "bob"}
	p := part{question: 1, counts: event.Counts{1, 3, 0}}
	p.changes = []event.Change{&event.Released{Object: "bob", Question: 1, Epsilon: nano(t, 1), Response: event.Response{Value: event.Value{Index: 2}, Method: event.MethodRaise}}}
	for i := range 10 {
		p.refused = append(p.refused, Refusal{Object: fmt.Sprint("object ", i), Reason: NotEnrolled, Asked: nano(t, 1), Helps: HelpsEnrolling})
	}
	_, _, err := l.engine.submit(t.Context(), func(s *state.State) ([]event.Change, error) {
		end.First, end.Through = s.Counters.Events+1, s.Counters.Events
		return p.settle(end), nil
	})
	must(t, err)
	makeStatement(t, l, "bob")
	makeStatement(t, l, "fay")
}

// makeStatement records that a statement about an object was made.
func makeStatement(t testing.TB, l *Ledger, name string) {
	t.Helper()
	_, _, err := l.engine.submit(t.Context(), func(s *state.State) ([]event.Change, error) {
		o, _, err := s.Object(name)
		if err != nil {
			return nil, err
		}
		numbers, err := fold.EventsAbout(s, o)
		first := s.Counters.Events + 1
		end := &event.Settled{Key: fmt.Sprint("state ", first), Digest: [32]byte{2}, First: first, Final: true, Alone: true, Object: name}
		return []event.Change{&event.Stated{Object: name, Forgotten: o.Forgotten, Events: numbers, Account: fold.AccountOf(o)}, end}, err
	})
	must(t, err)
}

// forgetfulDay is how an object is forgotten that had a part in nearly everything, and comes back; and somebody who
// had a part in nothing.
func forgetfulDay(t *testing.T, l *Ledger) []func() {
	t.Helper()
	return []func(){
		func() { must(t, l.Forget(t.Context(), "forget fay", "fay")) },
		func() { must(t, l.Forget(t.Context(), "forget dot", "dot")) },
		func() {
			_, err := l.Enroll(t.Context(), EnrollRequest{Key: "fay again", Question: "vote", Objects: []string{"fay"}, Policy: goldenTerms(t)})
			must(t, err)
		},
		func() { release(t, l, releaseOf(t, "fay's", "fay", "0.25")) },
		func() {
			define(t, l, Question{Name: "home", Values: []string{"Aachen", "Bonn", "Celle", "Dresden", "Erfurt", "Fulda", "Gera", "Halle", "Jena"}, Encoding: Unary})
		},
		func() { enrollUnder(t, l, "home", goldenTerms(t), "9", "ida", "jon") },
		func() {
			carryOut(t, l, RaiseRequest{Key: "homes", Question: "home", All: true, Epsilon: eps(t, "1"), Truth: TruthOf("Celle")})
		},
		func() {
			r := purchase(t, "a home", "acme", "0.75", "ida")
			r.Question, r.Truth = "home", never(t)
			sell(t, l, r)
		},
	}
}

// noisyDay is a day of answers that are raised, and of responses that are drawn from a key.
func noisyDay(t *testing.T, l *Ledger) []func() {
	t.Helper()
	return []func(){
		func() { enroll(t, l, "vote", "9", "kim", "lea") },
		func() { answerTo(t, l, inquire(t, "first score", "majority:yes", "0.5", ballots("kim"), "kim", "lea")) },
		func() { answerTo(t, l, inquire(t, "raised score", "majority:yes", "1", ballots("kim"), "kim", "lea")) },
		func() {
			answerTo(t, l, inquire(t, "score between", "majority:yes", "0.75", never(t), "kim", "lea"))
		},
		func() {
			answerTo(t, l, inquire(t, "score below", "majority:yes", "0.25", never(t), "kim", "lea"))
		},
		func() {
			answerTo(t, l, inquire(t, "no score", "plurality", "1", ballots("kim"), "kim", "lea"))
		},
		func() { must(t, l.useKeys(nil, nil, noiseKeys("2026"))) },
		func() { enroll(t, l, "vote", "9", "max") },
		func() { enroll(t, l, "home", "9", "max") },
		func() { release(t, l, releaseOf(t, "keyed", "max", "1")) },
		func() { release(t, l, releaseOf(t, "keyed, below", "max", "0.5")) },
		func() { must(t, l.BeginEpoch(t.Context(), "kim has moved on", "vote", "kim")) },
		func() { must(t, l.BeginEpoch(t.Context(), "max has moved on", "vote", "max")) },
		func() { release(t, l, releaseOf(t, "by chance", "max", "0.5")) },
		func() {
			release(t, l, ReleaseRequest{Key: "keyed home", Question: "home", Object: "max", Epsilon: eps(t, "1"), Truth: TruthOf("Jena")})
		},
	}
}

func TestGoldenLedger(t *testing.T) {
	memory := &kvtest.Memory{}
	tell(t, memory)
	golden(t, "format-v5.txt", dump(t, memory))
	auditStore(t, memory)
	written := map[event.Kind]bool{}
	for _, ev := range logOf(t, pairs(t, memory)) {
		written[ev.Change.Kind()] = true
	}
	for k := event.Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		if !written[k] {
			t.Errorf("the ledger has no event of the kind %s", k)
		}
	}

	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, bolt.Create(path, func(kv.Writer) error { return nil }))
	file, err := bolt.Open(path, false)
	must(t, err)
	defer file.Close()
	tell(t, file)
	golden(t, "format-v5.txt", dump(t, file))
}

// A ledger that was written when the golden file was is still read, and means what it meant.
func TestGoldenLedgerIsRead(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "golden", "format-v5.txt"))
	must(t, err)
	var records []pair
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var p pair
		_, err := fmt.Sscanf(line, "%s %x %x", &p.bucket, &p.key, &p.value)
		must(t, err)
		records = append(records, p)
	}
	l, err := openStore(fill(t, records), Options{TruthKey: truthKey(), Now: func() time.Time { return epoch().Add(40 * time.Hour) }})
	must(t, err)
	o := objectOf(t, l, "ann")
	if o.Spent != eps(t, "2.5") || len(o.Chains) != 2 || len(o.Chains[0].Levels) != 4 || o.Chains[0].Response != "yes" {
		t.Errorf("%+v", o)
	}
	again := releaseOf(t, "degrade", "ann", "0.25")
	again.Truth = never(t)
	if r := release(t, l, again); r.Value != "yes" {
		t.Errorf("%+v", r)
	}
	wantGoldenMarket(t, l)
	wantGoldenForgotten(t, l)
	about := l.About()
	if about.ID != "01020300-0000-0000-0000-0000000000ff" || !about.Created.Equal(epoch()) || about.Currency != "EUR" || about.LogKey != goldenLogKey(t, "example.com/golden") || about.Origin != "example.com/golden" {
		t.Errorf("%+v", about)
	}
	auditStore(t, l.engine.store)
}

// wantGoldenMarket looks at what the market of the golden ledger comes to.
func wantGoldenMarket(t *testing.T, l *Ledger) {
	t.Helper()
	var sales []string
	for s, err := range l.Sales(t.Context(), "") {
		must(t, err)
		sales = append(sales, fmt.Sprintf("%d %s %s %d-%d %d/%d/%d/%d/%d", s.Number, s.Buyer, s.Epsilon, s.Price, s.Refund, s.Draws, s.Resales, s.Degradations, s.Insertions, s.Upgrades))
	}
	want := []string{"1 acme 0.5 100-0 2/0/0/0/0", "2 zeta 0.5 100-0 0/2/0/0/0", "3 acme 1 50-0 1/0/0/0/1", "4 zeta 0.75 25-0 0/0/0/1/1", "5 acme 0.25 0-0 0/0/1/0/0", "6 zeta 1 75-0 1/1/0/0/2", "10 acme 0.75 75-0 0/0/1/0/0"}
	if !slices.Equal(sales, want) {
		t.Errorf("the sales are %q, want %q", sales, want)
	}
	eve, gus := objectOf(t, l, "eve"), objectOf(t, l, "gus")
	if c := eve.Chains[0]; eve.Earned != 200 || eve.Spent != eps(t, "1") || c.Withdrawn || c.Buyers != 2 || !slices.Equal(c.Levels[1].Buyers, []string{"acme", "zeta"}) {
		t.Errorf("eve came to %+v", eve)
	}
	if gus.Held.IsZero() || !objectOf(t, l, "çid").Chains[0].Withdrawn || stats(t, l).Revenue != 425 {
		t.Errorf("gus came to %+v, the ledger to %+v", gus, stats(t, l))
	}
	auditMarket(t, l)
}

// wantGoldenForgotten looks at what is left of those who were forgotten, and at what one of them has done since.
func wantGoldenForgotten(t *testing.T, l *Ledger) {
	t.Helper()
	fay := objectOf(t, l, "fay")
	c := fay.Chains[0]
	if fay.Forgotten == 0 || fay.Earned != 150 || fay.Spent != eps(t, "2.25") || fay.Chains[1].Answered != eps(t, "1") || !fay.Chains[1].Withdrawn {
		t.Errorf("fay came to %+v", fay)
	}
	if c.Withdrawn || c.Buyers != 0 || c.Answered != eps(t, "1") || c.Epsilon != eps(t, "0.25") || len(c.Levels) != 1 || len(c.Levels[0].Buyers) != 0 {
		t.Errorf("fay came to %+v", c)
	}
	again := purchase(t, "two drawn", "acme", "0.5", "eve", "fay")
	again.Truth = never(t)
	all, err := collect(l.Deliveries(t.Context(), sell(t, l, again).Number))
	if err != nil || len(all) != 2 || all[0].Object != "eve" || all[0].Erased || all[1].Object != "" || all[1].Value != "" || !all[1].Erased || all[1].Price != 50 {
		t.Errorf("what was sold came to %+v, %v", all, err)
	}
	_, err = l.Object(t.Context(), "dot")
	wantErr(t, err, ErrUnknown)
	must(t, l.Forget(t.Context(), "forget dot", "dot"))
	partial := order(t, "partial", "2.5", "ann", "bob", "dot")
	partial.Partial, partial.Truth = true, never(t)
	if r := carryOut(t, l, partial); len(r.Refused) != 1 || r.Refused[0].Object != "bob" {
		t.Errorf("what was refused came to %+v", r)
	}
}

func bitsOf(t testing.TB, text string) rrchain.Bits {
	t.Helper()
	bits, err := rrchain.ParseBits(text)
	must(t, err)
	return bits
}

// goldenEntries are events of every kind, with fields of every length, as they are stored. Of the tree they have
// hashes by which to tell them apart, rather than those of a log that they make.
func goldenEntries(t testing.TB) []event.Entry {
	t.Helper()
	bound := &event.Tag{0, 1, 2, 15: 0xff}
	changes := []event.Change{
		&event.Created{ID: [16]byte{0xaa, 15: 0xbb}, Currency: "USD"},
		&event.Created{Currency: "", LogKey: goldenLogKey(t, strings.Repeat("k", 100))},
		&event.TruthKeySet{Check: *bound},
		&event.QuestionDefined{Number: 1, Question: Question{Name: "vote", Values: []string{"yes", "no"}, Encoding: Direct}},
		&event.QuestionDefined{Number: 1<<32 - 1, Question: Question{Name: "", Values: []string{"", "é"}, Encoding: Unary}},
		&event.PolicyDefined{Number: 1, JSON: `{"kind":"fixed","ceiling":"1"}`},
		&event.Enrolled{Object: "ann", Question: 1, Policy: 0, Noise: 0, Cap: eps(t, "1000")},
		&event.Enrolled{Object: strings.Repeat("n", 256), Question: 1 << 24, Policy: 1<<32 - 1, Noise: 0, Cap: nano(t, 1)},
		&event.Released{Object: "ann", Question: 1, Epsilon: eps(t, "0.5"), Response: event.Response{Value: event.Value{Index: 0}, Method: event.MethodRaise}},
		&event.Released{Object: "ann", Question: 1, Epsilon: eps(t, "0.5"), Response: event.Response{Value: event.Value{Index: 127}, Method: event.MethodRaise}},
		&event.Released{Object: "", Question: 2, Epsilon: nano(t, 1), Response: event.Response{Value: event.Value{Index: 128}, Method: event.MethodDegrade}},
		&event.Released{Object: "bob", Question: 3, Epsilon: eps(t, "1000"), Response: event.Response{Value: event.Value{Index: 1<<20 - 1}, Method: event.MethodInsert}},
		&event.Released{Object: "bob", Question: 3, Epsilon: eps(t, "1"), Response: event.Response{Value: event.Value{Bits: bitsOf(t, "1")}, Method: event.MethodRaise}},
		&event.Released{Object: "bob", Question: 3, Epsilon: eps(t, "1"), Response: event.Response{Value: event.Value{Bits: bitsOf(t, "01000001"+"1")}, Method: event.MethodInsert}},
		&event.Settled{Key: "k", Digest: [32]byte{1, 31: 2}, First: 1, Through: 2, Object: "zoe", Alone: true, Final: true, Counts: event.Counts{1, 2, 3}},
		&event.Charged{Object: "zoe", Question: 3, Epsilon: eps(t, "0.5")},
		&event.Charged{Object: strings.Repeat("é", 128), Question: 1<<32 - 1, Epsilon: nano(t, 1)},
		&event.Answered{Question: 3, Query: "threshold:groß:7", Panel: [32]byte{1, 31: 2}, Objects: 300, Epsilon: eps(t, "1"), Result: event.Result{Output: 129}, Method: event.MethodFresh},
		&event.Answered{Question: 3, Query: "winner", Panel: [32]byte{}, Objects: 1, Epsilon: nano(t, 1), Result: event.Result{}, Method: event.MethodDegrade},
		&event.Settled{Key: strings.Repeat("k", 256), First: 1 << 40, Swept: []event.SweptCount{{Question: 1, Raised: 2, Unchanged: 3, Refused: 0}, {Question: 1<<32 - 1, Raised: 1 << 14, Unchanged: 1<<64 - 1, Refused: 0}}, Answer: 1 << 40, Through: 1<<64 - 1, Object: "é", Done: 300},
		&event.Released{Object: "bob", Question: 1 << 8, Epsilon: nano(t, 127), Response: event.Response{Value: event.Value{Index: 0}, Method: event.MethodDegrade}},
		&event.BuyerNamed{Number: 1, Name: "acme"},
		&event.BuyerNamed{Number: 1<<32 - 1, Name: strings.Repeat("ü", 128)},
		&event.Reserved{Deal: event.Deal{Sale: 1, Buyer: 2, Question: 3, Epsilon: eps(t, "0.5"), Objects: 4, Price: 5, Refused: 6}, Expires: time.Date(2027, 1, 1, 0, 0, 0, 1, time.UTC)},
		&event.Reserved{Deal: event.Deal{Sale: 1<<64 - 1, Buyer: 1<<32 - 1, Question: 1<<32 - 1, Epsilon: eps(t, "1000"), Objects: 1 << 18, Price: 1<<63 - 1, Refused: 1 << 18}, Expires: time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)},
		&event.Held{Object: "ann", Sale: 1, Price: 0},
		&event.Held{Object: strings.Repeat("n", 256), Sale: 1 << 14, Price: 1_000_000_000_000},
		&event.Cancelled{Sale: 127},
		&event.Cancelled{Sale: 128},
		&event.SaleMade{Deal: event.Deal{Sale: 300, Buyer: 1, Question: 1, Epsilon: nano(t, 1), Objects: 15, Price: 1 << 14, Refused: 0}, Tally: event.SaleTally{Draws: 1, Resales: 2, Degradations: 3, Insertions: 4, Upgrades: 5}},
		&event.SaleMade{Deal: event.Deal{Sale: 1, Buyer: 1, Question: 1, Epsilon: eps(t, "1"), Objects: 1, Price: 0, Refused: 127}, Tally: event.SaleTally{}},
		&event.SaleMade{Deal: event.Deal{Sale: 1, Buyer: 1, Question: 1, Epsilon: eps(t, "1"), Objects: 1 << 18, Price: 1, Refused: 128}, Tally: event.SaleTally{Draws: 1 << 18, Resales: 128, Degradations: 1<<14 - 1, Insertions: 1 << 14, Upgrades: 1<<64 - 1}},
		&event.Sold{Object: "ann", Sale: 1, Price: 0, Response: event.Response{Value: event.Value{Index: 0}, Method: event.MethodResale}},
		&event.Sold{Object: "ann", Sale: 128, Price: 127, Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}},
		&event.Sold{Object: "", Sale: 1 << 32, Price: 128, Response: event.Response{Value: event.Value{Index: 127}, Method: event.MethodDegrade}},
		&event.Sold{Object: strings.Repeat("n", 256), Sale: 1<<64 - 1, Price: 1_000_000_000_000, Response: event.Response{Value: event.Value{Index: 1<<20 - 1}, Method: event.MethodInsert}},
		&event.Sold{Object: "ann", Sale: 1, Price: 0, Response: event.Response{Value: event.Value{Bits: bitsOf(t, strings.Repeat("10", 50))}, Method: event.MethodResale}},
		&event.Withdrawn{Object: "ann"},
		&event.Withdrawn{Object: strings.Repeat("é", 128)},
		&event.Settled{Key: "k", Swept: []event.SweptCount{{Question: 128, Raised: 0, Unchanged: 0, Refused: 1}, {Question: 129, Raised: 0, Unchanged: 0, Refused: 127}}, Refused: 128, Sale: 1<<64 - 1},
		&event.Settled{Key: "k", Final: true, Refused: 1, Answer: 1, Sale: 128},
		&event.EpochBegun{Object: "ann", Question: 1},
		&event.EpochBegun{Object: strings.Repeat("é", 128), Question: 1<<32 - 1},
		&event.TruthBound{Object: "ann", Question: 1, Tag: *bound},
		&event.TruthBound{Object: strings.Repeat("n", 256), Question: 1<<32 - 1, Tag: event.Tag{}},
		&event.ObjectRefused{Question: 0, Refusal: Refusal{Object: "ann", Reason: ObjectCap, Ceiling: eps(t, "1"), Spent: eps(t, "0.5"), Asked: eps(t, "2"), Cost: eps(t, "1.5"), Remaining: eps(t, "0.5"), Helps: HelpsWaiting, Largest: eps(t, "1")}},
		&event.ObjectRefused{Question: 1<<32 - 1, Refusal: Refusal{Object: strings.Repeat("é", 128), Reason: NotEnrolled, Helps: HelpsEnrolling}},
		&event.Stated{Object: "ann", Forgotten: 0, Events: []uint64{1}, Account: event.Account{Cap: eps(t, "1000"), Spent: eps(t, "0.5"), Earned: 0}},
		&event.Stated{Object: strings.Repeat("n", 256), Forgotten: 1<<64 - 1, Events: []uint64{1, 127, 128, 1<<64 - 1}, Account: event.Account{Cap: nano(t, 1), Spent: nano(t, 1), Earned: 1<<63 - 1}},
		&event.Forgotten{Object: "zoe", Events: 1, Account: event.Account{}, Chains: nil},
		&event.Forgotten{Object: "ann", Events: 127, Account: event.Account{Cap: eps(t, "1"), Spent: eps(t, "0.5"), Earned: 100}, Chains: []event.Remnant{{Question: 1, Policy: 0, Spent: eps(t, "0.5")}}},
		&event.Forgotten{Object: strings.Repeat("é", 128), Events: 1<<64 - 1, Account: event.Account{Cap: eps(t, "1000"), Spent: nano(t, 129), Earned: 1<<63 - 1}, Chains: []event.Remnant{{Question: 1, Policy: 1<<32 - 1, Spent: nano(t, 1)}, {Question: 128, Policy: 0, Spent: nano(t, 128)}, {Question: 1<<32 - 1, Policy: 1, Spent: nano(t, 0)}}},
		&event.NoiseKeySet{Number: 1, Name: "2026", Check: event.Tag{1, 15: 2}},
		&event.NoiseKeySet{Number: 1<<32 - 1, Name: strings.Repeat("é", 128), Check: event.Tag{}},
		&event.Enrolled{Object: "ann", Question: 1, Policy: 2, Noise: 1<<32 - 1, Cap: eps(t, "1")},
		&event.Answered{Question: 1, Query: "majority:yes", Panel: [32]byte{1, 31: 2}, Objects: 2, Epsilon: eps(t, "0.5"), Result: event.Result{Scored: true}, Method: event.MethodFresh},
		&event.Answered{Question: 1, Query: "majority:yes", Panel: [32]byte{1, 31: 2}, Objects: 2, Epsilon: eps(t, "1"), Result: event.Result{Scored: true, Score: -1}, Method: event.MethodRaise},
		&event.Answered{Question: 1, Query: "majority:yes", Panel: [32]byte{1, 31: 2}, Objects: 2, Epsilon: eps(t, "0.7"), Result: event.Result{Scored: true, Score: 64}, Method: event.MethodInsert},
		&event.Answered{Question: 1, Query: "majority:yes", Panel: [32]byte{1, 31: 2}, Objects: 2, Epsilon: eps(t, "0.2"), Result: event.Result{Scored: true, Score: -1 << 61}, Method: event.MethodDegrade},
	}
	return entries(changes)
}

// entries makes a log of changes, whatever they are.
func entries(changes []event.Change) []event.Entry {
	log, salts := make([]event.Entry, len(changes)), steadySalts(1<<40)
	for i, c := range changes {
		at := epoch().Add(time.Duration(i-14) * 5 * 365 * 24 * time.Hour) // from before 1970 on
		ev := event.Event{Number: uint64(i + 1), Time: at, Change: c}
		salts(ev.Salt[:])
		log[i] = event.Entry{Event: ev, Hashes: make([]tlog.Hash, merkle.Completes(uint64(i)))}
		for j := range log[i].Hashes {
			log[i].Hashes[j] = tlog.Hash{byte(i), byte(j), 31: 0xff}
		}
		if _, ok := c.(event.Personal); ok {
			log[i].Previous = []uint64{0, 1, 127, 128, 1<<64 - 1}[i%5]
		}
	}
	return log
}

// erasable tells whether an event can be about an object, and so be erased.
func erasable(c event.Change) bool {
	if s, ok := c.(*event.Settled); ok {
		return s.Object != ""
	}
	_, ok := c.(event.Personal)
	return ok
}

// recordOf returns the record of a change as the first event of a log.
func recordOf(c event.Change) []byte {
	return event.Entry{Event: event.Event{Number: 1, Time: epoch(), Change: c}, Hashes: make([]tlog.Hash, 1)}.Encode()
}

func TestGoldenEvents(t *testing.T) {
	text := "# kind, record, leaf of the tree, and record when erased, of events, in hex\n"
	there := func(n event.Entry) string {
		payload := n.Encode()
		back, err := event.DecodeEntry(n.Number, payload)
		must(t, err)
		if !reflect.DeepEqual(back, n) {
			t.Errorf("%+v became %+v", n, back)
		}
		return fmt.Sprintf("%x", payload)
	}
	for _, n := range goldenEntries(t) {
		leaf := n.Leaf()
		text += fmt.Sprintf("%s %s\n\tleaf %x\n", n.Change.Kind(), there(n), leaf[:])
		if !erasable(n.Change) {
			continue
		}
		erased := n.Erase()
		text += fmt.Sprintf("\terased %s\n", there(erased))
		if erased.Leaf() != leaf {
			t.Errorf("%s: another leaf when erased", n.Change.Kind())
		}
	}
	golden(t, "events-v5.txt", text)
	for k := event.Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		if !strings.Contains(text, "\n"+k.String()+" ") {
			t.Errorf("there is no event of the kind %s", k)
		}
	}
}

// The numbers that stand for kinds, methods, reasons and helps never get a second meaning.
func TestGoldenCodes(t *testing.T) {
	var text strings.Builder
	for k := event.Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		fmt.Fprintf(&text, "kind %d %s\n", k, k)
	}
	for m := event.Method(1); !strings.HasPrefix(m.String(), "method "); m++ {
		fmt.Fprintf(&text, "method %d %s\n", m, m)
	}
	for i, reason := range event.ReasonCodes() {
		fmt.Fprintf(&text, "reason %d %s\n", i+1, reason)
	}
	for i, help := range event.HelpCodes() {
		fmt.Fprintf(&text, "help %d %s\n", i+1, help)
	}
	golden(t, "codes-v5.txt", text.String())
}
