package main

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
)

// outfile is a file of responses that gets its name only when it is complete. A nil one is none.
type outfile struct {
	path string
	temp *os.File
}

// newOutput begins a file, or none if path is empty, before anything is drawn: a draw that could not
// be handed out would be a waste. The file must not be one that the command reads.
func (a *app) newOutput(path string, inputs ...string) (*outfile, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return nil, usageError("", "--out: %q is not a regular file", path)
		}
		for _, other := range append([]string{a.db, a.db + ".key"}, inputs...) {
			if kept, err := os.Stat(other); err == nil && os.SameFile(info, kept) {
				return nil, usageError("", "--out would overwrite %q", other)
			}
		}
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, inputError("", "--out: %w", err)
	}
	return &outfile{path, temp}, nil
}

// save has the responses written, and gives the file its name.
func (o *outfile) save(write func(*csv.Writer) error) error {
	if o == nil {
		return nil
	}
	out := csv.NewWriter(o.temp)
	err := write(out)
	if err == nil {
		out.Flush()
		err = out.Error()
	}
	if err == nil {
		err = o.temp.Sync()
	}
	if err = errors.Join(err, o.temp.Close()); err != nil {
		return err
	}
	return os.Rename(o.temp.Name(), o.path)
}

// discard removes the file if it did not get its name.
func (o *outfile) discard() {
	if o == nil {
		return
	}
	// After save both fail, as they should; otherwise an error is on its way already.
	_ = o.temp.Close()
	_ = os.Remove(o.temp.Name())
}
