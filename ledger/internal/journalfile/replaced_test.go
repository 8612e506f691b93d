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

// laterTime is a time at which no segment of a test is written, so that the resolution of the clock
// does not matter.
var laterTime = time.Now().Add(time.Hour)

// replacements returns functions that replace a segment of a journal, or its directory.
func replacements(t *testing.T, dir, segment string) map[string]func() {
	path := filepath.Join(dir, segment)
	edit := func(change func(b []byte) []byte) {
		info := check.Value(os.Stat(path))(t)
		b := check.Value(os.ReadFile(path))(t)
		check.Must(t, os.WriteFile(path, change(b), 0o600))
		check.Must(t, os.Chtimes(path, laterTime, laterTime))
		check.Need(t, int64(len(b)) == info.Size(), "the segment has changed concurrently")
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
			edit(func(b []byte) []byte { b[headerSize+frameHeadSize] ^= 4; return b })
		},
	}
}

// flippedBit is the replacement that changes only the time and the content of a segment.
const flippedBit = "bit flipped in the first group"

// The time of the last segment is not compared, because reading it would make every append slower.
// An edit in place is found by the checksums when the segment is read.
func TestRead_FlippedInTheLastSegment_IsCorrupt(t *testing.T) {
	dir := journalDir(t)
	j, l, term := createdJournal(t, dir, false, false)
	replacements(t, dir, name(1, segmentExt))[flippedBit]()
	check.Must(t, j.Append(noLimit, l.Group(term, []byte("more"))))
	check.WantErr(t, check.Err(readAll(j, journal.Position{})), errs.ErrCorrupt, "Read")
}

// Append does not read the time of the last segment, which would make the next flush slower.
func TestAppend_TimeOfTheLastSegment_IsNotRead(t *testing.T) {
	d := &timeCountingDisk{}
	var l journaltest.Log
	j := check.Value(create(d, defaultSizes, journalDir(t), shop, l.End()))(t)
	defer j.Close()
	term, _, err := j.Claim(noLimit)
	check.Must(t, err)
	d.read = 0
	for range 3 {
		check.Must(t, j.Append(noLimit, l.Group(term, []byte("one"))))
	}
	check.That(t, d.read == 0, "the time of the last segment was read %d times for 3 groups", d.read)
}

// timeCountingDisk counts how often the time of a file is read.
type timeCountingDisk struct {
	operatingSystem
	read int
}

func (d *timeCountingDisk) lstat(path string, how withTime) (stamp, error) {
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

// createdJournal creates and claims a journal, and appends a group for each element of cuts.
func createdJournal(t *testing.T, dir string, cuts ...bool) (j *Journal, l *journaltest.Log, term uint64) {
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

func journalDir(t *testing.T) string { return filepath.Join(testenv.TempDir(t), "panel.db.journal") }

// An earlier segment may have events that the ledger's file does not have yet. It is compared like
// the last one.
func TestAppend_EarlierSegmentReplaced_IsRefused(t *testing.T) {
	for how := range replacements(t, "", "") {
		t.Run(how, func(t *testing.T) {
			dir := journalDir(t)
			j, l, term := createdJournal(t, dir, false, false, true)
			replacements(t, dir, name(1, segmentExt))[how]()
			check.WantErr(t, j.Append(noLimit, l.Group(term, []byte("lost"))), errs.ErrReplaced, "Append")
			check.WantErr(t, j.Append(noLimit, l.Group(term, []byte("lost"))), journal.ErrStopped, "the next Append")
			check.WantErr(t, j.Close(), errs.ErrReplaced, "Close")
		})
	}
}

// An older copy that is written over the last segment is found, even if its time is restored.
func TestAppend_OlderCopyWrittenOver_IsRefused(t *testing.T) {
	dir := journalDir(t)
	j, l, term := createdJournal(t, dir, false)
	path := filepath.Join(dir, name(1, segmentExt))
	old := check.Value(os.ReadFile(path))(t)
	check.Must(t, j.Append(noLimit, l.Group(term, []byte("acknowledged"))))
	info := check.Value(os.Stat(path))(t)
	f := check.Value(os.OpenFile(path, os.O_WRONLY, 0))(t)
	_, err := f.WriteAt(old, 0)
	check.Must(t, errors.Join(err, f.Close(), os.Chtimes(path, info.ModTime(), info.ModTime())))
	check.WantErr(t, j.Append(noLimit, l.Group(term, []byte("lost"))), errs.ErrReplaced, "Append")
}

// If the journal is replaced during a flush, the group is not acknowledged. For a change in place
// of earlier frames of the last segment, see TestRead_FlippedInTheLastSegment_IsCorrupt.
func TestAppend_ReplacedDuringTheFlush_IsNotAcknowledged(t *testing.T) {
	for how := range replacements(t, "", "") {
		if how == flippedBit {
			continue
		}
		t.Run(how, func(t *testing.T) {
			dir, during := journalDir(t), func() {}
			var l journaltest.Log
			j := check.Value(create(&faultyDisk{flushed: func() { during() }}, defaultSizes, dir, shop, l.End()))(t)
			defer j.Close()
			term, _, err := j.Claim(noLimit)
			check.Must(t, err)
			check.Must(t, j.Append(noLimit, l.Group(term, []byte("one"))))
			during = replacements(t, dir, name(1, segmentExt))[how]
			err = j.Append(noLimit, l.Group(term, []byte("two")))
			check.That(t, errors.Is(err, errs.ErrReplaced) && !errors.Is(err, journal.ErrRejected),
				"Append: %v, not an uncertain ErrReplaced", err)
		})
	}
}

// Setting the time of a segment, however often, is not a change of the journal.
func TestAppend_TimeOfASegmentSet_Continues(t *testing.T) {
	dir := journalDir(t)
	j, l, term := createdJournal(t, dir, false, true)
	for i := range 2 * maxRereads {
		for _, n := range []uint64{1, 2} {
			at := laterTime.Add(time.Duration(i) * time.Second)
			check.Must(t, os.Chtimes(filepath.Join(dir, name(n, segmentExt)), at, at))
		}
		check.Must(t, j.Append(noLimit, l.Group(term, []byte("more"))))
	}
	check.Must(t, j.Close())
}

// Remove and Close of a replaced journal fail, and destroy neither it nor the files at its path.
func TestRemove_DirectoryReplaced_DestroysNothing(t *testing.T) {
	dir := journalDir(t)
	j, _, _ := createdJournal(t, dir, false)
	check.Must(t, os.Rename(dir, dir+".old"))
	check.Must(t, copyAll(dir, dir+".old"))
	for what, err := range map[string]error{"Remove": j.Remove(), "Close": j.Close()} {
		check.That(t, errors.Is(err, errs.ErrReplaced) || errors.Is(err, journal.ErrStopped),
			"%s: %v, not ErrReplaced", what, err)
	}
	for _, d := range []string{dir, dir + ".old"} {
		b, err := os.ReadFile(filepath.Join(d, name(1, segmentExt)))
		check.That(t, err == nil && bytes.Contains(b, []byte("secret")), "%s was destroyed: %v", d, err)
	}
}

// Close of a reader reports that the journal was replaced during reading.
func TestClose_ReplacedDuringReading_IsReported(t *testing.T) {
	for how := range replacements(t, "", "") {
		t.Run(how, func(t *testing.T) {
			dir := journalDir(t)
			j, _, _ := createdJournal(t, dir, false, false)
			check.Must(t, j.Close())
			r := check.Value(Open(dir, shop))(t)
			check.Must(t, check.Err(readAll(r, r.segments[0].begin)))
			replacements(t, dir, name(1, segmentExt))[how]()
			check.WantErr(t, r.Close(), errs.ErrReplaced, "Close")
		})
	}
}

// Claim fails if the journal is no longer at its path.
func TestClaim_DirectoryRenamed_IsRefused(t *testing.T) {
	dir := journalDir(t)
	j, _, _ := createdJournal(t, dir, false)
	check.Must(t, j.Close())
	r := check.Value(Open(dir, shop))(t)
	defer r.Close()
	check.Must(t, os.Rename(dir, dir+".old"))
	check.WantErr(t, check.Err2(r.Claim(noLimit)), errs.ErrReplaced, "Claim")
}

// All operations follow a symbolic link at the end of the path, and keep the link.
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
			j, l, _ := createdJournal(t, dir, false)
			info, err := os.Stat(target)
			check.Need(t, err == nil && info.IsDir(), "the journal is not at the target of the link: %v", err)
			check.Must(t, j.Close())
			j = check.Value(Open(dir, shop))(t)
			defer j.Close()
			term, end, err := j.Claim(noLimit)
			check.Need(t, err == nil && end == l.End(), "the journal ends with %v, not %v: %v", end, l.End(), err)
			check.Must(t, j.Append(noLimit, l.Group(term, []byte("more"))))
			check.Must(t, j.Remove())
			check.WantErr(t, check.Err(os.Stat(target)), fs.ErrNotExist, "stat of the removed journal")
			check.WantErr(t, check.Err(os.Lstat(dir)), nil, "lstat of the link")
			j, l, term = createdJournal(t, dir, false)
			check.Must(t, os.Remove(dir))
			check.Must(t, copyAll(filepath.Join(top, "copy"), target))
			check.Must(t, os.Symlink(filepath.Join(top, "copy"), dir))
			check.WantErr(t, j.Append(noLimit, l.Group(term, []byte("lost"))), errs.ErrReplaced, "Append with a changed link")
		})
	}
}

// A circle of links is an error other than fs.ErrNotExist.
func TestOpen_CircleOfLinks_Fails(t *testing.T) {
	dir := journalDir(t)
	check.Must(t, errors.Join(os.Symlink(dir+"2", dir), os.Symlink(dir, dir+"2")))
	_, err := Open(dir, shop)
	check.That(t, err != nil && !errors.Is(err, fs.ErrNotExist), "Open: %v", err)
}

// lastGroupOf returns the last segment of a closed journal, and where its last group begins and
// ends.
func lastGroupOf(t *testing.T, h *host) (n *inode, from, to int64) {
	t.Helper()
	j, err := open(h.s, small, journalPath, shop)
	check.Must(t, err)
	defer j.Close()
	c := &cursor{Journal: j}
	last := j.segments[len(j.segments)-1]
	check.Must(t, c.moveTo(last))
	for err == nil {
		from, to = to, c.at
		_, err = c.next()
	}
	return h.segments()[name(last.number, segmentExt)], from, to
}

// closedJournals are closed journals whose last group has one or several sectors or frames.
func closedJournals(t *testing.T) map[string]*host {
	all := map[string]*host{"in one sector": closedJournal(t)}
	for what, size := range map[string]int{"of several sectors": 500, "of several frames": 1900} {
		h := closedJournal(t)
		check.Must(t, h.recover())
		check.Must(t, h.append(size, false))
		check.Must(t, h.j.Close())
		all[what] = h
	}
	return all
}

// readGroups returns the groups that a reader gets.
func (h *host) readGroups() (groups []journal.Group, err error) {
	j, err := open(h.s, small, journalPath, shop)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	return readAll(j, h.begin)
}

// A flipped bit in the last group is not a torn write, because the group may have been
// acknowledged.
func TestRead_BitFlippedInTheLastGroup_IsCorrupt(t *testing.T) {
	for what, h := range closedJournals(t) {
		t.Run(what, func(t *testing.T) {
			_, from, to := lastGroupOf(t, h)
			stride := int64(testenv.Tries(7, 1, 1))
			for at := from; at < to; at++ {
				for bit := at % stride; bit < 8; bit += stride {
					o := h.copyOfDisk()
					n, _, _ := lastGroupOf(t, o)
					filled := n.data[at] == filler
					n.data[at] ^= 1 << bit
					groups, err := o.readGroups()
					if whole := err == nil && len(groups) == len(h.groups); !errors.Is(err, errs.ErrCorrupt) && !(filled && whole) {
						t.Fatalf("bit %d of byte %d of bytes %d to %d: %d groups of %d, %v", bit, at, from, to, len(groups), len(h.groups), err)
					}
				}
			}
		})
	}
}

// A last group with a missing sector or end is torn, as after a loss of power or on a full disk. It
// is dropped.
func TestRead_LastGroupTorn_IsDropped(t *testing.T) {
	for what, h := range closedJournals(t) {
		t.Run(what, func(t *testing.T) {
			_, from, to := lastGroupOf(t, h)
			n, _, _ := lastGroupOf(t, h)
			last := to // where the filler of the last frame begins
			for n.data[last-1] == filler {
				last--
			}
			expect := func(how string, change func(*inode)) {
				o := h.copyOfDisk()
				n, _, _ := lastGroupOf(t, o)
				change(n)
				groups, err := o.readGroups()
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
