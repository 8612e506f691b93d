package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
)

// scripted is how many calls of a shop make the fixed script.
const scripted = 120

// watched sees the calls that change files in a directory, and what the host tells.
type watched struct {
	dir     string
	hit     func(*Call) bool // the first of these gets the verdict; nil for none
	verdict Verdict
	struck  *Call
	n       int            // calls so far
	spots   map[string]int // the same, by their spots, if none gets the verdict
	told    strings.Builder
}

// watch watches a directory. One call gets a verdict, unless hit is nil.
func watch(dir string, hit func(*Call) bool, v Verdict) *watched {
	return &watched{dir: dir, hit: hit, verdict: v, spots: map[string]int{}}
}

func (w *watched) Before(c *Call) Verdict {
	if !within(w.dir, c.Path) {
		return Proceed
	}
	if w.n++; w.hit == nil {
		w.spots[callers(c).spot(c.Kind)]++
	} else if w.struck == nil && w.hit(c) {
		w.struck = c
		return w.verdict
	}
	return Proceed
}

func (w *watched) After(c *Call) {
	if c.FD == 1 && c.Kind == Write {
		w.told.Write(c.Data)
	}
}

// causes are what a host may be doing when it changes a file: the innermost counts.
func causes() []string {
	return []string{
		"file.(*Journal).Append", "engine.(*Engine).startJournal", "memtable.(*Table).writeBehind", "trial.(*shop).tidy",
		"ledger.(*Ledger).Forget", "ledger.(*Ledger).Close", "ledger.Open",
	}
}

// cause tells what a host does when it makes a call; "" if that is none of the causes.
func (s stack) cause() string {
	for _, name := range s {
		for _, cause := range causes() {
			if strings.HasPrefix(name, cause+":") || strings.HasPrefix(name, cause+".func") {
				return cause
			}
		}
	}
	return ""
}

// spot tells calls of a kind apart by where in the code they are made, and why.
func (s stack) spot(kind Kind) string {
	return fmt.Sprintf("%s at %s for %s", kind, s.place(), s.cause())
}

// beginnings of the lives whose calls are ended, or fail.
var beginnings = []string{"new", "worn", "crashed"}

// beginning makes the files of a host that is about to begin: a new file; a worn one, which was opened before; or what a host left that was
// killed. It returns what that had told, and the first call to be made.
func beginning(t *testing.T, kind string) (dir string, told map[int]json.RawMessage, first int) {
	t.Helper()
	switch kind {
	case "crashed":
		r := recordLives(t, false, episode{calls: 20, memory: scarce}, episode{kill: after(150)})
		return r.dir, r.all, slices.Max(slices.Collect(maps.Keys(r.all))) + 1
	case "worn":
		dir = pace.Scratch(t)
		path := filepath.Join(dir, "shop.db")
		create(t, path)
		wear(t, path)
		if err := hostCommand(t.Context(), path, life{first: 0, last: -1}).Run(); err != nil {
			t.Fatal(err)
		}
		return dir, nil, 0
	}
	dir = pace.Scratch(t)
	create(t, filepath.Join(dir, "shop.db"))
	return dir, nil, 0
}

// struckLife is a life that ends, or in which something fails, at one call.
type struckLife struct {
	*watched
	path   string
	told   map[int]json.RawMessage // in this life, and before
	status syscall.WaitStatus
	said   string
}

// live lets a host live that begins with some files, and has told something before.
func live(t *testing.T, begin string, before map[int]json.RawMessage, l life, hit func(*Call) bool, v Verdict) *struckLife {
	t.Helper()
	w := watch(pace.Scratch(t), hit, v)
	if err := os.CopyFS(w.dir, os.DirFS(begin)); err != nil {
		t.Fatal(err)
	}
	s := &struckLife{watched: w, path: filepath.Join(w.dir, "shop.db"), told: maps.Clone(before)}
	cmd := hostCommand(t.Context(), s.path, l)
	var said strings.Builder
	cmd.Stderr = &said
	var err error
	if s.status, err = Run(cmd, w); err != nil {
		t.Fatal(err)
	}
	if s.said = said.String(); s.told == nil {
		s.told = map[int]json.RawMessage{}
	}
	for line := range strings.Lines(w.told.String()) {
		collect(t, s.told, line)
	}
	return s
}

// TestNothingToldIsLostAtAnySystemCall ends a host at each call by which it changes its files, and makes each of these
// calls fail as a broken disk and as a full one do. What was told is there when the file is opened again; what failed
// comes to one result when it is asked for again. After something has failed of which nobody knows whether it is durable, the ledger does nothing more.
func TestNothingToldIsLostAtAnySystemCall(t *testing.T) {
	Need(t)
	for _, kind := range beginnings {
		t.Run(kind, func(t *testing.T) { endAtEachCall(t, kind) })
	}
}

// endAtEachCall does so with hosts that begin with a new file, a worn one, or after a crash. Calls are tried by spots: how a life is cut into
// commits and checkpoints is not the same each time, so their numbers say little.
func endAtEachCall(t *testing.T, kind string) {
	t.Helper()
	begin, before, first := beginning(t, kind)
	rest := life{first, scripted - 1, 1, scarce}
	quiet := live(t, begin, before, rest, nil, Proceed)
	if quiet.status.ExitStatus() != 0 || quiet.said != "" || len(quiet.told) < 100 {
		t.Fatalf("%d calls were told of, and the host ended with %v, %s", len(quiet.told), quiet.status, quiet.said)
	}
	wantTold(t, quiet.path, quiet.told)
	for _, cause := range causes() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(quiet.spots)), func(s string) bool { return strings.HasSuffix(s, cause) }) {
			t.Errorf("no file is changed for %s", cause)
		}
	}
	spots := slices.Sorted(maps.Keys(quiet.spots))
	struck, missed := map[string]int{}, 0
	verdicts := []Verdict{Kill, FailIO, FailFull}
	if !pace.Deep() { // one of the two ways to fail
		i := 1 + rand.IntN(2)
		verdicts = slices.Delete(verdicts, i, i+1)
	}
	for _, verdict := range verdicts {
		for _, spot := range someSpots(spots, struck, tries(2, 20, len(spots))) {
			for _, nth := range nths(quiet.spots[spot]) {
				hit := func(c *Call) bool {
					if c.Kind == kindOf(spot) && callers(c).spot(c.Kind) == spot {
						nth--
					}
					return nth == 0
				}
				s := live(t, begin, before, rest, hit, verdict)
				if s.struck == nil {
					missed++
				} else {
					struck[callers(s.struck).cause()]++
					if err := s.outcome(); err != nil {
						t.Errorf("%v; it ended with %v, %s", err, s.status, s.said)
					}
				}
				wantTold(t, s.path, s.told, slices.Sorted(maps.Keys(without(quiet.told, s.told)))...)
				if forget(t, s.dir); t.Failed() {
					t.Fatalf("verdict %d at %s: %s of %s", verdict, spot, s.struck.Kind, s.struck.Path)
				}
			}
		}
	}
	t.Logf("%d spots; struck: %v, not reached: %d", len(spots), struck, missed)
	enough := len(struck) >= 3
	if !pace.Deep() { // the quick form tries few lives, and not every life reaches its spot
		enough = len(struck)+missed >= 2
	}
	if !enough || missed > 20+len(spots)/2 {
		t.Errorf("%d were not reached; something was struck for %d causes", missed, len(struck))
	}
}

// someSpots returns so many spots at random, those first for whose causes least was struck so far.
func someSpots(spots []string, struck map[string]int, n int) []string {
	ranks, of := map[string]int{}, maps.Clone(struck)
	spots = slices.Clone(spots)
	rand.Shuffle(len(spots), func(i, j int) { spots[i], spots[j] = spots[j], spots[i] })
	for _, spot := range spots {
		_, cause, _ := strings.Cut(spot, " for ")
		ranks[spot] = of[cause]
		of[cause]++
	}
	slices.SortStableFunc(spots, func(a, b string) int { return ranks[a] - ranks[b] })
	return spots[:min(n, len(spots))]
}

func kindOf(spot string) Kind {
	kind, _, _ := strings.Cut(spot, " ")
	return Kind(kind)
}

// nths returns which of the calls at a spot are tried: in the long form some of them, else one.
func nths(n int) (nths []int) {
	for range min(n, tries(1, 1, 6)) {
		nths = append(nths, 1+rand.IntN(n))
	}
	return nths
}

// outcome tells what is wrong with how a host ended that was killed at a call, or for which the call failed.
func (s *struckLife) outcome() error {
	c, led := s.struck, callers(s.struck)
	stopped := s.status.ExitStatus() == 3 && strings.Contains(s.said, api.ErrStopped.Error())
	goesOn := s.status.ExitStatus() == 0
	_, journal := os.Stat(s.path + ".journal")
	switch why := led.cause(); {
	case s.verdict == Kill:
		return wrongUnless(s.status.Signaled() && s.status.Signal() == syscall.SIGKILL, "it was killed")
	case c.Kind == Link, c.Kind == Remove && strings.HasSuffix(c.Path, ".sluice-unfinished"):
		// A copy is moved to its place instead; what is left of one is removed by the next.
		return wrongUnless(goesOn && (s.said == "" || strings.HasPrefix(s.said, tidying)), "it may go on")
	case c.Kind == Remove && strings.HasPrefix(filepath.Base(c.Path), "shop.db.journal") && goesOn && s.said == "":
		return wrongUnless(journal != nil, "it is a directory, and package os removes it by another call")
	case !strings.Contains(s.said, errnoText(s.verdict)) && !(goesOn && journal == nil), strings.Contains(s.said, "has failed, comes to"):
		return errors.New("it should say what has failed")
	case why == "file.(*Journal).Append", why == "ledger.(*Ledger).Forget":
		return wrongUnless(stopped || strings.HasPrefix(s.said, "open: "), "nobody knows what is durable")
	case why == "ledger.Open":
		return wrongUnless(s.status.ExitStatus() == 3 && strings.HasPrefix(s.said, "open: "), "it cannot be opened")
	case why == "ledger.(*Ledger).Close":
		return wrongUnless(s.status.ExitStatus() == 3 && strings.HasPrefix(s.said, "close: "), "it cannot be closed")
	case why == "memtable.(*Table).writeBehind": // unless nothing was to be done any more
		return wrongUnless(stopped || goesOn && journal == nil, "the checkpoint has failed")
	case why == "engine.(*Engine).startJournal" && led.has("memtable.(*Table).write"):
		return wrongUnless(stopped || strings.HasPrefix(s.said, "open: "), "nobody knows whether the file names its journal")
	case why == "engine.(*Engine).startJournal":
		return wrongUnless(goesOn && strings.HasPrefix(s.said, trying) || strings.HasPrefix(s.said, "open: "), "there is no journal yet")
	case why == "trial.(*shop).tidy" && (led.has("memtable.(*Table).write") || led.has("memtable.(*Table).tell") || strings.HasPrefix(led.place(), "bolt.(*Store).replace:")):
		return wrongUnless(stopped, "nobody knows what is durable")
	case why == "trial.(*shop).tidy":
		return wrongUnless(goesOn && strings.HasPrefix(s.said, tidying), "it has no copy")
	}
	return errors.New("nobody knows why the call was made")
}

func wrongUnless(right bool, why string) error {
	if right {
		return nil
	}
	return errors.New(why)
}

func errnoText(v Verdict) string {
	if v == FailFull {
		return syscall.ENOSPC.Error()
	}
	return syscall.EIO.Error()
}

// without returns what is in one map and not in the other.
func without(all, these map[int]json.RawMessage) map[int]json.RawMessage {
	rest := map[int]json.RawMessage{}
	for n, text := range all {
		if these[n] == nil {
			rest[n] = text
		}
	}
	return rest
}
