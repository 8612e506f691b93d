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
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pace"
)

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

// turbulent is a host that closes its shop and opens it again, and is killed, also while it recovers from that. Mostly it has so little memory
// that it makes a checkpoint for each few calls.
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

// recordLives lets a host make the calls of the script, in several lives. What it wrote before shows in its next life, whether or not it
// was synced. Its file is a new one, or worn.
func recordLives(t *testing.T, worn bool, lives ...episode) *recorded {
	t.Helper()
	dir, before := pace.Scratch(t), pace.Scratch(t)
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

// cut builds images of what may be left after some numbers of events, and looks at each of them. It stops at the first fault, unless
// told of it.
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

// traces looks for what should not be there before the ledger is opened: anything about those who are forgotten in what a
// journal has or had, under whatever name or none; and any journal once the shop is closed.
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

// lookAtCopies checks the copies that the host has made: one that has its name is whole, and one that was told of is there.
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

// TestNoPowerCutLosesWhatWasTold cuts the power of a host at random, in any of its lives, and opens what may be left on its disk: everything that
// was told is there, nothing is damaged, and nothing is left of who was forgotten. While the host recovers, the power is cut again.
func TestNoPowerCutLosesWhatWasTold(t *testing.T) {
	Need(t)
	for _, worn := range []bool{false, true} {
		r := recordLives(t, worn, turbulent()...)
		for _, what := range []string{"opened", "closed", "checkpoint", "segment begun", "segment trimmed", "segment or journal destroyed", "journal made", "somebody forgotten"} {
			if n := r.happened()[what]; n < 2 {
				t.Errorf("%s: %d times", what, n)
			}
		}
		images, seed := tries(6, 1000, 100_000), rand.Uint64()
		c := &cutting{random: rand.New(rand.NewPCG(seed, 1)), depth: 2}
		var wrong fault
		err := c.cut(t.Context(), r, pace.Scratch(t), c.atRandom(r, images), func(f fault) bool { wrong = f; return false })
		check.Need(t, err == nil && wrong.error == nil, "worn: %v, seed %d: %v, %v", worn, seed, wrong, err)
		t.Logf("%d images of %d events, worn: %v; %v", c.images, len(r.events), worn, r.happened())
	}
}

// TestPowerCutsWithoutSyncingAreNoticed is a test of the test: a disk that says that it has synced, and has not, loses
// what was told, and that is noticed.
func TestPowerCutsWithoutSyncingAreNoticed(t *testing.T) {
	Need(t)
	r := recordLives(t, false, episode{memory: scarce})
	images, losses := tries(25, 50, 50), 0
	c := &cutting{random: rand.New(rand.NewPCG(1, 1)), lies: func(int) bool { return true }}
	err := c.cut(t.Context(), r, pace.Scratch(t), c.atRandom(r, images), func(fault) bool { losses++; return true })
	check.Must(t, err)
	check.That(t, losses >= images/2, "%d of %d images without syncing are found to be damaged", losses, images)
	t.Logf("%d of %d", losses, images)
}
