package policy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

func epsilon(t *testing.T, text string) privacy.Epsilon {
	t.Helper()
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestFixed(t *testing.T) {
	p := Fixed(epsilon(t, "2.5"))
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(1<<40, 0)} {
		if p.Ceiling(at) != epsilon(t, "2.5") || p.Limit() != epsilon(t, "2.5") {
			t.Errorf("at %v: ceiling %v, limit %v", at, p.Ceiling(at), p.Limit())
		}
	}
	if p.IsZero() || !(Policy{}).IsZero() || Fixed(privacy.Epsilon{}).IsZero() {
		t.Error("IsZero is wrong: only the zero value is no policy")
	}
}

func TestCanonicalForm(t *testing.T) {
	const canonical = `{"kind":"fixed","ceiling":"2"}`
	p, err := Parse([]byte(" { \"ceiling\" : \"2.000\" , \"kind\":\"fixed\" }\n"))
	if err != nil || p.String() != canonical || p != Fixed(epsilon(t, "2")) {
		t.Errorf("%v, %v", p, err)
	}
	var holder struct{ P, None Policy }
	if err := json.Unmarshal([]byte(`{"P":`+canonical+`}`), &holder); err != nil || holder.P != p {
		t.Errorf("%v, %v", holder.P, err)
	}
	if out, err := json.Marshal(holder); err != nil || string(out) != `{"P":`+canonical+`,"None":null}` {
		t.Errorf("%s, %v", out, err)
	}
	if (Policy{}).String() != "" {
		t.Error("the zero value prints something")
	}
}

func TestParseRefuses(t *testing.T) {
	for text, why := range map[string]string{
		``:                               "not a JSON object",
		`null`:                           "not a JSON object",
		`[1]`:                            "not a JSON object",
		`{}`:                             `"kind" is missing`,
		`{"kind"`:                        "broken JSON",
		`{"kind":"fixed","ceiling":"1"`:  "broken JSON",
		`{"kind":"fixed",3:"1"}`:         "broken JSON",
		`{"kind":"fixed"}`:               `"ceiling" is missing`,
		`{"kind":"FIXED","ceiling":"1"}`: "unknown kind",
		`{"kind":7}`:                     `"kind"`,
		`{"Kind":"fixed","ceiling":"1"}`: `"kind" is missing`,
		`{"kind":"fixed","ceiling":"1","ceiling":"99"}`: "given twice",
		`{"kind":"fixed","ceiling":"1","Ceiling":"99"}`: "unknown field",
		`{"kind":"fixed","ceiling":"1","extra":0}`:      "unknown field",
		`{"kind":"fixed","ceiling":1}`:                  "JSON string",
		`{"kind":"fixed","ceiling":null}`:               "JSON string",
		`{"kind":"fixed","ceiling":"-1"}`:               "sign",
		`{"kind":"fixed","ceiling":"1001"}`:             "above 1000",
		`{"kind":"fixed","ceiling":"1"} {}`:             "text after",
		strings.Repeat(" ", maxJSON+1):                  "bytes of JSON",
	} {
		p, err := Parse([]byte(text))
		if !errors.Is(err, ErrInvalid) || !p.IsZero() || !strings.Contains(err.Error(), why) {
			t.Errorf("Parse(%.60q) = %v, %v; want an error with %q", text, p, err, why)
		}
	}
	p := Fixed(epsilon(t, "1"))
	if err := json.Unmarshal([]byte(`{"kind":"none"}`), &p); !errors.Is(err, ErrInvalid) || p != Fixed(epsilon(t, "1")) {
		t.Errorf("a refused text changed the policy to %v (%v)", p, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"kind":"fixed","ceiling":"2"}`))
	f.Add([]byte(`{"kind":"fixed","ceiling":"1","ceiling":"2"}`))
	f.Add([]byte(`{"kind":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if again, err := Parse([]byte(p.String())); err != nil || again != p {
			t.Fatalf("%s reads back as %v, %v", p, again, err)
		}
	})
}
