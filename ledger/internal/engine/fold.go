package engine

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/journal"
)

const (
	// foldedTogether is how many events, about, are folded in one transaction.
	foldedTogether = 4096
	// toldEvery is how often a fold says how far it is.
	toldEvery = time.Second
)

// sealed are groups of a journal that are folded in one transaction.
type sealed struct {
	events []fold.Sealed
	ends   []int        // of the groups among them
	edge   *merkle.Edge // of the tree behind them
	texts  wire.Texts   // of the events
	at     journal.Position
}

// full tells whether the next groups are folded in another transaction.
func (b *sealed) full() bool { return len(b.events) >= foldedTogether }

// restore folds the groups.
func (b *sealed) restore(s *state.State) error {
	from := 0
	for _, end := range b.ends {
		for ; from < end; from++ {
			if err := fold.Restore(s, &b.events[from]); err != nil {
				return err
			}
		}
		if err := s.Counters.CheckWhole(); err != nil {
			return err
		}
	}
	return nil
}

// sealer reads the groups of a journal, and holds them against each other: that needs no state, so it goes on while what was read is folded.
type sealer struct{ fold.Sealer }

// add adds a group. What comes of it is held against the root that it says.
func (x *sealer) add(to *sealed, g journal.Group) error {
	if x.Edge.Size() != g.Before.Events {
		return errs.Corrupt(nil, "journal: a group behind event %d follows on event %d", g.Before.Events, x.Edge.Size())
	}
	for _, record := range g.Records {
		e, err := x.Seal(record, &to.texts)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		to.events = append(to.events, e)
	}
	to.at = journal.Position{Events: x.Edge.Size(), Root: x.Edge.Root()}
	if to.at != g.After {
		return errs.Corrupt(nil, "journal: the events up to %d come to another tree than the group says", to.at.Events)
	}
	to.ends = append(to.ends, len(to.events))
	return nil
}

// end returns what is to be folded, once all is added.
func (x *sealer) end(b *sealed) *sealed {
	b.edge = x.Edge.Clone()
	return b
}

// sealed returns the groups behind the edge in some parts.
func (x *sealer) sealed(groups iter.Seq2[journal.Group, error]) iter.Seq2[*sealed, error] {
	return func(yield func(*sealed, error) bool) {
		part := &sealed{}
		for g, err := range groups {
			if err == nil {
				err = x.add(part, g)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !part.full() {
				continue
			}
			if !yield(x.end(part), nil) {
				return
			}
			part = &sealed{}
		}
		if len(part.ends) > 0 {
			yield(x.end(part), nil)
		}
	}
}

// ahead has another goroutine make a sequence, one element ahead of whoever ranges over it.
func ahead[T any](elements iter.Seq2[T, error]) iter.Seq2[T, error] {
	type element struct {
		it  T
		err error
	}
	return func(yield func(T, error) bool) {
		made, end := make(chan element), make(chan struct{})
		var maker sync.WaitGroup
		maker.Go(func() {
			defer close(made)
			for it, err := range elements {
				select {
				case made <- element{it, err}:
				case <-end:
					return
				}
			}
		})
		defer maker.Wait()
		defer close(end)
		for one := range made {
			if !yield(one.it, one.err) {
				return
			}
		}
	}
}

// sealer returns one that begins where the log ends, and where that is.
func (l *Engine) sealer() (x *sealer, at journal.Position, err error) {
	err = l.Store.View(func(r kv.Reader) error {
		s, err := state.Snapshot(r)
		if err != nil {
			return err
		}
		x, at = &sealer{}, s.Counters.Position
		if l.edge != nil && l.edge.Size() == at.Events {
			x.Edge = l.edge.Clone()
		} else {
			x.Edge, err = merkle.LoadEdge(at.Events, s)
		}
		return err
	})
	return x, at, err
}

// foldJournal folds the events behind those in the file.
func (l *Engine) foldJournal(j journal.Journal) error {
	x, at, err := l.sealer()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	began, told := at.Events, time.Now()
	tell := func(text string) { l.Log.Info().Uint64("events", at.Events-began).Uint64("last", at.Events).Msg(text) }
	for part, err := range ahead(x.sealed(j.Read(ctx, at))) {
		if err == nil {
			err = l.fold(part)
		}
		if err != nil {
			end() // whoever reads ahead need not go on
			return err
		}
		if at = part.at; time.Since(told) >= toldEvery {
			told = time.Now()
			tell("folding the journal")
		}
	}
	if at.Events > began {
		tell("folded the journal")
	}
	return nil
}

// fold folds groups in one transaction.
func (l *Engine) fold(part *sealed) error {
	err := l.Store.Update(func(w kv.Writer) error {
		s, err := state.Begin(w, time.Time{})
		if err != nil {
			return err
		}
		s.Known, s.Copied = &l.Known, true
		if err := part.restore(s); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		s.Edge = part.edge
		return fold.Flush(s)
	})
	if err == nil {
		l.edge = part.edge
	}
	return err
}
