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

// small are limits with which a few groups fill a segment, and a group has many frames.
var small = sizes{segment: 4096, step: 2048, content: 600}

const journalPath = "/shop/panel.db.journal"

// action is a step of a host with a journal.
type action struct {
	what string // create, append, trim, reopen, remove
	size int    // of the record that is appended
	cut  bool
	keep int // number of groups that trim keeps
}

// script returns the steps of a journal from its creation to its removal.
func script() []action {
	return []action{
		{what: "create"}, {what: "append", size: 20}, {what: "append", size: 700}, {what: "append", size: 1900}, {what: "append", size: 0},
		{what: "append", size: 3000}, {what: "append", size: 100, cut: true}, {what: "append", size: 50},
		{what: "trim", keep: 2},                              // at the beginning of a segment
		{what: "append", size: 300}, {what: "trim", keep: 1}, // within the last segment
		{what: "append", size: 2500}, {what: "append", size: 2500}, // in a new segment
		{what: "append", size: 90}, {what: "append", size: 95}, {what: "append", size: 40, cut: true}, {what: "append", size: 80},
		{what: "trim", keep: 3}, // within a segment before the last
		{what: "reopen"}, {what: "reopen"}, {what: "append", size: 10}, {what: "append", size: 9}, {what: "reopen"},
		{what: "trim", keep: 0}, {what: "append", size: 60}, {what: "trim", keep: 0}, {what: "reopen"}, {what: "append", size: 5000},
		{what: "remove"},
	}
}

// host is a host with its journal, and with the state that it expects.
type host struct {
	s        *sim
	j        *Journal
	log      journaltest.Log
	phase    string // "", create, alive, remove, removed
	term     uint64
	begin    journal.Position
	groups   []journal.Group
	appended *journal.Group    // may or may not be in the journal
	trimming *journal.Position // position of a Trim that has not returned
	records  int
	trimmed  map[int]bool // records that were trimmed

	removedForGood bool
}

func newHost() *host { return &host{s: newSim(), trimmed: map[int]bool{}} }

// on returns the same host on another disk.
func (h *host) on(s *sim) *host {
	other := *h
	other.s, other.j, other.log, other.groups, other.trimmed = s, nil, h.log.Clone(), slices.Clone(h.groups), maps.Clone(h.trimmed)
	return &other
}

// do takes a step.
func (h *host) do(a action) error {
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
	if h.j, err = create(h.s, small, journalPath, shop, h.begin); err != nil {
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
	h.resolveAppend(true)
	return nil
}

// resolveAppend records whether the appended group is in the journal.
func (h *host) resolveAppend(there bool) {
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
		h.trimmed[number(h.groups[0].Records[1])] = true
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
		h.trimmed[n+1] = true
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
	if h.resolveAppend(there); end != h.log.End() {
		return fmt.Errorf("the journal ends with %v, not %v", end, h.log.End())
	}
	h.term = term
	return nil
}

// recover opens the journal after any fault, and finishes the step that was interrupted.
func (h *host) recover() (err error) {
	if h.phase == "" || h.phase == "removed" {
		return h.sweepAll()
	}
	h.j, err = open(h.s, small, journalPath, shop)
	if errors.Is(err, fs.ErrNotExist) && h.phase == "create" {
		return h.create()
	}
	if errors.Is(err, fs.ErrNotExist) && h.phase == "remove" {
		left := len(h.s.root.names) > 0
		if err = h.sweepAll(); err == nil {
			h.removed(left) // if nothing was found, a power cut may restore an empty directory
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

// sweepAll destroys leftovers with Sweep, and checks that no file remains.
func (h *host) sweepAll() error {
	if err := sweepAt(h.s, journalPath); err != nil {
		return err
	}
	if len(h.s.root.names) > 0 {
		return fmt.Errorf("files are left: %v", slices.Collect(maps.Keys(h.s.root.names)))
	}
	return nil
}

// onlySegments checks that the directory of a claimed journal has only segments.
func (h *host) onlySegments() error {
	for name := range h.j.dir.(*simFolder).n.names {
		if _, ending, ok := parseName(name); !ok || ending != segmentExt {
			return fmt.Errorf("%s was not removed", name)
		}
	}
	return nil
}

// read reads from every position from which the host may need to read.
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

// number returns the number of the record that begins with b.
func number(b []byte) int {
	n, err := strconv.Atoi(string(b[6:12]))
	if err != nil {
		panic(err)
	}
	return n
}

// checkErased returns an error if a trimmed record is anywhere on a disk, also in files without
// names.
func (h *host) checkErased(s *sim) error {
	for _, n := range s.inodes {
		for rest := n.data; ; {
			i := bytes.Index(rest, []byte("secret"))
			if i < 0 || i+13 > len(rest) {
				break
			}
			if text := rest[i : i+13]; text[12] == ';' && bytes.IndexByte(text, 0) < 0 && h.trimmed[number(text)] {
				return fmt.Errorf("%s was trimmed, and is still on the disk", text)
			}
			rest = rest[i+1:]
		}
	}
	return nil
}

// checkImage checks the disk after a power cut, and that a host can continue with it.
func (h *host) checkImage(img *sim, deeper func(*host)) error {
	if err := h.checkErased(img); err != nil {
		return err
	}
	if h.removedForGood && len(img.root.names) > 0 {
		return errors.New("a removed journal has left a file")
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
	return errors.Join(o.read(), o.checkErased(img))
}

// powerCuts checks some disks after a power cut before each operation of a host. It keeps the first
// fault.
type powerCuts struct {
	r      *rand.Rand
	images int
	err    error
}

func (c *powerCuts) checkImages(h *host, deeper bool) {
	for range c.images {
		if c.err != nil {
			return
		}
		img := h.s.afterPowerCut(randomPicker(c.r))
		err := h.checkImage(img, func(o *host) {
			if deeper && c.r.IntN(8) == 0 {
				one := &powerCuts{r: c.r, images: 1}
				o.s.before = func() {
					if one.checkImages(o, false); c.err == nil {
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

// runScript runs the script. If a step fails, the host opens the journal again and continues. It
// returns the errors of the steps.
func (c *powerCuts) runScript(h *host) (broke []error) {
	h.s.before = func() { c.checkImages(h, true) }
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
		if c.checkImages(h, true); c.err != nil {
			return broke
		}
	}
	return broke
}

// seededRand returns a random source, and logs its seed if the test fails.
func seededRand(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// After a power cut at any operation the journal has all acknowledged groups, and no trimmed bytes
// are on the disk.
func TestJournal_PowerCutAnywhere_KeepsAcknowledgedGroups(t *testing.T) {
	c, h := &powerCuts{r: seededRand(t), images: testenv.Tries(8, 30, 1000)}, newHost()
	broke := c.runScript(h)
	check.Need(t, c.err == nil && broke == nil, "%v %v", c.err, broke)
	t.Logf("%d operations", h.s.ops)
}

// runWithFault runs the script with a fault at one operation: the host is killed, or the disk
// returns an error. From then on, power cuts are checked for some operations.
func (c *powerCuts) runWithFault(h *host, at, images int, fault error) (broke []error) {
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
	return c.runScript(h)
}

// operations returns the number of operations of the script, and the places in the code that flush.
// A place that the script reaches only after a kill has the list of these operations. It is
// computed once.
var operations = sync.OnceValues(func() (n int, places map[string][]int) {
	h := newHost()
	(&powerCuts{}).runScript(h)
	places = map[string][]int{}
	for place := range h.s.places {
		places[place] = nil
	}
	for at := range h.s.ops {
		killed := newHost()
		(&powerCuts{}).runWithFault(killed, at+1, 0, errKilled)
		for place := range killed.s.places {
			if !h.s.places[place] {
				places[place] = append(places[place], at+1)
			}
		}
	}
	return h.s.ops, places
})

// Every flush is necessary: if one is omitted, a power cut loses data. The quick form tests a
// random part of the flushes.
func TestFlush_AnyOmitted_IsDetected(t *testing.T) {
	operations, places := operations()
	check.Need(t, len(places) >= 12, "flushes only at %v", places)
	all := slices.Sorted(maps.Keys(places))
	step := testenv.Stride(5, 5)
	for i := rand.IntN(step); i < len(all); i += step {
		place, kills := all[i], places[all[i]]
		t.Run(place, func(t *testing.T) {
			if err := omission(seededRand(t), place, kills, operations); err != nil {
				t.Log(err)
			} else {
				t.Error("no check fails without this flush")
			}
		})
	}
}

// omission returns the fault that omitting a flush causes, in whole runs of the script or after a
// kill.
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
			h, c := newHost(), &powerCuts{r: r, images: 8}
			h.s.skip = place
			if c.runScript(h); c.err != nil {
				return c.err
			}
		}
		for _, at := range kills {
			h, c := newHost(), &powerCuts{r: r}
			h.s.skip = place
			if c.runWithFault(h, at, 8, errKilled); c.err != nil {
				return c.err
			}
		}
	}
	return nil
}

// If the process is killed at any operation, or the disk returns an error, nothing is lost, also
// not by a power cut after that.
func TestJournal_KilledOrDiskFails_LosesNothing(t *testing.T) {
	operations, _ := operations()
	r := seededRand(t)
	stride := max(testenv.Stride(17, 40), testenv.Tries(1, 3, 1))
	for _, fault := range []error{errKilled, syscall.EIO, syscall.ENOSPC} {
		for at := 1 + r.IntN(stride); at <= operations; at += stride {
			h, c := newHost(), &powerCuts{r: r}
			broke := c.runWithFault(h, at, testenv.Tries(2, 3, 40), fault)
			if c.err != nil || len(broke) != 1 || !errors.Is(broke[0], fault) || h.phase != "removed" {
				t.Fatalf("%v at operation %d: %v; the steps that failed: %v; it ended with phase %q", fault, at, c.err, broke, h.phase)
			}
		}
	}
}

// Groups that a reader has read after Settle, from the journal of a killed process, survive a power
// cut.
func TestSettle_PowerCutAfterIt_KeepsTheGroupsRead(t *testing.T) {
	operations, _ := operations()
	r := seededRand(t)
	stride := testenv.Tries(2, 1, 1)
	shown, gone := 0, 0 // number of groups read, and of those that would be lost without Settle
	for at := 1 + r.IntN(stride); at <= operations; at += stride {
		h := newHost()
		h.runUntil(at)
		if h.phase != "create" && h.phase != "alive" {
			continue
		}
		j, err := open(h.s, small, journalPath, shop)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		check.Must(t, err)
		unsettled := h.s.afterPowerCut(func(int) int { return 0 })
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
			pick := randomPicker(r)
			if i == 0 { // everything that may be lost is lost
				pick = func(int) int { return 0 }
			}
			after, err := open(h.s.afterPowerCut(pick), small, journalPath, shop)
			if errors.Is(err, fs.ErrNotExist) && len(groups) == 0 {
				continue
			}
			check.Must(t, err)
			left, err := readAll(after, from)
			if err != nil || !slices.EqualFunc(left, groups, journaltest.Equal) {
				t.Fatalf("killed at operation %d: of %d groups that were read, %d remain after a power cut: %v", at, len(groups), len(left), err)
			}
		}
		if without, err := open(unsettled, small, journalPath, shop); err == nil {
			if left, err := readAll(without, from); err != nil || len(left) < len(groups) {
				gone++
			}
		} else {
			gone++
		}
	}
	if t.Logf("%d groups were read", shown); shown == 0 || gone == 0 {
		t.Errorf("%d groups were read, and at %d operations one would be lost without Settle: the test checks nothing", shown, gone)
	}
}

// runUntil runs the script up to an operation, before which the host is killed.
func (h *host) runUntil(at int) {
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

// If Create fails at any operation, the next Create works.
func TestCreate_AfterAFailedCreate_Works(t *testing.T) {
	for at := 1; ; at++ {
		s := newSim()
		s.fail = func(string) error {
			if s.ops == at {
				return syscall.EIO
			}
			return nil
		}
		h := &host{s: s, trimmed: map[int]bool{}}
		if h.create() == nil && at > 8 {
			return
		}
		check.Need(t, h.j == nil, "Create returns a journal despite a fault at operation %d", at)
		err := h.create()
		check.Need(t, err == nil, "after a fault at operation %d: %v", at, err)
		check.Must(t, h.append(100, false))
	}
}
