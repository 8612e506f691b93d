package fold

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

func applyNoiseKey(s *state.State, c *event.NoiseKeySet) error {
	known, err := s.NoiseKeys()
	if err != nil {
		return err
	}
	if c.Number != s.Counters.Noises+1 || names.Check("noise key", c.Name) != nil {
		return errs.Corrupt(nil, "noise key %d, %q, follows on %d", c.Number, c.Name, s.Counters.Noises)
	}
	for _, k := range known {
		if k.Name == c.Name {
			return errs.Corrupt(nil, "noise key %q is set twice", c.Name)
		}
	}
	s.Counters.Noises = c.Number
	e := &wire.Encoder{}
	c.Encode(e)
	return s.Put(state.BucketMeta, state.NoiseKey(c.Number), e.Buf)
}
