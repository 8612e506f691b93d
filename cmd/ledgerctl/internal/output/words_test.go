package output

import (
	"strings"
	"testing"
	"unicode"

	"github.com/sluicedp/sluice/internal/check"
)

func TestOneLine_ControlCharacters_AreReplaced(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\n":        "a; b",
		"red \x1b[31m!": "red \ufffd[31m!",
		"  plain  ":     "plain",
	} {
		got := OneLine(text)
		check.That(t, got == want && !strings.ContainsFunc(got, unicode.IsControl), "oneLine(%q) = %q, want %q", text, got, want)
	}
}

func TestListed_LongList_IsShortened(t *testing.T) {
	if got := Listed([]string{"a", "b"}); got != "a, b" {
		t.Error(got)
	}
	long := strings.Split(strings.Repeat("x ", 999)+"z", " ")
	if got := Listed(long); len(got) > 100 || !strings.HasSuffix(got, "…, z (1000 values)") {
		t.Error(got)
	}
}

func TestQuoted_AmbiguousValues_AreQuoted(t *testing.T) {
	for value, want := range map[string]string{"plain": "plain", "a b": `"a b"`, "a=b": `"a=b"`, `"`: `"\""`, "Ñuñoa": "Ñuñoa"} {
		if got := Quoted(value); got != want {
			t.Errorf("quoted(%q) = %s", value, got)
		}
	}
}
