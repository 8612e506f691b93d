package ledger

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
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
			audited := func(n int) (audit func(), size int) {
				s := &kvtest.Memory{}
				begin(t, s)
				l := openMemory(t, s, Options{Now: epoch})
				define(t, l, vote())
				for i := range n {
					p, err := policy.Parse([]byte(text(i)))
					must(t, err)
					if i == 0 {
						enrollUnder(t, l, "vote", p, "100", "ann")
						continue
					}
					_, err = l.ChangeTerms(t.Context(), ChangeTermsRequest{Key: fmt.Sprint(i), Question: "vote", Objects: []string{"ann"}, Policy: &p})
					must(t, err)
				}
				for _, p := range pairs(t, s) {
					size += len(p.key) + len(p.value)
				}
				return func() {
					_, err := l.Verify(t.Context(), VerifyRequest{Report: func(p Problem) { t.Errorf("%+v", p) }})
					must(t, err)
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
			if perByteOfLarge >= 2*perByte {
				t.Errorf("%d bytes take %.0f ns each, %d take %.0f", smallSize, perByte, largeSize, perByteOfLarge)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			large()
			runtime.ReadMemStats(&after)
			t.Logf("%d bytes take %.0f ns each, and %d bytes of memory", largeSize, perByteOfLarge, int(after.TotalAlloc-before.TotalAlloc)/largeSize)
		})
	}
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
