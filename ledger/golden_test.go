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

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
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
	l.sampler, l.queries, l.salts = steadySampler(), medians(), steadySalts(2)
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
	end := &settled{key: "large", digest: [32]byte{31: 1}, object: "bob"}
	p := part{question: 1, counts: counts{1, 3, 0}}
	p.changes = []change{&released{object: "bob", question: 1, epsilon: nano(t, 1), response: response{value: value{index: 2}, method: methodRaise}}}
	for i := range 10 {
		p.refused = append(p.refused, Refusal{Object: fmt.Sprint("object ", i), Reason: NotEnrolled, Asked: nano(t, 1), Helps: HelpsEnrolling})
	}
	_, _, err := l.submit(t.Context(), func(s *state) ([]change, error) {
		end.first, end.through = s.counters.events+1, s.counters.events
		return p.settle(end), nil
	})
	must(t, err)
	makeStatement(t, l, "bob")
	makeStatement(t, l, "fay")
}

// makeStatement records that a statement about an object was made.
func makeStatement(t testing.TB, l *Ledger, name string) {
	t.Helper()
	_, _, err := l.submit(t.Context(), func(s *state) ([]change, error) {
		o, _, err := s.object(name)
		if err != nil {
			return nil, err
		}
		numbers, err := s.eventsAbout(o)
		first := s.counters.events + 1
		end := &settled{key: fmt.Sprint("state ", first), digest: [32]byte{2}, first: first, final: true, alone: true, object: name}
		return []change{&stated{name, o.forgotten, numbers, o.account()}, end}, err
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
	audit(t, memory)
	written := map[kind]bool{}
	for _, ev := range logOf(t, pairs(t, memory)) {
		written[ev.change.kind()] = true
	}
	for k := kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
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
	audit(t, l.store)
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
func goldenEntries(t testing.TB) []logged {
	t.Helper()
	bound := &tag{0, 1, 2, 15: 0xff}
	changes := []change{
		&created{id: [16]byte{0xaa, 15: 0xbb}, currency: "USD"},
		&created{currency: "", logKey: goldenLogKey(t, strings.Repeat("k", 100))},
		&truthKeySet{*bound},
		&questionDefined{1, Question{Name: "vote", Values: []string{"yes", "no"}, Encoding: Direct}},
		&questionDefined{1<<32 - 1, Question{Name: "", Values: []string{"", "é"}, Encoding: Unary}},
		&policyDefined{1, `{"kind":"fixed","ceiling":"1"}`},
		&enrolled{"ann", 1, 0, 0, eps(t, "1000")},
		&enrolled{strings.Repeat("n", 256), 1 << 24, 1<<32 - 1, 0, nano(t, 1)},
		&released{"ann", 1, eps(t, "0.5"), response{value{index: 0}, methodRaise}},
		&released{"ann", 1, eps(t, "0.5"), response{value{index: 127}, methodRaise}},
		&released{"", 2, nano(t, 1), response{value{index: 128}, methodDegrade}},
		&released{"bob", 3, eps(t, "1000"), response{value{index: 1<<20 - 1}, methodInsert}},
		&released{"bob", 3, eps(t, "1"), response{value{bits: bitsOf(t, "1")}, methodRaise}},
		&released{"bob", 3, eps(t, "1"), response{value{bits: bitsOf(t, "01000001"+"1")}, methodInsert}},
		&settled{key: "k", digest: [32]byte{1, 31: 2}, first: 1, through: 2, object: "zoe", alone: true, final: true, counts: counts{1, 2, 3}},
		&charged{"zoe", 3, eps(t, "0.5")},
		&charged{strings.Repeat("é", 128), 1<<32 - 1, nano(t, 1)},
		&answered{3, "threshold:groß:7", [32]byte{1, 31: 2}, 300, eps(t, "1"), result{output: 129}, methodFresh},
		&answered{3, "winner", [32]byte{}, 1, nano(t, 1), result{}, methodDegrade},
		&settled{key: strings.Repeat("k", 256), first: 1 << 40, swept: []sweptCount{{1, 2, 3, 0}, {1<<32 - 1, 1 << 14, 1<<64 - 1, 0}}, answer: 1 << 40, through: 1<<64 - 1, object: "é", done: 300},
		&released{"bob", 1 << 8, nano(t, 127), response{value{index: 0}, methodDegrade}},
		&buyerNamed{1, "acme"},
		&buyerNamed{1<<32 - 1, strings.Repeat("ü", 128)},
		&reserved{deal{1, 2, 3, eps(t, "0.5"), 4, 5, 6}, time.Date(2027, 1, 1, 0, 0, 0, 1, time.UTC)},
		&reserved{deal{1<<64 - 1, 1<<32 - 1, 1<<32 - 1, eps(t, "1000"), 1 << 18, 1<<63 - 1, 1 << 18}, time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)},
		&held{"ann", 1, 0},
		&held{strings.Repeat("n", 256), 1 << 14, 1_000_000_000_000},
		&cancelled{127},
		&cancelled{128},
		&saleMade{deal{300, 1, 1, nano(t, 1), 15, 1 << 14, 0}, saleTally{1, 2, 3, 4, 5}},
		&saleMade{deal{1, 1, 1, eps(t, "1"), 1, 0, 127}, saleTally{}},
		&saleMade{deal{1, 1, 1, eps(t, "1"), 1 << 18, 1, 128}, saleTally{1 << 18, 128, 1<<14 - 1, 1 << 14, 1<<64 - 1}},
		&sold{"ann", 1, 0, response{value{index: 0}, methodResale}},
		&sold{"ann", 128, 127, response{value{index: 1}, methodRaise}},
		&sold{"", 1 << 32, 128, response{value{index: 127}, methodDegrade}},
		&sold{strings.Repeat("n", 256), 1<<64 - 1, 1_000_000_000_000, response{value{index: 1<<20 - 1}, methodInsert}},
		&sold{"ann", 1, 0, response{value{bits: bitsOf(t, strings.Repeat("10", 50))}, methodResale}},
		&withdrawn{"ann"},
		&withdrawn{strings.Repeat("é", 128)},
		&settled{key: "k", swept: []sweptCount{{128, 0, 0, 1}, {129, 0, 0, 127}}, refused: 128, sale: 1<<64 - 1},
		&settled{key: "k", final: true, refused: 1, answer: 1, sale: 128},
		&epochBegun{"ann", 1},
		&epochBegun{strings.Repeat("é", 128), 1<<32 - 1},
		&truthBound{"ann", 1, *bound},
		&truthBound{strings.Repeat("n", 256), 1<<32 - 1, tag{}},
		&objectRefused{0, Refusal{Object: "ann", Reason: ObjectCap, Ceiling: eps(t, "1"), Spent: eps(t, "0.5"), Asked: eps(t, "2"), Cost: eps(t, "1.5"), Remaining: eps(t, "0.5"), Helps: HelpsWaiting, Largest: eps(t, "1")}},
		&objectRefused{1<<32 - 1, Refusal{Object: strings.Repeat("é", 128), Reason: NotEnrolled, Helps: HelpsEnrolling}},
		&stated{"ann", 0, []uint64{1}, account{eps(t, "1000"), eps(t, "0.5"), 0}},
		&stated{strings.Repeat("n", 256), 1<<64 - 1, []uint64{1, 127, 128, 1<<64 - 1}, account{nano(t, 1), nano(t, 1), 1<<63 - 1}},
		&forgotten{"zoe", 1, account{}, nil},
		&forgotten{"ann", 127, account{eps(t, "1"), eps(t, "0.5"), 100}, []remnant{{1, 0, eps(t, "0.5")}}},
		&forgotten{strings.Repeat("é", 128), 1<<64 - 1, account{eps(t, "1000"), nano(t, 129), 1<<63 - 1}, []remnant{{1, 1<<32 - 1, nano(t, 1)}, {128, 0, nano(t, 128)}, {1<<32 - 1, 1, nano(t, 0)}}},
		&noiseKeySet{1, "2026", tag{1, 15: 2}},
		&noiseKeySet{1<<32 - 1, strings.Repeat("é", 128), tag{}},
		&enrolled{"ann", 1, 2, 1<<32 - 1, eps(t, "1")},
		&answered{1, "majority:yes", [32]byte{1, 31: 2}, 2, eps(t, "0.5"), result{scored: true}, methodFresh},
		&answered{1, "majority:yes", [32]byte{1, 31: 2}, 2, eps(t, "1"), result{scored: true, score: -1}, methodRaise},
		&answered{1, "majority:yes", [32]byte{1, 31: 2}, 2, eps(t, "0.7"), result{scored: true, score: 64}, methodInsert},
		&answered{1, "majority:yes", [32]byte{1, 31: 2}, 2, eps(t, "0.2"), result{scored: true, score: -1 << 61}, methodDegrade},
	}
	return entries(changes)
}

// entries makes a log of changes, whatever they are.
func entries(changes []change) []logged {
	log, salts := make([]logged, len(changes)), steadySalts(1<<40)
	for i, c := range changes {
		at := epoch().Add(time.Duration(i-14) * 5 * 365 * 24 * time.Hour) // from before 1970 on
		ev := event{number: uint64(i + 1), time: at, change: c}
		salts(ev.salt[:])
		log[i] = logged{event: ev, hashes: make([]tlog.Hash, merkle.Completes(uint64(i)))}
		for j := range log[i].hashes {
			log[i].hashes[j] = tlog.Hash{byte(i), byte(j), 31: 0xff}
		}
		if _, ok := c.(personal); ok {
			log[i].previous = []uint64{0, 1, 127, 128, 1<<64 - 1}[i%5]
		}
	}
	return log
}

// erasable tells whether an event can be about an object, and so be erased.
func erasable(c change) bool {
	if s, ok := c.(*settled); ok {
		return s.object != ""
	}
	_, ok := c.(personal)
	return ok
}

// recordOf returns the record of a change as the first event of a log.
func recordOf(c change) []byte {
	return logged{event: event{number: 1, time: epoch(), change: c}, hashes: make([]tlog.Hash, 1)}.Encode()
}

func TestGoldenEvents(t *testing.T) {
	text := "# kind, record, leaf of the tree, and record when erased, of events, in hex\n"
	there := func(n logged) string {
		payload := n.Encode()
		back, err := decodeEntry(n.number, payload)
		must(t, err)
		if !reflect.DeepEqual(back, n) {
			t.Errorf("%+v became %+v", n, back)
		}
		return fmt.Sprintf("%x", payload)
	}
	for _, n := range goldenEntries(t) {
		leaf := n.leaf()
		text += fmt.Sprintf("%s %s\n\tleaf %x\n", n.change.kind(), there(n), leaf[:])
		if !erasable(n.change) {
			continue
		}
		erased := n.erase()
		text += fmt.Sprintf("\terased %s\n", there(erased))
		if erased.leaf() != leaf {
			t.Errorf("%s: another leaf when erased", n.change.kind())
		}
	}
	golden(t, "events-v5.txt", text)
	for k := kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		if !strings.Contains(text, "\n"+k.String()+" ") {
			t.Errorf("there is no event of the kind %s", k)
		}
	}
}

// The numbers that stand for kinds, methods, reasons and helps never get a second meaning.
func TestGoldenCodes(t *testing.T) {
	var text strings.Builder
	for k := kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		fmt.Fprintf(&text, "kind %d %s\n", k, k)
	}
	for m := method(1); !strings.HasPrefix(m.String(), "method "); m++ {
		fmt.Fprintf(&text, "method %d %s\n", m, m)
	}
	for i, reason := range reasonCodes() {
		fmt.Fprintf(&text, "reason %d %s\n", i+1, reason)
	}
	for i, help := range helpCodes() {
		fmt.Fprintf(&text, "help %d %s\n", i+1, help)
	}
	golden(t, "codes-v5.txt", text.String())
}
