package ledger

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/policy"
)

// timedPolicies are policies of each kind whose steps take the most work for their length. Each number gives a lower one than the number
// before.
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

// A log may be a stranger's, and every policy in it another one. To audit it takes work in proportion to its length.
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

// changeBetweenPairs changes terms from each of some policies, each of which allows less than those before it, to each of those after it.
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

// The same for requests that have many objects or questions, or leave them out.
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
				r := order(t, fmt.Sprint(i), "1", objects...)
				r.Partial = true
				done := carryOut(t, l, r)
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

// wantLinearAudit checks that to audit a log of four times the size, or more, takes no more time for each byte.
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
