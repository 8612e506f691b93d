package evidence

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/privacy"
)

// Statements that were issued must stay readable, with the same meaning. After an intended change,
// write the golden facts again with
//
//	go test ./ledger/evidence -run Golden -update
//
// and check every line that has changed.
var update = flag.Bool("update", false, "write the golden files again")

// entry is an event with its leaf.
type entry struct {
	event.Event
	Leaf tlog.Hash
}

// factsOf returns the events of a log as facts of a statement.
func factsOf(t testing.TB, log []entry) (facts []Fact) {
	t.Helper()
	g := event.NewGlossary()
	for _, ev := range log {
		check.Must(t, g.Learn(ev.Event))
		facts = append(facts, check.Value(factOf(ev.Event, ev.Leaf, g))(t))
	}
	return facts
}

// everyFact returns a log with each kind of event that a statement can have, with and without the
// optional fields.
func everyFact(t testing.TB) (log []entry) {
	t.Helper()
	e := privacy.MustEpsilon
	party := fixture.Party(t)
	party.Encoding, party.Mechanism = "finite", event.NameOutputs(party.Mechanism)
	deal := event.Deal{Sale: 4, Buyer: 1, Question: 1, Epsilon: e("0.5"), Objects: 3, Price: 200, Refused: 2}
	bare := event.Deal{Sale: 1<<64 - 1, Buyer: 2, Question: 2, Epsilon: e("2"), Objects: 1}
	raised := event.Response{Method: event.MethodRaise}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, c := range []event.Change{
		&event.Created{ID: [16]byte{1, 2, 3, 15: 255}, Currency: "EUR", LogKey: "example.com/office+9fdd85bd+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"},
		&event.Created{},
		&event.QuestionDefined{Number: 1, Question: api.Question{Name: "vote", Values: []string{"yes", "<no> & \u00a7", "é"}, Encoding: "direct"}},
		&event.QuestionDefined{Number: 2, Question: party},
		&event.PolicyDefined{Number: 1, JSON: `{"kind":"fixed","ceiling":"1"}`},
		&event.BuyerNamed{Number: 1, Name: "acme"},
		&event.BuyerNamed{Number: 2, Name: "<zeta>"},
		&event.Enrolled{Object: "ann", Question: 1, Policy: 1, Noise: 3, Cap: e("8")},
		&event.Enrolled{Object: "ann", Question: 2},
		&event.TruthBound{Object: "ann", Question: 1, Tag: event.Tag{0, 1, 15: 0xff}},
		&event.Released{Object: "ann", Question: 1, Epsilon: e("0.5"), Response: raised},
		&event.Released{Object: "ann", Question: 2, Epsilon: e("2"), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodDegrade}},
		&event.Charged{Object: "ann", Question: 1, Epsilon: e("0.25")},
		&event.Reserved{Deal: deal, Expires: at.Add(1)},
		&event.Reserved{Deal: bare, Expires: at.Add(-time.Hour)},
		&event.Held{Object: "ann", Sale: 4, Price: 7, Policy: 1},
		&event.Held{Object: "ann", Sale: 4},
		&event.SaleMade{Deal: deal, Tally: event.SaleTally{Draws: 1, Resales: 2, Degradations: 3, Insertions: 4, Upgrades: 5}},
		&event.SaleMade{Deal: bare},
		&event.Sold{Object: "ann", Sale: 4, Price: 9, Response: raised},
		&event.Sold{Object: "ann", Sale: 4, Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodResale}},
		&event.Withdrawn{Object: "ann"},
		&event.EpochBegun{Object: "ann", Question: 1},
		&event.TermsChanged{Object: "ann", Question: 1, Policy: 1, Cap: e("4"), Consent: "form 17"},
		&event.TermsChanged{Object: "ann", Question: 2, Cap: e("4")},
		&event.ObjectRefused{Question: 1, Refusal: api.Refusal{Object: "ann", Reason: event.ReasonCodes()[0], Ceiling: e("1"), Spent: e("0.5"), Asked: e("2"), Cost: e("1.5"), Remaining: e("0.5"), Remedy: event.RemedyCodes()[0], Largest: e("1")}},
		&event.ObjectRefused{Question: 2, Refusal: api.Refusal{Object: "ann", Reason: event.ReasonCodes()[1], Remedy: event.RemedyCodes()[1]}},
		&event.Forgotten{Object: "ann", Events: 12, Account: event.Account{Cap: e("8"), Spent: e("1.5"), Earned: 9}, Chains: []event.Remnant{{Question: 1, Policy: 1, Spent: e("1")}, {Question: 2, Spent: e("0.5")}}},
		&event.Forgotten{Object: "ann"},
		&event.Stated{Object: "ann", Forgotten: 26, Events: []uint64{1, 1<<64 - 1}, Account: event.Account{Cap: e("8"), Spent: e("2"), Earned: 1<<63 - 1}},
		&event.Stated{Object: "ann"},
	} {
		ev := event.Event{Number: uint64(i + 1), Time: at.Add(time.Duration(i)), Change: c}
		binary.BigEndian.PutUint64(ev.Salt[:], 1<<40+uint64(i))
		log = append(log, entry{ev, ev.Leaf()})
	}
	return log
}

// The JSON of facts is unchanged since the golden file was written.
func TestFact_GoldenJSON_IsUnchanged(t *testing.T) {
	var lines strings.Builder
	for _, f := range factsOf(t, everyFact(t)) {
		lines.Write(text(t, f))
		lines.WriteByte('\n')
	}
	fixture.Golden(t, "testdata/golden/facts-v4.txt", lines.String(), *update)
}

// field is a field of a fact in JSON.
type field struct{ name, value string }

// fieldsOf returns the fields of a fact in order.
func fieldsOf(t testing.TB, fact []byte) (all []field) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(fact))
	check.Must(t, check.Err(d.Token()))
	for d.More() {
		name := check.Value(d.Token())(t)
		var value json.RawMessage
		check.Must(t, d.Decode(&value))
		all = append(all, field{name.(string), string(value)})
	}
	return all
}

// joined returns the JSON of a fact with some fields.
func joined(fields []field) string {
	var all []string
	for _, f := range fields {
		all = append(all, fmt.Sprintf("%q:%s", f.name, f.value))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// specimens returns statements whose events tests alter: those of the golden files, and one with
// all kinds of events.
func specimens(t testing.TB) map[string]Statement {
	t.Helper()
	all := map[string]Statement{"every kind": {
		Chains: []StatedChain{}, Terms: []StatedTerms{}, Released: []StatedResponse{}, Charges: []StatedResponse{},
		Sales: []StatedSale{}, Events: factsOf(t, everyFact(t)), Proof: []tlog.Hash{},
	}}
	for _, name := range []string{"statement-v4.json", "statement-forgotten-v4.json"} {
		data := check.Value(os.ReadFile(filepath.Join("..", "testdata", "golden", name)))(t)
		all[name] = check.Value(ReadStatement(data))(t)
	}
	return all
}

// textsOf returns the texts of the faults of an item.
func textsOf(c Checked, item int) (all []string) {
	for _, f := range c.Faults {
		if f.Item == item {
			all = append(all, f.Text)
		}
	}
	return all
}

// oneIn returns n if one in n alterations of facts is tried. It is not a multiple of 2, so that all
// ways to alter a field have their turn.
func oneIn() int { return testenv.Tries(7, 1, 1) }

// eachAlteration alters every fact of the specimens by change. For each alteration (in the quick
// form, one in [oneIn]) it calls judge with the result for the statement: the error of reading it,
// or the new faults of the fact.
func eachAlteration(t *testing.T, change func(fields []field, visit func(what string, fields []field)), judge func(what string, item int, f Fact, err error, faults []string)) {
	t.Helper()
	tried, stride := 0, oneIn()
	for name, st := range specimens(t) {
		whole := string(text(t, st))
		before := st.Verify(nil)
		for i, f := range st.Events {
			fact := text(t, f)
			change(fieldsOf(t, fact), func(what string, fields []field) {
				if tried++; tried%stride != 0 {
					return
				}
				other, err := ReadStatement([]byte(strings.Replace(whole, string(fact), joined(fields), 1)))
				var faults []string
				if err == nil {
					faults = slices.DeleteFunc(textsOf(other.Verify(nil), i+1), func(text string) bool { return slices.Contains(textsOf(before, i+1), text) })
				} else {
					check.Is(t, err, errs.ErrInvalid)
				}
				judge(fmt.Sprintf("%s, event %d, %s: %s", name, f.Event, f.Kind(), what), i+1, f, err, faults)
			})
		}
	}
}

func TestFact_WrittenAndRead_IsTheSame(t *testing.T) {
	for name, st := range specimens(t) {
		back := check.Value(ReadStatement(text(t, st)))(t)
		if !bytes.Equal(text(t, back), text(t, st)) || len(back.Events) != len(st.Events) {
			t.Errorf("%s: %s became %s", name, text(t, st), text(t, back))
		}
		for i, f := range st.Events {
			if got := back.Events[i]; got.Kind() != f.Kind() || reflect.TypeOf(got.Says) != reflect.TypeOf(f.Says) {
				t.Errorf("%+v became %+v", f, got)
			}
			var indented Fact // which only readers of whole documents refuse
			data := check.Value(json.MarshalIndent(f, "", " "))(t)
			check.Must(t, json.Unmarshal(data, &indented))
			if !bytes.Equal(text(t, indented), text(t, f)) {
				t.Errorf("%s became %s", data, text(t, indented))
			}
		}
	}
	// And back to the events themselves.
	g := event.NewGlossary()
	for _, ev := range everyFact(t) {
		check.Must(t, g.Learn(ev.Event))
		f := check.Value(factOf(ev.Event, ev.Leaf, g))(t)
		var read Fact
		check.Must(t, json.Unmarshal(text(t, f), &read))
		back, err := read.change(g)
		if kind := ev.Change.Kind(); kind == event.KindQuestion || kind == event.KindPolicy { // with pointers inside
			again := ev.Event
			again.Change = back
			check.That(t, err == nil && again.Leaf() == ev.Leaf, "%+v became %+v, %v", ev.Change, back, err)
		} else if err != nil || !reflect.DeepEqual(back, ev.Change) {
			t.Errorf("%+v became %+v, %v", ev.Change, back, err)
		}
	}
}

// A statement has exactly these kinds of events, under their names in the log.
func TestFact_Kinds_AreThoseOfStatements(t *testing.T) {
	included := map[string]bool{}
	for _, ev := range everyFact(t) {
		included[ev.Change.Kind().String()] = true
	}
	excluded := []event.Kind{event.KindTruthKey, event.KindSettled, event.KindAnswered, event.KindCancelled, event.KindNoiseKey}
	for k := event.Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		is, known := shapes()[k.String()]
		check.That(t, known != slices.Contains(excluded, k) && known == included[k.String()], "%s: %v", k, known)
		check.That(t, !known || reflect.New(is.detail).Interface().(says.Detail).Kind() == k.String(),
			"%s is %v", k, is.detail)
	}
	if len(shapes()) != len(included) || len(included) != 18 {
		t.Errorf("%d kinds, %d of them in the log", len(shapes()), len(included))
	}
}

func TestFact_FieldOfAnotherKind_IsRefused(t *testing.T) {
	values := map[string]string{"more": "1", "settled": "true", "key": `"k"`} // of all fields, and of some that no kind has
	has := map[[2]string]bool{}                                               // by kind and field
	for _, st := range specimens(t) {
		for _, f := range st.Events {
			for _, one := range fieldsOf(t, text(t, f)) {
				values[one.name], has[[2]string{f.Kind(), one.name}] = one.value, true
			}
		}
	}
	n := 0
	eachAlteration(t, func(fields []field, visit func(string, []field)) {
		kind := strings.Trim(fields[2].value, `"`)
		for name := range values {
			if has[[2]string{kind, name}] {
				continue
			}
			for _, value := range []string{values[name], "null"} {
				visit(name, slices.Insert(slices.Clone(fields), len(fields)-2, field{name, value}))
			}
		}
	}, func(what string, item int, f Fact, err error, _ []string) {
		n++
		name := what[strings.LastIndex(what, " ")+1:]
		for _, words := range []string{fmt.Sprintf("item %d of a list", item), fmt.Sprintf("an event of the kind %q", f.Kind()), fmt.Sprintf("unknown field %q", name)} {
			check.Need(t, err != nil && strings.Contains(err.Error(), words),
				"%s: got the error %v, which should say %q", what, err, words)
		}
	})
	check.That(t, n >= 4000/oneIn(), "only %d alterations", n)
}

func TestFact_AlteredField_IsRefused(t *testing.T) {
	n := 0
	eachAlteration(t, func(fields []field, visit func(string, []field)) {
		for i, one := range fields {
			visit(one.name+" missing", slices.Delete(slices.Clone(fields), i, i+1))
			visit(one.name+" null", slices.Replace(slices.Clone(fields), i, i+1, field{one.name, "null"}))
			visit(one.name+" twice", slices.Insert(slices.Clone(fields), i, one))
			visit(one.name+" in capitals", slices.Replace(slices.Clone(fields), i, i+1, field{strings.ToUpper(one.name), one.value}))
			if i > 0 {
				visit(one.name+" before another", slices.Concat(fields[:i-1], []field{one, fields[i-1]}, fields[i+1:]))
			}
			for _, value := range []string{"true", `{"more":1}`, "-1"} {
				if value != one.value {
					visit(one.name+" "+value, slices.Replace(slices.Clone(fields), i, i+1, field{one.name, value}))
				}
			}
		}
	}, func(what string, _ int, _ Fact, err error, faults []string) {
		n++
		check.That(t, err != nil || len(faults) != 0, "%s: no error and no fault", what)
		if err == nil && (strings.HasSuffix(what, " null") || strings.HasSuffix(what, " twice") || strings.HasSuffix(what, " in capitals") || strings.HasSuffix(what, " before another")) {
			t.Errorf("%s: it is found only by Verify, not by the reader: %q", what, faults)
		}
	})
	check.That(t, n >= 3000/oneIn(), "only %d alterations", n)
}

// A fact whose kind is replaced by another one is refused, and the error names an unknown kind.
func TestFact_AnotherKind_IsRefused(t *testing.T) {
	kinds := []string{"", "x", "Sold", " sold", "event", strings.Repeat("k", 1000)}
	for k := event.Kind(1); !strings.HasPrefix(k.String(), "kind "); k++ {
		kinds = append(kinds, k.String())
	}
	eachAlteration(t, func(fields []field, visit func(string, []field)) {
		for _, kind := range kinds {
			if value := fmt.Sprintf("%q", kind); value != fields[2].value {
				visit(kind, slices.Replace(slices.Clone(fields), 2, 3, field{"kind", value}))
			}
		}
	}, func(what string, item int, _ Fact, err error, faults []string) {
		check.That(t, err != nil || len(faults) != 0, "%s: no error and no fault", what)
		kind := what[strings.LastIndex(what, ": ")+2:]
		if _, known := shapes()[kind]; known {
			return
		}
		words := fmt.Sprintf("item %d of a list: a statement has no event of the kind %q", item, kind[:min(len(kind), 40)])
		check.That(t, err != nil && strings.Contains(err.Error(), words) && len(err.Error()) <= 200,
			"%s: got the error %v, which should say %q", what, err, words)
	})
}

// A fact without a detail, such as the zero value, is a fault, and its JSON is refused.
func TestFact_WithoutDetail_IsRefused(t *testing.T) {
	var f Fact
	if got, want := string(text(t, f)), `{"event":0,"time":"0001-01-01T00:00:00Z","kind":"","salt":"","leaf":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`; got != want || f.Kind() != "" {
		t.Errorf("%s of the kind %q, want %s", got, f.Kind(), want)
	}
	all := textsOf(Statement{Events: []Fact{f}}.Verify(nil), 1)
	check.That(t, len(all) != 0 && all[0] == `a statement has no event of the kind ""`, "%q", all)
	for _, data := range []string{"null", "{}", "[]", "7", `{"kind":null}`, `{"kind":7}`, string(text(t, f))} {
		err := json.Unmarshal([]byte(data), &f)
		check.That(t, err != nil, "%s is read as %+v", data, f)
	}
}

// A fault of a fact names the object that the fact is about, for each kind.
func TestFact_About_IsTheObjectOfTheEvent(t *testing.T) {
	log := everyFact(t)
	facts := factsOf(t, log)
	for i, ev := range log {
		if got, want := facts[i].about(), event.ObjectOf(ev.Event); got != want {
			t.Errorf("event %d, %s: about %q, want %q", ev.Number, ev.Change.Kind(), got, want)
		}
	}
}
