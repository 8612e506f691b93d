package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// A disk that loses power keeps what was synced. Of what was written since, it may have any part:
// it carries writes out in any order, in whatever files, and of one that is under way any of its
// sectors. That is what the tests assume of a file's bytes and length; a sync of the content alone
// makes no new length durable. Changes of names in a directory are kept in order, as the journals
// of file systems do; those since it was synced may be missing from any one on, whatever becomes of
// those in other directories. What no name leads to any more lies there still.

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
	// after is how many events had happened when the call began: a sync makes those durable, and no
	// others.
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

// sync makes the changes before an event durable: those of a file, of its content or its length,
// too, or the names in a directory.
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

// Files are in memory ([testenv.TempDir]). What a process has written survives its end, synced or not;
// and what a disk keeps when its power is cut is worked out from a record.

// forget removes a directory before its test ends: memory is not as large as a disk.
func forget(t *testing.T, dir string) {
	t.Helper()
	check.OK(t, os.RemoveAll(dir))
}

// Grains of what a disk writes whole: sectors, pages, all of a write.
func grains() []int64 { return []int64{512, 4096, 1 << 40} }

// image writes to a directory what may be left when the power goes: under the names that the disk
// is sure of and some of the later ones, the synced bytes and some of the later ones. It returns
// what may be left of files that have no name any more.
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

// left is what may be left of a file: each part of each change that was not synced, with some
// chance.
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

// recorded is a host in several lives, with the disk as it was before.
type recorded struct {
	*record
	before func() (*disk, error)
	heard  heard                   // that the host had told before
	all    map[int]json.RawMessage // that it told, and had told
	lives  int
}

// episode is a life of a host that is recorded.
type episode struct {
	calls  int // that it is to make until it closes its shop; 0 for the rest of the script, -1 for none
	memory int64
	kill   func(*Call) bool // it is killed at the first of these; nil for none
}

// after is the so manieth call.
func after(n int) func(*Call) bool {
	return func(*Call) bool { n--; return n == 0 }
}

// turbulent is a host that closes its shop and opens it again, and is killed, also while it
// recovers from that. Mostly it has so little memory that it makes a checkpoint for each few calls.
func turbulent() []episode {
	return []episode{
		{calls: 20 + rand.IntN(10), memory: scarce},
		{memory: scarce, kill: after(80 + rand.IntN(200))},
		{calls: 15 + rand.IntN(10)},
		{kill: after(40 + rand.IntN(100))},
		{memory: scarce, kill: after(10 + rand.IntN(50))},
		{memory: scarce, kill: after(10 + rand.IntN(50))},
		{memory: scarce},
	}
}

// recordLives lets a host make the calls of the script, in several lives. What it wrote before
// shows in its next life, whether or not it was synced. Its file is a new one, or worn.
func recordLives(t *testing.T, worn bool, lives ...episode) *recorded {
	t.Helper()
	dir, before := testenv.TempDir(t), testenv.TempDir(t)
	path, blank := filepath.Join(dir, "shop.db"), filepath.Join(before, "shop.db")
	if create(t, blank); worn {
		wear(t, blank)
	}
	check.Must(t, os.CopyFS(dir, os.DirFS(before)))
	r := &recorded{record: newRecord(dir), all: map[int]json.RawMessage{}}
	r.before = func() (*disk, error) { return newDisk(before, dir) }
	for _, one := range lives {
		check.Must(t, r.live(t.Context(), path, one))
	}
	return r
}

// live records one more life.
func (r *recorded) live(ctx context.Context, path string, one episode) error {
	next := 0
	for n := range r.all {
		next = max(next, n+1)
	}
	l := life{next, scripted - 1, 1, one.memory}
	if one.calls != 0 {
		l.last = min(l.last, next+max(one.calls, 0)-1)
	}
	var said bytes.Buffer
	cmd := hostCommand(ctx, path, l)
	cmd.Stderr = &said
	from := len(r.events)
	r.lives, r.kill = r.lives+1, one.kill
	status, err := Run(cmd, r.record)
	if killed := one.kill != nil && status.Signaled(); err != nil || said.Len() > 0 || !killed && status.ExitStatus() != 0 {
		return fmt.Errorf("the host ended with %v, %w, %s", status, err, said.String())
	}
	h := heard{told: r.all}
	for _, e := range r.events[from:] {
		if err := h.note(e); err != nil {
			return err
		}
	}
	return nil
}

// heard is what a host has told.
type heard struct {
	told   map[int]json.RawMessage
	copies []string // that it has made
	closed bool     // that it has closed its shop, and has done nothing since
}

// note adds an event.
func (h *heard) note(e event) error {
	if h.closed = e.told == closed; h.closed || e.told == "" {
		return nil
	}
	if name, is := strings.CutPrefix(e.told, copying); is {
		h.copies = append(h.copies, strings.TrimSuffix(name, "\n"))
		return nil
	}
	var one reply
	if err := json.Unmarshal([]byte(e.told), &one); err != nil {
		return fmt.Errorf("the host says %q: %w", e.told, err)
	}
	h.told[one.N] = one.Result
	return nil
}

// forgotten returns who was forgotten.
func (h *heard) forgotten() (names [][]byte) {
	for n := range h.told {
		if forgets(n) {
			names = append(names, []byte(guestOf(n)))
		}
	}
	return names
}

// cutting is how the power of a recorded host is cut.
type cutting struct {
	random *rand.Rand
	lies   func(event int) bool // syncs that the disk does not do; nil for none
	depth  int                  // how often the power may be cut again while the host recovers
	images int                  // looked at so far
}

// atRandom returns so many numbers of events that may have happened.
func (c *cutting) atRandom(r *recorded, images int) (at []int) {
	for range images {
		at = append(at, 1+c.random.IntN(len(r.events)))
	}
	return at
}

// fault is what is wrong with a ledger. Any other error is what is wrong with the test.
type fault struct{ error }

func (f fault) Unwrap() error { return f.error }

// cut builds images of what may be left after some numbers of events, and looks at each of them. It
// stops at the first fault, unless told of it.
func (c *cutting) cut(ctx context.Context, r *recorded, scratch string, at []int, found func(fault) (goOn bool)) error {
	slices.Sort(at)
	d, err := r.before()
	if err != nil {
		return err
	}
	h, played := heard{told: maps.Clone(r.heard.told)}, 0
	if h.told == nil {
		h.told = map[int]json.RawMessage{}
	}
	for i, n := range at {
		for ; played < n; played++ {
			e := r.events[played]
			if err := h.note(e); err != nil {
				return err
			}
			if e.told != "" {
				continue
			}
			if err := d.play(played, e, c.lies != nil && c.lies(played)); err != nil {
				return err
			}
		}
		c.images++
		err := c.look(ctx, r, d, &h, filepath.Join(scratch, fmt.Sprint(i)))
		var wrong fault
		if errors.As(err, &wrong) {
			err = nil
			if !found(fault{fmt.Errorf("after event %d of %d, with %d calls told: %w", n, len(r.events), len(h.told), wrong.error)}) {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// look builds an image and checks it.
func (c *cutting) look(ctx context.Context, r *recorded, d *disk, h *heard, dir string) (err error) {
	nameless, err := d.image(c.random, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := traces(dir, nameless, h); err != nil {
		return err
	}
	next := -1 // the call that may have been under way
	for n := range r.all {
		if h.told[n] == nil && (next < 0 || n < next) {
			next = n
		}
	}
	others := []int{}
	if next >= 0 {
		others = append(others, next)
	}
	path := filepath.Join(dir, "shop.db")
	if c.depth > 0 && c.random.IntN(8) == 0 {
		if err := c.again(ctx, r, h, path); err != nil {
			return err
		}
	}
	if _, err := checkShop(ctx, path, h.told, others...); err != nil {
		return fault{err}
	}
	return lookAtCopies(ctx, dir, h.copies)
}

// again lets a host recover, and cuts the power meanwhile.
func (c *cutting) again(ctx context.Context, r *recorded, h *heard, path string) error {
	dir := filepath.Dir(path)
	d, err := newDisk(dir, dir)
	if err != nil {
		return err
	}
	next := &recorded{record: newRecord(dir), all: maps.Clone(r.all), heard: *h}
	next.before = func() (*disk, error) { return d, nil }
	cmd := hostCommand(ctx, path, life{first: 0, last: -1, workers: 1})
	var said bytes.Buffer
	cmd.Stderr = &said
	if status, err := Run(cmd, next.record); err != nil {
		return err
	} else if status.ExitStatus() != 0 {
		return fault{fmt.Errorf("a host that recovers ends with %v, %s", status, said.String())}
	}
	deeper := &cutting{random: c.random, depth: c.depth - 1}
	scratch := dir + " again"
	var wrong error
	err = deeper.cut(ctx, next, scratch, append(deeper.atRandom(next, 5), len(next.events)), func(f fault) bool {
		wrong = fault{fmt.Errorf("cut again: %w", f)}
		return false
	})
	c.images += deeper.images
	return errors.Join(wrong, err, os.RemoveAll(scratch))
}

// traces looks for what should not be there before the ledger is opened: anything about those who
// are forgotten in what a journal has or had, under whatever name or none; and any journal once the
// shop is closed.
func traces(dir string, nameless map[*node][]byte, h *heard) error {
	names := h.forgotten()
	for n, text := range nameless {
		if inJournal(n.made) && (n.removed && !allZero(text) || containsAny(text, names)) {
			return fault{fmt.Errorf("what was %s was removed, and is on the disk", n.made)}
		}
	}
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !inJournal(path) {
			return err
		}
		if h.closed {
			return fault{fmt.Errorf("the shop was closed, and %s is there", path)}
		}
		if entry.IsDir() || len(names) == 0 {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && containsAny(text, names) {
			err = fault{fmt.Errorf("%s has something of who was forgotten", path)}
		}
		return err
	})
}

func allZero(text []byte) bool { return len(bytes.Trim(text, "\x00")) == 0 }

// inJournal tells whether a path is that of a journal, or of something in it.
func inJournal(path string) bool { return strings.Contains(path, "shop.db.journal") }

func containsAny(text []byte, any [][]byte) bool {
	return slices.ContainsFunc(any, func(one []byte) bool { return bytes.Contains(text, one) })
}

// lookAtCopies checks the copies that the host has made: one that has its name is whole, and one
// that was told of is there.
func lookAtCopies(ctx context.Context, dir string, told []string) error {
	copies, err := filepath.Glob(filepath.Join(dir, "shop.db.[0-9]*"))
	for _, name := range told {
		if path := filepath.Join(dir, name); !slices.Contains(copies, path) {
			return fault{fmt.Errorf("%s was told of, and is not there", name)}
		}
	}
	for _, path := range copies {
		if _, err := checkShop(ctx, path, nil); err != nil {
			return fault{fmt.Errorf("%s: %w", filepath.Base(path), err)}
		}
	}
	return err
}

// happened counts what has happened to the pair of file and journal in the lives of a host.
func (r *recorded) happened() map[string]int {
	n, last := map[string]int{"opened": r.lives}, Call{}
	for _, e := range r.events {
		switch name := filepath.Base(e.To); {
		case e.told == closed:
			n["closed"]++
		case e.Kind == Sync && last.Kind == Write && filepath.Base(e.Path) == "shop.db" && last.Path == e.Path && last.Offset < 2*4096:
			n["checkpoint"]++
		case e.Kind == Rename && strings.HasSuffix(name, ".segment"):
			n["segment begun"]++
		case e.Kind == Rename && strings.HasSuffix(name, ".gone"):
			n["segment trimmed"]++
		case e.Kind == Remove && strings.HasSuffix(e.Path, ".gone"):
			n["segment or journal destroyed"]++
		case e.Kind == Rename && name == "shop.db.journal":
			n["journal made"]++
		}
		if last = e.Call; e.told != "" {
			h := heard{told: map[int]json.RawMessage{}}
			_ = h.note(e)
			n["somebody forgotten"] += len(h.forgotten())
		}
	}
	return n
}

// TestNoPowerCutLosesWhatWasTold cuts the power of a host at random, in any of its lives, and opens
// what may be left on its disk: everything that was told is there, nothing is damaged, and nothing
// is left of who was forgotten. While the host recovers, the power is cut again.
func TestNoPowerCutLosesWhatWasTold(t *testing.T) {
	Need(t)
	for _, worn := range []bool{false, true} {
		r := recordLives(t, worn, turbulent()...)
		for _, what := range []string{"opened", "closed", "checkpoint", "segment begun", "segment trimmed", "segment or journal destroyed", "journal made", "somebody forgotten"} {
			n := r.happened()[what]
			check.That(t, n >= 2, "%s: %d times", what, n)
		}
		images, seed := tries(6, 1000, 100_000), rand.Uint64()
		c := &cutting{random: rand.New(rand.NewPCG(seed, 1)), depth: 2}
		var wrong fault
		err := c.cut(t.Context(), r, testenv.TempDir(t), c.atRandom(r, images), func(f fault) bool { wrong = f; return false })
		check.Need(t, err == nil && wrong.error == nil, "worn: %v, seed %d: %v, %v", worn, seed, wrong, err)
		t.Logf("%d images of %d events, worn: %v; %v", c.images, len(r.events), worn, r.happened())
	}
}

// TestPowerCutsWithoutSyncingAreNoticed is a test of the test: a disk that says that it has synced,
// and has not, loses what was told, and that is noticed.
func TestPowerCutsWithoutSyncingAreNoticed(t *testing.T) {
	Need(t)
	r := recordLives(t, false, episode{memory: scarce})
	images, losses := tries(25, 50, 50), 0
	c := &cutting{random: rand.New(rand.NewPCG(1, 1)), lies: func(int) bool { return true }}
	err := c.cut(t.Context(), r, testenv.TempDir(t), c.atRandom(r, images), func(fault) bool { losses++; return true })
	check.Must(t, err)
	check.That(t, losses >= images/2, "%d of %d images without syncing are found to be damaged", losses, images)
	t.Logf("%d of %d", losses, images)
}

// forgetting is the call by which the first guest is forgotten.
const forgetting = 39

// secretsIn returns what a call writes to a journal of the first guest, in pieces: salts, names and
// responses. What a group says of the log around it is not among them.
func secretsIn(c *Call) (secrets [][]byte) {
	const frameHead, groupHead, piece = 16, 88, 16
	if c.Kind != Write || !inJournal(c.Path) || !bytes.Contains(c.Data, []byte(guestOf(forgetting))) {
		return nil
	}
	secrets = append(secrets, []byte(guestOf(forgetting)))
	for one := range slices.Chunk(c.Data[frameHead+groupHead:], piece) {
		if bytes.Count(one, []byte{0}) < piece/2 && len(one) == piece {
			secrets = append(secrets, one)
		}
	}
	return secrets
}

// secretsBeside returns an error if something of somebody is in any file beside a ledger's, but for
// copies.
func secretsBeside(path string, secrets [][]byte) error {
	return filepath.WalkDir(filepath.Dir(path), func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || at == path || !inJournal(at) {
			return err
		}
		text, err := os.ReadFile(at)
		if err == nil && containsAny(text, secrets) {
			err = fmt.Errorf("%s has something of who was forgotten", at)
		}
		return err
	})
}

// forgetAgain opens a shop after somebody was, or was not, forgotten, and has that done again.
func forgetAgain(ctx context.Context, path string, secrets [][]byte) error {
	s, err := openShop(path, truths, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer s.ledger.Close()
	if _, err := os.Stat(path + ".journal"); err == nil {
		return fmt.Errorf("the journal of a host that is gone is there")
	}
	for _, n := range []int{forgetting, forgetting + 2, forgetting} { // something else is written in between
		if _, err := s.tell(ctx, n); err != nil && !refused(err) {
			return fmt.Errorf("call %d: %w", n, err)
		}
		if err := secretsBeside(path, secrets); err != nil {
			return fmt.Errorf("after call %d: %w", n, err)
		}
	}
	return nil
}

// whileForgetting returns what tells of one call after the other whether it is made while somebody
// is forgotten: by Forget, or by a checkpoint that it waits for.
func whileForgetting() func(*Call) bool {
	begun := false
	return func(c *Call) bool {
		led := callers(c)
		begun = begun || led.has("ledger.(*Ledger).Forget")
		return begun && !led.has("ledger.(*Ledger).Close")
	}
}

// TestForgettingIsEndedAnywhere ends a host at each call within Forget, and makes each of these
// fail. When the ledger was opened again, and the request was repeated, nothing of the person is in
// any file of a journal.
func TestForgettingIsEndedAnywhere(t *testing.T) {
	Need(t)
	begin := testenv.TempDir(t)
	create(t, filepath.Join(begin, "shop.db"))
	for _, memory := range []int64{0, scarce} {
		l, calls, while := life{0, forgetting, 1, memory}, 0, whileForgetting()
		live(t, begin, nil, l, func(c *Call) bool {
			if while(c) {
				calls++
			}
			return false
		}, Proceed)
		stride, struck := testenv.Stride(16, 16), 0
		for _, verdict := range []Verdict{Kill, FailIO, FailFull} {
			for at := 1 + rand.IntN(stride); at <= calls; at += stride {
				var secrets [][]byte
				n, while := 0, whileForgetting()
				s := live(t, begin, nil, l, func(c *Call) bool {
					if secrets = append(secrets, secretsIn(c)...); while(c) {
						n++
					}
					return n == at
				}, verdict)
				if s.struck != nil {
					struck++
				}
				if err := forgetAgain(t.Context(), s.path, secrets); err != nil || len(secrets) < 10 {
					t.Fatalf("verdict %d at call %d of Forget, with %d secrets: %v", verdict, at, len(secrets), err)
				}
				forget(t, s.dir)
			}
		}
		if t.Logf("%d calls while somebody is forgotten; %d times one was struck", calls, struck); calls < 12 || struck < 4 {
			t.Error("these are too few")
		}
	}
}

// TestAPowerCutWhileForgetting cuts the power after each call within Forget. When the ledger was
// opened again, and the request was repeated, nothing of the person is in any file of a journal,
// nor in what was one.
func TestAPowerCutWhileForgetting(t *testing.T) {
	Need(t)
	for _, memory := range []int64{0, scarce} {
		r := recordLives(t, false, episode{calls: forgetting + 1, memory: memory})
		d := check.Value(r.before())(t)
		random, scratch, images := rand.New(rand.NewPCG(rand.Uint64(), 1)), testenv.TempDir(t), 0
		var secrets [][]byte
		while := whileForgetting()
		for i, e := range r.events {
			if e.told != "" {
				continue
			}
			secrets = append(secrets, secretsIn(&e.Call)...)
			check.Must(t, d.play(i, e, false))
			if !while(&e.Call) {
				continue
			}
			for range tries(1, 5, 200) {
				images++
				dir := filepath.Join(scratch, fmt.Sprint(images))
				nameless, err := d.image(random, dir)
				if err == nil {
					err = traces(dir, nameless, &heard{})
				}
				if err == nil {
					err = forgetAgain(t.Context(), filepath.Join(dir, "shop.db"), secrets)
				}
				if forget(t, dir); err != nil || len(secrets) < 10 {
					t.Fatalf("after event %d, %s of %s, with %d secrets: %v", i, e.Kind, e.Path, len(secrets), err)
				}
			}
		}
		if t.Logf("%d images", images); images < 12 {
			t.Error("these are too few")
		}
	}
}

// stack has the functions that led to a call, the innermost first, with lines.
type stack []string

// callers returns what led to a call, but for what only carries out what others ask for.
func callers(c *Call) (names stack) {
	carriers := []string{"syscall.", "unix.", "poll.", "os.", "bbolt.fdatasync", "journalfile.fdatasync", "journalfile.osFile.", "journalfile.(*directory)."}
	for frames := c.Callers(); ; {
		f, more := frames.Next()
		name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
		if len(names) > 0 || name != "" && !slices.ContainsFunc(carriers, func(one string) bool { return strings.HasPrefix(name, one) }) {
			names = append(names, fmt.Sprintf("%s:%d", name, f.Line))
		}
		if !more {
			return names
		}
	}
}

// has tells whether a function led to the call.
func (s stack) has(function string) bool {
	return slices.ContainsFunc(s, func(name string) bool { return strings.HasPrefix(name, function+":") })
}

// withoutLines returns a place without the numbers of lines.
func withoutLines(place string) string { return regexp.MustCompile(`:\d+`).ReplaceAllString(place, "") }

// place tells where in the code a call is asked for, and by which function. Places that come to the
// same are one.
func (s stack) place() string {
	if len(s) < 2 {
		return ""
	}
	if strings.HasPrefix(s[1], "ledgerfile.TrySyncDir:") && len(s) > 2 {
		s = append(stack{s[0]}, s[2:]...) // it flushes for many
	}
	by, _, _ := strings.Cut(s[1], ":")
	place := s[0] + " < " + by
	switch withoutLines(place) {
	// Each of these does what another has done, or will do before anything depends on it. One of
	// them must.
	case "ledgerfile.SyncDir < bolt.Open", "journalfile.(*Journal).takeOver < journalfile.(*Journal).Claim", "journalfile.destroyDir < journalfile.sweep":
		return "the directory, when the ledger is opened"
	}
	return place
}

// spared returns the places of flushes whose omission nobody can notice, and why they are there.
func spared() map[string]string {
	return map[string]string{
		"bbolt.(*DB).init < bbolt.Open":                          "bolt.open flushes the whole file behind it",
		"bolt.open < bolt.(*Store).createFilled":                 "it is for files that were there before",
		"bolt.open < bolt.openExisting":                          "a ledger commits before anything depends on what was there",
		"ledgerfile.SyncDir < bolt.(*Store).replace":             "it is to find out whether that works",
		"bolt.(*Store).copyPages < bolt.(*Store).copyPages-fm":   "a ledger opens its copy before it gets its name, which flushes it",
		"bolt.(*Store).createFilled < bolt.(*Store).copyRecords": "the same",
		"bolt.EraseUnused < ledger.(*Ledger).closeCopy":          "it destroys what was deleted in a copy: nothing that was told depends on it",
	}
}

// flushes returns the syncs of a record, by their places.
func (r *recorded) flushes() map[string][]int {
	found := map[string][]int{}
	for i := range r.events {
		if c := &r.events[i].Call; c.Kind == Sync {
			place := callers(c).place()
			found[place] = append(found[place], i)
		}
	}
	return found
}

// without cuts the power where some syncs are left out, some times, in the order of events.
func (c *cutting) without(t *testing.T, r *recorded, left []int, scratch string) (wrong error) {
	t.Helper()
	lies := map[int]bool{}
	for _, i := range left {
		lies[i] = true
	}
	c.lies = func(i int) bool { return lies[i] }
	var at []int
	for range 20 {
		from, to := 1+left[c.random.IntN(len(left))], len(r.events)
		if c.random.IntN(3) > 0 {
			to = min(to, from+1<<c.random.IntN(6))
		}
		at = append(at, from+c.random.IntN(to-from+1))
	}
	check.Must(t, c.cut(t.Context(), r, scratch, at, func(f fault) bool { wrong = f; return false }))
	return wrong
}

// fallen is a host that compacts its file, and makes checkpoints after that; later it is killed
// when it is about to flush something from some place, on behalf of some function. Then it opens
// its shop and closes it again, and then makes more calls.
func fallen(t *testing.T, place, behalf string) *recorded {
	t.Helper()
	kill := func(c *Call) bool {
		s := callers(c)
		return c.Kind == Sync && strings.HasPrefix(s.place(), place) && s.has(behalf)
	}
	r := recordLives(t, false, episode{calls: 38, memory: scarce}, episode{calls: 10, memory: scarce, kill: kill}, episode{calls: -1}, episode{calls: 5})
	n := r.happened()["closed"]
	check.Need(t, n == 3, "it closed its shop %d times, and so was not killed at %s for %s", n, place, behalf)
	return r
}

// TestEachFlushIsNeeded is a test of the test, and of the code: a disk that does not do what is
// flushed from some place in the code loses something of what was told, or keeps something of what
// was destroyed. That is noticed, for each place.
func TestEachFlushIsNeeded(t *testing.T) {
	Need(t)
	records := []*recorded{
		recordLives(t, false, turbulent()...),
		fallen(t, "bbolt.(*Tx).writeMeta", "engine.(*Engine).endJournal"),
		fallen(t, "journalfile.destroyDir", "engine.(*Engine).endJournal"),
		fallen(t, "journalfile.shredAll", "journalfile.(*Journal).Trim"),
	}
	places, flushes := map[string]bool{}, make([]map[string][]int, len(records))
	for i, r := range records {
		flushes[i] = r.flushes()
		for place := range flushes[i] {
			places[place] = true
		}
	}
	var all []string
	unseen := spared()
	for _, place := range slices.Sorted(maps.Keys(places)) {
		if spared()[withoutLines(place)] == "" {
			all = append(all, place)
		}
		delete(unseen, withoutLines(place))
	}
	check.Need(t, len(all) >= 16 && len(unseen) <= 0, "flushes only at %q; none at %q", all, unseen)
	seed, step := rand.Uint64(), testenv.Stride(8, 8)
	for i := rand.IntN(step); i < len(all); i += step {
		place := all[i]
		t.Run(place, func(t *testing.T) {
			c, scratch := &cutting{random: rand.New(rand.NewPCG(seed, 1))}, testenv.TempDir(t)
			for range 20 {
				for i, r := range records {
					if left := flushes[i][place]; left == nil {
						continue
					} else if err := c.without(t, r, left, scratch); err != nil {
						t.Logf("image %d: %.300v", c.images, err)
						return
					}
				}
			}
			t.Errorf("nobody notices in %d images that it is left out; seed %d", c.images, seed)
		})
	}
}
