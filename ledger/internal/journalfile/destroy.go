package journalfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Remove destroys the bytes of a claimed journal and its directory, and closes the handle. When it
// returns nil, nothing is left. If the machine crashes before, either the journal is whole, or
// [Sweep] destroys the rest. [journal.ErrFenced]: the journal was not claimed. [journal.ErrForked]:
// the directory has other files; nothing has changed. errs.ErrReplaced: the journal is not what
// this handle left; nothing has changed, and the handle is stopped.
func (j *Journal) Remove() error {
	j.trimming.Lock()
	defer j.trimming.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.checkReady(context.Background()); err != nil {
		return err
	}
	if j.term == 0 {
		return journal.ErrFenced
	}
	if err := j.check(); err != nil { // otherwise Remove would destroy another journal at this path
		return err
	}
	if _, err := listOwn(j.dir); err != nil {
		return err
	}
	err := j.closeSegments() // because some systems do not remove an open file
	if err == nil {
		err = removeDir(j.parent, j.base, j.dir)
	}
	if err != nil { // errors name the original path, because the directory may be renamed already
		err = classify(ledgerfile.Renamed(err, j.path, filepath.Base(j.path)+goneExt))
		err = fmt.Errorf("destroy the journal %s: %w", j.path, err)
	}
	return errors.Join(err, j.release())
}

// Sweep destroys what a crash has left of creating or removing the journal of a directory. It does
// not change the journal itself, nor one that another process is creating or removing. Errors:
// [journal.ErrInUse], [journal.ErrForked] if the leftovers have other files, errors of the disk.
func Sweep(dir string) error { return sweepAt(operatingSystem{}, dir) }

// sweepAt is Sweep on a file system that tests can choose.
func sweepAt(disk system, path string) error {
	parent, base, _, err := locate(disk, path)
	if err != nil {
		return err
	}
	return errors.Join(sweep(parent, base), parent.close())
}

// sweep is [Sweep] for the journal with the name base in an open parent directory.
func sweep(parent folder, base string) error {
	for _, name := range []string{base + newExt, base + goneExt} {
		dir, err := openExclusive(parent, name)
		if errors.Is(err, fs.ErrNotExist) { // nothing is left
			continue
		}
		if err == nil {
			err = errors.Join(destroyDir(parent, name, dir), dir.close())
		}
		if err != nil {
			return fmt.Errorf("destroy what is left of %s: %w", name, classify(err))
		}
	}
	return nil
}

// openExclusive opens a directory of a journal and locks it exclusively. It returns
// [journal.ErrInUse] if another handle has it open, and [journal.ErrForked] if it has a file that
// belongs to no journal.
func openExclusive(parent folder, name string) (folder, error) {
	dir, err := parent.folder(name)
	if err != nil {
		return nil, err
	}
	if err = dir.lock(true); err == nil {
		_, err = listOwn(dir)
	}
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	return dir, nil
}

// listOwn returns the names of the files in a directory. It returns [journal.ErrForked] if any of
// them is not the name of a file of a journal.
func listOwn(dir folder) ([]string, error) {
	names, err := dir.list()
	for _, text := range names {
		if _, _, ok := parseName(text); !ok {
			return nil, fmt.Errorf("%w: %s is not a file of a journal", journal.ErrForked, text)
		}
	}
	return names, err
}

// removeDir destroys the directory dir of a journal, which has the name base in parent. It first
// renames it, so that no process opens it any more.
func removeDir(parent folder, base string, dir folder) error {
	if err := sweep(parent, base); err != nil {
		return err
	}
	if err := parent.rename(base, base+goneExt); err != nil {
		return err
	}
	return destroyDir(parent, base+goneExt, dir)
}

// destroyDir destroys the directory dir, which has this name in parent and is no longer a journal,
// with all its files. It returns [journal.ErrForked], and destroys nothing, if any file belongs to
// no journal.
func destroyDir(parent folder, name string, dir folder) error {
	names, err := listOwn(dir)
	if err != nil {
		return err
	}
	if err := parent.sync(); err != nil { // so that no crash undoes the rename after files are destroyed
		return err
	}
	for _, name := range names {
		if err := shred(dir, name); err != nil {
			return err
		}
	}
	if err := parent.remove(name); err != nil {
		return err
	}
	return parent.sync()
}

// renameToGone renames segments, so that they no longer belong to the journal. It returns their new
// names, also after an error; these files are still to be destroyed.
func renameToGone(dir folder, names []string) (gone []string, err error) {
	for _, name := range names {
		to := strings.TrimSuffix(name, segmentExt) + goneExt
		if err := dir.rename(name, to); err != nil {
			return gone, err
		}
		gone = append(gone, to)
	}
	return gone, nil
}

// destroyLeftovers destroys the files .new and .gone in the directory, which a crash has left of
// segments.
func (j *Journal) destroyLeftovers() error {
	names, err := j.dir.list()
	var left []string
	for _, text := range names {
		if _, ext, ok := parseName(text); ok && ext != segmentExt {
			left = append(left, text)
		}
	}
	if err != nil {
		return err
	}
	_, err = shredAll(j.dir, left)
	return err
}

// shredAll destroys files that are no longer segments. It first flushes the directory. After an
// error, left has the names of the files that it did not destroy.
func shredAll(dir folder, names []string) (left []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	if err := dir.sync(); err != nil { // so that no crash undoes the renames after files are destroyed
		return names, err
	}
	for i, name := range names {
		if err := shred(dir, name); err != nil {
			return names[i:], err
		}
	}
	return nil, nil
}

// shred overwrites a file with zeros, and unlinks it. An error contains the name that the file had
// as a segment.
func shred(dir folder, text string) error {
	number, ext, _ := parseName(text)
	err := overwrite(dir, text)
	if err == nil {
		err = dir.remove(text)
	}
	if err != nil && ext != segmentExt {
		err = ledgerfile.Renamed(err, name(number, segmentExt), text)
	}
	if err != nil {
		return fmt.Errorf("destroy a segment: %w", classify(err))
	}
	return nil
}

// overwrite fills a file with zeros and flushes it.
func overwrite(dir folder, name string) error {
	f, err := dir.open(name, true) // for writing
	if err != nil {
		return err
	}
	size, err := f.size()
	if err == nil {
		err = zero(f, 0, size)
	}
	if err == nil {
		err = f.sync()
	}
	return errors.Join(err, f.Close())
}
