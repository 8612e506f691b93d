package api

import (
	"encoding/json"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Mechanism defines how a question in finite encoding is answered: by a local mechanism that the
// host supplies, at a few ε.
//
// A response exists only at the ε of the family's levels, and is one of the outputs of the level.
// Requests at another ε are [ErrInvalid]. Policies may set any ceilings, and Ledger.Advance
// releases the highest level at or below each ceiling. The responses of a chain are always drawn at
// random: noise keys ([NoiseKeys]) do not apply.
//
// The ledger stores the family with the question. That includes the family's channels, because they
// determine the joint distribution of the responses of a chain (see [finite.Family]).
type Mechanism struct {
	// Family has an input for each of the question's values, in the same order.
	Family *finite.Family `json:"family"`
	// Outputs are the names of the outputs of each level, in rising ε. The names of a level are all
	// different, and have 1 to 256 bytes each. If Outputs is nil when the question is defined, the
	// names are the numbers from "0" on.
	Outputs [][]string `json:"outputs"`
}

// UnmarshalJSON decodes a mechanism of at most 1 MiB of JSON, whose family has its channels. It
// returns [ErrInvalid] for anything else.
func (m *Mechanism) UnmarshalJSON(data []byte) error {
	if len(data) > wire.MaxMechanism {
		return errs.Invalid("the mechanism has %d bytes of JSON: at most %d are possible", len(data), wire.MaxMechanism)
	}
	type plain Mechanism // without methods, so that json.Unmarshal does not call this one
	var in plain
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("%w: mechanism: %w", errs.ErrInvalid, err)
	}
	if in.Family == nil {
		return errs.Invalid("the mechanism has no family")
	}
	*m = Mechanism(in)
	return nil
}
