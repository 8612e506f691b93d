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

// sim is a disk with the page cache of the system. A power cut keeps any part of what was not
// flushed: sectors of writes, names of files, lengths.
type sim struct {
	root    *inode
	inodes  []*inode
	process int    // number of the process; handles of an earlier process fail
	ops     int    // number of changes and flushes
	before  func() // called before each of them
	fail    func(op string) error
	skip    string          // place in the code whose flushes do nothing
	places  map[string]bool // of flushes
}

// inode is a file or a directory.
type inode struct {
	number  uint64
	dir     bool
	names   map[string]*inode // as processes see them
	durable map[string]*inode // on the disk
	moves   []move            // that are not on the disk yet
	locked  map[*simFolder]bool

	data   []byte // as processes see it
	disk   []byte // bytes beyond its end are zero
	length int64  // on the disk
	writes []write

	modified int64 // number of writes
}

// move is a change of names: rename has both names, remove only from, and create only to.
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
	n := &inode{number: uint64(len(s.inodes)), dir: dir, names: map[string]*inode{}, durable: map[string]*inode{}, locked: map[*simFolder]bool{}}
	s.inodes = append(s.inodes, n)
	return n
}

// openFolder implements system: every path leads to the root directory.
func (s *sim) openFolder(string) (folder, error) { return &simFolder{s, s.root, s.process, false}, nil }

func (s *sim) resolve(path string) (string, error)            { return path, nil }
func (s *sim) lstat(path string, how withTime) (stamp, error) { return s.stampAt(path, how) }

// stat implements system: the last elements of a path, up to the journal's directory, are names
// below the top.
func (s *sim) stat(path string) (stamp, error) { return s.stampAt(path, false) }

func (s *sim) stampAt(path string, how withTime) (stamp, error) {
	n := s.root
	for _, name := range strings.Split(strings.TrimPrefix(path, filepath.Dir(journalPath)+"/"), "/") {
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

// kill ends the process. What it wrote stays in the page cache.
func (s *sim) kill() {
	s.process++
	for _, n := range s.inodes {
		clear(n.locked)
	}
}

var errKilled = errors.New("killed")

// beforeOp is called before each change and each flush, and may make it fail.
func (s *sim) beforeOp(life int, what string) error {
	if life != s.process {
		return errKilled
	}
	s.ops++
	if s.before != nil {
		s.before()
	}
	if life != s.process {
		return errKilled
	}
	if s.fail != nil {
		return s.fail(what)
	}
	return nil
}

// isSkipped records the place in the code that flushes, and reports whether the flush is skipped.
func (s *sim) isSkipped(what string) bool {
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

// afterPowerCut returns the disk after a power cut. pick decides about each part: it returns 0 to
// n.
func (s *sim) afterPowerCut(pick func(n int) int) *sim {
	img := &sim{places: map[string]bool{}}
	twin := map[*inode]*inode{}
	for _, n := range s.inodes {
		twin[n] = img.inode(n.dir)
	}
	img.root = twin[s.root]
	for _, n := range s.inodes {
		t := twin[n]
		if !n.dir {
			t.data = n.leftByPowerCut(pick)
			t.disk, t.length = slices.Clone(t.data), int64(len(t.data))
			continue
		}
		kept := maps.Clone(n.durable)
		for _, m := range n.moves {
			if pick(1) == 1 {
				m.apply(kept)
			}
		}
		for name, what := range kept {
			t.names[name], t.durable[name] = twin[what], twin[what]
		}
	}
	found := img.root.reachable()
	for n := range s.root.reachable() {
		if t := twin[n]; !found[t] { // the file never got its name, so its content is lost
			t.data, t.disk, t.length = nil, nil, 0
		}
	}
	return img
}

// reachable returns the files and directories below a directory, and itself.
func (n *inode) reachable() map[*inode]bool {
	all := map[*inode]bool{n: true}
	for _, one := range n.names {
		maps.Copy(all, one.reachable())
	}
	return all
}

// apply changes names. It does nothing if the old name does not lead to the file.
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

// leftByPowerCut returns the content of a file after a power cut.
func (n *inode) leftByPowerCut(pick func(int) int) []byte {
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

// simFolder is an open directory.
type simFolder struct {
	s       *sim
	n       *inode
	process int
	closed  bool
}

func (d *simFolder) get(name string, dir bool) (*inode, error) {
	if d.process != d.s.process {
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
	if err := d.s.beforeOp(d.process, what); err != nil {
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
	return &simFolder{d.s, n, d.process, false}, nil
}

func (d *simFolder) create(name string) (handle, error) {
	n, err := d.make("create", name, false)
	if err != nil {
		return nil, err
	}
	return &simFile{d.s, n, d.process}, nil
}

func (d *simFolder) open(name string, _ bool) (handle, error) {
	n, err := d.get(name, false)
	if err != nil {
		return nil, err
	}
	return &simFile{d.s, n, d.process}, nil
}

func (d *simFolder) rename(from, to string) error {
	if err := d.s.beforeOp(d.process, "rename"); err != nil {
		return err
	}
	if d.n.names[from] == nil || d.n.names[to] != nil {
		return fmt.Errorf("renaming %s to %s: there are %v", from, to, slices.Collect(maps.Keys(d.n.names)))
	}
	d.do(move{from, to, d.n.names[from]})
	return nil
}

func (d *simFolder) remove(name string) error {
	if err := d.s.beforeOp(d.process, "remove"); err != nil {
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
	if d.process != d.s.process {
		return nil, errKilled
	}
	return slices.Sorted(maps.Keys(d.n.names)), nil
}

func (d *simFolder) stat() (stamp, error) { return d.n.stamp(false), nil }

func (d *simFolder) sync() error {
	if d.s.isSkipped("folder") {
		return nil
	}
	if err := d.s.beforeOp(d.process, "sync folder"); err != nil {
		return err
	}
	for _, m := range d.n.moves {
		m.apply(d.n.durable)
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

// simFile is an open file.
type simFile struct {
	s       *sim
	n       *inode
	process int
}

func (f *simFile) ReadAt(b []byte, at int64) (int, error) {
	if f.process != f.s.process {
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
	err := f.s.beforeOp(f.process, "write")
	if errors.Is(err, errKilled) {
		return 0, err
	}
	if err != nil {
		b = b[:len(b)/2] // a short write
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
	if f.s.isSkipped("file") {
		return nil
	}
	return f.flush("sync file", true)
}

// datasync does not flush the length, although Linux does.
func (f *simFile) datasync() error {
	if f.s.isSkipped("data") {
		return nil
	}
	return f.flush("sync data", false)
}

// flush writes the page cache to the disk. If it fails, the data can still be read, but no later
// flush writes it.
func (f *simFile) flush(what string, length bool) error {
	err := f.s.beforeOp(f.process, what)
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

// randomPicker returns random decisions about what a power cut keeps. Some keep everything or
// nothing.
func randomPicker(r *rand.Rand) func(n int) int {
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
