// Package input has the input of commands: flags, files, tables of people, and keys. It ensures
// that no command writes a file that it reads, and that results are written completely or not at
// all.
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

// Role is the use of a file by a command.
type Role string

const (
	Reads  Role = "reads"  // the command reads it
	Writes Role = "writes" // the command creates or replaces it
)

// Form is the form in which a flag names a file.
type Form string

const (
	ByName  Form = "FILE"      // the flag is the path
	AtName  Form = "@FILE"     // without an @, the flag is the text itself
	Labeled Form = "NAME=FILE" // NAME is the name of a key
)

// FileNote is the annotation of flags and commands that name files: the [Role], the [Form], and the
// [ledgerfile.Kind] of a file that is written. [Files.CheckFiles] uses it.
const FileNote = "sluice_file"

// MarkArguments marks the arguments of a command as files. Files that the command writes are new
// ledgers.
func MarkArguments(cmd *cobra.Command, r Role) *cobra.Command {
	cmd.Annotations = map[string]string{FileNote: string(r)}
	return cmd
}

// Named is a file that a command line names.
type Named struct {
	By   string          // the flag, or FILE for an argument
	Path string          // "-" for standard input or output
	Role Role            // whether the command reads or writes it
	Kind ledgerfile.Kind // of a file that is written and belongs to a ledger
}

// Files are the files of one run of the program: the files that the command line names, and the
// standard streams.
type Files struct {
	Out   *output.Printer // has standard output
	Stdin io.Reader       // standard input
	named []Named         // on the command line
	own   []string        // the files of the ledgers that the command uses

	mu   sync.Mutex
	read []input // opened inputs that can be read only once
}

// input is an input that can be read only once: standard input, or a pipe.
type input struct {
	path string
	info fs.FileInfo // nil if it is unknown
}

// Name collects the files that a command line names. db is the ledger's file. served is the file of
// a ledger that another process serves, or "". Neither of them is overwritten, nor a file that
// belongs to one of them, even if the command does not open it.
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

// paths returns the paths of files in the value of a flag.
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

// CheckFiles returns an error if the command would write a file that the command line also names
// elsewhere. Standard output may be such a file.
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

// CheckPlace returns an error if an output would replace a file that belongs to any ledger, or take
// its place. as is the kind of the output: [ledgerfile.Unknown] for results.
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

// place resolves a path as far as its directories exist. The others may be created later.
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
		return output.UsageError("nothing was changed; choose another name: an output cannot replace a file that "+
			"belongs to a ledger", "%s: %w", by, err)
	}
	if err != nil {
		return output.InputError("nothing was changed; choose another name", "%s: %w", by, err)
	}
	return nil
}

// checkNamed returns an error if the output of a flag (by) to a path is also named by another flag
// or argument, as an input or as another output.
func (s *Files) checkNamed(by, path string) error {
	out := Named{By: by, Path: path, Role: Writes}
	for _, other := range s.named {
		standard := path == "-" && other.Path == "-" && other.Role == Writes // NewFile checks this
		if other.By == by || standard || !s.same(out, other) {
			continue
		}
		if other.Role == Writes {
			return output.UsageError("each result needs its own file", "%s and %s name one file, %q", by, other.By,
				path)
		}
		return output.UsageError("a command cannot write a file that it reads", "%s would overwrite %q (%s)", by,
			other.Path, other.By)
	}
	return nil
}

// same reports whether two names lead to one regular file, or would lead to one if it existed.
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

// stat returns the information about a file that the command line names. For "-" it is that of
// standard input or output, or an error if this is not a file.
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

// open opens a file for reading. The path "-" is standard input.
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

// once returns an error if a path is standard input or a pipe, and was opened before, under this or
// another name. A pipe that is opened a second time has no end, or waits for another writer.
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
			return output.UsageError("write it to a file, and name that file",
				"%q was read already; standard input and pipes can be read once only", path)
		}
	}
	s.read = append(s.read, input{path, info})
	return nil
}

// openUntil opens a file, or returns the error of ctx if that ends first. Opening a named pipe
// waits until its other end is opened.
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

// closable returns a reader of a stream that can be closed at any time: a read that waits then
// returns an error. The stream itself may not support that, and stays open.
func closable(in io.Reader) io.ReadCloser {
	out, passed := io.Pipe()
	go func() {
		_, err := io.Copy(passed, in)
		_ = passed.CloseWithError(err) // it never fails
	}()
	return out
}

// Stream opens a text file, calls use to read it, and closes it. The text has no byte order mark
// (see [Text]). If ctx ends, Stream returns its error. Standard input and pipes can be read only
// once.
func (s *Files) Stream(ctx context.Context, path string, use func(io.Reader) error) error {
	return s.stream(ctx, path, func(in io.Reader) error { return use(Text(in)) })
}

// stream is Stream for the bytes of the file, with a byte order mark if there is one.
func (s *Files) stream(ctx context.Context, path string, use func(io.Reader) error) error {
	in, err := s.open(ctx, path)
	if err != nil {
		return err
	}
	// Closing the file also ends a read that waits for the other end of a pipe.
	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer func() {
		if stop() {
			_ = in.Close() // nothing was written
		}
	}()
	err = use(in)
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	return err
}

// byteOrderMark is at the beginning of the text files of some editors.
const byteOrderMark = "\ufeff"

// Text returns a reader of a text without the byte order mark that it may begin with. Commands read
// all text files through it, because the mark is not part of a signed note in the text. Text itself
// reads nothing: the writer of a pipe may wait until another pipe is opened.
func Text(in io.Reader) io.Reader {
	out := bufio.NewReader(in)
	return io.MultiReader(afterMark{out}, out)
}

// afterMark is an empty text: its Read returns [io.EOF]. Before that it skips the byte order mark
// at the beginning of the embedded reader, if there is one.
type afterMark struct{ *bufio.Reader }

// Read implements [io.Reader].
func (a afterMark) Read([]byte) (int, error) {
	if mark, _ := a.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = a.Discard(len(mark)) // cannot fail after Peek
	}
	return 0, io.EOF
}

// TextOrFile returns the text of a flag, or the content of the file that the flag names after an @,
// without a byte order mark and up to most bytes.
func (s *Files) TextOrFile(ctx context.Context, flag string, most int64) ([]byte, error) {
	path, named := strings.CutPrefix(flag, "@")
	if !named {
		return []byte(flag), nil
	}
	return s.all(ctx, path, most, Text)
}

// Bytes returns the content of a file, which need not be text, up to most bytes.
func (s *Files) Bytes(ctx context.Context, path string, most int64) ([]byte, error) {
	return s.all(ctx, path, most, func(in io.Reader) io.Reader { return in })
}

// all returns the content of a file, up to most bytes. as may wrap the reader of the file.
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
