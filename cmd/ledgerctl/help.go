package main

import (
	_ "embed" // for help.txt
	"strings"

	"github.com/spf13/cobra"
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

// describe gives a command and those below it their help.
func describe(cmd *cobra.Command, all map[string]string) {
	text := all[cmd.CommandPath()]
	for name, part := range all {
		if strings.HasPrefix(name, "{") {
			text = strings.ReplaceAll(text, name, part)
		}
	}
	about, examples, _ := strings.Cut(text, "\n\n## Examples\n")
	cmd.Short, cmd.Long, _ = strings.Cut(about, "\n\n")
	cmd.Example = examples
	for _, below := range cmd.Commands() {
		describe(below, all)
	}
}
