package ledger

import (
	"context"
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

// NoiseKeys are the host's keys for responses that are drawn from a key instead of from chance
// ([rrchain.NoiseKey]). The zero value is none.
//
// A response then is a function of the key, the question's definition, the object's name, the ε and the truth. So
// when the file is lost, and the same people are enrolled in the same questions and the same orders carried out
// again, in whatever order, all responses are the same; a backup that is restored gives the responses that were
// given since it was made, and no second draw leaks; and two ledgers with one key agree without talking.
//
// What it costs: who has the key and a response has, most often, the truth. Without a key, a stolen file tells no
// more than ε allows; with one, that is so only as long as the key is not stolen too. So the key must never be
// where the file is. Nobody can prove, besides, that responses were drawn from a key that was drawn at random.
//
// A chain keeps the key that was current when its object was enrolled in the question, for ever: under another key
// its next response would be independent noise about the same truth, and both together would tell more than the
// higher ε allows. That is why rotation is for new chains only, and why a ledger that is rebuilt after a rotation
// must be rebuilt with each chain under its old key. Chains that began without a key stay without.
//
// The same holds for a backup that is restored. If the key was changed between the backup and its loss, whoever was enrolled
// meanwhile must be enrolled again under the key of that time: open it with that name as Current, enrol them, and then
// go on with the newest. (The log says the key's name with each enrolment; keep a copy of it, or of the dates of rotations.)
// What began from chance is drawn anew.
//
// Two ledgers with one key must not ask equally defined questions that mean different truths about the same people:
// their responses would share the noise.
//
// A chain that was forgotten and begins again is drawn from chance: buyers may still have what was drawn from the key,
// and if the truth is another one now, the same noise on both would betray both. For the same reason set
// [Options.TruthKey] too, which refuses a changed truth, and new epochs ([Ledger.BeginEpoch]) are drawn from chance; and do not rebuild a ledger with truths that have changed.
//
// Questions with a mechanism of their own ([Mechanism]) and answers about panels ([Ledger.Answer]) are drawn from
// chance all the same.
type NoiseKeys struct {
	// Current names the key of chains that begin from now on, 1 to 256 bytes. If it is empty, they have none.
	Current string
	// Key returns the key of a name, [rrchain.NoiseKeySize] bytes drawn at random, or nil if the host does not have it any
	// more: then chains that began with it only resell what they have released ([NoNoiseKey]). Open calls it for each name
	// that the ledger has seen, and for the current one. The ledger keeps the keys in memory, and in the file only what
	// recognizes them: Open refuses another key under a known name, and a known key under another ([ErrNoiseKey]). If it is nil, the ledger has no
	// keys: chains that began with one cannot be drawn from, and if there are keys that the ledger has seen, nobody can
	// be enrolled ([ErrNoiseKey]), so that no chain begins without a key by mistake.
	Key func(name string) ([]byte, error)
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
func (l *Ledger) useNoiseKeys(given NoiseKeys) (set []event.Change, err error) {
	if given.Key == nil && given.Current != "" {
		return nil, errs.Invalid("the current noise key has a name, and there is nothing to get keys from")
	}
	err = l.view(context.Background(), func(s *state.State) (err error) {
		l.noise.known, err = s.NoiseKeys()
		return err
	})
	if err != nil || given.Key == nil {
		return nil, err
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
	if given.Current == "" || l.noise.current != 0 || l.only {
		return nil, nil
	}
	return l.newNoiseKey(given)
}

// newNoiseKey returns the change that makes the current key, which is new, the ledger's.
func (l *Ledger) newNoiseKey(given NoiseKeys) ([]event.Change, error) {
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
func (n NoiseKeys) get(name string) ([]byte, error) {
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
func (l *Ledger) keyed(q *event.Question, x terms.Subject, place int, epsilon privacy.Epsilon, truth int32) (v event.Value, err error) {
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
