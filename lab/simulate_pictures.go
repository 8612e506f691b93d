package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/lab/internal/figures"
	"github.com/sluicedp/sluice/lab/internal/simulate"
)

// pictures are the files of the figures of an experiment, by the figure's number.
type pictures map[string][]*picture

// newPictures creates the files of all figures, each as PNG and SVG, in a directory, which it
// creates if necessary. If dir is empty, it creates nothing. After an error it also returns the
// files that it has created, so that the caller discards them.
func newPictures(dir string, ids []string) (pictures, error) {
	if dir == "" {
		return nil, nil
	}
	const hint = "--out needs a directory that you may write to"
	if resolved, err := ledgerfile.Absolute(dir); err == nil {
		if err := ledgerfile.CheckOutput(filepath.Clean(resolved), ledgerfile.Unknown); err != nil {
			return nil, inputError(hint, "--out: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, inputError(hint, "--out: %w", err)
	}
	all := pictures{}
	for _, id := range ids {
		for _, format := range []string{"png", "svg"} {
			one, err := newPicture("--out", filepath.Join(dir, "figure-"+id+"."+format))
			if err != nil {
				if classed := new(fault); errors.As(err, &classed) && classed.kind == "input" {
					classed.hint = hint
				}
				return all, err
			}
			all[id] = append(all[id], one)
		}
	}
	return all, nil
}

// save draws the figures, and returns the names of the files.
func (p pictures) save(ctx context.Context, all []simulate.Figure) ([]string, error) {
	names := []string{}
	for _, f := range all {
		for _, one := range p[f.ID] {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			drawn, err := figures.Draw(f)
			if err == nil {
				err = one.save(drawn, figures.Width, figures.Height)
			}
			if err != nil {
				return nil, fmt.Errorf("figure %s: %w", f.ID, err)
			}
			names = append(names, one.path)
		}
	}
	return names, nil
}

// discard removes the files that were not saved.
func (p pictures) discard() {
	for _, files := range p {
		for _, one := range files {
			one.discard()
		}
	}
}
