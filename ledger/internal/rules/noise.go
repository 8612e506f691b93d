package rules

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// noiseKeys has the noise keys of a ledger, from which responses are computed instead of drawn at
// random.
type noiseKeys struct {
	known   []event.NoiseKeySet          // keys that the ledger has recorded
	keys    map[uint32]*rrchain.NoiseKey // by number: the keys that the host has; nil if it has given none
	Current uint32                       // number of the current key; 0 for none
}

// Of returns the number of the key for chains of a question that begin now, or 0 for none.
// Questions in finite encoding have none. If the ledger has recorded keys and was opened without
// any, it returns [errs.ErrNoiseKey], because the host has probably forgotten them.
func (n *noiseKeys) Of(q *event.Question) (number uint32, err error) {
	switch {
	case q.Encoding == event.EncodingFinite:
		return 0, nil
	case n.keys == nil && len(n.known) > 0:
		return 0, fmt.Errorf("%w: chains of this ledger began with noise keys, and it was opened without any",
			errs.ErrNoiseKey)
	}
	return n.Current, nil
}

// lacks reports whether a chain began with a noise key that the host did not give. No new response
// of it is then possible.
func (n *noiseKeys) lacks(c state.Chain) bool { return c.Noise != 0 && n.keys[c.Noise] == nil }

// NoiseCheck returns the tag by which a key is recognized: HMAC-SHA-256 of a fixed text. The ledger
// records the tag in place of the key.
func NoiseCheck(key []byte) (t event.Tag) {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("sluice noise key check v1"))
	copy(t[:], mac.Sum(nil))
	return t
}

// UseNoiseKeys requests the noise keys from the host, checks them against those that the ledger has
// recorded (known), and keeps them. If the current key is new, it returns the event that records
// it. It returns [errs.ErrNoiseKey] if a key differs from the recorded one, or if the current key
// is recorded and the host does not have it.
func (l *Rules) UseNoiseKeys(given api.NoiseKeys, known []event.NoiseKeySet) (set []event.Change, err error) {
	if given.Key == nil && given.Current != "" {
		return nil, errs.Invalid("NoiseKeys.Current is set without NoiseKeys.Key")
	}
	if l.Noise.known = known; given.Key == nil {
		return nil, nil
	}
	l.Noise.keys = make(map[uint32]*rrchain.NoiseKey)
	for _, k := range l.Noise.known {
		key, err := hostKey(given, k.Name)
		switch {
		case err != nil:
			return nil, err
		case key == nil && k.Name == given.Current:
			return nil, fmt.Errorf("%w: the host does not have the current key %q", errs.ErrNoiseKey,
				k.Name)
		case key == nil: // an old key: its chains have no new responses
			continue
		}
		if err := l.Noise.add(k.Number, k.Name, key); err != nil {
			return nil, err
		}
		if check := NoiseCheck(key); !check.Equal(k.Check) {
			return nil, fmt.Errorf("%w: another key is recorded under the name %q", errs.ErrNoiseKey, k.Name)
		}
		if k.Name == given.Current {
			l.Noise.Current = k.Number
		}
	}
	if given.Current == "" || l.Noise.Current != 0 || l.ReadOnly { // a read-only ledger records no key
		return nil, nil
	}
	if len(known) >= event.MaxNoiseKeys {
		return nil, errs.Invalid("noise key %.40q is new, and the ledger already has %d, the largest number",
			given.Current, len(known))
	}
	return l.newNoiseKey(given)
}

// newNoiseKey returns the event that records the current key, which is new, and uses the key from
// now on. It returns [errs.ErrNoiseKey] if the key is recorded under another name.
func (l *Rules) newNoiseKey(given api.NoiseKeys) ([]event.Change, error) {
	if err := event.CheckName("noise key", given.Current); err != nil {
		return nil, err
	}
	key, err := hostKey(given, given.Current)
	if err != nil {
		return nil, err
	}
	set := &event.NoiseKeySet{Number: uint32(len(l.Noise.known) + 1), Name: given.Current, Check: NoiseCheck(key)}
	for _, k := range l.Noise.known {
		if k.Check.Equal(set.Check) {
			return nil, fmt.Errorf("%w: key %q is recorded under the name %q", errs.ErrNoiseKey, set.Name, k.Name)
		}
	}
	if err := l.Noise.add(set.Number, set.Name, key); err != nil {
		return nil, err
	}
	l.Noise.known, l.Noise.Current = append(l.Noise.known, *set), set.Number
	return []event.Change{set}, nil
}

// hostKey requests the key with a name from the host. The key is nil if the host does not have it.
func hostKey(n api.NoiseKeys, name string) ([]byte, error) {
	key, err := n.Key(name)
	if err != nil {
		return nil, fmt.Errorf("noise key %q: %w", name, err)
	}
	return key, nil
}

// add keeps a key under a number. It returns [errs.ErrInvalid] if the key has the wrong length.
func (n *noiseKeys) add(number uint32, name string, key []byte) (err error) {
	if n.keys[number], err = rrchain.NewNoiseKey(key); err != nil {
		return fmt.Errorf("%w: noise key %q: %w", errs.ErrInvalid, name, err)
	}
	return nil
}

// respondFromKey returns the response of a chain that began with a noise key, at an ε that takes
// this place among its levels. The key determines the responses at all ε from the true value, or
// from any response at a higher ε ([rrchain.Staircase]). So the true value is used only for a level
// above all others.
func (l *Rules) respondFromKey(
	q *event.Question, subject Subject, place int, epsilon privacy.Epsilon, truth int32,
) (v event.Value, err error) {
	key := l.Noise.keys[subject.Chain.Noise]
	if key == nil {
		return v, errs.Corrupt(nil, "object %q: the noise key of its chain is missing", subject.Name)
	}
	of := rrchain.Staircase{Question: string(q.ID[:]), Object: subject.Name, Values: len(q.Values)}
	above := event.Value{Index: int(truth)} // the true value, unless a higher level is recorded
	derived := place < len(subject.Chain.Levels)
	if derived {
		above = subject.Chain.Levels[place].Response
	}
	switch {
	case q.Encoding != event.EncodingUnary:
		v.Index, err = key.Response(of, epsilon, above.Index)
	case derived:
		v.Bits, err = key.UnaryBelow(of, epsilon, above.Bits)
	default:
		v.Bits, err = key.UnaryResponse(of, epsilon, above.Index)
	}
	return v, err
}
