package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/terms"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// hostNoiseKeys is where noise keys come from. Package ledger describes it.
type hostNoiseKeys struct {
	Current string
	Key     func(name string) ([]byte, error)
}

// noises are the keys that a ledger was opened with.
type noises struct {
	known   []event.NoiseKeySet          // that the ledger has seen
	keys    map[uint32]*rrchain.NoiseKey // nil if the host has none
	current uint32                       // 0 for none
}

// of returns the key of a question's chains that begin now. A host that has used keys, and does not say what is to
// be used now, has forgotten to.
func (n *noises) of(q *event.Question) (number uint32, err error) {
	switch {
	case q.Encoding == Finite:
		return 0, nil
	case n.keys == nil && len(n.known) > 0:
		return 0, fmt.Errorf("%w: chains of this ledger began with keys, and it was opened without", ErrNoiseKey)
	}
	return n.current, nil
}

// lacks tells whether a chain cannot be drawn from, because the host does not have its key.
func (n *noises) lacks(c state.Chain) bool { return c.Noise != 0 && n.keys[c.Noise] == nil }

// noiseCheck recognizes a key.
func noiseCheck(key []byte) (t event.Tag) {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("sluice noise key check v1"))
	copy(t[:], mac.Sum(nil))
	return t
}

// useNoiseKeys checks the host's noise keys against the ledger's. It returns the change that makes a current one that is new
// the ledger's.
func (l *Rules) useNoiseKeys(given hostNoiseKeys, known []event.NoiseKeySet) (set []event.Change, err error) {
	if given.Key == nil && given.Current != "" {
		return nil, errs.Invalid("the current noise key has a name, and there is nothing to get keys from")
	}
	if l.noise.known = known; given.Key == nil {
		return nil, nil
	}
	l.noise.keys = make(map[uint32]*rrchain.NoiseKey)
	for _, k := range l.noise.known {
		key, err := given.get(k.Name)
		switch {
		case err != nil:
			return nil, err
		case key == nil && k.Name == given.Current:
			return nil, fmt.Errorf("%w: the current key %q is one that the host does not have", ErrNoiseKey, k.Name)
		case key == nil:
			continue
		}
		if err := l.noise.add(k.Number, k.Name, key); err != nil {
			return nil, err
		}
		if check := noiseCheck(key); !check.Equal(k.Check) {
			return nil, fmt.Errorf("%w: key %q", ErrNoiseKey, k.Name)
		}
		if k.Name == given.Current {
			l.noise.current = k.Number
		}
	}
	if given.Current == "" || l.noise.current != 0 || l.readOnly {
		return nil, nil
	}
	return l.newNoiseKey(given)
}

// newNoiseKey returns the change that makes the current key, which is new, the ledger's.
func (l *Rules) newNoiseKey(given hostNoiseKeys) ([]event.Change, error) {
	if err := names.Check("noise key", given.Current); err != nil {
		return nil, err
	}
	key, err := given.get(given.Current)
	if err != nil {
		return nil, err
	}
	set := &event.NoiseKeySet{Number: uint32(len(l.noise.known) + 1), Name: given.Current, Check: noiseCheck(key)}
	for _, k := range l.noise.known {
		if k.Check.Equal(set.Check) {
			return nil, fmt.Errorf("%w: key %q is the one that is called %q", ErrNoiseKey, set.Name, k.Name)
		}
	}
	if err := l.noise.add(set.Number, set.Name, key); err != nil {
		return nil, err
	}
	l.noise.known, l.noise.current = append(l.noise.known, *set), set.Number
	return []event.Change{set}, nil
}

// get asks the host for a key.
func (n hostNoiseKeys) get(name string) ([]byte, error) {
	key, err := n.Key(name)
	if err != nil {
		return nil, fmt.Errorf("noise key %q: %w", name, err)
	}
	return key, nil
}

// add takes a key into use.
func (n *noises) add(number uint32, name string, key []byte) (err error) {
	if n.keys[number], err = rrchain.NewNoiseKey(key); err != nil {
		return fmt.Errorf("%w: noise key %q: %w", ErrInvalid, name, err)
	}
	return nil
}

// keyed returns the response of a chain that began with a noise key.
func (l *Rules) keyed(q *event.Question, x terms.Subject, place int, epsilon privacy.Epsilon, truth int32) (v event.Value, err error) {
	key := l.noise.keys[x.Chain.Noise]
	if key == nil {
		return v, errs.Corrupt(nil, "object %q was not refused, and there is no noise key for it", x.Name)
	}
	derived := place < len(x.Chain.Levels)
	if q.Encoding == Unary {
		stairs, err := key.UnaryStaircase(string(q.ID[:]), x.Name, len(q.Values))
		if err == nil && derived {
			v.Bits, err = stairs.Below(epsilon, x.Chain.Levels[place].Response.Bits)
		} else if err == nil {
			v.Bits, err = stairs.Response(epsilon, int(truth))
		}
		return v, err
	}
	above := int(truth)
	if derived {
		above = x.Chain.Levels[place].Response.Index
	}
	stairs, err := key.Staircase(string(q.ID[:]), x.Name, len(q.Values))
	if err == nil {
		v.Index, err = stairs.Response(epsilon, above)
	}
	return v, err
}
