package testenv

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

// fakeTest is a test that records how it ends.
type fakeTest struct {
	testing.TB
	ended string
}

func (f *fakeTest) Helper() {}

func (f *fakeTest) Fatalf(format string, args ...any) { f.end("failed: ", format, args) }

func (f *fakeTest) Skipf(format string, args ...any) { f.end("skipped: ", format, args) }

// end ends the goroutine, as the methods of package testing do.
func (f *fakeTest) end(how, format string, args []any) {
	f.ended = how + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// unsupported returns how a test ends that calls Unsupported, and whether it continues after that.
func unsupported() (ended string, hasContinued bool) {
	f := &fakeTest{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Unsupported(f, "no disk")
		hasContinued = true
	}()
	<-done
	return f.ended, hasContinued
}

func TestUnsupported_SkipsOrFailsWhereComplete(t *testing.T) {
	for set, want := range map[string]string{"": "skipped: ", "1": "failed: "} {
		t.Setenv(complete, set)
		ended, hasContinued := unsupported()
		if !strings.HasPrefix(ended, want) || !strings.HasSuffix(ended, "no disk") || hasContinued {
			t.Errorf("%s=%q: the test ends as %q and continues: %v; want %q", complete, set, ended, hasContinued, want)
		}
	}
}

func TestTempDir_TestEnds_IsRemoved(t *testing.T) {
	var dir string
	t.Run("a test", func(t *testing.T) {
		dir = TempDir(t)
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", dir, err)
	}
}

func TestScale_LongIsSet_ReturnsLong(t *testing.T) {
	for set, want := range map[string]int{"": 3, "1": 50} {
		t.Setenv(long, set)
		if got := Scale(3, 50); got != want || Long() != (want == 50) {
			t.Errorf("%s=%q: Scale returns %d, Long %v", long, set, got, Long())
		}
	}
}

func TestTries_DeepOrLongIsSet_ReturnsThatForm(t *testing.T) {
	for _, c := range []struct {
		deep, long  string
		tries, step int
	}{{"", "", 3, 2}, {"1", "", 20, 1}, {"", "1", 50, 1}, {"1", "1", 50, 1}} {
		t.Setenv(deep, c.deep)
		t.Setenv(long, c.long)
		if Short() {
			c.step = 7
		}
		if got, step := Tries(3, 20, 50), Stride(2, 7); got != c.tries || step != c.step || Deep() != (c.tries > 3) {
			t.Errorf("SLUICE_DEEP=%q SLUICE_LONG=%q: Tries returns %d, Stride %d, Deep %v", c.deep, c.long, got, step, Deep())
		}
	}
}

func TestStep_Short_IsLarger(t *testing.T) {
	before := flag.Lookup("test.short").Value.String()
	t.Cleanup(func() { setShort(t, before) })
	for short, want := range map[string]int{"false": 1 + 6*Race, "true": 7} {
		setShort(t, short)
		if got := Step(7); got != want || Short() != (want == 7) {
			t.Errorf("-short=%s: Step returns %d, Short %v", short, got, Short())
		}
	}
}

func setShort(t *testing.T, value string) {
	t.Helper()
	if err := flag.Set("test.short", value); err != nil {
		t.Fatal(err)
	}
}
