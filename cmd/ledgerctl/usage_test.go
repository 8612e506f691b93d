package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/internal/check"
	agreed "github.com/sluicedp/sluice/internal/httpapi"
)

func TestWantsJSON_BrokenCommandLine_FindsTheFlag(t *testing.T) {
	for line, want := range map[string]bool{
		"--json bogus": true, "bogus --json": true, "--json=true x": true, "x": false, "show -- --json": false, "": false,
	} {
		if got := wantsJSON(strings.Fields(line)); got != want {
			t.Errorf("wantsJSON(%q) = %v", line, got)
		}
	}
}

// The reference lists every command, and no other.
func TestReference_Commands_AreThoseOfTheProgram(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "commands.md"))
	check.Must(t, err)
	listed := map[string]bool{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z][a-z -]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed[match[1]] = true
	}
	for name, cmd := range commands() {
		if cmd.HasSubCommands() || name == "help" {
			continue // they only print help
		}
		check.That(t, listed[name], "commands.md has no %q", name)
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("there is no command %q", name)
	}
}

// Every command and every flag has help, and every section and flag of the text belongs to one.
func TestHelp_EveryCommandAndFlag_HasItsText(t *testing.T) {
	all := sections(helpText)
	common := flagUsages(all["flags"])
	for _, other := range []string{"flags", "overview", "ledgerctl flags"} {
		delete(all, other)
	}
	for name, cmd := range commands() {
		if cmd.Name() == "help" {
			continue
		}
		if cmd.Short == "" || strings.Contains(cmd.Long, "{") && !strings.Contains(cmd.Long, `{"`) {
			t.Errorf("%s: %q, %q", name, cmd.Short, cmd.Long)
		}
		_, own, _ := strings.Cut(all[cmd.CommandPath()], "## Flags\n")
		own, _, _ = strings.Cut(own, "\n\n")
		texts := flagUsages(strings.ReplaceAll(own, "{filter}", all["{filter}"]))
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			check.That(t, f.Usage != "", "%s --%s has no help", name, f.Name)
			if _, is := texts[f.Name]; !is && f.Usage == common[f.Name] {
				delete(common, f.Name)
			}
			delete(texts, f.Name)
		})
		for flag := range texts {
			t.Errorf("%s has no flag --%s", name, flag)
		}
		delete(all, cmd.CommandPath())
	}
	for flag := range common {
		t.Errorf("no command has the help of --%s", flag)
	}
	for name := range all {
		check.That(t, strings.Count(helpText, name) >= 2 && strings.HasPrefix(name, "{"), "no command has the help of %q", name)
	}
}

// pageOf returns the page of help on a command.
func pageOf(t *testing.T, args ...string) string {
	t.Helper()
	return mustInvoke(t, append([]string{"help"}, args...)...)
}

// checkWidth reports lines of a page that have more than 80 columns.
func checkWidth(t *testing.T, name, page string) {
	t.Helper()
	for line := range strings.Lines(page) {
		check.That(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) <= 80, "%s: more than 80 columns: %s", name, line)
	}
}

func TestHelp_EveryPage_FitsEightyColumns(t *testing.T) {
	pages := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		pages++
		checkWidth(t, cmd.CommandPath(), helpPage(cmd))
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(newApp(nil, nil, nil).rootCommand())
	check.That(t, pages >= 50, "only %d pages", pages)
}

func TestHelp_GlobalFlags_HaveTheirOwnPage(t *testing.T) {
	flags := pageOf(t, "flags")
	newApp(nil, nil, nil).rootCommand().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(flags, "--"+f.Name+" ") || !strings.Contains(flags, strings.Fields(f.Usage)[0]) {
			t.Errorf("help flags lacks --%s", f.Name)
		}
		for _, command := range []string{"", "raise", "token", "token add"} {
			if page := pageOf(t, strings.Fields(command)...); strings.Contains(page, "\n      --"+f.Name+" ") {
				t.Errorf("help %s also has --%s", command, f.Name)
			}
		}
	})
	for _, command := range []string{"", "raise", "token add"} {
		if page := pageOf(t, strings.Fields(command)...); !strings.Contains(page, "ledgerctl help flags") {
			t.Errorf("help %s does not refer to help flags", command)
		}
	}
	if page := pageOf(t, "token", "add"); !strings.Contains(page, "--tokens ") {
		t.Errorf("a flag of the command above is missing:\n%s", page)
	}
}

func TestLedgerctl_WithoutArguments_PrintsOneScreen(t *testing.T) {
	screen := mustInvoke(t)
	if n := strings.Count(screen, "\n"); n > 24 || n < 10 {
		t.Errorf("%d lines", n)
	}
	checkWidth(t, "ledgerctl", screen)
	for _, cmd := range newApp(nil, nil, nil).rootCommand().Commands() {
		if !regexp.MustCompile(`\b` + cmd.Name() + `\b`).MatchString(screen) {
			t.Errorf("the screen lacks %s", cmd.Name())
		}
	}
}

// The shell completes exactly the allowed values of a flag.
func TestCompletion_FlagWithValues_HasAllOfThem(t *testing.T) {
	var states []string
	for _, state := range []string{"open", "captured", "cancelled", "expired"} {
		states = append(states, string(state))
	}
	for command, want := range map[string][]string{
		"token add --role": agreed.Roles(), "reservations --state": states,
		"question add --encoding": {string("direct"), string("unary"), string("finite")},
	} {
		_, got, _ := invoke(t, append([]string{"__completeNoDesc"}, append(strings.Fields(command), "")...)...)
		if values := strings.Fields(got); len(values) == 0 || !slices.Equal(values[:len(values)-1], want) {
			t.Errorf("%s: %q, want %q", command, values, want)
		}
	}
}
