package main

import (
	_ "embed" // for help.txt
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

// helpText has a section for each command, which begins with "# " and its name: a summary, a
// description, flags and examples. A section whose name is in braces, such as {name}, is a part of
// other sections: its text replaces its name there.
//
//go:embed help.txt
var helpText string

// helpWidth is the largest width of a page of help.
const helpWidth = 80

// sections returns the sections of a help text by their names.
func sections(text string) map[string]string {
	all := map[string]string{}
	for _, section := range strings.Split("\n"+text, "\n# ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		all[name] = strings.Trim(body, "\n")
	}
	return all
}

// describe sets the help of a command, of its flags, and of the commands below it, from all
// sections of the help text. The help of a flag is under "## Flags" in the section of its command,
// or else in the section "flags", which has the flags of several commands.
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
	setUsage := func(f *pflag.Flag) {
		if f.Usage == "" {
			f.Usage = usages[f.Name]
		}
	}
	cmd.Flags().VisitAll(setUsage)
	cmd.PersistentFlags().VisitAll(setUsage)
	for _, below := range cmd.Commands() {
		describe(below, all)
	}
}

// flagUsages parses the help of flags: "--name", a space, and a text, which continues on indented
// lines.
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

// topic is the name of the page about the flags of all commands.
const topic = "flags"

// helpCommand returns the help command of cobra, except that help on an unknown command is wrong
// usage.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return output.UsageError(`run "ledgerctl --help" for the commands`, "no help on %q", args)
			}
			return about.Help()
		},
	}
}

// help prints the help page of a command.
func help(cmd *cobra.Command, _ []string) { _, _ = io.WriteString(cmd.OutOrStdout(), helpPage(cmd)) }

// helpPage returns the help page of a command. The flags of all commands have their own page.
func helpPage(cmd *cobra.Command) string {
	var page strings.Builder
	part := func(title, text string) {
		if text != "" {
			page.WriteString("\n" + title + "\n" + strings.TrimRight(text, "\n") + "\n")
		}
	}
	page.WriteString(strings.TrimRight(cmd.Long, "\n") + "\n")
	if cmd.Long == "" {
		page.Reset()
		page.WriteString(cmd.Short + ".\n")
	}
	if cmd.Name() == topic {
		part("Flags:", cmd.Root().PersistentFlags().FlagUsagesWrapped(helpWidth))
		return page.String()
	}
	own := ownFlags(cmd)
	use := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	if own.HasFlags() {
		use += " [flags]"
	}
	part("Usage:", "  "+strings.ReplaceAll(use, " [--", " \\\n    [--"))
	part("Examples:", cmd.Example)
	commands := ""
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			commands += fmt.Sprintf("  %-*s  %s\n", below.NamePadding(), below.Name(), below.Short)
		}
	}
	part("Commands:", commands)
	part("Flags:", own.FlagUsagesWrapped(helpWidth))
	part("Flags of all commands: ledgerctl help flags", "\n")
	return page.String()
}

// ownFlags returns the flags of a command without the flags of all commands.
func ownFlags(cmd *cobra.Command) *pflag.FlagSet {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	add := func(f *pflag.Flag) {
		if cmd.Root().PersistentFlags().Lookup(f.Name) != f && f.Name != "help" {
			own.AddFlag(f)
		}
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return own
}
