package journalfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
)

// small lets a few groups fill a segment, and a group have many frames.
var small = sizes{segment: 4096, step: 2048, content: 600}

const place = "/shop/panel.db.journal"

// What a host does with a journal.
type deed struct {
	what string // create, append, trim, reopen, remove
	size int    // of the record that is appended
	cut  bool
	keep int // groups that trim leaves
}

// script is a life of a journal in which everything happens.
func script() []deed {
	return []deed{
		{what: "create"}, {what: "append", size: 20}, {what: "append", size: 700}, {what: "append", size: 1900}, {what: "append", size: 0},
		{what: "append", size: 3000}, {what: "append", size: 100, cut: true}, {what: "append", size: 50},
		{what: "trim", keep: 2},                              // where a segment begins
		{what: "append", size: 300}, {what: "trim", keep: 1}, // within the last
		{what: "append", size: 2500}, {what: "append", size: 2500}, // a new one
		{what: "append", size: 90}, {what: "append", size: 95}, {what: "append", size: 40, cut: true}, {what: "append", size: 80},
		{what: "trim", keep: 3}, // within one before the last
		{what: "reopen"}, {what: "reopen"}, {what: "append", size: 10}, {what: "append", size: 9}, {what: "reopen"},
		{what: "trim", keep: 0}, {what: "append", size: 60}, {what: "trim", keep: 0}, {what: "reopen"}, {what: "append", size: 5000},
		{what: "remove"},
	}
}

// host is a host with its journal, and what it was told.
type host struct {
	s        *sim
	j        *Journal
	log      journaltest.Log
	phase    string // "", create, alive, remove, removed
	term     uint64
	begin    journal.Position
	groups   []journal.Group
	appended *journal.Group    // that may or may not be there
	trimming *journal.Position // to here
	records  int
	gone     map[int]bool // records that were trimmed

	removedForGood bool
}

func newHost() *host { return &host{s: newSim(), gone: map[int]bool{}} }

// on is the same host on another disk.
func (h *host) on(s *sim) *host {
	other := *h
	other.s, other.j, other.log, other.groups, other.gone = s, nil, h.log.Clone(), slices.Clone(h.groups), maps.Clone(h.gone)
	return &other
}

// do takes a step.
func (h *host) do(a deed) error {
	switch a.what {
	case "create":
		return h.create()
	case "append":
		return h.append(a.size, a.cut)
	case "trim":
		through := h.log.End()
		if a.keep > 0 {
			through = h.groups[len(h.groups)-a.keep].Before
		}
		return h.trim(through)
	case "reopen":
		if err := h.j.Close(); err != nil {
			return err
		}
		return h.recover()
	}
	h.phase = "remove"
	return h.remove()
}

func (h *host) create() (err error) {
	h.phase, h.begin = "create", h.log.End()
	if h.j, err = create(h.s, small, place, shop, h.begin); err != nil {
		return err
	}
	h.phase = "alive"
	return h.claim()
}

func (h *host) append(size int, cut bool) error {
	h.records++
	mark := fmt.Appendf(nil, "secret%06d;", h.records)
	g := h.log.Group(h.term, bytes.Repeat(mark, size/len(mark)+1), mark)
	g.Cut = cut
	h.appended = &g
	if err := h.j.Append(noLimit, g); err != nil {
		return err
	}
	h.settle(true)
	return nil
}

// settle learns whether the group is there.
func (h *host) settle(there bool) {
	if g := h.appended; g != nil && there {
		h.groups = append(h.groups, *g)
	} else if g != nil {
		h.log.Undo(len(g.Records))
	}
	h.appended = nil
}

func (h *host) trim(through journal.Position) error {
	h.trimming = &through
	if err := h.j.Trim(noLimit, through); err != nil {
		return err
	}
	h.trimming, h.begin = nil, through
	for len(h.groups) > 0 && h.groups[0].After.Events <= through.Events {
		h.gone[number(h.groups[0].Records[1])] = true
		h.groups = h.groups[1:]
	}
	return nil
}

func (h *host) remove() error {
	if err := h.j.Remove(); err != nil {
		return err
	}
	h.removed(true)
	return nil
}

func (h *host) removed(forGood bool) {
	h.phase, h.removedForGood = "removed", forGood
	for n := range h.records {
		h.gone[n+1] = true
	}
}

func (h *host) claim() error {
	term, end, err := h.j.Claim(noLimit)
	if err != nil {
		return err
	}
	if term <= h.term {
		return fmt.Errorf("term %d after %d", term, h.term)
	}
	there := h.appended != nil && end == h.appended.After
	if h.settle(there); end != h.log.End() {
		return fmt.Errorf("it ends with %v, not %v", end, h.log.End())
	}
	h.term = term
	return nil
}

// recover opens the journal after whatever has happened, and finishes what was begun.
func (h *host) recover() (err error) {
	if h.phase == "" || h.phase == "removed" {
		return h.none()
	}
	h.j, err = open(h.s, small, place, shop)
	if errors.Is(err, fs.ErrNotExist) && h.phase == "create" {
		return h.create()
	}
	if errors.Is(err, fs.ErrNotExist) && h.phase == "remove" {
		left := len(h.s.root.names) > 0
		if err = h.none(); err == nil {
			h.removed(left) // where nothing was found, a power cut may bring back an empty directory
		}
		return err
	}
	if err != nil {
		return err
	}
	if err := h.read(); err != nil {
		return err
	}
	if err := h.claim(); err != nil {
		return err
	}
	if err := h.onlySegments(); err != nil {
		return err
	}
	if h.phase == "remove" {
		return h.remove()
	}
	h.phase = "alive"
	if h.trimming != nil {
		return h.trim(*h.trimming)
	}
	return nil
}

// none sweeps what is left, and checks that nothing is.
func (h *host) none() error {
	if err := sweepAt(h.s, place); err != nil {
		return err
	}
	if len(h.s.root.names) > 0 {
		return fmt.Errorf("left over: %v", slices.Collect(maps.Keys(h.s.root.names)))
	}
	return nil
}

// onlySegments checks that a journal that was claimed has nothing left over.
func (h *host) onlySegments() error {
	for name := range h.j.dir.(*simFolder).n.names {
		if _, ending, ok := parseName(name); !ok || ending != asSegment {
			return fmt.Errorf("%s is still there", name)
		}
	}
	return nil
}

// read reads from every position from which the host may have to.
func (h *host) read() error {
	if err := h.readFrom(h.begin, h.groups); err != nil {
		return err
	}
	for i, g := range h.groups {
		if err := h.readFrom(g.After, h.groups[i+1:]); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) readFrom(at journal.Position, want []journal.Group) error {
	i := 0
	for g, err := range h.j.Read(noLimit, at) {
		if errors.Is(err, journal.ErrLost) && h.trimming != nil && at.Events < h.trimming.Events {
			return nil
		}
		last := i == len(want) && h.appended != nil && err == nil && journaltest.Equal(g, *h.appended)
		if err != nil || !last && (i >= len(want) || !journaltest.Equal(g, want[i])) {
			return fmt.Errorf("from %v, group %d of %d: up to %v: %w", at, i, len(want), g.After, errors.Join(err, errWrong))
		}
		i++
	}
	if i < len(want) {
		return fmt.Errorf("from %v only %d groups of %d: %w", at, i, len(want), errWrong)
	}
	return nil
}

var errWrong = errors.New("wrong")

// number reads which record begins with some bytes.
func number(b []byte) int {
	n, err := strconv.Atoi(string(b[6:12]))
	if err != nil {
		panic(err)
	}
	return n
}

// traces looks for records that were trimmed, everywhere on a disk, in files without a name, too.
func (h *host) traces(s *sim) error {
	for _, n := range s.inodes {
		for rest := n.data; ; {
			i := bytes.Index(rest, []byte("secret"))
			if i < 0 || i+13 > len(rest) {
				break
			}
			if text := rest[i : i+13]; text[12] == ';' && bytes.IndexByte(text, 0) < 0 && h.gone[number(text)] {
				return fmt.Errorf("%s was trimmed, and lies on the disk", text)
			}
			rest = rest[i+1:]
		}
	}
	return nil
}

// look checks what a power cut leaves, and that a host can go on with it.
func (h *host) look(img *sim, deeper func(*host)) error {
	if err := h.traces(img); err != nil {
		return err
	}
	if h.removedForGood && len(img.root.names) > 0 {
		return errors.New("a journal that was removed has left something")
	}
	o := h.on(img)
	deeper(o)
	if err := o.recover(); err != nil {
		return err
	}
	if o.phase != "alive" {
		return nil
	}
	if err := o.append(100, false); err != nil {
		return err
	}
	return errors.Join(o.read(), o.traces(img))
}

// cuts looks at so many images before each operation of a host. The first fault is kept.
type cuts struct {
	r      *rand.Rand
	images int
	err    error
}

func (c *cuts) look(h *host, deeper bool) {
	for range c.images {
		if c.err != nil {
			return
		}
		img := h.s.image(picker(c.r))
		err := h.look(img, func(o *host) {
			if deeper && c.r.IntN(8) == 0 {
				one := &cuts{r: c.r, images: 1}
				o.s.before = func() {
					if one.look(o, false); c.err == nil {
						c.err = one.err
					}
				}
			}
		})
		if img.before = nil; err != nil {
			c.err = fmt.Errorf("before operation %d (%s, appending: %v, trimming: %v): %w", h.s.ops, h.phase, h.appended != nil, h.trimming != nil, err)
		}
	}
}

// live takes the steps of the script. Where one fails, the host opens the journal again, and goes
// on. It returns the faults, and what broke a step.
func (c *cuts) live(h *host) (broke []error) {
	h.s.before = func() { c.look(h, true) }
	for i, a := range script() {
		if a.what == "reopen" && h.j == nil {
			continue
		}
		err := h.do(a)
		for tries := 0; err != nil && tries < 2; tries++ {
			broke = append(broke, err)
			if h.j != nil {
				h.j.Close()
			}
			h.s.kill()
			err = h.recover()
		}
		if err != nil && c.err == nil {
			c.err = fmt.Errorf("step %d (%s): %w", i, a.what, err)
		}
		if c.look(h, true); c.err != nil {
			return broke
		}
	}
	return broke
}

// seeded returns a source of randomness, and tells the seed if the test fails.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// After a power cut anywhere the journal has what was acknowledged, and not what was trimmed.
func TestPowerCuts(t *testing.T) {
	c, h := &cuts{r: seeded(t), images: testenv.Tries(8, 30, 1000)}, newHost()
	broke := c.live(h)
	check.Need(t, c.err == nil && broke == nil, "%v %v", c.err, broke)
	t.Logf("%d operations", h.s.ops)
}

// broken lives the script, but for a fault at one operation: the host is killed there, or the disk
// refuses it. Images are looked at from then on, for some operations.
func (c *cuts) broken(h *host, at, images int, fault error) (broke []error) {
	h.s.fail = func(string) error {
		switch h.s.ops {
		default:
			return nil
		case at + testenv.Tries(30, 60, 1<<20):
			c.images = 0
			return nil
		case at:
		}
		if c.images = images; errors.Is(fault, errKilled) {
			h.s.kill()
		}
		return fault
	}
	return c.live(h)
}

// operations returns, reckoned once, how many operations the script takes, and from where flushes
// are asked for: in it as it is, with a list of nothing, and where it is killed, with a list of at
// which operations.
var operations = sync.OnceValues(func() (n int, places map[string][]int) {
	h := newHost()
	(&cuts{}).live(h)
	places = map[string][]int{}
	for place := range h.s.places {
		places[place] = nil
	}
	for at := range h.s.ops {
		killed := newHost()
		(&cuts{}).broken(killed, at+1, 0, errKilled)
		for place := range killed.s.places {
			if !h.s.places[place] {
				places[place] = append(places[place], at+1)
			}
		}
	}
	return h.s.ops, places
})

// No flush can be left out: each omission is found. The quick form tries some, others in each run.
func TestEachFlushIsNeeded(t *testing.T) {
	operations, places := operations()
	check.Need(t, len(places) >= 12, "flushes only at %v", places)
	all := slices.Sorted(maps.Keys(places))
	step := testenv.Stride(5, 5)
	for i := rand.IntN(step); i < len(all); i += step {
		place, kills := all[i], places[all[i]]
		t.Run(place, func(t *testing.T) {
			if err := omission(seeded(t), place, kills, operations); err != nil {
				t.Log(err)
			} else {
				t.Error("nobody notices that it is left out")
			}
		})
	}
}

// omission returns what is wrong where a flush is left out: that shows in whole lives, or where the
// host is killed.
func omission(r *rand.Rand, place string, kills []int, operations int) error {
	lives := 2
	if kills != nil {
		lives = 0
	}
	for at := 1; len(kills) < operations && lives > 0; at++ {
		kills = append(kills, at)
	}
	for range 40 {
		for range lives {
			h, c := newHost(), &cuts{r: r, images: 8}
			h.s.skip = place
			if c.live(h); c.err != nil {
				return c.err
			}
		}
		for _, at := range kills {
			h, c := newHost(), &cuts{r: r}
			h.s.skip = place
			if c.broken(h, at, 8, errKilled); c.err != nil {
				return c.err
			}
		}
	}
	return nil
}

// A process that is killed anywhere, or that the disk refuses something, loses nothing; nor does a
// power cut in what follows.
func TestKillsAndFaults(t *testing.T) {
	operations, _ := operations()
	r := seeded(t)
	stride := max(testenv.Stride(17, 40), testenv.Tries(1, 3, 1))
	for _, fault := range []error{errKilled, syscall.EIO, syscall.ENOSPC} {
		for at := 1 + r.IntN(stride); at <= operations; at += stride {
			h, c := newHost(), &cuts{r: r}
			broke := c.broken(h, at, testenv.Tries(2, 3, 40), fault)
			if c.err != nil || len(broke) != 1 || !errors.Is(broke[0], fault) || h.phase != "removed" {
				t.Fatalf("%v at operation %d: %v; the steps that failed: %v; it ended with phase %q", fault, at, c.err, broke, h.phase)
			}
		}
	}
}

// What a reader was shown of a journal whose process was killed, anywhere, is there after a power
// cut.
func TestWhatIsSettledStays(t *testing.T) {
	operations, _ := operations()
	r := seeded(t)
	stride := testenv.Tries(2, 1, 1)
	shown, gone := 0, 0 // groups, and those of them that would be gone
	for at := 1 + r.IntN(stride); at <= operations; at += stride {
		h := newHost()
		h.until(at)
		if h.phase != "create" && h.phase != "alive" {
			continue
		}
		j, err := open(h.s, small, place, shop)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		check.Must(t, err)
		unsettled := h.s.image(func(int) int { return 0 })
		check.Must(t, j.Settle(noLimit))
		from := h.begin
		groups, err := readAll(j, from)
		if errors.Is(err, journal.ErrLost) && h.trimming != nil {
			from = *h.trimming
			groups, err = readAll(j, from)
		}
		check.Must(t, err)
		shown += len(groups)
		for i := range testenv.Tries(3, 10, 100) {
			pick := picker(r)
			if i == 0 { // nothing of what may be lost is left
				pick = func(int) int { return 0 }
			}
			after, err := open(h.s.image(pick), small, place, shop)
			if errors.Is(err, fs.ErrNotExist) && len(groups) == 0 {
				continue
			}
			check.Must(t, err)
			left, err := readAll(after, from)
			if err != nil || !slices.EqualFunc(left, groups, journaltest.Equal) {
				t.Fatalf("killed at operation %d: of %d groups that were shown, %d are there after a power cut: %v", at, len(groups), len(left), err)
			}
		}
		if without, err := open(unsettled, small, place, shop); err == nil {
			if left, err := readAll(without, from); err != nil || len(left) < len(groups) {
				gone++
			}
		} else {
			gone++
		}
	}
	if t.Logf("%d groups were shown", shown); shown == 0 || gone == 0 {
		t.Errorf("%d groups were shown, and at %d of the instants one would be gone: nothing is tested", shown, gone)
	}
}

// until lives the script up to an operation, before which the host is killed.
func (h *host) until(at int) {
	h.s.fail = func(string) error {
		if h.s.ops == at {
			h.s.kill()
			return errKilled
		}
		return nil
	}
	for _, a := range script() {
		if h.do(a) != nil {
			break
		}
	}
	h.s.fail = nil
}

func readAll(j *Journal, from journal.Position) (groups []journal.Group, err error) {
	for g, err := range j.Read(noLimit, from) {
		if err != nil {
			return groups, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// Where a journal could not be made, whatever has failed, it is made when that is asked for again.
func TestAJournalIsMadeAtTheSecondTry(t *testing.T) {
	for at := 1; ; at++ {
		s := newSim()
		s.fail = func(string) error {
			if s.ops == at {
				return syscall.EIO
			}
			return nil
		}
		h := &host{s: s, gone: map[int]bool{}}
		if h.create() == nil && at > 8 {
			return
		}
		check.Need(t, h.j == nil, "with a fault at operation %d there is a journal", at)
		err := h.create()
		check.Need(t, err == nil, "after a fault at operation %d: %v", at, err)
		check.Must(t, h.append(100, false))
	}
}
