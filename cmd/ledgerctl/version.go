package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it was built from",
		Long: `Print the version of the module, the revision that it was built from in version control, whether files were
changed beside it, and the version of Go, as far as the build has noted them.`,
		Example:           "  ledgerctl version",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo()
			return a.Print(newVersion(info))
		}),
	}
}

// versionResult is what a build has noted about itself.
type versionResult struct {
	Version  string `json:"version"`  // of the module, or ""
	Revision string `json:"revision"` // in version control, or ""
	Time     string `json:"time"`     // of the revision, or ""
	Modified bool   `json:"modified"` // files differed from the revision
	Go       string `json:"go"`       // the version of Go, or ""
}

// newVersion reads what a build has noted, which may be nothing.
func newVersion(info *debug.BuildInfo) (out versionResult) {
	if info == nil {
		return out
	}
	out.Version, out.Go = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			out.Revision = s.Value
		case "vcs.time":
			out.Time = s.Value
		case "vcs.modified":
			out.Modified = s.Value == "true"
		}
	}
	return out
}

// version is the module's, as far as the build knows it.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return orUnknown(newVersion(info).Version)
}

func orUnknown(text string) string {
	if text == "" {
		return "(unknown)"
	}
	return text
}

func (r versionResult) Table(w io.Writer) {
	changed := ""
	if r.Modified {
		changed = ", with files changed since"
	}
	fmt.Fprintf(w, "version\t%s\nrevision\t%s%s\nof\t%s\ngo\t%s\n", orUnknown(r.Version), orUnknown(r.Revision), changed, orUnknown(r.Time), orUnknown(r.Go))
}
