package engine

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// mark is a position at which this process found the file when it opened it, or to which it wrote it. Whoever reads it goes
// on from the mark that was the last one before its snapshot, so nobody else needs to keep those before.
type mark struct {
	state.Position
	next atomic.Pointer[mark] // of the next commit, or of one that failed; set before it is written
}

// Check refuses a position that is neither that of the mark nor of one behind it: the file is not what this process wrote
// or read last. An older copy of it would be drawn from a second time.
func (m *mark) Check(at state.Position) error {
	for one := m; one != nil; one = one.next.Load() {
		if one.Position == at {
			return nil
		}
	}
	return fmt.Errorf("%w: its log ends with event %d, not where this process left it", kv.ErrOverwritten, at.Events)
}

// checkSame holds the file, as a transaction sees it now, against the position that it began with.
func (l *Engine) checkSame(s *state.State) error {
	now, err := l.views.readCounters(s)
	if err != nil || now.Position != s.Durable.Position {
		return fmt.Errorf("%w: its log has changed while it was read", kv.ErrOverwritten)
	}
	return nil
}

// checkStored holds the file, as it is on the whole now, against the position that a transaction which writes began with:
// what that has read may be in its own memory. Where nothing can be seen, the commit will tell.
func (l *Engine) checkStored(at state.Position) error {
	err := l.Store.View(func(r kv.Reader) error {
		return l.checkSame(&state.State{Reader: r, Durable: state.Counters{Position: at}})
	})
	if errors.Is(err, kv.ErrOverwritten) {
		return err
	}
	return nil
}

// StopIfOverwritten stops a ledger whose file somebody else has written to.
func (l *Engine) StopIfOverwritten(err error) {
	if errors.Is(err, kv.ErrOverwritten) && l.Queue.Stop(err) {
		l.Log.Error().Err(err).Msg("ledger stopped")
	}
}
