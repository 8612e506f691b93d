package journalfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/journal"
)

const sector = 512

// sim is a disk, and the memory of the system over it. Power cuts leave of what was not flushed any
// part: sectors of writes, names of files, lengths.
type sim struct {
	root   *inode
	inodes []*inode
	life   int    // of the process; handles of an earlier one are dead
	ops    int    // that changed something, or flushed
	before func() // each of them
	fail   func(op string) error
	skip   string          // the place in the code whose flushes do nothing
	places map[string]bool // of flushes
}

// inode is a file or a directory.
type inode struct {
	number uint64
	dir    bool
	names  map[string]*inode // as processes see them
	kept   map[string]*inode // on the disk
	moves  []move            // that are not on the disk yet
	locked map[*simFolder]bool

	data   []byte // as processes see it
	disk   []byte // whatever is cut off, or beyond, is zero
	length int64  // on the disk
	writes []write

	modified int64 // how often it was written to
}

// move is a change of names: rename takes one and gives another, remove gives none, create takes
// none.
type move struct {
	from, to string
	what     *inode
}

type write struct {
	at   int64
	data []byte
}

func newSim() *sim {
	s := &sim{places: map[string]bool{}}
	s.root = s.inode(true)
	return s
}

func (s *sim) inode(dir bool) *inode {
	n := &inode{number: uint64(len(s.inodes)), dir: dir, names: map[string]*inode{}, kept: map[string]*inode{}, locked: map[*simFolder]bool{}}
	s.inodes = append(s.inodes, n)
	return n
}

// openFolder implements system: wherever a path leads, it is to the one directory at the top.
func (s *sim) openFolder(string) (folder, error) { return &simFolder{s, s.root, s.life, false}, nil }

func (s *sim) resolve(path string) (string, error)            { return path, nil }
func (s *sim) lstat(path string, how withTime) (stamp, error) { return s.stampAt(path, how) }

// stat implements system: the last elements of a path, up to the journal's directory, are names
// below the top.
func (s *sim) stat(path string) (stamp, error) { return s.stampAt(path, false) }

func (s *sim) stampAt(path string, how withTime) (stamp, error) {
	n := s.root
	for _, name := range strings.Split(strings.TrimPrefix(path, filepath.Dir(place)+"/"), "/") {
		if n = n.names[name]; n == nil {
			return stamp{}, fs.ErrNotExist
		}
	}
	return n.stamp(how), nil
}

func (n *inode) stamp(how withTime) stamp {
	s := stamp{id: [2]uint64{1, n.number}, links: 1, size: int64(len(n.data))}
	if how {
		s.modified = n.modified
	}
	return s
}

// kill ends the process. What it wrote stays in the memory of the system.
func (s *sim) kill() {
	s.life++
	for _, n := range s.inodes {
		clear(n.locked)
	}
}

var errKilled = errors.New("killed")

// op comes before each change and each flush. It may not let it happen.
func (s *sim) op(life int, what string) error {
	if life != s.life {
		return errKilled
	}
	s.ops++
	if s.before != nil {
		s.before()
	}
	if life != s.life {
		return errKilled
	}
	if s.fail != nil {
		return s.fail(what)
	}
	return nil
}

// skips notes from where a flush is asked for, and tells whether it is left out.
func (s *sim) skips(what string) bool {
	var pcs [3]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	place := what
	for range 2 {
		f, _ := frames.Next()
		place += fmt.Sprintf(" < %s:%d", f.Function[strings.LastIndexByte(f.Function, '.')+1:], f.Line)
	}
	s.places[place] = true
	return place == s.skip
}

// image returns what a power cut may leave. pick says how: it returns a number from 0 to n.
func (s *sim) image(pick func(n int) int) *sim {
	img := &sim{places: map[string]bool{}}
	twin := map[*inode]*inode{}
	for _, n := range s.inodes {
		twin[n] = img.inode(n.dir)
	}
	img.root = twin[s.root]
	for _, n := range s.inodes {
		t := twin[n]
		if !n.dir {
			t.data = n.left(pick)
			t.disk, t.length = slices.Clone(t.data), int64(len(t.data))
			continue
		}
		kept := maps.Clone(n.kept)
		for _, m := range n.moves {
			if pick(1) == 1 {
				m.apply(kept)
			}
		}
		for name, what := range kept {
			t.names[name], t.kept[name] = twin[what], twin[what]
		}
	}
	found := img.root.below()
	for n := range s.root.below() {
		if t := twin[n]; !found[t] { // it never got its name: nobody can find what was written to it
			t.data, t.disk, t.length = nil, nil, 0
		}
	}
	return img
}

// below returns what can be reached.
func (n *inode) below() map[*inode]bool {
	all := map[*inode]bool{n: true}
	for _, one := range n.names {
		maps.Copy(all, one.below())
	}
	return all
}

// apply changes names. Where one of a rename's sides was lost, the file still has one name only.
func (m move) apply(names map[string]*inode) {
	if m.from != "" {
		if names[m.from] != m.what {
			return
		}
		delete(names, m.from)
	}
	if m.to != "" {
		names[m.to] = m.what
	}
}

// left returns what a power cut may leave of a file.
func (n *inode) left(pick func(int) int) []byte {
	lengths := []int64{n.length}
	for _, w := range n.writes {
		if end := w.at + int64(len(w.data)); end > lengths[len(lengths)-1] {
			lengths = append(lengths, end)
		}
	}
	data := make([]byte, lengths[len(lengths)-1])
	copy(data, n.disk)
	for _, w := range n.writes {
		for at := w.at; at < w.at+int64(len(w.data)); {
			end := min((at/sector+1)*sector, w.at+int64(len(w.data)))
			if pick(1) == 1 {
				copy(data[at:end], w.data[at-w.at:])
			}
			at = end
		}
	}
	return data[:lengths[pick(len(lengths)-1)]]
}

// simFolder is a directory that a process has open.
type simFolder struct {
	s      *sim
	n      *inode
	life   int
	closed bool
}

func (d *simFolder) get(name string, dir bool) (*inode, error) {
	if d.life != d.s.life {
		return nil, errKilled
	}
	if n, ok := d.n.names[name]; ok && n.dir == dir {
		return n, nil
	}
	return nil, fs.ErrNotExist
}

func (d *simFolder) do(m move) {
	m.apply(d.n.names)
	d.n.moves = append(d.n.moves, m)
}

func (d *simFolder) make(what, name string, dir bool) (*inode, error) {
	if err := d.s.op(d.life, what); err != nil {
		return nil, err
	}
	if d.n.names[name] != nil {
		return nil, fs.ErrExist
	}
	n := d.s.inode(dir)
	d.do(move{"", name, n})
	return n, nil
}

func (d *simFolder) mkdir(name string) error {
	_, err := d.make("mkdir", name, true)
	return err
}

func (d *simFolder) folder(name string) (folder, error) {
	n, err := d.get(name, true)
	if err != nil {
		return nil, err
	}
	return &simFolder{d.s, n, d.life, false}, nil
}

func (d *simFolder) create(name string) (handle, error) {
	n, err := d.make("create", name, false)
	if err != nil {
		return nil, err
	}
	return &simFile{d.s, n, d.life}, nil
}

func (d *simFolder) open(name string, _ bool) (handle, error) {
	n, err := d.get(name, false)
	if err != nil {
		return nil, err
	}
	return &simFile{d.s, n, d.life}, nil
}

func (d *simFolder) rename(from, to string) error {
	if err := d.s.op(d.life, "rename"); err != nil {
		return err
	}
	if d.n.names[from] == nil || d.n.names[to] != nil {
		return fmt.Errorf("renaming %s to %s: there are %v", from, to, slices.Collect(maps.Keys(d.n.names)))
	}
	d.do(move{from, to, d.n.names[from]})
	return nil
}

func (d *simFolder) remove(name string) error {
	if err := d.s.op(d.life, "remove"); err != nil {
		return err
	}
	n := d.n.names[name]
	if n == nil || len(n.names) > 0 {
		return fmt.Errorf("removing %s: %w, or not empty", name, fs.ErrNotExist)
	}
	d.do(move{name, "", n})
	return nil
}

func (d *simFolder) list() ([]string, error) {
	if d.life != d.s.life {
		return nil, errKilled
	}
	return slices.Sorted(maps.Keys(d.n.names)), nil
}

func (d *simFolder) stat() (stamp, error) { return d.n.stamp(false), nil }

func (d *simFolder) sync() error {
	if d.s.skips("folder") {
		return nil
	}
	if err := d.s.op(d.life, "sync folder"); err != nil {
		return err
	}
	for _, m := range d.n.moves {
		m.apply(d.n.kept)
	}
	d.n.moves = nil
	return nil
}

func (d *simFolder) lock(exclusive bool) error {
	for other, all := range d.n.locked {
		if other != d && (exclusive || all) {
			return journal.ErrInUse
		}
	}
	d.n.locked[d] = exclusive
	return nil
}

func (d *simFolder) close() error {
	if d.closed {
		return fs.ErrClosed
	}
	d.closed = true
	delete(d.n.locked, d)
	return nil
}

// simFile is a file that a process has open.
type simFile struct {
	s    *sim
	n    *inode
	life int
}

func (f *simFile) ReadAt(b []byte, at int64) (int, error) {
	if f.life != f.s.life {
		return 0, errKilled
	}
	if at >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *simFile) WriteAt(b []byte, at int64) (int, error) {
	err := f.s.op(f.life, "write")
	if errors.Is(err, errKilled) {
		return 0, err
	}
	if err != nil {
		b = b[:len(b)/2] // a short one
	}
	if len(b) > 0 {
		f.n.data = append(f.n.data, make([]byte, max(0, at+int64(len(b))-int64(len(f.n.data))))...)
		copy(f.n.data[at:], b)
		f.n.writes = append(f.n.writes, write{at, slices.Clone(b)})
		f.n.modified++
	}
	return len(b), err
}

func (f *simFile) size() (int64, error)             { return int64(len(f.n.data)), nil }
func (f *simFile) stat(how withTime) (stamp, error) { return f.n.stamp(how), nil }
func (f *simFile) Close() error                     { return nil }

func (f *simFile) sync() error {
	if f.s.skips("file") {
		return nil
	}
	return f.flush("sync file", true)
}

// datasync flushes no length: less than Linux does.
func (f *simFile) datasync() error {
	if f.s.skips("data") {
		return nil
	}
	return f.flush("sync data", false)
}

// flush brings to the disk what was written. If it fails, what was written can be read, and no
// later flush brings it there.
func (f *simFile) flush(what string, length bool) error {
	err := f.s.op(f.life, what)
	if errors.Is(err, errKilled) {
		return err
	}
	if err == nil {
		for _, w := range f.n.writes {
			f.n.disk = append(f.n.disk, make([]byte, max(0, w.at+int64(len(w.data))-int64(len(f.n.disk))))...)
			copy(f.n.disk[w.at:], w.data)
		}
	}
	if err == nil && length {
		f.n.length = int64(len(f.n.data))
	}
	f.n.writes = nil
	return err
}

// picker picks at random; some say no to all, or yes to all, of what a power cut may leave.
func picker(r *rand.Rand) func(n int) int {
	switch r.IntN(8) {
	case 0:
		return func(int) int { return 0 }
	case 1:
		return func(n int) int { return n }
	}
	often := r.IntN(3)
	return func(n int) int {
		if n == 1 && often < 2 {
			return min(1, r.IntN(2+6*often))
		}
		return r.IntN(n + 1)
	}
}
