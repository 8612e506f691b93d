// Package picture draws the shares of an estimate.
package picture

import (
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/chart"
)

// File is a picture in the making, in the format that its name asks for. The zero value is none:
// saving it does nothing.
type File struct {
	format string
	out    *files.Output // nil for none
}

// New begins the picture that a flag names; none if path is "".
func New(all *files.Files, flag, path string) (File, error) {
	name, err := format(flag, path)
	if err != nil {
		return File{}, err
	}
	out, err := all.NewOutput(flag, path)
	return File{name, out}, err
}

// Discard gives the picture up, unless it was saved.
func (f File) Discard() { f.out.Discard() }

// format returns the format of the picture that a flag names, or "" for none.
func format(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	name, err := chart.Format(path)
	if err != nil {
		return "", output.UsageError("name a file that ends in .svg or .png", "%s: %w", flag, err)
	}
	return name, nil
}
