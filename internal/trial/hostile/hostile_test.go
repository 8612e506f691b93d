package hostile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
)

// What a child may take for one file. The machine may be busy with other things: so a file has hung if it takes too long
// each time that it is tried.
const (
	patience   = 3 * time.Second
	tries      = 5
	forever    = 60 * time.Second // after which the child is killed
	mostMemory = 256 << 20
)

// child is a process that opens files.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
	died   error
}

func startChild(t *testing.T) *child {
	t.Helper()
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"=yes")
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	c.in, c.out = in, bufio.NewReader(out)
	must(t, c.cmd.Start())
	return c
}

// ask has a file looked at. An error says that the child died, or was killed because it took too long; it is gone then.
func (c *child) ask(one task) (found finding, err error) {
	hung := time.AfterFunc(forever, func() { _ = c.cmd.Process.Kill() })
	if err = json.NewEncoder(c.in).Encode(one); err == nil {
		var line []byte
		if line, err = c.out.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &found)
		}
	}
	if !hung.Stop() {
		err = fmt.Errorf("it took longer than %v", forever)
	}
	if err != nil {
		c.end()
		return found, fmt.Errorf("the process ended: %w: %w\n%.1500s", err, c.died, c.stderr.String())
	}
	return found, nil
}

// askPatiently asks again if it takes too long, and says so if it does each time.
func (c *child) askPatiently(t *testing.T, one task, data []byte) (found finding, took time.Duration, err error) {
	t.Helper()
	for range tries {
		dropLeftovers(t, one.Path)
		must(t, os.WriteFile(one.Path, data, 0o600))
		began := time.Now()
		found, err = c.ask(one)
		if took = time.Since(began); err != nil || took < patience {
			return found, took, err
		}
	}
	return found, took, fmt.Errorf("it takes %v", took)
}

// dropLeftovers removes what lies beside a file. A damaged one that was used may leave its journal there, and each file
// after it would be refused for that. The file itself stays, as a new one would count as a copy.
func dropLeftovers(t *testing.T, path string) {
	t.Helper()
	beside, err := filepath.Glob(path + "?*")
	must(t, err)
	for _, leftover := range beside {
		must(t, os.RemoveAll(leftover))
	}
}

func (c *child) end() {
	_ = c.in.Close()
	if c.cmd.ProcessState == nil {
		c.died = c.cmd.Wait()
	}
}

// tally counts what came of the files.
type tally struct{ refused, reported, same, used, usedDamaged int }

// hurry is how many times fewer files there are under the race detector, which makes everything some eight times slower.
const hurry = 1 + 9*pace.Race

// TestNoDamageIsPassedOver damages a file in all ways, has another process look at each, and has it used.
func TestNoDamageIsPassedOver(t *testing.T) {
	files := pace.Tries(max(8, 48/hurry), 240/hurry, 10_000)
	sound, checkpoint := specimen(t)
	wantRich(t, sound)
	path := filepath.Join(pace.Scratch(t), "ledger.db") // opening a file that was changed syncs it
	c := startChild(t)
	defer func() { c.end() }()
	sound = settled(t, path, sound)
	want, err := c.ask(task{Path: path, Checkpoint: checkpoint, Use: true})
	if err != nil || want.Refused != "" || want.Problems > 0 || want.Failed != "" || want.Used < 10 {
		t.Fatalf("the sound file: %+v, %v", want, err)
	}
	var n tally
	memory, slowest := want.Memory, time.Duration(0)
	for i := range files {
		data, what, meta := damage(sound, i)
		one := task{Path: path, Use: true}
		if meta {
			one.Checkpoint = checkpoint
		}
		found, took, err := c.askPatiently(t, one, data)
		slowest = max(slowest, took)
		if err != nil {
			t.Errorf("file %d: %s: %v; it is kept as %s", i, what, err, keep(t, i, data))
			c.end() // unless it is gone
			c = startChild(t)
			continue
		}
		if found.Memory > mostMemory && memory <= mostMemory {
			t.Errorf("file %d: %s: the process has %d MiB", i, what, found.Memory>>20)
		}
		memory = max(memory, found.Memory)
		if i%1000 == 999 {
			t.Logf("%d files: %+v", i+1, n)
		}
		n.judge(t, fmt.Sprintf("file %d: %s", i, what), found, want.Content)
	}
	t.Logf("%d files of %d KiB: %+v; %d MiB, %v at most", files, len(sound)>>10, n, memory>>20, slowest)
	// Of 24 files one is refused always, as it is cut off, and a second mostly. Fewer need not have all sorts.
	if files < 24 {
		return
	}
	if n.refused < files/20 || n.reported*20 < files || n.same*100 < files || n.usedDamaged*100 < files {
		t.Errorf("the damage is not of all sorts: %+v", n)
	}
}

// settled puts a ledger at a place and changes it there, so that it is no copy, which would be audited before it is used.
func settled(t *testing.T, path string, data []byte) (file []byte) {
	t.Helper()
	must(t, os.WriteFile(path, data, 0o600))
	l, err := open(path, false)
	must(t, err)
	_, err = l.Release(t.Context(), api.ReleaseRequest{Key: "settled", Question: vote, Object: people(300, 400)[99], Epsilon: tenths(13), Truth: truths})
	must(t, errors.Join(err, l.Close()))
	file, err = os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, file, 0o600))
	return file
}

// keep writes a file that somebody should look at. Each run damages another ledger.
func keep(t *testing.T, i int, data []byte) string {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("sluice-hostile-%d-%d.db", os.Getpid(), i))
	must(t, os.WriteFile(path, data, 0o600))
	return path
}

func (n *tally) judge(t *testing.T, what string, found finding, want string) {
	t.Helper()
	switch {
	case found.Failed != "":
		t.Errorf("%s: %s", what, found.Failed)
	case found.Refused != "":
		n.refused++
	case found.Problems > 0:
		n.reported++
	case found.Content != want:
		t.Errorf("%s: the file is clean, and another one", what)
	default:
		n.same++
	}
	if found.Used > 0 {
		n.used++
		if found.Problems > 0 {
			n.usedDamaged++
		}
	}
}

// wantRich fails if the file has not all that there is to damage.
func wantRich(t *testing.T, sound []byte) {
	t.Helper()
	kinds := map[uint16]int{}
	d := &damager{data: sound, pageSize: os.Getpagesize()}
	for id := 2; id < d.pages(); id++ {
		kinds[uint16(d.page(id)[8])]++
	}
	if kinds[branchKind] < 5 || kinds[leafKind] < 100 || kinds[freeKind] < 1 {
		t.Errorf("pages of each kind: %v", kinds)
	}
}
