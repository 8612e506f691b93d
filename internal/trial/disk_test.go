package trial

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/trial/trace"
)

// A disk that loses power keeps what was synced. Of what was written since, it may have any part: it carries writes
// out in any order, and of one that is under way any of its sectors. That is what the tests assume of a file's bytes and
// length. Changes of names in a directory are kept in order, as the journals of file systems do; those since it was synced may be
// missing from any one on, whatever becomes of those in other directories.

// record is everything that a process did to the files in a directory, and told, in order.
type record struct {
	dir     string
	events  []event
	pending map[*trace.Call]int // the calls that have begun, and how many events there were then
	kill    int                 // at the call that is so many from now; 0 for never
}

// event is a call that was carried out, or something that was told.
type event struct {
	trace.Call
	// after is how many events had happened when the call began: a sync makes those durable, and no others.
	after int
	told  string
}

func newRecord(dir string) *record { return &record{dir: dir, pending: map[*trace.Call]int{}} }

// Before implements [trace.Watcher].
func (r *record) Before(c *trace.Call) trace.Verdict {
	if strings.HasPrefix(c.Path, r.dir) && r.kill > 0 {
		if r.kill--; r.kill == 0 {
			return trace.Kill
		}
	}
	r.pending[c] = len(r.events)
	return trace.Proceed
}

// After implements [trace.Watcher].
func (r *record) After(c *trace.Call) {
	after := r.pending[c]
	delete(r.pending, c)
	switch {
	case c.FD == 1 && c.Kind == trace.Write:
		r.events = append(r.events, event{told: string(c.Data)})
	case strings.HasPrefix(c.Path, r.dir):
		r.events = append(r.events, event{Call: *c, after: after})
	}
}

// disk is what a record has left on it.
type disk struct {
	files  names    // as a process sees it
	kept   names    // as the disk is sure to have it
	naming []naming // changes of names since, in order
}

// names are what is in directories, by their paths.
type names map[string]*file

// naming is a change of names in a directory.
type naming struct {
	in     string
	change func(names)
}

// file is the content of a file, under whatever names; or it is a directory.
type file struct {
	folder bool
	synced []byte
	since  []change // in order
}

// change is a write or a new length that was not synced.
type change struct {
	kind   trace.Kind
	offset int64
	data   []byte
	at     int // the number of its event
}

// newDisk has the files of a directory on it.
func newDisk(dir string) (*disk, error) {
	d := &disk{files: names{}, kept: names{}}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		f := &file{synced: text}
		d.files[filepath.Join(dir, e.Name())], d.kept[filepath.Join(dir, e.Name())] = f, f
	}
	return d, err
}

// play carries an event out. A disk that lies says that it has synced, and has not.
func (d *disk) play(number int, e event, lies bool) {
	f := d.files[e.Path]
	rename := func(change func(names)) {
		change(d.files)
		d.naming = append(d.naming, naming{filepath.Dir(e.Path), change})
	}
	switch e.Kind {
	case trace.Create, trace.Mkdir:
		if f == nil {
			made := &file{folder: e.Kind == trace.Mkdir}
			rename(func(n names) { n[e.Path] = made })
		}
	case trace.Link:
		rename(func(n names) { n[e.To] = f })
	case trace.Rename:
		rename(func(n names) { n.move(e.Path, e.To, f) })
	case trace.Remove:
		rename(func(n names) { delete(n, e.Path) })
	case trace.Sync:
		switch {
		case lies:
		case f != nil && !f.folder:
			f.sync(e.after)
		default:
			d.syncNames(e.Path)
		}
	case trace.Write, trace.Truncate, trace.Allocate:
		f.since = append(f.since, change{e.Kind, e.Offset, e.Data, number})
	}
}

// move gives a file another name, or a directory with all that is in it.
func (n names) move(from, to string, f *file) {
	if f == nil {
		return
	}
	delete(n, from)
	if n[to] = f; !f.folder {
		return
	}
	for name, inside := range maps.Clone(n) {
		if rest, is := strings.CutPrefix(name, from+"/"); is {
			delete(n, name)
			n[to+"/"+rest] = inside
		}
	}
}

// syncNames makes the names in a directory durable. What is below a directory that was moved since is found there by its new name.
func (d *disk) syncNames(dir string) {
	var rest []naming
	for _, one := range d.naming {
		if one.in == dir {
			one.change(d.kept)
		} else {
			rest = append(rest, one)
		}
	}
	d.naming = rest
}

// sync makes the changes before an event durable.
func (f *file) sync(before int) {
	n := 0
	for n < len(f.since) && f.since[n].at < before {
		f.synced = f.since[n].apply(f.synced, 0, int64(len(f.since[n].data)))
		n++
	}
	f.since = append([]change(nil), f.since[n:]...)
}

// apply makes a part of a change.
func (c change) apply(content []byte, from, to int64) []byte {
	length := c.offset // of a new length
	if c.kind == trace.Write {
		length = c.offset + to
	}
	if int64(len(content)) < length {
		content = append(content, make([]byte, length-int64(len(content)))...)
	}
	switch c.kind {
	case trace.Write:
		copy(content[c.offset+from:], c.data[from:to])
	case trace.Truncate:
		content = content[:length]
	}
	return content
}

// Files are in memory ([pace.Scratch]). What a process has written survives its end, synced or not; and what a disk keeps when its
// power is cut is worked out from a record.

// forget removes a directory before its test ends: memory is not as large as a disk.
func forget(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// Grains of what a disk writes whole: sectors, pages, all of a write.
func grains() []int64 { return []int64{512, 4096, 1 << 40} }

// image writes what may be left when the power goes: under the names that the disk is sure of and some of the later ones,
// the synced bytes and some of the later ones.
func (d *disk) image(random *rand.Rand, from, to string) error {
	grain := grains()[random.IntN(3)]
	chance := []float64{0, 0.1, 0.5, 0.9, 1}[random.IntN(5)]
	left := d.namesLeft(random)
	for _, name := range slices.Sorted(maps.Keys(left)) { // a directory comes before what is in it
		f, at := left[name], filepath.Join(to, strings.TrimPrefix(name, from))
		var err error
		switch _, missing := os.Stat(filepath.Dir(at)); {
		case missing != nil: // nothing leads to it
		case f.folder:
			err = os.Mkdir(at, 0o700)
		default:
			err = os.WriteFile(at, f.left(random, grain, chance), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// namesLeft returns the names that may be left: of each directory those that are sure, and some of the later ones.
func (d *disk) namesLeft(random *rand.Rand) names {
	left, since := maps.Clone(d.kept), map[string]int{}
	for _, one := range d.naming {
		since[one.in]++
	}
	for _, dir := range slices.Sorted(maps.Keys(since)) {
		since[dir] = random.IntN(since[dir] + 1)
	}
	for _, one := range d.naming {
		if since[one.in] > 0 {
			since[one.in]--
			one.change(left)
		}
	}
	return left
}

// left is what may be left of a file: each part of each change that was not synced, with some chance.
func (f *file) left(random *rand.Rand, grain int64, chance float64) []byte {
	content := append([]byte(nil), f.synced...)
	for _, c := range f.since {
		if c.kind != trace.Write {
			if random.Float64() < chance {
				content = c.apply(content, 0, 0)
			}
			continue
		}
		for from := int64(0); from < int64(len(c.data)); {
			to := min(from+grain-(c.offset+from)%grain, int64(len(c.data)))
			if random.Float64() < chance {
				content = c.apply(content, from, to)
			}
			from = to
		}
	}
	return content
}
