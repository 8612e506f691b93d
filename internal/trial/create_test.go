package trial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
)

// creating tells a host to make a file, and to say so.
const creating = "create"

func hostCreates(path string) error {
	err := ledger.Create(context.Background(), path, ledger.CreateOptions{Currency: "USD"})
	if err == nil {
		_, err = os.Stdout.WriteString("created\n")
	}
	return err
}

func create(t testing.TB, path string) {
	t.Helper()
	if err := ledger.Create(t.Context(), path, ledger.CreateOptions{Currency: "USD"}); err != nil {
		t.Fatal(err)
	}
}

func creator(t *testing.T, path string) *exec.Cmd {
	cmd := hostCommand(t.Context(), path, life{})
	cmd.Env = append(cmd.Env, hostCalls+"="+creating)
	return cmd
}

// wantNoneOrGood looks for a ledger. There is none, and then one can be made; or it is whole, and can be used.
func wantNoneOrGood(t *testing.T, path string, told bool) (made bool) {
	t.Helper()
	_, err := os.Stat(path)
	if made = !errors.Is(err, fs.ErrNotExist); !made {
		if told {
			t.Error("a file was told of, and is not there")
		}
		create(t, path)
	}
	wantTold(t, path, nil, 0, 1, 2, 3, 4, 5, 6, 7)
	return made
}

// TestCreatingIsWholeOrNothing ends the creation of a ledger at each of its calls, and makes each of these fail; in its quick form it does one
// of three to each call, and another one to the next.
func TestCreatingIsWholeOrNothing(t *testing.T) {
	Need(t)
	dir := pace.Scratch(t)
	quiet := watch(dir, nil, Proceed)
	if status, err := Run(creator(t, filepath.Join(dir, "shop.db")), quiet); err != nil || status.ExitStatus() != 0 || quiet.n < 8 {
		t.Fatalf("%d calls, %v, %v", quiet.n, status, err)
	}
	turn, stride := rand.IntN(3), pace.Tries(3, 1, 1)
	for at := 1; at <= quiet.n; at++ {
		for i, verdict := range []Verdict{Kill, FailIO, FailFull} {
			if (turn+at+i)%stride != 0 {
				continue
			}
			w := watch(pace.Scratch(t), after(at), verdict)
			path := filepath.Join(w.dir, "shop.db")
			status, err := Run(creator(t, path), w)
			told := w.told.String() == "created\n"
			_, stat := os.Stat(path)
			switch {
			case err != nil:
				t.Fatal(err)
			case verdict == Kill && (!status.Signaled() || status.Signal() != syscall.SIGKILL):
				t.Errorf("killed at call %d: it ended with %v", at, status)
			case verdict != Kill && told != (status.ExitStatus() == 0):
				t.Errorf("failed at call %d: it ended with %v, and told so: %v", at, status, told)
			case verdict != Kill && !told && stat == nil:
				t.Errorf("failed at call %d, %s: it says that it failed, and the file is there", at, w.struck.Kind)
			}
			wantNoneOrGood(t, path, told)
			if forget(t, w.dir); t.Failed() {
				t.Fatalf("verdict %d at call %d, %s of %s", verdict, at, w.struck.Kind, w.struck.Path)
			}
		}
	}
}

// TestAPowerCutWhileCreatingLeavesNothingOrAll cuts the power at each call of the creation of a ledger.
func TestAPowerCutWhileCreatingLeavesNothingOrAll(t *testing.T) {
	Need(t)
	r := newRecord(pace.Scratch(t))
	if status, err := Run(creator(t, filepath.Join(r.dir, "shop.db")), r); err != nil || status.ExitStatus() != 0 {
		t.Fatal(status, err)
	}
	random, images := rand.New(rand.NewPCG(rand.Uint64(), 1)), pace.Scratch(t)
	each, made, all := tries(5, 20, 2000), 0, 0
	d, err := newDisk(t.TempDir(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	told := false
	for n, e := range r.events {
		if told = told || e.told != ""; e.told == "" {
			if err := d.play(n, e, false); err != nil {
				t.Fatal(err)
			}
		}
		for range each {
			all++
			dir := filepath.Join(images, fmt.Sprint(all))
			if _, err := d.image(random, dir); err != nil {
				t.Fatal(err)
			}
			if wantNoneOrGood(t, filepath.Join(dir, "shop.db"), told) {
				made++
			}
			if err := os.RemoveAll(dir); err != nil || t.Failed() {
				t.Fatalf("after event %d of %d, %s of %s: %v", n+1, len(r.events), e.Kind, e.Path, err)
			}
		}
	}
	if made == 0 || made == all {
		t.Errorf("in %d of %d images there is a ledger", made, all)
	}
	t.Logf("in %d of %d images there is a ledger", made, all)
}
