package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/ledgerfile"
)

func (a *app) man(cmd *cobra.Command, args []string, _ *input.None) error {
	if err := a.CheckPlace("man", args[0], ledgerfile.Unknown); err != nil {
		return err
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return output.InputError("", "%w", err)
	}
	pages, err := a.manPages(cmd.Root(), args[0])
	if err != nil {
		return err
	}
	var out output.Fields
	out.Add("dir", "in", args[0])
	out.Add("pages", "", pages)
	out.Add("", "pages", len(pages))
	out.Add("", "to read them", "man -l "+filepath.Join(args[0], pages[0]))
	return a.Print(out)
}

// manPages writes the page of a command, and those of the commands below it, into a directory. It
// returns the names of the files.
func (a *app) manPages(cmd *cobra.Command, dir string) ([]string, error) {
	info, _ := debug.ReadBuildInfo()
	name := manName(cmd) + ".1"
	file, err := a.NewFile("man", filepath.Join(dir, name), ledgerfile.Unknown, 0o644) // it is for everybody
	if err != nil {
		return nil, err
	}
	defer file.Discard()
	if err := file.SaveBytes([]byte(manPage(cmd, newVersion(info)))); err != nil {
		return nil, err
	}
	pages := []string{name}
	for _, below := range cmd.Commands() {
		if !below.IsAvailableCommand() {
			continue
		}
		more, err := a.manPages(below, dir)
		if err != nil {
			return nil, err
		}
		pages = append(pages, more...)
	}
	return pages, nil
}

// manName is the name of a command's page.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns the page of a command as troff with the macros of man(7). It is made from what
// --help shows.
func manPage(cmd *cobra.Command, v versionResult) string {
	var page strings.Builder
	at, _ := time.Parse(time.RFC3339, v.Time)
	date := ""
	if !at.IsZero() {
		date = at.UTC().Format(time.DateOnly)
	}
	fmt.Fprintf(&page, ".TH %q 1 %q %q\n", strings.ToUpper(manName(cmd)), date, "ledgerctl "+v.Version)
	fmt.Fprintf(&page, ".SH NAME\n%s \\- %s\n", manText(manName(cmd)), manText(cmd.Short))
	fmt.Fprintf(&page, ".SH SYNOPSIS\n.B %s\n", manText(cmd.UseLine()))
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	page.WriteString(".SH DESCRIPTION\n" + manParagraphs(about))
	manFlags(&page, cmd)
	if cmd.Example != "" {
		page.WriteString(".SH EXAMPLES\n" + manParagraphs(cmd.Example))
	}
	manSeeAlso(&page, cmd)
	return page.String()
}

// manFlags explains the flags of a command. Those of all commands are on the first page only.
func manFlags(page *strings.Builder, cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	flags := cmd.NonInheritedFlags()
	page.WriteString(".SH OPTIONS\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, about := pflag.UnquoteUsage(f)
		head := "--" + f.Name
		if f.Shorthand != "" {
			head = "-" + f.Shorthand + ", " + head
		}
		fmt.Fprintf(page, ".TP\n.B %s\n%s\n", manText(strings.TrimSpace(head+" "+value)), manText(about))
	})
	if cmd.HasParent() {
		fmt.Fprintf(page, ".PP\nOptions for all commands are in\n.BR %s (1).\n", manText(manName(cmd.Root())))
	}
}

// manSeeAlso names the pages of the commands above and below.
func manSeeAlso(page *strings.Builder, cmd *cobra.Command) {
	reference := func(cmd *cobra.Command) string { return ".BR " + manText(manName(cmd)) + " (1)" }
	var names []string
	if cmd.HasParent() {
		names = append(names, reference(cmd.Parent()))
	}
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, reference(below))
		}
	}
	page.WriteString(".SH SEE ALSO\n" + strings.Join(names, ",\n") + "\n")
}

// manParagraphs sets a help text: lines that are indented stay as they are, others are filled.
func manParagraphs(text string) string {
	var out strings.Builder
	exact, gap := false, true
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			gap = true
			continue
		}
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !exact:
			out.WriteString(".PP\n.nf\n")
		case !indented && exact:
			out.WriteString(".fi\n.PP\n")
		case gap && exact:
			out.WriteString("\n")
		case gap:
			out.WriteString(".PP\n")
		}
		exact, gap = indented, false
		out.WriteString(manText(line) + "\n")
	}
	if exact {
		out.WriteString(".fi\n")
	}
	return out.String()
}

// manText keeps troff from finding anything but letters in a text.
func manText(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
