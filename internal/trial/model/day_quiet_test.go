package model

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger"
	says "github.com/sluicedp/sluice/ledger/event"
)

// wantSameAsQuiet compares a ledger with that of the same day without a crash.
func wantSameAsQuiet(t *testing.T, rough *ledger.Ledger, told map[int]dayReply) {
	t.Helper()
	d, err := newDay(newFile(t))
	Must(t, err)
	defer d.ledger.Close()
	d.live(nil, func(quiet dayReply) {
		if got := told[quiet.N]; withoutResponses(t, got.Result) != withoutResponses(t, quiet.Result) || got.Err != quiet.Err {
			t.Errorf("call %d came to\n%s %s\nwithout a crash to\n%s %s", quiet.N, got.Result, got.Err, quiet.Result, quiet.Err)
		}
	})
	d.clock.Set(dawn().Add(dayCalls * time.Minute)) // as that of the other
	got, want := withoutTheirBirth(t, rough), withoutTheirBirth(t, d.ledger)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("event %d is\n%+v\nwithout a crash\n%+v", i+2, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
		}
	}
	for _, name := range Crowd(12) {
		a, err := json.Marshal(ObjectOf(t, rough, name))
		Must(t, err)
		b, err := json.Marshal(ObjectOf(t, d.ledger, name))
		Must(t, err)
		if withoutResponses(t, a) != withoutResponses(t, b) {
			t.Errorf("an object is\n%s\nwithout a crash\n%s", a, b)
		}
	}
	if a, b := BuyersOf(t, rough), BuyersOf(t, d.ledger); !reflect.DeepEqual(a, b) {
		t.Errorf("the buyers are %+v, without a crash %+v", a, b)
	}
	a, b := Stats(t, rough), Stats(t, d.ledger)
	if a.Bytes = b.Bytes; a != b {
		t.Errorf("%+v, without a crash %+v", a, b)
	}
}

// withoutTheirBirth returns the log behind its first event, which names the ledger, without responses.
func withoutTheirBirth(t *testing.T, l *ledger.Ledger) []says.Event {
	t.Helper()
	log := Events(t, l)[1:]
	for i := range log {
		log[i].Says = withoutChance(log[i].Says)
	}
	return log
}

// withoutChance returns a detail without its response, and without its policy, of which two equal ones need not be deeply equal.
func withoutChance(d says.Detail) says.Detail {
	switch d := d.(type) {
	case says.Released:
		d.Response = ""
		return d
	case says.Sold:
		d.Response = ""
		return d
	case says.Answered:
		d.Response = ""
		return d
	case says.PolicyDefined:
		return says.PolicyDefined{}
	case says.Enrolled:
		d.Policy = nil
		return d
	}
	return d
}

// withoutResponses blanks the responses in a JSON text.
func withoutResponses(t *testing.T, text []byte) string {
	t.Helper()
	if len(text) == 0 {
		return ""
	}
	var all any
	Must(t, json.Unmarshal(text, &all))
	var blank func(any)
	blank = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, is := v["response"]; is {
				v["response"] = "?"
			}
			for _, one := range v {
				blank(one)
			}
		case []any:
			for _, one := range v {
				blank(one)
			}
		}
	}
	blank(all)
	out, err := json.Marshal(all)
	Must(t, err)
	return string(out)
}
