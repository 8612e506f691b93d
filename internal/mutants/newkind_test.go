package mutants

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
)

// edit inserts lines into a file of the module, after the line of a text that the file has once. Without a text they
// come at the end of the file, which may be a new one.
type edit struct{ file, after, lines string }

// noted are the edits that add a kind of event: a host notes something about an object in a question. The kind is in
// the log and in its JSON, in statements, and has a request that records it.
func noted() []edit {
	return []edit{
		{"ledger/event/kinds.go", "\t\t{Sold{}, 12},", "\t\t{Noted{}, 19},"},
		{"ledger/event/kinds.go", "func (Forgotten) Kind() string       { return \"forgotten\" }", `
// Noted is what the host notes about an object.
type Noted struct {
	Object   string ` + "`json:\"object,omitempty\" fact:\"1\"`" + `   // by its name
	Question string ` + "`json:\"question,omitempty\" fact:\"2\"`" + ` // by its name
	Text     string ` + "`json:\"text,omitempty\" fact:\"3\"`" + `     // what is noted
}

func (Noted) Kind() string { return "noted" }

func (d Noted) about() string { return d.Object }`},
		{"ledger/internal/event/kinds.go", "KindTerms                     // [TermsChanged]", "\tKindNoted // [Noted]"},
		{"ledger/internal/event/kinds.go", "(*TermsChanged).mapTo),", "\t\tKindNoted: kindOf((*Noted).mapTo),"},
		{"ledger/internal/event/members.go", "func (*Withdrawn) Kind() Kind { return KindWithdrawn }", `
// Noted is what the host notes about an object.
type Noted struct {
	Object   string
	Question uint32
	Text     string
}

func (*Noted) Kind() Kind { return KindNoted }

func (c *Noted) About() string { return c.Object }

// Fields implements [Change].
func (c *Noted) Fields(x wire.Codec) {
	x.Text(&c.Object)
	x.U32(&c.Question)
	x.Text(&c.Text)
}

func (c *Noted) references() References { return References{Question: c.Question} }

// NoteRequest returns the identity of a request that notes something.
func NoteRequest(question, object, text string) Identity {
	f := NewForm("note")
	f.Field("Question").Text(question)
	f.Field("Object").Text(object)
	f.Field("Text").Text(text)
	return f.Finish()
}

func (c *Noted) requests(names Names) ([]Identity, error) {
	q, err := names.Question(c.Question)
	if err != nil {
		return nil, err
	}
	return []Identity{NoteRequest(q.Name, c.Object, c.Text)}, nil
}

func (c *Noted) mapTo(d *event.Noted, m *mapper) {
	same(m, &c.Object, &d.Object)
	m.question(&c.Question, &d.Question)
	same(m, &c.Text, &d.Text)
}`},
		{"ledger/internal/fold/apply.go", "return with(s, c, ev, check.Epoch, applyEpoch)",
			"\tcase *event.Noted:\n\t\treturn with(s, c, ev, check.Noted, applyMention)"},
		{"ledger/internal/fold/check/member.go", "", `
// Noted checks that a note is about an object that takes part in the question.
func Noted(s *state.State, c *event.Noted, _ event.Event) (state.Object, error) {
	d, err := enrolledIn(s, c.Question, c.Object)
	return d.Object, err
}
`},
		{"ledger/note.go", "", `package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Note records a note about an object.
func (l *Ledger) Note(ctx context.Context, key, question, object, text string) error {
	q, err := l.requests.Question(ctx, question)
	if err != nil {
		return err
	}
	id := event.NoteRequest(question, object, text)
	return l.requests.Once(ctx, key, object, id, func(*state.State) (event.Change, error) {
		return &event.Noted{Object: object, Question: q.Number, Text: text}, nil
	})
}
`},
	}
}

// notedTest is the test of the new kind, which is laid over this package.
const notedTest = `package mutants_test

import (
	"crypto/rand"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/privacy"
)

func TestNoted(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	secret, public, err := note.GenerateKey(rand.Reader, "example.com/noted")
	must(err)
	signer, err := note.NewSigner(secret)
	must(err)
	l, ctx := ledgertest.With(t, ledgertest.Settings{
		Origin: ledgertest.Origin{LogKey: public}, Options: ledger.Options{Signer: signer},
	}).Ledger, t.Context()
	must(l.DefineQuestion(ctx, "q", ledger.Question{Name: "vote", Values: []string{"yes", "no"}}))
	_, err = l.Enroll(ctx, ledger.EnrollRequest{Key: "e", Question: "vote", Objects: []string{"ann"}, Cap: privacy.MustEpsilon("2")})
	must(err)
	for range 2 { // the second time it is recorded already
		must(l.Note(ctx, "n", "vote", "ann", "moved"))
	}
	want, found := event.Noted{Object: "ann", Question: "vote", Text: "moved"}, 0
	for ev, err := range l.Events(ctx, 1) {
		must(err)
		if ev.Kind() != "noted" {
			continue
		}
		found++
		text, err := json.Marshal(ev)
		must(err)
		var back event.Event
		must(json.Unmarshal(text, &back))
		if ev.Says != event.Detail(want) || ev.Object() != "ann" || !reflect.DeepEqual(back, ev) {
			t.Errorf("%+v, as JSON %s", ev, text)
		}
		if !strings.Contains(string(text), "\"object\":\"ann\",\"question\":\"vote\",\"text\":\"moved\"") {
			t.Errorf("%s", text)
		}
	}
	st, err := l.Statement(ctx, "s", "ann")
	must(err)
	text, err := json.Marshal(st)
	must(err)
	st, err = evidence.ReadStatement(text)
	must(err)
	for _, f := range st.Events {
		if f.Kind() == "noted" && reflect.DeepEqual(f.Says, &want) {
			found++
		}
	}
	if faults := st.Verify(nil).Faults; len(faults) > 0 || found != 2 {
		t.Errorf("the note was found %d times; %v", found, faults)
	}
	v, err := l.Verify(ctx, ledger.VerifyRequest{})
	must(err)
	if v.Problems != 0 {
		t.Errorf("%+v", v)
	}
	must(l.Forget(ctx, "f", "ann"))
	for ev, err := range l.Events(ctx, 1) {
		must(err)
		if ev.Kind() == "noted" && (!ev.Erased || ev.Says != event.Detail(event.Noted{})) {
			t.Errorf("%+v is not erased", ev)
		}
	}
}
`

// edited returns the contents of the files that edits change, by path in the module.
func edited(t *testing.T, edits []edit) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, e := range edits {
		if _, read := files[e.file]; !read {
			content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			files[e.file] = string(content)
		}
		if e.after == "" {
			files[e.file] += e.lines
			continue
		}
		begin, end, found := strings.Cut(files[e.file], e.after)
		if !found || strings.Contains(end, e.after) {
			t.Fatalf("%s does not have %q once", e.file, e.after)
		}
		rest, end, _ := strings.Cut(end, "\n")
		files[e.file] = begin + e.after + rest + "\n" + e.lines + "\n" + end
	}
	return files
}

// A kind of event, with a request that records it, is added in at most six files that are no tests.
func TestEveryMutantStillApplies_NewKindOfEvent(t *testing.T) {
	if files := edited(t, noted()); len(files) > 6 {
		t.Errorf("a kind of event is added in %d files", len(files))
	}
}

// The kind that these files add works everywhere: in the log, in JSON, in statements, in an audit, and when its
// object is forgotten.
func TestNewKindOfEvent_IsComplete(t *testing.T) {
	if pace.Hurried() {
		t.Skip("it compiles a program in which the race detector finds nothing")
	}
	replace, dir := map[string]string{}, t.TempDir()
	files := edited(t, noted())
	const pkg = "internal/mutants"
	files[pkg+"/noted_test.go"] = notedTest
	for file, content := range files {
		original, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(replace[original], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-run=^TestNoted$", "-overlay="+list, "./"+pkg)
	cmd.Dir, cmd.Env = root, quick(os.Environ())
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "no tests to run") {
		t.Errorf("%v\n%s", err, last(string(out), 3000))
	}
}
