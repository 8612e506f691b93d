package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/finite"
	finiteestimate "github.com/sluicedp/sluice/rrchain/finite/estimate"
)

// Mechanism is how a question in finite encoding is answered: by a local mechanism of the host's own, at a few ε.
//
// A response exists at the ε of the family's levels only, and is one of the level's outputs. Requests at another ε
// are [ErrInvalid]; policies may set any ceilings, and [Ledger.Advance] releases the highest level at or below each
// ceiling. A chain's responses are always drawn from chance: noise keys ([NoiseKeys]) do not apply.
//
// The family is kept with the question, its channels included, for those decide how the responses of a chain hang
// together (see [finite.Family]).
type Mechanism struct {
	// Family has an input for each of the question's values, in their order.
	Family *finite.Family `json:"family"`
	// Outputs names the outputs of each level, by rising ε: all names of a level are different, of 1 to 256 bytes.
	// If it is nil when the question is defined, they are called by their numbers, from "0" on.
	Outputs [][]string `json:"outputs"`
}

// MaxMechanism is the largest size of a [Mechanism], in bytes of JSON.
const MaxMechanism = 1 << 20

// named returns the mechanism with the names of its outputs. It shares nothing with the host's that can change.
func (m *Mechanism) named() *Mechanism {
	if m == nil || m.Family == nil {
		return m
	}
	out := &Mechanism{Family: m.Family}
	for _, names := range m.Outputs {
		out.Outputs = append(out.Outputs, slices.Clone(names))
	}
	if m.Outputs != nil {
		return out
	}
	for _, epsilon := range m.Family.Epsilons() {
		level, _ := m.Family.Level(epsilon)
		names := make([]string, level.Outputs())
		for o := range names {
			names[o] = strconv.Itoa(o)
		}
		out.Outputs = append(out.Outputs, names)
	}
	return out
}

// check refuses what is no mechanism of a question with some values.
func (m *Mechanism) check(values int) error {
	if m == nil || m.Family == nil || len(m.Family.Epsilons()) == 0 {
		return fmt.Errorf("a question in %s encoding has a mechanism, and this one has none", Finite)
	}
	epsilons := m.Family.Epsilons()
	if len(m.Outputs) != len(epsilons) {
		return fmt.Errorf("the mechanism has names of outputs for %d of its %d levels", len(m.Outputs), len(epsilons))
	}
	for i, epsilon := range epsilons {
		level, _ := m.Family.Level(epsilon)
		if err := checkOutputs(level, m.Outputs[i], values); err != nil {
			return fmt.Errorf("the mechanism at ε=%s: %w", epsilon, err)
		}
	}
	if size := len(m.encode()); size > MaxMechanism {
		return fmt.Errorf("the mechanism has %d bytes; at most %d are possible", size, MaxMechanism)
	}
	return nil
}

func checkOutputs(level *finite.Matrix, names []string, values int) error {
	if level.Inputs() != values {
		return fmt.Errorf("%d inputs, and the question has %d values", level.Inputs(), values)
	}
	if level.Outputs() != len(names) {
		return fmt.Errorf("%d outputs, and names for %d", level.Outputs(), len(names))
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if err := checkName("output", name); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("two outputs are named %q", name)
		}
		seen[name] = true
	}
	return nil
}

// encode writes the mechanism in the only way.
func (m *Mechanism) encode() []byte {
	text, err := json.Marshal(m)
	if err != nil {
		return nil // of a family without levels, which check refuses
	}
	return text
}

// UnmarshalJSON reads a mechanism of up to [MaxMechanism] bytes, whose family has its channels.
func (m *Mechanism) UnmarshalJSON(data []byte) error {
	if len(data) > MaxMechanism {
		return errs.Invalid("a mechanism of %d bytes; at most %d are possible", len(data), MaxMechanism)
	}
	type plain Mechanism
	var in plain
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("%w: a mechanism: %w", ErrInvalid, err)
	}
	*m = Mechanism(in)
	return nil
}

// decodeMechanism reads what encode writes of a question with some values, and nothing else.
func decodeMechanism(d *decoder, values int) *Mechanism {
	text := d.take(d.uvarint())
	m := &Mechanism{}
	if err := json.Unmarshal(text, m); err != nil {
		d.fail("a mechanism: %v", err)
	} else if !bytes.Equal(m.encode(), text) {
		d.fail("a mechanism that is not in its canonical form")
	} else if err := m.check(values); err != nil {
		d.fail("%v", err)
	}
	return m
}

// answersAs tells whether another mechanism has the same levels and names: its channels may be others, and the
// ones that count are those of the mechanism that was first.
func (m *Mechanism) answersAs(other *Mechanism) bool {
	return bytes.Equal(m.levels(), other.levels())
}

// levels returns what a mechanism does at each ε, and how it calls it.
func (m *Mechanism) levels() []byte {
	if m == nil {
		return nil
	}
	all := struct {
		Levels  []*finite.Matrix
		Outputs [][]string
	}{Outputs: m.Outputs}
	for _, epsilon := range m.Family.Epsilons() {
		level, _ := m.Family.Level(epsilon)
		all.Levels = append(all.Levels, level)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil // never: check has seen the family
	}
	return text
}

// outputs returns the names of the outputs at one ε, or nil if it is none of the levels'. There are none without a
// mechanism.
func (m *Mechanism) outputs(epsilon privacy.Epsilon) []string {
	if m == nil {
		return nil
	}
	i := slices.Index(m.Family.Epsilons(), epsilon)
	if i < 0 {
		return nil
	}
	return m.Outputs[i]
}

// possible tells whether an output can be the response at one ε.
func (m *Mechanism) possible(epsilon privacy.Epsilon, output int) bool {
	if output < 0 || output >= len(m.outputs(epsilon)) {
		return false
	}
	level, _ := m.Family.Level(epsilon)
	return level.At(0, output).Sign() > 0
}

// floor returns the highest level at or below an ε, if there is one.
func (m *Mechanism) floor(epsilon privacy.Epsilon) (level privacy.Epsilon, found bool) {
	for _, at := range m.Family.Epsilons() {
		if !epsilon.Less(at) {
			level, found = at, true
		}
	}
	return level, found
}

// draw returns a response of a chain.
func (m *Mechanism) draw(sampler *finite.Sampler, levels []level, place int, epsilon privacy.Epsilon, truth int32) (int, error) {
	at := func(i int) rrchain.Level {
		if i < 0 {
			return rrchain.Level{}
		}
		return rrchain.Level{Epsilon: levels[i].Epsilon, Response: levels[i].Response.index}
	}
	var made rrchain.Level
	var err error
	if place == len(levels) {
		made, err = sampler.Raise(m.Family, at(place-1), epsilon, int(truth))
	} else {
		made, err = sampler.Between(m.Family, at(place-1), at(place), epsilon)
	}
	return made.Response, err
}

// checkLevel refuses an ε at which the question has no responses.
func (q *question) checkLevel(epsilon privacy.Epsilon) error {
	if epsilon.IsZero() {
		return errs.Invalid("ε must be above 0")
	}
	if q.encoding != Finite || q.mechanism.outputs(epsilon) != nil {
		return nil
	}
	var all []string
	for _, at := range q.mechanism.Family.Epsilons() {
		all = append(all, at.String())
	}
	return errs.Invalid("question %q has responses at ε=%s only, not at %s", q.name, strings.Join(all, ", "), epsilon)
}

// released returns the level at which the question has a response when a policy has released an ε, if it has.
func (q *question) released(ceiling privacy.Epsilon) (level privacy.Epsilon, found bool) {
	if q.encoding != Finite {
		return ceiling, true
	}
	return q.mechanism.floor(ceiling)
}

// work is how much a draw costs: how many probabilities, or bits, it looks at.
func (q *question) work() int {
	switch q.encoding {
	case Unary:
		return len(q.values)
	case Finite:
		most := 0
		for _, names := range q.mechanism.Outputs {
			most = max(most, len(q.values)*len(names))
		}
		return most
	}
	return 1
}

// estimate returns the shares of the inputs from counts of responses.
func (m *Mechanism) estimate(confidence float64, levels []estimate.UnaryCounts) ([]estimate.Frequency, error) {
	counts := make([]finiteestimate.Counts, len(levels))
	for i, l := range levels {
		level, _ := m.Family.Level(l.Epsilon)
		counts[i] = finiteestimate.Counts{Mechanism: level, ByOutput: l.ByValue}
	}
	return finiteestimate.Frequencies(confidence, counts...)
}
