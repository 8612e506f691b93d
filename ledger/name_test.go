package ledger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/internal/roster"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// faulty are names that look like others, with the byte at which the fault is.
func faulty() map[string]int {
	return map[string]int{
		"Rene\u0301":               3, // é of two characters
		"\u212bngstrom":            0, // the sign for Ångström
		"ac\u200bme":               2, // zero-width space
		"ac\u200dme":               2, // a joiner between letters that do not join
		"\u200cacme":               0,
		"acme\u200c":               4,
		"ac\u00adme":               2, // soft hyphen
		"\ufeffacme":               0,
		"acme\u202e":               4, // from right to left
		"ac\u2066me":               2,
		"ac\u061cme":               2,
		"ac\ufe0fme":               2, // variation selectors
		"ac\U000e0101me":           2,
		"ac\u034fme":               2,
		"ac\u3164me":               2, // a filler, which is a letter
		"ac\u2028me":               2,
		"acme\ufffd":               4,
		"\u0645\u06cc\u200d\u062e": 4, // a joiner where the letters join anyway
	}
}

// faultless are names that need what looks like a fault, or look odd for other reasons.
func faultless() []string {
	return []string{
		"René", "Ångström", "Дарья", "日本語", "नमस्ते", "a b", "\u00a0", "O'Neill", "😀",
		"\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", // Persian, with a non-joiner
		"\u0d9a\u0dca\u200d\u0dbb",                         // Sinhala, with a joiner behind a virama
		"\u0915\u094d\u200c\u0937",                         // Devanagari, with a non-joiner behind one
	}
}

func TestWhatMayBeANewName(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann")
	use := map[string]func(name string) error{
		"object": func(name string) error {
			_, err := l.Enroll(t.Context(), EnrollRequest{Key: "e" + name, Question: "vote", Objects: []string{name}, Cap: eps(t, "1")})
			return err
		},
		"buyer": func(name string) error {
			_, err := l.Quote(t.Context(), purchase(t, "", name, "0.5", "ann").Order)
			return err
		},
		"question": func(name string) error {
			return l.DefineQuestion(t.Context(), "q"+name, Question{Name: name, Values: []string{"a", "b"}})
		},
	}
	for what, use := range use {
		for name, at := range faulty() {
			unchanged(t, l.engine.Store, func() {
				var fault *NameError
				if err := use(name); !errors.As(err, &fault) || !errors.Is(err, ErrInvalid) || fault.What != what || fault.Name != name || fault.Offset != at {
					t.Errorf("%s %+q, at %d: %v", what, name, at, err)
				}
			})
		}
		for _, name := range faultless() {
			if err := use(name); err != nil {
				t.Errorf("%s %+q: %v", what, name, err)
			}
		}
	}
	for name := range faulty() { // also where somebody is only named
		if name == "acme\ufffd" {
			continue // no policy names it
		}
		for kind, call := range map[string]func() error{
			"raise": func() error { _, err := l.Raise(t.Context(), order(t, "r"+name, "0.5", name)); return err },
			"quote": func() error { _, err := l.Quote(t.Context(), purchase(t, "", "acme", "0.5", name).Order); return err },
			"answer": func() error {
				_, err := l.Answer(t.Context(), inquire(t, "a"+name, "winner", "0.5", ballots("ann"), name))
				return err
			},
			"release": func() error { _, err := l.Release(t.Context(), releaseOf(t, "s"+name, name, "0.5")); return err },
			"terms": func() error {
				p := market(t, "1", func(m *policy.Market) { m.Barred = []string{name} })
				_, err := l.Enroll(t.Context(), EnrollRequest{Key: "t" + name, Question: "vote", Objects: []string{"zoe"}, Policy: p, Cap: eps(t, "1")})
				return err
			},
		} {
			var fault *NameError
			if err := call(); !errors.As(err, &fault) {
				t.Errorf("%s %+q: %v", kind, name, err)
			}
		}
	}
}

// No log's soundness depends on a version of Unicode: what the door refuses today may be in a log, and is used by its name.
func TestALogMayHaveAnyNames(t *testing.T) {
	s := &kvtest.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{Now: epoch})
	define(t, l, vote())
	enrollUnder(t, l, "vote", market(t, "2"), "9", "ann")
	buyers := uint32(0)
	for name := range faulty() {
		buyers++
		put := func(key string, enrolls uint64, c event.Change) {
			_, _, err := l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
				end := &event.Settled{Key: key, Digest: [32]byte{1}, First: s.Counters.Events + 1, Through: s.Counters.Events, Final: true}
				end.Counts[roster.EnrolledNow] = enrolls
				return []event.Change{c, end}, nil
			})
			must(t, err)
		}
		put(fmt.Sprint("buyer ", buyers), 0, &event.BuyerNamed{Number: buyers, Name: name})
		put(fmt.Sprint("enrolled ", buyers), 1, &event.Enrolled{Object: name, Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "9")})
	}
	for name := range faulty() {
		sell(t, l, purchase(t, "s"+name, name, "0.5", name))
		release(t, l, releaseOf(t, "r"+name, name, "1"))
		must(t, l.Withdraw(t.Context(), "w"+name, name))
		must(t, l.Forget(t.Context(), "f"+name, name))
		if o := objectOf(t, l, name); o.Forgotten == 0 || o.Spent != eps(t, "1") {
			t.Errorf("%+q: %+v", name, o)
		}
	}
	auditStore(t, s)
}
