package vocabulary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
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

// Named returns the mechanism with the names of its outputs. It shares nothing with the host's that can change.
func (m *Mechanism) Named() *Mechanism {
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

// Check refuses what is no mechanism of a question with some values.
func (m *Mechanism) Check(values int) error {
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
	if size := len(m.Encode()); size > MaxMechanism {
		return fmt.Errorf("the mechanism has %d bytes; at most %d are possible", size, MaxMechanism)
	}
	return nil
}

func checkOutputs(level *finite.Matrix, all []string, values int) error {
	if level.Inputs() != values {
		return fmt.Errorf("%d inputs, and the question has %d values", level.Inputs(), values)
	}
	if level.Outputs() != len(all) {
		return fmt.Errorf("%d outputs, and names for %d", level.Outputs(), len(all))
	}
	seen := make(map[string]bool, len(all))
	for _, name := range all {
		if err := names.Check("output", name); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("two outputs are named %q", name)
		}
		seen[name] = true
	}
	return nil
}

// Encode writes the mechanism in the only way.
func (m *Mechanism) Encode() []byte {
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
		return fmt.Errorf("%w: a mechanism: %w", errs.ErrInvalid, err)
	}
	*m = Mechanism(in)
	return nil
}

// AnswersAs tells whether another mechanism has the same levels and names: its channels may be others, and the
// ones that count are those of the mechanism that was first.
func (m *Mechanism) AnswersAs(other *Mechanism) bool {
	return bytes.Equal(m.Behaviour(), other.Behaviour())
}

// Behaviour returns what a mechanism does at each ε, and how it calls it.
func (m *Mechanism) Behaviour() []byte {
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

// OutputsAt returns the names of the outputs at one ε, or nil if it is none of the levels'. There are none without a
// mechanism.
func (m *Mechanism) OutputsAt(epsilon privacy.Epsilon) []string {
	if m == nil {
		return nil
	}
	i := slices.Index(m.Family.Epsilons(), epsilon)
	if i < 0 {
		return nil
	}
	return m.Outputs[i]
}

// Possible tells whether an output can be the response at one ε.
func (m *Mechanism) Possible(epsilon privacy.Epsilon, output int) bool {
	if output < 0 || output >= len(m.OutputsAt(epsilon)) {
		return false
	}
	level, _ := m.Family.Level(epsilon)
	return level.At(0, output).Sign() > 0
}

// Floor returns the highest level at or below an ε, if there is one.
func (m *Mechanism) Floor(epsilon privacy.Epsilon) (level privacy.Epsilon, found bool) {
	for _, at := range m.Family.Epsilons() {
		if !epsilon.Less(at) {
			level, found = at, true
		}
	}
	return level, found
}
