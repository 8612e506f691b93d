package main

import (
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// outfile is a file of results that gets its name only when it is complete. A nil one is none.
type outfile struct {
	path string
	temp *os.File
}

// newOutput begins the file that a flag names, or none if path is empty, before anything is drawn: a draw
// that could not be handed out would be a waste. Only the file's owner can read it. It must not be one that
// the command reads or writes besides.
func (a *app) newOutput(flag, path string, others ...string) (*outfile, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usageError("", "%s: %q is not a regular file", flag, path)
	}
	for _, other := range slices.Concat([]string{a.db, a.db + ".key"}, a.keys.files(), others) {
		if sameFile(path, other) {
			return nil, usageError("", "%s would overwrite %q", flag, other)
		}
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, inputError("", "%s: %w", flag, err)
	}
	return &outfile{path, temp}, nil
}

// sameFile tells whether two names lead to one file, or would if it existed. The empty name leads nowhere.
func sameFile(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	if err == nil && otherErr == nil {
		return os.SameFile(one, other)
	}
	return place(a) == place(b)
}

// place is a name that two ways to the same directory have in common.
func place(path string) string {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return filepath.Clean(path)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return filepath.Join(dir, filepath.Base(path))
}

// save has the file written, and gives it its name.
func (o *outfile) save(write func(io.Writer) error) error {
	if o == nil {
		return nil
	}
	err := write(o.temp)
	if err == nil {
		err = o.temp.Sync()
	}
	if err = errors.Join(err, o.temp.Close()); err != nil {
		return err
	}
	return os.Rename(o.temp.Name(), o.path)
}

// saveCSV is save for a file with a header and rows.
func (o *outfile) saveCSV(write func(*csv.Writer) error) error {
	return o.save(func(w io.Writer) error {
		out := csv.NewWriter(w)
		if err := write(out); err != nil {
			return err
		}
		out.Flush()
		return out.Error()
	})
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
