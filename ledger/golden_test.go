package ledger

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
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
		func() { sell(t, l, sale(t, "raise", "ann", "1")) },
		func() { sell(t, l, sale(t, "degrade", "ann", "0.25")) },
		func() { sell(t, l, sale(t, "insert", "ann", "0.5")) },
		func() { sell(t, l, sale(t, "resale", "ann", "0.5")) },
		func() {
			r := order(t, "partial", "2.5", "ann", "bob", "dot")
			r.Partial, r.Truth = true, listOf("yes", "")
			carryOut(t, l, r)
		},
		func() { answerTo(t, l, inquire(t, "fresh", "majority:yes", "0.5", ballots("bob"), "bob")) },
		func() { answerTo(t, l, inquire(t, "degraded", "majority:yes", "0.25", never(t), "bob")) },
		func() { byHand(t, l) },
	}
	for i, step := range steps {
		clock.set(epoch().Add(time.Duration(i) * (time.Hour + time.Nanosecond)))
		step()
	}
}

// byHand records the part of a large order, with every reason for a refusal, and a high response.
func byHand(t *testing.T, l *Ledger) {
	t.Helper()
	part := &settled{key: "large", digest: [32]byte{31: 1}, first: 29, through: 28, last: "bob", counts: counts{1, 300, 1 << 40}}
	for i, reason := range reasonCodes() {
		helps := helpCodes()
		part.refused = append(part.refused, Refusal{fmt.Sprint("object ", i), reason, nano(t, 1), nano(t, 127), nano(t, 128), nano(t, 1<<32), eps(t, "1000"), helps[i%len(helps)]})
	}
	_, _, err := l.submit(t.Context(), func(*state) ([]change, error) {
		return []change{&released{object: "bob", question: 1, epsilon: nano(t, 1), response: 2, method: methodRaise}, part}, nil
	})
	must(t, err)
}

func TestGoldenLedger(t *testing.T) {
	memory := &storetest.Memory{}
	tell(t, memory)
	golden(t, "format-v1.txt", dump(t, memory))
	audit(t, memory)

	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, boltstore.Create(path, func(store.Writer) error { return nil }))
	file, err := boltstore.Open(path, false)
	must(t, err)
	defer file.Close()
	tell(t, file)
	golden(t, "format-v1.txt", dump(t, file))
}

// A ledger that was written when the golden file was is still read, and means what it meant.
func TestGoldenLedgerIsRead(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "golden", "format-v1.txt"))
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
	l, err := openStore(fill(t, records), Options{TruthKey: truthKey()})
	must(t, err)
	o := objectOf(t, l, "ann")
	if o.Spent != eps(t, "2.5") || len(o.Chains) != 2 || len(o.Chains[0].Levels) != 4 || o.Chains[0].Response != "yes" {
		t.Errorf("%+v", o)
	}
	again := sale(t, "degrade", "ann", "0.25")
	again.Truth = never(t)
	if r := sell(t, l, again); r.Value != "yes" {
		t.Errorf("%+v", r)
	}
	about := l.About()
	if about.ID != "01020300-0000-0000-0000-0000000000ff" || !about.Created.Equal(epoch()) || about.Currency != "EUR" || about.LogKey != "log" {
		t.Errorf("%+v", about)
	}
	audit(t, l.store)
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
		&released{"ann", 1, eps(t, "0.5"), 0, methodRaise, nil},
		&released{"ann", 1, eps(t, "0.5"), 127, methodRaise, bound},
		&released{"", 2, nano(t, 1), 128, methodDegrade, nil},
		&released{"bob", 3, eps(t, "1000"), 1<<20 - 1, methodInsert, nil},
		&settled{key: "k", digest: [32]byte{1, 31: 2}, first: 1, through: 2, last: "zoe", final: true, counts: counts{1, 2, 3}},
		&charged{"zoe", 3, eps(t, "0.5"), &tag{1, 15: 2}},
		&answered{3, "threshold:groß:7", [32]byte{1, 31: 2}, 300, eps(t, "1"), 129, methodFresh},
		&answered{3, "winner", [32]byte{}, 1, nano(t, 1), 0, methodDegrade},
		&settled{key: "k", last: "", refused: []Refusal{{"ann", ObjectCap, eps(t, "1"), eps(t, "0.5"), eps(t, "2"), eps(t, "1.5"), eps(t, "0.5"), HelpsWaiting}}},
	}
	log := make([]event, len(changes))
	for i, c := range changes {
		log[i] = event{uint64(i + 1), epoch().Add(time.Duration(i-6) * 20 * 365 * 24 * time.Hour), c} // from before 1970 on
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
	golden(t, "events-v1.txt", text)
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
	golden(t, "codes-v1.txt", text.String())
}
