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
	// foldedTogether and foldedBytes limit how many events, and how many bytes of them, are folded
	// in one transaction. Both are approximate, because groups are not split.
	foldedTogether = 4096
	foldedBytes    = 4 << 20
	// progressInterval is the interval between two log lines about the progress of a fold.
	progressInterval = time.Second
)

// part holds groups of a journal that are folded in one transaction.
type part struct {
	events   []fold.Recorded
	ends     []int            // of the groups, as indexes of events
	frontier *merkle.Frontier // frontier of the Merkle tree after the events
	at       journal.Position
	texts    wire.Texts // texts of the events
	bytes    int
}

// isFull reports whether the next group belongs to another transaction.
func (p *part) isFull() bool { return len(p.events) >= foldedTogether || p.bytes >= foldedBytes }

// restore folds the groups of the part.
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

// reader reads the groups of a journal, and checks that each one continues the one before. It needs
// no state, so it can read while earlier groups are folded.
type reader struct{ fold.Reader }

// add adds a group to a part. It returns an error if the group's events do not lead to the root
// that the group states.
func (r *reader) add(to *part, g journal.Group) error {
	if !g.Fits() {
		return errs.Corrupt(nil, "journal: a group of %d records goes from event %d to event %d", len(g.Records),
			g.Before.Events, g.After.Events)
	}
	if r.Frontier.Size() != g.Before.Events {
		return errs.Corrupt(nil, "journal: a group that begins after event %d follows event %d", g.Before.Events,
			r.Frontier.Size())
	}
	for _, record := range g.Records {
		e, err := r.Read(record, &to.texts)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		to.events = append(to.events, e)
		to.bytes += len(record)
	}
	to.at = journal.Position{Events: r.Frontier.Size(), Root: r.Frontier.Root()}
	if to.at != g.After {
		return errs.Corrupt(nil, "journal: the events up to %d have another root than their group states", to.at.Events)
	}
	to.ends = append(to.ends, len(to.events))
	return nil
}

// parts returns the groups after the current position of the reader, combined to parts.
func (r *reader) parts(groups iter.Seq2[journal.Group, error]) iter.Seq2[*part, error] {
	return func(yield func(*part, error) bool) {
		p := &part{}
		for g, err := range groups {
			if err == nil {
				err = r.add(p, g)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !p.isFull() {
				continue
			}
			if p.frontier = r.Frontier.Clone(); !yield(p, nil) {
				return
			}
			p = &part{events: make([]fold.Recorded, 0, len(p.events))}
		}
		if len(p.ends) > 0 {
			p.frontier = r.Frontier
			yield(p, nil)
		}
	}
}

var errReaderStopped = errors.New("the reader of the journal has stopped")

// readAhead runs a sequence in another goroutine, one element ahead of the caller that ranges over
// the result. It calls stop when the range ends, so that the sequence ends soon. A panic of the
// sequence continues in the caller's goroutine.
func readAhead[T any](stop func(), elements iter.Seq2[T, error]) iter.Seq2[T, error] {
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
			// This is sent if the sequence ends its goroutine (runtime.Goexit), as a test may do.
			last := element{err: errReaderStopped}
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

// reader returns a reader that begins at the end of the log, and that position.
func (l *Engine) reader() (x *reader, at journal.Position, err error) {
	err = l.Store.View(func(r kv.Reader) error {
		s, err := state.Snapshot(r)
		if err != nil {
			return err
		}
		x, at = &reader{}, s.Counters.Position
		if l.frontier != nil && l.frontier.Size() == at.Events {
			x.Frontier = l.frontier.Clone()
		} else {
			x.Frontier, err = merkle.LoadFrontier(at.Events, s)
		}
		return err
	})
	return x, at, err
}

// foldJournal folds the journal's events after those in the file.
func (l *Engine) foldJournal(ctx context.Context, j journal.Journal) error {
	r, at, err := l.reader()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began, reported := at.Events, time.Now()
	report := func(text string) {
		l.Log.Now(func(log *zerolog.Logger) {
			log.Info().Uint64("events", at.Events-began).Uint64("last", at.Events).Msg(text)
		})
	}
	for p, err := range readAhead(stop, r.parts(j.Read(ctx, at))) {
		if err == nil {
			err = l.fold(p)
		}
		if err != nil {
			return err
		}
		if at = p.at; time.Since(reported) >= progressInterval {
			reported = time.Now()
			report("folding the journal")
		}
	}
	if at.Events > began {
		report("folded the journal")
	}
	return nil
}

// fold folds the groups of a part in one transaction.
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
		s.Frontier = p.frontier
		return fold.Flush(s)
	})
	if err == nil {
		l.frontier = p.frontier
	}
	return err
}
