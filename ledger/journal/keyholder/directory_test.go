package keyholder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

const name = "test:00112233445566778899aabbccddeeff"

// reopening returns a function that closes a directory if it is open, and opens it again.
func reopening(t *testing.T) func() Holder {
	path := filepath.Join(testenv.TempDir(t), "keys")
	var d Holder
	t.Cleanup(func() { d.Close() })
	return func() Holder {
		if d != nil {
			check.Must(t, d.Close())
		}
		var err error
		d, err = OpenDirectory(path)
		check.Must(t, err)
		return d
	}
}

func TestDirectory_Conformance(t *testing.T) {
	testHolder(t, reopening)
}

// filesWith returns the files below a directory that contain b.
func filesWith(t *testing.T, dir string, b []byte) (files []string) {
	t.Helper()
	check.Must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, b) {
			files = append(files, path)
		}
		return err
	}))
	return files
}

func openDirectory(t *testing.T, path string) Holder {
	t.Helper()
	d := check.Value(OpenDirectory(path))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// A destroyed key is in no file: its file is overwritten before it is unlinked. Key files that a
// crash has left, unfinished or to be destroyed, are destroyed when the directory is opened.
func TestKeep_DestroyedKey_IsInNoFile(t *testing.T) {
	dir := filepath.Join(testenv.TempDir(t), "keys")
	d := openDirectory(t, dir)
	key := Key([]byte("thirty-two bytes of a secret key"))
	s := Segment{Term: 1, Number: 1}
	check.Must(t, d.Put(t.Context(), name, s, key))
	files := filesWith(t, dir, key[:])
	check.Need(t, len(files) == 1, "the key is in %v", files)
	gone := func() {
		t.Helper()
		files := filesWith(t, dir, key[:])
		check.That(t, len(files) == 0, "the key is still in %v", files)
	}
	left := check.Value(os.ReadFile(files[0]))(t)
	link := filepath.Join(dir, "link") // shows whether the bytes are overwritten
	check.Must(t, os.Link(files[0], link))
	check.Must(t, d.Keep(t.Context(), name, Segment{Term: 1, Number: 2}, nil))
	gone()
	text, err := os.ReadFile(link)
	check.That(t, err == nil && bytes.Equal(text, make([]byte, len(left))), "it was not overwritten: %q %v", text, err)
	check.Must(t, d.Close())
	check.Must(t, os.WriteFile(files[0], left, 0o600))
	check.Must(t, os.WriteFile(files[0]+".new", left, 0o600))
	d = openDirectory(t, dir)
	check.WantErr(t, check.Err(d.Get(t.Context(), name, s)), ErrDestroyed, "a key that should be gone")
	gone()
}

// An administrator may create the directory of a service in one that the service cannot read. But a
// directory that the service creates itself must be durable.
func TestMakeFolder_ParentCannotBeFlushed_AcceptsAnExistingDirectory(t *testing.T) {
	forbidden := &fs.PathError{Op: "open", Path: "parent", Err: fs.ErrPermission}
	broken := &fs.PathError{Op: "sync", Path: "parent", Err: errors.New("input/output error")}
	there, missing := t.TempDir(), filepath.Join(t.TempDir(), "keys")
	for _, c := range []struct {
		path        string
		flush, want error
	}{{there, forbidden, nil}, {there, broken, broken}, {missing, forbidden, fs.ErrPermission}, {missing, forbidden, fs.ErrPermission}} {
		err := makeFolder(c.path, func(string) error { return c.flush })
		check.WantErr(t, err, c.want, "%s, if a flush returns %v", c.path, c.flush)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not durable is left: %v", err)
	}
}

// A directory can be opened once at a time, only its owner can read it, and calls after Close fail.
func TestOpenDirectory_AlreadyOpen_IsErrInUse(t *testing.T) {
	dir := filepath.Join(testenv.TempDir(t), "a", "keys")
	d := openDirectory(t, dir)
	check.WantErr(t, check.Err(OpenDirectory(dir)), journal.ErrInUse, "a second time")
	check.Must(t, d.Put(t.Context(), name, Segment{Term: 1, Number: 1}, Key{1}))
	check.Must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		check.Must(t, err)
		info := check.Value(e.Info())(t)
		check.That(t, info.Mode().Perm()&0o077 == 0, "%s is open to others: %v", path, info.Mode())
		return nil
	}))
	check.Must(t, d.Close())
	check.Must(t, d.Close())
	check.WantErr(t, check.Err2(d.Seen(t.Context(), name)), fs.ErrClosed, "after Close")
	openDirectory(t, dir)
}

// A file that is damaged, of another journal or segment, or of a newer version is an error, and
// never gives a wrong key or mark.
func TestDirectory_DamagedFiles_AreErrors(t *testing.T) {
	const other = "test:ffeeddccbbaa99887766554433221100"
	fill := func(dir string) {
		d := openDirectory(t, dir)
		for _, n := range []string{name, other} {
			for number := range uint64(3) {
				s := Segment{Term: 2, Number: number + 1}
				check.Must(t, d.Put(t.Context(), n, s, Key{byte(number), n[5]}))
			}
			check.Must(t, d.Keep(t.Context(), n, Segment{Term: 2, Number: 2}, []Segment{{Term: 2, Number: 1}}))
			for events := range uint64(2) {
				check.Must(t, d.Mark(t.Context(), n, Mark{Term: 2, Position: journal.Position{Events: events + 1}}))
			}
		}
		check.Must(t, d.Close())
	}
	readAll := func(dir string) error {
		d := openDirectory(t, dir)
		defer d.Close()
		var all error
		for number := range uint64(3) {
			k, err := d.Get(t.Context(), name, Segment{Term: 2, Number: number + 1})
			all = errors.Join(all, err)
			check.That(t, err != nil || k == (Key{byte(number), name[5]}), "another key")
		}
		mark, _, err := d.Seen(t.Context(), name)
		if all = errors.Join(all, err); err == nil && mark.Position.Events != 2 {
			all = errors.Join(all, fmt.Errorf("the mark says %v", mark))
		}
		return all
	}
	folder := "test-" + name[5:]
	for _, file := range []string{"2.1.key", "2.3.key", "kept", "mark"} {
		change := func(what string, want error, do func(dir, path string)) {
			dir := filepath.Join(testenv.TempDir(t), "keys")
			fill(dir)
			do(dir, filepath.Join(dir, folder, file))
			err := readAll(dir)
			check.That(t, err != nil && (want == nil || errors.Is(err, want)), "%s: %s: %v", file, what, err)
		}
		flip := func(at int) func(_, path string) {
			return func(_, path string) {
				text := check.Value(os.ReadFile(path))(t)
				if at < 0 {
					at += len(text)
				}
				text[at] ^= 1
				check.Must(t, os.WriteFile(path, text, 0o600))
			}
		}
		damaged := errs.ErrCorrupt
		if file == "mark" {
			damaged = nil // the older of the two is left
		}
		if file != "mark" {
			change("cut", damaged, func(_, path string) { check.Must(t, os.Truncate(path, 20)) })
			change("of another journal", damaged, func(dir, path string) {
				check.Must(t, os.Rename(filepath.Join(dir, "test-"+other[5:], file), path))
			})
		}
		change("a bit at its end", damaged, flip(-1))
		change("a bit in its midst", damaged, flip(-30))
		version := map[string]int{"kept": 12, "mark": 512 + 12}[file]
		change("a newer version", errs.ErrVersion, flip(max(version, 11)))
	}
	dir := filepath.Join(testenv.TempDir(t), "keys")
	fill(dir)
	check.Must(t, os.Rename(filepath.Join(dir, folder, "2.3.key"), filepath.Join(dir, folder, "2.2.key")))
	check.WantErr(t, readAll(dir), errs.ErrCorrupt, "the key of another segment")
	check.Must(t, os.WriteFile(filepath.Join(dir, folder, "x.key"), nil, 0o600))
	d := openDirectory(t, dir)
	check.WantErr(t, check.Err2(d.Seen(t.Context(), name)), errs.ErrCorrupt, "a key of no segment")
	check.Must(t, d.Close())
}

// A power failure may damage one of the two marks; then the other counts. If both are damaged, it
// is an error.
func TestSeen_OneDamagedMark_ReturnsTheOther(t *testing.T) {
	dir := filepath.Join(testenv.TempDir(t), "keys")
	d := openDirectory(t, dir)
	for events := range uint64(3) {
		check.Must(t, d.Mark(t.Context(), name, Mark{Term: 1, Position: journal.Position{Events: 10 + events}}))
	}
	check.Must(t, d.Close())
	path := filepath.Join(dir, "test-"+name[5:], "mark")
	text := check.Value(os.ReadFile(path))(t)
	for _, c := range []struct {
		torn []int
		want uint64
	}{{nil, 12}, {[]int{0}, 11}, {[]int{512}, 12}, {[]int{0, 512}, 0}} {
		b := bytes.Clone(text)
		for _, at := range c.torn {
			clear(b[at+20 : at+40])
		}
		check.Must(t, os.WriteFile(path, b, 0o600))
		d := openDirectory(t, dir)
		mark, _, err := d.Seen(t.Context(), name)
		check.That(t, mark.Position.Events == c.want && (c.want == 0) == errors.Is(err, errs.ErrCorrupt),
			"torn at %v: %v %v", c.torn, mark, err)
		if err == nil { // the next one does not overwrite the one that is good
			check.Must(t, d.Mark(t.Context(), name, Mark{Term: 1, Position: journal.Position{Events: 20}}))
			check.Must(t, d.Close())
			after := check.Value(os.ReadFile(path))(t)
			kept := 0
			for _, at := range []int{0, 512} {
				if bytes.Equal(after[at:at+65], b[at:at+65]) {
					kept++
				}
			}
			check.That(t, kept == 1, "torn at %v: %d marks were left alone", c.torn, kept)
		}
		check.Must(t, d.Close())
	}
}

// If a directory cannot be written to, Put and Keep return the error and change nothing.
func TestDirectory_DiskFails_ChangesNothing(t *testing.T) {
	dir := filepath.Join(testenv.TempDir(t), "keys")
	d := openDirectory(t, dir)
	s := Segment{Term: 1, Number: 1}
	check.Must(t, d.Put(t.Context(), name, s, Key{1}))
	folder := filepath.Join(dir, "test-"+name[5:])
	for _, file := range []string{"1.2.key", "kept"} {
		check.Must(t, os.Symlink(filepath.Join(dir, "nowhere", file), filepath.Join(folder, file)))
	}
	check.WantErr(t, d.Put(t.Context(), name, Segment{Term: 1, Number: 2}, Key{2}), fs.ErrNotExist, "Put of a key that cannot be kept")
	check.WantErr(t, d.Keep(t.Context(), name, Segment{Term: 1, Number: 2}, nil), fs.ErrNotExist, "Keep where it cannot be noted")
	check.WantErr(t, check.Err(d.Get(t.Context(), name, s)), nil, "a key that is not destroyed")
}

// Mark returns ErrReplaced if the path of the directory no longer leads to the open file.
func TestMark_DirectoryReplaced_IsRefused(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"replaced by a copy": func(path string) error {
			return errors.Join(os.CopyFS(path+".copy", os.DirFS(path)), os.RemoveAll(path), os.Rename(path+".copy", path))
		},
		"removed": os.RemoveAll,
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(testenv.TempDir(t), "keys")
			d := check.Value(OpenDirectory(path))(t)
			defer d.Close()
			m := Mark{Term: 1, Position: journal.Position{Events: 1}}
			check.Must(t, d.Mark(t.Context(), name, m))
			check.Must(t, change(path))
			for range 2 {
				m.Position.Events = 2
				check.WantErr(t, d.Mark(t.Context(), name, m), errs.ErrReplaced, "Mark")
			}
		})
	}
}
