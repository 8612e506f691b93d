package pgjournal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/sluicedp/sluice/ledger/journal"
)

// restore finds the journal that the ledger's file names, and sets j.id to the id in its name. It
// creates the journal again if it is missing, or ends before the file ([Options.Restore]): then the
// journal begins where the file ends. It also creates the tables if they do not exist.
//
// Errors: [journal.ErrForked] if the name is not one of a journal in PostgreSQL, or if the ledger
// has another journal; a [*LostError] if the file lacks what was acknowledged.
func (j *Journal) restore(ctx context.Context, w journal.Wanted) error {
	digits, is := strings.CutPrefix(w.Name, "postgres:")
	// copy sets j.id, and shows that the id is not too short.
	if id, err := hex.DecodeString(digits); !is || err != nil || copy(j.id[:], id) != len(j.id) ||
		len(id) != len(j.id) || !fits(w.At) {
		return fmt.Errorf("%w: %.60q is not the name of a journal in PostgreSQL", journal.ErrForked, w.Name)
	}
	mustReplace := false // there is no journal, or one that ends before the file
	if err := j.using(ctx, func(s *session) error {
		if err := j.install(ctx, s); err != nil {
			return err
		}
		v, err := j.readViewBy(ctx, s, journal.Position{})
		if mustReplace = errors.Is(err, fs.ErrNotExist); mustReplace {
			return nil
		}
		if err == nil && v.id != j.id {
			err = j.replacedBy(v)
		}
		mustReplace = err == nil && v.end.Events < w.At.Events
		return err
	}); err != nil || !mustReplace {
		return err
	}
	term, accept, err := j.checkAcknowledged(ctx, w.At)
	if err != nil {
		return err
	}
	return j.using(ctx, func(s *session) error { return j.replace(ctx, s, w.At, term, accept) })
}

// checkAcknowledged returns the highest term that any host has recorded. accept is whether
// [Options.AcceptLoss] is the position at. If it is not, checkAcknowledged returns a [*LostError]
// if a position after at, or another root for the same number of events, was acknowledged.
func (j *Journal) checkAcknowledged(ctx context.Context, at journal.Position) (term uint64, accept bool, err error) {
	seen, err := j.askMarks(ctx)
	if err != nil {
		return 0, false, err
	}
	accept = j.AcceptLoss != nil && *j.AcceptLoss == at
	for _, host := range seen {
		term = max(term, host.found.term)
		m := host.found.mark
		// has is whether a ledger that ends at this position has what the host acknowledged.
		if has := m.Position.Events < at.Events || m.Position == at; m.Term > 0 && !has && !accept {
			return 0, false, &LostError{End: at, Acknowledged: m.Position, Host: host.of.Name()}
		}
	}
	return term, accept, nil
}

// replace creates a head, the row of a journal, that begins and ends at a position. Its term is one
// higher than term. If accept is true, marks of lower terms do not count any more. Before that,
// replace removes a head that ends before the position, with its groups, segments and bases. If the
// present head does not end before the position, replace does nothing.
func (j *Journal) replace(ctx context.Context, s *session, at journal.Position, term uint64, accept bool) error {
	err := pgx.BeginFunc(ctx, s.conn, func(pgx.Tx) error {
		n, err := s.change(ctx, dropSQL, j.ledger, j.id, at.Events)
		if err != nil || n == 0 {
			return err // there is a head that does not end before the position
		}
		if _, err := s.change(ctx, clearSQL, j.ledger); err != nil {
			return err
		}
		conceded := uint64(0)
		if accept {
			conceded = term + 1
		}
		n, err = s.change(ctx, createSQL, j.ledger, j.id, at.Events, at.Root[:], j.Host, term+1, 0, []byte{}, conceded)
		if err == nil && n != 1 {
			err = fmt.Errorf("%w: the journal was not created", errServer)
		}
		return err
	})
	return errors.Join(err, s.warned) // a warning at the commit: it may be less durable than required
}
