package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// someMixture is a load of two seconds: 2,000 releases, of which each of the second one took ten
// times as long as in the first one.
func someMixture() *mixture {
	m := &mixture{
		mixedOptions: mixedOptions{length: 2 * time.Second, people: 1000, callers: 4, rate: 1000},
		checkpoints:  []float64{0.5, 1.5}, bytes: 3 << 20, done: map[kind][]happening{},
	}
	for i := range 1000 {
		took := float32(i+1) / 1e6
		m.done[releases] = append(m.done[releases], happening{1, 10 * took}, happening{0.9, took})
	}
	for _, k := range []kind{sales, reads, raises, backups, audits} {
		m.done[k] = []happening{{1, 0.5}}
	}
	return m
}

func TestMixture_Waits_HaveTails(t *testing.T) {
	m := someMixture()
	m.done[releases] = slices.DeleteFunc(m.done[releases], func(h happening) bool { return h.at == 1 })
	got := tailsOf(m.done[releases])
	for _, c := range []struct{ got, want float64 }{{got.half, 0.501}, {got.p99, 0.990}, {got.p999, 0.999}, {got.longest, 1}} {
		if diff := c.got - c.want; diff > 1e-6 || diff < -1e-6 {
			t.Errorf("%v ms, want %v", c.got, c.want)
		}
	}
	if got := tailsOf([]happening{{0, 2}}); got != (tails{2000, 2000, 2000, 2000}) {
		t.Errorf("one alone: %+v", got)
	}
}

func TestMixture_TextAndPicture_HaveEachFigure(t *testing.T) {
	m := someMixture()
	if w := m.worst(); w.at != 1 || len(m.seconds()) != 2 {
		t.Errorf("the worst second is %+v", w)
	}
	text := m.text("abc")
	for _, want := range []string{
		"For 2s, on disk: 1,000 people, 4 callers who request 1,000 releases a second together, ", "Commit abc.",
		"| releases | 2,000 | 1,000 | 0.91 | 9.8 | 9.98 | 10 |\n", "| audits | 1 | 0.5 | 500 | 500 | 500 | 500 |\n",
		"In the worst second, the one 1s after the beginning, half of the releases took up to 5.01 ms, 99 % up to 9.9, and the longest 10. There were 2 checkpoints. In the end the file has 3 MiB.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	must(t, m.check())
	path := filepath.Join(t.TempDir(), "mixed.svg")
	must(t, m.drawMixed(path))
	picture := content(t, path)
	for _, want := range []string{"audits", "backups", "raises of all people", "99 % of them", "checkpoint written"} {
		if !strings.Contains(picture, ">"+want+"<") {
			t.Errorf("%s is not in the picture", want)
		}
	}
	if strings.Contains(picture, "NaN") {
		t.Error("a point is nowhere")
	}
	delete(m.done, audits)
	if err := m.check(); err == nil || !strings.Contains(err.Error(), "audits") {
		t.Errorf("without audits: %v", err)
	}
}

// All scheduled requests happen, even on a slow machine; the results are written to their places in
// a file, and nothing else changes.
func TestRun_MixedLoad_IsWrittenToTheFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "page.md")
	const text = "# Page\n<!-- measured: mixed -->\n<!-- end of mixed -->\n<!-- measured: table -->\nold\n<!-- end of table -->\n"
	must(t, os.WriteFile(file, []byte(text), 0o600))
	o, err := parseOptions([]string{"-mixed", "200ms", "-mixed-people", "1000", "-mixed-callers", "8", "-mixed-rate", "500", "-write", file}, io.Discard)
	must(t, err)
	o.largest = 10_000
	must(t, run(t.Context(), o, io.Discard))
	written := content(t, file)
	for _, want := range []string{"| releases | 100 |", "| sales | 1 |", "| reads | 200 |", "| raises of all people | 1 |", "| backups | 1 |", "| audits | 1 |", "\nold\n"} {
		if !strings.Contains(written, want) {
			t.Errorf("there is no %q in\n%s", want, written)
		}
	}
	if picture := content(t, strings.TrimSuffix(file, ".md")+"-mixed.svg"); !strings.Contains(picture, "</svg>") {
		t.Error("there is no picture")
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSchedule_LargeRequests_ComeOnceAMinute(t *testing.T) {
	for _, c := range []struct{ length, raised, copied time.Duration }{
		{10 * time.Second, 10 * time.Second, 10 * time.Second}, {time.Minute, time.Minute, time.Minute}, {10 * time.Minute, time.Minute, 2 * time.Minute},
	} {
		if raised, copied := (mixedOptions{length: c.length}).large(); raised != c.raised || copied != c.copied {
			t.Errorf("in %v: %v and %v", c.length, raised, copied)
		}
	}
}

// With the mixed load alone, nothing else is measured; with the growth, everything is.
func TestOptions_MixedLoad_SelectsTables(t *testing.T) {
	for args, want := range map[string]bool{"": true, "-growth": true, "-mixed 1m": false, "-mixed 1m -growth": true} {
		o, err := parseOptions(strings.Fields(args), io.Discard)
		if err != nil || o.tables() != want {
			t.Errorf("%q: %v, %v", args, o.tables(), err)
		}
	}
	for _, args := range []string{"-mixed -1s", "-mixed 1s -mixed-people 999", "-mixed 1s -mixed-callers 0", "-mixed 1s -mixed-rate -1"} {
		if _, err := parseOptions(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%q is understood", args)
		}
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}
