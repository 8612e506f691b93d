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

// part holds groups of a journal that are folded in one transaction. A group is what one commit has
// added to the journal.
type part struct {
	events   []fold.Recorded
	ends     []int            // for each group, the index in events after its last event
	frontier *merkle.Frontier // frontier of the Merkle tree after the events
	at       journal.Position // the end of the last group
	texts    wire.Texts       // texts of the events
	bytes    int              // total length of the records of the events
}

// isFull reports whether the part has reached a limit, so that the next group begins another part.
func (p *part) isFull() bool { return len(p.events) >= foldedTogether || p.bytes >= foldedBytes }

// restore applies the events of the part to s, and adds them to the log. It returns an error if an
// event does not fit the state, or if a group ends between events that belong together.
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

// add decodes a group and adds it to a part. It returns an [errs.ErrCorrupt] in four cases. The
// number of records does not fit the group's positions. The group does not begin where the previous
// one ended. A record is damaged. The events have another root than the group states.
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

// parts combines groups, which must begin at the current position of the reader, into parts for one
// transaction each. The first error ends the sequence. Groups that were read before it, but do not
// fill a part, are then not returned.
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
			// A clone, because the reader changes its own frontier while the part is folded.
			if p.frontier = r.Frontier.Clone(); !yield(p, nil) {
				return
			}
			p = &part{events: make([]fold.Recorded, 0, len(p.events))}
		}
		if len(p.ends) > 0 {
			p.frontier = r.Frontier // the reader does not use it after the last part
			yield(p, nil)
		}
	}
}

var errReaderStopped = errors.New("the reader of the journal has stopped")

// readAhead returns a sequence with the same elements. It runs the original sequence in another
// goroutine, one element ahead of the caller that ranges over the result. When the range ends, it
// calls stop, which should make the original sequence end soon, and waits for the goroutine.
//
// A panic of the original sequence continues in the caller's goroutine. If the original sequence
// ends its goroutine (runtime.Goexit), the last element is errReaderStopped.
func readAhead[T any](stop func(), elements iter.Seq2[T, error]) iter.Seq2[T, error] {
	type element struct {
		it    T
		err   error
		panic any
	}
	return func(yield func(T, error) bool) {
		made, left := make(chan element), make(chan struct{}) // left is closed when the range ends
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
			// This is sent if the sequence panics, or ends its goroutine (runtime.Goexit), as a
			// test may do. In both cases the last statement below does not clear the error.
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
		// These run in the opposite order: stop, close, Wait.
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

// reader returns a reader x that begins at the end of the log that is folded so far, and that
// position.
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

// foldJournal folds all events that the journal has after the end of the folded log. It decodes the
// next part while one is folded. If this takes long, it logs the progress every second.
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

// fold folds the groups of a part in the memtable, in one transaction. It sets l.frontier to the
// frontier after them. After an error the memtable and l.frontier are as before.
func (l *Engine) fold(p *part) error {
	err := l.Store.Update(func(w kv.Writer) error {
		s, err := state.Begin(w, time.Time{}) // no clock is needed: each event has its own time
		if err != nil {
			return err
		}
		s.Known, s.Copied = &l.Known, true // the memtable copies what is written
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
