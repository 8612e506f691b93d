package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/lab/internal/chart"
)

// picture is a file that gets its name when it is complete. A nil picture writes nothing.
type picture struct {
	path   string
	format string // "png" or "svg"
	file   *ledgerfile.File
}

// newPicture creates the picture that a flag names, or returns nil if path is empty.
func newPicture(flag, path string) (*picture, error) {
	if path == "" {
		return nil, nil
	}
	format, err := chart.Format(path)
	if err != nil {
		return nil, usageError("name a file that ends in .svg or .png", "%s: %w", flag, err)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usageError("", "%s: %q is not a regular file", flag, path)
	}
	check := func(resolved string) error { return ledgerfile.CheckOutput(resolved, ledgerfile.Unknown) }
	file, err := ledgerfile.Create(path, ledgerfile.Options{Mode: 0o600, Check: check})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, inputError("", "%s: there is no directory %q", flag, filepath.Dir(path))
	}
	if err != nil {
		return nil, inputError("", "%s: %q cannot be written: %w", flag, path, err)
	}
	return &picture{path, format, file}, nil
}

// save draws a plot with a size in points into the file, and gives the file its name.
func (p *picture) save(drawn *plot.Plot, width, height float64) error {
	if err := chart.WriteWithLegend(p.file, drawn, p.format, width, height); err != nil {
		return err
	}
	return p.file.Commit()
}

// discard removes the file unless it was saved.
func (p *picture) discard() {
	if p != nil {
		p.file.Discard()
	}
}
