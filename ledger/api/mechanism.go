package api

import (
	"encoding/json"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Mechanism is how a question in finite encoding is answered: by a local mechanism of the host's
// own, at a few ε.
//
// A response exists at the ε of the family's levels only, and is one of the level's outputs.
// Requests at another ε are [ErrInvalid]; policies may set any ceilings, and Ledger.Advance
// releases the highest level at or below each ceiling. A chain's responses are always drawn from
// chance: noise keys ([NoiseKeys]) do not apply.
//
// The family is kept with the question, its channels included, for those decide how the responses
// of a chain hang together (see [finite.Family]).
type Mechanism struct {
	// Family has an input for each of the question's values, in their order.
	Family *finite.Family `json:"family"`
	// Outputs names the outputs of each level, by rising ε: all names of a level are different, of
	// 1 to 256 bytes. If it is nil when the question is defined, they are called by their numbers,
	// from "0" on.
	Outputs [][]string `json:"outputs"`
}

// MaxMechanism is the largest size of a [Mechanism], in bytes of JSON.
const MaxMechanism = 1 << 20

// UnmarshalJSON reads a mechanism of up to [MaxMechanism] bytes, whose family has its channels.
// Anything else is an [ErrInvalid].
func (m *Mechanism) UnmarshalJSON(data []byte) error {
	if len(data) > MaxMechanism {
		return errs.Invalid("a mechanism of %d bytes; at most %d are possible", len(data), MaxMechanism)
	}
	type plain Mechanism
	var in plain
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("%w: a mechanism: %w", errs.ErrInvalid, err)
	}
	if in.Family == nil {
		return errs.Invalid("a mechanism without a family")
	}
	*m = Mechanism(in)
	return nil
}
