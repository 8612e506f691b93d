package ledger

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/store"
	"github.com/sluicedp/sluice/ledger/store/boltstore"
	"github.com/sluicedp/sluice/ledger/store/storetest"
	"github.com/sluicedp/sluice/policy"
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
func dump(t *testing.T, s store.Store) string {
	t.Helper()
	text := "# bucket, key and value of every record, in hex\n"
	for _, p := range pairs(t, s) {
		text += p.String() + "\n"
	}
	return text
}

// tell writes the same small ledger whenever it is called: by the calls of a host, with the clock set
// by hand and draws that always come out the same; and by hand what calls seldom make.
func tell(t *testing.T, s store.Store) {
	t.Helper()
	begin(t, s)
	clock := newClock(epoch())
	l, err := openStore(s, Options{Now: clock.read, TruthKey: truthKey()})
	must(t, err)
	l.sampler, l.queries = steadySampler(), zeros()
	steps := []func(){
		func() { define(t, l, vote()) },
		func() { define(t, l, Question{"Größe", []string{"klein", "groß"}}) },
		func() { enroll(t, l, "vote", "2.5", "ann", "bob") },
		func() {
			_, err := l.Enroll(t.Context(), EnrollRequest{Key: "policy", Question: "Größe", Objects: []string{"ann", "çid"}, Policy: policy.Fixed(eps(t, "0.000000001"))})
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
	for i, step := range steps {
		clock.set(epoch().Add(time.Duration(i) * (time.Hour + time.Nanosecond)))
		step()
	}
}

// marketDay is what a host calls on a day of the market: two buyers, every way in which a response comes
// about, every way in which a reservation ends, a sweep, and an object that leaves and comes back.
func marketDay(t *testing.T, l *Ledger) []func() {
	t.Helper()
	terms := market(t, "2", func(m *policy.Market) {
		m.Stride, m.Floor, m.Holders = eps(t, "0.25"), 30, 2
		m.Buyers, m.Barred = []string{"zeta", "acme"}, []string{"initech"}
		m.From, m.Until = epoch(), epoch().Add(365*24*time.Hour)
	})
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

// byHand records the part of a large order, with every reason for a refusal, and a high response.
func byHand(t *testing.T, l *Ledger) {
	t.Helper()
	part := &settled{key: "large", digest: [32]byte{31: 1}, last: "bob", counts: counts{1, 300, 1 << 40}}
	for i, reason := range reasonCodes() {
		helps := helpCodes()
		part.refused = append(part.refused, Refusal{fmt.Sprint("object ", i), reason, nano(t, 1), nano(t, 127), nano(t, 128), nano(t, 1<<32), eps(t, "1000"), helps[i%len(helps)]})
	}
	_, _, err := l.submit(t.Context(), func(s *state) ([]change, error) {
		part.first, part.swept, part.through = s.counters.events+1, []sweptCount{{1, 1, 2, uint64(len(part.refused))}, {2, 0, 1 << 40, 0}}, s.counters.events
		return []change{&released{object: "bob", question: 1, epsilon: nano(t, 1), response: response{value: 2, method: methodRaise}}, part}, nil
	})
	must(t, err)
}

func TestGoldenLedger(t *testing.T) {
	memory := &storetest.Memory{}
	tell(t, memory)
	golden(t, "format-v2.txt", dump(t, memory))
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
	must(t, boltstore.Create(path, func(store.Writer) error { return nil }))
	file, err := boltstore.Open(path, false)
	must(t, err)
	defer file.Close()
	tell(t, file)
	golden(t, "format-v2.txt", dump(t, file))
}

// A ledger that was written when the golden file was is still read, and means what it meant.
func TestGoldenLedgerIsRead(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "golden", "format-v2.txt"))
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
	l, err := openStore(fill(t, records), Options{TruthKey: truthKey(), Now: func() time.Time { return epoch().Add(30 * time.Hour) }})
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
	about := l.About()
	if about.ID != "01020300-0000-0000-0000-0000000000ff" || !about.Created.Equal(epoch()) || about.Currency != "EUR" || about.LogKey != "log" {
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
	want := []string{"1 acme 0.5 100-0 2/0/0/0/0", "2 zeta 0.5 100-0 0/2/0/0/0", "3 acme 1 50-0 1/0/0/0/1", "4 zeta 0.75 25-0 0/0/0/1/1", "5 acme 0.25 0-0 0/0/1/0/0", "6 zeta 1 75-0 1/1/0/0/2"}
	if !slices.Equal(sales, want) {
		t.Errorf("the sales are %q, want %q", sales, want)
	}
	eve, gus := objectOf(t, l, "eve"), objectOf(t, l, "gus")
	if c := eve.Chains[0]; eve.Earned != 200 || eve.Spent != eps(t, "1") || c.Withdrawn || c.Orders != 5 || !slices.Equal(c.Levels[1].Buyers, []string{"acme", "zeta"}) {
		t.Errorf("eve came to %+v", eve)
	}
	if gus.Held.IsZero() || !objectOf(t, l, "çid").Chains[0].Withdrawn || stats(t, l).Revenue != 350 {
		t.Errorf("gus came to %+v, the ledger to %+v", gus, stats(t, l))
	}
	auditMarket(t, l)
}

// goldenEvents are events of every kind, with fields of every length.
func goldenEvents(t *testing.T) []event {
	t.Helper()
	bound := &tag{0, 1, 2, 15: 0xff}
	changes := []change{
		&created{id: [16]byte{0xaa, 15: 0xbb}, currency: "USD"},
		&created{currency: "", logKey: strings.Repeat("k", 128)},
		&truthKeySet{*bound},
		&questionDefined{1, "vote", []string{"yes", "no"}},
		&questionDefined{1<<32 - 1, "", []string{"", "é"}},
		&policyDefined{1, `{"kind":"fixed","ceiling":"1"}`},
		&enrolled{"ann", 1, 0, eps(t, "1000")},
		&enrolled{strings.Repeat("n", 256), 1 << 24, 1<<32 - 1, nano(t, 1)},
		&released{"ann", 1, eps(t, "0.5"), response{0, methodRaise, nil}},
		&released{"ann", 1, eps(t, "0.5"), response{127, methodRaise, bound}},
		&released{"", 2, nano(t, 1), response{128, methodDegrade, nil}},
		&released{"bob", 3, eps(t, "1000"), response{1<<20 - 1, methodInsert, nil}},
		&settled{key: "k", digest: [32]byte{1, 31: 2}, first: 1, through: 2, last: "zoe", final: true, counts: counts{1, 2, 3}},
		&charged{"zoe", 3, eps(t, "0.5"), &tag{1, 15: 2}},
		&answered{3, "threshold:groß:7", [32]byte{1, 31: 2}, 300, eps(t, "1"), 129, methodFresh},
		&answered{3, "winner", [32]byte{}, 1, nano(t, 1), 0, methodDegrade},
		&settled{key: strings.Repeat("k", 256), first: 1 << 40, swept: []sweptCount{{1, 2, 3, 0}, {1<<32 - 1, 1 << 14, 1<<64 - 1, 0}}, answer: 1 << 40, through: 1<<64 - 1, last: "é"},
		&released{"bob", 1 << 8, nano(t, 127), response{0, methodDegrade, bound}},
		&buyerNamed{1, "acme"},
		&buyerNamed{1<<32 - 1, strings.Repeat("ü", 128)},
		&reserved{deal{1, 2, 3, eps(t, "0.5"), 4, 5}, time.Date(2027, 1, 1, 0, 0, 0, 1, time.UTC)},
		&reserved{deal{1<<64 - 1, 1<<32 - 1, 1<<32 - 1, eps(t, "1000"), 1 << 18, 1<<63 - 1}, time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)},
		&held{"ann", 1, 0},
		&held{strings.Repeat("n", 256), 1 << 14, 1_000_000_000_000},
		&cancelled{127},
		&cancelled{128},
		&saleMade{deal{300, 1, 1, nano(t, 1), 15, 1 << 14}, saleTally{1, 2, 3, 4, 5}},
		&saleMade{deal{1, 1, 1, eps(t, "1"), 1, 0}, saleTally{}},
		&saleMade{deal{1, 1, 1, eps(t, "1"), 1 << 18, 1}, saleTally{1 << 18, 128, 1<<14 - 1, 1 << 14, 1<<64 - 1}},
		&sold{"ann", 1, 0, response{0, methodResale, nil}},
		&sold{"ann", 128, 127, response{1, methodRaise, bound}},
		&sold{"", 1 << 32, 128, response{127, methodDegrade, nil}},
		&sold{strings.Repeat("n", 256), 1<<64 - 1, 1_000_000_000_000, response{1<<20 - 1, methodInsert, nil}},
		&withdrawn{"ann"},
		&withdrawn{strings.Repeat("é", 128)},
		&settled{key: "k", last: "", swept: []sweptCount{{128, 0, 0, 1}}, refused: []Refusal{{"ann", ObjectCap, eps(t, "1"), eps(t, "0.5"), eps(t, "2"), eps(t, "1.5"), eps(t, "0.5"), HelpsWaiting}}},
	}
	log := make([]event, len(changes))
	for i, c := range changes {
		log[i] = event{uint64(i + 1), epoch().Add(time.Duration(i-12) * 10 * 365 * 24 * time.Hour), c} // from before 1970 on
	}
	return log
}

func TestGoldenEvents(t *testing.T) {
	text := "# kind and encoding of events, in hex\n"
	for _, ev := range goldenEvents(t) {
		payload := encodeEvent(ev)
		text += fmt.Sprintf("%s %x\n", ev.change.kind(), payload)
		back, err := decodeEvent(ev.number, payload)
		must(t, err)
		if !reflect.DeepEqual(back, ev) {
			t.Errorf("%+v became %+v", ev, back)
		}
	}
	golden(t, "events-v2.txt", text)
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
	golden(t, "codes-v2.txt", text.String())
}
