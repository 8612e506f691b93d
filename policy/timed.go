package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// instant is a time in nanoseconds since 1970.
type instant int64

const (
	startOfTime instant = math.MinInt64      // represents every instant before 1970
	endOfTime   instant = math.MaxInt64      // represents every instant from 2262 on
	lastInstant instant = 9214646400*1e9 - 1 // the last nanosecond of 2261
)

// instantOf converts a time. It returns startOfTime or endOfTime for a time outside 1970 to 2261.
func instantOf(t time.Time) instant {
	switch sec := t.Unix(); {
	case sec < 0:
		return startOfTime
	case sec > int64(lastInstant)/1e9:
		return endOfTime
	default:
		return instant(sec*1e9 + int64(t.Nanosecond()))
	}
}

// String returns the instant in RFC 3339, in UTC, with as many decimals as it needs.
func (i instant) String() string { return i.time().Format(time.RFC3339Nano) }

// time returns the instant as a time in UTC, and the zero time for startOfTime.
func (i instant) time() time.Time {
	if i == startOfTime {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}

// check returns an error if a parameter was outside 1970 to 2261. name is the parameter's name.
func (i instant) check(name string) error {
	if i < 0 || i > lastInstant {
		return fmt.Errorf("%s is not a time from 1970 to 2261", name)
	}
	return nil
}

// step is an instant at which a ceiling rises, with the new ceiling.
type step struct {
	at      instant
	ceiling privacy.Epsilon
}

// always returns the line of a ceiling that does not depend on time.
func always(ceiling privacy.Epsilon) []step {
	return appendStep(nil, step{startOfTime, ceiling})
}

// appendStep appends s to a line. It keeps the line strictly rising in both instant and ceiling,
// and omits steps with ε = 0. The step must not be before the last one of the line.
func appendStep(line []step, s step) []step {
	last := len(line) - 1
	switch {
	case last < 0:
		if s.ceiling.IsZero() {
			return line
		}
	case !line[last].ceiling.Less(s.ceiling):
		return line
	case line[last].at == s.at:
		line[last] = s
		return line
	}
	return append(line, s)
}

// passedBy returns the number of steps of a line up to and including an instant.
func passedBy(line []step, at instant) int {
	n, _ := slices.BinarySearchFunc(line, at, func(s step, at instant) int {
		if s.at <= at {
			return -1
		}
		return 1
	})
	return n
}

// ceilingAt returns the ceiling of a line at an instant, which is 0 before the first step.
func ceilingAt(line []step, at instant) privacy.Epsilon {
	if n := passedBy(line, at); n > 0 {
		return line[n-1].ceiling
	}
	return privacy.Epsilon{}
}

// nanos returns the ε of n nano-nats, where n is in range by construction. For any other n it
// returns 0, which allows nothing.
func nanos(n int64) privacy.Epsilon {
	e, _ := privacy.EpsilonFromNano(n)
	return e
}

// multiplesBetween returns the first multiple of stride above from, and the number of multiples
// above from and below to.
func multiplesBetween(from, to, stride privacy.Epsilon) (first, count int64) {
	k := from.Nano() / stride.Nano()
	return (k + 1) * stride.Nano(), max(0, (to.Nano()-1)/stride.Nano()-k)
}

// Linear returns the policy that allows nothing before start and `from` at start. It then rises on
// a straight line to `to` at end, and stays there. Between start and end the ceiling is rounded
// down to a multiple of stride, but never below from. The arithmetic is exact.
//
// Linear needs start before end, both from 1970 to 2261; from ≤ to; to and stride above 0; and at
// most 1,024 steps.
func Linear(from, to privacy.Epsilon, start, end time.Time, stride privacy.Epsilon) (Policy, error) {
	return build(linear{from, to, instantOf(start), instantOf(end), stride})
}

// linear is the rule of kind "linear".
type linear struct {
	from, to   privacy.Epsilon
	start, end instant
	stride     privacy.Epsilon
}

func (linear) kind() string { return "linear" }

// code implements [rule]: it reads or writes the parameters.
func (r linear) code(c *coder) rule {
	c.epsilon("from", &r.from)
	c.epsilon("to", &r.to)
	c.instant("start", &r.start)
	c.instant("end", &r.end)
	c.epsilon("stride", &r.stride)
	return r
}

// shape checks the parameters. The limit is the ceiling at the end.
func (r linear) shape() (shape, error) {
	if err := cmp.Or(r.start.check("start"), r.end.check("end")); err != nil {
		return shape{}, err
	}
	switch {
	case r.start >= r.end:
		return shape{}, errors.New("start is not before end")
	case r.to.Less(r.from):
		return shape{}, fmt.Errorf("from is %v, above to, which is %v", r.from, r.to)
	case r.to.IsZero():
		return shape{}, errors.New("to is 0")
	case r.stride.IsZero():
		return shape{}, errors.New("stride is 0")
	}
	_, between := multiplesBetween(r.from, r.to, r.stride)
	return shape{steps: stepCount(between), isTimed: true, limit: r.to}, nil
}

// stepCount adds the two ends to the number of multiples between them. It limits the sum first, so
// that a 32-bit int does not overflow.
func stepCount(between int64) int { return int(min(between, maxSteps)) + 2 }

// line returns a step for start, for each multiple of stride that is reached in between, and for
// end.
func (r linear) line() []step {
	level, count := multiplesBetween(r.from, r.to, r.stride)
	line := appendStep(make([]step, 0, count+2), step{r.start, r.from})
	for range count {
		line = appendStep(line, step{r.reaches(level), nanos(level)})
		level += r.stride.Nano()
	}
	return appendStep(line, step{r.end, r.to})
}

// reaches returns the first nanosecond at which the straight line is at or above a level between
// from and to: start + ⌈(level−from)(end−start)/(to−from)⌉. The quotient is at most end−start.
func (r linear) reaches(level int64) instant {
	hi, lo := bits.Mul64(uint64(level-r.from.Nano()), uint64(r.end-r.start))
	elapsed, rest := bits.Div64(hi, lo, uint64(r.to.Nano()-r.from.Nano()))
	if rest > 0 {
		elapsed++
	}
	return r.start + instant(elapsed)
}

// Step is an instant, and the ceiling or the level that is released from this instant on.
type Step struct {
	At      time.Time       // from here on, until the next step
	Ceiling privacy.Epsilon // the highest ε
}

// Steps returns the policy that allows nothing before the first step, and then the ceiling of the
// latest step. The times, from 1970 to 2261, must rise strictly, and so must the ceilings, above 0.
// There must be 1 to 1,024 steps.
func Steps(of ...Step) (Policy, error) {
	r := make(steps, 0, len(of))
	for _, s := range of {
		r = append(r, step{instantOf(s.At), s.Ceiling})
	}
	return build(r)
}

// steps is the rule of kind "steps".
type steps []step

func (steps) kind() string { return "steps" }

func (r steps) code(c *coder) rule {
	code(c, "steps", (*[]step)(&r), readEach(readStep), appendEach(writeStep))
	return r
}

// readStep reads a step, which is a list of the time and the ceiling.
func readStep(raw []byte) (s step, err error) {
	s.at, s.ceiling, err = readPair(raw, readInstant, readEpsilon)
	return s, err
}

// writeStep appends a step as JSON.
func writeStep(to []byte, s step) []byte {
	to = appendString(append(to, '['), s.at)
	return append(appendString(append(to, ','), s.ceiling), ']')
}

// shape checks the steps. The limit is the ceiling of the last one.
func (r steps) shape() (shape, error) {
	if len(r) == 0 {
		return shape{}, errors.New("the list of steps is empty")
	}
	var before step
	for i, s := range r {
		if err := s.at.check("the time"); err != nil {
			return shape{}, fmt.Errorf("step %d: %w", i+1, err)
		}
		if i > 0 && s.at <= before.at {
			return shape{}, fmt.Errorf("step %d: the times do not rise", i+1)
		}
		if !before.ceiling.Less(s.ceiling) {
			return shape{}, fmt.Errorf("step %d: ε does not rise above %v", i+1, before.ceiling)
		}
		before = s
	}
	return shape{steps: len(r), isTimed: true, limit: before.ceiling}, nil
}

func (r steps) line() []step { return r }
