package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/rrchain"
)

// Invariant 11 for what callers pass in: absurd names and sizes give ErrInvalid, and change nothing.

func goodNames() []string {
	return []string{"a", strings.Repeat("a", names.MaxBytes), strings.Repeat("é", names.MaxBytes/2), " ", "null", "\u00a0", "\U0010ffff", `"`, `\`, "'; DROP TABLE objects; --", "../../etc/passwd", "q", "n"}
}

func badNames() []string {
	return []string{"", strings.Repeat("a", names.MaxBytes+1), strings.Repeat("é", names.MaxBytes/2) + "x", "a\x00", "\x00", "a\nb", "\t", "\x1b[31m", "\x7f", "\u0085", "\xff", "a\xc3", "\xed\xa0\x80", strings.Repeat("x", 1<<20)}
}

// nameFields are the fields that take a name, each as a call that uses it.
func nameFields(t *testing.T, l *Ledger) map[string]func(name string) error {
	ctx, n := t.Context(), 0
	fresh := func() string { n++; return fmt.Sprint("key ", n) }
	enroll := func(key, object string) error {
		_, err := l.Enroll(ctx, EnrollRequest{Key: key, Question: "vote", Objects: []string{object}, Cap: boundless()})
		return err
	}
	define := func(key, name, value string) error {
		return l.DefineQuestion(ctx, key, Question{Name: name, Values: []string{"other", value}, Encoding: Direct})
	}
	return map[string]func(name string) error{
		"question":   func(name string) error { return define(fresh(), name, "a") },
		"value":      func(name string) error { return define(fresh(), fresh(), name) },
		"define key": func(name string) error { return define(name, fresh(), "a") },
		"object":     func(name string) error { return enroll(fresh(), name) },
		"enroll key": func(name string) error { return enroll(name, fresh()) },
		"raise key":  func(name string) error { _, err := l.Raise(ctx, order(t, name, "0.5", "ann")); return err },
	}
}

func TestNames(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann")
	for field, use := range nameFields(t, l) {
		for _, name := range badNames() {
			unchanged(t, l.engine.Store, func() {
				if err := use(name); !errors.Is(err, ErrInvalid) {
					t.Errorf("%s %.20q (%d bytes): got the error %v", field, name, len(name), err)
				} else if len(err.Error()) > 4096 {
					t.Errorf("%s: the error has %d bytes", field, len(err.Error()))
				}
			})
		}
		for _, name := range goodNames() {
			// A key that another field has used is as good a name as any.
			if err := use(name); err != nil && !errors.Is(err, ErrKeyConflict) {
				t.Errorf("%s %.20q (%d bytes): %v", field, name, len(name), err)
			}
		}
	}
	auditStore(t, l.engine.Store)
}

// Good names work all the way, next to each other.
func TestObjectsWithOddNamesAreToldApart(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", goodNames()...)
	for i, name := range goodNames() {
		r := release(t, l, releaseOf(t, fmt.Sprint(i), name, fmt.Sprint("0.", i+1)))
		if o := objectOf(t, l, name); r.Object != name || len(o.Chains) != 1 || o.Spent != r.Epsilon {
			t.Errorf("%.20q: %+v, %+v", name, r, o)
		}
	}
	auditStore(t, l.engine.Store)
}

func TestQuestionsNeedTwoDifferentValues(t *testing.T) {
	l := inMemory(t, Options{})
	for name, values := range map[string][]string{
		"none": nil, "one": {"a"}, "twice": {"a", "b", "a"}, "empty": {"a", ""}, "too many": make([]string, rrchain.MaxValues+1),
	} {
		unchanged(t, l.engine.Store, func() {
			if err := l.DefineQuestion(t.Context(), "k", Question{Name: "q", Values: values}); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: got the error %v", name, err)
			}
		})
	}
	must(t, l.DefineQuestion(t.Context(), "k", Question{Name: "q", Values: []string{"a", "A"}, Encoding: Direct}))
}

// A question of 70,000 values, such as postcodes, on disk and back; and the last of its values as a
// response.
func TestAQuestionOfManyValues(t *testing.T) {
	const many = 70_000
	values := make([]string, many)
	for i := range values {
		values[i] = fmt.Sprintf("postcode %d", i)
	}
	path := create(t)
	l := open(t, path, Options{})
	q := Question{Name: "home", Values: values}
	define(t, l, q)
	enroll(t, l, "home", "1000", "ann")
	closed(t, l)
	l = open(t, path, Options{})
	all, err := l.Questions(t.Context())
	must(t, err)
	if len(all) != 1 || !slices.Equal(all[0].Values, values) {
		t.Error("the question came back changed")
	}
	r := ReleaseRequest{Key: "k", Question: "home", Object: "ann", Epsilon: eps(t, "1000"), Truth: TruthOf(values[many-1])}
	if got := release(t, l, r); got.Value != values[many-1] { // any other value has a probability below 1e-400
		t.Errorf("got %q", got.Value)
	}
	auditStore(t, l.engine.Store)
}

// What the caller does with its list afterwards does not change a question.
func TestAQuestionIsTheLedgersOwnCopy(t *testing.T) {
	l := inMemory(t, Options{})
	values := []string{"yes", "no"}
	define(t, l, Question{Name: "q", Values: values})
	values[0] = "maybe"
	all, err := l.Questions(t.Context())
	must(t, err)
	all[0].Values[1] = "never"
	enroll(t, l, "q", "1000", "ann")
	r := ReleaseRequest{Key: "k", Question: "q", Object: "ann", Epsilon: eps(t, "1000"), Truth: TruthOf("yes")}
	if got := release(t, l, r); got.Value != "yes" {
		t.Errorf("got %q", got.Value)
	}
}
