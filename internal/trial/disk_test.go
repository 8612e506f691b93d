package trial

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/trial/trace"
)

// A disk that loses power keeps what was synced. Of what was written since, it may have any part: it carries writes
// out in any order, and of one that is under way any of its sectors. That is what the tests assume of a file's bytes and
// length. Changes of names are kept in order, as journals do; those since the directory was synced may be missing from any
// one on.

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
	files  map[string]*file         // by name, as a process sees it
	kept   map[string]*file         // by name, as the disk is sure to have it
	naming []func(map[string]*file) // changes of names since, in order
}

// file is the content of a file, under whatever names.
type file struct {
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
	d := &disk{files: map[string]*file{}, kept: map[string]*file{}}
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
	rename := func(change func(map[string]*file)) {
		change(d.files)
		d.naming = append(d.naming, change)
	}
	switch e.Kind {
	case trace.Create:
		if f == nil {
			made := &file{}
			rename(func(names map[string]*file) { names[e.Path] = made })
		}
	case trace.Link:
		rename(func(names map[string]*file) { names[e.To] = f })
	case trace.Rename:
		rename(func(names map[string]*file) { names[e.To] = f; delete(names, e.Path) })
	case trace.Remove:
		rename(func(names map[string]*file) { delete(names, e.Path) })
	case trace.Sync:
		switch {
		case lies:
		case f != nil:
			f.sync(e.after)
		default: // the directory
			for _, change := range d.naming {
				change(d.kept)
			}
			d.naming = nil
		}
	case trace.Write, trace.Truncate, trace.Allocate:
		f.since = append(f.since, change{e.Kind, e.Offset, e.Data, number})
	}
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
	names := map[string]*file{}
	for name, f := range d.kept {
		names[name] = f
	}
	for _, change := range d.naming[:random.IntN(len(d.naming)+1)] {
		change(names)
	}
	grain := grains()[random.IntN(3)]
	chance := []float64{0, 0.1, 0.5, 0.9, 1}[random.IntN(5)]
	for name, f := range names {
		at := filepath.Join(to, strings.TrimPrefix(name, from))
		if err := os.WriteFile(at, f.left(random, grain, chance), 0o600); err != nil {
			return err
		}
	}
	return nil
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
