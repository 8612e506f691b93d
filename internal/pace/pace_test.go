package pace

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// witness is a test that notes how it ends.
type witness struct {
	testing.TB
	ended string
}

func (w *witness) Helper() {}

func (w *witness) Fatalf(format string, args ...any) { w.end("failed: ", format, args) }

func (w *witness) Skipf(format string, args ...any) { w.end("skipped: ", format, args) }

// end ends the goroutine, as those of package testing do.
func (w *witness) end(how, format string, args []any) {
	w.ended = how + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// How a test ends that says that it is impossible, and whether it goes on after that.
func impossible() (ended string, goesOn bool) {
	w := &witness{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Impossible(w, "no moon")
		goesOn = true
	}()
	<-done
	return w.ended, goesOn
}

func TestWhatIsImpossibleIsSkippedOrFails(t *testing.T) {
	for set, want := range map[string]string{"": "skipped: ", "1": "failed: "} {
		t.Setenv(complete, set)
		ended, goesOn := impossible()
		if !strings.HasPrefix(ended, want) || !strings.HasSuffix(ended, "no moon") || goesOn {
			t.Errorf("with %q it ends as %q (and goes on: %v), want %q", set, ended, goesOn, want)
		}
	}
}

func TestScratchIsRemoved(t *testing.T) {
	var dir string
	t.Run("a test", func(t *testing.T) {
		dir = Scratch(t)
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", dir, err)
	}
}

func TestLongFormsAreAskedFor(t *testing.T) {
	for set, want := range map[string]int{"": 3, "1": 50} {
		t.Setenv(long, set)
		if got := Scale(3, 50); got != want || Long() != (want == 50) {
			t.Errorf("with %q: %d, and long forms: %v", set, got, Long())
		}
	}
}

func TestDeepFormsAreAskedFor(t *testing.T) {
	for _, c := range []struct {
		deep, long  string
		tries, step int
	}{{"", "", 3, 2}, {"1", "", 20, 1}, {"", "1", 50, 1}, {"1", "1", 50, 1}} {
		t.Setenv(deep, c.deep)
		t.Setenv(long, c.long)
		if Hurried() {
			c.step = 7
		}
		if got, step := Tries(3, 20, 50), Stride(2, 7); got != c.tries || step != c.step || Deep() != (c.tries > 3) {
			t.Errorf("with %q and %q: %d, steps of %d, and deep forms: %v", c.deep, c.long, got, step, Deep())
		}
	}
}

func TestStepsAreLargerIfHurried(t *testing.T) {
	before := flag.Lookup("test.short").Value.String()
	t.Cleanup(func() { setShort(t, before) })
	for short, want := range map[string]int{"false": 1 + 6*Race, "true": 7} {
		setShort(t, short)
		if got := Step(7); got != want || Hurried() != (want == 7) {
			t.Errorf("-short=%s: steps of %d, and hurried: %v", short, got, Hurried())
		}
	}
}

func setShort(t *testing.T, value string) {
	t.Helper()
	if err := flag.Set("test.short", value); err != nil {
		t.Fatal(err)
	}
}
