package main

import (
	"io"
	"regexp"
	"strings"
	"testing"
)

// A page has nothing for troff to find but what the program meant, and has every flag and every command.
func TestManualPages(t *testing.T) {
	macro := regexp.MustCompile(`^\.(TH|SH|PP|TP|B|BR|nf|fi)( |$)`)
	root := newApp(strings.NewReader(""), io.Discard, io.Discard).rootCommand()
	for name, cmd := range commands() {
		page := manPage(cmd, versionResult{Version: "v1", Time: "2027-01-01T00:00:00Z"})
		if !strings.HasPrefix(page, ".TH \"LEDGERCTL") || !strings.Contains(page, ` 1 "2027-01-01" "ledgerctl v1"`+"\n") {
			t.Errorf("%s begins with %.60q", name, page)
		}
		for line := range strings.Lines(page) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, ".") && !macro.MatchString(line) || strings.HasPrefix(line, "'") {
				t.Errorf("%s: troff takes %q for a request", name, line)
			}
		}
		if strings.Count(page, "\n.nf\n") != strings.Count(page, "\n.fi\n") {
			t.Errorf("%s: lines that stand as they are do not end", name)
		}
		for _, want := range []string{".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH OPTIONS\n", `.B \-h, \-\-help`} {
			if !strings.Contains(page, want) {
				t.Errorf("%s has no %q", name, want)
			}
		}
	}
	if page := manPage(root, versionResult{}); !strings.Contains(page, ".BR ledgerctl\\-sell (1)") || !strings.Contains(page, ".B \\-\\-json\n") {
		t.Errorf("the first page has not all: %s", page)
	}
}

func TestManualText(t *testing.T) {
	for text, want := range map[string]string{
		`a\b`: `a\eb`, "--x": `\-\-x`, ".SH": `\&.SH`, "'": `\(aq`, "ε": "ε",
	} {
		if got := manText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got, want := manParagraphs("one\ntwo\n\n  exact  x\n\n  more\nthree"), ".PP\none\ntwo\n.PP\n.nf\n  exact  x\n\n  more\n.fi\n.PP\nthree\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
