package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/store/storetest"
	"github.com/sluicedp/sluice/rrchain"
)

// Invariant 6: the truth is in no file, log line, error text, metric or receipt. Refusals and error
// kinds never depend on it.

// The strongest form: if the responses come out equal, everything stored is equal, whatever the
// truths were.
func TestWhatIsStoredFollowsFromTheResponsesAlone(t *testing.T) {
	history := func(truth func(name string) string) []pair {
		s := &storetest.Memory{}
		begin(t, s)
		l := openMemory(t, s, Options{Now: epoch})
		l.sampler = uniformSampler(3) // no response depends on the truth
		voters(t, l, "3", "ann", "bob", "cid")
		ask := func(_ context.Context, _ string, objects []string) (values []string, err error) {
			for _, name := range objects {
				values = append(values, truth(name))
			}
			return values, nil
		}
		for i, epsilon := range []string{"0.5", "2", "1", "0.25", "2.5"} {
			r := order(t, fmt.Sprint(i), epsilon)
			r.Truth = ask
			carryOut(t, l, r)
		}
		refused := order(t, "refused", "9")
		refused.Truth = ask
		_, err := l.Raise(t.Context(), refused)
		refusals(t, err)
		refused.Partial = true
		carryOut(t, l, refused)
		return pairs(t, s)
	}
	want := history(func(string) string { return "yes" })
	same(t, "stored for the truths no", history(func(string) string { return "no" }), want)
	same(t, "stored for mixed truths", history(func(name string) string {
		return vote().Values[len(name+"x")*int(name[0])%3]
	}), want)
}

// The file itself, free pages included: a label stands where the question is defined, and nowhere
// else, for a true value as for any other.
func TestNoLabelStandsInTheFileButInItsDefinition(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{TruthKey: []byte("0123456789abcdef")})
	q := Question{"vote", []string{"label-of-the-truth", "label-of-others-1", "label-of-others-2"}}
	define(t, l, q)
	enroll(t, l, "vote", "9", crowd(100)...)
	for i, epsilon := range []string{"0.5", "2", "1", "0.25", "8"} {
		r := order(t, fmt.Sprint(i), epsilon)
		r.Truth = TruthOf(q.Values[0])
		carryOut(t, l, r)
	}
	closed(t, l)
	file, err := os.ReadFile(path)
	must(t, err)
	definition := &encoder{}
	(&questionDefined{1, q.Name, q.Values}).encode(definition)
	if bytes.Count(file, definition.buf) < 2 {
		t.Error("the definition is not found where it must be: in its event and in its record")
	}
	rest := bytes.ReplaceAll(file, definition.buf, nil)
	for _, label := range q.Values {
		if n := bytes.Count(rest, []byte(label)); n != 0 {
			t.Errorf("%q stands %d times outside its definition", label, n)
		}
	}
}

// secret is a question whose labels are told apart from everything else in a text.
func secret() Question {
	return Question{"secret", []string{"zwölf-Zitronen", "vier-Feigen"}}
}

func mentionsSecret(text string) bool {
	for _, label := range secret().Values {
		if strings.Contains(text, label) || strings.Contains(text, strings.Trim(fmt.Sprintf("%+q", label), `"`)) {
			return true
		}
	}
	return strings.Contains(text, "acht-Birnen")
}

// Every way to fail that has a truth at hand, with all log lines and all error texts.
func TestNoLogLineOrErrorNamesATruth(t *testing.T) {
	var log bytes.Buffer
	path := create(t)
	options := Options{Logger: zerolog.New(&log).Level(zerolog.TraceLevel), TruthKey: []byte("0123456789abcdef")}
	l, s := openShim(t, path, options)
	define(t, l, secret())
	enroll(t, l, "secret", "1", "ann", "bob")
	raise := func(key, epsilon string, truth TruthFunc) error {
		_, err := l.Raise(t.Context(), RaiseRequest{Key: key, Question: "secret", Epsilon: eps(t, epsilon), All: true, Truth: truth})
		return err
	}
	yes := TruthOf(secret().Values[0])
	must(t, raise("first", "0.5", yes))
	for name, call := range map[string]func() error{
		"unknown label": func() error { return raise("a", "0.6", TruthOf("acht-Birnen")) },
		"too few":       func() error { return raise("b", "0.6", listOf(secret().Values[0])) },
		"too many": func() error {
			return raise("c", "0.6", listOf(secret().Values[0], secret().Values[1], secret().Values[0]))
		},
		"over the cap":  func() error { return raise("d", "2", yes) },
		"no truth":      func() error { return raise("e", "0.6", TruthOf("")) },
		"another truth": func() error { return raise("f", "0.6", TruthOf(secret().Values[1])) },
		"one of two":    func() error { return raise("g", "0.6", listOf(secret().Values[0], "")) },
		"other request": func() error { return raise("first", "0.6", yes) },
		"failing source": func() error {
			return raise("h", "0.6", func(context.Context, string, []string) ([]string, error) { return secret().Values, errDisk })
		},
		"failing disk": func() error {
			s.set(failing, nil)
			defer s.set(nil, nil)
			return raise("i", "0.6", yes)
		},
	} {
		err := call()
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if mentionsSecret(err.Error()) {
			t.Errorf("%s: the error names a value: %v", name, err)
		}
	}
	must(t, raise("last", "0.6", yes))
	if log.Len() == 0 || mentionsSecret(log.String()) {
		t.Errorf("the log says\n%s", log.String())
	}
}

func listOf(values ...string) TruthFunc {
	return func(context.Context, string, []string) ([]string, error) { return values, nil }
}

// A draw that cannot be made says so without the value it could not be made for.
func TestABrokenChainDoesNotTellTheTruth(t *testing.T) {
	s := &storetest.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{})
	define(t, l, secret())
	enroll(t, l, "secret", "9", "ann")
	broken := chain{enrolled: 4, levels: []level{{rrchain.Level{Epsilon: eps(t, "1"), Response: 7}, 5}}} // of 2 values
	putRecord(t, s, bucketChains, chainKey(1, "ann"), broken.encode())
	_, err := l.Release(t.Context(), ReleaseRequest{Key: "k", Question: "secret", Object: "ann", Epsilon: eps(t, "2"), Truth: TruthOf(secret().Values[0])})
	wantErr(t, err, ErrCorrupt)
	if err != nil && mentionsSecret(err.Error()) {
		t.Error(err)
	}
}

// The same refusals for every truth, word for word.
func TestRefusalsDoNotDependOnTheTruth(t *testing.T) {
	outcome := func(truth string) (all []error) {
		l := voters(t, inMemory(t, Options{Now: epoch}), "1", "ann", "bob")
		l.sampler = uniformSampler(5)
		carryOut(t, l, withTruth(order(t, "0", "0.5"), truth))
		for i, r := range []RaiseRequest{
			order(t, "1", "1.5"), order(t, "2", "0.75", "ann", "zoe"), order(t, "3", "1000", "bob"), order(t, "0", "0.75"),
		} {
			_, err := l.Raise(t.Context(), withTruth(r, truth))
			if err == nil {
				t.Errorf("request %d was not refused", i)
			}
			all = append(all, err)
		}
		return all
	}
	want := outcome("yes")
	for _, truth := range vote().Values {
		if got := outcome(truth); !reflect.DeepEqual(got, want) {
			t.Errorf("with the truth %s: %v, want %v", truth, got, want)
		}
	}
}

func withTruth(r RaiseRequest, truth string) RaiseRequest {
	r.Truth = TruthOf(truth)
	return r
}

// The host's own error comes back as it is, so that the host can recognize it.
func TestTheErrorOfTheTruthSourceIsPassedOn(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", "ann")
	unchanged(t, l.store, func() {
		r := sale(t, "k", "ann", "0.5")
		r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, errDisk }
		_, err := l.Release(t.Context(), r)
		wantErr(t, err, errDisk)
		if errors.Is(err, ErrInvalid) {
			t.Error("the host's failure is called an invalid request")
		}
	})
}

// A raise forgets the truths it was told.
func TestTruthsAreForgotten(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", "ann")
	x, err := l.newRaise(t.Context(), withTruth(order(t, "k", "0.5"), "no"))
	must(t, err)
	_, err = x.run(t.Context())
	must(t, err)
	for _, number := range x.truths[:cap(x.truths)] {
		if number != 0 {
			t.Errorf("a truth is still there: %d", number)
		}
	}
}
