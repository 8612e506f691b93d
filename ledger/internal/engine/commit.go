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
// batch. A failure to append fails the whole batch: err is then not nil. It wraps [errs.ErrStopped]
// if it is unknown whether the batch is durable.
//
// The function report passes the commit to the host's log and observer; it is nil if there is
// nothing to report. It must be called only after the next leader may begin, because the host may
// be slow.
func (l *Engine) commit(batch []*Proposal) (report func(), err error) {
	if err := l.Queue.Stopped(); err != nil {
		return nil, err
	}
	began := time.Now()
	s, err := l.write(batch) // s is the state after the batch; nil if the batch has no event
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

// commitReport returns a function that writes a commit to the host's log and reports it to the
// observer, or nil if there is nothing to report. s is the state after the commit, requests the
// number of requests in the batch.
func (l *Engine) commitReport(s *state.State, requests int, took time.Duration) func() {
	// Everything is read here, because the function runs when the next batch may be in progress.
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
// batch has no event. The transaction of that state has ended. The result is not valid if err is
// not nil.
func (l *Engine) write(batch []*Proposal) (written *state.State, err error) {
	if err := l.startJournal(); err != nil {
		return nil, err
	}
	now := newest(batch)
	// Each retry refuses another proposal, so the loop ends. The time of the batch stays the same.
	for err = errRetryWithoutRefused; err == errRetryWithoutRefused; {
		err = l.Store.Update(func(w kv.Writer) error {
			s, err := l.decideBatch(batch, w, now)
			// If another process has overwritten the file, the decisions may be wrong, and must not
			// be appended. Update itself finds that only after the append.
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

// newest returns the time of the clock reading that began last, of all readings for the proposals
// of a batch. It need not be the latest time. Every proposal of the batch was in progress during
// that reading, so the time is valid for each of them.
func newest(batch []*Proposal) time.Time {
	last := slices.MaxFunc(batch, func(a, b *Proposal) int { return cmp.Compare(a.reading, b.reading) })
	return last.now
}

// stopIfUncertain stops the ledger in two cases. If err wraps [kv.ErrUncertain], it is unknown
// whether the commit is durable: then stopIfUncertain returns err wrapped in [errs.ErrStopped]. If
// err wraps [kv.ErrOverwritten], another process has overwritten the file: then it returns err
// unchanged, as for any other error.
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

// observed returns the observer's report of a commit that took the given time. s is the state after
// the commit; s.Durable has the counters before it.
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

// decideBatch decides and folds a batch in a transaction, and returns the state after it. It writes
// nothing if the batch has no event. The error fails the whole batch, or is
// [errRetryWithoutRefused].
//
// A retried transaction does not decide refused proposals again. But a proposal may now have
// another result than before, for example because its true value is no longer available. Then all
// later proposals are decided again: they may have been refused because of changes that no longer
// happen.
func (l *Engine) decideBatch(batch []*Proposal, w kv.Writer, now time.Time) (*state.State, error) {
	s, err := l.begin(w, now)
	if err != nil {
		return nil, err
	}
	changed := false // a proposal has another result than in the previous try
	for _, p := range batch {
		// After an error no proposal is decided, but the flags are still reset for a retry.
		if p.refused = p.refused && !changed; err != nil {
			continue
		}
		first, last := p.first, p.last // the events of p in the previous try; both 0 in the first
		err = p.run(s)
		changed = changed || p.first != first || p.last != last
	}
	if err != nil {
		return nil, err
	}
	if s.Counters.Events == s.Durable.Events {
		return s, nil
	}
	// A wrong clock fails only a batch that has events, because these would record it.
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

// begin returns the state of a transaction at the clock time now, prepared for decisions. It
// returns an error if the time cannot be stored in an event, or if the ledger has no events. A
// clock that is too far ahead of the log is no error here: it is stored in ClockErr of the state.
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
// no journal. The error wraps [kv.ErrUncertain] if the events may be in the journal, or if the
// journal accepts nothing more from this process ([isOver]). After any other error the journal is
// unchanged, and the next commit may succeed.
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

// isOver reports whether err means that the journal accepts nothing more from this process, so that
// a retry cannot succeed. Some of these errors wrap [journal.ErrRejected], which alone permits a
// retry.
func isOver(err error) bool {
	return isAny(err, journal.ErrFenced, journal.ErrOrder, journal.ErrStopped, errs.ErrReplaced)
}

// isAny reports whether err wraps at least one of the errors in of.
func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}

// describe returns one log line for each proposal of a batch that has events. The last event of a
// request settles it, and has its key and its sale.
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

// decide runs the decision and returns its results. It returns the error of the context if the
// context of the request has ended before. If it ends during the decision, the next read of the
// state fails. The recording after the decision is not interrupted.
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

// run decides the proposal and records its changes in s. The error is one of recording, which fails
// the whole batch, or [errRetryWithoutRefused]. A refusal is no error of run, unless the decision
// has recorded events before.
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
	if s.EventsAhead = 0; err != nil { // the hint of this proposal does not hold for the next one
		return err
	}
	if s.Counters.Events > before {
		p.first, p.last = before+1, s.Counters.Events
	}
	return s.Counters.CheckWhole()
}
