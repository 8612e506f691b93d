package ledgerfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Options configures how a file is written. The zero value replaces a file, or creates one that
// only its owner can read.
type Options struct {
	Mode   fs.FileMode             // of a file that does not exist yet; 0 means 0600
	Suffix string                  // end of the temporary file's name; a crash may leave that file
	New    bool                    // the file must not exist, else [fs.ErrExist]
	Check  func(path string) error // called with the resolved path first, and again before the file is replaced
}

// File is the new content of a file, under a temporary name in the same directory. Commit replaces
// the file. Errors name the file to be replaced, not the temporary one ([Renamed]).
type File struct {
	new     *os.File // the temporary file; nil before createTemp
	path    string   // of the file to be replaced, without symbolic links
	root    *os.Root // the directory of both
	temp    string   // name of the temporary file in root
	options Options
	done    bool // committed or discarded
	// renameNew is [RenameNew]. A test replaces it to simulate a system without it.
	renameNew func(from, to string) error
}

// Create begins to write the file that path names. It follows symbolic links, including those to
// files that do not exist. The file itself does not change before [File.Commit]. The caller must
// call Commit or [File.Discard].
//
// It returns an error if the existing file is not a regular file, or if its owner cannot be kept.
// It also does so if the file has several hard links, because only one of them would lead to the
// new file.
func Create(path string, o Options) (f *File, err error) {
	if o.Mode == 0 {
		o.Mode = 0o600
	}
	resolved, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(filepath.Dir(resolved))
	if err != nil {
		return nil, err
	}
	f = &File{path: resolved, root: root, options: o, renameNew: RenameNew}
	if err = f.check(); err == nil {
		err = f.createTemp()
	}
	if err == nil {
		err = f.dress()
	}
	if err != nil {
		f.Discard()
		return nil, f.renamed(err)
	}
	return f, nil
}

// Path returns the absolute path of the file to be replaced, without symbolic links.
func (f *File) Path() string { return f.path }

// Write appends to the new content.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.new.Write(p)
	return n, f.renamed(err)
}

// renamed converts an error about the temporary file to one about the file.
func (f *File) renamed(err error) error {
	if f.temp == "" {
		return err
	}
	return Renamed(err, f.path, filepath.Join(f.root.Name(), f.temp), f.temp)
}

// base returns the name of the file in its directory.
func (f *File) base() string { return filepath.Base(f.path) }

// old returns the info of the file to be replaced, or nil and nil if it does not exist. It returns
// an error if the file must not be replaced: it is [fs.ErrExist] with Options.New, or the file is
// not regular, or has several hard links.
func (f *File) old() (fs.FileInfo, error) {
	info, err := f.root.Lstat(f.base())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case f.options.New:
		return nil, &fs.PathError{Op: "create", Path: f.path, Err: fs.ErrExist}
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%q is not a regular file", f.path)
	case links(info) > 1:
		return nil, fmt.Errorf("%q has %d hard links: the others would keep the old content; remove them, "+
			"or use symbolic links", f.path, links(info))
	}
	return info, nil
}

// check returns why the file must not be replaced, or nil. It is called by Create, and again by
// Commit, because the file may have changed in between.
func (f *File) check() error {
	if _, err := f.old(); err != nil {
		return err
	}
	if f.options.Check != nil {
		return f.options.Check(f.path)
	}
	return nil
}

// createTemp creates the temporary file, with a random name in the directory of the file. At first
// only its owner can read it.
func (f *File) createTemp() (err error) {
	f.temp = "." + f.base() + "." + rand.Text()[:12] + f.options.Suffix
	f.new, err = f.root.OpenFile(f.temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return err
}

// dress gives the new file the owner and the mode of the file to be replaced. If there is none, it
// sets Options.Mode.
func (f *File) dress() error {
	old, err := f.old()
	if err != nil {
		return err
	}
	if old != nil {
		return Keep(f.new, old)
	}
	return f.new.Chmod(f.options.Mode)
}

// Keep gives a new file f the owner, the group and the mode of another one.
func Keep(f *os.File, of fs.FileInfo) error {
	if err := keepOwner(f, of); err != nil {
		return err
	}
	return f.Chmod(of.Mode().Perm()) // after the owner, because a change of the owner may remove mode bits
}

// Commit replaces the file with the new content, and returns when that is durable. After an error
// the file has its old content, unless the error is one of syncing the directory, which happens
// last.
func (f *File) Commit() error {
	if f.done {
		return fs.ErrClosed
	}
	defer f.Discard()
	return f.renamed(f.commit())
}

// commit flushes the new content, checks again that the file may be replaced, and gives the new
// content its name. It does not discard the temporary file after an error, and its errors may have
// the temporary name.
func (f *File) commit() error {
	err := f.dress() // the file may have got another owner or mode since Create
	if err == nil {
		err = f.new.Sync()
	}
	if err = errors.Join(err, f.new.Close()); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if f.options.New {
		err = f.link()
	} else {
		err = f.root.Rename(f.temp, f.base())
	}
	if err != nil {
		return err
	}
	return TrySyncDir(f.root.Name()) // makes the new name durable
}

// link gives the new file its name, unless that name exists: then it returns [fs.ErrExist]. It
// tries a hard link, then a rename that does not replace a file, then [File.reserve]. Not every
// file system has hard links, and not every system has such a rename. After a hard link, Discard
// removes the temporary name.
func (f *File) link() error {
	err := f.root.Link(f.temp, f.base())
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	from, to := filepath.Join(f.root.Name(), f.temp), filepath.Join(f.root.Name(), f.base())
	err = f.renameNew(from, to)
	if err == nil {
		return nil
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return f.reserve()
}

// reserve gives the new file its name, unless that name exists: then it returns [fs.ErrExist]. It
// creates an empty file, which reserves the name, and replaces that by the new file. A crash may
// leave the empty file; an error does not.
func (f *File) reserve() error {
	reserved, err := f.root.OpenFile(f.base(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = reserved.Close()
	if err == nil {
		err = f.root.Rename(f.temp, f.base())
	}
	if err != nil {
		err = errors.Join(err, f.root.Remove(f.base()))
	}
	return err
}

// Discard removes the temporary file if it was not committed. After Commit, or a first call, it
// does nothing.
func (f *File) Discard() {
	if f == nil || f.done {
		return
	}
	f.done = true
	if f.new != nil {
		_ = f.new.Close()         // fails if it was closed before
		_ = f.root.Remove(f.temp) // fails if it was renamed
	}
	_ = f.root.Close()
}

// Write replaces the content of the file that path names, or creates the file. When it returns nil,
// the new content is durable. Errors are those of [Create] and [File.Commit].
func Write(path string, content []byte, o Options) error {
	f, err := Create(path, o)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Commit()
}
