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

// headPatience is how long a journal may take to say which host has claimed it.
const headPatience = time.Second

// Host returns the part that this host has in the ledger. It asks a journal that several hosts
// have, for a second at most. If another host has taken over, the ledger stops: nothing that it
// decides is committed.
func (l *Engine) Host(ctx context.Context) observe.Host {
	h := observe.Host{Role: l.role(), Answered: !l.Standby} // a standby of a journal that is no Follower cannot know
	if j := l.journal.shared.Load(); j != nil {
		l.askHead(ctx, *j, &h)
	}
	h.Fenced = errors.Is(l.Queue.Stopped(), journal.ErrFenced)
	return h
}

func (l *Engine) role() string {
	switch {
	case l.Standby:
		return "standby"
	case l.ReadOnly:
		return "reader"
	}
	return "leader"
}

// askHead adds what a journal says of itself.
func (l *Engine) askHead(ctx context.Context, j journal.Follower, h *observe.Host) {
	ctx, cancel := context.WithTimeout(ctx, headPatience)
	defer cancel()
	var head journal.Head
	err := callback.Call("Journal.Head", func() (err error) {
		head, err = j.Head(ctx)
		return err
	})
	fenced := errors.Is(err, journal.ErrFenced)
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

// sharedBy keeps the handle by which Host asks which host has claimed the journal. It keeps none if
// the journal is no Follower: then no other host can claim it.
func (j *journaling) sharedBy(handle journal.Journal) {
	if c, is := handle.(claimedJournal); is {
		handle = c.Journal
	}
	if shared, is := handle.(journal.Follower); is {
		j.shared.Store(&shared)
	} else {
		j.shared.Store(nil)
	}
}
