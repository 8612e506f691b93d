package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/sluicedp/sluice/privacy"
)

// partSize is the number of objects in a transaction of a bulk request, as in Sluice.
const partSize = 4096

// truths returns the true values of objects.
type truths func(names []string) ([]int, error)

// raise raises every object to ε, in parts, and returns the number of draws. If an object has no
// budget, nothing is drawn. After an interruption, a call with the same key continues after the
// last part. No other request writes during the call.
func (b *book) raise(key string, epsilon privacy.Epsilon, valuesOf truths) (drawn uint64, err error) {
	b.writer.Lock()
	defer b.writer.Unlock()
	id := identify(appendText(nil, "raise"), appendText(nil, "vote"), appendEpsilon(nil, epsilon),
		appendFlag(nil, false), []byte{1, 0})
	r, through, err := b.resume(key, id.digest)
	if err != nil || r.done {
		return r.drawn, err
	}
	if n, err := b.db.over(r.cursor, epsilon); err != nil || n > 0 {
		if err == nil {
			err = fmt.Errorf("%d objects, ε=%s: %w", n, epsilon, errBudget)
		}
		return 0, err
	}
	for !r.done {
		names, err := b.db.after(r.cursor, partSize+1)
		if err != nil {
			return 0, err
		}
		final := len(names) <= partSize
		names = names[:min(len(names), partSize)]
		values, err := valuesOf(names)
		if err != nil {
			return 0, err
		}
		err = b.transact(nil, names, func(p *page) error {
			s := settlement{key: key, id: id, first: p.log.size + 1, through: through, final: final, epsilon: epsilon}
			for i, name := range names {
				if p.objects[name] == nil {
					return fmt.Errorf("object %q: %w", name, errUnknown)
				}
				if err := b.answer(p, p.objects[name], epsilon, values[i], &s); err != nil {
					return err
				}
			}
			if !final {
				s.cursor = names[len(names)-1]
			}
			return b.settle(p, s, r)
		})
		if err != nil {
			return 0, err
		}
	}
	return r.drawn, nil
}

// resume returns the state of a bulk request, and the last event of the log.
func (b *book) resume(key string, digest [sha256.Size]byte) (r *request, through uint64, err error) {
	err = b.transact([]string{key}, nil, func(p *page) error {
		if r = p.requests[key]; r != nil && r.digest != digest {
			return fmt.Errorf("key %q: %w", key, errConflict)
		}
		return nil
	})
	if r == nil {
		r = &request{key: key, digest: digest}
	}
	return r, b.log.size, err
}

// enroll adds new objects with one cap and one ceiling, in parts. The names must be in ascending
// order.
func (b *book) enroll(key string, names []string, limit, ceiling privacy.Epsilon) error {
	b.writer.Lock()
	defer b.writer.Unlock()
	objects, list := binary.AppendUvarint(appendFlag(nil, false), uint64(len(names))), []byte(nil)
	for _, name := range names {
		list = appendText(list, name)
	}
	id := identify(appendText(nil, "enroll"), appendText(nil, "vote"), appendEpsilon(nil, ceiling),
		appendEpsilon(nil, limit),
		objects, appendFlag(nil, false), appendFlag(nil, false))
	id.names = identify(list).append(nil)
	r, through, err := b.resume(key, id.digest)
	if err != nil || r.done {
		return err
	}
	for from := r.parts * partSize; !r.done; from += partSize {
		part := names[from:min(from+partSize, len(names))]
		err := b.transact(nil, part, func(p *page) error {
			s := settlement{key: key, id: id, first: p.log.size + 1, through: through,
				final: from+len(part) == len(names)}
			for _, name := range part {
				if p.objects[name] != nil {
					return fmt.Errorf("object %q is enrolled already", name)
				}
				if err := b.introduce(p, name, limit, ceiling); err != nil {
					return err
				}
			}
			s.counts[0] = uint64(len(part))
			if !s.final {
				s.dealt = uint64(from + len(part))
			}
			return b.settle(p, s, r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// introduce adds one object.
func (b *book) introduce(p *page, name string, limit, ceiling privacy.Epsilon) error {
	salt, err := b.salts.next()
	if err != nil {
		return err
	}
	p.total++
	o := &object{id: p.total, name: name, cap: limit, ceiling: ceiling, added: true}
	p.objects[name] = o
	p.about(o, header(kindEnrolled, p.now), enrolledBytes(salt, o))
	return nil
}
