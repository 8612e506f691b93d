package keyholder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// directory is a [Holder] that stores everything in a directory of this host.
type directory struct {
	path string
	lock *os.File

	mu       sync.Mutex
	closed   bool
	journals map[string]*shelf
}

// OpenDirectory opens a holder in a directory, which it creates if it does not exist. Until Close,
// no other process can open it. On systems without flock, such as Windows, the caller must make
// sure of that. Errors: [journal.ErrInUse], errors of the disk. The first call about a journal can
// return ErrCorrupt or ErrVersion of package api.
//
//	lock              locked while a process has the directory open; content: "sluice keys lock"
//	JOURNAL/7.2.key   the key of the second segment of term 7
//	JOURNAL/kept      the segment below which all keys are destroyed, and the exceptions
//	JOURNAL/mark      how far events were acknowledged
//	*.new             an unfinished file
//
// JOURNAL is the name of a journal, with "-" in place of ":". Numbers are big-endian. crc is the
// CRC-32C of the journal's name followed by all bytes before crc. Only the owner can read the
// files.
//
//	key    "sluice key 1" term(8) number(8) key(32) crc(4)
//	kept   "sluice kept 1" term(8) number(8), and for each exception: term(8) number(8); crc(4)
//	mark   two times, at 0 and at 512: "sluice mark 1" term(8) events(8) root(32) crc(4); the
//	       higher one counts
//
// A key file gets its final name when it is durable. To destroy it, the holder overwrites it with
// zeros, flushes it and unlinks it. That does not reach old copies on solid-state disks, on file
// systems that copy on write, and in backups. A host that must exclude these encrypts the disk, and
// keeps the directory out of backups.
func OpenDirectory(path string) (Holder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := makeFolder(path, ledgerfile.TrySyncDir); err != nil {
		return nil, fmt.Errorf("opening the keys in %s: %w", path, err)
	}
	held, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the keys in %s: %w", path, err)
	}
	err = ledgerfile.Lock(held, true, 0, journal.ErrInUse)
	if err == nil {
		_, err = held.WriteAt([]byte(lockText), 0)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the keys in %s: %w", path, errors.Join(err, held.Close()))
	}
	return &directory{path: path, lock: held, journals: map[string]*shelf{}}, nil
}

// lockText is the content of the lock file, so that no other program mistakes the file for its own.
const lockText = "sluice keys lock\n"

// makeFolder creates a directory if it does not exist, and flushes its parent, so that a power
// failure does not undo the creation. If it cannot flush the parent of a new directory, it removes
// the directory again. If the directory existed, its parent may be unreadable for this user,
// because another user created both. Then the directory is used without a flush.
func makeFolder(path string, flush func(dir string) error) error {
	_, missing := os.Stat(path)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	err := flush(filepath.Dir(path))
	switch {
	case err != nil && missing != nil:
		return errors.Join(err, os.Remove(path))
	case errors.Is(err, fs.ErrPermission):
		return nil
	}
	return err
}

// Name returns the path of the directory.
func (d *directory) Name() string { return d.path }

// Close unlocks the directory. A second Close does nothing.
func (d *directory) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	err := d.lock.Close()
	for _, s := range d.journals {
		err = errors.Join(err, s.mark.close())
	}
	return err
}

// Put implements [Holder.Put].
func (d *directory) Put(ctx context.Context, journal string, s Segment, k Key) error {
	return d.with(ctx, journal, func(in *shelf) error { return in.put(s, k) })
}

// Get implements [Holder.Get].
func (d *directory) Get(ctx context.Context, journal string, s Segment) (k Key, err error) {
	err = d.with(ctx, journal, func(in *shelf) (err error) { k, err = in.get(s); return err })
	return k, err
}

// Keep implements [Holder.Keep].
func (d *directory) Keep(ctx context.Context, journal string, below Segment, live []Segment) error {
	return d.with(ctx, journal, func(in *shelf) error { return in.keep(below, live) })
}

// Mark implements [Holder.Mark].
func (d *directory) Mark(ctx context.Context, journal string, m Mark) error {
	return d.with(ctx, journal, func(in *shelf) error { return in.mark.note(m) })
}

// Seen implements [Holder.Seen].
func (d *directory) Seen(ctx context.Context, journal string) (highest Mark, term uint64, err error) {
	err = d.with(ctx, journal, func(in *shelf) (err error) {
		highest = in.mark.last
		term, err = in.highestTerm()
		return err
	})
	return highest, term, err
}

// with runs do on the directory of a journal, which it opens at the first call. Only one call runs
// at a time.
func (d *directory) with(ctx context.Context, name string, do func(*shelf) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return err
	}
	if d.closed {
		return fmt.Errorf("the keys in %s: %w", d.path, fs.ErrClosed)
	}
	s := d.journals[name]
	if s == nil {
		var err error
		if s, err = openShelf(filepath.Join(d.path, strings.Replace(name, ":", "-", 1)), name); err != nil {
			return fmt.Errorf("the keys in %s: %w", d.path, err)
		}
		d.journals[name] = s
	}
	if err := do(s); err != nil {
		return fmt.Errorf("the keys in %s: %w", d.path, err)
	}
	return nil
}

// shelf is the directory of one journal.
type shelf struct {
	path, journal string
	kept          kept
	mark          *markFile
}

// kept has the arguments of the last effective call of Keep.
type kept struct {
	below Segment
	live  []Segment
}

// dead reports whether the key of a segment is destroyed, or must be.
func (k kept) dead(s Segment) bool {
	return s.Compare(k.below) < 0 && !slices.Contains(k.live, s)
}

// openShelf opens the directory of a journal. It destroys unfinished key files, and dead keys that
// a crash has left.
func openShelf(path, journal string) (*shelf, error) {
	if err := makeFolder(path, ledgerfile.TrySyncDir); err != nil {
		return nil, err
	}
	s := &shelf{path: path, journal: journal}
	var err error
	if s.kept, err = readKept(filepath.Join(path, keptName), journal); err != nil {
		return nil, err
	}
	if err := s.sweep(); err != nil {
		return nil, err
	}
	if s.mark, err = openMark(filepath.Join(path, "mark"), journal); err != nil {
		return nil, err
	}
	return s, nil
}

const (
	keptName = "kept"
	asKey    = ".key"
	asNew    = ".new"
)

// file returns the path of the key file of a segment.
func (s *shelf) file(of Segment) string { return filepath.Join(s.path, of.String()+asKey) }

// put implements [Holder.Put] for one journal.
func (s *shelf) put(of Segment, k Key) error {
	if of.Number == 0 {
		return fmt.Errorf("%w: segment %v", errInvalid, of)
	}
	switch had, err := s.get(of); {
	case err == nil && had == k:
		return ledgerfile.TrySyncDir(s.path) // an earlier call may have failed after the rename
	case err == nil:
		return fmt.Errorf("%w: %v", errConflict, of)
	case errors.Is(err, ErrDestroyed) || !errors.Is(err, ErrNoKey):
		return err
	}
	return ledgerfile.Write(s.file(of), keyFile(s.journal, of, k), ledgerfile.Options{Suffix: asNew})
}

// get implements [Holder.Get] for one journal.
func (s *shelf) get(of Segment) (k Key, err error) {
	if s.kept.dead(of) {
		return k, fmt.Errorf("%w: %v", ErrDestroyed, of)
	}
	text, err := os.ReadFile(s.file(of))
	if errors.Is(err, fs.ErrNotExist) {
		return k, fmt.Errorf("%w: %v", ErrNoKey, of)
	}
	if err != nil {
		return k, err
	}
	return parseKey(text, s.journal, of)
}

// keep implements [Holder.Keep] for one journal. It makes the decision durable before it destroys
// keys, so that openShelf can finish after a crash.
func (s *shelf) keep(below Segment, live []Segment) error {
	if below.Compare(s.kept.below) < 0 {
		return nil
	}
	next := kept{below, slices.Clone(live)}
	content := sealed(s.journal, keptMagic, encoded(putKept, next))
	path := filepath.Join(s.path, keptName)
	if err := ledgerfile.Write(path, content, ledgerfile.Options{Suffix: asNew}); err != nil {
		return err
	}
	s.kept = next
	return s.sweep()
}

// sweep destroys the keys that are dead, and unfinished files.
func (s *shelf) sweep() error {
	segments, others, err := s.list()
	if err != nil {
		return err
	}
	doomed := others
	for _, of := range segments {
		if s.kept.dead(of) {
			doomed = append(doomed, s.file(of))
		}
	}
	for _, path := range doomed {
		if err := shred(path); err != nil {
			return err
		}
	}
	if len(doomed) == 0 {
		return nil
	}
	return ledgerfile.TrySyncDir(s.path)
}

// list returns the segments that have a key file, and the paths of unfinished files.
func (s *shelf) list() (segments []Segment, unfinished []string, err error) {
	entries, err := os.ReadDir(s.path)
	for _, e := range entries {
		if text, is := strings.CutSuffix(e.Name(), asKey); is {
			of, err := parseSegment(text)
			if err != nil {
				return nil, nil, fmt.Errorf("%w: %w", errs.ErrCorrupt, err)
			}
			segments = append(segments, of)
		} else if strings.HasSuffix(e.Name(), asNew) {
			unfinished = append(unfinished, filepath.Join(s.path, e.Name()))
		}
	}
	return segments, unfinished, err
}

// highestTerm returns the highest term of any call.
func (s *shelf) highestTerm() (term uint64, err error) {
	segments, _, err := s.list()
	term = max(s.mark.last.Term, s.kept.below.Term)
	for _, of := range segments {
		term = max(term, of.Term)
	}
	return term, err
}
