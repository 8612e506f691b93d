package evidence

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// goldenKeys returns the keys that signed the golden documents.
func goldenKeys(t testing.TB) note.Verifiers {
	t.Helper()
	v := check.Value(note.NewVerifier("example.com/office+9fdd85bd+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"))(t)
	return note.VerifierList(v)
}

func text(t testing.TB, d any) []byte {
	t.Helper()
	data := check.Value(json.Marshal(d))(t)
	return data
}

// The golden documents of earlier versions can be read and verified, without a ledger.
func TestVerify_GoldenDocuments_AreSound(t *testing.T) {
	for _, name := range []string{"receipt-v4.json", "statement-v4.json", "statement-forgotten-v4.json"} {
		data := check.Value(os.ReadFile(filepath.Join("..", "testdata", "golden", name)))(t)
		var checked Checked
		if strings.HasPrefix(name, "receipt") {
			r := check.Value(ReadReceipt(data))(t)
			checked = r.Verify(goldenKeys(t))
		} else {
			st := check.Value(ReadStatement(data))(t)
			checked = st.Verify(goldenKeys(t))
		}
		check.That(t, checked.OK(), "%s: %+v", name, checked)
	}
}

func FuzzReadReceipt(f *testing.F) {
	data := check.Value(os.ReadFile(filepath.Join("..", "testdata", "golden", "receipt-v4.json")))(f)
	want := check.Value(ReadReceipt(data))(f)
	f.Add(data)
	f.Add(text(f, want))
	f.Add(text(f, Receipt{}))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadReceipt(data)
		if err != nil {
			check.Is(t, err, errs.ErrInvalid)
			_ = json.Unmarshal(data, &r) // Verify takes anything
		}
		c := r.Verify(goldenKeys(t))
		r.Evidence.Checkpoint = unwitnessed(r.Evidence.Checkpoint)
		check.That(t, !c.OK() || reflect.DeepEqual(r, want), "a forged receipt: %s", data)
	})
}

func FuzzReadStatement(f *testing.F) {
	wants := map[string]bool{}
	for _, name := range []string{"statement-v4.json", "statement-forgotten-v4.json"} {
		data := check.Value(os.ReadFile(filepath.Join("..", "testdata", "golden", name)))(f)
		want := check.Value(ReadStatement(data))(f)
		f.Add(data)
		f.Add(text(f, want))
		wants[string(text(f, want))] = true
	}
	f.Add(text(f, Statement{}))
	f.Fuzz(func(t *testing.T, data []byte) {
		st, err := ReadStatement(data)
		if err != nil {
			check.Is(t, err, errs.ErrInvalid)
			_ = json.Unmarshal(data, &st) // Verify takes anything
		}
		c := st.Verify(goldenKeys(t))
		st.Checkpoint = unwitnessed(st.Checkpoint)
		check.That(t, !c.OK() || wants[string(text(t, st))], "a forged statement: %s", data)
	})
}

// unwitnessed returns a checkpoint with only its first signature.
func unwitnessed(checkpoint string) string {
	text, lines, _ := strings.Cut(checkpoint, "\n\n")
	first, _, _ := strings.Cut(lines, "\n")
	return text + "\n\n" + first + "\n"
}
