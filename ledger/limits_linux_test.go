package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/policy"
)

// timedPolicies returns policies of each kind whose steps take the most work for their length. Each
// number gives a lower ceiling than the number before.
func timedPolicies() map[string]func(i int) string {
	const start = `"start":"2027-01-01T00:00:00Z"`
	return map[string]func(i int) string{
		"linear": func(i int) string {
			return fmt.Sprintf(`{"kind":"linear","from":"0","to":"0.9%08d",%s,"end":"2028-01-01T00:00:00Z","stride":"0.001"}`, 9_999_999-i, start)
		},
		"halving": func(i int) string {
			return fmt.Sprintf(`{"kind":"halving","from":"0","limit":"0.9%08d",%s,"half_life":"720h0m0s","stride":"0.001"}`, 9_999_999-i, start)
		},
		"noisy-sampling": func(i int) string {
			return fmt.Sprintf(`{"kind":"noisy-sampling","eps_alpha":"20.%09d","eps_beta":"0.000000001",%s,"period":"1s","rounds":1024}`, 9_999_999-i, start)
		},
		"sum": func(i int) string {
			return fmt.Sprintf(`{"kind":"sum","of":[{"kind":"unlock","total":"1.%09d","orders":%d},{"kind":"unlock","total":"1","orders":%d}]}`, 9_999_999-i, 999_000_000+i, 999_999_000+i)
		},
	}
}

// A log may come from a stranger, with another policy in every event. To audit it takes work in
// proportion to its length.
func TestCostOfAudit_ManyPolicies_IsLinear(t *testing.T) {
	for kind, text := range timedPolicies() {
		t.Run(kind, func(t *testing.T) {
			wantLinearAudit(t, func(l *Ledger, n int) {
				for i := range n {
					p := check.Value(policy.Parse([]byte(text(i))))(t)
					if i == 0 {
						enrollUnder(t, l, "vote", p, "100", "ann")
						continue
					}
					must(t, check.Err(l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: fmt.Sprint(i), Question: "vote", Objects: []string{"ann"}, Policy: &p})))
				}
			})
		})
		t.Run("pairs of "+kind, func(t *testing.T) {
			wantLinearAudit(t, func(l *Ledger, n int) { changeBetweenPairs(t, l, n/5, text) })
		})
	}
}

// changeBetweenPairs changes the terms from each of several policies to each later one. Each policy
// allows less than those before it.
func changeBetweenPairs(t *testing.T, l *Ledger, policies int, text func(i int) string) {
	t.Helper()
	var all []policy.Policy
	for i := range policies {
		p := check.Value(policy.Parse([]byte(text(i))))(t)
		all = append(all, p)
	}
	enrollUnder(t, l, "vote", policy.Fixed(epsilonOf(1)), "100", "ann")
	change := func(to *policy.Policy, key, consent string) {
		must(t, check.Err(l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: key, Question: "vote", Objects: []string{"ann"}, Policy: to, Consent: consent})))
	}
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			change(&all[i], fmt.Sprint("up ", i, " ", j), "on file")
			change(&all[j], fmt.Sprint("down ", i, " ", j), "")
		}
	}
}

// The work is also in proportion for requests that enroll or refuse many objects, and for sweeps of
// many questions.
func TestCostOfAudit_EnrolmentsRefusalsAndSweeps_IsLinear(t *testing.T) {
	for name, fill := range map[string]func(l *Ledger, n int){
		"enrolments": func(l *Ledger, n int) {
			for i := range n / 10 {
				var objects []string
				for k := range 200 {
					objects = append(objects, fmt.Sprint(i, " ", k))
				}
				must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: fmt.Sprint(i), Question: "vote", Objects: objects, Cap: eps(t, "1")})))
			}
		},
		"refusals": func(l *Ledger, n int) {
			objects := crowd(20)
			enroll(t, l, "vote", "0.5", objects...)
			for i := range n {
				done := raise(t, l, partial(raiseOf(t, fmt.Sprint(i), "1", objects...)))
				check.Need(t, len(done.Refused) == len(objects), "%+v", done)
			}
		},
		"sweep counts": func(l *Ledger, n int) {
			for i := range n / 5 {
				name := fmt.Sprint("q", i)
				define(t, l, api.Question{Name: name, Values: []string{"yes", "no"}})
				must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "enrol " + name, Question: name, Objects: []string{"ann"}, Cap: eps(t, "1")})))
			}
			for i := range n {
				must(t, check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: fmt.Sprint(i), Truth: sameTruth("yes")})))
			}
		},
	} {
		t.Run(name, func(t *testing.T) { wantLinearAudit(t, fill) })
	}
}

// wantLinearAudit checks that the audit of a log of at least four times the size takes less than
// twice the time per byte.
func wantLinearAudit(t *testing.T, fill func(l *Ledger, n int)) {
	t.Helper()
	audited := func(n int) (audit func(), size int) {
		s := &kv.Memory{}
		begin(t, s)
		l := openMemory(t, s, Options{Now: epoch})
		define(t, l, vote())
		fill(l, n)
		for _, p := range pairs(t, s) {
			size += len(p.key) + len(p.value)
		}
		return func() {
			must(t, check.Err(l.Verify(t.Context(), api.VerifyRequest{Report: func(p api.Finding) { t.Errorf("%+v", p) }})))
		}, size
	}
	small, smallSize := audited(50)
	large, largeSize := audited(200)
	var perByte, perByteOfLarge float64
	for range 5 {
		perByte, perByteOfLarge = float64(processorTime(t, small))/float64(smallSize), float64(processorTime(t, large))/float64(largeSize)
		if perByteOfLarge < 2*perByte {
			break
		}
	}
	check.That(t, !(perByteOfLarge >= 2*perByte),
		"%d bytes take %.0f ns each, %d take %.0f", smallSize, perByte, largeSize, perByteOfLarge)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	large()
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes take %.0f ns each, and %d bytes of memory", largeSize, perByteOfLarge, int(after.TotalAlloc-before.TotalAlloc)/largeSize)
}

func processorTime(t *testing.T, do func()) time.Duration {
	t.Helper()
	used := func() time.Duration {
		var usage syscall.Rusage
		must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	begun := used()
	do()
	return used() - begun
}

const descriptorsChild = "SLUICE_DESCRIPTORS_CHILD"

// descriptors is the table of file descriptors of this process.
type descriptors struct{ taken []*os.File }

// fill opens files until the table is full.
func (d *descriptors) fill() {
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		d.taken = append(d.taken, f)
	}
}

// free closes the files.
func (d *descriptors) free() {
	for _, f := range d.taken {
		_ = f.Close()
	}
	d.taken = nil
}

// TestDescriptors_ChildProcess is a host whose table of file descriptors is sometimes full.
// TestLedger_DescriptorTableFull_Continues runs it.
func TestDescriptors_ChildProcess(t *testing.T) {
	path := os.Getenv(descriptorsChild)
	if path == "" {
		t.Skip("run by TestLedger_DescriptorTableFull_Continues")
	}
	limit := syscall.Rlimit{Cur: 128, Max: 128}
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	var table descriptors
	l := open(t, path, Options{})
	people, number := crowd(4), 0
	draw := func(object string) error {
		number++
		return check.Err(l.Release(t.Context(), releaseOf(t, fmt.Sprint("r", number), object, fmt.Sprintf("0.%06d", number))))
	}
	beside := filepath.Join(filepath.Dir(path), "copy.db")
	for _, step := range []struct {
		name string
		call func() error
	}{
		{"the first commit", func() error {
			return check.Err(l.Release(t.Context(), releaseOf(t, "first", people[0], "1")))
		}},
		{"Backup", func() error { return check.Err(l.Backup(t.Context(), beside, nil)) }},
		{"CompactTo", func() error { return check.Err(l.CompactTo(t.Context(), beside+"2", nil)) }},
		{"Compact", func() error { return l.Compact(t.Context(), nil) }},
		{"Forget", func() error { return l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: people[1]}) }},
		{"Open", func() error { return check.Err(Open(t.Context(), beside, Options{ReadOnly: true})) }},
	} {
		table.fill()
		err := step.call()
		check.That(t, errors.Is(err, api.ErrTooManyFiles) && errors.Is(err, syscall.EMFILE) &&
			!errors.Is(err, api.ErrStopped), "%s with a full table: %v", step.name, err)
		if text := fmt.Sprint(err); strings.Contains(text, "sluice-unfinished") || strings.Contains(text, ".gone") || strings.Contains(text, ".new") {
			t.Errorf("%s names a temporary file: %v", step.name, err)
		}
		left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
		check.That(t, err == nil && len(left) == 0, "%s left %v, %v", step.name, left, err)
		if step.name != "the first commit" { // which creates the journal: later commits need no new file
			must(t, draw(people[2]))
			must(t, check.Err(l.Object(t.Context(), people[2])))
		}
		table.free()
		if step.name == "Open" {
			continue
		}
		must(t, step.call())
		must(t, draw(people[0]))
	}
	table.fill()
	must(t, draw(people[3]))
	must(t, l.engine.Checkpoint()) // its trim is rejected
	must(t, draw(people[3]))
	table.free()
	before := check.Value(l.Object(t.Context(), people[3]))(t)
	must(t, l.Close())
	l = open(t, path, Options{})
	after := check.Value(l.Object(t.Context(), people[3]))(t)
	check.That(t, fmt.Sprint(before) == fmt.Sprint(after), "%+v, before %+v", after, before)
	auditStore(t, l.engine.Store)
	fmt.Println("went on")
}

func TestLedger_DescriptorTableFull_Continues(t *testing.T) {
	path := filepath.Join(testenv.TempDir(t), "ledger.db")
	must(t, os.Rename(votersFile(t, "9", crowd(4)...), path))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDescriptors_ChildProcess$", "-test.v")
	child.Env = append(os.Environ(), descriptorsChild+"="+path)
	out, err := child.CombinedOutput()
	check.That(t, err == nil && bytes.Contains(out, []byte("went on")), "%v\n%.4000s", err, out)
}

// rejecting is a journal whose Trim fails while err is set.
type rejecting struct {
	countedHandle
	err *atomic.Pointer[error]
}

func (j rejecting) Trim(ctx context.Context, through journal.Position) error {
	if err := j.err.Load(); err != nil {
		return *err
	}
	return j.countedHandle.Trim(ctx, through)
}

func TestForget_TrimIsRejected_LeavesTheLedgerOpen(t *testing.T) {
	full := &fs.PathError{Op: "openat", Path: "00000001.segment", Err: syscall.ENFILE}
	path, h := votersFile(t, "9", "ann", "bob"), newMemoryHost()
	var rejection atomic.Pointer[error]
	find := h.options().Journal
	l := open(t, path, Options{Journal: func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		j, err := find(ctx, w)
		if err != nil {
			return nil, err
		}
		return rejecting{j.(countedHandle), &rejection}, nil
	}})
	release(t, l, releaseOf(t, "r", "ann", "1"))
	rejected := fmt.Errorf("%w: %w: %w", journal.ErrRejected, api.ErrTooManyFiles, full)
	rejection.Store(&rejected) // of the trim after the checkpoint, and of that of Forget itself
	err := l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "ann"})
	check.Need(t, errors.Is(err, api.ErrTooManyFiles) && !errors.Is(err, api.ErrStopped), "Forget: %v", err)
	rejection.Store(nil)
	release(t, l, releaseOf(t, "other", "bob", "1"))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "ann"}))
	release(t, l, releaseOf(t, "third", "bob", "2"))
}
