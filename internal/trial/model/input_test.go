package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// mostOfAName is how many bytes a name may have.
const mostOfAName = 256

// Invariant 11 for what callers pass in: absurd names and sizes give ErrInvalid, and change nothing.

func goodNames() []string {
	return []string{"a", strings.Repeat("a", mostOfAName), strings.Repeat("é", mostOfAName/2), "null", `"`, `\`, "'; DROP TABLE objects; --", "../../etc/passwd", "q", "n"}
}

func badNames() []string {
	return []string{"", " ", "\u00a0", "\U0010ffff", strings.Repeat("a", mostOfAName+1), strings.Repeat("é", mostOfAName/2) + "x", "a\x00", "\x00", "a\nb", "\t", "\x1b[31m", "\x7f", "\u0085", "\xff", "a\xc3", "\xed\xa0\x80", strings.Repeat("x", 1<<20)}
}

// nameFields are the fields that take a name, each as a call that uses it.
func nameFields(t testing.TB, l Book) map[string]func(name string) error {
	ctx, n := t.Context(), 0
	fresh := func() string { n++; return fmt.Sprint("key ", n) }
	enroll := func(key, object string) error {
		_, err := l.Enroll(ctx, api.EnrollRequest{Key: key, Question: "vote", Objects: []string{object}, Cap: Boundless()})
		return err
	}
	define := func(key, name, value string) error {
		return l.DefineQuestion(ctx, key, api.Question{Name: name, Values: []string{"other", value}, Encoding: api.Direct})
	}
	return map[string]func(name string) error{
		"question":   func(name string) error { return define(fresh(), name, "a") },
		"value":      func(name string) error { return define(fresh(), fresh(), name) },
		"define key": func(name string) error { return define(name, fresh(), "a") },
		"object":     func(name string) error { return enroll(fresh(), name) },
		"enroll key": func(name string) error { return enroll(name, fresh()) },
		"raise key":  func(name string) error { _, err := l.Raise(ctx, Order(t, name, "0.5", "ann")); return err },
	}
}

func TestNames(t *testing.T) { Anywhere(t, testNames) }

func testNames(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "9", "ann")
	for field, use := range nameFields(t, l) {
		for _, name := range badNames() {
			Unchanged(t, l, func() {
				if err := use(name); !errors.Is(err, api.ErrInvalid) {
					t.Errorf("%s %.20q (%d bytes): got the error %v", field, name, len(name), err)
				} else if len(err.Error()) > 4096 {
					t.Errorf("%s: the error has %d bytes", field, len(err.Error()))
				}
			})
		}
		for _, name := range goodNames() {
			// A key that another field has used is as good a name as any.
			if err := use(name); err != nil && !errors.Is(err, api.ErrKeyConflict) {
				t.Errorf("%s %.20q (%d bytes): %v", field, name, len(name), err)
			}
		}
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Good names work all the way, next to each other.
func TestObjectsWithOddNamesAreToldApart(t *testing.T) {
	Anywhere(t, testObjectsWithOddNamesAreToldApart)
}

func testObjectsWithOddNamesAreToldApart(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "9", goodNames()...)
	for i, name := range goodNames() {
		r := Release(t, l, ReleaseOf(t, fmt.Sprint(i), name, fmt.Sprint("0.", i+1)))
		if o := ObjectOf(t, l, name); r.Object != name || len(o.Chains) != 1 || o.Spent != r.Epsilon {
			t.Errorf("%.20q: %+v, %+v", name, r, o)
		}
	}
	WantClean(t, l, api.VerifyRequest{})
}

func TestQuestionsNeedTwoDifferentValues(t *testing.T) {
	Anywhere(t, testQuestionsNeedTwoDifferentValues)
}

func testQuestionsNeedTwoDifferentValues(t *T) {
	l := Open(t, ledger.Options{})
	for name, values := range map[string][]string{
		"none": nil, "one": {"a"}, "twice": {"a", "b", "a"}, "empty": {"a", ""}, "too many": make([]string, 1<<20+1),
	} {
		Unchanged(t, l, func() {
			if err := l.DefineQuestion(t.Context(), "k", api.Question{Name: "q", Values: values}); !errors.Is(err, api.ErrInvalid) {
				t.Errorf("%s: got the error %v", name, err)
			}
		})
	}
	Must(t, l.DefineQuestion(t.Context(), "k", api.Question{Name: "q", Values: []string{"a", "A"}, Encoding: api.Direct}))
}

// A question of 70,000 values, such as postcodes, on disk and back; and the last of its values as a
// response.
func TestAQuestionOfManyValues(t *testing.T) { Anywhere(t, testAQuestionOfManyValues) }

func testAQuestionOfManyValues(t *T) {
	const many = 70_000
	values := make([]string, many)
	for i := range values {
		values[i] = fmt.Sprintf("postcode %d", i)
	}
	house := NewHouse(t)
	l := house.Open(t, ledger.Options{})
	q := api.Question{Name: "home", Values: values}
	Define(t, l, q)
	Enroll(t, l, "home", "1000", "ann")
	Must(t, l.Close())
	l = house.Open(t, ledger.Options{})
	all, err := l.Questions(t.Context())
	Must(t, err)
	if len(all) != 1 || !slices.Equal(all[0].Values, values) {
		t.Error("the question came back changed")
	}
	r := api.ReleaseRequest{Key: "k", Question: "home", Object: "ann", Epsilon: Eps(t, "1000"), Truth: SameTruth(values[many-1])}
	if got := Release(t, l, r); got.Value != values[many-1] { // any other value has a probability below 1e-400
		t.Errorf("got %q", got.Value)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// What the caller does with its list afterwards does not change a question.
func TestAQuestionIsTheLedgersOwnCopy(t *testing.T) {
	Anywhere(t, testAQuestionIsTheLedgersOwnCopy)
}

func testAQuestionIsTheLedgersOwnCopy(t *T) {
	l := Open(t, ledger.Options{})
	values := []string{"yes", "no"}
	Define(t, l, api.Question{Name: "q", Values: values})
	values[0] = "maybe"
	all, err := l.Questions(t.Context())
	Must(t, err)
	all[0].Values[1] = "never"
	Enroll(t, l, "q", "1000", "ann")
	r := api.ReleaseRequest{Key: "k", Question: "q", Object: "ann", Epsilon: Eps(t, "1000"), Truth: SameTruth("yes")}
	if got := Release(t, l, r); got.Value != "yes" {
		t.Errorf("got %q", got.Value)
	}
}
