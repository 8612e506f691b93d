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

// commit decides and folds a batch in the memtable, and appends its events to the journal with one
// flush. Only then are they visible to readers. A refused decision affects no other proposal of the
// batch. A failure to append fails the whole batch.
//
// The function report passes the commit to the host's log and observer; it is nil if there is
// nothing to report. It must be called only after the next leader may begin, because the host may
// be slow.
func (l *Engine) commit(batch []*Proposal) (report func(), err error) {
	if err := l.Queue.Stopped(); err != nil {
		return nil, err
	}
	began := time.Now()
	s, err := l.write(batch)
	took := time.Since(began)
	switch {
	case err != nil:
		failed, requests := err, len(batch)
		report = func() {
			l.Log.Now(func(log *zerolog.Logger) {
				log.Error().Err(failed).Int("requests", requests).Dur("duration", took).Msg("commit failed")
			})
		}
		defer l.saveIfReplaced() // before the caller receives the error and may end the process
		return report, l.stopIfUncertain(err)
	case s != nil:
		l.frontier = s.Frontier
		l.Queue.setDurable(s.Counters.Events)
		return l.commitReport(s, len(batch), took), nil
	}
	return nil, nil
}

// commitReport returns a function that reports a commit to the host, or nil if there is nothing to
// report. requests is the number of requests in the batch.
func (l *Engine) commitReport(s *state.State, requests int, took time.Duration) func() {
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

// errRetryWithoutRefused aborts the transaction so that it is retried without the refused proposal.
// The proposal had recorded events before it was refused, and these must not survive.
var errRetryWithoutRefused = errors.New("a refused proposal had recorded events")

// write decides, folds and appends a batch. It returns the state after the batch, or nil if the
// batch has no event. The transaction of that state has ended.
func (l *Engine) write(batch []*Proposal) (written *state.State, err error) {
	if err := l.startJournal(); err != nil {
		return nil, err
	}
	now := newest(batch)
	// Each retry refuses another proposal, so the loop ends. The time of the batch stays the same.
	for err = errRetryWithoutRefused; err == errRetryWithoutRefused; {
		err = l.Store.Update(func(w kv.Writer) error {
			s, err := l.decideBatch(batch, w, now)
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

// newest returns the clock reading of the batch that began last; it need not be the latest time.
// Every proposal of the batch was in progress during that reading, so the time is valid for each of
// them.
func newest(batch []*Proposal) time.Time {
	last := slices.MaxFunc(batch, func(a, b *Proposal) int { return cmp.Compare(a.reading, b.reading) })
	return last.now
}

// stopIfUncertain stops the ledger if err leaves it unknown whether the commit is durable, or if
// another process has overwritten the file. It returns err, wrapped in [errs.ErrStopped] in the
// first case.
func (l *Engine) stopIfUncertain(err error) error {
	if errors.Is(err, kv.ErrUncertain) && !errors.Is(err, errs.ErrStopped) {
		err = fmt.Errorf("%w: %w", errs.ErrStopped, err)
		l.Queue.Stop(err)
	}
	l.StopIfOverwritten(err)
	return err
}

// StopIfOverwritten stops the ledger if err wraps [kv.ErrOverwritten].
func (l *Engine) StopIfOverwritten(err error) {
	if errors.Is(err, kv.ErrOverwritten) && l.Queue.Stop(err) {
		l.Log.Say(zerolog.ErrorLevel, err, "ledger stopped")
	}
}

// logLine is the line of the host's log about one committed request.
type logLine struct {
	first, last uint64 // numbers of its first and last event
	key         string // idempotency key; "" if it has none
	sale        uint64 // number of its sale; 0 if it made none
	buyer       string
}

// write writes the line to the host's log. requests and took are those of the whole commit.
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

// nanoNats is the number of nano-nats in a nat.
const nanoNats = 1e9

// observed returns the observer's report of a commit that took the given time.
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

// decideBatch decides and folds a batch in a transaction, and returns the state after it. A retried
// transaction does not decide refused proposals again. But if a proposal now has another result
// than before, for example because its true value is no longer available, all later proposals are
// decided again: they may have been refused because of changes that no longer happen.
func (l *Engine) decideBatch(batch []*Proposal, w kv.Writer, now time.Time) (*state.State, error) {
	s, err := l.begin(w, now)
	if err != nil {
		return nil, err
	}
	changed := false // a proposal has another result than in the previous try
	for _, p := range batch {
		if p.refused = p.refused && !changed; err != nil {
			continue
		}
		first, last := p.first, p.last
		err = p.run(s)
		changed = changed || p.first != first || p.last != last
	}
	if err != nil {
		return nil, err
	}
	if s.Counters.Events == s.Durable.Events {
		return s, nil
	}
	if s.ClockErr != nil {
		return nil, s.ClockErr
	}
	if l.lines = nil; l.Log.Debugging() {
		if l.lines, err = describe(s, batch); err != nil {
			return nil, err
		}
	}
	return s, fold.Flush(s)
}

// begin begins a transaction at the time now.
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
	s.Known, s.Samplers, s.Journaled, s.Copied = &l.Known, l.Chances, l.journal.open != nil, l.table != nil
	if l.Salts != nil {
		s.Salts = l.Salts
	}
	if l.Observer != nil {
		s.Work = &state.Work{}
	}
	if l.frontier != nil && l.frontier.Size() == s.Counters.Events {
		s.Frontier = l.frontier.Clone() // not the original, because the transaction may fail
	}
	s.ClockErr = l.leap.check(s)
	return s, nil
}

// append appends the events of a transaction to the journal, durably. It does nothing if there is
// no journal. The error wraps [kv.ErrUncertain] if the events may be in the journal.
func (l *Engine) append(s *state.State) error {
	if l.journal.open == nil {
		return nil
	}
	g := journal.Group{
		Term: l.journal.term, Before: journal.Position(s.Durable.Position),
		After:   journal.Position(s.Counters.Position),
		Records: s.Records, Cut: l.journal.cut(s.Durable.Events),
	}
	// The context of a caller must not end the append, because what is being appended cannot be
	// undone.
	err := callback.Call("Journal.Append", func() error { return l.journal.open.Append(context.Background(), g) })
	if err == nil {
		return nil
	}
	l.recordReplaced(err)
	if errors.Is(err, journal.ErrRejected) && !isOver(err) {
		return fmt.Errorf("journal: %w", err) // the journal is unchanged
	}
	return fmt.Errorf("%w: journal: %w", kv.ErrUncertain, err)
}

// isOver reports whether err means that the journal accepts nothing more from this process.
func isOver(err error) bool {
	return isAny(err, journal.ErrFenced, journal.ErrOrder, journal.ErrStopped, errs.ErrReplaced)
}

// isAny reports whether err wraps one of some errors.
func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}

// describe returns the log lines of a batch. It reads the event that settles each request.
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
		// The changes of the host's keys are not requests: they have no key and no sale.
		if end, is := ev.Change.(*event.Settled); is {
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

// decide runs the decision, unless the context of the request has ended. The recording after the
// decision is not interrupted.
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

// run decides the proposal and records its changes. The error is an error of writing, or
// [errRetryWithoutRefused].
//
// The error of a refusal is stored in the proposal. A retried transaction does not decide a refused
// proposal again, because the refusal is reported to the observer, and should be reported once.
// [Engine.decideBatch] resets p.refused if an earlier proposal of the batch has another result in
// the retry.
func (p *Proposal) run(s *state.State) error {
	if p.refused {
		return nil
	}
	p.first, p.last, p.err = 0, 0, nil
	before := s.Counters.Events
	changes, err := p.decide(s)
	if err != nil {
		p.err, p.refused = err, true
		if s.Counters.Events > before {
			return errRetryWithoutRefused
		}
		return nil
	}
	if p.Record != nil {
		err = p.Record(s)
	} else {
		_, _, err = fold.Record(s, changes)
	}
	if s.EventsAhead = 0; err != nil {
		return err
	}
	if s.Counters.Events > before {
		p.first, p.last = before+1, s.Counters.Events
	}
	return s.Counters.CheckWhole()
}
