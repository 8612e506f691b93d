package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/observe"
)

// commit carries a batch out: it is decided and folded on the table, and appended to the journal
// with one flush. Only then does anybody see it. A decision that refuses affects nobody else; a
// failure to append fails the whole batch.
//
// tell reports to the host's log and observer; nil if there is nothing to report. It must not be
// called before others may lead.
func (l *Engine) commit(batch []*Proposal) (tell func(), err error) {
	if err := l.Queue.Stopped(); err != nil {
		return nil, err
	}
	began := time.Now()
	s, err := l.write(batch)
	took := time.Since(began)
	switch {
	case err != nil:
		failed, requests := err, len(batch)
		tell = func() {
			l.Log.Now(func(log *zerolog.Logger) {
				log.Error().Err(failed).Int("requests", requests).Dur("duration", took).Msg("commit failed")
			})
		}
		defer l.saveIfReplaced() // before the caller learns of it, which may end the process
		return tell, l.stopIfUnsure(err)
	case s != nil:
		l.edge = s.Edge
		l.Queue.settled(s.Counters.Events)
		return l.telling(s, len(batch), took), nil
	}
	return nil, nil
}

// telling returns what reports a commit of some requests to the host, or nil.
func (l *Engine) telling(s *state.State, requests int, took time.Duration) func() {
	lines := l.lines
	if len(lines) == 0 && l.Observer == nil {
		return nil
	}
	var seen observe.Commit
	if l.Observer != nil {
		seen = observed(s, took)
	}
	return func() {
		for i := range lines {
			l.Log.Now(func(log *zerolog.Logger) { lines[i].write(log, requests, took) })
		}
		l.Observe(func(o observe.Observer) { o.Committed(seen) })
	}
}

// errTakenBack ends a transaction in which a proposal was refused that had recorded something. It
// is made again without that.
var errTakenBack = errors.New("refused after it has recorded something")

// write decides, folds and appends a batch. It returns the state behind it, whose transaction has
// ended, or nil if it has no event.
func (l *Engine) write(batch []*Proposal) (written *state.State, err error) {
	if err := l.startJournal(); err != nil {
		return nil, err
	}
	now := newest(batch)
	for err = errTakenBack; err == errTakenBack; { // each time somebody else is refused, and no time passes
		err = l.Store.Update(func(w kv.Writer) error {
			s, err := l.carryOut(batch, w, now)
			if over, can := w.(memtable.Checker); can && err == nil {
				err = over.Check()
			}
			if err == nil && s.Counters.Events > s.Durable.Events {
				written = s
				err = l.append(s)
			}
			return err
		})
	}
	return written, err
}

// newest returns the reading of the clock in a batch that began last, which need not be the latest
// time. It began and ended while each proposal of the batch was being made, so it is a time at
// which each of them can have happened.
func newest(batch []*Proposal) time.Time {
	last := slices.MaxFunc(batch, func(a, b *Proposal) int { return cmp.Compare(a.reading, b.reading) })
	return last.now
}

// stopIfUnsure stops the ledger after an error behind which nobody knows what is durable, or whose
// the file is.
func (l *Engine) stopIfUnsure(err error) error {
	if errors.Is(err, kv.ErrUncertain) && !errors.Is(err, errs.ErrStopped) {
		err = fmt.Errorf("%w: %w", errs.ErrStopped, err)
		l.Queue.Stop(err)
	}
	l.StopIfOverwritten(err)
	return err
}

// StopIfOverwritten stops a ledger whose file somebody else has written to.
func (l *Engine) StopIfOverwritten(err error) {
	if errors.Is(err, kv.ErrOverwritten) && l.Queue.Stop(err) {
		l.Log.Say(zerolog.ErrorLevel, err, "ledger stopped")
	}
}

// logLine is what the host's log gets of a request that was committed.
type logLine struct {
	first, last uint64 // its events
	key         string // "" if it has none
	sale        uint64 // 0 if it made none
	buyer       string
}

func (l *logLine) write(to *zerolog.Logger, requests int, took time.Duration) {
	line := to.Debug()
	if l.key != "" {
		line = line.Str("key", l.key)
	}
	if l.sale != 0 {
		line = line.Uint64("sale", l.sale).Str("buyer", l.buyer)
	}
	line.Uint64("events", l.last-l.first+1).Uint64("first", l.first).Uint64("last", l.last).
		Int("requests", requests).Dur("duration", took).Msg("committed")
}

// nanoNats is how many nano-nats a nat has.
const nanoNats = 1e9

// observed returns what the observer gets of a commit.
func observed(s *state.State, took time.Duration) observe.Commit {
	c := observe.Commit{
		Requests: s.Work.Requests, Events: s.Counters.Events - s.Durable.Events, Duration: took, Draws: s.Work.Draws(),
		Resold:  s.Work.Resold(),
		Charged: float64(s.Work.Spent) / nanoNats, LeftOut: s.Work.LeftOut,
	}
	for _, r := range s.Records {
		c.Bytes += int64(len(r))
	}
	return c
}

// carryOut decides and folds a batch in a transaction, and returns the state behind it. If a
// proposal comes to something else when the transaction is made again, such as because its truth is
// gone meanwhile, those behind it are decided anew: they may be refused because of what has not
// happened.
func (l *Engine) carryOut(batch []*Proposal, w kv.Writer, now time.Time) (*state.State, error) {
	s, err := l.begin(w, now)
	if err != nil {
		return nil, err
	}
	anew := false // somebody comes to something else than before
	for _, p := range batch {
		if p.refused = p.refused && !anew; err != nil {
			continue
		}
		first, last := p.first, p.last
		err = p.carryOut(s)
		anew = anew || p.first != first || p.last != last
	}
	if err != nil {
		return nil, err
	}
	if s.Counters.Events == s.Durable.Events {
		return s, nil
	}
	if s.Far != nil {
		return nil, s.Far
	}
	if l.lines = nil; l.Log.Debugging() {
		if l.lines, err = describe(s, batch); err != nil {
			return nil, err
		}
	}
	return s, fold.Flush(s)
}

// begin begins a transaction at a time.
func (l *Engine) begin(w kv.Writer, now time.Time) (*state.State, error) {
	if err := event.CheckTime(now); err != nil {
		return nil, err
	}
	s, err := state.Begin(w, now)
	if err == nil {
		err = s.CheckBegun()
	}
	if err != nil {
		return nil, err
	}
	s.Known, s.Chances, s.Journaled, s.Copied = &l.Known, l.Chances, l.journal.open != nil, l.table != nil
	if l.Salts != nil {
		s.Salts = l.Salts
	}
	if l.Observer != nil {
		s.Work = &state.Work{}
	}
	if l.edge != nil && l.edge.Size() == s.Counters.Events {
		s.Edge = l.edge.Clone() // the transaction may fail
	}
	s.Far = l.leap.of(s)
	return s, nil
}

// append makes what a transaction has recorded durable.
func (l *Engine) append(s *state.State) error {
	if l.journal.open == nil {
		return nil
	}
	g := journal.Group{
		Term: l.journal.term, Before: journal.Position(s.Durable.Position),
		After:   journal.Position(s.Counters.Position),
		Records: s.Records, Cut: l.journal.cut(s.Durable.Events),
	}
	// Nobody can take back what is being appended, so no caller's context ends it.
	err := callback.Call("Journal.Append", func() error { return l.journal.open.Append(context.Background(), g) })
	if err == nil {
		return nil
	}
	l.noteReplaced(err)
	if errors.Is(err, journal.ErrRejected) && !isOver(err) {
		return fmt.Errorf("journal: %w", err) // nothing has happened
	}
	return fmt.Errorf("%w: journal: %w", kv.ErrUncertain, err)
}

// isOver tells whether a journal takes nothing more from this process.
func isOver(err error) bool {
	return isAny(err, journal.ErrFenced, journal.ErrOrder, journal.ErrStopped, errs.ErrReplaced)
}

// isAny reports whether an error is one of some.
func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}

// describe returns what the log says of the requests of a batch, from the events that settle them.
func describe(s *state.State, batch []*Proposal) (lines []logLine, err error) {
	for _, p := range batch {
		if p.first == 0 {
			continue
		}
		one := logLine{first: p.first, last: p.last}
		ev, err := s.Event(p.last)
		if err != nil {
			return nil, err
		}
		if end, is := ev.Change.(*event.Settled); is { // the host's keys are set by no request
			one.key, one.sale = end.Key, end.Sale
		}
		if one.sale != 0 {
			r, err := s.Sale(one.sale)
			if err != nil {
				return nil, err
			}
			if one.buyer, err = s.BuyerName(r.Buyer); err != nil {
				return nil, err
			}
		}
		lines = append(lines, one)
	}
	return lines, nil
}

// decide makes the decision, unless the context of its request ends before it is made. Whatever is
// recorded after it is not interrupted any more.
func (p *Proposal) decide(s *state.State) ([]event.Change, error) {
	if err := p.ctx.Err(); err != nil {
		return nil, err
	}
	s.Reading = &p.reads
	p.reads.Begin(p.ctx)
	changes, err := p.Decide(s)
	p.reads.End()
	s.Reading = nil
	return changes, err
}

// carryOut decides a proposal and records its changes. The error is one of writing, or
// [errTakenBack]; that of a refusal stays with the proposal, which is not decided again when the
// transaction is made again, since a refusal is told to whoever watches; unless what lies before it
// in the batch does not come to the same then.
func (p *Proposal) carryOut(s *state.State) error {
	if p.refused {
		return nil
	}
	p.first, p.last, p.err = 0, 0, nil
	before := s.Counters.Events
	changes, err := p.decide(s)
	if err != nil {
		p.err, p.refused = err, true
		if s.Counters.Events > before {
			return errTakenBack
		}
		return nil
	}
	if p.Record != nil {
		err = p.Record(s)
	} else {
		_, _, err = fold.Record(s, changes)
	}
	if s.Coming = 0; err != nil {
		return err
	}
	if s.Counters.Events > before {
		p.first, p.last = before+1, s.Counters.Events
	}
	return s.Counters.CheckWhole()
}
