package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/journal"
)

const (
	// foldedTogether is how many events, about, are folded in one transaction, and foldedBytes how
	// many bytes of them.
	foldedTogether = 4096
	foldedBytes    = 4 << 20
	// toldEvery is how often a fold says how far it is.
	toldEvery = time.Second
)

// part are groups of a journal that are folded in one transaction.
type part struct {
	events []fold.Recorded
	ends   []int        // of the groups among them
	edge   *merkle.Edge // of the tree behind them
	at     journal.Position
	texts  wire.Texts // of the events
	bytes  int
}

// full tells whether the next groups are folded in another transaction.
func (p *part) full() bool { return len(p.events) >= foldedTogether || p.bytes >= foldedBytes }

// restore folds the groups.
func (p *part) restore(s *state.State) error {
	from := 0
	for _, end := range p.ends {
		for ; from < end; from++ {
			if err := fold.Restore(s, &p.events[from]); err != nil {
				return err
			}
		}
		if err := s.Counters.CheckWhole(); err != nil {
			return err
		}
	}
	return nil
}

// reader reads the groups of a journal, and holds them against each other. It needs no state, so it
// goes on while what was read is folded.
type reader struct{ fold.Reader }

// add adds a group to a part. What comes of it is held against the root that it says.
func (x *reader) add(to *part, g journal.Group) error {
	if !g.Fits() {
		return errs.Corrupt(nil, "journal: a group of %d records leads from event %d to event %d", len(g.Records),
			g.Before.Events, g.After.Events)
	}
	if x.Edge.Size() != g.Before.Events {
		return errs.Corrupt(nil, "journal: a group behind event %d follows on event %d", g.Before.Events, x.Edge.Size())
	}
	for _, record := range g.Records {
		e, err := x.Read(record, &to.texts)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		to.events = append(to.events, e)
		to.bytes += len(record)
	}
	to.at = journal.Position{Events: x.Edge.Size(), Root: x.Edge.Root()}
	if to.at != g.After {
		return errs.Corrupt(nil, "journal: the events up to %d come to another tree than the group says", to.at.Events)
	}
	to.ends = append(to.ends, len(to.events))
	return nil
}

// parts returns the groups behind the edge in parts.
func (x *reader) parts(groups iter.Seq2[journal.Group, error]) iter.Seq2[*part, error] {
	return func(yield func(*part, error) bool) {
		p := &part{}
		for g, err := range groups {
			if err == nil {
				err = x.add(p, g)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !p.full() {
				continue
			}
			if p.edge = x.Edge.Clone(); !yield(p, nil) {
				return
			}
			p = &part{events: make([]fold.Recorded, 0, len(p.events))}
		}
		if len(p.ends) > 0 {
			p.edge = x.Edge
			yield(p, nil)
		}
	}
}

var errGivenUp = errors.New("whoever read the journal has given up")

// ahead has another goroutine make a sequence, one element ahead of whoever ranges over it. stop
// has it end soon. What panics there goes on here.
func ahead[T any](stop func(), elements iter.Seq2[T, error]) iter.Seq2[T, error] {
	type element struct {
		it    T
		err   error
		panic any
	}
	return func(yield func(T, error) bool) {
		made, left := make(chan element), make(chan struct{})
		send := func(one element) bool {
			select {
			case made <- one:
				return true
			case <-left:
				return false
			}
		}
		var maker sync.WaitGroup
		maker.Go(func() {
			defer close(made)
			last := element{err: errGivenUp} // a test may end its goroutine
			defer func() {
				if last.panic = recover(); last.panic != nil || last.err != nil {
					send(last)
				}
			}()
			for it, err := range elements {
				if !send(element{it: it, err: err}) {
					break
				}
			}
			last.err = nil
		})
		defer maker.Wait()
		defer close(left)
		defer stop()
		for one := range made {
			if one.panic != nil {
				panic(one.panic)
			}
			if !yield(one.it, one.err) {
				return
			}
		}
	}
}

// reader returns one that begins where the log ends, and where that is.
func (l *Engine) reader() (x *reader, at journal.Position, err error) {
	err = l.Store.View(func(r kv.Reader) error {
		s, err := state.Snapshot(r)
		if err != nil {
			return err
		}
		x, at = &reader{}, s.Counters.Position
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
func (l *Engine) foldJournal(ctx context.Context, j journal.Journal) error {
	x, at, err := l.reader()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began, told := at.Events, time.Now()
	tell := func(text string) {
		l.Log.Now(func(log *zerolog.Logger) {
			log.Info().Uint64("events", at.Events-began).Uint64("last", at.Events).Msg(text)
		})
	}
	for p, err := range ahead(stop, x.parts(j.Read(ctx, at))) {
		if err == nil {
			err = l.fold(p)
		}
		if err != nil {
			return err
		}
		if at = p.at; time.Since(told) >= toldEvery {
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
func (l *Engine) fold(p *part) error {
	err := l.Store.Update(func(w kv.Writer) error {
		s, err := state.Begin(w, time.Time{})
		if err != nil {
			return err
		}
		s.Known, s.Copied = &l.Known, true
		if err := p.restore(s); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		s.Edge = p.edge
		return fold.Flush(s)
	})
	if err == nil {
		l.edge = p.edge
	}
	return err
}
