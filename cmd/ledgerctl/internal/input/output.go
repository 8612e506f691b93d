package input

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/ledgerfile"
)

// Output is a flag for a file of results or standard output. A file gets its name when it is
// complete. The zero value has no path, and nothing is written.
type Output struct {
	Path string           // "-" for standard output
	by   string           // the name of the flag
	file *ledgerfile.File // nil for standard output
	out  io.Writer
}

// Set implements [pflag.Value].
func (o *Output) Set(text string) error {
	o.Path = text
	return nil
}

// String implements [pflag.Value].
func (o *Output) String() string { return o.Path }

// Type implements [pflag.Value].
func (o *Output) Type() string { return "string" }

// begin creates the file that a flag names, if it names one. Commands call it before they draw,
// because the budget of a draw that cannot be written would be wasted.
func (s *Files) begin(o *Output) error {
	if o.Path == "" {
		return nil
	}
	begun, err := s.NewFile("--"+o.by, o.Path, ledgerfile.Unknown, 0o600)
	if err == nil {
		o.file, o.out = begun.file, begun.out
	}
	return err
}

// NewFile creates a file of a kind, under a temporary name. [Output.Save] gives it the name path:
// it replaces the file that path leads to, and keeps its owner and mode; a new file has mode. If
// path is "-", Save writes to standard output, and the result of the command is not printed. The
// caller must call [Output.Discard]. flag is the name in errors.
func (s *Files) NewFile(flag, path string, as ledgerfile.Kind, mode fs.FileMode) (*Output, error) {
	if path == "-" {
		if s.Out.Taken {
			return nil, output.UsageError("", "%s and another file cannot both be standard output", flag)
		}
		s.Out.Taken = true
		return &Output{Path: path, out: s.Out.Stdout}, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, output.UsageError("", "%s: %q is not a regular file", flag, path)
	}
	if err := s.checkNamed(flag, path); err != nil {
		return nil, err
	}
	check := func(resolved string) error { return s.checkResolved(flag, resolved, as) }
	file, err := ledgerfile.Create(path, ledgerfile.Options{Mode: mode, Check: check})
	switch {
	case errors.As(err, new(*output.Error)):
		return nil, err
	case errors.Is(err, fs.ErrNotExist) && isDir(filepath.Dir(path)):
		return nil, output.InputError("", "%s: the symbolic link %q leads to a directory that does not exist", flag,
			path)
	case errors.Is(err, fs.ErrNotExist):
		return nil, output.InputError("", "%s: there is no directory %q", flag, filepath.Dir(path))
	case err != nil:
		return nil, output.InputError("", "%s: %q cannot be written: %w", flag, path, output.Cause(err))
	}
	return &Output{Path: path, file: file, out: file}, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Save calls write, and then gives the file its name. It does nothing if the flag has no path.
func (o *Output) Save(write func(io.Writer) error) error {
	if o.Path == "" {
		return nil
	}
	err := write(o.out)
	if err != nil || o.file == nil {
		return err
	}
	return o.file.Commit()
}

// SaveBytes is [Output.Save] for content that is complete.
func (o *Output) SaveBytes(content []byte) error {
	return o.Save(func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Discard removes the file unless Save has given it its name.
func (o *Output) Discard() { o.file.Discard() }
