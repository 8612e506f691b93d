package journalfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
)

// closedJournal returns a closed journal of a few groups in three segments.
func closedJournal(t testing.TB) *host {
	h := newHost()
	for _, a := range []action{
		{what: "create"}, {what: "append", size: 10}, {what: "append", size: 20}, {what: "append", size: 90, cut: true}, {what: "append", size: 1400},
		{what: "append", size: 0, cut: true}, {what: "append", size: 700}, {what: "append", size: 5},
	} {
		check.Must(t, h.do(a))
	}
	check.Must(t, h.j.Close())
	return h
}

// segments returns the files of a journal on a simulated disk.
func (h *host) segments() map[string]*inode { return h.s.root.names["panel.db.journal"].names }

// copyOfDisk copies a disk as it is.
func (h *host) copyOfDisk() *host { return h.on(h.s.afterPowerCut(func(n int) int { return n })) }

// checkRead checks that a damaged journal returns an error, or the groups in order from the first,
// of which only the last may be missing.
func (h *host) checkRead(t *testing.T, what string) {
	t.Helper()
	j, err := open(h.s, small, journalPath, shop)
	if err != nil {
		check.That(t, errors.Is(err, errs.ErrCorrupt) || errors.Is(err, errs.ErrVersion), "%s: Open: %v", what, err)
		return
	}
	defer j.Close()
	n := 0
	for g, err := range j.Read(noLimit, h.begin) {
		if err != nil {
			check.WantErr(t, err, errs.ErrCorrupt, "%s: Read", what)
			return
		}
		check.Need(t, n != len(h.groups) && journaltest.Equal(g, h.groups[n]), "%s: group %d has other content", what, n)
		n++
	}
	if _, end, err := j.Claim(noLimit); err != nil || n < len(h.groups)-1 || n > 0 && end != h.groups[n-1].After {
		t.Errorf("%s: %d groups of %d without an error, and Claim returns %v, %v", what, n, len(h.groups), end, err)
	}
}

// A flipped bit is found, unless it is in the last group or in bytes that are not read.
func TestRead_AnyBitFlipped_IsCorruptOrLosesTheLastGroup(t *testing.T) {
	h := closedJournal(t)
	r := seededRand(t)
	for name, n := range h.segments() {
		stride := max(testenv.Stride(3, 29), testenv.Tries(1, 2, 1))
		for at := r.IntN(stride); at < len(n.data); at += stride {
			o := h.copyOfDisk()
			o.segments()[name].data[at] ^= 1 << r.IntN(8)
			o.checkRead(t, name)
		}
	}
}

// A truncated segment is found, or loses only the last group.
func TestRead_SegmentTruncated_IsCorruptOrLosesTheLastGroup(t *testing.T) {
	h := closedJournal(t)
	r := seededRand(t)
	last := slices.Max(slices.Collect(maps.Keys(h.segments())))
	for name, n := range h.segments() {
		stride := max(testenv.Stride(3, 29), testenv.Tries(1, 2, 1))
		for length := r.IntN(stride); length < len(n.data); length += stride {
			o := h.copyOfDisk()
			f := o.segments()[name]
			if f.data = f.data[:length]; name != last || length >= lastGroup(n.data) {
				o.checkRead(t, name)
				continue
			}
			// The last file may lose more than one group. A reader that knows the end of the
			// journal finds out.
			if j, err := open(o.s, small, journalPath, shop); err == nil {
				for _, err = range j.Read(noLimit, h.log.End()) {
				}
				check.WantErr(t, err, journal.ErrLost, "%s cut to %d bytes", name, length)
				j.Close()
			}
		}
	}
}

// lastGroup returns an offset after all groups but the last, which has two marks.
func lastGroup(data []byte) int {
	rest := data
	for range 2 {
		rest = rest[:bytes.LastIndex(rest, []byte("secret"))]
	}
	return bytes.LastIndex(rest, []byte("secret")) + 20
}

// Damage of a group with other groups after it is an error, not a torn group, even if the groups
// after it are damaged, too.
func TestRead_DamageBeforeOtherGroups_IsCorrupt(t *testing.T) {
	h := closedJournal(t)
	for what, damage := range map[string]func(data []byte){
		"one group": func(data []byte) { data[bytes.Index(data, []byte("secret"))] ^= 1 },
		"two groups": func(data []byte) {
			data[bytes.Index(data, []byte("secret"))] ^= 1
			data[bytes.LastIndex(data, []byte("secret"))] ^= 1
		},
		"as torn, before others": func(data []byte) { // only the last group can be torn
			end := paddedEnd(headerSize + frameHeadSize + int64(binary.BigEndian.Uint32(data[headerSize:])))
			clear(data[headerSize+frameHeadSize : end])
		},
	} {
		o := h.copyOfDisk()
		damage(o.segments()["00000003.segment"].data)
		j, err := open(o.s, small, journalPath, shop)
		check.Must(t, err)
		n := 0
		for _, err = range j.Read(noLimit, h.begin) {
			n++
		}
		check.That(t, errors.Is(err, errs.ErrCorrupt) && n == 5, "%s: after %d groups: %v", what, n, err)
		check.WantErr(t, check.Err2(j.Claim(noLimit)), errs.ErrCorrupt, "Claim")
	}
}

// Segments that are missing, exchanged, or of another journal or branch are found.
func TestOpen_SegmentsMissingOrOfOthers_AreRefused(t *testing.T) {
	const one, two, three = "00000001.segment", "00000002.segment", "00000003.segment"
	h, other := closedJournal(t), closedJournal(t)
	for name, c := range map[string]struct {
		change func(s map[string]*inode)
		want   error
	}{
		"first missing":  {func(s map[string]*inode) { delete(s, one) }, journal.ErrLost},
		"second missing": {func(s map[string]*inode) { delete(s, two) }, journal.ErrLost},
		"all missing":    {func(s map[string]*inode) { clear(s) }, journal.ErrLost},
		"exchanged":      {func(s map[string]*inode) { s[one], s[two] = s[two], s[one] }, journal.ErrForked},
		"renamed":        {func(s map[string]*inode) { s["00000004.segment"] = s[three]; delete(s, three) }, journal.ErrForked},
		"twice":          {func(s map[string]*inode) { s["00000004.segment"] = s[two] }, journal.ErrForked},
		"of another":     {func(s map[string]*inode) { s[two] = other.segments()[two] }, journal.ErrForked},
		"empty":          {func(s map[string]*inode) { s[two].data = nil }, errs.ErrCorrupt},
		"other version":  {func(s map[string]*inode) { s[two].data[magicPrefix] = '9' }, errs.ErrVersion},
		"frames of another": {func(s map[string]*inode) {
			s[two].data = append(s[two].data[:headerSize], other.segments()[two].data[headerSize:]...)
		}, errs.ErrCorrupt},
		"frames of another segment": {func(s map[string]*inode) {
			s[two].data = append(s[two].data[:headerSize], s[one].data[headerSize:]...)
		}, errs.ErrCorrupt},
		"a group that cannot be": {func(s map[string]*inode) { replaceGroup(s[two], h.groups[4]) }, journal.ErrForked},
		"another branch":         {func(s map[string]*inode) { replaceGroup(s[two], otherBranch(h.groups[2])) }, errs.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			o := h.copyOfDisk()
			c.change(o.segments())
			j, err := open(o.s, small, journalPath, shop)
			if err == nil {
				for _, err = range j.Read(noLimit, h.begin) {
				}
			}
			check.Is(t, err, c.want)
		})
	}
	check.WantErr(t, check.Err(open(h.s, small, journalPath, [16]byte{1})), journal.ErrForked, "the journal of another ledger")
}

// A frame is valid only at its offset. So bytes that another party chose, such as a record, never
// count as a frame.
func TestRead_FrameCopiedWithinItsSegment_IsIgnored(t *testing.T) {
	h := closedJournal(t)
	n := h.segments()["00000003.segment"]
	free := alignUp(int64(len(n.data)) - 208)
	check.Need(t, len(bytes.Trim(n.data[free:], "\x00")) == 0, "the segment has no free space after the groups")
	copy(n.data[free:], n.data[headerSize:headerSize+200])
	h.checkRead(t, "moved")
	j, err := open(h.s, small, journalPath, shop)
	check.Must(t, err)
	defer j.Close()
	for _, err = range j.Read(noLimit, h.begin) {
		check.OK(t, err)
	}
}

// replaceGroup writes one group into a segment, with valid checksums.
func replaceGroup(n *inode, g journal.Group) {
	s, err := parseHeader(n.data)
	if err != nil {
		panic(err)
	}
	clear(n.data[headerSize:])
	w := &writer{segment: s, sizes: small, file: &simFile{s: newSim(), n: n}, end: headerSize}
	if err := w.group(g); err != nil {
		panic(err)
	}
}

// otherBranch returns a group at the same position that ends with another root.
func otherBranch(g journal.Group) journal.Group {
	g.After.Root[3] ^= 1
	return g
}

// A trimmed segment that was put back does not disturb a reader that begins after it.
func TestRead_TrimmedSegmentPutBack_ContinuesAfterIt(t *testing.T) {
	h := closedJournal(t)
	old := h.segments()["00000001.segment"]
	old = &inode{data: slices.Clone(old.data), disk: slices.Clone(old.data), length: int64(len(old.data))}
	for _, a := range []action{{what: "reopen"}, {what: "trim", keep: 2}, {what: "append", size: 3}} {
		if a.what == "reopen" {
			check.Must(t, h.recover())
		} else if err := h.do(a); err != nil {
			t.Fatal(err)
		}
	}
	check.Must(t, h.j.Close())
	h.segments()["00000001.segment"] = old
	j, err := open(h.s, small, journalPath, shop)
	check.Must(t, err)
	defer j.Close()
	h.j = j
	check.OK(t, h.read())
	var nothing journaltest.Log
	for _, err = range j.Read(noLimit, nothing.End()) {
	}
	check.WantErr(t, err, journal.ErrLost, "from the first position")
}

// FuzzSegment reads any bytes as a segment. The result must be consecutive groups, or an error of a
// known kind.
func FuzzSegment(f *testing.F) {
	h := closedJournal(f)
	for _, n := range h.segments() {
		f.Add(n.data, false)
		f.Add(n.data[headerSize:], true)
		f.Add(n.data[:len(n.data)/2], false)
	}
	f.Fuzz(func(t *testing.T, data []byte, frames bool) {
		o := h.copyOfDisk()
		s := o.segments()
		if frames { // after a valid header
			data = append(s["00000001.segment"].data[:headerSize:headerSize], data...)
		}
		clear(s)
		n := &inode{data: data, disk: data, length: int64(len(data))}
		s["00000001.segment"] = n
		j, err := open(o.s, small, journalPath, shop)
		if err != nil {
			check.Need(t, errors.Is(err, errs.ErrCorrupt) || errors.Is(err, errs.ErrVersion), "%v", err)
			return
		}
		defer j.Close()
		at := j.segments[0].begin
		for g, err := range j.Read(noLimit, at) {
			check.Need(t, err == nil || errors.Is(err, errs.ErrCorrupt), "%v", err)
			check.Need(t, err != nil || g.Before == at && g.Fits(), "from %v, %v", at, g)
			at = g.After
		}
	})
}

// FuzzGroup decodes any bytes as a group. A group that is decoded must be the same after encoding.
func FuzzGroup(f *testing.F) {
	h := closedJournal(f)
	for _, g := range h.groups {
		f.Add(frameContents(g))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := parseGroup(slices.Clone(b))
		if err != nil {
			check.WantErr(t, err, errs.ErrCorrupt, "error")
			return
		}
		again, err := parseGroup(frameContents(g))
		check.Need(t, err == nil && journaltest.Equal(g, again), "%v, %v: %v", g, again, err)
	})
}

// frameContents returns the contents of the frames of a group.
func frameContents(g journal.Group) (all []byte) {
	n := &inode{}
	s := segment{}
	s.header()
	w := &writer{segment: s, sizes: defaultSizes, file: &simFile{s: newSim(), n: n}}
	if err := w.group(g); err != nil {
		panic(err)
	}
	f, _ := s.parseHead(n.data, 0)
	return n.data[frameHeadSize : frameHeadSize+f.length]
}

// Remove and Sweep do not destroy a directory with other files, or one that another handle has
// open.
func TestRemoveAndSweep_ForeignOrOpenFiles_AreKept(t *testing.T) {
	dir := filepath.Join(testenv.TempDir(t), "panel.db.journal")
	var l journaltest.Log
	j := check.Value(Create(dir, shop, l.End()))(t)
	check.WantErr(t, check.Err(Create(dir, shop, l.End())), os.ErrExist, "Create a second time")
	check.WantErr(t, Sweep(dir), nil, "Sweep beside a journal")
	check.Must(t, os.Rename(dir, dir+goneExt))
	check.WantErr(t, Sweep(dir), journal.ErrInUse, "Sweep of a directory in use")
	check.Must(t, os.Rename(dir+goneExt, dir))
	mine := filepath.Join(dir, "mine.txt")
	check.Must(t, os.WriteFile(mine, []byte("mine"), 0o600))
	check.WantErr(t, j.Remove(), journal.ErrFenced, "Remove without a claim")
	check.Must(t, check.Err2(j.Claim(noLimit)))
	check.WantErr(t, j.Remove(), journal.ErrForked, "Remove with another file in the directory")
	check.Must(t, j.Close())
	check.Must(t, os.Rename(dir, dir+goneExt))
	check.WantErr(t, Sweep(dir), journal.ErrForked, "Sweep with another file in the directory")
	check.Must(t, os.Remove(filepath.Join(dir+goneExt, "mine.txt")))
	for range 2 {
		check.WantErr(t, Sweep(dir), nil, "Sweep")
	}
	check.WantErr(t, check.Err(Open(dir, shop)), os.ErrNotExist, "Open")
	left, err := os.ReadDir(filepath.Dir(dir))
	check.That(t, err == nil && len(left) == 0, "left: %v, %v", left, err)
}
