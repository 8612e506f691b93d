package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Recover brings the ledger to where its journal ends, if a process has left one behind, or it is kept elsewhere. If the ledger is open
// for writing, all of it is in the file then, and a journal beside the file is gone; else it is in memory.
func (l *Engine) Recover() error {
	if l.journal.from == nil {
		return nil
	}
	name, err := l.namedJournal()
	if err != nil {
		return err
	}
	at, err := l.position()
	if err != nil {
		return err
	}
	if !l.ReadOnly {
		if err := l.journal.from.Sweep(); err != nil {
			return err
		}
	}
	j, err := l.journal.from.Find(l.journal.ledger, at)
	if err != nil {
		return err
	}
	switch {
	case j == nil && name == "":
		return nil
	case j == nil:
		return missing(name)
	case name != "" && name != j.Name():
		return closing(j, fmt.Errorf("%w: the journal is %s, the file's is %s", errs.ErrJournal, j.Name(), name))
	}
	if name == "" {
		if err := l.checkFolded(j); err != nil {
			return closing(j, err)
		}
	}
	if l.ReadOnly {
		return closing(j, l.foldJournal(j))
	}
	term, err := l.takeOver(j)
	switch {
	case err != nil:
		return closing(j, err)
	case l.journal.from.Lasting():
		return l.keep(j, term)
	}
	return l.drop(j)
}

func missing(name string) error {
	if strings.HasPrefix(name, "file:") {
		return fmt.Errorf("%w: the journal %s is missing; it lies beside the file as long as the ledger is open, and must be moved and copied with it", errs.ErrJournal, name)
	}
	return fmt.Errorf("%w: the file is one of a ledger whose journal is %s, and is opened with that one only", errs.ErrJournal, name)
}

// takeOver claims a journal, so that all there is is durable and nobody else goes on with it, and folds it.
func (l *Engine) takeOver(j journal.Journal) (term uint64, err error) {
	term, end, err := j.Claim(context.Background())
	if err == nil {
		err = l.foldJournal(j)
	}
	if err != nil {
		return 0, err
	}
	if at, err := l.position(); err != nil || at != end {
		return 0, errs.Corrupt(err, "the journal ends at event %d, and holds what leads to event %d", end.Events, at.Events)
	}
	return term, nil
}

// checkFolded refuses a journal that holds more than a file which was closed without it.
func (l *Engine) checkFolded(j journal.Journal) error {
	at, err := l.position()
	if err != nil {
		return err
	}
	for _, err := range j.Read(context.Background(), at) {
		if err != nil {
			return fmt.Errorf("%w: %w", errs.ErrJournal, err)
		}
		return fmt.Errorf("%w: the journal goes on behind event %d, where this file was closed without it: the file is an older copy; "+
			"remove the journal only if what it holds may be lost, and drawn a second time", errs.ErrJournal, at.Events)
	}
	return nil
}

func closing(j journal.Journal, err error) error {
	if closed := j.Close(); err == nil {
		err = closed
	}
	return err
}

// namedJournal returns the name of the journal that the file names, or "".
func (l *Engine) namedJournal() (name string, err error) {
	err = l.Store.View(func(r kv.Reader) error {
		payload, err := (&state.State{Reader: r}).Payload(state.BucketMeta, []byte(state.KeyJournal))
		name = string(payload)
		return err
	})
	return name, err
}

const (
	// foldedTogether is how many events, about, are folded in one transaction.
	foldedTogether = 4096
	// toldEvery is how often a fold says how far it is.
	toldEvery = time.Second
)

// foldJournal folds the events behind those in the file.
func (l *Engine) foldJournal(j journal.Journal) error {
	at, err := l.position()
	if err != nil {
		return err
	}
	began, told := at.Events, time.Now()
	var groups []journal.Group
	waiting := 0
	for g, err := range j.Read(context.Background(), at) {
		if err != nil {
			return fmt.Errorf("%w: %w", errs.ErrJournal, err)
		}
		groups, at = append(groups, g), g.After
		if waiting += len(g.Records); waiting < foldedTogether {
			continue
		}
		if err := l.foldGroups(groups); err != nil {
			return err
		}
		if groups, waiting = groups[:0], 0; time.Since(told) >= toldEvery {
			told = time.Now()
			l.Log.Info().Uint64("events", at.Events-began).Uint64("last", at.Events).Msg("folding the journal")
		}
	}
	if err := l.foldGroups(groups); err != nil {
		return err
	}
	if at.Events > began {
		l.Log.Info().Uint64("events", at.Events-began).Uint64("last", at.Events).Msg("folded the journal")
	}
	return nil
}

// foldGroups folds groups in one transaction.
func (l *Engine) foldGroups(groups []journal.Group) error {
	if len(groups) == 0 {
		return nil
	}
	var edge *merkle.Edge
	err := l.Store.Update(func(w kv.Writer) error {
		s, err := state.Begin(w, time.Time{})
		if err != nil {
			return err
		}
		s.Known, s.Edge = &l.Known, l.edge
		texts := &wire.Texts{}
		for _, g := range groups {
			if err := foldGroup(s, g, texts); err != nil {
				return fmt.Errorf("journal: %w", err)
			}
		}
		edge = s.Edge
		return fold.Flush(s)
	})
	if err == nil {
		l.edge = edge
	}
	return err
}

// foldGroup folds a group, and holds what comes of it against the root that the group says.
func foldGroup(s *state.State, g journal.Group, texts *wire.Texts) error {
	if s.Counters.Events != g.Before.Events {
		return errs.Corrupt(nil, "a group behind event %d follows on event %d", g.Before.Events, s.Counters.Events)
	}
	for i, record := range g.Records {
		ev, err := event.DecodeBare(g.Before.Events+1+uint64(i), record, texts)
		if err == nil {
			err = fold.Append(s, ev)
		}
		if err != nil {
			return err
		}
	}
	root, err := s.Edge.Root()
	if err != nil {
		return err
	}
	if end := (journal.Position{Events: s.Counters.Events, Root: root}); end != g.After {
		return errs.Corrupt(nil, "the events up to %d come to another tree than the group says", end.Events)
	}
	return s.Counters.CheckWhole()
}
