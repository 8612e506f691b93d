package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/observe"
)

// headPatience is how long a journal may take to report which host has claimed it.
const headPatience = time.Second

// Host returns the role of this host in the ledger. If several hosts share the journal, Host asks
// the journal which host has claimed it, and waits at most one second for the answer. Without an
// answer in that time, Answered is false.
//
// If another host has taken over, Host stops the ledger, because nothing that it decides can be
// committed.
func (l *Engine) Host(ctx context.Context) observe.Host {
	// A standby whose journal is not a Follower cannot know which host has claimed it.
	h := observe.Host{Role: l.role(), Answered: !l.Standby}
	if j := l.journal.shared.Load(); j != nil {
		l.askHead(ctx, *j, &h)
	}
	h.Fenced = errors.Is(l.Queue.Stopped(), journal.ErrFenced)
	return h
}

// role returns the role of this host, as [observe.Host] names it. A standby is also ReadOnly, so it
// is checked first.
func (l *Engine) role() string {
	switch {
	case l.Standby:
		return "standby"
	case l.ReadOnly:
		return "reader"
	}
	return "leader"
}

// askHead adds to h what the journal reports about itself, and sets h.Answered. If the journal
// gives no answer within [headPatience], the other fields of h stay as they are. askHead stops the
// ledger if another host has claimed the journal since ([journal.ErrFenced]).
func (l *Engine) askHead(ctx context.Context, j journal.Follower, h *observe.Host) {
	ctx, cancel := context.WithTimeout(ctx, headPatience)
	defer cancel()
	var head journal.Head
	err := callback.Call("Journal.Head", func() (err error) {
		head, err = j.Head(ctx)
		return err
	})
	fenced := errors.Is(err, journal.ErrFenced) // Head returns a head together with this error
	if h.Answered = err == nil || fenced; !h.Answered {
		return
	}
	h.Leader, h.Term = head.Host, head.Term
	if l.Standby {
		h.Lag = head.End.Events - min(l.Queue.DurableEvents(), head.End.Events)
	}
	if fenced && l.Queue.Stop(fmt.Errorf("%w: journal: %w", errs.ErrStopped, err)) {
		l.Log.Say(zerolog.ErrorLevel, err, "ledger stopped")
	}
}

// sharedBy stores the handle that Host uses to ask which host has claimed the journal. It stores
// nil if the journal is not a Follower, because then no other host can claim it.
func (j *journaling) sharedBy(handle journal.Journal) {
	if c, is := handle.(claimedJournal); is {
		handle = c.Journal // the wrapper has only the methods of Journal, and hides those of a Follower
	}
	if shared, is := handle.(journal.Follower); is {
		j.shared.Store(&shared)
	} else {
		j.shared.Store(nil)
	}
}
