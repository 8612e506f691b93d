package trial

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pace"
)

// stack has the functions that led to a call, the innermost first, with lines.
type stack []string

// callers returns what led to a call, but for what only carries out what others ask for.
func callers(c *Call) (names stack) {
	carriers := []string{"syscall.", "unix.", "poll.", "os.", "bbolt.fdatasync", "file.fdatasync", "file.osFile.", "file.(*directory)."}
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

// place tells where in the code a call is asked for, and by which function. Places that come to the same are one.
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
	// Each of these does what another has done, or will do before anything depends on it. One of them must.
	case "ledgerfile.SyncDir < bolt.Open", "file.(*Journal).takeOver < file.(*Journal).Claim", "file.raze < file.sweep":
		return "the directory, when the ledger is opened"
	}
	return place
}

// spared returns the places of flushes whose omission nobody can notice, and why they are there.
func spared() map[string]string {
	return map[string]string{
		"bbolt.(*DB).init < bbolt.Open":                        "bolt.open flushes the whole file behind it",
		"bolt.open < bolt.(*Store).filled":                     "it is for files that were there before",
		"bolt.open < bolt.openExisting":                        "a ledger commits before anything depends on what was there",
		"ledgerfile.SyncDir < bolt.(*Store).replace":           "it is to find out whether that works",
		"bolt.(*Store).copyPages < bolt.(*Store).copyPages-fm": "a ledger opens its copy before it gets its name, which flushes it",
		"bolt.(*Store).filled < bolt.(*Store).copyRecords":     "the same",
		"bolt.EraseUnused < ledger.(*Ledger).closeCopy":        "it destroys what was deleted in a copy: nothing that was told depends on it",
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

// fallen is a host that compacts its file, and makes checkpoints after that; later it is killed when it is about to flush something from some place, on behalf of some function. Then it opens its shop and closes it
// again, and then makes more calls.
func fallen(t *testing.T, place, behalf string) *recorded {
	t.Helper()
	kill := func(c *Call) bool {
		s := callers(c)
		return c.Kind == Sync && strings.HasPrefix(s.place(), place) && s.has(behalf)
	}
	r := recordLives(t, false, episode{calls: 38, memory: scarce}, episode{calls: 10, memory: scarce, kill: kill}, episode{calls: -1}, episode{calls: 5})
	if n := r.happened()["closed"]; n != 3 {
		t.Fatalf("it closed its shop %d times, and so was not killed at %s for %s", n, place, behalf)
	}
	return r
}

// TestEachFlushIsNeeded is a test of the test, and of the code: a disk that does not do what is flushed from some place in the code loses
// something of what was told, or keeps something of what was destroyed. That is noticed, for each place.
func TestEachFlushIsNeeded(t *testing.T) {
	Need(t)
	records := []*recorded{
		recordLives(t, false, turbulent()...),
		fallen(t, "bbolt.(*Tx).writeMeta", "engine.(*Engine).end"),
		fallen(t, "file.raze", "engine.(*Engine).end"),
		fallen(t, "file.shredAll", "file.(*Journal).Trim"),
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
	seed, step := rand.Uint64(), pace.Stride(8, 8)
	for i := rand.IntN(step); i < len(all); i += step {
		place := all[i]
		t.Run(place, func(t *testing.T) {
			c, scratch := &cutting{random: rand.New(rand.NewPCG(seed, 1))}, pace.Scratch(t)
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
