package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Every object has one request before any has a second, which is at another ε.
func TestCalls_SeveralRounds_NeverRepeatARequest(t *testing.T) {
	for _, objects := range []int{1, 2, 7, 1000, 4096} {
		asked := map[string]bool{}
		keys := map[string]bool{}
		for n := range 3 * objects {
			r := callAt(n, objects)
			if at := fmt.Sprint(n/objects, " ", r.object); asked[at] || keys[r.key] {
				t.Fatalf("%d objects: call %d is %+v, which was there before", objects, n, r)
			} else {
				asked[at], keys[r.key] = true, true
			}
			if want := fmt.Sprintf("0.00%d", n/objects+1); r.epsilon != want {
				t.Fatalf("call %d is at %s; want %s", n, r.epsilon, want)
			}
		}
	}
}

func TestWaits_TwoCallers_CountsMissedCalls(t *testing.T) {
	ms := time.Millisecond
	each := [][]time.Duration{{1 * ms, 1 * ms, 1 * ms}, {9 * ms}}
	// Two callers made 4 calls in 9 ms, so that one takes 4.5 ms in the mean. The caller that
	// waited for 9 ms would have called again after 4.5 and waited for the remaining 4.5.
	if median, tail := waits(each, turn{took: 9 * ms}); median != ms || tail != 9*ms {
		t.Errorf("%v, %v", median, tail)
	}
	// In 4 ms they take 2, and 7, 5 and 3 count as well.
	if median, tail := waits(each, turn{took: 4 * ms}); median != 3*ms || tail != 9*ms {
		t.Errorf("%v, %v", median, tail)
	}
}

func TestTimeIn_LineOfProc_IsSumOfBothTimes(t *testing.T) {
	const stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 13 0 0 20 0"
	if is := timeIn(stat); is != 2630*time.Millisecond {
		t.Errorf("%v", is)
	}
	if timeIn("") != 0 || timeIn("1 (a) S 2") != 0 {
		t.Error("a time out of nothing")
	}
}

func TestTable_SomeMeasurements_HasEachRow(t *testing.T) {
	one := func(answered int) turn {
		return turn{answered: answered, took: time.Second, p50: time.Millisecond, p99: 2 * time.Millisecond, server: 10 * time.Millisecond, client: time.Millisecond}
	}
	found := results{kinds: []kind{releases}, pairs: map[kind][]pair{releases: {{one(1000), one(300)}, {one(1000), one(500)}, {one(2000), one(800)}}}}
	text := found.text(options{})
	for _, want := range []string{
		"| releases, a second | 1,000 | 500 | 0.40 | 0.30 – 0.50 |", "| … the median wait, ms | 1 | 1 | | |",
		"| … the 99th percentile of waits, ms | 2 | 2 | | |", "| … processor time of the ledger's process, µs a call | 10 | 20 | | |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestParseOptions_ValidAndInvalid_ReadOrRejected(t *testing.T) {
	for _, bad := range []string{"x", "-pairs 0", "-callers 0", "-objects 0", "-objects 40503007", "-turn 1500ms", "-turn 0s", "-client curl", "-x"} {
		if _, err := parseOptions(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("%q is understood", bad)
		}
	}
	if o, err := parseOptions(nil, io.Discard); err != nil || o.callers != 64 || o.client != "wrk" {
		t.Errorf("%+v, %v", o, err)
	}
}

// brief are options of a measurement that is over at once.
func brief(client string) options {
	return options{callers: 8, objects: 50, pairs: 1, turn: 20 * time.Millisecond, client: client}
}

// With each client both kinds of calls are measured, and in the end both ledgers have all responses
// that were requested.
func TestMeasure_EachClient_BothLedgersHaveTheRequests(t *testing.T) {
	program, err := build(t.Context(), t.TempDir())
	must(t, err)
	t.Run("go", func(t *testing.T) {
		o := brief("go")
		o.program = program
		measured(t, o)
	})
	t.Run("wrk", func(t *testing.T) {
		if !testenv.Deep() {
			t.Skip("deep: a second for each of its turns")
		}
		if _, err := exec.LookPath("wrk"); err != nil {
			testenv.Unsupported(t, "wrk is not installed")
		}
		o := brief("wrk")
		o.program, o.turn = program, time.Second // wrk knows no shorter turn
		o.objects = 5000                         // enough for five million calls: each object has 1,024
		measured(t, o)
	})
}

func measured(t *testing.T, o options) {
	t.Helper()
	var progress bytes.Buffer
	found, err := measure(t.Context(), o, testenv.TempDir(t), &progress)
	must(t, err)
	for _, what := range []kind{releases, reads} {
		if len(found.pairs[what]) != 1 {
			t.Fatalf("%s: %d pairs", what, len(found.pairs[what]))
		}
		p := found.pairs[what][0]
		for _, one := range []turn{p.inside, p.http} {
			if one.answered < 1 || one.sent < one.answered || one.took < o.turn || one.p50 <= 0 || one.p99 < one.p50 {
				t.Errorf("%s: %+v", what, one)
			}
		}
		if r := p.ratio(); r <= 0 || math.IsInf(r, 0) || math.IsNaN(r) {
			t.Errorf("%s: ratio %v", what, r)
		}
	}
	if lines := strings.Count(progress.String(), "\n"); lines != 4 {
		t.Errorf("%d lines of progress", lines)
	}
}

// A ledger that lacks a response, or has one that was not requested, is detected.
func TestSettle_MissingOrExtraResponse_IsAnError(t *testing.T) {
	o := brief("go")
	path := filepath.Join(testenv.TempDir(t), "ledger.db")
	must(t, create(t.Context(), path, o.objects))
	p, err := openProcess(path, o)
	must(t, err)
	defer func() { must(t, p.close()) }()
	for n := range 100 {
		must(t, p.release(t.Context(), n))
	}
	// 2 of 102 were under way when a client stopped; they are not there.
	must(t, p.settle(t.Context(), calls{begun: 102, answered: 100, turns: 1}))
	for _, bad := range []struct {
		name string
		made calls
	}{
		{"more were answered than are there", calls{begun: 103, answered: 103, turns: 1}},
		{"more are there than were begun", calls{begun: 101, answered: 101, turns: 1}},
		{"more were under way than callers", calls{begun: 102 + o.callers, answered: 101, turns: 1}},
	} {
		if err := p.settle(t.Context(), bad.made); err == nil {
			t.Error(bad.name)
		}
	}
	stranger, err := callAt(7, o.objects).request()
	must(t, err)
	stranger.Key = callAt(102, o.objects).key
	_, err = p.ledger.Release(t.Context(), stranger)
	must(t, err)
	if err := p.settle(t.Context(), calls{begun: 103, answered: 102, turns: 1}); err == nil {
		t.Error("what was under way is another call")
	}
}

// A request that is answered by anything but 200 ends the measurement.
func TestCall_StatusOtherThan200_IsAnError(t *testing.T) {
	o := brief("go")
	path := filepath.Join(testenv.TempDir(t), "ledger.db")
	must(t, create(t.Context(), path, o.objects))
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	must(t, err)
	defer func() { must(t, l.Close()) }()
	handler, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "reader", Role: "auditor"}.Admit})
	must(t, err)
	at := httptest.NewServer(handler)
	defer at.Close()
	secrets := path + ".secrets"
	must(t, os.WriteFile(secrets, []byte("a\nb\n"), 0o600))
	c := &looped{server: &server{command: &exec.Cmd{Process: &os.Process{}}, address: at.URL, tokens: secrets}, o: o, http: &http.Client{}}
	if _, err := c.call(t.Context(), reads, 0, o.turn); err != nil {
		t.Errorf("an auditor may read: %v", err)
	}
	if _, err := c.call(t.Context(), releases, 0, o.turn); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("an auditor may not release: %v", err)
	}
}
