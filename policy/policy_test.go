package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// all is a number of buyers that is not below the orders of any policy.
const all = math.MaxUint64

// eps parses an ε. It panics if the text is invalid.
func eps(text string) privacy.Epsilon {
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		panic(err)
	}
	return e
}

// at returns the instant a duration after the start of 2027.
func at(d time.Duration) time.Time { return time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).Add(d) }

func parsed(t testing.TB, text string) Policy {
	t.Helper()
	p, err := Parse([]byte(text))
	check.Need(t, err == nil, "%s: %v", text, err)
	return p
}

// must returns a function that returns a constructor's policy, and fails the test for an error.
func must(t testing.TB) func(Policy, error) Policy {
	return func(p Policy, err error) Policy {
		t.Helper()
		check.Must(t, err)
		return p
	}
}

// wantInvalid checks that a constructor returns errInvalid, with a text of one line that contains
// why.
func wantInvalid(t *testing.T, why string) func(Policy, error) {
	return func(p Policy, err error) {
		t.Helper()
		check.That(t, errors.Is(err, errInvalid) && p.IsZero() && strings.Contains(err.Error(), why) &&
			!strings.Contains(err.Error(), "\n"), "%v, %v; want an error with %q", p, err, why)
	}
}

// wantCeilings checks the ceiling after all orders at each instant.
func wantCeilings(t *testing.T, p Policy, want map[time.Time]string) {
	t.Helper()
	for when, ceiling := range want {
		got := p.Ceiling(when, all)
		check.That(t, got == eps(ceiling), "%v at %v: ceiling %v, want %v", p, when, got, ceiling)
	}
}

func TestFixed_CeilingIsConstant(t *testing.T) {
	p := Fixed(eps("2.5"))
	for _, when := range []time.Time{{}, time.Unix(0, 0), time.Unix(1<<40, 0)} {
		check.That(t, p.Ceiling(when, 0) == eps("2.5") && p.Ceiling(when, all) == eps("2.5") && p.Limit() == eps("2.5"),
			"at %v: ceiling %v, limit %v", when, p.Ceiling(when, 0), p.Limit())
	}
	check.That(t, !p.IsZero() && !Fixed(privacy.Epsilon{}).IsZero(),
		"IsZero is wrong: only the zero value is no policy")
	check.That(t, p.Releases(at(0), all) == nil && p.Terms() == nil,
		"a fixed policy releases nothing by itself and sells nothing")
}

func TestPolicy_ZeroValue_AllowsNothing(t *testing.T) {
	var p Policy
	check.That(t, p.IsZero() && p.String() == "" && p.Ceiling(at(0), all).IsZero() && p.Limit().IsZero() &&
		p.Releases(at(0), all) == nil && p.Terms() == nil, "the zero value allows something")
	check.That(t, p.Equal(Policy{}) && !p.Equal(Fixed(privacy.Epsilon{})), "only the zero value equals it")
}

// canonicalForms has a policy of each kind, and with each optional field.
var canonicalForms = []string{
	`{"kind":"fixed","ceiling":"2"}`,
	`{"kind":"linear","from":"0.1","to":"1","start":"2027-01-01T00:00:00Z","end":"2028-01-01T00:00:00.00000001Z","stride":"0.1"}`,
	`{"kind":"steps","steps":[["1970-01-01T00:00:00Z","0.5"],["2261-12-31T23:59:59.999999999Z","1"]]}`,
	`{"kind":"halving","from":"0","limit":"2","start":"2027-01-01T00:00:00Z","half_life":"720h0m0s","stride":"0.1"}`,
	`{"kind":"noisy-sampling","eps_alpha":"1","eps_beta":"0.5","start":"2027-01-01T00:00:00Z","period":"1.5s","rounds":10}`,
	`{"kind":"unlock","total":"1","orders":100}`,
	`{"kind":"min","of":[{"kind":"unlock","total":"1","orders":100},{"kind":"fixed","ceiling":"0.5"}]}`,
	`{"kind":"sum","of":[{"kind":"min","of":[{"kind":"fixed","ceiling":"3"}]},{"kind":"fixed","ceiling":"0.5"}]}`,
	`{"kind":"market","max":"1","price":[["0",5],["1.5",180]]}`,
	`{"kind":"market","max":"1","price":[["1",180]],"levels":["0.25","1"],"holders":1}`,
	`{"kind":"market","max":"1","price":[["0.5",100],["1",180]],"stride":"0.1","floor":10,"buyers":["acme","zeta"],"barred":["a\u003cb"],"from":"2027-01-01T00:00:00Z","until":"2028-01-01T00:00:00Z","holders":3}`,
	`{"kind":"market","max":"1","price":[["1",1000000000000]],"from":"1970-01-01T00:00:00Z"}`,
	`{"kind":"market","max":"1","price":[["1",0]],"until":"2027-01-01T00:00:00Z"}`,
	`{"kind":"min","of":[{"kind":"market","max":"1","price":[["1",1]]},{"kind":"steps","steps":[["2027-01-01T00:00:00Z","0.5"]]}]}`,
}

func TestString_CanonicalForm_ParsesBack(t *testing.T) {
	seen := map[string]bool{}
	for _, text := range canonicalForms {
		p := parsed(t, text)
		check.That(t, p.String() == text && p.Equal(parsed(t, p.String())), "%s prints as %s", text, p)
		out, err := json.Marshal(p)
		check.That(t, err == nil && string(out) == text, "%s marshals as %s, %v", text, out, err)
		for _, k := range kinds() {
			seen[k.kind()] = seen[k.kind()] || strings.HasPrefix(text, fmt.Sprintf(`{"kind":%q,`, k.kind()))
		}
	}
	for kind, ok := range seen {
		check.That(t, ok, "no canonical form of kind %q is tested", kind)
	}
}

func TestParse_OtherSpellings_BecomeCanonical(t *testing.T) {
	for other, canonical := range map[string]string{
		" { \"ceiling\" : \"2.000\" , \"kind\":\"fixed\" }\n":                                                                              `{"kind":"fixed","ceiling":"2"}`,
		`{"kind":"steps","steps":[ [ "2027-01-01T02:00:00.5000+02:00" , "5e-1" ] ]}`:                                                       `{"kind":"steps","steps":[["2027-01-01T00:00:00.5Z","0.5"]]}`,
		`{"kind":"noisy-sampling","eps_alpha":"1","eps_beta":"1","rounds": 1 ,"period":"1.5h","start":"2027-01-01T00:00:00+00:00"}`:        `{"kind":"noisy-sampling","eps_alpha":"1","eps_beta":"1","start":"2027-01-01T00:00:00Z","period":"1h30m0s","rounds":1}`,
		`{"kind":"noisy-sampling","eps_alpha":"1","eps_beta":"1","rounds":1,"period":"1m.5s2.5ms1.5us3ns","start":"2027-01-01T00:00:00Z"}`: `{"kind":"noisy-sampling","eps_alpha":"1","eps_beta":"1","start":"2027-01-01T00:00:00Z","period":"1m0.502501503s","rounds":1}`,
		`{"kind":"market","max":"1","price":[["0",0],["1",7]],"floor":0,"buyers":["b","a"]}`:                                               `{"kind":"market","max":"1","price":[["1",7]],"buyers":["a","b"]}`,
	} {
		p := parsed(t, other)
		check.That(t, p.String() == canonical, "%s became %s", other, p)
	}
}

func TestUnmarshalJSON_InsideStruct_ReadsPolicy(t *testing.T) {
	const canonical = `{"kind":"fixed","ceiling":"2"}`
	p := Fixed(eps("2"))
	var holder struct{ P, None Policy }
	err := json.Unmarshal([]byte(`{"P":`+canonical+`}`), &holder)
	check.That(t, err == nil && holder.P.Equal(p), "%v, %v", holder.P, err)
	out, err := json.Marshal(holder)
	check.That(t, err == nil && string(out) == `{"P":`+canonical+`,"None":null}`, "%s, %v", out, err)
	if err := json.Unmarshal([]byte(`{"kind":"none"}`), &p); !errors.Is(err, errInvalid) || !p.Equal(Fixed(eps("2"))) {
		t.Errorf("a refused text changed the policy to %v (%v)", p, err)
	}
}

// nested wraps the JSON of a policy in a number of nested mins.
func nested(levels int, inner string) string {
	return strings.Repeat(`{"kind":"min","of":[`, levels) + inner + strings.Repeat("]}", levels)
}

// list repeats an element with commas.
func list(n int, element string) string {
	return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
}

const (
	marketHead = `{"kind":"market","max":"1",`
	linearHead = `{"kind":"linear","from":"0","to":"1","stride":"0.1",`
	noisyHead  = `{"kind":"noisy-sampling","eps_alpha":"1","eps_beta":"1","start":"2027-01-01T00:00:00Z",`
	stepsHead  = `{"kind":"steps","steps":`
	anUnlock   = `{"kind":"unlock","total":"1","orders":1}`
	aMarket    = marketHead + `"price":[["1",1]]}`
)

func TestParse_InvalidText_IsRefused(t *testing.T) {
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
		`{"kind":null}`:                  `"kind"`,
		`{"Kind":"fixed","ceiling":"1"}`: `"kind" is missing`,
		`{"kind":"fixed","ceiling":"1","ceiling":"99"}`: "given twice",
		`{"kind":"fixed","ceiling":"1","Ceiling":"99"}`: "unknown field",
		`{"kind":"fixed","ceiling":"1","extra":0}`:      "unknown field",
		`{"kind":"fixed","ceiling":1}`:                  "JSON string",
		`{"kind":"fixed","ceiling":null}`:               "JSON string",
		`{"kind":"fixed","ceiling":"-1"}`:               "sign",
		`{"kind":"fixed","ceiling":"1001"}`:             "above 1000",
		`{"kind":"fixed","ceiling":"1"} {}`:             "text after",
		"{\"kind\":\"fixed\",\"ceiling\":\"1\xff\"}":    "UTF-8",
		strings.Repeat(" ", maxJSON+1):                  "bytes of JSON",

		linearHead + `"start":"2027-01-01T00:00:00Z"}`:                                         `"end" is missing`,
		linearHead + `"start":"2027-01-01T00:00:00Z","end":7}`:                                 "JSON string",
		linearHead + `"start":"2027-01-01T00:00:00Z","end":null}`:                              "JSON string",
		linearHead + `"start":"2027-01-01","end":"2028-01-01T00:00:00Z"}`:                      "not a time",
		linearHead + `"start":"2027-01-01T0:00:00Z","end":"2028-01-01T00:00:00Z"}`:             "RFC 3339",
		linearHead + `"start":"2027-01-01T00:00:00,5Z","end":"2028-01-01T00:00:00Z"}`:          "RFC 3339",
		linearHead + `"start":"2027-01-01T00:00:00.0000000001Z","end":"2028-01-01T00:00:00Z"}`: "9 decimals",
		linearHead + `"start":"2027-01-01T00:00:00+01:60","end":"2028-01-01T00:00:00Z"}`:       "RFC 3339",
		linearHead + `"start":"2027-01-01T00:00:00+24:00","end":"2028-01-01T00:00:00Z"}`:       "RFC 3339",
		linearHead + `"start":"2027-01-01T00:00:00-24:00","end":"2028-01-01T00:00:00Z"}`:       "RFC 3339",
		linearHead + `"start":"1969-12-31T23:59:59.999999999Z","end":"2028-01-01T00:00:00Z"}`:  "start is not a time from 1970",
		linearHead + `"start":"2027-01-01T00:00:00Z","end":"2262-01-01T00:00:00Z"}`:            "end is not a time from 1970 to 2261",
		linearHead + `"start":"0000-01-01T00:00:00Z","end":"9999-01-01T00:00:00Z"}`:            "start is not a time",
		linearHead + `"start":"2027-01-01T00:00:00Z","end":"2027-01-01T00:00:00Z"}`:            "not before end",

		stepsHead + `[]}`:                                                   "list of steps is empty",
		stepsHead + `null}`:                                                 "JSON list",
		stepsHead + `{}}`:                                                   "JSON list",
		stepsHead + `[["2027-01-01T00:00:00Z"]]}`:                           "list of two",
		stepsHead + `[["2027-01-01T00:00:00Z","1",2]]}`:                     "list of two",
		stepsHead + `[{"at":1}]}`:                                           "list of two",
		stepsHead + `[["1","2027-01-01T00:00:00Z"]]}`:                       "not a time",
		stepsHead + `[["2027-01-01T00:00:00Z","x"]]}`:                       "invalid epsilon",
		stepsHead + `[["2027-01-01T00:00:00Z","0"]]}`:                       "does not rise",
		stepsHead + `[` + list(1025, `["2027-01-01T00:00:00Z","1"]`) + `]}`: "do not rise",

		noisyHead + `"period":"24h"}`:                                            `"rounds" is missing`,
		noisyHead + `"period":"24h","rounds":0}`:                                 "0 rounds",
		noisyHead + `"period":"24h","rounds":1025}`:                              "1025 rounds",
		noisyHead + `"period":"24h","rounds":1e1}`:                               "written in digits",
		noisyHead + `"period":"24h","rounds":1.0}`:                               "written in digits",
		noisyHead + `"period":"24h","rounds":-1}`:                                "written in digits",
		noisyHead + `"period":"24h","rounds":-0}`:                                "written in digits",
		noisyHead + `"period":"24h","rounds":"1"}`:                               "written in digits",
		noisyHead + `"period":"24h","rounds":null}`:                              "written in digits",
		noisyHead + `"period":"24h","rounds":9223372036854775808}`:               "written in digits",
		noisyHead + `"period":24,"rounds":1}`:                                    "JSON string",
		noisyHead + `"period":"day","rounds":1}`:                                 "not a duration",
		noisyHead + `"period":"","rounds":1}`:                                    "not a duration",
		noisyHead + `"period":"-1h","rounds":1}`:                                 "not a duration",
		noisyHead + `"period":"-0","rounds":1}`:                                  "not a duration",
		noisyHead + `"period":"+1h","rounds":1}`:                                 "not a duration",
		noisyHead + `"period":"0s","rounds":1}`:                                  "period is not above 0",
		noisyHead + `"period":"0","rounds":1}`:                                   "period is not above 0",
		noisyHead + `"period":"1.5ns","rounds":1}`:                               "whole number of nanoseconds",
		noisyHead + `"period":"0.0000000005s","rounds":1}`:                       "whole number of nanoseconds",
		noisyHead + `"period":"1h` + strings.Repeat("0", 64) + `1s","rounds":1}`: "not a duration",
		noisyHead + `"period":"2562047h","rounds":2}`:                            "after 2261",

		`{"kind":"unlock","total":"1","orders":0}`:          "0 orders",
		`{"kind":"unlock","total":"1","orders":1000000001}`: "orders",
		`{"kind":"unlock","total":"0","orders":1}`:          "total is 0",

		`{"kind":"min","of":[]}`:                                                                           "0 parts; 1 to 16 are allowed",
		`{"kind":"min","of":{}}`:                                                                           "JSON list",
		`{"kind":"min","of":[null]}`:                                                                       "part 1: not a JSON object",
		`{"kind":"min","of":[{"kind":"x"}]}`:                                                               `part 1: unknown kind "x"`,
		`{"kind":"sum","of":[` + anUnlock + `,{"kind":"unlock"}]}`:                                         `part 2: kind "unlock"`,
		`{"kind":"sum","of":[` + list(17, "null") + `]}`:                                                   "17 parts", // before any is read
		`{"kind":"sum","of":[` + list(17, anUnlock) + `]}`:                                                 "17 parts",
		`{"kind":"sum","of":[` + aMarket + `]}`:                                                            "cannot be part of a sum",
		`{"kind":"sum","of":[` + nested(1, aMarket) + `]}`:                                                 "cannot be part of a sum",
		`{"kind":"min","of":[` + list(2, aMarket) + `]}`:                                                   "second market",
		`{"kind":"min","of":[` + list(2, nested(1, aMarket)) + `]}`:                                        "second market",
		`{"kind":"sum","of":[{"kind":"fixed","ceiling":"1000"},{"kind":"fixed","ceiling":"0.000000001"}]}`: "more than 1000",
		`{"kind":"min","of":[{"kind":"sum","of":[{"kind":"fixed","ceiling":"1000"},` + anUnlock + `]}]}`:   `part 1: kind "sum": the limits`,
		nested(8, anUnlock):                                                                                "nest deeper than 8",
		nested(2900, anUnlock):                                                                             "nest deeper than 8",
		`{"kind":"min","of":[` + list(16, `{"kind":"min","of":[`+list(15, anUnlock)+`]}`) + `]}`:           "more than 256 policies",

		marketHead + `"price":[]}`:                                                                     "price curve is empty",
		marketHead + `"price":[["0",0]]}`:                                                              "price curve is empty",
		marketHead + `"price":[["0",-1],["1",1]]}`:                                                     "written in digits",
		marketHead + `"price":[["1","10.50"]]}`:                                                        "amounts are in minor units; if the minor unit is a hundredth, write 1050",
		marketHead + `"price":[["1",10.50]]}`:                                                          "amounts are in minor units; if the minor unit is a hundredth, write 1050",
		marketHead + `"price":[["1",1]],"floor":0.07}`:                                                 "amounts are in minor units; if the minor unit is a hundredth, write 7",
		marketHead + `"price":[["1",1]],"floor":0.00}`:                                                 "amounts are in minor units; if the minor unit is a hundredth, write 0",
		marketHead + `"price":[["1",1]],"floor":1e9}`:                                                  "amounts are in minor units",
		marketHead + `"price":[["1",1e3]]}`:                                                            "written in digits",
		marketHead + `"price":[["1","1"]]}`:                                                            "written in digits",
		marketHead + `"price":[["1",1000000000001]]}`:                                                  "amount is 1000000000001",
		marketHead + `"price":[[1,1]]}`:                                                                "JSON string",
		marketHead + `"price":[["0.9",1]]}`:                                                            "below max",
		marketHead + `"price":[["0.5",2],["1",1]]}`:                                                    "price falls from 2",
		marketHead + `"price":[["0.5",1],["0.5",2],["1",3]]}`:                                          "does not rise above 0.5",
		marketHead + `"price":[["1",1]],"stride":"0"}`:                                                 "leave the field out",
		marketHead + `"price":[["1",1]],"stride":"1.1"}`:                                               "nothing is for sale",
		marketHead + `"price":[["1",1]],"floor":-5}`:                                                   "written in digits",
		marketHead + `"price":[["1",1]],"floor":1000000000001}`:                                        "floor is",
		marketHead + `"price":[["1",1]],"levels":[]}`:                                                  "leave the field out",
		marketHead + `"price":[["1",1]],"levels":["0"]}`:                                               "does not rise above 0",
		marketHead + `"price":[["1",1]],"levels":["0.5","0.4"]}`:                                       "does not rise above 0.5",
		marketHead + `"price":[["1",1]],"levels":["0.5","2"]}`:                                         "above max",
		marketHead + `"price":[["1",1]],"levels":[0.5]}`:                                               "JSON string",
		marketHead + `"price":[["1",1]],"levels":"1"}`:                                                 "JSON list",
		marketHead + `"price":[["1",1]],"stride":"0.5","levels":["1"]}`:                                "a stride and levels",
		marketHead + `"price":[["1",1]],"holders":2}`:                                                  "needs a stride or levels",
		marketHead + `"price":[["1",1]],"holders":0}`:                                                  "leave the field out",
		marketHead + `"price":[["1",1]],"holders":1000000001}`:                                         "holders",
		marketHead + `"price":[["1",1]],"buyers":[]}`:                                                  "leave the field out",
		marketHead + `"price":[["1",1]],"buyers":null}`:                                                "JSON list",
		marketHead + `"price":[["1",1]],"buyers":[7]}`:                                                 "JSON string",
		marketHead + `"price":[["1",1]],"buyers":["a","b","a"]}`:                                       `"a" is given twice`,
		marketHead + `"price":[["1",1]],"buyers":[""]}`:                                                "is empty",
		marketHead + `"price":[["1",1]],"barred":["a\u0000b"]}`:                                        "control character",
		marketHead + `"price":[["1",1]],"barred":["\ud800"]}`:                                          "U+FFFD",
		marketHead + `"price":[["1",1]],"barred":["` + strings.Repeat("x", 257) + `"]}`:                "more than 256 bytes",
		marketHead + `"price":[["1",1]],"buyers":["a"],"barred":["b","a"]}`:                            "both allowed and barred",
		marketHead + `"price":[["1",1]],"from":"2027-01-01T00:00:00Z","until":"2027-01-01T00:00:00Z"}`: "not before until",
		marketHead + `"price":[["1",1]],"from":"1969-01-01T00:00:00Z"}`:                                "from is not a time",
		marketHead + `"price":[["1",1]],"until":"2262-01-01T00:00:00Z"}`:                               "until is not a time",
		`{"kind":"market","max":"0","price":[["1",1]]}`:                                                "max is 0",
		hugeCanonical(): "canonical form",
	} {
		p, err := Parse([]byte(text))
		check.That(t, errors.Is(err, errInvalid) && p.IsZero() && strings.Contains(err.Error(), why) &&
			len(err.Error()) <= 600, "Parse(%.120q) = %v, %v; want an error with %q", text, p, err, why)
	}
}

// Only an amount with two decimals suggests that hundredths are meant.
func TestParse_AmountWithoutTwoDecimals_ProposesNoAmount(t *testing.T) {
	for _, amount := range []string{`1.5`, `"1.5"`, `1.505`, `"1"`, `"1."`, `"a.50"`, `-1.50`, `1e2`} {
		_, err := Parse([]byte(marketHead + `"price":[["1",` + amount + `]]}`))
		check.That(t, errors.Is(err, errInvalid) && strings.HasSuffix(err.Error(), "amounts are in minor units"),
			"a price of %s: %v, want an error that proposes no amount", amount, err)
	}
}

// hugeCanonical returns a text within the size limit whose canonical form is not, because "<" takes
// six bytes there.
func hugeCanonical() string {
	var buyers []string
	for i := range 200 {
		buyers = append(buyers, fmt.Sprintf(`"%d%s"`, i, strings.Repeat("<", 250)))
	}
	return marketHead + `"price":[["1",1]],"buyers":[` + strings.Join(buyers, ",") + `]}`
}

// A short text that describes more than maxSteps steps is refused before the steps are computed.
func TestParse_TooManySteps_IsRefusedCheaply(t *testing.T) {
	const times = `"start":"1970-01-01T00:00:00Z","end":"2261-01-01T00:00:00Z"}`
	whole := noisyHead + `"period":"1h","rounds":1024}`
	for _, text := range []string{
		`{"kind":"linear","from":"0","to":"1000","stride":"0.000000001",` + times,
		`{"kind":"linear","from":"0","to":"1","stride":"0.0009",` + times,
		`{"kind":"halving","from":"0","limit":"1000","start":"1970-01-01T00:00:00Z","half_life":"1h","stride":"0.000000001"}`,
		`{"kind":"min","of":[` + list(2, whole) + `]}`,
		`{"kind":"min","of":[` + list(16, `{"kind":"min","of":[`+list(2, whole)+`]}`) + `]}`,
	} {
		p, err := Parse([]byte(text))
		check.That(t, errors.Is(err, errInvalid) && strings.Contains(err.Error(), "1024 steps") && p.IsZero(),
			"%.100s: %v, %v", text, p, err)
		// Computing the line of a single part would allocate more than this.
		n := testing.AllocsPerRun(1, func() { _, _ = Parse([]byte(text)) })
		check.That(t, n <= 200*float64(strings.Count(text, "kind")), "%.100s: refused after %v allocations", text, n)
	}
}

// Composing and reading one policy concurrently must be free of races, which the race detector
// checks.
func TestPolicy_ConcurrentUse_HasNoRace(t *testing.T) {
	p := parsed(t, canonicalForms[3])
	none := Fixed(privacy.Epsilon{}) // its line is empty
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if q, err := Sum(p, none); err != nil || q.Limit() != p.Limit() || q.Ceiling(at(0), 0) != p.Ceiling(at(0), 0) {
				t.Errorf("%v, %v", q, err)
			}
		})
	}
	group.Wait()
}

func FuzzParse(f *testing.F) {
	for _, text := range canonicalForms {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"kind":"fixed","ceiling":"1","ceiling":"2"}`))
	f.Add([]byte(`{"kind":{}}`))
	f.Add([]byte(nested(7, aMarket)))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if err != nil {
			check.Need(t, errors.Is(err, errInvalid), "untyped error %v", err)
			return
		}
		again, err := Parse([]byte(p.String()))
		check.Need(t, err == nil && again.String() == p.String() && again.Equal(p) && again.Limit() == p.Limit(),
			"%s reads back as %v, %v", p, again, err)
		checkPolicy(t, p)
	})
}

// Policies come from files and requests. The memory to parse a text is proportional to its length,
// for any nesting.
func TestParse_HostileText_TakesMemoryLinearInText(t *testing.T) {
	const size, fixed, times = 1 << 20, 256 << 10, 60
	fill := func(begin, item, end string) string { return begin + strings.Repeat(item, size/len(item)) + end }
	for name, text := range map[string]string{
		"brackets":           fill("", "[", ""),
		"nested policies":    fill("", `{"kind":"min","of":[`, ""),
		"many policies":      fill(`{"kind":"sum","of":[{"kind":"fixed","ceiling":"1"}`, `,{"kind":"fixed","ceiling":"1"}`, "]}"),
		"empty policies":     fill(`{"kind":"sum","of":[{}`, ",{}", "]}"),
		"a long number":      fill(`{"kind":"fixed","ceiling":"`, "1", `"}`),
		"a large exponent":   `{"kind":"fixed","ceiling":"1e999999999"}`,
		"a small exponent":   `{"kind":"fixed","ceiling":"1e-999999999"}`,
		"a long kind":        fill(`{"kind":"`, "x", `"}`),
		"a field repeatedly": fill(`{"kind":"fixed"`, `,"kind":"fixed"`, "}"),
		"unknown fields":     fill(`{"kind":"fixed"`, `,"x":[]`, "}"),
		"steps":              fill(`{"kind":"steps","steps":[{}`, ",{}", "]}"),
		"white space":        fill("", " ", ""),
	} {
		var err error
		took := check.Allocated(func() { _, err = Parse([]byte(text)) })
		check.That(t, took <= fixed+times*uint64(len(text)), "%s: %d bytes take %d (%v)", name, len(text), took, err != nil)
	}
}
