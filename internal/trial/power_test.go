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

// The model of a disk that loses power: it keeps what was synced. Of later writes it may keep any
// part, in any order, in any file, and any sectors of a write that is in progress. A sync of the
// content alone does not make a new length durable. Changes of names in a directory are kept in
// order, as in the journals of file systems: an unsynced suffix of them may be lost, independently
// in each directory. The bytes of files that no longer have a name are still on the disk.

// record is everything that a process did to the files in a directory, and printed, in order.
type record struct {
	dir     string
	events  []event
	pending map[*Call]int // the calls that have begun, with the number of events before each
	kill    func(*Call) bool
}

// event is a call that was executed, or a line that the host printed.
type event struct {
	Call
	// after is the number of events before the call began. A sync makes those durable, and no
	// others.
	after   int
	printed string
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
		r.events = append(r.events, event{printed: string(c.Data)})
	case within(r.dir, c.Path):
		r.events = append(r.events, event{Call: *c, after: after})
	}
}

func within(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// disk is the state of a disk after a part of a record.
type disk struct {
	dir  string // the path of the root
	root *node
	all  []*node
}

// node is a file, with any number of names, or a directory.
type node struct {
	made    string // the name under which it was created
	removed bool   // by a process; may be lost
	synced  []byte
	since   []change // changes that were not synced, in order

	isDir  bool
	names  map[string]*node // as processes see them
	kept   map[string]*node // as they are durable
	naming []naming         // later changes of names, in order
}

// change is a write or a new length that was not synced.
type change struct {
	kind   Kind
	offset int64
	data   []byte
	at     int // the number of the event
}

// naming is a change of the names in a directory that was not synced.
type naming struct {
	at   int // the number of the event
	make func(names map[string]*node)
}

// newDisk returns a disk with the files of a directory, under the path of another directory.
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
	if !n.isDir {
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

func (d *disk) add(path string, isDir bool) *node {
	n := &node{made: path, isDir: isDir}
	if isDir {
		n.names, n.kept = map[string]*node{}, map[string]*node{}
	}
	d.all = append(d.all, n)
	return n
}

// at returns the node of a path, or nil.
func (d *disk) at(path string) *node {
	n := d.root
	for _, name := range strings.Split(strings.TrimPrefix(path, d.dir), "/")[1:] {
		if n != nil {
			n = n.names[name]
		}
	}
	return n
}

// play applies an event. With isLost, a sync has no effect although it was reported as done.
func (d *disk) play(number int, e event, isLost bool) error {
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
		return fmt.Errorf("event %d: %s of %s, which does not exist", number, e.Kind, e.Path)
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
		if !isLost {
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

// sync makes the changes before an event durable: of a file, its content and, unless content is
// set, its length; of a directory, its names.
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

// apply applies a part of a change.
func (c change) apply(content []byte, from, to int64) []byte {
	length := c.offset // the new length, for other kinds than Write
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

// Files are in memory ([testenv.TempDir]). What a process has written survives its end, synced or
// not. What a disk keeps when its power is cut is computed from a record.

// removeDir removes a directory before its test ends, because memory is smaller than a disk.
func removeDir(t *testing.T, dir string) {
	t.Helper()
	check.OK(t, os.RemoveAll(dir))
}

// grains are the sizes of what a disk writes as a whole: a sector, a page, a whole write.
func grains() []int64 { return []int64{512, 4096, 1 << 40} }

// image writes to a directory what may be left after a power cut: durable names and some later
// ones, synced bytes and some later ones. It returns what may be left of files that have no name.
func (d *disk) image(random *rand.Rand, to string) (nameless map[*node][]byte, err error) {
	i := &imageBuilder{random: random, grain: grains()[random.IntN(3)], chance: []float64{0, 0.1, 0.5, 0.9, 1}[random.IntN(5)], named: map[*node][]byte{}}
	if err := i.writeDir(d.root, to); err != nil {
		return nil, err
	}
	nameless = map[*node][]byte{}
	for _, n := range d.all {
		if i.named[n] == nil && !n.isDir {
			nameless[n] = i.left(n)
		}
	}
	return nameless, nil
}

// imageBuilder builds an image.
type imageBuilder struct {
	random *rand.Rand
	grain  int64
	chance float64          // the probability that a part of a change is left
	named  map[*node][]byte // the files that have a name in the image, with their content
}

func (i *imageBuilder) writeDir(n *node, at string) error {
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	left := maps.Clone(n.kept)
	for _, one := range n.naming[:i.random.IntN(len(n.naming)+1)] {
		one.make(left)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		inside, path := left[name], filepath.Join(at, name)
		if inside.isDir {
			if err := i.writeDir(inside, path); err != nil {
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

// left returns what may be left of a file: each unsynced part is left with a fixed probability.
func (i *imageBuilder) left(n *node) []byte {
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

// recorded is a host in several lives, with the disk before them.
type recorded struct {
	*record
	before  func() (*disk, error)
	earlier reports                 // what the host had reported before
	all     map[int]json.RawMessage // all replies, of these lives and before
	lives   int
}

// episode is a recorded life of a host.
type episode struct {
	calls  int // the number of calls before the host closes its shop; 0 for the rest of the script, -1 for none
	memory int64
	kill   func(*Call) bool // the host is killed at the first call for which kill is true; nil for none
}

// after returns a function that is true for the n-th call.
func after(n int) func(*Call) bool {
	return func(*Call) bool { n--; return n == 0 }
}

// manyLives returns the lives of a host that closes and opens its shop and is killed, also during
// recovery. In most lives it has so little memory that a checkpoint follows every few calls.
func manyLives() []episode {
	return []episode{
		{calls: 20 + rand.IntN(10), memory: smallMemory},
		{memory: smallMemory, kill: after(80 + rand.IntN(200))},
		{calls: 15 + rand.IntN(10)},
		{kill: after(40 + rand.IntN(100))},
		{memory: smallMemory, kill: after(10 + rand.IntN(50))},
		{memory: smallMemory, kill: after(10 + rand.IntN(50))},
		{memory: smallMemory},
	}
}

// recordLives runs a host through the script in several lives. A life sees what earlier lives
// wrote, synced or not. The file is a new one, or a worn one.
func recordLives(t *testing.T, worn bool, lives ...episode) *recorded {
	t.Helper()
	dir, before := testenv.TempDir(t), testenv.TempDir(t)
	path, blank := filepath.Join(dir, "shop.db"), filepath.Join(before, "shop.db")
	if create(t, blank); worn {
		addFreePages(t, blank)
	}
	check.Must(t, os.CopyFS(dir, os.DirFS(before)))
	r := &recorded{record: newRecord(dir), all: map[int]json.RawMessage{}}
	r.before = func() (*disk, error) { return newDisk(before, dir) }
	for _, one := range lives {
		check.Must(t, r.runHost(t.Context(), path, one))
	}
	return r
}

// runHost records one more life.
func (r *recorded) runHost(ctx context.Context, path string, one episode) error {
	next := 0
	for n := range r.all {
		next = max(next, n+1)
	}
	l := life{next, scriptCalls - 1, 1, one.memory}
	if one.calls != 0 {
		l.last = min(l.last, next+max(one.calls, 0)-1)
	}
	var stderr bytes.Buffer
	cmd := hostCommand(ctx, path, l)
	cmd.Stderr = &stderr
	from := len(r.events)
	r.lives, r.kill = r.lives+1, one.kill
	status, err := Run(cmd, r.record)
	if killed := one.kill != nil && status.Signaled(); err != nil || stderr.Len() > 0 || !killed && status.ExitStatus() != 0 {
		return fmt.Errorf("the host ended with %v, %w, %s", status, err, stderr.String())
	}
	h := reports{replies: r.all}
	for _, e := range r.events[from:] {
		if err := h.add(e); err != nil {
			return err
		}
	}
	return nil
}

// reports is what a host has reported.
type reports struct {
	replies map[int]json.RawMessage
	copies  []string // the copies that it has made
	closed  bool     // it has closed its shop, and done nothing since
}

// add adds an event.
func (h *reports) add(e event) error {
	if h.closed = e.printed == closed; h.closed || e.printed == "" {
		return nil
	}
	if name, is := strings.CutPrefix(e.printed, copying); is {
		h.copies = append(h.copies, strings.TrimSuffix(name, "\n"))
		return nil
	}
	var one reply
	if err := json.Unmarshal([]byte(e.printed), &one); err != nil {
		return fmt.Errorf("the host prints %q, which is not a reply: %w", e.printed, err)
	}
	h.replies[one.N] = one.Result
	return nil
}

// forgotten returns the names of the forgotten guests.
func (h *reports) forgotten() (names [][]byte) {
	for n := range h.replies {
		if isForget(n) {
			names = append(names, []byte(guestOf(n)))
		}
	}
	return names
}

// cutting is how the power of a recorded host is cut.
type cutting struct {
	random *rand.Rand
	isLost func(event int) bool // the syncs that have no effect; nil for none
	depth  int                  // how many times the power may be cut again during recovery
	images int                  // checked so far
}

// atRandom returns random numbers of events, one for each image.
func (c *cutting) atRandom(r *recorded, images int) (at []int) {
	for range images {
		at = append(at, 1+c.random.IntN(len(r.events)))
	}
	return at
}

// fault is an error of the ledger. Any other error is a failure of the test itself.
type fault struct{ error }

func (f fault) Unwrap() error { return f.error }

// cut builds and checks an image after each of the given numbers of events. It stops at a fault if
// found returns false.
func (c *cutting) cut(ctx context.Context, r *recorded, scratch string, at []int, found func(fault) (isContinued bool)) error {
	slices.Sort(at)
	d, err := r.before()
	if err != nil {
		return err
	}
	h, played := reports{replies: maps.Clone(r.earlier.replies)}, 0
	if h.replies == nil {
		h.replies = map[int]json.RawMessage{}
	}
	for i, n := range at {
		for ; played < n; played++ {
			e := r.events[played]
			if err := h.add(e); err != nil {
				return err
			}
			if e.printed != "" {
				continue
			}
			if err := d.play(played, e, c.isLost != nil && c.isLost(played)); err != nil {
				return err
			}
		}
		c.images++
		err := c.checkImage(ctx, r, d, &h, filepath.Join(scratch, fmt.Sprint(i)))
		var wrong fault
		if errors.As(err, &wrong) {
			err = nil
			if !found(fault{fmt.Errorf("after event %d of %d, with %d replies: %w", n, len(r.events), len(h.replies), wrong.error)}) {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkImage builds an image and checks it.
func (c *cutting) checkImage(ctx context.Context, r *recorded, d *disk, h *reports, dir string) (err error) {
	nameless, err := d.image(c.random, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := checkErased(dir, nameless, h); err != nil {
		return err
	}
	next := -1 // the call that may have been in progress
	for n := range r.all {
		if h.replies[n] == nil && (next < 0 || n < next) {
			next = n
		}
	}
	others := []int{}
	if next >= 0 {
		others = append(others, next)
	}
	path := filepath.Join(dir, "shop.db")
	if c.depth > 0 && c.random.IntN(8) == 0 {
		if err := c.cutDuringRecovery(ctx, r, h, path); err != nil {
			return err
		}
	}
	if _, err := checkShop(ctx, path, h.replies, others...); err != nil {
		return fault{err}
	}
	return checkCopies(ctx, dir, h.copies)
}

// cutDuringRecovery lets a host recover, and cuts the power during the recovery.
func (c *cutting) cutDuringRecovery(ctx context.Context, r *recorded, h *reports, path string) error {
	dir := filepath.Dir(path)
	d, err := newDisk(dir, dir)
	if err != nil {
		return err
	}
	next := &recorded{record: newRecord(dir), all: maps.Clone(r.all), earlier: *h}
	next.before = func() (*disk, error) { return d, nil }
	cmd := hostCommand(ctx, path, life{first: 0, last: -1, workers: 1})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if status, err := Run(cmd, next.record); err != nil {
		return err
	} else if status.ExitStatus() != 0 {
		return fault{fmt.Errorf("recovery after a power cut: the host ended with %v, %s", status, stderr.String())}
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

// checkErased checks the files before the ledger is opened. No journal file, with or without a
// name, contains the name of a forgotten guest. After the shop was closed, there is no journal.
func checkErased(dir string, nameless map[*node][]byte, h *reports) error {
	names := h.forgotten()
	for n, text := range nameless {
		if inJournal(n.made) && (n.removed && !allZero(text) || containsAny(text, names)) {
			return fault{fmt.Errorf("%s was removed, and its bytes are still on the disk", n.made)}
		}
	}
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !inJournal(path) {
			return err
		}
		if h.closed {
			return fault{fmt.Errorf("the shop was closed, and %s still exists", path)}
		}
		if entry.IsDir() || len(names) == 0 {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && containsAny(text, names) {
			err = fault{fmt.Errorf("%s still has data of a forgotten guest", path)}
		}
		return err
	})
}

func allZero(text []byte) bool { return len(bytes.Trim(text, "\x00")) == 0 }

// inJournal returns whether a path belongs to a journal.
func inJournal(path string) bool { return strings.Contains(path, "shop.db.journal") }

func containsAny(text []byte, any [][]byte) bool {
	return slices.ContainsFunc(any, func(one []byte) bool { return bytes.Contains(text, one) })
}

// checkCopies checks that each copy that the host reported exists, and that each copy is complete.
func checkCopies(ctx context.Context, dir string, reported []string) error {
	copies, err := filepath.Glob(filepath.Join(dir, "shop.db.[0-9]*"))
	for _, name := range reported {
		if path := filepath.Join(dir, name); !slices.Contains(copies, path) {
			return fault{fmt.Errorf("the host reported the copy %s, which does not exist", name)}
		}
	}
	for _, path := range copies {
		if _, err := checkShop(ctx, path, nil); err != nil {
			return fault{fmt.Errorf("%s: %w", filepath.Base(path), err)}
		}
	}
	return err
}

// countEvents counts what happened to the file and the journal in the lives of a host.
func (r *recorded) countEvents() map[string]int {
	n, last := map[string]int{"opened": r.lives}, Call{}
	for _, e := range r.events {
		switch name := filepath.Base(e.To); {
		case e.printed == closed:
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
		if last = e.Call; e.printed != "" {
			h := reports{replies: map[int]json.RawMessage{}}
			_ = h.add(e)
			n["guest forgotten"] += len(h.forgotten())
		}
	}
	return n
}

// The power of a host is cut at random, in any of its lives, and what may be left on the disk is
// opened. Every reply is there, nothing is damaged, and nothing of a forgotten guest is left.
// During the recovery, the power is cut again.
func TestHost_PowerCut_LosesNoReply(t *testing.T) {
	Need(t)
	for _, worn := range []bool{false, true} {
		r := recordLives(t, worn, manyLives()...)
		for _, what := range []string{"opened", "closed", "checkpoint", "segment begun", "segment trimmed", "segment or journal destroyed", "journal made", "guest forgotten"} {
			n := r.countEvents()[what]
			check.That(t, n >= 2, "%s: %d times", what, n)
		}
		images, seed := tries(6, 1000, 100_000), rand.Uint64()
		c := &cutting{random: rand.New(rand.NewPCG(seed, 1)), depth: 2}
		var wrong fault
		err := c.cut(t.Context(), r, testenv.TempDir(t), c.atRandom(r, images), func(f fault) bool { wrong = f; return false })
		check.Need(t, err == nil && wrong.error == nil, "worn: %v, seed %d: %v, %v", worn, seed, wrong, err)
		t.Logf("%d images of %d events, worn: %v; %v", c.images, len(r.events), worn, r.countEvents())
	}
}

// A test of the test: if syncs have no effect, replies are lost, and the checks find that.
func TestPowerCut_SyncsHaveNoEffect_IsDetected(t *testing.T) {
	Need(t)
	r := recordLives(t, false, episode{memory: smallMemory})
	images, losses := tries(25, 50, 50), 0
	c := &cutting{random: rand.New(rand.NewPCG(1, 1)), isLost: func(int) bool { return true }}
	err := c.cut(t.Context(), r, testenv.TempDir(t), c.atRandom(r, images), func(fault) bool { losses++; return true })
	check.Must(t, err)
	check.That(t, losses >= images/2, "%d of %d images without syncs are found to be damaged", losses, images)
	t.Logf("%d of %d", losses, images)
}

// forgetCall is the number of the call that forgets the first guest.
const forgetCall = 39

// secretsIn returns what a call writes to a journal about the first guest, in pieces: salts, names
// and responses. It omits the header of the group.
func secretsIn(c *Call) (secrets [][]byte) {
	const frameHead, groupHead, piece = 16, 88, 16
	if c.Kind != Write || !inJournal(c.Path) || !bytes.Contains(c.Data, []byte(guestOf(forgetCall))) {
		return nil
	}
	secrets = append(secrets, []byte(guestOf(forgetCall)))
	for one := range slices.Chunk(c.Data[frameHead+groupHead:], piece) {
		if bytes.Count(one, []byte{0}) < piece/2 && len(one) == piece {
			secrets = append(secrets, one)
		}
	}
	return secrets
}

// checkNoSecrets returns an error if a journal of the ledger contains one of the secrets.
func checkNoSecrets(path string, secrets [][]byte) error {
	return filepath.WalkDir(filepath.Dir(path), func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || at == path || !inJournal(at) {
			return err
		}
		text, err := os.ReadFile(at)
		if err == nil && containsAny(text, secrets) {
			err = fmt.Errorf("%s still has data of a forgotten guest", at)
		}
		return err
	})
}

// forgetAgain opens a shop after Forget was interrupted, and calls Forget again.
func forgetAgain(ctx context.Context, path string, secrets [][]byte) error {
	s, err := openShop(path, truths, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer s.ledger.Close()
	if _, err := os.Stat(path + ".journal"); err == nil {
		return fmt.Errorf("open: the journal of the killed host still exists")
	}
	for _, n := range []int{forgetCall, forgetCall + 2, forgetCall} { // another call in between
		if _, err := s.makeCall(ctx, n); err != nil && !refused(err) {
			return fmt.Errorf("call %d: %w", n, err)
		}
		if err := checkNoSecrets(path, secrets); err != nil {
			return fmt.Errorf("after call %d: %w", n, err)
		}
	}
	return nil
}

// duringForget returns a function for successive calls. It returns whether a call is made by
// Forget, or by a checkpoint that Forget waits for.
func duringForget() func(*Call) bool {
	begun := false
	return func(c *Call) bool {
		led := callers(c)
		begun = begun || led.has("ledger.(*Ledger).Forget")
		return begun && !led.has("ledger.(*Ledger).Close")
	}
}

// A host is killed at each call within Forget, and each of these calls fails. After the ledger is
// opened and Forget is called again, no file of a journal has data of the guest.
func TestForget_KilledOrFailsAtEachCall_RetryErasesAll(t *testing.T) {
	Need(t)
	begin := testenv.TempDir(t)
	create(t, filepath.Join(begin, "shop.db"))
	for _, memory := range []int64{0, smallMemory} {
		l, calls, while := life{0, forgetCall, 1, memory}, 0, duringForget()
		runHost(t, begin, nil, l, func(c *Call) bool {
			if while(c) {
				calls++
			}
			return false
		}, Proceed)
		stride, faulted := testenv.Stride(16, 16), 0
		for _, verdict := range []Verdict{Kill, FailIO, FailFull} {
			for at := 1 + rand.IntN(stride); at <= calls; at += stride {
				var secrets [][]byte
				n, while := 0, duringForget()
				s := runHost(t, begin, nil, l, func(c *Call) bool {
					if secrets = append(secrets, secretsIn(c)...); while(c) {
						n++
					}
					return n == at
				}, verdict)
				if s.faulted != nil {
					faulted++
				}
				if err := forgetAgain(t.Context(), s.path, secrets); err != nil || len(secrets) < 10 {
					t.Fatalf("verdict %d at call %d of Forget, with %d secrets: %v", verdict, at, len(secrets), err)
				}
				removeDir(t, s.dir)
			}
		}
		if t.Logf("%d calls during Forget; %d of them were hit", calls, faulted); calls < 12 || faulted < 4 {
			t.Error("want at least 12 calls during Forget, and 4 hits")
		}
	}
}

// The power is cut after each call within Forget. After the ledger is opened and Forget is called
// again, no file of a journal, present or removed, has data of the guest.
func TestForget_PowerCutAtEachCall_RetryErasesAll(t *testing.T) {
	Need(t)
	for _, memory := range []int64{0, smallMemory} {
		r := recordLives(t, false, episode{calls: forgetCall + 1, memory: memory})
		d := check.Value(r.before())(t)
		random, scratch, images := rand.New(rand.NewPCG(rand.Uint64(), 1)), testenv.TempDir(t), 0
		var secrets [][]byte
		while := duringForget()
		for i, e := range r.events {
			if e.printed != "" {
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
					err = checkErased(dir, nameless, &reports{})
				}
				if err == nil {
					err = forgetAgain(t.Context(), filepath.Join(dir, "shop.db"), secrets)
				}
				if removeDir(t, dir); err != nil || len(secrets) < 10 {
					t.Fatalf("after event %d, %s of %s, with %d secrets: %v", i, e.Kind, e.Path, len(secrets), err)
				}
			}
		}
		if t.Logf("%d images", images); images < 12 {
			t.Error("want at least 12 images")
		}
	}
}

// stack lists the functions on the stack of a call, the innermost first, with line numbers.
type stack []string

// callers returns the stack of a call, without innermost functions that only pass the call on.
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

// has returns whether a function is on the stack.
func (s stack) has(function string) bool {
	return slices.ContainsFunc(s, func(name string) bool { return strings.HasPrefix(name, function+":") })
}

// withoutLines returns a place without line numbers.
func withoutLines(place string) string { return regexp.MustCompile(`:\d+`).ReplaceAllString(place, "") }

// place returns the innermost function and line, and the function that calls it. Places with the
// same effect are one.
func (s stack) place() string {
	if len(s) < 2 {
		return ""
	}
	if strings.HasPrefix(s[1], "ledgerfile.TrySyncDir:") && len(s) > 2 {
		s = append(stack{s[0]}, s[2:]...) // TrySyncDir has many callers
	}
	by, _, _ := strings.Cut(s[1], ":")
	place := s[0] + " < " + by
	switch withoutLines(place) {
	// Each of these repeats what another has done, or will do before anything depends on it. One of
	// them is needed.
	case "ledgerfile.SyncDir < bolt.Open", "journalfile.(*Journal).takeOver < journalfile.(*Journal).Claim", "journalfile.destroyDir < journalfile.sweep":
		return "the directory, when the ledger is opened"
	}
	return place
}

// redundantSyncs returns the places of syncs that no test can find missing, each with the reason
// why it is there.
func redundantSyncs() map[string]string {
	return map[string]string{
		"bbolt.(*DB).init < bbolt.Open":                          "bolt.open syncs the whole file after it",
		"bolt.open < bolt.(*Store).createFilled":                 "only for files that existed before",
		"bolt.open < bolt.openExisting":                          "the ledger commits before anything depends on the old content",
		"ledgerfile.SyncDir < bolt.(*Store).replace":             "only tests whether a sync of the directory works",
		"bolt.(*Store).copyPages < bolt.(*Store).copyPages-fm":   "the ledger opens a copy, which syncs it, before it renames it",
		"bolt.(*Store).createFilled < bolt.(*Store).copyRecords": "the ledger opens a copy, which syncs it, before it renames it",
		"bolt.EraseUnused < ledger.(*Ledger).closeCopy":          "erases deleted data in a copy: no reply depends on it",
	}
}

// flushes returns the syncs of a record, grouped by place.
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

// cutIgnoringSyncs cuts the power some times after the given syncs had no effect, in the order of
// events.
func (c *cutting) cutIgnoringSyncs(t *testing.T, r *recorded, left []int, scratch string) (wrong error) {
	t.Helper()
	isLost := map[int]bool{}
	for _, i := range left {
		isLost[i] = true
	}
	c.isLost = func(i int) bool { return isLost[i] }
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

// recordKilledAtSync records a host that compacts its file and makes checkpoints after that. Then
// it is killed just before a sync at a place, called by a function. Then it opens and closes its
// shop, and makes more calls.
func recordKilledAtSync(t *testing.T, place, behalf string) *recorded {
	t.Helper()
	kill := func(c *Call) bool {
		s := callers(c)
		return c.Kind == Sync && strings.HasPrefix(s.place(), place) && s.has(behalf)
	}
	r := recordLives(t, false, episode{calls: 38, memory: smallMemory}, episode{calls: 10, memory: smallMemory, kill: kill}, episode{calls: -1}, episode{calls: 5})
	n := r.countEvents()["closed"]
	check.Need(t, n == 3, "the host closed its shop %d times, want 3: it was not killed at %s for %s", n, place, behalf)
	return r
}

// A test of the test, and of the code: if the syncs at one place of the code have no effect,
// replies are lost or erased data stays, and the checks find that. This holds for each place.
func TestSync_WithoutEffectAtEachPlace_IsDetected(t *testing.T) {
	Need(t)
	records := []*recorded{
		recordLives(t, false, manyLives()...),
		recordKilledAtSync(t, "bbolt.(*Tx).writeMeta", "engine.(*Engine).endJournal"),
		recordKilledAtSync(t, "journalfile.destroyDir", "engine.(*Engine).endJournal"),
		recordKilledAtSync(t, "journalfile.shredAll", "journalfile.(*Journal).Trim"),
	}
	places, flushes := map[string]bool{}, make([]map[string][]int, len(records))
	for i, r := range records {
		flushes[i] = r.flushes()
		for place := range flushes[i] {
			places[place] = true
		}
	}
	var all []string
	unseen := redundantSyncs()
	for _, place := range slices.Sorted(maps.Keys(places)) {
		if redundantSyncs()[withoutLines(place)] == "" {
			all = append(all, place)
		}
		delete(unseen, withoutLines(place))
	}
	check.Need(t, len(all) >= 16 && len(unseen) <= 0, "want 16 places of syncs, got %q; no sync at %q, which redundantSyncs lists", all, unseen)
	seed, step := rand.Uint64(), testenv.Stride(8, 8)
	for i := rand.IntN(step); i < len(all); i += step {
		place := all[i]
		t.Run(place, func(t *testing.T) {
			c, scratch := &cutting{random: rand.New(rand.NewPCG(seed, 1))}, testenv.TempDir(t)
			for range 20 {
				for i, r := range records {
					if left := flushes[i][place]; left == nil {
						continue
					} else if err := c.cutIgnoringSyncs(t, r, left, scratch); err != nil {
						t.Logf("image %d: %.300v", c.images, err)
						return
					}
				}
			}
			t.Errorf("no check of %d images finds that the syncs at this place had no effect; seed %d", c.images, seed)
		})
	}
}
