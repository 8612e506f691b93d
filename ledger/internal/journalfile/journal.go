package journalfile

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Journal is a journal in a directory. Between Open and Close, no other handle can claim it. After
// Claim, no other handle can open it. On systems without flock, such as Windows, the caller must
// make sure of both.
type Journal struct {
	ledger, id  [16]byte
	disk        system
	path        string // of the directory, absolute; it may end with a symbolic link
	parent, dir folder
	base        string    // name of dir in parent
	dirID       [2]uint64 // identifies dir
	limits      sizes

	trimming  sync.Mutex // locked before mu; held while segments are destroyed or the directory is closed
	toDestroy []string   // files that are no longer segments and must still be destroyed; guarded by trimming

	mu          sync.Mutex
	stopErr     error            // the error of every call, once the journal was closed or has stopped
	replacedErr error            // why the handle has stopped, if the journal is not what it left
	rereads     int              // how often a segment was read again because only its time had changed
	segments    []segmentFile    // in the order of their numbers, at least one
	term        uint64           // 0 before Claim
	created     bool             // created by this handle and not claimed yet, so that Claim need not read it
	end         journal.Position // known once this handle has begun a segment
	last        *writer          // nil before Claim
}

// segmentFile is one of the segments of a journal.
type segmentFile struct {
	segment
	file     handle
	path     string
	expected *stamp // the state in which this process found or left the file
}

var _ journal.Journal = (*Journal)(nil)

// Create creates the journal of a ledger, which begins at a position, in a directory that must not
// exist. The journal is durable when Create returns. If the machine crashes before, there is no
// journal. Create destroys what a crash has left of other journals at this place, like [Sweep].
// Errors: [fs.ErrExist], [journal.ErrInUse], errors of the disk.
//
// If the path ends with a symbolic link, the journal is created at the link's target, and destroyed
// there; the link stays. The target must not exist, but its parent must.
func Create(dir string, ledger [16]byte, at journal.Position) (*Journal, error) {
	return create(operatingSystem{}, defaultSizes, dir, ledger, at)
}

// Open opens the journal of a ledger. Nothing changes on the disk before [Journal.Claim]. Errors:
// [fs.ErrNotExist], [journal.ErrInUse], [journal.ErrForked] if the journal belongs to another
// ledger, others that wrap [errs.ErrCorrupt], [errs.ErrVersion], errors of the disk.
func Open(dir string, ledger [16]byte) (*Journal, error) {
	return open(operatingSystem{}, defaultSizes, dir, ledger)
}

// create is Create on a file system and with sizes that tests can choose.
func create(disk system, limits sizes, dir string, ledger [16]byte, at journal.Position) (j *Journal, err error) {
	j = &Journal{disk: disk, ledger: ledger, limits: limits, created: true, end: at}
	if j.parent, j.base, j.path, err = locate(disk, dir); err != nil {
		return nil, err
	}
	rand.Read(j.id[:])
	if err := ledgerfile.Renamed(j.createDir(at), j.path, j.base+newExt); err != nil {
		return nil, errors.Join(fmt.Errorf("create the journal %s: %w", dir, classify(err)), j.release())
	}
	return j, nil
}

// createDir creates the directory and the first segment. Both have temporary names until they are
// durable.
func (j *Journal) createDir(at journal.Position) (err error) {
	if there, err := j.parent.folder(j.base); err == nil {
		return errors.Join(fs.ErrExist, there.close())
	}
	if err := sweep(j.parent, j.base); err != nil {
		return err
	}
	temp := j.base + newExt
	if err := j.parent.mkdir(temp); err != nil {
		return err
	}
	if j.dir, err = j.parent.folder(temp); err != nil {
		return err
	}
	if err := j.readIdentity(); err != nil {
		return err
	}
	if err := j.dir.lock(true); err != nil {
		return err
	}
	if err := j.beginSegment(1, at, none); err != nil {
		return err
	}
	if err := j.parent.rename(temp, j.base); err != nil {
		return err
	}
	if err := j.parent.sync(); err != nil {
		return errors.Join(err, j.parent.rename(j.base, temp)) // so that another try finds the name free
	}
	return nil
}

// readIdentity records the identity of the directory.
func (j *Journal) readIdentity() error {
	s, err := j.dir.stat()
	j.dirID = s.id
	return err
}

// open is Open on a file system and with sizes that tests can choose.
func open(disk system, limits sizes, dir string, ledger [16]byte) (j *Journal, err error) {
	j = &Journal{disk: disk, ledger: ledger, limits: limits}
	if j.parent, j.base, j.path, err = locate(disk, dir); err != nil {
		return nil, err
	}
	if j.dir, err = j.parent.folder(j.base); err == nil {
		err = j.readIdentity()
	}
	if err == nil {
		err = j.dir.lock(false)
	}
	if err == nil {
		err = j.load()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the journal %s: %w", dir, classify(err)), j.release())
	}
	return j, nil
}

// locate opens the parent of a journal's directory, after symbolic links are resolved. base is the
// name of the directory in its parent. path is dir as an absolute path.
func locate(disk system, dir string) (parent folder, base, path string, err error) {
	if path, err = filepath.Abs(dir); err != nil {
		return nil, "", "", err
	}
	at, err := disk.resolve(path)
	if err != nil {
		return nil, "", "", err
	}
	parent, err = disk.openFolder(filepath.Dir(at))
	return parent, filepath.Base(at), path, classify(err)
}

// load opens all segments in the directory, in the order of their numbers.
func (j *Journal) load() error {
	names, err := j.dir.list()
	if err != nil {
		return err
	}
	if err := j.closeSegments(); err != nil {
		return err
	}
	for _, text := range names {
		if number, ext, ok := parseName(text); ok && ext == segmentExt {
			s, err := j.openSegment(text, number)
			if err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
			j.segments = append(j.segments, s)
		}
	}
	if len(j.segments) == 0 {
		return fmt.Errorf("%w: the directory has no segment", journal.ErrLost)
	}
	slices.SortFunc(j.segments, func(a, b segmentFile) int { return cmp.Compare(a.number, b.number) })
	return nil
}

// openSegment opens a segment and reads its header, which must belong to this journal.
func (j *Journal) openSegment(text string, number uint64) (k segmentFile, err error) {
	f, err := j.dir.open(text, false)
	if err != nil {
		return k, err
	}
	k = segmentFile{file: f, path: j.pathOf(number), expected: &stamp{}}
	if *k.expected, err = f.stat(true); err == nil {
		k.segment, err = j.header(f, number)
	}
	if err != nil {
		return k, errors.Join(err, f.Close())
	}
	return k, nil
}

// header reads the header of a segment, and checks that it belongs to this journal.
func (j *Journal) header(f handle, number uint64) (s segment, err error) {
	b := make([]byte, headerSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	if s, err = parseHeader(b[:n]); err != nil {
		return s, err
	}
	if j.id == ([16]byte{}) {
		j.id = s.journal
	}
	switch {
	case s.ledger != j.ledger:
		err = fmt.Errorf("%w: the segment belongs to ledger %x, not to %x", journal.ErrForked, s.ledger, j.ledger)
	case s.journal != j.id:
		err = fmt.Errorf("%w: the segment belongs to journal %x, not to %x", journal.ErrForked, s.journal, j.id)
	case s.number != number:
		err = fmt.Errorf("%w: its header has the number %d", journal.ErrForked, s.number)
	}
	return s, err
}

// Name returns "file:" and 32 hexadecimal digits.
func (j *Journal) Name() string { return "file:" + hex.EncodeToString(j.id[:]) }

// Claim implements [journal.Journal.Claim]. ErrInUse: another handle has the directory open. Claim
// destroys what a crash has left of segments.
func (j *Journal) Claim(ctx context.Context) (term uint64, end journal.Position, err error) {
	j.trimming.Lock()
	defer j.trimming.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.checkReady(ctx); err != nil {
		return 0, end, err
	}
	if j.created {
		if err := j.check(); err != nil {
			return 0, end, err
		}
		j.created, j.term = false, j.last.term
		return j.term, j.end, nil
	}
	if err := j.lockExclusive(); err != nil {
		return 0, end, err
	}
	if err := j.takeOver(); err != nil {
		return 0, end, j.stop(fmt.Errorf("claim the journal %s: %w", j.path, classify(err)))
	}
	if err := j.check(); err != nil {
		return 0, end, err
	}
	return j.term, j.end, nil
}

// Settle implements [journal.Journal.Settle]. It flushes all segments, because a group that can be
// read may not be flushed yet.
func (j *Journal) Settle(ctx context.Context) error {
	j.trimming.Lock()
	defer j.trimming.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.checkReady(ctx); err != nil {
		return err
	}
	for _, s := range j.segments {
		if err := s.file.sync(); err != nil {
			return err
		}
	}
	return j.dir.sync() // a crash may have undone the rename of the last segment if that was not flushed
}

// lockExclusive locks the directory exclusively for this handle. If that fails, it takes the shared
// lock again.
func (j *Journal) lockExclusive() error {
	err := j.dir.lock(true)
	if err != nil {
		if again := j.dir.lock(false); again != nil {
			return j.stop(errors.Join(err, again))
		}
	}
	return err
}

// takeOver begins a new segment under a new term. It copies the last group of the segment before
// into it, because that group may be readable without having been flushed to the disk.
func (j *Journal) takeOver() error {
	if err := j.parent.sync(); err != nil { // the rename of the directory may not be flushed yet
		return err
	}
	j.term, j.last = 0, nil // load closes the file that an earlier claim appended to
	if err := j.load(); err != nil {
		return err
	}
	if err := j.check(); err != nil { // before takeOver destroys anything
		return err
	}
	if err := j.destroyLeftovers(); err != nil {
		return err
	}
	j.toDestroy = nil
	before := j.segments[len(j.segments)-1]
	group, end, err := j.readTail(before)
	if err != nil {
		return err
	}
	at, groups := end, none
	if group != nil {
		at, groups = group.Before, only(*group)
	}
	j.end = end
	if err := j.beginSegment(before.term+1, at, groups); err != nil {
		return err
	}
	j.term = before.term + 1
	if before.begin != at {
		return nil
	}
	i := len(j.segments) - 2 // the new segment has everything of this one
	old, err := j.dropSegments(i, i+1)
	if err != nil {
		return err
	}
	gone, err := renameToGone(j.dir, old)
	if err == nil {
		_, err = shredAll(j.dir, gone)
	}
	return err
}

// readTail returns the last group of a segment, or nil if it has none, and where the segment ends.
func (j *Journal) readTail(s segmentFile) (last *journal.Group, end journal.Position, err error) {
	c := &cursor{Journal: j}
	for err = c.moveTo(s); err == nil; {
		var g journal.Group
		if g, err = c.next(); err == nil {
			last = &g
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return last, c.pos, err
}

// beginSegment makes a new last segment, which begins with groups.
func (j *Journal) beginSegment(term uint64, at journal.Position, groups iter.Seq2[journal.Group, error]) error {
	s := segment{ledger: j.ledger, journal: j.id, number: 1, term: term, begin: at}
	if n := len(j.segments); n > 0 {
		s.number = j.segments[n-1].number + 1
	}
	w, err := writeSegment(j.dir, s, j.limits, groups)
	if err != nil {
		return classify(ledgerfile.Renamed(err, j.pathOf(s.number), name(s.number, newExt)))
	}
	if j.last != nil { // nothing is written to it any more, so its time can be compared
		if j.last.expected, err = j.last.file.stat(true); err != nil {
			return errors.Join(err, w.file.Close())
		}
	}
	j.last = w
	j.segments = append(j.segments, segmentFile{w.segment, w.file, j.pathOf(w.number), &w.expected})
	return nil
}

// none is a sequence without groups.
func none(func(journal.Group, error) bool) {}

// only is a sequence of one group.
func only(g journal.Group) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) { yield(g, nil) }
}

// errClosed is the error of every call of a closed handle.
var errClosed = fmt.Errorf("%w: Close was called", journal.ErrStopped)

// uncertain returns the error of an append that may have taken effect.
func uncertain(cause error) error {
	return fmt.Errorf("the group may or may not be in the journal; open the journal again to find out: %w", cause)
}

// Append implements [journal.Journal.Append]. The context is not checked any more once a write has
// begun.
func (j *Journal) Append(ctx context.Context, g journal.Group) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.checkReady(ctx); err != nil {
		return err
	}
	if j.term == 0 || g.Term != j.term {
		return fmt.Errorf("%w: %d; the group has term %d", journal.ErrFenced, j.term, g.Term)
	}
	if g.Before != j.end || !g.Fits() {
		return fmt.Errorf("%w: the journal ends with %v; the group has %d records from %v to %v", journal.ErrOrder,
			j.end, len(g.Records), g.Before, g.After)
	}
	if err := j.checkLast(); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrRejected, err)
	}
	if err := j.add(g); err != nil {
		return uncertain(j.stop(err))
	}
	// This check is the last step, so that a journal that was replaced before it is never
	// acknowledged.
	j.end = g.After
	if err := j.check(); err != nil {
		return uncertain(err)
	}
	return nil
}

// add writes a group to the last segment or a new one, and makes it durable.
func (j *Journal) add(g journal.Group) error {
	if full := g.Cut || j.last.end >= j.limits.segment; full && j.last.end > headerSize {
		if err := j.beginSegment(j.term, g.Before, only(g)); !errors.Is(err, errs.ErrTooManyFiles) {
			return err
		}
		// No file can be opened now. The segment grows instead, and the next group tries again.
	}
	if err := j.last.group(g); err != nil {
		return err
	}
	return j.last.sync()
}

// Read implements [journal.Journal.Read].
func (j *Journal) Read(ctx context.Context, after journal.Position) iter.Seq2[journal.Group, error] {
	return j.groups(after, func(c *cursor) (g journal.Group, err error) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if err := j.checkReady(ctx); err != nil {
			return g, err
		}
		return step(c)
	})
}

// Trim implements [journal.Journal.Trim]. If through is within a segment, the groups after it are
// copied into a new segment. If the process has too many files open, the error is a
// [journal.ErrRejected] that wraps api.ErrTooManyFiles. The handle then continues, and the next
// Trim destroys what this one did not.
func (j *Journal) Trim(ctx context.Context, through journal.Position) error {
	j.trimming.Lock()
	defer j.trimming.Unlock()
	old, err := j.cutAt(ctx, through)
	if err != nil {
		return err
	}
	// mu is not held from here, because appends do not use these segments.
	gone, err := renameToGone(j.dir, old)
	j.toDestroy = append(j.toDestroy, gone...)
	if err == nil {
		j.toDestroy, err = shredAll(j.dir, j.toDestroy)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("trim the journal %s: %w", j.path, err)
	if errors.Is(err, errs.ErrTooManyFiles) {
		return fmt.Errorf("%w: %w", journal.ErrRejected, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stop(err)
}

// cutAt makes a segment begin at a position, and removes those before it from the list. It returns
// the names of their files, which are still to be destroyed.
func (j *Journal) cutAt(ctx context.Context, through journal.Position) (old []string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.checkReady(ctx); err != nil {
		return nil, err
	}
	if j.term == 0 {
		return nil, journal.ErrFenced
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	i := j.segmentAt(through)
	if i < 0 {
		return nil, nil
	}
	c := &cursor{Journal: j}
	if err := c.seek(through); err != nil {
		return nil, err
	}
	if j.segments[i].begin != through {
		i = len(j.segments)
		if err := j.beginSegment(j.term, through, j.groups(through, step)); errors.Is(err, errs.ErrTooManyFiles) {
			return nil, fmt.Errorf("%w: %w", journal.ErrRejected, err) // a later call can trim
		} else if err != nil {
			return nil, j.stop(err)
		}
	}
	if old, err = j.dropSegments(0, i); err != nil {
		return nil, j.stop(err)
	}
	return old, nil
}

// segmentAt returns the index of the segment with the groups after a position, or -1. If several
// segments could have them, it returns the last, because the others are about to be destroyed.
func (j *Journal) segmentAt(at journal.Position) int {
	i := len(j.segments) - 1
	for i >= 0 && j.segments[i].begin.Events > at.Events {
		i--
	}
	return i
}

// dropSegments removes segments from the list, closes them, and returns their names.
func (j *Journal) dropSegments(from, to int) (names []string, err error) {
	for _, s := range j.segments[from:to] {
		names = append(names, name(s.number, segmentExt))
		err = errors.Join(err, s.file.Close())
	}
	j.segments = slices.Concat(j.segments[:from], j.segments[to:])
	return names, err
}

// closeSegments removes all segments from the list and closes them.
func (j *Journal) closeSegments() error {
	_, err := j.dropSegments(0, len(j.segments))
	return err
}

// checkReady returns an error if the handle was closed or has stopped, or if ctx has ended.
func (j *Journal) checkReady(ctx context.Context) error {
	if j.stopErr != nil {
		return j.stopErr
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrRejected, err)
	}
	return nil
}

// stop stops the handle, so that every later call fails, and returns err.
func (j *Journal) stop(err error) error {
	if j.stopErr == nil {
		j.stopErr = fmt.Errorf("%w: %v", journal.ErrStopped, err)
	}
	return err
}

// Close implements [journal.Journal.Close].
func (j *Journal) Close() error {
	j.trimming.Lock()
	defer j.trimming.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopErr == nil {
		_ = j.check() // check records what it finds in j.replaced
	}
	replacedErr := j.replacedErr
	j.replacedErr = nil
	return errors.Join(replacedErr, j.release())
}

// release closes all open files and directories, which unlocks the journal.
func (j *Journal) release() (err error) {
	if errors.Is(j.stopErr, errClosed) {
		return nil
	}
	j.stopErr = errClosed
	err = j.closeSegments()
	for _, f := range []folder{j.dir, j.parent} {
		if f != nil {
			err = errors.Join(err, f.close())
		}
	}
	return err
}

// classify adds [errs.ErrTooManyFiles] to an error of a full table of file descriptors.
func classify(err error) error { return ledgerfile.ClassifyOpen(err, errs.ErrTooManyFiles) }
