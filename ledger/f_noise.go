package ledger

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

func applyNoiseKey(s *state, c *noiseKeySet) error {
	known, err := s.noiseKeys()
	if err != nil {
		return err
	}
	if c.number != s.counters.noises+1 || names.Check("noise key", c.name) != nil {
		return errs.Corrupt(nil, "noise key %d, %q, follows on %d", c.number, c.name, s.counters.noises)
	}
	for _, k := range known {
		if k.name == c.name {
			return errs.Corrupt(nil, "noise key %q is set twice", c.name)
		}
	}
	s.counters.noises = c.number
	e := &wire.Encoder{}
	c.encode(e)
	return s.put(bucketMeta, noiseKey(c.number), e.Buf)
}
