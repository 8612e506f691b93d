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
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
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

// scarce is so little memory that each few calls are followed by a checkpoint, beside what comes next.
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

// host opens a shop and makes calls. Each that is carried out it tells in a line of its own, when it knows.
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

// tidy compacts the file, or makes a copy, beside some of the calls. If that fails, calls may go on or fail.
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

// What a host says when it could not tidy; and when a call has failed, without the ledger having stopped, before it makes the call again.
const (
	tidying = "tidying: "
	trying  = "trying again: "
)

// copied makes a copy, and tells so.
func copied(path string, n int, copyTo func(context.Context, string, api.Progress) (api.Copied, error)) error {
	to := fmt.Sprint(path, ".", n)
	if _, err := copyTo(context.Background(), to, nil); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, copying+filepath.Base(to))
	return nil
}

// copying begins a line that tells that a copy was made; its name follows.
const copying = "copied to "

// goOn makes more calls after one has failed for another reason than a refusal: all must say that the ledger has stopped.
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
	if err := json.Unmarshal([]byte(line), &one); err != nil {
		t.Fatalf("the host says %q", line)
	}
	told[one.N] = one.Result
	return one.N, true
}

// TestNothingToldIsLostByAKill kills a host at random, with four calls under way at a time, and opens its file again. All that it has told in all
// of its lives must be there, the same; what was under way is asked for again, comes to one result, and stays.
// Every second file is a worn one. (What is written survives a kill also if it was never synced: see
// [TestNoPowerCutLosesWhatWasTold] for that.)
func TestNothingToldIsLostByAKill(t *testing.T) {
	const workers = 4
	kills, callsOfAFile := tries(12, 300, 10_000), pace.Tries(100, 400, 400)
	var path string
	told, next, files, total := map[int]json.RawMessage{}, 0, 0, 0
	for life := range kills {
		if next > callsOfAFile || life == 0 {
			if life > 0 {
				wantTold(t, path, told)
				forget(t, filepath.Dir(path))
			}
			path = filepath.Join(pace.Scratch(t), []string{"shop.db", wornName}[files%2])
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

// liveAndDie starts a host and kills it at random: while it opens the file, or soon after it has told something.
func liveAndDie(t *testing.T, path string, first, workers int) map[int]json.RawMessage {
	t.Helper()
	cmd := hostCommand(t.Context(), path, life{first, first + 1000, workers, []int64{0, scarce}[rand.IntN(2)]})
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
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

// TestTheShopIsAQuietOne makes all calls in one life: they are of all kinds, and most are carried out.
func TestTheShopIsAQuietOne(t *testing.T) {
	path := filepath.Join(pace.Scratch(t), "shop.db")
	create(t, path)
	told := map[int]json.RawMessage{}
	cmd := hostCommand(t.Context(), path, life{first: 0, last: 399, workers: 1})
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[int]int{}
	for line := range strings.Lines(string(out)) {
		n, _ := collect(t, told, line)
		if n >= opened {
			kinds[n%10]++
		}
	}
	wantTold(t, path, told)
	if len(told) < 300 || len(kinds) != 10 {
		t.Errorf("%d calls carried out, of %d kinds: %v", len(told), len(kinds), kinds)
	}
}
