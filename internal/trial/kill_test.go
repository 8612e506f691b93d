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

// Variables of the environment that make the test program the host of a shop.
const (
	hostPath  = "SLUICE_TRIAL_PATH"
	hostCalls = "SLUICE_TRIAL_CALLS" // the numbers of a life, or "create"
)

// life is one run of the host process: the calls that it makes before it closes its shop.
type life struct {
	first, last int // calls
	workers     int
	memory      int64 // [ledger.Options]
}

// smallMemory is so little memory that a checkpoint follows every few calls and runs beside the
// next ones.
const smallMemory = 8 << 10

// closed is what the host prints after it has closed its shop.
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

// host opens a shop and makes calls. It prints the reply of each executed call on a line of its
// own, as soon as it has it.
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
				s.maintain(path, n)
				one, err := s.makeCall(context.Background(), n)
				if err != nil && !refused(err) && !errors.Is(err, api.ErrStopped) {
					fmt.Fprintln(os.Stderr, retrying, err)
					one, err = s.makeCall(context.Background(), n)
				}
				if err != nil && !refused(err) {
					faults <- errors.Join(fmt.Errorf("call %d: %w", n, err), s.checkStopped(n))
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

// maintain compacts the file, or makes a copy, after some of the calls. If that fails, the calls
// continue.
func (s *shop) maintain(path string, n int) {
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
	if err != nil && !errors.Is(err, fs.ErrExist) { // it was made in an earlier life
		fmt.Fprintln(os.Stderr, maintaining, err)
	}
}

// What the host prints when maintenance has failed; and when a call has failed although the ledger
// has not stopped, before it makes the call again.
const (
	maintaining = "maintenance failed: "
	retrying    = "trying again: "
)

// copied makes a copy, and reports it.
func copied(path string, n int, copyTo func(context.Context, string, func(done, total int)) (api.Copied, error)) error {
	to := fmt.Sprint(path, ".", n)
	if _, err := copyTo(context.Background(), to, nil); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, copying+filepath.Base(to))
	return nil
}

// copying is the beginning of a line that reports a copy. The name of the copy follows.
const copying = "copied to "

// checkStopped makes more calls after a call has failed for another reason than a refusal. Each
// must return that the ledger has stopped.
func (s *shop) checkStopped(failed int) error {
	for n := failed; n < failed+12; n++ {
		if _, err := s.makeCall(context.Background(), n); !errors.Is(err, api.ErrStopped) && !refused(err) {
			return fmt.Errorf("call %d, after call %d has failed, returns %w", n, failed, err)
		}
	}
	return nil
}

// hostCommand returns the command of a host process.
func hostCommand(ctx context.Context, path string, l life) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), hostPath+"="+path, fmt.Sprintf("%s=%d %d %d %d", hostCalls, l.first, l.last, l.workers, l.memory))
	return cmd
}

// collect adds the reply in a line, if the line is complete. It returns -1 for other lines.
func collect(t testing.TB, replies map[int]json.RawMessage, line string) (n int, whole bool) {
	t.Helper()
	if !strings.HasSuffix(line, "\n") {
		return 0, false // the host was killed before the rest
	}
	if line == closed || strings.HasPrefix(line, copying) {
		return -1, true
	}
	var one reply
	err := json.Unmarshal([]byte(line), &one)
	check.Need(t, err == nil, "the host prints %q, which is not a reply", line)
	replies[one.N] = one.Result
	return one.N, true
}

// A host is killed at random, with four calls in progress, and its file is opened again. Every
// reply of all of its lives must be there, unchanged. The calls that were in progress are made
// again: each has one result, which stays. Every second file is a worn one. (A kill also preserves
// what was never synced; for that see [TestHost_PowerCut_LosesNoReply].)
func TestHost_KilledAtRandom_LosesNoReply(t *testing.T) {
	const workers = 4
	kills, callsOfAFile := tries(12, 300, 10_000), testenv.Tries(100, 400, 400)
	var path string
	replies, next, files, total := map[int]json.RawMessage{}, 0, 0, 0
	for life := range kills {
		if next > callsOfAFile || life == 0 {
			if life > 0 {
				wantReplies(t, path, replies)
				removeDir(t, filepath.Dir(path))
			}
			path = filepath.Join(testenv.TempDir(t), []string{"shop.db", wornName}[files%2])
			if create(t, path); files%2 == 1 {
				addFreePages(t, path)
			}
			replies, next, total = map[int]json.RawMessage{}, 0, total+len(replies)
			files++
			wantReplies(t, path, nil, 0, 1, 2, 3, 4, 5)
			next = setupCalls
		}
		fresh := runAndKill(t, path, next, workers)
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
		maps.Copy(replies, fresh)
		maps.Copy(replies, wantReplies(t, path, fresh, open...))
		if next = reached + workers; t.Failed() {
			t.Fatalf("life %d: calls %d to %d; the host reported %d of them", life, next, reached, len(fresh))
		}
	}
	wantReplies(t, path, replies)
	t.Logf("%d kills, %d files, %d replies", kills, files, total+len(replies))
}

// runAndKill starts a host and kills it at random, while it opens the file or soon after a reply.
func runAndKill(t *testing.T, path string, first, workers int) map[int]json.RawMessage {
	t.Helper()
	cmd := hostCommand(t.Context(), path, life{first, first + 1000, workers, []int64{0, smallMemory}[rand.IntN(2)]})
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	check.Must(t, err)
	kill := func() { _ = cmd.Process.Kill() }
	after, replies := rand.IntN(12), map[int]json.RawMessage{}
	if after == 0 {
		time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, kill)
	}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if _, whole := collect(t, replies, line); !whole || err != nil {
			break
		}
		if len(replies) == after {
			time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, kill)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatalf("the host ended after %s calls, before it was killed", strconv.Itoa(len(replies)))
	}
	return replies
}

// The host, in one life, makes calls of all kinds, and most of them succeed. Otherwise the tests
// with kills would test little.
func TestHost_NotKilled_MakesAllKindsOfCalls(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "shop.db")
	create(t, path)
	replies := map[int]json.RawMessage{}
	cmd := hostCommand(t.Context(), path, life{first: 0, last: 399, workers: 1})
	out := check.Value(cmd.Output())(t)
	kinds := map[int]int{}
	for line := range strings.Lines(string(out)) {
		n, _ := collect(t, replies, line)
		if n >= setupCalls {
			kinds[n%10]++
		}
	}
	wantReplies(t, path, replies)
	check.That(t, len(replies) >= 300 && len(kinds) == 10,
		"%d calls succeeded, of %d kinds: %v; want 300 of 10 kinds", len(replies), len(kinds), kinds)
}

// scriptCalls is the number of calls in the fixed script.
const scriptCalls = 120

// watched observes the calls that change files in a directory, and what the host prints.
type watched struct {
	dir     string
	hit     func(*Call) bool // the first call for which hit is true gets the verdict; nil for no call
	verdict Verdict
	faulted *Call
	n       int            // the number of calls so far
	spots   map[string]int // the number of calls at each spot, if hit is nil
	output  strings.Builder
}

// watch returns a Watcher for a directory.
func watch(dir string, hit func(*Call) bool, v Verdict) *watched {
	return &watched{dir: dir, hit: hit, verdict: v, spots: map[string]int{}}
}

func (w *watched) Before(c *Call) Verdict {
	if !within(w.dir, c.Path) {
		return Proceed
	}
	if w.n++; w.hit == nil {
		w.spots[callers(c).spot(c.Kind)]++
	} else if w.faulted == nil && w.hit(c) {
		w.faulted = c
		return w.verdict
	}
	return Proceed
}

func (w *watched) After(c *Call) {
	if c.FD == 1 && c.Kind == Write {
		w.output.Write(c.Data)
	}
}

// causes lists what a host may be doing when it changes a file. The innermost function counts.
func causes() []string {
	return []string{
		"journalfile.(*Journal).Append", "engine.(*Engine).startJournal", "memtable.(*Table).writeInBackground", "trial.(*shop).maintain",
		"ledger.(*Ledger).Forget", "ledger.(*Ledger).Close", "ledger.Open",
	}
}

// cause returns the cause of a call, or "".
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

// spot identifies calls by their kind, their place in the code, and their cause.
func (s stack) spot(kind Kind) string {
	return fmt.Sprintf("%s at %s for %s", kind, s.place(), s.cause())
}

// startKinds are the kinds of files with which a host begins.
var startKinds = []string{"new", "worn", "crashed"}

// startFiles creates the files of a host: a new file; a worn one that was opened before; or the
// files of a host that was killed. It also returns the replies so far, and the number of the next
// call.
func startFiles(t *testing.T, kind string) (dir string, replies map[int]json.RawMessage, first int) {
	t.Helper()
	switch kind {
	case "crashed":
		r := recordLives(t, false, episode{calls: 20, memory: smallMemory}, episode{kill: after(150)})
		return r.dir, r.all, slices.Max(slices.Collect(maps.Keys(r.all))) + 1
	case "worn":
		dir = testenv.TempDir(t)
		path := filepath.Join(dir, "shop.db")
		create(t, path)
		addFreePages(t, path)
		check.Must(t, hostCommand(t.Context(), path, life{first: 0, last: -1}).Run())
		return dir, nil, 0
	}
	dir = testenv.TempDir(t)
	create(t, filepath.Join(dir, "shop.db"))
	return dir, nil, 0
}

// faultedLife is a life in which one call is killed or fails.
type faultedLife struct {
	*watched
	path    string
	replies map[int]json.RawMessage // the replies of this life and earlier ones
	status  syscall.WaitStatus
	stderr  string
}

// runHost runs a host that begins with the given files and earlier replies.
func runHost(t *testing.T, begin string, before map[int]json.RawMessage, l life, hit func(*Call) bool, v Verdict) *faultedLife {
	t.Helper()
	w := watch(testenv.TempDir(t), hit, v)
	check.Must(t, os.CopyFS(w.dir, os.DirFS(begin)))
	s := &faultedLife{watched: w, path: filepath.Join(w.dir, "shop.db"), replies: maps.Clone(before)}
	cmd := hostCommand(t.Context(), s.path, l)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	var err error
	if s.status, err = Run(cmd, w); err != nil {
		t.Fatal(err)
	}
	if s.stderr = stderr.String(); s.replies == nil {
		s.replies = map[int]json.RawMessage{}
	}
	for line := range strings.Lines(w.output.String()) {
		collect(t, s.replies, line)
	}
	return s
}

// A host is killed at each call that changes its files, and each of these calls fails as on a
// broken disk and on a full one. After the file is opened again, every reply is unchanged, and a
// failed call has one result when it is made again. After a failure that leaves it unknown what is
// durable, the ledger does nothing more.
func TestHost_KilledOrFailsAtEachSystemCall_LosesNoReply(t *testing.T) {
	Need(t)
	for _, kind := range startKinds {
		t.Run(kind, func(t *testing.T) { endAtEachCall(t, kind) })
	}
}

// endAtEachCall tests hosts that begin with one kind of files. It selects calls by their spots, not
// by their numbers, because a life is divided into commits and checkpoints differently in each run.
func endAtEachCall(t *testing.T, kind string) {
	t.Helper()
	begin, before, first := startFiles(t, kind)
	rest := life{first, scriptCalls - 1, 1, smallMemory}
	quiet := runHost(t, begin, before, rest, nil, Proceed)
	check.Need(t, quiet.status.ExitStatus() == 0 && quiet.stderr == "" && len(quiet.replies) >= 100,
		"%d replies without a fault, and the host ended with %v, %s", len(quiet.replies), quiet.status, quiet.stderr)
	wantReplies(t, quiet.path, quiet.replies)
	for _, cause := range causes() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(quiet.spots)), func(s string) bool { return strings.HasSuffix(s, cause) }) {
			t.Errorf("no call changes a file because of %s", cause)
		}
	}
	spots := slices.Sorted(maps.Keys(quiet.spots))
	faulted, missed := map[string]int{}, 0
	verdicts := []Verdict{Kill, FailIO, FailFull}
	if !testenv.Deep() { // one of the two failures
		i := 1 + rand.IntN(2)
		verdicts = slices.Delete(verdicts, i, i+1)
	}
	for _, verdict := range verdicts {
		for _, spot := range someSpots(spots, faulted, tries(2, 20, len(spots))) {
			for _, nth := range nths(quiet.spots[spot]) {
				hit := func(c *Call) bool {
					if c.Kind == kindOf(spot) && callers(c).spot(c.Kind) == spot {
						nth--
					}
					return nth == 0
				}
				s := runHost(t, begin, before, rest, hit, verdict)
				if s.faulted == nil {
					missed++
				} else {
					faulted[callers(s.faulted).cause()]++
					if err := s.outcome(); err != nil {
						t.Errorf("%v; the host ended with %v, %s", err, s.status, s.stderr)
					}
				}
				wantReplies(t, s.path, s.replies, slices.Sorted(maps.Keys(without(quiet.replies, s.replies)))...)
				if removeDir(t, s.dir); t.Failed() {
					t.Fatalf("verdict %d at %s: %s of %s", verdict, spot, s.faulted.Kind, s.faulted.Path)
				}
			}
		}
	}
	t.Logf("%d spots; calls hit: %v, not reached: %d", len(spots), faulted, missed)
	enough := len(faulted) >= 3
	if !testenv.Deep() { // the quick form tries few lives, and not every life reaches its spot
		enough = len(faulted)+missed >= 2
	}
	check.That(t, enough && missed <= 20+len(spots)/2,
		"%d spots were not reached; calls of %d causes were hit", missed, len(faulted))
}

// someSpots returns n spots at random. Spots whose cause was hit least often come first.
func someSpots(spots []string, faulted map[string]int, n int) []string {
	ranks, of := map[string]int{}, maps.Clone(faulted)
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

// nths returns which of the n calls at a spot are tried: in the long form up to six, else one.
func nths(n int) (nths []int) {
	for range min(n, tries(1, 1, 6)) {
		nths = append(nths, 1+rand.IntN(n))
	}
	return nths
}

// outcome returns an error if the host did not end as it should after one call was killed or
// failed.
func (s *faultedLife) outcome() error {
	c, led := s.faulted, callers(s.faulted)
	stopped := s.status.ExitStatus() == 3 && strings.Contains(s.stderr, api.ErrStopped.Error())
	hasContinued := s.status.ExitStatus() == 0
	_, journal := os.Stat(s.path + ".journal")
	switch why := led.cause(); {
	case s.verdict == Kill:
		return wrongUnless(s.status.Signaled() && s.status.Signal() == syscall.SIGKILL, "the host should have been killed")
	case c.Kind == Link, c.Kind == Remove && strings.HasSuffix(c.Path, ".sluice-unfinished"):
		// Another call creates the copy instead, or the next copy removes the leftover file.
		return wrongUnless(hasContinued && (s.stderr == "" || strings.HasPrefix(s.stderr, maintaining)), "the host should continue")
	case c.Kind == Remove && strings.HasPrefix(filepath.Base(c.Path), "shop.db.journal") && hasContinued && s.stderr == "":
		return wrongUnless(journal != nil, "the journal should be removed: package os removes a directory by a second call")
	case !strings.Contains(s.stderr, errnoText(s.verdict)) && !(hasContinued && journal == nil), strings.Contains(s.stderr, "has failed, returns"):
		return errors.New("the host should report the error of the failed call")
	case why == "journalfile.(*Journal).Append", why == "ledger.(*Ledger).Forget":
		return wrongUnless(stopped || strings.HasPrefix(s.stderr, "open: "), "the ledger should have stopped: it is unknown what is durable")
	case why == "ledger.Open":
		return wrongUnless(s.status.ExitStatus() == 3 && strings.HasPrefix(s.stderr, "open: "), "opening the ledger should fail")
	case why == "ledger.(*Ledger).Close":
		return wrongUnless(s.status.ExitStatus() == 3 && strings.HasPrefix(s.stderr, "close: "), "closing the ledger should fail")
	case why == "memtable.(*Table).writeInBackground": // or there was nothing left to do
		return wrongUnless(stopped || hasContinued && journal == nil, "the ledger should have stopped: its checkpoint has failed")
	case why == "engine.(*Engine).startJournal" && led.has("memtable.(*Table).writeFrozen"):
		return wrongUnless(stopped || strings.HasPrefix(s.stderr, "open: "), "the ledger should have stopped: it is unknown whether the file names its journal")
	case why == "engine.(*Engine).startJournal":
		return wrongUnless(hasContinued && strings.HasPrefix(s.stderr, retrying) || strings.HasPrefix(s.stderr, "open: "), "the call should be made again, or opening should fail: there is no journal yet")
	case why == "trial.(*shop).maintain" && (led.has("memtable.(*Table).writeFrozen") || led.has("memtable.(*Table).callWritten") || strings.HasPrefix(led.place(), "bolt.(*Store).replace:")):
		return wrongUnless(stopped, "the ledger should have stopped: it is unknown what is durable")
	case why == "trial.(*shop).maintain":
		return wrongUnless(hasContinued && strings.HasPrefix(s.stderr, maintaining), "the host should continue without a copy")
	}
	return errors.New("the call has none of the known causes")
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

// without returns the entries of one map that are not in the other.
func without(all, these map[int]json.RawMessage) map[int]json.RawMessage {
	rest := map[int]json.RawMessage{}
	for n, text := range all {
		if these[n] == nil {
			rest[n] = text
		}
	}
	return rest
}

// The log of a host that was killed many times, and makes one call at a time, equals the log of a
// host that makes the same calls in one life, apart from random values.
func TestHost_KilledAtRandom_WritesTheSameLog(t *testing.T) {
	killed, quiet := filepath.Join(testenv.TempDir(t), "shop.db"), filepath.Join(testenv.TempDir(t), "shop.db")
	create(t, killed)
	create(t, quiet)
	wantReplies(t, killed, nil, 0, 1, 2, 3, 4, 5)
	next, lives, calls := setupCalls, 0, tries(120, 400, 2000)
	for ; next < calls; lives++ {
		replies := runAndKill(t, killed, next, 1)
		for n := range replies {
			next = max(next, n+1)
		}
		wantReplies(t, killed, replies, next) // the last call was in progress
		next++
	}
	check.Must(t, check.Err(hostCommand(t.Context(), quiet, life{last: next - 1, workers: 1}).Output()))
	got, want := logOf(t, killed), logOf(t, quiet)
	for i := range max(len(got), len(want)) {
		check.Need(t, i < len(got) && i < len(want) && reflect.DeepEqual(got[i], want[i]),
			"event %d of the killed host is\n%+v\nand without a kill\n%+v", i+2, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
	}
	t.Logf("%d events of %d calls in %d lives", len(got), next, lives)
}

// logOf returns the events of a closed shop after the first one, which names the ledger. It removes
// responses, and policies, because equal policies need not be deeply equal.
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
