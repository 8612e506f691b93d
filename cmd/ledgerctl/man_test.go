package main

import (
	"regexp"
	"strings"
	"testing"
)

// In each page troff finds only the macros that the program writes. The page has the whole help of
// the command.
func TestManPage_EveryCommand_ContainsItsHelp(t *testing.T) {
	macro := regexp.MustCompile(`^\.(TH|SH|in|nf|fi)( |$)`)
	all := commands()
	for name, cmd := range all {
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
		if !strings.Contains(page, ".SH NAME\n") || !strings.Contains(page, strings.TrimSpace(manText(helpPage(cmd)))) {
			t.Errorf("%s lacks its help:\n%s", name, page)
		}
	}
	if page := manPage(all["sell"], versionResult{}); !strings.Contains(page, "\\-\\-max\\-price N") {
		t.Errorf("the page lacks a flag: %s", page)
	}
}

func TestManText_Requests_AreEscaped(t *testing.T) {
	for text, want := range map[string]string{
		`a\b`: `a\eb`, "--x": `\-\-x`, ".SH": `\&.SH`, "x\n.SH": "x\n\\&.SH", "'": `\(aq`, "ε": "ε",
	} {
		if got := manText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
