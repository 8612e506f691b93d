package main

import (
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// outfile is a file of results that gets its name only when it is complete, or standard output. A nil one is none.
type outfile struct {
	path string
	temp *os.File // nil for standard output
	out  io.Writer
}

// newOutput begins the file that a flag names (see checkFiles), or none if path is empty, before anything is drawn: a draw
// that could not be handed out would be a waste. Only the file's owner can read it. What goes to standard output,
// named -, stands there in place of the result.
func (a *app) newOutput(flag, path string) (*outfile, error) {
	if path == "" {
		return nil, nil
	}
	if path == "-" {
		if a.taken {
			return nil, usageError("", "%s and another file cannot both be standard output", flag)
		}
		a.taken = true
		return &outfile{path: path, out: a.stdout}, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usageError("", "%s: %q is not a regular file", flag, path)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, inputError("", "%s: %w", flag, err)
	}
	return &outfile{path, temp, temp}, nil
}

// save has the file written, and gives it its name.
func (o *outfile) save(write func(io.Writer) error) error {
	if o == nil {
		return nil
	}
	err := write(o.out)
	if o.temp == nil {
		return err
	}
	if err == nil {
		err = o.temp.Sync()
	}
	if err = errors.Join(err, o.temp.Close()); err != nil {
		return err
	}
	return os.Rename(o.temp.Name(), o.path)
}

// saveCSV is save for a file with a header and rows. Raw cells are written as they are.
func (o *outfile) saveCSV(raw bool, write func(cellWriter) error) error {
	return o.save(func(w io.Writer) error {
		out := cellWriter{csv.NewWriter(w), raw}
		if err := write(out); err != nil {
			return err
		}
		out.csv.Flush()
		return out.csv.Error()
	})
}

// discard removes the file if it did not get its name.
func (o *outfile) discard() {
	if o == nil || o.temp == nil {
		return
	}
	// After save both fail, as they should; otherwise an error is on its way already.
	_ = o.temp.Close()
	_ = os.Remove(o.temp.Name())
}
