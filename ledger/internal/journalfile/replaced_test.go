package journalfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
)

// later is a time that no segment of a test is written at: so the resolution of the clock does not
// matter.
var later = time.Now().Add(time.Hour)

// ways are how a segment of a journal in a directory, or all of it, may be replaced by others.
func ways(t *testing.T, dir, segment string) map[string]func() {
	path := filepath.Join(dir, segment)
	edit := func(change func(b []byte) []byte) {
		info := check.Value(os.Stat(path))(t)
		b := check.Value(os.ReadFile(path))(t)
		check.Must(t, os.WriteFile(path, change(b), 0o600))
		check.Must(t, os.Chtimes(path, later, later))
		check.Need(t, int64(len(b)) == info.Size(), "the segment has changed meanwhile")
	}
	return map[string]func(){
		"directory replaced by a copy": func() {
			check.Must(t, copyAll(dir+".copy", dir))
			check.Must(t, os.RemoveAll(dir))
			check.Must(t, os.Rename(dir+".copy", dir))
		},
		"directory replaced by one with the same segments": func() {
			check.Must(t, os.Rename(dir, dir+".old"))
			check.Must(t, os.Mkdir(dir, 0o700))
			names := check.Value(os.ReadDir(dir + ".old"))(t)
			for _, n := range names {
				check.Must(t, os.Rename(filepath.Join(dir+".old", n.Name()), filepath.Join(dir, n.Name())))
			}
		},
		"directory renamed": func() { check.Must(t, os.Rename(dir, dir+".old")) },
		"directory removed": func() { check.Must(t, os.RemoveAll(dir)) },
		"segment replaced by a copy": func() {
			check.Must(t, copyFile(path+".copy", path))
			check.Must(t, os.Rename(path+".copy", path))
		},
		"segment renamed": func() { check.Must(t, os.Rename(path, filepath.Join(dir, "other"))) },
		"segment removed": func() { check.Must(t, os.Remove(path)) },
		"segment linked":  func() { check.Must(t, os.Link(path, dir+".link")) },
		"segment replaced by a link": func() {
			check.Must(t, os.Rename(path, dir+".moved"))
			check.Must(t, os.Symlink(dir+".moved", path))
		},
		"segment cut off":  func() { check.Must(t, os.Truncate(path, 200)) },
		"segment emptied":  func() { check.Must(t, os.Truncate(path, 0)) },
		"segment longer":   func() { edit(func(b []byte) []byte { return append(b, make([]byte, 4096)...) }) },
		"segment of zeros": func() { edit(func(b []byte) []byte { clear(b); return b }) },
		flippedBit: func() {
			edit(func(b []byte) []byte { b[headerSize+frameHead] ^= 4; return b })
		},
	}
}

// flippedBit is the one way that shows in nothing but the time and the content of a segment.
const flippedBit = "bit flipped in the first group"

// The time of the segment that is written to is not compared, since to read it makes every append
// slower: an edit in place is found when the segment is read, by its checksums.
func TestRead_FlippedInTheLastSegment_IsCorrupt(t *testing.T) {
	dir := scratch(t)
	j, l, term := begun(t, dir, false, false)
	ways(t, dir, name(1, asSegment))[flippedBit]()
	check.Must(t, j.Append(noLimit, l.Group(term, []byte("more"))))
	check.WantErr(t, check.Err(readAll(j, journal.Position{})), errs.ErrCorrupt, "Read")
}

// The segment is one whose time nothing has read since it was last written to.
func TestAppend_TimeOfTheLastSegment_IsNotRead(t *testing.T) {
	d := &timeless{}
	var l journaltest.Log
	j := check.Value(create(d, usual, scratch(t), shop, l.End()))(t)
	defer j.Close()
	term, _, err := j.Claim(noLimit)
	check.Must(t, err)
	d.read = 0
	for range 3 {
		check.Must(t, j.Append(noLimit, l.Group(term, []byte("one"))))
	}
	check.That(t, d.read == 0, "the time of the last segment was read %d times for 3 groups", d.read)
}

// timeless counts how often the time of a file is read.
type timeless struct {
	operatingSystem
	read int
}

func (d *timeless) lstat(path string, how withTime) (stamp, error) {
	if how {
		d.read++
	}
	return d.operatingSystem.lstat(path, how)
}

// copyAll copies a directory, with the times of its files, as cp -a does.
func copyAll(to, from string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	names, err := os.ReadDir(from)
	for _, n := range names {
		err = errors.Join(err, copyFile(filepath.Join(to, n.Name()), filepath.Join(from, n.Name())))
	}
	return err
}

func copyFile(to, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(from)
	return errors.Join(err, os.WriteFile(to, b, 0o600), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// begun makes a journal in a directory, with groups of records and marks of those that begin a
// segment.
func begun(t *testing.T, dir string, cuts ...bool) (j *Journal, l *journaltest.Log, term uint64) {
	t.Helper()
	l = &journaltest.Log{}
	j, err := Create(dir, shop, l.End())
	check.Must(t, err)
	t.Cleanup(func() { j.Close() })
	term, _, err = j.Claim(noLimit)
	check.Must(t, err)
	for _, cut := range cuts {
		g := l.Group(term, []byte("secret"))
		g.Cut = cut
		check.Must(t, j.Append(noLimit, g))
	}
	return j, l, term
}

func scratch(t *testing.T) string { return filepath.Join(testenv.TempDir(t), "panel.db.journal") }

// An earlier segment has answers that the file of the ledger may not have yet: it is compared like
// the last one.
func TestAppend_EarlierSegmentReplaced_IsRefused(t *testing.T) {
	for how := range ways(t, "", "") {
		t.Run(how, func(t *testing.T) {
			dir := scratch(t)
			j, l, term := begun(t, dir, false, false, true)
			ways(t, dir, name(1, asSegment))[how]()
			check.WantErr(t, j.Append(noLimit, l.Group(term, []byte("lost"))), errs.ErrReplaced, "Append")
			check.WantErr(t, j.Append(noLimit, l.Group(term, []byte("lost"))), journal.ErrStopped, "the next Append")
			check.WantErr(t, j.Close(), errs.ErrReplaced, "Close")
		})
	}
}

// An older copy of the last segment that is written over it is found, also if all times are as they
// were.
func TestAppend_OlderCopyWrittenOver_IsRefused(t *testing.T) {
	dir := scratch(t)
	j, l, term := begun(t, dir, false)
	path := filepath.Join(dir, name(1, asSegment))
	old := check.Value(os.ReadFile(path))(t)
	check.Must(t, j.Append(noLimit, l.Group(term, []byte("acknowledged"))))
	info := check.Value(os.Stat(path))(t)
	f := check.Value(os.OpenFile(path, os.O_WRONLY, 0))(t)
	_, err := f.WriteAt(old, 0)
	check.Must(t, errors.Join(err, f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime())))
	check.WantErr(t, j.Append(noLimit, l.Group(term, []byte("lost"))), errs.ErrReplaced, "Append")
}

// What is replaced while a group is being made durable is not acknowledged. Of the last segment,
// that is its file and its last frame: for the rest, see
// TestRead_FlippedInTheLastSegment_IsCorrupt.
func TestAppend_ReplacedDuringTheFlush_IsNotAcknowledged(t *testing.T) {
	for how := range ways(t, "", "") {
		if how == flippedBit {
			continue
		}
		t.Run(how, func(t *testing.T) {
			dir, during := scratch(t), func() {}
			var l journaltest.Log
			j := check.Value(create(&disturbed{flushed: func() { during() }}, usual, dir, shop, l.End()))(t)
			defer j.Close()
			term, _, err := j.Claim(noLimit)
			check.Must(t, err)
			check.Must(t, j.Append(noLimit, l.Group(term, []byte("one"))))
			during = ways(t, dir, name(1, asSegment))[how]
			err = j.Append(noLimit, l.Group(term, []byte("two")))
			check.That(t, errors.Is(err, errs.ErrReplaced) && !errors.Is(err, journal.ErrRejected),
				"Append: %v, not an uncertain ErrReplaced", err)
		})
	}
}

// A segment whose time is set has not changed, however often that happens.
func TestAppend_TimeOfASegmentSet_GoesOn(t *testing.T) {
	dir := scratch(t)
	j, l, term := begun(t, dir, false, true)
	for i := range 2 * mostRereads {
		for _, n := range []uint64{1, 2} {
			at := later.Add(time.Duration(i) * time.Second)
			check.Must(t, os.Chtimes(filepath.Join(dir, name(n, asSegment)), at, at))
		}
		check.Must(t, j.Append(noLimit, l.Group(term, []byte("more"))))
	}
	check.Must(t, j.Close())
}

// A journal that was replaced is neither destroyed nor trimmed, and what is at its path is left
// alone.
func TestRemove_DirectoryReplaced_DestroysNothing(t *testing.T) {
	dir := scratch(t)
	j, _, _ := begun(t, dir, false)
	check.Must(t, os.Rename(dir, dir+".old"))
	check.Must(t, copyAll(dir, dir+".old"))
	for what, err := range map[string]error{"Remove": j.Remove(), "Close": j.Close()} {
		check.That(t, errors.Is(err, errs.ErrReplaced) || errors.Is(err, journal.ErrStopped),
			"%s: %v, not ErrReplaced", what, err)
	}
	for _, d := range []string{dir, dir + ".old"} {
		b, err := os.ReadFile(filepath.Join(d, name(1, asSegment)))
		check.That(t, err == nil && bytes.Contains(b, []byte("secret")), "%s was destroyed: %v", d, err)
	}
}

// Who only reads learns that the journal was replaced while it was read.
func TestClose_ReplacedWhileItWasRead_IsReported(t *testing.T) {
	for how := range ways(t, "", "") {
		t.Run(how, func(t *testing.T) {
			dir := scratch(t)
			j, _, _ := begun(t, dir, false, false)
			check.Must(t, j.Close())
			r := check.Value(Open(dir, shop))(t)
			check.Must(t, check.Err(readAll(r, r.segments[0].begin)))
			ways(t, dir, name(1, asSegment))[how]()
			check.WantErr(t, r.Close(), errs.ErrReplaced, "Close")
		})
	}
}

// A claim of a journal that is not at its path any more fails.
func TestClaim_DirectoryRenamed_IsRefused(t *testing.T) {
	dir := scratch(t)
	j, _, _ := begun(t, dir, false)
	check.Must(t, j.Close())
	r := check.Value(Open(dir, shop))(t)
	defer r.Close()
	check.Must(t, os.Rename(dir, dir+".old"))
	check.WantErr(t, check.Err2(r.Claim(noLimit)), errs.ErrReplaced, "Claim")
}

// A path that ends with a symbolic link leads to where the link does, for all that is done with a
// journal; the link stays.
func TestCreate_SymbolicLink_IsFollowed(t *testing.T) {
	for what, to := range map[string]string{"absolute": "", "relative": filepath.Join("..", "fast", "panel"), "of a link": "hop"} {
		t.Run(what, func(t *testing.T) {
			top := testenv.TempDir(t)
			check.Must(t, errors.Join(os.Mkdir(filepath.Join(top, "slow"), 0o700), os.Mkdir(filepath.Join(top, "fast"), 0o700)))
			dir, target := filepath.Join(top, "slow", "panel.db.journal"), filepath.Join(top, "fast", "panel")
			if to == "hop" {
				check.Must(t, os.Symlink(target, filepath.Join(top, "slow", "hop")))
			} else if to == "" {
				to = target
			}
			check.Must(t, os.Symlink(to, dir))
			j, l, _ := begun(t, dir, false)
			info, err := os.Stat(target)
			check.Need(t, err == nil && info.IsDir(), "the journal is not where the link leads: %v", err)
			check.Must(t, j.Close())
			j = check.Value(Open(dir, shop))(t)
			defer j.Close()
			term, end, err := j.Claim(noLimit)
			check.Need(t, err == nil && end == l.End(), "it ends with %v, not %v: %v", end, l.End(), err)
			check.Must(t, j.Append(noLimit, l.Group(term, []byte("more"))))
			check.Must(t, j.Remove())
			check.WantErr(t, check.Err(os.Stat(target)), fs.ErrNotExist, "the journal was not destroyed")
			check.WantErr(t, check.Err(os.Lstat(dir)), nil, "the link is gone")
			j, l, term = begun(t, dir, false)
			check.Must(t, os.Remove(dir))
			check.Must(t, copyAll(filepath.Join(top, "copy"), target))
			check.Must(t, os.Symlink(filepath.Join(top, "copy"), dir))
			check.WantErr(t, j.Append(noLimit, l.Group(term, []byte("lost"))), errs.ErrReplaced, "the link leads elsewhere, and Append")
		})
	}
}

// Links that lead to each other are an error.
func TestOpen_CircleOfLinks_IsAnError(t *testing.T) {
	dir := scratch(t)
	check.Must(t, errors.Join(os.Symlink(dir+"2", dir), os.Symlink(dir, dir+"2")))
	_, err := Open(dir, shop)
	check.That(t, err != nil && !errors.Is(err, fs.ErrNotExist), "Open: %v", err)
}

// lastOf returns where the last group of a closed journal begins and ends, in its last segment.
func lastOf(t *testing.T, h *host) (n *inode, from, to int64) {
	t.Helper()
	j, err := open(h.s, small, place, shop)
	check.Must(t, err)
	defer j.Close()
	c := &cursor{Journal: j}
	last := j.segments[len(j.segments)-1]
	check.Must(t, c.enter(last))
	for err == nil {
		from, to = to, c.at
		_, err = c.next()
	}
	return h.segments()[name(last.number, asSegment)], from, to
}

// specimens are closed journals whose last group has one frame, or several.
func specimens(t *testing.T) map[string]*host {
	all := map[string]*host{"in one sector": specimen(t)}
	for what, size := range map[string]int{"of several sectors": 500, "of several frames": 1900} {
		h := specimen(t)
		check.Must(t, h.recover())
		check.Must(t, h.append(size, false))
		check.Must(t, h.j.Close())
		all[what] = h
	}
	return all
}

// reads returns what a reader of a journal finds.
func (h *host) reads() (groups []journal.Group, err error) {
	j, err := open(h.s, small, place, shop)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	return readAll(j, h.begin)
}

// A bit of the last group that flips is no torn write: the group may have been acknowledged.
func TestRead_BitFlippedInTheLastGroup_IsCorrupt(t *testing.T) {
	for what, h := range specimens(t) {
		t.Run(what, func(t *testing.T) {
			_, from, to := lastOf(t, h)
			stride := int64(testenv.Tries(7, 1, 1))
			for at := from; at < to; at++ {
				for bit := at % stride; bit < 8; bit += stride {
					o := h.whole()
					n, _, _ := lastOf(t, o)
					filled := n.data[at] == filler
					n.data[at] ^= 1 << bit
					groups, err := o.reads()
					if whole := err == nil && len(groups) == len(h.groups); !errors.Is(err, errs.ErrCorrupt) && !(filled && whole) {
						t.Fatalf("bit %d of byte %d of bytes %d to %d: %d groups of %d, %v", bit, at, from, to, len(groups), len(h.groups), err)
					}
				}
			}
		})
	}
}

// A last group of which a sector is not there, or the end, is what a loss of power or a full disk
// leaves: it is dropped.
func TestRead_LastGroupTorn_IsDropped(t *testing.T) {
	for what, h := range specimens(t) {
		t.Run(what, func(t *testing.T) {
			_, from, to := lastOf(t, h)
			n, _, _ := lastOf(t, h)
			last := to // where the bytes that fill up the last frame begin
			for n.data[last-1] == filler {
				last--
			}
			expect := func(how string, change func(*inode)) {
				o := h.whole()
				n, _, _ := lastOf(t, o)
				change(n)
				groups, err := o.reads()
				check.Need(t, err == nil && len(groups) == len(h.groups)-1,
					"%s, of bytes %d to %d: %d groups of %d, %v", how, from, to, len(groups), len(h.groups), err)
			}
			for a, b := range sectors(from, to) {
				expect("a sector not written", func(n *inode) { clear(n.data[a:b]) })
			}
			for at := from; at < last; at++ {
				expect("written in part", func(n *inode) { clear(n.data[at:to]) })
				expect("cut off", func(n *inode) { n.data = slices.Clone(n.data[:at]) })
			}
		})
	}
}
