package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
)

func TestWantsJSON(t *testing.T) {
	for line, want := range map[string]bool{
		"--json bogus": true, "bogus --json": true, "--json=true x": true, "x": false, "show -- --json": false, "": false,
	} {
		if got := wantsJSON(strings.Fields(line)); got != want {
			t.Errorf("wantsJSON(%q) = %v", line, got)
		}
	}
}

// Every command stands in the reference, and every one there exists.
func TestReferenceHasEveryCommand(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z][a-z -]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed[match[1]] = true
	}
	for name, cmd := range commands() {
		if cmd.HasSubCommands() || name == "help" {
			continue // they only say what else is to be typed
		}
		if !listed[name] {
			t.Errorf("commands.md has no %q", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("there is no command %q", name)
	}
}

// Every command and every flag has its help, and everything in the text is about a command, a flag, or a part of a section.
func TestHelpHasEveryCommand(t *testing.T) {
	all := sections(helpText)
	common := flagUsages(all["flags"])
	delete(all, "flags")
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
			if f.Usage == "" {
				t.Errorf("%s --%s has no help", name, f.Name)
			}
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
		if strings.Count(helpText, name) < 2 || !strings.HasPrefix(name, "{") {
			t.Errorf("no command has the help of %q", name)
		}
	}
}

// What the shell completes is what there is.
func TestCompletedValuesAreAll(t *testing.T) {
	var roles, states []string
	for _, r := range ledgerhttp.Roles() {
		roles = append(roles, string(r))
	}
	for _, state := range api.ReservationStates() {
		states = append(states, string(state))
	}
	for command, want := range map[string][]string{
		"token add --role": roles, "reservations --state": states,
		"question add --encoding": {string(api.Direct), string(api.Unary), string(api.Finite)},
	} {
		_, got, _ := invoke(t, append([]string{"__completeNoDesc"}, append(strings.Fields(command), "")...)...)
		if values := strings.Fields(got); len(values) == 0 || !slices.Equal(values[:len(values)-1], want) {
			t.Errorf("%s: %q, want %q", command, values, want)
		}
	}
}
