package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/ledgerfile"
)

// man runs the command man, which writes a manual page for each command to a directory.
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
	out.Add("pages", "pages", pages)
	out.Add("", "to read them", "man -l "+filepath.Join(args[0], pages[0]))
	return a.Print(out)
}

// manPages writes the pages of a command and of the commands below it to a directory. It returns
// the names of the files.
func (a *app) manPages(cmd *cobra.Command, dir string) ([]string, error) {
	info, _ := debug.ReadBuildInfo()
	name := manName(cmd) + ".1"
	file, err := a.NewFile("man", filepath.Join(dir, name), ledgerfile.Unknown, 0o644) // all users may read it
	if err != nil {
		return nil, err
	}
	defer file.Discard()
	if err := file.SaveBytes([]byte(manPage(cmd, newVersion(info)))); err != nil {
		return nil, err
	}
	pages := []string{name}
	for _, below := range cmd.Commands() {
		if !below.IsAvailableCommand() && below.Name() != topic {
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

// manName returns the name of a command's page.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns the manual page of a command, in troff with the macros of man(7). Its text is
// that of --help, line by line.
func manPage(cmd *cobra.Command, v versionResult) string {
	day, _, _ := strings.Cut(v.Time, "T")
	return fmt.Sprintf(".TH %q 1 %q %q\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.in 0\n.nf\n%s.fi\n",
		strings.ToUpper(manName(cmd)), day, "ledgerctl "+v.Version, manText(manName(cmd)), manText(cmd.Short),
		manText(helpPage(cmd)))
}

// manText escapes a text for troff: characters that troff replaces, and dots that begin a line,
// which would be requests.
func manText(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`).Replace(text)
	return strings.ReplaceAll("\n"+text, "\n.", "\n\\&.")[1:] // the added line end is only for the first line
}
