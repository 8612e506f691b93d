package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// role is what a command does with a file.
type role string

const (
	reads  role = "reads"
	writes role = "writes"
)

// form is how a flag names a file.
type form string

const (
	byName  form = "FILE"
	behind  form = "@FILE" // or it has the text itself
	labeled form = "NAME=FILE"
)

// fileNote is the annotation of flags that name files: the role and the form.
const fileNote = "sluice_file"

// marksFiles notes that flags of a command name files. All flags that do are marked: by that, no command writes what it
// reads.
func marksFiles(flags *pflag.FlagSet, r role, f form, names ...string) {
	for _, name := range names {
		// It fails only for a flag that was not defined.
		_ = flags.SetAnnotation(name, fileNote, []string{string(r), string(f)})
	}
}

// marksArguments notes that the arguments of a command are files.
func marksArguments(cmd *cobra.Command, r role) {
	cmd.Annotations = map[string]string{fileNote: string(r)}
}

// namedFile is a file that a command line names.
type namedFile struct {
	by   string // the flag, or FILE
	path string // "-" for standard input or output
	role role
}

// namedFiles returns the files that a command line names. The ledger, its signing key and what the environment names
// are among them, whether the command opens them or not.
func (a *app) namedFiles(cmd *cobra.Command, args []string) []namedFile {
	all := []namedFile{{"--db", a.db, reads}, {"--signer", a.db + ".key", reads}}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		note := f.Annotations[fileNote]
		if note == nil {
			return
		}
		for _, path := range paths(f.Value, form(note[1])) {
			all = append(all, namedFile{"--" + f.Name, path, role(note[0])})
		}
	})
	if r := cmd.Annotations[fileNote]; r != "" {
		for _, arg := range args {
			all = append(all, namedFile{"FILE", arg, role(r)})
		}
	}
	return all
}

// paths returns the names of files in the value of a flag.
func paths(value pflag.Value, f form) (all []string) {
	texts := []string{value.String()}
	if list, ok := value.(pflag.SliceValue); ok {
		texts = list.GetSlice()
	}
	for _, text := range texts {
		found := true
		switch f {
		case behind:
			text, found = strings.CutPrefix(text, "@")
		case labeled:
			_, text, found = strings.Cut(text, "=")
		}
		if found && text != "" {
			all = append(all, text)
		}
	}
	return all
}

// checkFiles refuses a command line by which a file would be written that it names besides. Standard output may be a
// file, too.
func (a *app) checkFiles() error {
	for _, out := range append([]namedFile{{"standard output", "-", writes}}, a.files...) {
		if out.role != writes {
			continue
		}
		if err := a.checkWritten(out.by, out.path); err != nil {
			return err
		}
	}
	return nil
}

// checkWritten refuses to write a file that the command line names besides.
func (a *app) checkWritten(by, path string) error {
	out := namedFile{by, path, writes}
	for _, other := range a.files {
		standard := path == "-" && other.path == "-" && other.role == writes // newOutput sees to that
		if other.by != by && !standard && a.same(out, other) {
			return usageError("no command writes a file that it reads", "%s would overwrite %q (%s)", by, other.path, other.by)
		}
	}
	return nil
}

// same tells whether two names lead to one regular file, or would if it existed.
func (a *app) same(one, other namedFile) bool {
	info, err := a.stat(one)
	otherInfo, otherErr := a.stat(other)
	if err == nil && otherErr == nil {
		return info.Mode().IsRegular() && os.SameFile(info, otherInfo)
	}
	return one.path != "-" && other.path != "-" && samePlace(one.path, other.path)
}

func (a *app) stat(f namedFile) (os.FileInfo, error) {
	if f.path != "-" {
		return os.Stat(f.path)
	}
	var stream any = a.stdin
	if f.role == writes {
		stream = a.stdout
	}
	if file, ok := stream.(*os.File); ok {
		return file.Stat()
	}
	return nil, fs.ErrInvalid
}

// samePlace tells whether two names of files, one of which does not exist, stand for the same place.
func samePlace(a, b string) bool {
	a, b = target(a), target(b)
	if filepath.Base(a) != filepath.Base(b) {
		return false
	}
	one, err := os.Stat(filepath.Dir(a))
	other, otherErr := os.Stat(filepath.Dir(b))
	if err != nil || otherErr != nil {
		return a == b
	}
	return os.SameFile(one, other)
}

// target follows links that lead to nothing, as far as they lead.
func target(path string) string {
	const most = 40
	for range most {
		next, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(path), next)
		}
		path = next
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return filepath.Clean(path)
}
