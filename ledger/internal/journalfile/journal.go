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
	replacedErr error            // the ErrReplaced that has stopped the handle, or nil
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

// createDir creates the directory and the first segment, which begins at a position. Both have
// temporary names until they are durable. createDir returns [fs.ErrExist] if the directory exists.
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
	if err := j.beginSegment(1, at, none); err != nil { // of term 1
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
// name of the directory in its parent. path is dir as an absolute path, with its links. The
// directory itself need not exist.
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

// load opens all segments in the directory, in the order of their numbers, and closes those that an
// earlier call has opened. It returns [journal.ErrLost] if there is no segment.
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

// openSegment opens the segment with the file name text, reads its header, and stores the state of
// the file. It returns [journal.ErrForked] if the header does not belong to this journal.
func (j *Journal) openSegment(text string, number uint64) (k segmentFile, err error) {
	f, err := j.dir.open(text, false) // only for reading
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

// header reads the header of a segment. It returns [journal.ErrForked] if the header belongs to
// another ledger or journal, or has another number. Open does not know the identity of the journal:
// it takes the one in the first header that is read.
func (j *Journal) header(f handle, number uint64) (s segment, err error) {
	b := make([]byte, headerSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	if s, err = parseHeader(b[:n]); err != nil {
		return s, err
	}
	if j.id == ([16]byte{}) { // Open reads its first header
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

// Name returns "file:" and the identity of the journal, as 32 hexadecimal digits.
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
	if j.created { // the directory is locked already, and its segment is this handle's own
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

// lockExclusive locks the directory exclusively for this handle. If another handle has it open,
// lockExclusive takes the shared lock again, and returns [journal.ErrInUse]. If that fails, too, it
// stops the handle.
func (j *Journal) lockExclusive() error {
	err := j.dir.lock(true)
	if err != nil {
		if again := j.dir.lock(false); again != nil {
			return j.stop(errors.Join(err, again))
		}
	}
	return err
}

// takeOver begins a new segment under a new term, and sets j.term and j.end. It copies the last
// group into the new segment, because that group may be readable without having been flushed to the
// disk. It also destroys what a crash has left of segments.
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
	before := j.segments[len(j.segments)-1] // the last segment so far
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
	// The last group was the only one of the segment before, or that had none. So that segment, now
	// the last but one, is destroyed.
	i := len(j.segments) - 2
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

// readTail reads from the beginning of a segment to the end of the journal. It returns the last
// group, or nil if there is none, and the position at which the journal ends. It returns
// [errs.ErrCorrupt] for a damaged group; a torn one ends the journal.
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

// beginSegment creates a new last segment of the given term, which begins at a position and has the
// given groups. When it returns, the segment is durable. After an error the list of segments is
// unchanged.
func (j *Journal) beginSegment(term uint64, at journal.Position, groups iter.Seq2[journal.Group, error]) error {
	s := segment{ledger: j.ledger, journal: j.id, number: 1, term: term, begin: at}
	if n := len(j.segments); n > 0 {
		s.number = j.segments[n-1].number + 1
	}
	w, err := writeSegment(j.dir, s, j.limits, groups)
	if err != nil {
		return classify(ledgerfile.Renamed(err, j.pathOf(s.number), name(s.number, newExt)))
	}
	if j.last != nil { // nothing is written to that segment any more, so its time can be compared
		if j.last.expected, err = j.last.file.stat(true); err != nil {
			return errors.Join(err, w.file.Close())
		}
	}
	j.last = w
	j.segments = append(j.segments, segmentFile{w.segment, w.file, j.pathOf(w.number), &w.expected})
	return nil
}

// none is an empty sequence, of the type iter.Seq2[journal.Group, error].
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

// add writes a group to the last segment, or to a new one if the group asks for that or the last
// one is full. When it returns nil, the group is durable.
func (j *Journal) add(g journal.Group) error {
	// A segment without groups, which ends with its header, is never full.
	if full := g.Cut || j.last.end >= j.limits.segment; full && j.last.end > headerSize {
		if err := j.beginSegment(j.term, g.Before, only(g)); !errors.Is(err, errs.ErrTooManyFiles) {
			return err // nil if the group is in the new segment
		}
		// No file can be opened now. The segment grows instead, and the next group tries again.
	}
	if err := j.last.group(g); err != nil {
		return err
	}
	return j.last.sync()
}

// Read implements [journal.Journal.Read]. It does not hold mu between two groups, so the caller may
// use the journal there.
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

// cutAt makes a segment begin at a position, and removes the segments before it from the list. It
// returns the names of their files, which are still to be destroyed. It returns no names and no
// error if the journal begins after the position.
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
	i := j.segmentAt(through) // also the number of segments before it
	if i < 0 {
		return nil, nil
	}
	c := &cursor{Journal: j}
	if err := c.seek(through); err != nil { // a group must end at the position
		return nil, err
	}
	if j.segments[i].begin != through { // the groups after the position are copied into a new segment
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

// segmentAt returns the index in j.segments of the last one that does not begin after a position,
// or −1 if the journal begins after it. That segment has the group after the position, unless it
// ends there. If several begin at the position, the others are about to be destroyed.
func (j *Journal) segmentAt(at journal.Position) int {
	i := len(j.segments) - 1
	for i >= 0 && j.segments[i].begin.Events > at.Events {
		i--
	}
	return i
}

// dropSegments removes the segments with the indexes from from to to−1 from the list, and closes
// them. It returns the names of their files, also after an error.
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

// checkReady returns the error that has stopped the handle, if it was closed or has stopped. If ctx
// has ended, it returns [journal.ErrRejected]. Otherwise it returns nil.
func (j *Journal) checkReady(ctx context.Context) error {
	if j.stopErr != nil {
		return j.stopErr
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrRejected, err)
	}
	return nil
}

// stop makes every later call fail with [journal.ErrStopped], and returns err itself. If the handle
// has stopped before, the earlier reason remains.
func (j *Journal) stop(err error) error {
	if j.stopErr == nil {
		j.stopErr = fmt.Errorf("%w: %v", journal.ErrStopped, err)
	}
	return err
}

// Close implements [journal.Journal.Close]. If the journal is not what this handle left, the first
// Close returns that error, even if another call has returned it before.
func (j *Journal) Close() error {
	j.trimming.Lock()
	defer j.trimming.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopErr == nil {
		_ = j.check() // check records what it finds in j.replacedErr
	}
	replacedErr := j.replacedErr
	j.replacedErr = nil
	return errors.Join(replacedErr, j.release())
}

// release closes all open files and directories, which unlocks the journal. A second call does
// nothing.
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

// classify returns err, wrapped in [errs.ErrTooManyFiles] as well if the process or the system has
// no free file descriptor.
func classify(err error) error { return ledgerfile.ClassifyOpen(err, errs.ErrTooManyFiles) }
