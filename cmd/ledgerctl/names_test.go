package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger"
)

func TestIsPlain_ShellCharacters_AreNotPlain(t *testing.T) {
	for name, want := range map[string]bool{
		"acme": true, "a-b_c.d:e/f@g+h,i%j": true, "Ñuñoa": true, "7": true,
		"": false, "-x": false, "a b": false, "a;b": false, "$(x)": false, "`x`": false, "a'b": false, `a"b`: false, `a\b`: false, "a*": false, "~": false, "a\tb": false, "a\nb": false, "{a,b}": false, "a&b": false, "!1": false, "a=b": false,
	} {
		check.That(t, output.IsPlain(name) == want, "%q: not %v", name, want)
	}
}

// Completion only reads the ledger, also while other processes read it, and leaves its files
// unchanged.
func TestCompletion_OfNames_WritesNothing(t *testing.T) {
	db, _ := newVote(t, 2)
	mustInvoke(t, "--db", db, "reserve", "--buyer", "bob", "--question", "vote", "--epsilon", "1", "--expires", "2100-01-01T00:00:00Z")
	files := func() (all []string) {
		found, err := os.ReadDir(strings.TrimSuffix(db, "l.db"))
		check.Must(t, err)
		for _, file := range found {
			info, err := file.Info()
			check.Must(t, err)
			all = append(all, file.Name()+" "+info.ModTime().String())
		}
		return all
	}
	before := files()
	reader, err := ledger.Open(t.Context(), db, ledger.Options{ReadOnly: true})
	check.Must(t, err)
	if _, stdout, _ := invoke(t, "__complete", "--db", db, "sell", "--buyer", ""); !strings.HasPrefix(stdout, "bob\n") {
		t.Errorf("beside a reader: %q", stdout)
	}
	check.Must(t, reader.Close())
	for _, args := range [][]string{{"sell", "--buyer", ""}, {"sell", "--question", ""}, {"capture", ""}, {"receipt", "make", ""}, {"responses", "--question", "vote", "--epsilon", ""}} {
		if code, stdout, _ := invoke(t, append([]string{"__complete", "--db", db}, args...)...); code != 0 || !strings.Contains(stdout, ":4\n") {
			t.Errorf("%q: exit code %d, %q", args, code, stdout)
		}
	}
	if after := files(); !slices.Equal(before, after) {
		t.Errorf("%q was %q", after, before)
	}
}
