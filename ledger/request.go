package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// A request that changes the ledger carries an idempotency key. The last event of each of its
// transactions settles (a part of) it: it records the key, a digest of the request and what came of
// it. The same key with the same request then returns the recorded outcome, and with another request
// [ErrKeyConflict]. A request over many objects is carried out in parts of bounded size; one that
// was interrupted goes on after its last part when it comes again.

// Progress is called now and then during a long request, with the number of objects done and the
// number in all. It must return soon.
type Progress func(done, total int)

// outcome is what came of a request.
type outcome struct {
	counts  counts
	refused []Refusal
	swept   map[uint32]*sweptQuestion // the same by question, of a sweep
	first   uint64
	last    uint64
}

// digest is the start of the canonical form of a request, by which a repetition is recognized.
func digest(operation string) *encoder {
	e := &encoder{}
	e.text(operation)
	return e
}

func (e *encoder) sum() [sha256.Size]byte { return sha256.Sum256(e.buf) }

// standing is how far a request has come.
type standing struct {
	outcome
	parts   int
	done    bool
	through uint64
	cursor  string // the last object of the last part
}

// standing returns how far the request with this key has come, or [ErrKeyConflict].
func (s *state) standing(key string, digest [sha256.Size]byte) (standing, error) {
	r, known, err := s.request(key)
	if err != nil || !known {
		return standing{through: s.counters.events}, err
	}
	if r.digest != digest {
		return standing{}, ErrKeyConflict
	}
	st := standing{parts: len(r.settled), done: r.done}
	for i, number := range r.settled {
		part, err := s.settlement(number)
		if err != nil {
			return st, err
		}
		if i == 0 {
			st.first = part.first
		}
		st.add(part)
		st.last, st.through, st.cursor = number, part.through, part.last
	}
	return st, nil
}

// partly tells the refusal of a whole request from that of the rest of one.
func (st standing) partly(err error) error {
	var refused *RefusedError
	if st.parts > 0 && errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", ErrPartlyDone, err)
	}
	return err
}

func (o *outcome) add(part *settled) {
	for i, n := range part.counts {
		o.counts[i] += n
	}
	o.refused = append(o.refused, part.refused...)
	rest := part.refused
	for _, one := range part.swept {
		if o.swept == nil {
			o.swept = map[uint32]*sweptQuestion{}
		}
		if o.swept[one.question] == nil {
			o.swept[one.question] = &sweptQuestion{sweptCount: sweptCount{question: one.question}}
		}
		sum := o.swept[one.question]
		sum.raised += one.raised
		sum.unchanged += one.unchanged
		sum.refused += one.refused
		sum.refusals = append(sum.refusals, rest[:one.refused]...)
		rest = rest[one.refused:]
	}
}

// once carries out a request of at most one change, which decide returns, or nil if there is none to make.
func (l *Ledger) once(ctx context.Context, key string, request *encoder, decide func(*state) (change, error)) error {
	if err := checkName("idempotency key", key); err != nil {
		return err
	}
	digest := request.sum()
	_, _, err := l.submit(ctx, func(s *state) ([]change, error) {
		st, err := s.standing(key, digest)
		if err != nil || st.done {
			return nil, err
		}
		end := &settled{key: key, digest: digest, first: s.counters.events + 1, through: st.through, final: true}
		c, err := decide(s)
		if err != nil || c == nil {
			return []change{end}, err
		}
		return []change{c, end}, nil
	})
	return err
}

// panel is the set of objects of a request: the names given, or all that were enrolled in a question
// by an event and have not withdrawn, or simply all there are.
type panel struct {
	names    []string // sorted
	all      bool
	question uint32 // 0 for whoever is enrolled in any
	through  uint64
}

// after returns up to limit names behind a given one, in order, and whether they are the last.
func (p *panel) after(s *state, name string, limit int) (names []string, last bool, err error) {
	if !p.all {
		from, found := slices.BinarySearch(p.names, name)
		if found {
			from++
		}
		to := min(from+limit, len(p.names))
		return p.names[from:to], to == len(p.names), nil
	}
	last = true
	if p.question == 0 {
		err = s.scanObjects(name, func(found string) bool {
			if last = len(names) < limit; last {
				names = append(names, found)
			}
			return last
		})
		return names, last, err
	}
	var fault error
	err = s.scanChains(p.question, string(objectKey(name)), func(found string, c chain) bool {
		var in bool
		if in, fault = p.includes(s, found, c); !in {
			return fault == nil
		}
		if last = len(names) < limit; last {
			names = append(names, found)
		}
		return last
	})
	if err == nil {
		err = fault
	}
	return names, last, err
}

// includes tells whether a panel of all has an object with this chain.
func (p *panel) includes(s *state, name string, c chain) (bool, error) {
	if c.enrolled > p.through {
		return false, nil
	}
	o, found, err := s.object(name)
	if err != nil || !found {
		return false, orCorrupt(err, "object %q has a chain but no budget", name)
	}
	return !o.withdrew(c), nil
}

// whole returns everybody in a panel of a question, for a request that is one transaction.
func (p *panel) whole(s *state, q *question) ([]string, error) {
	names, _, err := p.after(s, "", MaxPanel+1)
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, fmt.Errorf("question %q: nobody takes part: %w", q.name, ErrUnknown)
	case len(names) > MaxPanel:
		return nil, invalid("question %q: a request for more than %d objects", q.name, MaxPanel)
	}
	return names, nil
}

// contains tells whether an object belongs to the panel.
func (p *panel) contains(s *state, name string) (bool, error) {
	if !p.all {
		_, found := slices.BinarySearch(p.names, name)
		return found, nil
	}
	c, found, err := s.chain(p.question, name)
	return found && c.enrolled <= p.through, err
}

// partSize is the number of objects of one transaction. Larger ones commit little faster and keep
// others waiting longer.
const partSize = 4096

// bulk is a request over a panel of objects.
type bulk struct {
	key      string
	digest   [sha256.Size]byte
	panel    panel
	progress Progress
	// prepare looks at the whole panel behind the object named, before anything is written, and may
	// refuse. It returns the number of objects it found.
	prepare func(ctx context.Context, behind string) (int, error)
	// ready, if set, looks at the objects of the next part, before it is decided.
	ready func(ctx context.Context, behind string) error
	// decide makes the changes for the objects of one part. Who belongs to it may have changed since
	// it was looked at.
	decide func(s *state, names []string) (part, error)
}

// part is what one transaction does for a request.
type part struct {
	changes []change
	counts  counts
	refused []Refusal
	swept   []sweptCount // of a sweep; it parts the refusals by question
	left    int          // objects at the end that it leaves to the next part
}

// errOvertaken says that a request must look at the state anew, because another call with the same
// key, or on the same objects, came between.
var errOvertaken = errors.New("overtaken by other requests again and again; repeat this one with its key")

// mostAttempts is after how many times a request that is overtaken gives up. It is far more than crowds
// of callers bring about, and keeps a fault from turning for ever.
const mostAttempts = 10_000

// untilSettled repeats an attempt as long as it is overtaken.
func untilSettled[T any](attempt func() (T, error)) (result T, err error) {
	for range mostAttempts {
		if result, err = attempt(); !errors.Is(err, errOvertaken) {
			break
		}
	}
	return result, err
}

// run carries a request out from where it stands to its end.
func (l *Ledger) run(ctx context.Context, b *bulk) (outcome, error) {
	return untilSettled(func() (outcome, error) { return l.attempt(ctx, b) })
}

func (l *Ledger) attempt(ctx context.Context, b *bulk) (outcome, error) {
	var st standing
	err := l.view(ctx, func(s *state) (err error) {
		st, err = s.standing(b.key, b.digest)
		return err
	})
	if err != nil || st.done {
		return st.outcome, err
	}
	b.panel.through = st.through
	total, err := b.prepare(ctx, st.cursor)
	if err != nil {
		return outcome{}, st.partly(err)
	}
	done := 0
	for !st.done {
		if b.ready != nil {
			if err := b.ready(ctx, st.cursor); err != nil {
				return st.outcome, err
			}
		}
		n, err := l.runPart(ctx, b, &st)
		if err != nil {
			return st.outcome, st.partly(err)
		}
		if done += n; b.progress != nil {
			b.progress(done, total)
		}
	}
	return st.outcome, nil
}

// runPart carries out the part behind st.cursor and moves st behind it.
func (l *Ledger) runPart(ctx context.Context, b *bulk, st *standing) (n int, err error) {
	end := &settled{key: b.key, digest: b.digest, through: st.through}
	first, last, err := l.submit(ctx, func(s *state) ([]change, error) {
		if now, err := s.standing(b.key, b.digest); err != nil {
			return nil, err
		} else if now.parts != st.parts {
			return nil, errOvertaken
		}
		names, final, err := b.panel.after(s, st.cursor, partSize)
		if err != nil {
			return nil, err
		}
		p, err := b.decide(s, names)
		if err != nil {
			return nil, err
		}
		if n = len(names) - p.left; n > 0 {
			end.last = names[n-1]
		}
		end.first, end.final = s.counters.events+1, final && p.left == 0
		end.counts, end.refused, end.swept = p.counts, p.refused, p.swept
		return append(p.changes, end), nil
	})
	if err != nil {
		return 0, err
	}
	if st.parts == 0 {
		st.first = first
	}
	st.add(end)
	st.last, st.cursor, st.done = last, end.last, end.final
	st.parts++
	return n, nil
}

// eachPart passes the panel behind an object to visit, in snapshots of one part each.
func (l *Ledger) eachPart(ctx context.Context, p *panel, behind string, visit func(s *state, names []string) error) error {
	for last := false; !last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.view(ctx, func(s *state) error {
			names, end, err := p.after(s, behind, partSize)
			if err != nil {
				return err
			}
			if last = end; len(names) > 0 {
				behind = names[len(names)-1]
			}
			return visit(s, names)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
