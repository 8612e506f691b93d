package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// longPolicies returns texts of each kind, about n times as long as the shortest, or with as many
// steps as a short text can have.
func longPolicies(n int) map[string]string {
	item := func(one func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, one(i))
		}
		return strings.Join(all, ",")
	}
	const start = `"start":"2027-01-01T00:00:00Z"`
	nested := `{"kind":"fixed","ceiling":"1"}`
	for range 6 {
		nested = `{"kind":"min","of":[` + nested + strings.Repeat(`,{"kind":"fixed","ceiling":"1"}`, min(15, n/16)) + `]}`
	}
	return map[string]string{
		"fixed":          `{"kind":"fixed","ceiling":"1"}`,
		"linear":         `{"kind":"linear","from":"0","to":"1",` + start + `,"end":"2028-01-01T00:00:00Z","stride":"0.001"}`,
		"halving":        `{"kind":"halving","from":"0","limit":"1",` + start + `,"half_life":"720h","stride":"0.001"}`,
		"noisy-sampling": `{"kind":"noisy-sampling","eps_alpha":"20","eps_beta":"0.000000001",` + start + `,"period":"1s","rounds":1024}`,
		"steps": `{"kind":"steps","steps":[` + item(func(i int) string {
			return fmt.Sprintf(`["%s","0.%09d"]`, at(time.Duration(i)*time.Hour).Format(time.RFC3339), i+1)
		}) + `]}`,
		"price":  `{"kind":"market","max":"0.000000001","price":[` + item(func(i int) string { return fmt.Sprintf(`["0.%09d",%d]`, i+1, i) }) + `]}`,
		"levels": `{"kind":"market","max":"1","price":[["1",1]],"levels":[` + item(func(i int) string { return fmt.Sprintf(`"0.%09d"`, i+1) }) + `]}`,
		"buyers": `{"kind":"market","max":"1","price":[["1",1]],"buyers":[` + item(func(i int) string { return fmt.Sprintf(`"%09d"`, n-i) }) + `]}`,
		"nested": nested,
	}
}

// Policies are untrusted input, thousands in one document. The memory allocated to parse one is
// proportional to its text, for any number of steps.
func TestParse_AnyKind_TakesMemoryLinearInText(t *testing.T) {
	const most, free = 64, 4 << 10
	for _, n := range []int{16, 250, 1000} {
		for kind, text := range longPolicies(n) {
			if n > 16 && len(text) < 200 {
				continue
			}
			const times = 16
			took := check.Allocated(func() {
				for range times {
					parsed(t, text)
				}
			}) / times
			check.That(t, int(took) <= (1+testenv.Race)*(free+most*len(text)),
				"%s: parsing %d bytes allocates %d bytes", kind, len(text), took)
		}
	}
}

// For any two policies, a comparison ends, and its work is bounded by their length.
func TestComparison_AnyPolicies_WorkIsBounded(t *testing.T) {
	for kind, text := range longPolicies(1000) {
		for other, less := range longPolicies(999) {
			p, q := parsed(t, text), parsed(t, less)
			c := comparison{from: instantOf(at(0)), left: maxWork}
			_ = c.ceilings(p.node, q.node)
			check.That(t, c.left >= -maxWork/16, "%s and %s: %d more than it may", kind, other, -c.left)
		}
	}
	hard := func(i int) Policy {
		return parsed(t, fmt.Sprintf(`{"kind":"sum","of":[{"kind":"unlock","total":"1","orders":%d},{"kind":"unlock","total":"1","orders":%d},{"kind":"fixed","ceiling":"0"}]}`,
			1_000_000_000-i, 999_999_000+i))
	}
	c := comparison{from: instantOf(at(0)), left: maxWork}
	allocated := testing.AllocsPerRun(5, func() {
		c.left = maxWork
		_ = c.ceilings(hard(0).node, hard(1).node)
	})
	check.That(t, allocated <= 2000, "%v allocations for a comparison", allocated)
}

// 128 bits are enough to decide nearly every logarithm. The results agree with those of integers of
// any length.
func TestRunningLog_In128Bits_AgreesWithLongIntegers(t *testing.T) {
	g := newGenerator(t)
	settled := 0
	const tries = 3000
	for range tries {
		b := 1 + g.Int64N(1<<(1+g.IntN(39)))
		a := b + 1 + g.Int64N(b)
		if a >= 2*b {
			continue
		}
		h := 1 + g.Int64N(1<<(1+g.IntN(62)))
		var log runningLog
		log.add(uint64(a), uint64(b))
		ceil, ok := log.times(uint64(h))
		if !ok {
			continue
		}
		settled++
		want := timesFraction(h, a, b, 160)
		check.Need(t, want.Uint64() == ceil, "⌈%d·log₂(%d/%d)⌉ is %v, not %d", h, a, b, want, ceil)
	}
	check.That(t, settled >= tries/2, "%d of %d are settled", settled, tries)
}

// The running logarithm gives each level the same instant as a logarithm computed from the
// beginning.
func TestHalving_RunningLog_AgreesWithEachLogarithm(t *testing.T) {
	g := newGenerator(t)
	levels, settled := 0, 0
	for range 300 {
		to := 2 + g.Int64N(1<<(1+g.IntN(39)))
		r := halving{
			from: nanos(g.Int64N(to) / (1 + g.Int64N(1<<g.IntN(30)))), to: nanos(to), start: instantOf(at(0)),
			halfLife: time.Duration(1 + g.Int64N(1<<(1+g.IntN(62)))), stride: nanos(1 + to/(1+g.Int64N(maxSteps))),
		}
		var log runningLog
		first, count := multiplesBetween(r.from, r.to, r.stride)
		left := r.to.Nano() - r.from.Nano()
		for level := first; level < first+count*r.stride.Nano(); level += r.stride.Nano() {
			log.add(uint64(left), uint64(to-level))
			left = to - level
			want, inRange := timesLog2(int64(r.halfLife), to-r.from.Nano(), left)
			ceil, ok := log.times(uint64(r.halfLife))
			if levels++; !ok {
				continue
			}
			settled++
			check.Need(t, inRange && int64(ceil) == want, "%+v: at level %d after %d ns, not %d", r, level, ceil, want)
		}
	}
	check.That(t, settled >= levels/4, "%d of %d are settled", settled, levels)
}

func BenchmarkHalvingLine(b *testing.B) {
	r := parsed(b, `{"kind":"halving","from":"0","limit":"1.000000001","start":"2027-01-01T00:00:00Z","half_life":"720h","stride":"0.001"}`).node.rule
	for b.Loop() {
		r.line()
	}
}

func BenchmarkHardest(b *testing.B) {
	hard := func(i int) Policy {
		return parsed(b, fmt.Sprintf(`{"kind":"sum","of":[{"kind":"unlock","total":"1","orders":%d},{"kind":"unlock","total":"1","orders":%d},{"kind":"fixed","ceiling":"0"}]}`,
			1_000_000_000-i, 999_999_000+i))
	}
	p, q := hard(0), hard(1)
	for b.Loop() {
		c := comparison{from: instantOf(at(0)), left: maxWork}
		_ = c.ceilings(p.node, q.node)
	}
}

func BenchmarkPairs(b *testing.B) {
	long := longPolicies(1000)
	other := longPolicies(999)
	for kind, text := range long {
		for less, t2 := range other {
			b.Run(kind+"-"+less, func(b *testing.B) {
				p, q := parsed(b, text), parsed(b, t2)
				for b.Loop() {
					_ = p.AtMost(q, at(0))
				}
			})
		}
	}
}
