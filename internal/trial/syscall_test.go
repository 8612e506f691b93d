package trial

import (
	"encoding/json"
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
	"github.com/sluicedp/sluice/internal/trial/trace"
)

// scripted is how many calls of a shop make the fixed script.
const scripted = 60

// watched sees the calls that change files in a directory, and what the host tells.
type watched struct {
	dir     string
	at      int // the number of the call that gets the verdict, from 1; 0 for none
	verdict trace.Verdict
	n       int // calls so far
	what    trace.Call
	told    strings.Builder
}

func (w *watched) Before(c *trace.Call) trace.Verdict {
	if !strings.HasPrefix(c.Path, w.dir) {
		return trace.Proceed
	}
	if w.n++; w.n == w.at {
		w.what = *c
		return w.verdict
	}
	return trace.Proceed
}

func (w *watched) After(c *trace.Call) {
	if c.FD == 1 && c.Kind == trace.Write {
		w.told.Write(c.Data)
	}
}

// live lets a host make the calls of the script. It returns what was told, and what the host said when it ended.
func (w *watched) live(t *testing.T, path string) (told map[int]json.RawMessage, status syscall.WaitStatus, said string) {
	t.Helper()
	cmd := hostCommand(t.Context(), path, 0, scripted-1, 1)
	var out strings.Builder
	cmd.Stderr = &out
	status, err := trace.Run(cmd, w)
	if err != nil {
		t.Fatal(err)
	}
	told = map[int]json.RawMessage{}
	for line := range strings.Lines(w.told.String()) {
		collect(t, told, line)
	}
	return told, status, out.String()
}

// TestNothingToldIsLostAtAnySystemCall ends a host at each call by which it changes its files, and makes each of these
// calls fail as a broken disk and as a full one do. What was told is there when the file is opened again; what failed
// comes to one result when it is asked for again. After a commit has failed, the ledger does nothing more.
func TestNothingToldIsLostAtAnySystemCall(t *testing.T) {
	trace.Need(t)
	for _, worn := range []bool{false, true} {
		t.Run(fmt.Sprintf("worn=%v", worn), func(t *testing.T) { endAtEachCall(t, worn) })
	}
}

// endAtEachCall does so with lives that begin with a new file, or with a worn one.
func endAtEachCall(t *testing.T, worn bool) {
	t.Helper()
	blank := filepath.Join(pace.Scratch(t), "blank.db")
	if create(t, blank); worn {
		wear(t, blank)
	}
	text, err := os.ReadFile(blank)
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() (w *watched, path string) {
		dir := pace.Scratch(t)
		path = filepath.Join(dir, "shop.db")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return &watched{dir: dir}, path
	}
	quiet, path := fresh()
	all, status, said := quiet.live(t, path)
	if status != 0 || len(all) < 50 {
		t.Fatalf("%d calls were told of, and the host ended with %v, %s", len(all), status, said)
	}
	wantTold(t, path, all)
	points := quiet.n
	step := max(1, points/tries(6, 40, points))
	t.Logf("%d calls change files; every %d. of them is tried, three ways", points, step)
	kinds, missed := map[trace.Kind]int{}, 0
	for _, verdict := range []trace.Verdict{trace.Kill, trace.FailIO, trace.FailFull} {
		for at := 1 + rand.IntN(step); at <= points; at += step { // other calls in each run
			w, path := fresh()
			w.at, w.verdict = at, verdict
			told, status, said := w.live(t, path)
			if w.n < at {
				missed++ // how a life is cut into transactions is not the same each time
				forget(t, w.dir)
				continue
			}
			kinds[w.what.Kind]++
			switch {
			case verdict == trace.Kill && !(status.Signaled() && status.Signal() == syscall.SIGKILL):
				t.Errorf("killed at call %d, %s: it ended with %v, %s", at, w.what.Kind, status, said)
			case w.what.Kind == trace.Remove && status == 0 && said == "": // what is removed is gone already
			case verdict != trace.Kill && w.what.Kind == trace.Link && status == 0 && said == "": // a copy is moved to its place instead
			case verdict != trace.Kill && strings.HasPrefix(said, tidying) && status.Exited() && !strings.Contains(said, "has failed, comes to"):
			case verdict != trace.Kill && (status.ExitStatus() != 3 || !strings.Contains(said, errnoText(verdict)) || strings.Contains(said, "has failed, comes to")):
				t.Errorf("failed at call %d, %s: it ended with %v, %s", at, w.what.Kind, status, said)
			}
			wantTold(t, path, told, slices.Sorted(maps.Keys(without(all, told)))...)
			if forget(t, w.dir); t.Failed() {
				t.Fatalf("verdict %d at call %d, %s of %s", verdict, at, w.what.Kind, w.what.Path)
			}
		}
	}
	t.Logf("tried: %v, not reached: %d", kinds, missed)
	if missed > 30 {
		t.Errorf("%d calls were not reached", missed)
	}
}

func errnoText(v trace.Verdict) string {
	if v == trace.FailFull {
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
