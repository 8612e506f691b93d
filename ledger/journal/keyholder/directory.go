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
	lock *os.File // locked until it is closed

	mu       sync.Mutex
	closed   bool
	journals map[string]*journalDir // by the name of the journal; opened by their first call
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
		return nil, fmt.Errorf("open the keys in %s: %w", path, err)
	}
	held, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the keys in %s: %w", path, err)
	}
	err = ledgerfile.Lock(held, true, 0, journal.ErrInUse) // exclusive, without waiting
	if err == nil {
		_, err = held.WriteAt([]byte(lockText), 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open the keys in %s: %w", path, errors.Join(err, held.Close()))
	}
	return &directory{path: path, lock: held, journals: map[string]*journalDir{}}, nil
}

// lockText is the content of the lock file, so that no other program mistakes the file for its own.
const lockText = "sluice keys lock\n"

// makeFolder creates a directory if it does not exist, and flushes its parent, so that a power
// failure does not undo the creation. If it cannot flush the parent of a new directory, it removes
// the directory again. If the directory existed, its parent may be unreadable for this user,
// because another user created both. Then the directory is used without a flush.
func makeFolder(path string, flush func(dir string) error) error {
	_, missing := os.Stat(path) // not nil if the directory does not exist yet
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

// Close unlocks the directory, and flushes and closes the files of marks. A second Close does
// nothing.
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
	return d.with(ctx, journal, func(in *journalDir) error { return in.put(s, k) })
}

// Get implements [Holder.Get].
func (d *directory) Get(ctx context.Context, journal string, s Segment) (k Key, err error) {
	err = d.with(ctx, journal, func(in *journalDir) (err error) { k, err = in.get(s); return err })
	return k, err
}

// Keep implements [Holder.Keep].
func (d *directory) Keep(ctx context.Context, journal string, below Segment, live []Segment) error {
	return d.with(ctx, journal, func(in *journalDir) error { return in.keep(below, live) })
}

// Mark implements [Holder.Mark].
func (d *directory) Mark(ctx context.Context, journal string, m Mark) error {
	return d.with(ctx, journal, func(in *journalDir) error { return in.mark.record(m) })
}

// Seen implements [Holder.Seen].
func (d *directory) Seen(ctx context.Context, journal string) (highest Mark, term uint64, err error) {
	err = d.with(ctx, journal, func(in *journalDir) (err error) {
		highest = in.mark.last
		term, err = in.highestTerm()
		return err
	})
	return highest, term, err
}

// with runs do on the directory of the journal with this name, which it opens at the first call.
// Only one call runs at a time. It returns an error without running do if the name is invalid, ctx
// has ended, or the holder is closed.
func (d *directory) with(ctx context.Context, name string, do func(*journalDir) error) error {
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
		if s, err = openJournalDir(filepath.Join(d.path, strings.Replace(name, ":", "-", 1)), name); err != nil {
			return fmt.Errorf("the keys in %s: %w", d.path, err)
		}
		d.journals[name] = s
	}
	if err := do(s); err != nil {
		return fmt.Errorf("the keys in %s: %w", d.path, err)
	}
	return nil
}

// journalDir is the directory of one journal.
type journalDir struct {
	path, journal string    // journal is its name
	kept          kept      // as in the file of that name
	mark          *markFile // the file of the marks, which stays open
}

// kept has the arguments of the last effective call of Keep: the keys of all segments older than
// below are destroyed, except those of live.
type kept struct {
	below Segment
	live  []Segment
}

// isDestroyed reports whether the key of a segment is destroyed, or must be.
func (k kept) isDestroyed(s Segment) bool {
	return s.Compare(k.below) < 0 && !slices.Contains(k.live, s)
}

// openJournalDir opens the directory of a journal, and creates it if it does not exist. A crash may
// have left unfinished files, and keys that the last Keep should have destroyed: openJournalDir
// destroys them.
func openJournalDir(path, journal string) (*journalDir, error) {
	if err := makeFolder(path, ledgerfile.TrySyncDir); err != nil {
		return nil, err
	}
	s := &journalDir{path: path, journal: journal}
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
	keptName  = "kept"
	keySuffix = ".key"
	newSuffix = ".new"
)

// file returns the path of the key file of a segment.
func (s *journalDir) file(of Segment) string { return filepath.Join(s.path, of.String()+keySuffix) }

// put implements [Holder.Put] for one journal. It does nothing but a flush if the same key is
// stored already.
func (s *journalDir) put(of Segment, k Key) error {
	if of.Number == 0 {
		return fmt.Errorf("%w: segment %v", errInvalid, of)
	}
	switch had, err := s.get(of); { // had is the stored key, if there is one
	case err == nil && had == k:
		return ledgerfile.TrySyncDir(s.path) // an earlier call may have failed after the rename
	case err == nil:
		return fmt.Errorf("%w: %v", errConflict, of)
	case errors.Is(err, ErrDestroyed) || !errors.Is(err, ErrNoKey):
		return err
	}
	// There is no key yet.
	return ledgerfile.Write(s.file(of), keyFile(s.journal, of, k), ledgerfile.Options{Suffix: newSuffix})
}

// get implements [Holder.Get] for one journal. It returns ErrDestroyed for a key that a call of
// Keep has excluded, even if it was never stored.
func (s *journalDir) get(of Segment) (k Key, err error) {
	if s.kept.isDestroyed(of) {
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

// keep implements [Holder.Keep] for one journal. It stores the arguments durably before it destroys
// keys, so that openJournalDir can finish after a crash.
func (s *journalDir) keep(below Segment, live []Segment) error {
	if below.Compare(s.kept.below) < 0 {
		return nil
	}
	next := kept{below, slices.Clone(live)}
	content := sealed(s.journal, keptMagic, encoded(putKept, next))
	path := filepath.Join(s.path, keptName)
	if err := ledgerfile.Write(path, content, ledgerfile.Options{Suffix: newSuffix}); err != nil {
		return err
	}
	s.kept = next
	return s.sweep()
}

// sweep destroys the files of keys that the last Keep has destroyed, and unfinished files. When it
// returns nil, their removal is durable.
func (s *journalDir) sweep() error {
	segments, others, err := s.list()
	if err != nil {
		return err
	}
	destroyed := others // an unfinished file may have a key, too
	for _, of := range segments {
		if s.kept.isDestroyed(of) {
			destroyed = append(destroyed, s.file(of))
		}
	}
	for _, path := range destroyed {
		if err := shred(path); err != nil {
			return err
		}
	}
	if len(destroyed) == 0 {
		return nil
	}
	return ledgerfile.TrySyncDir(s.path)
}

// list returns the segments that have a key file, and the paths of unfinished files. It returns
// [errs.ErrCorrupt] if the name of a key file is not that of a segment.
func (s *journalDir) list() (segments []Segment, unfinished []string, err error) {
	entries, err := os.ReadDir(s.path)
	for _, e := range entries {
		if text, is := strings.CutSuffix(e.Name(), keySuffix); is {
			of, err := parseSegment(text)
			if err != nil {
				return nil, nil, fmt.Errorf("%w: %w", errs.ErrCorrupt, err)
			}
			segments = append(segments, of)
		} else if strings.HasSuffix(e.Name(), newSuffix) {
			unfinished = append(unfinished, filepath.Join(s.path, e.Name()))
		}
	}
	return segments, unfinished, err
}

// highestTerm returns the highest term that a call has left in the directory: in the name of a key
// file, in the arguments of the last Keep, or in the mark.
func (s *journalDir) highestTerm() (term uint64, err error) {
	segments, _, err := s.list()
	term = max(s.mark.last.Term, s.kept.below.Term)
	for _, of := range segments {
		term = max(term, of.Term)
	}
	return term, err
}
