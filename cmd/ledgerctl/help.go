package main

import (
	_ "embed" // for help.txt
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpText has a section for each command: a line, a description, and examples. A section in braces
// is part of those that name it.
//
//go:embed help.txt
var helpText string

// sections returns the sections of a help text by their names.
func sections(text string) map[string]string {
	all := map[string]string{}
	for _, section := range strings.Split("\n"+text, "\n# ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		all[name] = strings.Trim(body, "\n")
	}
	return all
}

// describe gives a command and those below it their help, and that of their flags: what the
// command's section says of one, or else the section "flags", which is about those of several
// commands.
func describe(cmd *cobra.Command, all map[string]string) {
	text := all[cmd.CommandPath()]
	for name, part := range all {
		if strings.HasPrefix(name, "{") {
			text = strings.ReplaceAll(text, name, part)
		}
	}
	text, examples, _ := strings.Cut(text, "\n\n## Examples\n")
	text, own, _ := strings.Cut(text, "\n\n## Flags\n")
	cmd.Short, cmd.Long, _ = strings.Cut(text, "\n\n")
	cmd.Example = examples
	usages := flagUsages(all["flags"])
	maps.Copy(usages, flagUsages(own))
	say := func(f *pflag.Flag) {
		if f.Usage == "" {
			f.Usage = usages[f.Name]
		}
	}
	cmd.Flags().VisitAll(say)
	cmd.PersistentFlags().VisitAll(say)
	for _, below := range cmd.Commands() {
		describe(below, all)
	}
}

// flagUsages reads what flags mean: "--name", a blank, and a text, which goes on on lines that are
// indented.
func flagUsages(text string) map[string]string {
	usages, name := map[string]string{}, ""
	for line := range strings.SplitSeq(text, "\n") {
		if begin, is := strings.CutPrefix(line, "--"); is {
			name, line, _ = strings.Cut(begin, " ")
		}
		usages[name] = strings.TrimSpace(usages[name] + " " + strings.TrimSpace(line))
	}
	delete(usages, "") // of an empty text
	return usages
}
