package pgjournal

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

const (
	readBytes  = 8 << 20 // approximate number of bytes that are read ahead; a larger group is read frame by frame
	readFrames = 4096
)

// Read implements [journal.Journal.Read]. It reads ahead, and holds no transaction open between
// groups.
func (j *Journal) Read(ctx context.Context, after journal.Position) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) {
		r := &reader{Journal: j, tail: after}
		for {
			g, err := r.next(ctx) // an error, except io.EOF, is the last element of the sequence
			if errors.Is(err, io.EOF) || !yield(g, err) || err != nil {
				return
			}
		}
	}
}

// reader reads the groups of a journal in order. A group is stored in one or several frames, which
// are rows of the database.
type reader struct {
	*Journal
	ahead  []journal.Group  // read, and not returned yet
	tail   journal.Position // the end of the last group that was read
	moved  bool             // a group was read, so that a group ends at tail
	frames []frame          // of a group that is not complete yet
	text   []byte           // the plaintext of these frames

	segment keyholder.Segment
	cipher  cipher.AEAD       // of that segment; nil if no key was loaded
	trimmed keyholder.Segment // the segment whose key was found destroyed
}

// next returns the next group, or [io.EOF] at the end of the journal. Other errors are those of
// [journal.Journal.Read].
func (r *reader) next(ctx context.Context) (g journal.Group, err error) {
	if err := r.ready(ctx); err != nil {
		return g, err
	}
	for len(r.ahead) == 0 {
		if err := r.fill(ctx); err != nil {
			return g, r.done(err)
		}
	}
	g, r.ahead = r.ahead[0], r.ahead[1:]
	return g, nil
}

// fill reads the next frames from the database, and decrypts them. It adds the groups that are
// complete to r.ahead. It may read only a part of a group, and then adds none: the next call
// continues. It returns [io.EOF] at the end of the journal.
func (r *reader) fill(ctx context.Context) error {
	if !fits(r.tail) {
		return fmt.Errorf("%w: it ends before event %d", journal.ErrLost, r.tail.Events)
	}
	ctx, cancel := r.limited(ctx)
	defer cancel()
	var found []frame
	var v view
	if err := r.using(ctx, func(s *session) (err error) {
		found, v, err = r.fetch(ctx, s)
		return err
	}); err != nil {
		return err
	}
	if err := r.follows(v, found); err != nil {
		return err
	}
	for i := range found {
		err := r.take(ctx, &found[i])
		if errors.Is(err, errMoved) {
			return nil // the rest of the segment is encrypted under another key now: read it again
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follows returns nil if the frames found continue where the reader is. It returns [io.EOF] if
// there are none because the journal ends there. v is the view that was read with them.
//
// Any other result is an error. The reader's position is before the begin or after the end of the
// journal, or no group ends there ([view.checkPosition]). Or the frames that must follow a group
// that was read before are missing ([journal.ErrLost]).
func (r *reader) follows(v view, found []frame) error {
	if r.tail.Events < v.begin.Events || r.tail.Events > v.end.Events {
		return v.checkPosition(r.tail) // ErrTrimmed or ErrLost
	}
	if len(found) > 0 {
		f := found[0]
		v.known = f.group.Before == r.tail && f.number == len(r.frames) // fetch does not set it
		// If the reader has read something before, a group ends at tail, so a frame must be
		// missing.
		if !v.known && (r.moved || len(r.frames) > 0) {
			return fmt.Errorf("%w: after %v, there is frame %d of the group after %v", journal.ErrLost, r.tail,
				f.number, f.group.Before)
		}
		return v.checkPosition(r.tail)
	}
	if r.tail == v.end && len(r.frames) == 0 {
		return io.EOF
	}
	if !r.moved && len(r.frames) == 0 {
		return v.checkPosition(r.tail) // no group begins at tail
	}
	return fmt.Errorf("%w: nothing follows %v, but the journal ends with %v", journal.ErrLost, r.tail, v.end)
}

// fetch reads frames from the database, from the one that the reader needs next, at most
// [readFrames] and about [readBytes]. It also reads where the journal begins and ends; only id,
// begin and end of v are set. It returns [journal.ErrLost] if the journal is gone, and
// [journal.ErrForked] if another one is in its place.
func (r *reader) fetch(ctx context.Context, s *session) (found []frame, v view, err error) {
	question := s.next()
	args := []any{question, r.ledger, r.tail.Events, len(r.frames), readBytes, readFrames}
	rows, err := s.conn.Query(ctx, s.in(readSQL), args...)
	if err != nil {
		return nil, v, err
	}
	var echo, count int64 // the number of the query, as a row repeats it; and how many rows came
	var standby bool
	var f frame // the present row
	g := &f.group
	tag, err := pgx.ForEachRow(rows, []any{
		&echo, &standby, (*zeronull.UUID)(&v.id), (*number)(&v.begin.Events), (*root)(&v.begin.Root),
		(*number)(&v.end.Events), (*root)(&v.end.Root),
		(*number)(&g.Before.Events), &f.number, &f.of, (*number)(&g.Term), (*root)(&g.Before.Root),
		(*number)(&g.After.Events), (*root)(&g.After.Root),
		(*number)(&f.segment.Term), (*number)(&f.segment.Number), &f.body,
	}, func() error {
		if count++; echo != question {
			return errMixed
		}
		if f.body != nil { // a NULL body means that the journal has no more frames
			found = append(found, f)
		}
		return nil
	})
	switch err := errors.Join(err, s.warned); {
	case err != nil:
		return nil, v, err
	case tag.RowsAffected() != count || count == 0:
		return nil, v, s.mixed() // rows were lost between the server and this host
	case standby:
		return nil, v, fmt.Errorf("%w: it has become a standby", errServer)
	case v.id == [16]byte{}:
		return nil, v, fmt.Errorf("%w: the journal is gone: %w", journal.ErrLost, fs.ErrNotExist)
	case v.id != r.id:
		return nil, v, r.replacedBy(v)
	}
	return found, v, nil
}

// take decrypts a frame and adds it to those that were read. It adds the group to r.ahead when the
// group is complete. It returns [journal.ErrForked] if the frame is not the next one of its group,
// [errs.ErrCorrupt] if its content is damaged, and the errors of [reader.unseal].
func (r *reader) take(ctx context.Context, f *frame) error {
	if n := len(r.frames); f.number != n || f.of <= n || f.group.Before != r.tail ||
		n > 0 && (f.group.After != r.frames[0].group.After || f.group.Term != r.frames[0].group.Term ||
			f.of != r.frames[0].of) {
		return fmt.Errorf("%w: frame %d of %d of the group after %v in the place of frame %d after %v",
			journal.ErrForked, f.number, f.of, f.group.Before, n, r.tail)
	}
	text, err := r.unseal(ctx, f)
	if err != nil {
		return err
	}
	r.text = append(r.text, text...)
	f.body = nil
	r.frames = append(r.frames, *f)
	if len(r.frames) < f.of {
		return nil
	}
	g := f.group
	if g.After.Events <= g.Before.Events || g.After.Events > math.MaxInt64 {
		return fmt.Errorf("%w: a group from %v to %v", errs.ErrCorrupt, g.Before, g.After)
	}
	if g.Records, err = recordsIn(r.text, g.After.Events-g.Before.Events); err != nil {
		return err
	}
	r.ahead, r.tail, r.moved = append(r.ahead, g), g.After, true
	r.frames, r.text = nil, nil
	return nil
}

// unseal returns the plaintext of a frame. It loads the key of the frame's segment, unless that is
// the segment of the frame before. It returns errMoved if the key is destroyed because the segment
// was trimmed concurrently: then the database has the rest of it under another key.
func (r *reader) unseal(ctx context.Context, f *frame) ([]byte, error) {
	if r.cipher == nil || r.segment != f.segment {
		k, err := r.key(ctx, f.segment)
		if err != nil && r.trimmed != f.segment { // a second failure cannot come from a concurrent trim
			r.trimmed, err = f.segment, r.orMoved(ctx, f.segment, err)
		}
		if err != nil {
			return nil, err
		}
		if r.cipher, err = cipherOf(k); err != nil {
			return nil, err
		}
		r.segment = f.segment
	}
	return f.open(r.cipher, r.id)
}
