package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// Invariants 1, 5 and 9 for a host that is killed.

func TestADayOfKillsEndsAsAQuietOne(t *testing.T) {
	path := newFile(t)
	told, rounds := map[int]dayReply{}, 0
	for through := false; !through; rounds++ {
		if rounds == 20*dayCalls {
			t.Fatal("the day does not end")
		}
		through = liveDay(t, path, rounds, told)
	}
	rough, err := ledger.Open(t.Context(), path, ledger.Options{Now: func() time.Time { return dawn().Add(dayCalls * time.Minute) }})
	Must(t, err)
	defer rough.Close()
	AuditAll(t, rough)
	wantSameAsQuiet(t, rough, told)
	failed := 0
	for _, one := range told {
		if one.Err != "" {
			failed++
		}
	}
	t.Logf("%d calls, %d of them refused, in %d lives: %+v", len(told), failed, rounds, Stats(t, rough))
}

// liveDay starts a host, lets it repeat what was told and go on, and kills it after a few calls. It adds
// what was told now, and tells whether the host came to the end of its day.
func liveDay(t *testing.T, path string, round int, told map[int]dayReply) (through bool) {
	t.Helper()
	before, err := json.Marshal(told)
	Must(t, err)
	file := filepath.Join(t.TempDir(), "told.json")
	Must(t, os.WriteFile(file, before, 0o600))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDayChild$")
	child.Env = append(os.Environ(), dayPath+"="+path, dayTold+"="+file, dayRound+"="+strconv.Itoa(round))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	Must(t, err)
	Must(t, child.Start())
	kill := func() { _ = child.Process.Kill() }
	fresh, most := 0, rand.IntN(9)
	if most == 0 { // while it opens the file, or repeats what was told before
		time.AfterFunc(time.Duration(rand.IntN(40))*time.Millisecond, kill)
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Logf("reading: %v", err)
			}
			break // the rest of a line that was cut off was told to nobody
		}
		var one dayReply
		if err := json.Unmarshal(line, &one); err != nil {
			if bytes.HasPrefix(line, []byte("PASS")) {
				through = true
				continue
			}
			if through {
				continue // what package testing says of coverage
			}
			t.Fatalf("the host says %s", line)
		}
		if old, known := told[one.N]; known {
			var granted api.Reservation
			if one.Closed != 0 && json.Unmarshal(old.Result, &granted) == nil && granted.Number == one.Closed {
				continue // the reservation is not open any more, and says so
			}
			if one.Err != "" || !bytes.Equal(one.Result, old.Result) {
				t.Fatalf("call %d came to\n%s\nand after a crash to\n%s %s", one.N, old.Result, one.Result, one.Err)
			}
			continue
		}
		told[one.N] = one
		if fresh++; fresh == most {
			time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, kill)
		}
	}
	if err := child.Wait(); err == nil && !through {
		t.Fatal("the host went without a word")
	}
	return through
}

// TestDayChild is the host that gets killed. In any other process it does nothing.
func TestDayChild(t *testing.T) {
	path := os.Getenv(dayPath)
	if path == "" {
		return
	}
	before := map[int]dayReply{}
	text, err := os.ReadFile(os.Getenv(dayTold))
	Must(t, err)
	Must(t, json.Unmarshal(text, &before))
	d, err := newDay(path)
	Must(t, err)
	d.live(before, func(one dayReply) {
		line, _ := json.Marshal(one)
		_, _ = os.Stdout.Write(append(line, '\n'))
	})
	Must(t, d.ledger.Close())
}

func newFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(pace.Scratch(t), "ledger.db")
	Must(t, ledger.Create(t.Context(), path, ledger.CreateOptions{Currency: "USD"}))
	return path
}
