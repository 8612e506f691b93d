package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/policy"
)

// The golden file of events in words: hosts keep what they read, and scripts take it apart. See golden_test.go.

// inWords returns the log of a store as JSON, one event a line, as the command prints it.
func inWords(t testing.TB, s kv.Store) string {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for _, ev := range events(t, openMemory(t, s, Options{TruthKey: hostKeyOf(t, s), Now: lateInMarch})) {
		must(t, encoder.Encode(ev))
	}
	return out.String()
}

// hostKeyOf returns the truth key if the log of a store has one.
func hostKeyOf(t testing.TB, s kv.Store) []byte {
	t.Helper()
	if !slices.ContainsFunc(logOf(t, pairs(t, s)), func(ev event.Event) bool { return ev.Change.Kind() == event.KindTruthKey }) {
		return nil
	}
	return truthKey()
}

// lateInMarch is after all that the golden ledgers tell.
func lateInMarch() time.Time { return epoch().Add(20 * 24 * time.Hour) }

// tellOddly adds to the golden ledger of mechanisms what JSON writes in several ways, and what costs nothing.
func tellOddly(t testing.TB, s kv.Store) {
	t.Helper()
	tellOfMechanisms(t, s)
	l := openMemory(t, s, Options{Now: lateInMarch})
	l.engine.Chances.Sampler, l.engine.Salts = steadySampler(), steadySalts(1000)
	define(t, l, api.Question{Name: "a<b> & c", Values: []string{"<yes>", "\"no\" & 'never'"}, Encoding: "direct"})
	enrollUnder(t, l, "a<b> & c", market(t, "2", func(*policy.Market) {}), "9", "R&D <1>", "b\\c")
	r := purchase(t, "<order & key>", "buyer & <sons>", "1", "R&D <1>", "stranger <&>")
	r.Question, r.Truth, r.Partial = "a<b> & c", sameTruth("<yes>"), true
	sell(t, l, r)
	again := purchase(t, "for nothing", "buyer & <sons>", "0.5", "R&D <1>")
	again.Question = "a<b> & c"
	sell(t, l, again)
}

// forgetAll forgets everybody whom the log of a store names.
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

// Every kind of event, whole and erased, is printed as it always was, to the byte.
func TestGoldenEvents(t *testing.T) {
	text, whole, erased := "", map[event.Kind]bool{}, map[event.Kind]bool{}
	look := func(s kv.Store) {
		text += inWords(t, s)
		for _, ev := range logOf(t, pairs(t, s)) {
			_, personal := ev.Change.(event.Personal)
			k := ev.Change.Kind()
			whole[k], erased[k] = whole[k] || ev.Erased == nil, erased[k] || ev.Erased != nil || !personal
		}
	}
	for _, begin := range []func(kv.Store){func(s kv.Store) { tell(t, s) }, func(s kv.Store) { tellOddly(t, s) }} {
		memory := &kv.Memory{}
		begin(memory)
		look(memory)
		forgetAll(t, memory)
		look(memory)
	}
	golden(t, "events.jsonl", text)
	for k := event.KindCreated; !strings.HasPrefix(k.String(), "kind "); k++ {
		check.That(t, whole[k] && erased[k], "the file has no event of the kind %s, or none that is erased", k)
	}
}
