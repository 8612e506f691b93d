package ledgertest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// exampleT is used in place of a test in an example.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (*exampleT) Helper()                      {}
func (*exampleT) Context() context.Context     { return context.Background() }
func (t *exampleT) Cleanup(f func())           { t.cleanups = append(t.cleanups, f) }
func (*exampleT) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }
func (*exampleT) Fatalf(text string, a ...any) { panic(fmt.Sprintf(text, a...)) }

// asTest runs a test in an example.
func asTest(test func(testing.TB)) {
	t := &exampleT{}
	test(t)
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func epsilon(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	e, err := privacy.ParseEpsilon(text)
	must(t, err)
	return e
}

// ask enrolls a person in the question, unless the person is enrolled, and releases a response.
func ask(t testing.TB, l *ledger.Ledger, name string) (api.Response, error) {
	t.Helper()
	must(t, l.DefineQuestion(t.Context(), "q", api.Question{Name: "vote", Values: []string{"yes", "no"}}))
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "e " + name, Question: "vote", Objects: []string{name}, Cap: epsilon(t, "9")})
	must(t, err)
	return l.Release(t.Context(), api.ReleaseRequest{Key: "r " + name, Question: "vote", Object: name, Epsilon: epsilon(t, "1"), Truth: api.TruthOf("yes")})
}

func wantEvents(t testing.TB, l *ledger.Ledger, want int) {
	t.Helper()
	s, err := l.Stats(t.Context())
	must(t, err)
	if s.Events != uint64(want) {
		t.Errorf("there are %d events, want %d", s.Events, want)
	}
}

func TestNew_Reopened_KeepsItsEvents(t *testing.T) {
	l := ledgertest.New(t)
	if about := l.About(); !about.Created.Equal(ledgertest.Begin()) || about.Currency != "USD" || about.LogKey != "" {
		t.Errorf("it is %+v", about)
	}
	before, err := ask(t, l.Ledger, "ann")
	must(t, err)
	l.Reopen()
	wantEvents(t, l.Ledger, 7)
	if after, err := ask(t, l.Ledger, "ann"); err != nil || after != before {
		t.Errorf("before it was opened again there was %+v, then %+v (%v)", before, after, err)
	}
	wantEvents(t, l.Ledger, 7)
}

func TestClock_SetByTheTest_TimesTheEvents(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	l := ledgertest.With(t, ledgertest.Settings{Origin: ledgertest.Origin{Created: begin, Currency: "EUR"}})
	if about := l.About(); !about.Created.Equal(begin) || about.Currency != "EUR" {
		t.Errorf("it is %+v", about)
	}
	l.Clock.Set(begin.Add(time.Minute))
	if now := l.Clock.Advance(time.Hour); !now.Equal(begin.Add(61 * time.Minute)) {
		t.Errorf("it is %v", now)
	}
	_, err := ask(t, l.Ledger, "ann")
	must(t, err)
	var last event.Event
	for ev, err := range l.Events(t.Context(), 1) {
		must(t, err)
		last = ev
	}
	if !last.Time.Equal(begin.Add(61 * time.Minute)) {
		t.Errorf("an event at %v", last.Time)
	}
	other := ledgertest.NewClock(begin.Add(2 * time.Hour))
	must(t, l.ReopenWith(ledger.Options{Now: other.Now}))
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"}))
	for ev, err := range l.Events(t.Context(), 8) {
		must(t, err)
		if !ev.Time.Equal(other.Now()) {
			t.Errorf("an event at %v by another clock", ev.Time)
		}
	}
}

// ReopenWith returns the errors of Open. After an error, the memory can be opened again.
func TestReopenWith_Options_AreThoseOfOpen(t *testing.T) {
	l := ledgertest.With(t, ledgertest.Settings{Options: ledger.Options{TruthKey: []byte("a key of sixteen bytes")}})
	if err := l.ReopenWith(ledger.Options{TruthKey: []byte("another key of sixteen")}); !errors.Is(err, api.ErrTruthKey) {
		t.Errorf("another truth key: %v", err)
	}
	l.Reopen()
	must(t, l.ReopenWith(ledger.Options{ReadOnly: true}))
	if err := l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"}); !errors.Is(err, api.ErrReadOnly) {
		t.Errorf("a change while it is open for reading: %v", err)
	}
	if _, err := ledgertest.NewMemory(ledgertest.Origin{Currency: "\x00"}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("a currency without a name: %v", err)
	}
}

// If the ledger cannot be opened, With fails the test, and its cleanup does not panic.
func TestWith_InvalidOptions_FailsTheTest(t *testing.T) {
	failing, said := &exampleT{}, any(nil)
	func() {
		defer func() { said = recover() }()
		ledgertest.With(failing, ledgertest.Settings{Options: ledger.Options{Memory: -1}})
	}()
	if text, _ := said.(string); !strings.Contains(text, "Options.Memory is -1 bytes") {
		t.Errorf("it fails with %v", said)
	}
	for _, f := range failing.cleanups {
		f()
	}
}

// A ledger in memory cannot be opened as a standby, just as a file without a journal of the host.
func TestReopenWith_Standby_IsInvalid(t *testing.T) {
	l := ledgertest.New(t)
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, ledgertest.NewFile(path, ledgertest.Origin{}))
	if _, err := ledger.Open(t.Context(), path, ledger.Options{Standby: true}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("in a file: %v", err)
	}
	if err := l.ReopenWith(ledger.Options{Standby: true}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("in memory: %v", err)
	}
	l.Reopen()
}

func TestMemoryOpen_OpenForWriting_IsErrInUse(t *testing.T) {
	l := ledgertest.New(t)
	for _, reads := range []bool{false, true} {
		if _, err := l.Memory.Open(ledger.Options{ReadOnly: reads}); !errors.Is(err, api.ErrInUse) {
			t.Errorf("opened a second time: %v", err)
		}
	}
	must(t, l.Close())
	one, err := l.Memory.Open(ledger.Options{ReadOnly: true})
	must(t, err)
	two, err := l.Memory.Open(ledger.Options{ReadOnly: true})
	must(t, err)
	must(t, one.Close())
	if _, err := l.Memory.Open(ledger.Options{}); !errors.Is(err, api.ErrInUse) {
		t.Errorf("opened for writing while a reader has it open: %v", err)
	}
	must(t, two.Close())
	l.Reopen()
}

func TestMemoryCopy_LaterChanges_AreNotShared(t *testing.T) {
	l := ledgertest.New(t)
	copied := l.Memory.Copy()
	_, err := ask(t, l.Ledger, "ann")
	must(t, err)
	other, err := copied.Open(ledger.Options{Now: l.Clock.Now})
	must(t, err)
	wantEvents(t, other, 1)
	must(t, other.Close())
	wantEvents(t, l.Ledger, 7)
}

// Fail makes a commit fail without its changes, and the ledger can be used. FailLate makes it fail
// with its changes stored, and the ledger must be opened again.
func TestMemoryFail_Commits_ReturnTheError(t *testing.T) {
	full := errors.New("the disk is full")
	l := ledgertest.New(t)
	l.Memory.Fail(full)
	if err := l.DefineQuestion(t.Context(), "q", api.Question{Name: "vote", Values: []string{"yes", "no"}}); !errors.Is(err, full) {
		t.Errorf("on a full disk: %v", err)
	}
	wantEvents(t, l.Ledger, 1)
	l.Memory.Fail(nil)
	_, err := ask(t, l.Ledger, "ann")
	must(t, err)
	l.Memory.FailLate(full)
	if err := l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"}); !errors.Is(err, full) || !errors.Is(err, api.ErrStopped) {
		t.Errorf("after the power was lost: %v", err)
	}
	l.Memory.FailLate(nil)
	if err := l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "ann"}); !errors.Is(err, api.ErrStopped) {
		t.Errorf("after the failure: %v; want ErrStopped", err)
	}
	l.Reopen()
	if o, err := l.Object(t.Context(), "ann"); err != nil || !o.Chains[0].Withdrawn {
		t.Errorf("after Reopen the object is %+v (%v)", o, err)
	}
}

// Calls that need a file return errors.ErrUnsupported.
func TestBackup_InMemory_IsErrUnsupported(t *testing.T) {
	l := ledgertest.New(t)
	if _, err := l.Backup(t.Context(), filepath.Join(t.TempDir(), "copy"), nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a backup: %v", err)
	}
}

// A ledger in memory, or in a file, draws with the samplers of Settings.Draws.
func TestDraws_SamplersOfTheTest_AreUsed(t *testing.T) {
	draws := func(word byte) ledgertest.Draws {
		fill := func(p []byte) {
			for i := range p {
				p[i] = word
			}
		}
		return ledgertest.Draws{Values: &rrchain.Sampler{Random: exact.ReplayBits(fill)}}
	}
	for word, want := range map[byte]string{0: "yes", 255: "no"} {
		l := ledgertest.With(t, ledgertest.Settings{Draws: draws(word)})
		if got, err := ask(t, l.Ledger, "ann"); err != nil || got.Value != want {
			t.Errorf("from words of %d there comes %q, want %q (%v)", word, got.Value, want, err)
		}
		path := filepath.Join(t.TempDir(), "ledger.db")
		must(t, ledgertest.NewFile(path, ledgertest.Origin{}))
		file, err := ledgertest.OpenFile(path, draws(word), ledger.Options{Now: l.Clock.Now})
		must(t, err)
		if got, err := ask(t, file, "ann"); err != nil || got.Value != want || !file.About().Created.Equal(ledgertest.Begin()) {
			t.Errorf("in a file, from words of %d there comes %q, want %q (%v)", word, got.Value, want, err)
		}
		must(t, file.Close())
	}
}

// Two copies of a ledger can be open for writing at once only if one is opened with OpenApart.
func TestOpenApart_Copy_IsNotDetected(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "panel.db"), filepath.Join(dir, "copied.db")
	must(t, ledgertest.NewFile(path, ledgertest.Origin{}))
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(copied, text, 0o600))
	l, err := ledgertest.OpenFile(path, ledgertest.Draws{}, ledger.Options{})
	must(t, err)
	if _, err := ledger.Open(t.Context(), copied, ledger.Options{}); !errors.Is(err, api.ErrInUse) {
		t.Errorf("a copy on this machine: %v", err)
	}
	apart, err := ledgertest.OpenApart(copied, ledger.Options{})
	must(t, err)
	must(t, errors.Join(apart.Close(), l.Close()))
}
