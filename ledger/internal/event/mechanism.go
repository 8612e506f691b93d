package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// NameOutputs returns a copy of a mechanism in which all outputs have names. If m has no names,
// each output is named by its number, from 0. The copy shares no memory that the host can change.
// If m or its family is nil, NameOutputs returns m itself.
func NameOutputs(m *api.Mechanism) *api.Mechanism {
	if m == nil || m.Family == nil {
		return m
	}
	out := &api.Mechanism{Family: m.Family}
	for _, names := range m.Outputs {
		out.Outputs = append(out.Outputs, slices.Clone(names))
	}
	if m.Outputs != nil {
		return out
	}
	for _, epsilon := range m.Family.Epsilons() {
		// a family has a level at each of its ε
		level, _ := m.Family.Level(epsilon)
		names := make([]string, level.Outputs())
		for o := range names {
			names[o] = strconv.Itoa(o)
		}
		out.Outputs = append(out.Outputs, names)
	}
	return out
}

// checkMechanism returns an error if m is not a valid mechanism for a question with so many values.
// Each level needs one input for each value, and a name for each output.
func checkMechanism(m *api.Mechanism, values int) error {
	if m == nil || m.Family == nil || len(m.Family.Epsilons()) == 0 {
		return fmt.Errorf("%s encoding needs a mechanism", EncodingFinite)
	}
	epsilons := m.Family.Epsilons()
	if len(m.Outputs) != len(epsilons) {
		return fmt.Errorf("the mechanism has output names for %d of its %d levels", len(m.Outputs), len(epsilons))
	}
	for i, epsilon := range epsilons {
		level, _ := m.Family.Level(epsilon)
		if err := checkOutputs(level, m.Outputs[i], values); err != nil {
			return fmt.Errorf("the mechanism at ε=%s: %w", epsilon, err)
		}
	}
	if size := len(EncodeMechanism(m)); size > wire.MaxMechanism {
		return fmt.Errorf("the mechanism has %d bytes; at most %d are possible", size, wire.MaxMechanism)
	}
	return nil
}

// checkOutputs returns an error unless a level has one input for each value of the question, and
// all has the names of its outputs. The names must be valid and different.
func checkOutputs(level *finite.Matrix, all []string, values int) error {
	if level.Inputs() != values {
		return fmt.Errorf("%d inputs, but the question has %d values", level.Inputs(), values)
	}
	if level.Outputs() != len(all) {
		return fmt.Errorf("%d outputs, but %d names", level.Outputs(), len(all))
	}
	seen := make(map[string]bool, len(all))
	for _, name := range all {
		if err := CheckName("output", name); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("two outputs are named %q", name)
		}
		seen[name] = true
	}
	return nil
}

// EncodeMechanism returns the canonical encoding of a mechanism, which is JSON. Equal mechanisms
// have equal bytes. It returns nil if the mechanism has no JSON, such as one without levels.
func EncodeMechanism(m *api.Mechanism) []byte {
	text, err := json.Marshal(m)
	if err != nil {
		return nil // checkMechanism refuses such a mechanism
	}
	return text
}

// decodeMechanism decodes a text with the output of [EncodeMechanism], for a question with so many
// values. d fails for any other bytes, and the result must then not be used.
func decodeMechanism(d *wire.Decoder, values int) *api.Mechanism {
	text := d.Take(d.Uvarint())
	m := &api.Mechanism{}
	if err := json.Unmarshal(text, m); err != nil {
		d.Fail("a mechanism: %v", err)
	} else if !bytes.Equal(EncodeMechanism(m), text) {
		d.Fail("a mechanism that is not in its canonical form")
	} else if err := checkMechanism(m, values); err != nil {
		d.Fail("%v", err)
	}
	return m
}

// SameBehaviour reports whether two mechanisms have the same levels and the same output names.
// Their channels, which derive a lower level from a higher one, may differ. Then the ledger uses
// those of the mechanism that was defined first.
func SameBehaviour(m, other *api.Mechanism) bool {
	return bytes.Equal(Behaviour(m), Behaviour(other))
}

// Behaviour returns an encoding of the levels of a mechanism and of its output names, without its
// channels. It returns nil if m is nil.
func Behaviour(m *api.Mechanism) []byte {
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
		return nil // cannot happen: checkMechanism has accepted the family
	}
	return text
}

// OutputsAt returns the names of the outputs of a mechanism at one ε. It returns nil if m is nil
// or has no such level.
func OutputsAt(m *api.Mechanism, epsilon privacy.Epsilon) []string {
	if m == nil {
		return nil
	}
	i := slices.Index(m.Family.Epsilons(), epsilon)
	if i < 0 {
		return nil
	}
	return m.Outputs[i]
}

// canAnswer reports whether a mechanism has an output with this index at ε, and gives it a
// probability above 0.
func canAnswer(m *api.Mechanism, epsilon privacy.Epsilon, output int) bool {
	if output < 0 || output >= len(OutputsAt(m, epsilon)) {
		return false
	}
	level, _ := m.Family.Level(epsilon)
	// Input 0 is enough: ε is finite, so an output that is possible for one input is possible for
	// all.
	return level.At(0, output).Sign() > 0
}
