package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/internal/trial/trace"
)

// recorded is a life of a host, with the disk as it was before.
type recorded struct {
	*record
	before func() (*disk, error)
	all    map[int]json.RawMessage // that it told
}

// recordLives lets a host make the calls of the script. It is killed now and then, and begins again where it was: what it
// wrote before shows in its next life, whether or not it was synced. Its file is a new one, or worn.
func recordLives(t *testing.T, worn bool, kills ...int) *recorded {
	t.Helper()
	dir, before := pace.Scratch(t), pace.Scratch(t)
	path, blank := filepath.Join(dir, "shop.db"), filepath.Join(before, "shop.db")
	if create(t, blank); worn {
		wear(t, blank)
	}
	text, err := os.ReadFile(blank)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &recorded{record: newRecord(dir), all: map[int]json.RawMessage{}}
	r.before = func() (*disk, error) {
		d, err := newDisk(before)
		if err == nil {
			d.files = names{path: d.files[blank]}
			d.kept = maps.Clone(d.files)
		}
		return d, err
	}
	first, seen := 0, 0
	for _, kill := range append(kills, 0) {
		r.kill = kill
		cmd := hostCommand(t.Context(), path, first, scripted-1, 1)
		cmd.Stderr = os.Stderr
		if status, err := trace.Run(cmd, r); err != nil || status.Signaled() != (kill > 0) {
			t.Fatalf("the host ended with %v, %v", status, err)
		}
		for ; seen < len(r.events); seen++ {
			if told := r.events[seen].told; told != "" {
				n, _ := collect(t, r.all, told)
				first = max(first, n+1)
			}
		}
	}
	return r
}

// cut builds images of what may be left at one event of the record each, and looks at each of them.
func (r *recorded) cut(ctx context.Context, random *rand.Rand, scratch string, images int, lies bool) (losses int, err error) {
	at := make([]int, images) // the number of events that have happened
	for i := range at {
		at[i] = 1 + random.IntN(len(r.events))
	}
	slices.Sort(at)
	d, err := r.before()
	if err != nil {
		return 0, err
	}
	told, played := map[int]json.RawMessage{}, 0
	for i, n := range at {
		for ; played < n; played++ {
			if e := r.events[played]; e.told != "" {
				var one reply
				if err := json.Unmarshal([]byte(e.told), &one); err != nil {
					return losses, err
				}
				told[one.N] = one.Result
			} else {
				d.play(played, e, lies)
			}
		}
		fault, err := r.look(ctx, d, random, filepath.Join(scratch, fmt.Sprint(i)), told)
		if err != nil {
			return losses, err
		}
		if fault != nil {
			losses++
			if !lies {
				return losses, fmt.Errorf("after event %d of %d, with %d calls told: %w", n, len(r.events), len(told), fault)
			}
		}
	}
	return losses, nil
}

// look builds an image and checks it. A fault is what is wrong with the ledger, an error what is wrong with the test.
func (r *recorded) look(ctx context.Context, d *disk, random *rand.Rand, dir string, told map[int]json.RawMessage) (fault, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := d.image(random, r.dir, dir); err != nil {
		return nil, err
	}
	next := -1 // the call that may have been under way
	for n := range r.all {
		if told[n] == nil && (next < 0 || n < next) {
			next = n
		}
	}
	others := []int{}
	if next >= 0 {
		others = append(others, next)
	}
	if _, fault = check(ctx, filepath.Join(dir, "shop.db"), told, others...); fault == nil {
		fault, err = lookAtCopies(ctx, dir)
	}
	return fault, errors.Join(err, os.RemoveAll(dir))
}

// lookAtCopies checks the copies that the host has made: one that has its name is whole.
func lookAtCopies(ctx context.Context, dir string) (fault, err error) {
	copies, err := filepath.Glob(filepath.Join(dir, "shop.db.*"))
	for _, path := range copies {
		if _, fault = check(ctx, path, nil); fault != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), fault), err
		}
	}
	return nil, err
}

// TestNoPowerCutLosesWhatWasTold cuts the power of a host that was killed a few times before, at random, and opens what may be left on its disk: everything that
// was told is there, and nothing is damaged.
func TestNoPowerCutLosesWhatWasTold(t *testing.T) {
	trace.Need(t)
	for _, worn := range []bool{false, true} {
		r := recordLives(t, worn, 40+rand.IntN(100), 10+rand.IntN(50), 10+rand.IntN(50))
		images := tries(120, 1000, 100_000)
		seed := rand.Uint64()
		if losses, err := r.cut(t.Context(), rand.New(rand.NewPCG(seed, 1)), pace.Scratch(t), images, false); err != nil || losses != 0 {
			t.Fatalf("worn: %v, seed %d: %v", worn, seed, err)
		}
		t.Logf("%d images of %d events, worn: %v", images, len(r.events), worn)
	}
}

// TestPowerCutsWithoutSyncingAreNoticed is a test of the test: a disk that says that it has synced, and has not, loses
// what was told, and that is noticed.
func TestPowerCutsWithoutSyncingAreNoticed(t *testing.T) {
	trace.Need(t)
	r := recordLives(t, false)
	const images = 100
	losses, err := r.cut(t.Context(), rand.New(rand.NewPCG(1, 1)), pace.Scratch(t), images, true)
	if err != nil {
		t.Fatal(err)
	}
	if losses < images/2 {
		t.Errorf("%d of %d images without syncing are found to be damaged", losses, images)
	}
	t.Logf("%d of %d", losses, images)
}
