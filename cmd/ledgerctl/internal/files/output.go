package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
)

// Output is a file of results that gets its name only when it is complete, or standard output. A nil one is none.
type Output struct {
	Path string   // its name; - for standard output
	temp *os.File // nil for standard output
	out  io.Writer
}

// NewOutput begins the file that a flag names (see [Files.CheckFiles]), or none if path is empty, before anything is drawn: a draw
// that could not be handed out would be a waste. Only the file's owner can read it. What goes to standard output,
// named -, stands there in place of the result.
func (s *Files) NewOutput(flag, path string) (*Output, error) {
	if path == "" {
		return nil, nil
	}
	if path == "-" {
		if s.Out.Taken {
			return nil, fault.Usage("", "%s and another file cannot both be standard output", flag)
		}
		s.Out.Taken = true
		return &Output{Path: path, out: s.Out.Stdout}, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fault.Usage("", "%s: %q is not a regular file", flag, path)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.Input("", "%s: there is no directory %q", flag, filepath.Dir(path))
	case err != nil:
		return nil, fault.Input("", "%s: no file can be made in %q: %w", flag, filepath.Dir(path), fault.Cause(err))
	}
	return &Output{path, temp, temp}, nil
}

// Save has the file written, and gives it its name.
func (o *Output) Save(write func(io.Writer) error) error {
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
	return os.Rename(o.temp.Name(), o.Path)
}

// Discard removes the file if it did not get its name.
func (o *Output) Discard() {
	if o == nil || o.temp == nil {
		return
	}
	// After save both fail, as they should; otherwise an error is on its way already.
	_ = o.temp.Close()
	_ = os.Remove(o.temp.Name())
}
