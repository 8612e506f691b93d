package mechanisms

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
)

// FuzzReadValues checks that the values of a file are its lines.
func FuzzReadValues(f *testing.F) {
	for _, text := range []string{"", "\n", "yes\nno\n", "yes\r\nno\r\n", "\ufeffyes\nno", "a\n\nb", " a\n", "a\r\rb\n", "\xff\n", "a\u2028b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "values")
		check.Must(t, os.WriteFile(path, []byte(text), 0o600))
		values, err := ReadValues([]string{"@" + path})
		if err != nil {
			if _, code := output.Explain(err); code != output.ExitMisuse {
				t.Fatalf("exit code %d: %v", code, err)
			}
			return
		}
		for _, v := range values {
			check.Need(t, strings.TrimSpace(v) == v && !strings.Contains(v, "\n"), "%q has the value %q", text, v)
		}
		got := strings.NewReplacer("\r", "", "\n", "", "\ufeff", "").Replace(strings.Join(values, ""))
		if want := strings.NewReplacer("\r", "", "\n", "", "\ufeff", "").Replace(text); got != want {
			t.Fatalf("%q has the values %q", text, values)
		}
	})
}
