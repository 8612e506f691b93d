package output

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

func TestProgress_Bar_IsRemovedBeforeOtherOutput(t *testing.T) {
	for name, print := range map[string]func(p *Printer){
		"result": func(p *Printer) { _ = p.Print(sum{7}) }, "warning": func(p *Printer) { p.Warn("careful") },
		"error": func(p *Printer) { p.Fail(UsageError("", "no"), false) }, "no result": func(p *Printer) { p.Taken = true; _ = p.Print(sum{7}) },
	} {
		var out bytes.Buffer
		p := Printer{Stdout: &out, Stderr: &out}
		p.progress("raising", 0, 0)
		check.That(t, out.Len() == 0, "a bar of nothing: %q", &out)
		p.progress("raising", 3, 10)
		print(&p)
		check.That(t, strings.Contains(out.String(), "raising") && p.bar == nil, "%s: %q", name, &out)
		_, after, _ := strings.Cut(out.String(), "3/10)")
		check.That(t, strings.HasPrefix(after[strings.IndexByte(after, '\r'):], "\r"), "%s: the bar stays: %q", name, &out)
	}
}

func TestProgress_NoTerminal_ShowsNone(t *testing.T) {
	p := Printer{Stderr: new(bytes.Buffer)}
	check.That(t, p.Progress("raising") == nil, "a bar in a pipe")
}
