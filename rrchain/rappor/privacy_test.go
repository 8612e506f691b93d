package rappor

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// joint is the joint law of a client's reports at several ε, given its filter. A report is a
// number: bit i of the number is bit i of the report.
type joint struct {
	bits int
	bit  []map[int]float64 // for a true bit 0 and 1: the probability of the bit's values at all levels, likewise a number
}

// newJoint multiplies the kernels of pan2024 Eq. (54) for m = 2 along the chain of a bit.
func newJoint(p Params, reports ...privacy.Epsilon) joint {
	law := joint{bits: p.Bits, bit: []map[int]float64{{}, {}}}
	for truth := range law.bit {
		for path := range 1 << len(reports) {
			chance, from, last := 1.0, privacy.Epsilon{}, 0
			for level, report := range reports {
				to := must(p.BitEpsilon(report))
				k := must(rrchain.NewKernel(2, from, to))
				right := k.PBA // the probability of the truth; the same from both values before the first report
				if last == truth {
					right = k.PAA
				}
				now := path >> level & 1
				if now == truth {
					chance *= right
				} else {
					chance *= 1 - right
				}
				from, last = to, now
			}
			law.bit[truth][path] = chance
		}
	}
	return law
}

// of returns the probability of reports, one number for each level, given a filter.
func (j joint) of(filter []int, reports []int) float64 {
	chance := 1.0
	for i := range j.bits {
		truth, path := 0, 0
		for _, one := range filter {
			if one == i {
				truth = 1
			}
		}
		for level, report := range reports {
			path |= report >> i & 1 << level
		}
		chance *= j.bit[truth][path]
	}
	return chance
}

// The test enumerates all reports of a client with a small filter at up to three levels. For any
// two filters, the largest log-likelihood ratio must be exactly the number of different bits times
// the largest ε of a bit. Over all pairs it is D times that ε.
func TestClient_AllReportsTogether_CostTheLargest(t *testing.T) {
	levels := []privacy.Epsilon{eps("0.4"), eps("1.5"), eps("3")}
	for _, p := range []Params{{1, 2, 1}, {1, 3, 1}, {1, 3, 2}, {1, 4, 1}, {1, 4, 2}, {1, 4, 3}} {
		for n := 1; n <= len(levels); n++ {
			law := newJoint(p, levels[:n]...)
			bit := must(p.BitEpsilon(levels[n-1]))
			largest := 0.0
			filters := subsets(p.Bits, p.Hashes)
			for _, a := range filters {
				for _, b := range filters {
					loss := law.loss(t, n, a, b)
					want := float64(len(union(a, b))*2-len(a)-len(b)) * bit.Float64()
					check.That(t, math.Abs(loss-want) <= 1e-12,
						"%+v, %d levels, filters %v and %v: loss %v, want %v", p, n, a, b, loss, want)
					largest = max(largest, loss)
				}
			}
			report := levels[n-1].Float64()
			check.That(t, math.Abs(largest-report) <= 1e-12,
				"%+v: the largest loss of %d reports is %v, want %v", p, n, largest, report)
		}
	}
}

// loss returns the largest log-likelihood ratio between two filters over all reports, and checks
// that their probabilities sum to 1.
func (j joint) loss(t *testing.T, levels int, a, b []int) float64 {
	t.Helper()
	largest, sum := 0.0, 0.0
	reports := make([]int, levels)
	for code := range 1 << (levels * j.bits) {
		for level := range reports {
			reports[level] = code >> (level * j.bits) & (1<<j.bits - 1)
		}
		of := j.of(a, reports)
		largest = max(largest, math.Log(of/j.of(b, reports)))
		sum += of
	}
	check.Need(t, math.Abs(sum-1) <= 1e-12, "the probabilities sum to %v", sum)
	return largest
}

// subsets returns all sets of a size of the numbers below n.
func subsets(n, size int) [][]int {
	var all [][]int
	for code := range 1 << n {
		var set []int
		for i := range n {
			if code>>i&1 == 1 {
				set = append(set, i)
			}
		}
		if len(set) == size {
			all = append(all, set)
		}
	}
	return all
}

func union(a, b []int) map[int]bool {
	all := map[int]bool{}
	for _, i := range a {
		all[i] = true
	}
	for _, i := range b {
		all[i] = true
	}
	return all
}

// 60,000 clients report twice, with a restart in between, and insert a report between the two.
// Their reports must follow the joint law. The same test must fail for clients that lose the first
// report at the restart.
func TestClient_SystemRandomness_FollowsTheLaw(t *testing.T) {
	p := Params{3, 3, 1}
	low, mid, high := eps("0.5"), eps("1"), eps("2.5")
	law := newJoint(p, low, mid, high)
	sampler := new(rrchain.Sampler)
	reported := func(restart func(c *Client) *Client) stattest.Verdict {
		const clients = 60_000
		counts := map[string]int{}
		for range clients {
			first := raise(t, sampler, newClient(p, 1, "Emma"), low)
			again := restart(first)
			raise(t, sampler, again, high)
			if _, err := again.Insert(sampler, mid); err != nil {
				// The client that forgot has nothing below: what it would be asked for is lower
				// than all it has.
				check.Must(t, check.Err(again.Insert(sampler, mid)))
			}
			key := first.Reports()[0].Bits.String()
			for _, r := range again.Reports()[len(again.Reports())-2:] {
				key += r.Bits.String()
			}
			counts[key]++
		}
		expected := map[string]float64{}
		for code := range 1 << 9 {
			reports := []int{code & 7, code >> 3 & 7, code >> 6 & 7}
			expected[written(reports)] = law.of(bitsOf(p, 1, "Emma"), reports)
		}
		return stattest.Fit(counts, expected)
	}
	reported(func(c *Client) *Client { return newClient(p, 1, "Emma", c.Reports()...) }).Holds(t, "clients that remember")
	reported(func(*Client) *Client { return newClient(p, 1, "Emma") }).Fails(t, "clients that forget what they reported")
}

// written returns reports of 3 bits in the form of Bits.String.
func written(reports []int) (text string) {
	for _, report := range reports {
		for i := range 3 {
			text += fmt.Sprint(report >> i & 1)
		}
	}
	return text
}

func newClient(p Params, cohort int, s string, recorded ...Report) *Client {
	return must(p.NewClient(cohort, s, recorded...))
}

func raise(t *testing.T, s *rrchain.Sampler, c *Client, to privacy.Epsilon) *Client {
	t.Helper()
	check.Must(t, check.Err(c.Raise(s, to)))
	return c
}
