package main

import (
	"fmt"
	"io"
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
	out := manResult{Dir: args[0], Pages: []string{}}
	if err := a.manPages(cmd.Root(), &out); err != nil {
		return err
	}
	return a.Print(out)
}

type manResult struct {
	Dir   string   `json:"dir"`
	Pages []string `json:"pages"` // the names of the files
}

func (r manResult) Table(w io.Writer) {
	fmt.Fprintf(w, "pages\t%d\nin\t%s\nto read them\tman -l %s\n", len(r.Pages), r.Dir,
		filepath.Join(r.Dir, r.Pages[0]))
}

// manPages writes the page of a command, and those of the commands below it.
func (a *app) manPages(cmd *cobra.Command, out *manResult) error {
	info, _ := debug.ReadBuildInfo()
	name := manName(cmd) + ".1"
	path := filepath.Join(out.Dir, name)
	file, err := a.NewFile("man", path, ledgerfile.Unknown, 0o644) // it is for everybody
	if err != nil {
		return err
	}
	defer file.Discard()
	err = file.Save(func(w io.Writer) error {
		_, err := io.WriteString(w, manPage(cmd, newVersion(info)))
		return err
	})
	if err != nil {
		return err
	}
	out.Pages = append(out.Pages, name)
	for _, below := range cmd.Commands() {
		if !below.IsAvailableCommand() {
			continue
		}
		if err := a.manPages(below, out); err != nil {
			return err
		}
	}
	return nil
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

// manFlags explains the flags of a command. Those of all commands stand once, on the first page.
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

// manParagraphs sets a help text: lines that are indented stand as they are, others are filled.
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
