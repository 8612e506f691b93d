package event

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// written is an event, and its JSON after number, time and kind.
type written struct {
	Event
	text string
}

// at returns the time of all events of these tests.
func at() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC) }

// allWritten returns events of every kind, with all fields and with as few as possible.
func allWritten() []written {
	one, half := privacy.MustEpsilon("1"), privacy.MustEpsilon("0.5")
	fixed := policy.Fixed(one)
	refusal := api.Refusal{Object: "ann", Reason: api.NoTruth, Asked: one, Remedy: "truth"}
	whole := func(d Detail, text string) written { return written{Event{7, at(), false, d}, text} }
	erased := func(d Detail, text string) written { return written{Event{7, at(), true, d}, `"erased":true` + text} }
	return []written{
		whole(Created{ID: "0102", Currency: "EUR"}, `"id":"0102","currency":"EUR"`),
		whole(TruthKeySet{}, ``),
		whole(NoiseKeySet{"2026"}, `"noise_key":"2026"`),
		whole(QuestionDefined{Name: "vote", Values: []string{"yes", "no"}, Encoding: "direct"}, `"question":"vote","values":["yes","no"],"encoding":"direct"`),
		whole(PolicyDefined{Policy: fixed}, `"policy":{"kind":"fixed","ceiling":"1"}`),
		whole(Enrolled{Object: "ann", Question: "vote", NoiseKey: "2026", Policy: &fixed, Cap: one}, `"object":"ann","question":"vote","noise_key":"2026","policy":{"kind":"fixed","ceiling":"1"},"cap":"1"`),
		whole(Enrolled{Object: "ann", Question: "vote"}, `"object":"ann","question":"vote","cap":"0"`),
		erased(Enrolled{}, ``),
		whole(Released{"ann", "vote", half, "yes", "raise"}, `"object":"ann","question":"vote","epsilon":"0.5","response":"yes","method":"raise"`),
		erased(Released{}, ``),
		whole(Charged{"ann", "vote", half}, `"object":"ann","question":"vote","epsilon":"0.5"`),
		erased(Charged{}, ``),
		whole(Answered{"vote", half, "majority:yes", 3, "no", "fresh"}, `"question":"vote","epsilon":"0.5","query":"majority:yes","objects":3,"response":"no","method":"fresh"`),
		whole(TruthBound{Object: "ann", Question: "vote"}, `"object":"ann","question":"vote"`),
		erased(TruthBound{}, ``),
		whole(EpochBegun{"ann", "vote"}, `"object":"ann","question":"vote"`),
		erased(EpochBegun{}, ``),
		whole(TermsChanged{"ann", "vote", &fixed, half, "form 17"}, `"object":"ann","question":"vote","policy":{"kind":"fixed","ceiling":"1"},"cap":"0.5","consent":"form 17"`),
		whole(TermsChanged{Object: "ann", Question: "vote", Cap: half}, `"object":"ann","question":"vote","cap":"0.5"`),
		erased(TermsChanged{}, ``),
		whole(ObjectRefused{"vote", refusal}, `"object":"ann","question":"vote","refused":[{"object":"ann","reason":"no-truth","ceiling":"0","spent":"0","asked":"1","cost":"0","remaining":"0","helps":"truth","largest":"0"}]`),
		erased(ObjectRefused{}, ``),
		whole(Settled{"ann", 4, "k", [3]uint64{1, 2, 3}, 5}, `"object":"ann","sale":4,"key":"k","counts":[1,2,3],"left_out":5`),
		whole(Settled{Key: "k"}, `"key":"k","counts":[0,0,0]`),
		erased(Settled{"", 4, "k", [3]uint64{1, 2, 3}, 5}, `,"sale":4,"key":"k","counts":[1,2,3],"left_out":5`),
		whole(Stated{Object: "ann"}, `"object":"ann"`),
		erased(Stated{}, ``),
		whole(Withdrawn{"ann"}, `"object":"ann"`),
		erased(Withdrawn{}, ``),
		whole(Forgotten{Object: "ann", Cap: one, Spent: half}, `"object":"ann","cap":"1","epsilon":"0.5"`),
		whole(Forgotten{Object: "ann"}, `"object":"ann","cap":"0","epsilon":"0"`),
		whole(BuyerNamed{Name: "acme"}, `"buyer":"acme"`),
		whole(Reserved{"vote", half, 3, 4, "acme", 150, at(), 0}, `"question":"vote","epsilon":"0.5","objects":3,"sale":4,"buyer":"acme","price":150,"expires":"2026-03-01T12:00:00.000000005Z"`),
		whole(Held{"ann", "vote", half, 4, "acme", 50, nil}, `"object":"ann","question":"vote","epsilon":"0.5","sale":4,"buyer":"acme","price":50`),
		erased(Held{"", "vote", half, 4, "acme", 50, nil}, `,"question":"vote","epsilon":"0.5","sale":4,"buyer":"acme","price":50`),
		whole(Cancelled{"vote", half, 4, "acme"}, `"question":"vote","epsilon":"0.5","sale":4,"buyer":"acme"`),
		whole(SaleMade{Question: "vote", Epsilon: half, Objects: 3, Sale: 4, Buyer: "acme"}, `"question":"vote","epsilon":"0.5","objects":3,"sale":4,"buyer":"acme","price":0`),
		whole(Sold{"ann", "vote", half, "yes", "resale", 4, "acme", 50}, `"object":"ann","question":"vote","epsilon":"0.5","response":"yes","method":"resale","sale":4,"buyer":"acme","price":50`),
		erased(Sold{"", "vote", half, "", "", 4, "acme", 0}, `,"question":"vote","epsilon":"0.5","sale":4,"buyer":"acme","price":0`),
	}
}

// The JSON of every kind is fixed to the byte, because scripts use it. Reading it returns the
// event.
func TestEventJSON_EveryKind_IsFixedAndReadBack(t *testing.T) {
	whole, erased := map[string]bool{}, map[string]bool{}
	for _, one := range allWritten() {
		want := strings.TrimSuffix(`{"event":7,"time":"2026-03-01T12:00:00.000000005Z","kind":"`+one.Kind()+`",`+one.text, ",") + "}"
		got, err := json.Marshal(one.Event)
		if err != nil || string(got) != want {
			t.Errorf("%+v is\n%s, %v, want\n%s", one.Event, got, err, want)
		}
		var back Event
		if err := json.Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, one.Event) {
			t.Errorf("%s is read as\n%+v, %v, want\n%+v", got, back, err, one.Event)
		}
		if one.Erased {
			erased[one.Kind()] = true
		} else {
			whole[one.Kind()] = true
		}
	}
	for _, d := range kinds() {
		if !whole[d.Kind()] || erased[d.Kind()] != erasable(d) {
			t.Errorf("%s is not tested, whole and erased", d.Kind())
		}
	}
}

// Reading and writing the golden file of package ledger, which is older than these types, does not
// change it.
func TestEventJSON_GoldenFile_IsReadAndWrittenUnchanged(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "testdata", "golden", "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var ev Event
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if plain, err := write(ev); err != nil || !bytes.Equal(plain, lines.Bytes()) {
			t.Errorf("%s\nbecomes\n%s, %v", lines.Bytes(), plain, err)
		}
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, lines.Bytes())
		if got, err := json.Marshal(ev); err != nil || !bytes.Equal(got, escaped.Bytes()) {
			t.Errorf("%s\nbecomes\n%s, %v", &escaped, got, err)
		}
		seen[ev.Kind()] = true
	}
	if len(seen) != len(kinds()) || lines.Err() != nil {
		t.Errorf("the file has the kinds %v, %v", seen, lines.Err())
	}
}

// Text that is not exactly an event is ErrInvalid and changes nothing. No key is ignored.
func TestEventUnmarshalJSON_NoExactEvent_IsInvalid(t *testing.T) {
	const begin = `{"event":7,"time":"2026-03-01T12:00:00Z","kind":`
	for name, text := range map[string]string{
		"no object":                   `[]`,
		"no kind":                     `{"event":7,"time":"2026-03-01T12:00:00Z"}`,
		"an unknown kind":             begin + `"soled"}`,
		"a kind in capitals":          begin + `"Stated","object":"ann"}`,
		"no number":                   `{"time":"2026-03-01T12:00:00Z","kind":"stated","object":"ann"}`,
		"a number below 0":            `{"event":-1,"time":"2026-03-01T12:00:00Z","kind":"stated","object":"ann"}`,
		"no time":                     `{"event":7,"kind":"stated","object":"ann"}`,
		"a time that is none":         `{"event":7,"time":"noon","kind":"stated","object":"ann"}`,
		"an unknown key":              begin + `"stated","object":"ann","objet":"bob"}`,
		"a key in capitals":           begin + `"stated","Object":"ann"}`,
		"a key, and one in capitals":  begin + `"stated","object":"ann","OBJECT":"bob"}`,
		"a key that folds to one":     begin + `"sold","object":"ann","question":"vote","epsilon":"1","response":"yes","method":"raise","\u017fale":4,"buyer":"acme","price":5}`,
		"null of every event":         begin + `"withdrawn","erased":null,"object":"ann"}`,
		"a value that is null":        begin + `"sold","object":"ann","question":"vote","epsilon":"1","response":"yes","method":"raise","sale":4,"buyer":"acme","price":null}`,
		"a key of another kind":       begin + `"released","object":"ann","question":"vote","epsilon":"1","response":"yes","method":"raise","price":5}`,
		"a value of another type":     begin + `"stated","object":5}`,
		"an ε that is none":           begin + `"charged","object":"ann","question":"vote","epsilon":"-1"}`,
		"a policy that is none":       begin + `"policy","policy":{"kind":"loose"}}`,
		"never erased":                begin + `"buyer","erased":true,"buyer":"acme"}`,
		"erased, with a field":        begin + `"released","erased":true,"object":"ann"}`,
		"erased, with its object":     begin + `"sold","erased":true,"object":"ann","question":"vote","epsilon":"1","sale":1,"buyer":"acme","price":5}`,
		"no refusal":                  begin + `"refused","object":"ann","question":"vote","refused":[]}`,
		"two refusals":                begin + `"refused","object":"ann","question":"vote","refused":[{"object":"ann"},{"object":"ann"}]}`,
		"a refusal of another":        begin + `"refused","object":"ann","question":"vote","refused":[{"object":"bob"}]}`,
		"an unknown key of a refusal": begin + `"refused","object":"ann","question":"vote","refused":[{"object":"ann","because":"x"}]}`,
		"two counts":                  begin + `"settled","key":"k","counts":[1,2]}`,
		"four counts":                 begin + `"settled","key":"k","counts":[1,2,3,4]}`,
	} {
		ev := Event{Number: 3}
		if err := json.Unmarshal([]byte(text), &ev); !errors.Is(err, errs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(ev, Event{Number: 3}) {
			t.Errorf("%s: it became %+v", name, ev)
		}
	}
	ev := Event{Number: 3}
	if err := json.Unmarshal([]byte("null"), &ev); err != nil || ev.Number != 3 {
		t.Errorf("null: %+v, %v", ev, err)
	}
}

// The zero event, which comes with errors, has no kind and no object.
func TestEvent_Zero_HasNoKindAndNoObject(t *testing.T) {
	var ev Event
	if text, err := json.Marshal(ev); ev.Kind() != "" || ev.Object() != "" || err != nil || string(text) != `{"event":0,"time":"0001-01-01T00:00:00Z","kind":""}` {
		t.Errorf("%q, %q, %s, %v", ev.Kind(), ev.Object(), text, err)
	}
}
