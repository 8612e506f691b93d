package trial

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// A disk that loses power keeps what was synced. Of what was written since, it may have any part: it carries writes
// out in any order, in whatever files, and of one that is under way any of its sectors. That is what the tests assume of a file's bytes and
// length; a sync of the content alone makes no new length durable. Changes of names in a directory are kept in order, as the journals of file systems do; those since it was synced may be
// missing from any one on, whatever becomes of those in other directories. What no name leads to any more lies there still.

// record is everything that a process did to the files in a directory, and told, in order.
type record struct {
	dir     string
	events  []event
	pending map[*Call]int // the calls that have begun, and how many events there were then
	kill    func(*Call) bool
}

// event is a call that was carried out, or something that was told.
type event struct {
	Call
	// after is how many events had happened when the call began: a sync makes those durable, and no others.
	after int
	told  string
}

func newRecord(dir string) *record { return &record{dir: dir, pending: map[*Call]int{}} }

// Before implements [Watcher].
func (r *record) Before(c *Call) Verdict {
	if within(r.dir, c.Path) && r.kill != nil && r.kill(c) {
		return Kill
	}
	r.pending[c] = len(r.events)
	return Proceed
}

// After implements [Watcher].
func (r *record) After(c *Call) {
	after := r.pending[c]
	delete(r.pending, c)
	switch {
	case c.FD == 1 && c.Kind == Write:
		r.events = append(r.events, event{told: string(c.Data)})
	case within(r.dir, c.Path):
		r.events = append(r.events, event{Call: *c, after: after})
	}
}

func within(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// disk is what a record has left on it.
type disk struct {
	dir  string // that the root is
	root *node
	all  []*node
}

// node is a file, under whatever names, or a directory.
type node struct {
	made    string // the name that it was made under
	removed bool   // by a process, which may be forgotten
	synced  []byte
	since   []change // in order

	folder bool
	names  map[string]*node // as a process sees them
	kept   map[string]*node // as the disk is sure to have them
	naming []naming         // changes since, in order
}

// change is a write or a new length that was not synced.
type change struct {
	kind   Kind
	offset int64
	data   []byte
	at     int // the number of its event
}

// naming is a change of the names in a directory that was not synced.
type naming struct {
	at   int // the number of its event
	make func(names map[string]*node)
}

// newDisk has the files of a directory on it, as if they were in another one.
func newDisk(from, dir string) (d *disk, err error) {
	d = &disk{dir: dir}
	d.root, err = d.load(from, dir)
	return d, err
}

func (d *disk) load(from, as string) (*node, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	n := d.add(as, info.IsDir())
	if !n.folder {
		n.synced, err = os.ReadFile(from)
		return n, err
	}
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		if err == nil {
			n.names[e.Name()], err = d.load(filepath.Join(from, e.Name()), filepath.Join(as, e.Name()))
		}
	}
	n.kept = maps.Clone(n.names)
	return n, err
}

func (d *disk) add(path string, folder bool) *node {
	n := &node{made: path, folder: folder}
	if folder {
		n.names, n.kept = map[string]*node{}, map[string]*node{}
	}
	d.all = append(d.all, n)
	return n
}

// at returns what a path leads to, or nil.
func (d *disk) at(path string) *node {
	n := d.root
	for _, name := range strings.Split(strings.TrimPrefix(path, d.dir), "/")[1:] {
		if n != nil {
			n = n.names[name]
		}
	}
	return n
}

// play carries an event out. Where it is a sync, the disk may say that it has done it, and has not.
func (d *disk) play(number int, e event, lies bool) error {
	n, in := d.at(e.Path), d.at(filepath.Dir(e.Path))
	base := filepath.Base(e.Path)
	switch e.Kind {
	case Create, Mkdir:
		if n == nil {
			made := d.add(e.Path, e.Kind == Mkdir)
			in.rename(number, func(names map[string]*node) { names[base] = made })
		}
		return nil
	case Remove:
		if n != nil {
			n.removed = true
		}
		in.rename(number, func(names map[string]*node) { delete(names, base) })
		return nil
	}
	switch {
	case n == nil:
		return fmt.Errorf("event %d: %s of %s, which is not there", number, e.Kind, e.Path)
	case e.To != "" && filepath.Dir(e.To) != filepath.Dir(e.Path):
		return fmt.Errorf("event %d: %s of %s to %s, in another directory", number, e.Kind, e.Path, e.To)
	}
	switch e.Kind {
	case Link:
		in.rename(number, func(names map[string]*node) { names[filepath.Base(e.To)] = n })
	case Rename:
		in.rename(number, func(names map[string]*node) {
			delete(names, base)
			names[filepath.Base(e.To)] = n
		})
	case Sync:
		if !lies {
			n.sync(e.after, e.Content)
		}
	default:
		n.since = append(n.since, change{e.Kind, e.Offset, e.Data, number})
	}
	return nil
}

func (n *node) rename(number int, change func(map[string]*node)) {
	change(n.names)
	n.naming = append(n.naming, naming{number, change})
}

// sync makes the changes before an event durable: those of a file, of its content or its length, too, or the names in a directory.
func (n *node) sync(before int, content bool) {
	for len(n.naming) > 0 && n.naming[0].at < before {
		n.naming[0].make(n.kept)
		n.naming = n.naming[1:]
	}
	var rest []change
	for _, c := range n.since {
		size := int64(len(c.data))
		if c.at >= before || content && (c.kind != Write || c.offset+size > int64(len(n.synced))) {
			rest = append(rest, c)
		} else {
			n.synced = c.apply(n.synced, 0, size)
		}
	}
	n.since = rest
}

// apply makes a part of a change.
func (c change) apply(content []byte, from, to int64) []byte {
	length := c.offset // of a new length
	if c.kind == Write {
		length = c.offset + to
	}
	if int64(len(content)) < length {
		content = append(content, make([]byte, length-int64(len(content)))...)
	}
	switch c.kind {
	case Write:
		copy(content[c.offset+from:], c.data[from:to])
	case Truncate:
		content = content[:length]
	}
	return content
}

// Files are in memory ([pace.Scratch]). What a process has written survives its end, synced or not; and what a disk keeps when its
// power is cut is worked out from a record.

// forget removes a directory before its test ends: memory is not as large as a disk.
func forget(t *testing.T, dir string) {
	t.Helper()
	check.OK(t, os.RemoveAll(dir))
}

// Grains of what a disk writes whole: sectors, pages, all of a write.
func grains() []int64 { return []int64{512, 4096, 1 << 40} }

// image writes to a directory what may be left when the power goes: under the names that the disk is sure of and some of the later ones,
// the synced bytes and some of the later ones. It returns what may be left of files that have no name any more.
func (d *disk) image(random *rand.Rand, to string) (nameless map[*node][]byte, err error) {
	i := &imaging{random: random, grain: grains()[random.IntN(3)], chance: []float64{0, 0.1, 0.5, 0.9, 1}[random.IntN(5)], named: map[*node][]byte{}}
	if err := i.folder(d.root, to); err != nil {
		return nil, err
	}
	nameless = map[*node][]byte{}
	for _, n := range d.all {
		if i.named[n] == nil && !n.folder {
			nameless[n] = i.left(n)
		}
	}
	return nameless, nil
}

// imaging is how an image comes about.
type imaging struct {
	random *rand.Rand
	grain  int64
	chance float64          // of a part of a change to be left
	named  map[*node][]byte // what has got a name, and what is in it
}

func (i *imaging) folder(n *node, at string) error {
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	left := maps.Clone(n.kept)
	for _, one := range n.naming[:i.random.IntN(len(n.naming)+1)] {
		one.make(left)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		inside, path := left[name], filepath.Join(at, name)
		if inside.folder {
			if err := i.folder(inside, path); err != nil {
				return err
			}
			continue
		}
		if i.named[inside] == nil { // else it has two names
			i.named[inside] = i.left(inside)
		}
		if err := os.WriteFile(path, i.named[inside], 0o600); err != nil {
			return err
		}
	}
	return nil
}

// left is what may be left of a file: each part of each change that was not synced, with some chance.
func (i *imaging) left(n *node) []byte {
	content := append([]byte{}, n.synced...)
	for _, c := range n.since {
		if c.kind != Write {
			if i.random.Float64() < i.chance {
				content = c.apply(content, 0, 0)
			}
			continue
		}
		for from := int64(0); from < int64(len(c.data)); {
			to := min(from+i.grain-(c.offset+from)%i.grain, int64(len(c.data)))
			if i.random.Float64() < i.chance {
				content = c.apply(content, from, to)
			}
			from = to
		}
	}
	return content
}
