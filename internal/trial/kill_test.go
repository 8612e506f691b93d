package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
)

// What the environment tells a process that is to be the host of a shop, and not the tests.
const (
	hostPath  = "SLUICE_TRIAL_PATH"
	hostCalls = "SLUICE_TRIAL_CALLS" // the numbers of a life, or "create"
)

// life is what a host does before it closes its shop.
type life struct {
	first, last int // calls
	workers     int
	memory      int64 // [ledger.Options]
}

// scarce is so little memory that each few calls are followed by a checkpoint, beside what comes
// next.
const scarce = 8 << 10

// closed is what a host tells when it has closed its shop.
const closed = "closed\n"

func TestMain(m *testing.M) {
	var err error
	if path := os.Getenv(hostPath); path != "" {
		err = host(path, os.Getenv(hostCalls))
	} else if dir := os.Getenv("SLUICE_TRACED"); dir != "" {
		err = runTraced(dir)
	} else {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// host opens a shop and makes calls. Each that is carried out it tells in a line of its own, when
// it knows.
func host(path, calls string) error {
	if calls == creating {
		return hostCreates(path)
	}
	var l life
	if _, err := fmt.Sscan(calls, &l.first, &l.last, &l.workers, &l.memory); err != nil {
		return err
	}
	s, err := openShop(path, truths, l.memory)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	numbers, faults := make(chan int), make(chan error, l.workers)
	var wg sync.WaitGroup
	for range l.workers {
		wg.Go(func() {
			for n := range numbers {
				s.tidy(path, n)
				one, err := s.tell(context.Background(), n)
				if err != nil && !refused(err) && !errors.Is(err, api.ErrStopped) {
					fmt.Fprintln(os.Stderr, trying, err)
					one, err = s.tell(context.Background(), n)
				}
				if err != nil && !refused(err) {
					faults <- errors.Join(fmt.Errorf("call %d: %w", n, err), s.goOn(n))
					return
				}
				if err == nil {
					line, _ := json.Marshal(one)
					_, _ = os.Stdout.Write(append(line, '\n'))
				}
			}
		})
	}
	for n := l.first; n <= l.last; n++ {
		select {
		case numbers <- n:
		case err := <-faults:
			return err
		}
	}
	close(numbers)
	wg.Wait()
	select {
	case err := <-faults:
		return err
	default:
	}
	if err := s.ledger.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	_, _ = os.Stdout.WriteString(closed)
	return nil
}

// tidy compacts the file, or makes a copy, beside some of the calls. If that fails, calls may go on
// or fail.
func (s *shop) tidy(path string, n int) {
	var err error
	switch n % 60 {
	case 20:
		if filepath.Base(path) != wornName {
			err = s.ledger.Compact(context.Background(), nil)
		}
	case 40:
		err = copied(path, n, s.ledger.Backup)
	case 50:
		err = copied(path, n, s.ledger.CompactTo)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // it was made in a former life
		fmt.Fprintln(os.Stderr, tidying, err)
	}
}

// What a host says when it could not tidy; and when a call has failed, without the ledger having
// stopped, before it makes the call again.
const (
	tidying = "tidying: "
	trying  = "trying again: "
)

// copied makes a copy, and tells so.
func copied(path string, n int, copyTo func(context.Context, string, func(done, total int)) (api.Copied, error)) error {
	to := fmt.Sprint(path, ".", n)
	if _, err := copyTo(context.Background(), to, nil); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, copying+filepath.Base(to))
	return nil
}

// copying begins a line that tells that a copy was made; its name follows.
const copying = "copied to "

// goOn makes more calls after one has failed for another reason than a refusal: all must say that
// the ledger has stopped.
func (s *shop) goOn(failed int) error {
	for n := failed; n < failed+12; n++ {
		if _, err := s.tell(context.Background(), n); !errors.Is(err, api.ErrStopped) && !refused(err) {
			return fmt.Errorf("call %d, after call %d has failed, comes to %w", n, failed, err)
		}
	}
	return nil
}

// hostCommand is a process that is the host of a shop.
func hostCommand(ctx context.Context, path string, l life) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), hostPath+"="+path, fmt.Sprintf("%s=%d %d %d %d", hostCalls, l.first, l.last, l.workers, l.memory))
	return cmd
}

// collect adds what a line tells of a call, if it is whole. Other lines have the number -1.
func collect(t testing.TB, told map[int]json.RawMessage, line string) (n int, whole bool) {
	t.Helper()
	if !strings.HasSuffix(line, "\n") {
		return 0, false // nobody was told the rest
	}
	if line == closed || strings.HasPrefix(line, copying) {
		return -1, true
	}
	var one reply
	err := json.Unmarshal([]byte(line), &one)
	check.Need(t, err == nil, "the host says %q", line)
	told[one.N] = one.Result
	return one.N, true
}

// TestNothingToldIsLostByAKill kills a host at random, with four calls under way at a time, and
// opens its file again. All that it has told in all of its lives must be there, the same; what was
// under way is asked for again, comes to one result, and stays. Every second file is a worn one.
// (What is written survives a kill also if it was never synced: see
// [TestNoPowerCutLosesWhatWasTold] for that.)
func TestNothingToldIsLostByAKill(t *testing.T) {
	const workers = 4
	kills, callsOfAFile := tries(12, 300, 10_000), testenv.Tries(100, 400, 400)
	var path string
	told, next, files, total := map[int]json.RawMessage{}, 0, 0, 0
	for life := range kills {
		if next > callsOfAFile || life == 0 {
			if life > 0 {
				wantTold(t, path, told)
				forget(t, filepath.Dir(path))
			}
			path = filepath.Join(testenv.TempDir(t), []string{"shop.db", wornName}[files%2])
			if create(t, path); files%2 == 1 {
				wear(t, path)
			}
			told, next, total = map[int]json.RawMessage{}, 0, total+len(told)
			files++
			wantTold(t, path, nil, 0, 1, 2, 3, 4, 5)
			next = opened
		}
		fresh := liveAndDie(t, path, next, workers)
		reached := next
		if len(fresh) > 0 {
			reached = slices.Max(slices.Collect(maps.Keys(fresh))) + 1
		}
		var open []int
		for n := next; n < reached+workers; n++ {
			if fresh[n] == nil {
				open = append(open, n)
			}
		}
		maps.Copy(told, fresh)
		maps.Copy(told, wantTold(t, path, fresh, open...))
		if next = reached + workers; t.Failed() {
			t.Fatalf("life %d: calls %d to %d; the host told %d of them", life, next, reached, len(fresh))
		}
	}
	wantTold(t, path, told)
	t.Logf("%d kills, %d files, %d calls told", kills, files, total+len(told))
}

// liveAndDie starts a host and kills it at random: while it opens the file, or soon after it has
// told something.
func liveAndDie(t *testing.T, path string, first, workers int) map[int]json.RawMessage {
	t.Helper()
	cmd := hostCommand(t.Context(), path, life{first, first + 1000, workers, []int64{0, scarce}[rand.IntN(2)]})
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	check.Must(t, err)
	kill := func() { _ = cmd.Process.Kill() }
	after, told := rand.IntN(12), map[int]json.RawMessage{}
	if after == 0 {
		time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, kill)
	}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if _, whole := collect(t, told, line); !whole || err != nil {
			break
		}
		if len(told) == after {
			time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, kill)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatalf("the host ended by itself after %s calls", strconv.Itoa(len(told)))
	}
	return told
}

// TestTheShopIsAQuietOne makes all calls in one life: they are of all kinds, and most are carried
// out.
func TestTheShopIsAQuietOne(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "shop.db")
	create(t, path)
	told := map[int]json.RawMessage{}
	cmd := hostCommand(t.Context(), path, life{first: 0, last: 399, workers: 1})
	out := check.Value(cmd.Output())(t)
	kinds := map[int]int{}
	for line := range strings.Lines(string(out)) {
		n, _ := collect(t, told, line)
		if n >= opened {
			kinds[n%10]++
		}
	}
	wantTold(t, path, told)
	check.That(t, len(told) >= 300 && len(kinds) == 10,
		"%d calls carried out, of %d kinds: %v", len(told), len(kinds), kinds)
}

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
		"journalfile.(*Journal).Append", "engine.(*Engine).startJournal", "memtable.(*Table).writeInBackground", "trial.(*shop).tidy",
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

// beginning makes the files of a host that is about to begin: a new file; a worn one, which was
// opened before; or what a host left that was killed. It returns what that had told, and the first
// call to be made.
func beginning(t *testing.T, kind string) (dir string, told map[int]json.RawMessage, first int) {
	t.Helper()
	switch kind {
	case "crashed":
		r := recordLives(t, false, episode{calls: 20, memory: scarce}, episode{kill: after(150)})
		return r.dir, r.all, slices.Max(slices.Collect(maps.Keys(r.all))) + 1
	case "worn":
		dir = testenv.TempDir(t)
		path := filepath.Join(dir, "shop.db")
		create(t, path)
		wear(t, path)
		check.Must(t, hostCommand(t.Context(), path, life{first: 0, last: -1}).Run())
		return dir, nil, 0
	}
	dir = testenv.TempDir(t)
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
	w := watch(testenv.TempDir(t), hit, v)
	check.Must(t, os.CopyFS(w.dir, os.DirFS(begin)))
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

// TestNothingToldIsLostAtAnySystemCall ends a host at each call by which it changes its files, and
// makes each of these calls fail as a broken disk and as a full one do. What was told is there when
// the file is opened again; what failed comes to one result when it is asked for again. After
// something has failed of which nobody knows whether it is durable, the ledger does nothing more.
func TestNothingToldIsLostAtAnySystemCall(t *testing.T) {
	Need(t)
	for _, kind := range beginnings {
		t.Run(kind, func(t *testing.T) { endAtEachCall(t, kind) })
	}
}

// endAtEachCall does so with hosts that begin with a new file, a worn one, or after a crash. Calls
// are tried by spots: how a life is cut into commits and checkpoints is not the same each time, so
// their numbers say little.
func endAtEachCall(t *testing.T, kind string) {
	t.Helper()
	begin, before, first := beginning(t, kind)
	rest := life{first, scripted - 1, 1, scarce}
	quiet := live(t, begin, before, rest, nil, Proceed)
	check.Need(t, quiet.status.ExitStatus() == 0 && quiet.said == "" && len(quiet.told) >= 100,
		"%d calls were told of, and the host ended with %v, %s", len(quiet.told), quiet.status, quiet.said)
	wantTold(t, quiet.path, quiet.told)
	for _, cause := range causes() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(quiet.spots)), func(s string) bool { return strings.HasSuffix(s, cause) }) {
			t.Errorf("no file is changed for %s", cause)
		}
	}
	spots := slices.Sorted(maps.Keys(quiet.spots))
	struck, missed := map[string]int{}, 0
	verdicts := []Verdict{Kill, FailIO, FailFull}
	if !testenv.Deep() { // one of the two ways to fail
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
	if !testenv.Deep() { // the quick form tries few lives, and not every life reaches its spot
		enough = len(struck)+missed >= 2
	}
	check.That(t, enough && missed <= 20+len(spots)/2,
		"%d were not reached; something was struck for %d causes", missed, len(struck))
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

// outcome tells what is wrong with how a host ended that was killed at a call, or for which the
// call failed.
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
	case why == "journalfile.(*Journal).Append", why == "ledger.(*Ledger).Forget":
		return wrongUnless(stopped || strings.HasPrefix(s.said, "open: "), "nobody knows what is durable")
	case why == "ledger.Open":
		return wrongUnless(s.status.ExitStatus() == 3 && strings.HasPrefix(s.said, "open: "), "it cannot be opened")
	case why == "ledger.(*Ledger).Close":
		return wrongUnless(s.status.ExitStatus() == 3 && strings.HasPrefix(s.said, "close: "), "it cannot be closed")
	case why == "memtable.(*Table).writeInBackground": // unless nothing was to be done any more
		return wrongUnless(stopped || goesOn && journal == nil, "the checkpoint has failed")
	case why == "engine.(*Engine).startJournal" && led.has("memtable.(*Table).writeFrozen"):
		return wrongUnless(stopped || strings.HasPrefix(s.said, "open: "), "nobody knows whether the file names its journal")
	case why == "engine.(*Engine).startJournal":
		return wrongUnless(goesOn && strings.HasPrefix(s.said, trying) || strings.HasPrefix(s.said, "open: "), "there is no journal yet")
	case why == "trial.(*shop).tidy" && (led.has("memtable.(*Table).writeFrozen") || led.has("memtable.(*Table).callWritten") || strings.HasPrefix(led.place(), "bolt.(*Store).replace:")):
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

// TestAKilledShopEndsAsAQuietOne kills the host of a shop again and again, which makes one call at
// a time. Its log is that of a shop whose host makes the same calls in one life, but for what
// chance decides.
func TestAKilledShopEndsAsAQuietOne(t *testing.T) {
	killed, quiet := filepath.Join(testenv.TempDir(t), "shop.db"), filepath.Join(testenv.TempDir(t), "shop.db")
	create(t, killed)
	create(t, quiet)
	wantTold(t, killed, nil, 0, 1, 2, 3, 4, 5)
	next, lives, calls := opened, 0, tries(120, 400, 2000)
	for ; next < calls; lives++ {
		told := liveAndDie(t, killed, next, 1)
		for n := range told {
			next = max(next, n+1)
		}
		wantTold(t, killed, told, next) // the last call was under way
		next++
	}
	check.Must(t, check.Err(hostCommand(t.Context(), quiet, life{last: next - 1, workers: 1}).Output()))
	got, want := logOf(t, killed), logOf(t, quiet)
	for i := range max(len(got), len(want)) {
		check.Need(t, i < len(got) && i < len(want) && reflect.DeepEqual(got[i], want[i]),
			"event %d is\n%+v\nwithout a kill\n%+v", i+2, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
	}
	t.Logf("%d events of %d calls in %d lives", len(got), next, lives)
}

// logOf returns the events of a closed shop after the first, which names the ledger. They are
// without responses, and without policies, of which two equal ones need not be deeply equal.
func logOf(t *testing.T, path string) (log []says.Event) {
	t.Helper()
	s := check.Value(openShop(path, noTruths, 0))(t)
	defer s.ledger.Close()
	for ev, err := range s.ledger.Events(t.Context(), 2) {
		check.Must(t, err)
		switch d := ev.Says.(type) {
		case says.Released:
			d.Response = ""
			ev.Says = d
		case says.Sold:
			d.Response = ""
			ev.Says = d
		case says.Answered:
			d.Response = ""
			ev.Says = d
		case says.Enrolled:
			d.Policy = nil
			ev.Says = d
		case says.TermsChanged:
			d.Policy = nil
			ev.Says = d
		case says.PolicyDefined:
			ev.Says = nil
		}
		log = append(log, ev)
	}
	return log
}
