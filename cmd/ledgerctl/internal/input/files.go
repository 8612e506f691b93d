// Package input is what commands are given: flags, files, tables of people, and keys. It sees to it
// that no command writes a file that it reads, and writes results whole or not at all.
package input

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/ledgerfile"
)

// Role is what a command does with a file.
type Role string

const (
	Reads  Role = "reads"  // it reads it
	Writes Role = "writes" // it writes it, or replaces it
)

// Form is how a flag names a file.
type Form string

const (
	ByName  Form = "FILE"      // by its name
	AtName  Form = "@FILE"     // by its name after an @; without an @ the flag is the text itself
	Labeled Form = "NAME=FILE" // by its name after another one
)

// FileNote is the annotation of flags and commands that name files: the role, the Form, and what a
// file that is written is to a ledger. By it no command writes what it reads.
const FileNote = "sluice_file"

// MarkArguments notes that the arguments of a command are files. Those that it writes are new
// ledgers.
func MarkArguments(cmd *cobra.Command, r Role) *cobra.Command {
	cmd.Annotations = map[string]string{FileNote: string(r)}
	return cmd
}

// Named is a file that a command line names.
type Named struct {
	By   string          // the flag, or FILE
	Path string          // "-" for standard input or output
	Role Role            // what the command does with it
	Kind ledgerfile.Kind // of a file that it writes, if that is one of a ledger's
}

// Files are the files of one run of the program: those that the command line names, and its
// standard streams.
type Files struct {
	Out   *output.Printer // has standard output
	Stdin io.Reader       // standard input
	named []Named         // by the command line
	own   []string        // the files of the ledgers that the command is about

	mu   sync.Mutex
	read []input // those that were opened, and can be read once only
}

// input is an input that can be read once only: standard input, or a pipe.
type input struct {
	path string
	info fs.FileInfo // nil if it is not known
}

// Name finds the files that a command line names. db is the ledger's file; served is that of a
// ledger that another process serves, or "". Neither they nor the files that belong to them are
// overwritten, whether the command opens them or not.
func (s *Files) Name(cmd *cobra.Command, args []string, db, served string) {
	all := []Named{{By: "--db", Path: db, Role: Reads}}
	s.own = []string{db}
	if served != "" {
		all, s.own = append(all, Named{By: "--addr", Path: served, Role: Reads}), append(s.own, served)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		note := f.Annotations[FileNote]
		if note == nil {
			return
		}
		for _, path := range paths(f.Value, Form(note[1])) {
			one := Named{By: "--" + f.Name, Path: path, Role: Role(note[0])}
			if len(note) > 2 {
				one.Kind = ledgerfile.Kind(note[2])
			}
			all = append(all, one)
		}
	})
	if r := cmd.Annotations[FileNote]; r != "" {
		for _, arg := range args {
			all = append(all, Named{By: "FILE", Path: arg, Role: Role(r), Kind: ledgerfile.Ledger})
		}
	}
	s.named = all
}

// paths returns the names of files in the value of a flag.
func paths(value pflag.Value, f Form) (all []string) {
	texts := []string{value.String()}
	if list, ok := value.(pflag.SliceValue); ok {
		texts = list.GetSlice()
	}
	for _, text := range texts {
		found := true
		switch f {
		case AtName:
			text, found = strings.CutPrefix(text, "@")
		case Labeled:
			_, text, found = strings.Cut(text, "=")
		}
		if found && text != "" {
			all = append(all, text)
		}
	}
	return all
}

// CheckFiles refuses a command line by which a file would be written that it names besides.
// Standard output may be a file, too.
func (s *Files) CheckFiles() error {
	for _, out := range append([]Named{{By: "standard output", Path: "-", Role: Writes}}, s.named...) {
		if out.Role != Writes {
			continue
		}
		if err := s.checkNamed(out.By, out.Path); err != nil {
			return err
		}
		if err := s.CheckPlace(out.By, out.Path, out.Kind); err != nil {
			return err
		}
	}
	return nil
}

// CheckPlace refuses an output that would replace a file that belongs to a ledger, any ledger, or
// take its place. as is what the output is itself: [ledgerfile.Unknown] for results.
func (s *Files) CheckPlace(by, path string, as ledgerfile.Kind) error {
	if path == "-" || path == "" {
		return nil
	}
	resolved, err := place(path)
	if err != nil {
		return nil // opening it reports the error
	}
	return s.checkResolved(by, resolved, as)
}

// place resolves a path as far as its directories exist: others may be created.
func place(path string) (string, error) {
	resolved, err := ledgerfile.Resolve(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return resolved, err
	}
	path, err = ledgerfile.Absolute(path)
	if path = filepath.Clean(path); err != nil || filepath.Dir(path) == path {
		return path, err
	}
	above, err := place(filepath.Dir(path))
	return filepath.Join(above, filepath.Base(path)), err
}

// checkResolved is CheckPlace for a resolved path.
func (s *Files) checkResolved(by, path string, as ledgerfile.Kind) error {
	err := ledgerfile.CheckOutput(path, as, s.own...)
	var occupied *ledgerfile.OccupiedError
	if errors.As(err, &occupied) {
		return output.UsageError("nothing was changed; give another name: no output replaces a file that belongs to "+
			"a ledger", "%s: %w", by, err)
	}
	if err != nil {
		return output.InputError("nothing was changed; give another name", "%s: %w", by, err)
	}
	return nil
}

// checkNamed refuses to write a file that the command line names besides.
func (s *Files) checkNamed(by, path string) error {
	out := Named{By: by, Path: path, Role: Writes}
	for _, other := range s.named {
		standard := path == "-" && other.Path == "-" && other.Role == Writes // NewOutput sees to that
		if other.By == by || standard || !s.same(out, other) {
			continue
		}
		if other.Role == Writes {
			return output.UsageError("each result needs a file of its own", "%s and %s name one file, %q", by, other.By,
				path)
		}
		return output.UsageError("no command writes a file that it reads", "%s would overwrite %q (%s)", by, other.Path,
			other.By)
	}
	return nil
}

// same reports whether two names lead to one regular file, or would if it existed.
func (s *Files) same(one, other Named) bool {
	info, err := s.stat(one)
	otherInfo, otherErr := s.stat(other)
	if err == nil && otherErr == nil {
		return info.Mode().IsRegular() && os.SameFile(info, otherInfo)
	}
	a, err := place(one.Path)
	b, otherErr := place(other.Path)
	if one.Path == "-" || other.Path == "-" || err != nil || otherErr != nil || filepath.Base(a) != filepath.Base(b) {
		return false // opening it reports the error
	}
	info, err = os.Stat(filepath.Dir(a))
	otherInfo, otherErr = os.Stat(filepath.Dir(b))
	return a == b || err == nil && otherErr == nil && os.SameFile(info, otherInfo)
}

func (s *Files) stat(f Named) (os.FileInfo, error) {
	if f.Path != "-" {
		return os.Stat(f.Path)
	}
	var stream any = s.Stdin
	if f.Role == Writes {
		stream = s.Out.Stdout
	}
	if file, ok := stream.(*os.File); ok {
		return file.Stat()
	}
	return nil, fs.ErrInvalid
}

// open opens a file to read; the name - stands for stdin.
func (s *Files) open(ctx context.Context, path string) (io.ReadCloser, error) {
	if err := s.once(path); err != nil {
		return nil, err
	}
	if path == "-" {
		return closable(s.Stdin), nil
	}
	file, err := openUntil(ctx, path)
	if err != nil {
		return nil, output.InputError("", "%w", err)
	}
	return file, nil
}

// once returns an error if a name stands for standard input, or a pipe, that was opened before
// under this name or another: a pipe that is opened again never ends, or waits for a writer that
// does not come.
func (s *Files) once(path string) error {
	info, err := s.stat(Named{Path: path, Role: Reads})
	if err != nil {
		info = nil
	}
	if path != "-" && (info == nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, before := range s.read {
		if before.path == path || info != nil && before.info != nil && os.SameFile(info, before.info) {
			return output.UsageError("write it to a file, and name that",
				"%q was read already, and standard input and pipes can be read once only", path)
		}
	}
	s.read = append(s.read, input{path, info})
	return nil
}

// openUntil opens a file, unless ctx ends first: a named pipe opens only once its other end does.
func openUntil(ctx context.Context, path string) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened)
	go func() {
		file, err := os.Open(path)
		select {
		case done <- opened{file, err}:
		case <-ctx.Done():
			_ = file.Close() // it was not read
		}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// closable passes a stream on. To close it ends a read that waits, which a stream itself need not
// do.
func closable(in io.Reader) io.ReadCloser {
	out, passed := io.Pipe()
	go func() {
		_, err := io.Copy(passed, in)
		_ = passed.CloseWithError(err) // it never fails
	}()
	return out
}

// Stream opens a text file for as long as use reads it, without a byte order mark (see [Text]).
// When ctx ends, it returns the reason. Standard input and pipes can be read once only.
func (s *Files) Stream(ctx context.Context, path string, use func(io.Reader) error) error {
	return s.stream(ctx, path, func(in io.Reader) error { return use(Text(in)) })
}

// stream is Stream of the bytes as they are.
func (s *Files) stream(ctx context.Context, path string, use func(io.Reader) error) error {
	in, err := s.open(ctx, path)
	if err != nil {
		return err
	}
	// Closing it also ends a read that waits for the other end of a pipe.
	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer func() {
		if stop() {
			_ = in.Close() // it was only read
		}
	}()
	err = use(in)
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	return err
}

// byteOrderMark begins the text files that some editors write.
const byteOrderMark = "\ufeff"

// Text returns a reader of a text without the byte order mark that it may begin with. All text
// files that a command reads are read through it: the mark is no part of a text, and so of no
// signed note in it. Nothing is read before the text is: a pipe may have a writer that waits until
// another one is opened.
func Text(in io.Reader) io.Reader {
	out := bufio.NewReader(in)
	return io.MultiReader(afterMark{out}, out)
}

// afterMark is an empty text, whose end is after the byte order mark of another.
type afterMark struct{ *bufio.Reader }

func (a afterMark) Read([]byte) (int, error) {
	if mark, _ := a.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = a.Discard(len(mark)) // it is there
	}
	return 0, io.EOF
}

// TextOrFile returns the text of a flag, or of the file that it names after an @, up to a size and
// without a byte order mark.
func (s *Files) TextOrFile(ctx context.Context, flag string, most int64) ([]byte, error) {
	path, named := strings.CutPrefix(flag, "@")
	if !named {
		return []byte(flag), nil
	}
	return s.all(ctx, path, most, Text)
}

// Bytes returns the bytes of a file that may be no text, up to a size.
func (s *Files) Bytes(ctx context.Context, path string, most int64) ([]byte, error) {
	return s.all(ctx, path, most, func(in io.Reader) io.Reader { return in })
}

func (s *Files) all(ctx context.Context, path string, most int64, as func(io.Reader) io.Reader) (content []byte,
	err error) {
	err = s.stream(ctx, path, func(in io.Reader) error {
		if content, err = io.ReadAll(io.LimitReader(as(in), most)); err != nil {
			return output.InputError("", "%w", err)
		}
		return nil
	})
	return content, err
}
