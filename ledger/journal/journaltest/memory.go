package journaltest

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/sluicedp/sluice/ledger/journal"
)

// Memory is a journal in memory, with injected faults. It may be opened any number of times; a
// claim fences all other handles. Once any other host has called Folded
// ([journal.Follower.Folded]), Trim keeps what one of these hosts lacks.
type Memory struct {
	name string

	mu     sync.Mutex
	begin  journal.Position
	groups []journal.Group
	term   uint64                            // of the newest claim; 0 before the first one
	host   string                            // of the newest claim
	fault  func(context.Context, Call) error // set by Inject; nil for none
	bases  map[string]uint64                 // how many events a host has folded
	grown  chan struct{}                     // closed when there is more to read
}

// Call is a call of a journal in memory that is about to be executed.
type Call struct {
	Method  string           // "Claim", "Append", "Trim" or "Head"
	Group   journal.Group    // of Append
	Through journal.Position // of Trim
}

// NewMemory returns a new journal that begins at a position.
func NewMemory(at journal.Position) *Memory {
	return &Memory{name: "memory:" + rand.Text(), begin: at, bases: map[string]uint64{}, grown: make(chan struct{})}
}

// Inject sets a function that runs before each call of any handle, or removes it with nil. The
// function may wait, and may run in several goroutines at once. If it returns an error, the call
// returns that error and is not executed. The handle then stops, unless the call is a Head, or the
// error is a [journal.ErrRejected] or a [*journal.HeldError].
func (m *Memory) Inject(fault func(context.Context, Call) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

// Groups returns the groups in the journal, and the position where it begins.
func (m *Memory) Groups() (begin journal.Position, groups []journal.Group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begin, slices.Clone(m.groups)
}

// Open returns a new handle.
func (m *Memory) Open() journal.Follower { return m.OpenOn("") }

// OpenOn returns a new handle for a named host.
func (m *Memory) OpenOn(host string) journal.Follower { return &handle{in: m, host: host} }

// end returns where the journal ends.
func (m *Memory) end() journal.Position {
	if n := len(m.groups); n > 0 {
		return m.groups[n-1].After
	}
	return m.begin
}

// groupsUpTo returns the number of groups in the journal that end at a position or before. The
// position must be where a group ends, or where the journal begins. Otherwise the error is
// ErrTrimmed if it is before the begin, ErrLost if it is after the end, ErrForked in between.
func (m *Memory) groupsUpTo(at journal.Position) (int, error) {
	if at.Events < m.begin.Events {
		return 0, fmt.Errorf("%w: it begins with %v, after the requested %v", journal.ErrTrimmed, m.begin, at)
	}
	if at.Events > m.end().Events {
		return 0, fmt.Errorf("%w: it ends with %v, before the requested %v", journal.ErrLost, m.end(), at)
	}
	if at == m.begin {
		return 0, nil
	}
	i := slices.IndexFunc(m.groups, func(g journal.Group) bool { return g.After == at })
	if i < 0 {
		return 0, fmt.Errorf("%w: no group ends with %v", journal.ErrForked, at)
	}
	return i + 1, nil
}

// handle is a handle of a journal in memory.
type handle struct {
	in      *Memory
	host    string
	refusal error  // set if the handle was closed, or has stopped
	term    uint64 // 0 before Claim
}

// Name implements [journal.Journal].
func (h *handle) Name() string { return h.in.name }

// call runs the injected fault, and then do unless the fault returned an error. do runs under the
// lock. The error is that of a closed or stopped handle, of ctx, of the fault, or of do. An error
// of the fault stops the handle, except where [Memory.Inject] says otherwise.
func (h *handle) call(ctx context.Context, c Call, do func() error) error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if err := h.ready(ctx); err != nil {
		return err
	}
	err := h.injected(ctx, c)
	switch {
	case h.refusal != nil: // it was closed concurrently
		return h.refusal
	case err == nil:
		return do()
	case c.Method != "Head" && !isRejected(err) && !isHeld(err):
		h.refusal = fmt.Errorf("%w: %v", journal.ErrStopped, err)
	}
	return err
}

// injected runs the injected fault and returns its error, or nil if there is no fault. It releases
// the lock during that, because the fault may wait for other calls.
func (h *handle) injected(ctx context.Context, c Call) error {
	fault := h.in.fault
	if fault == nil {
		return nil
	}
	h.in.mu.Unlock()
	defer h.in.mu.Lock()
	return fault(ctx, c)
}

// ready returns a [journal.ErrStopped] if the handle was closed or has stopped, and a
// [journal.ErrRejected] if ctx has ended. The lock is held.
func (h *handle) ready(ctx context.Context) error {
	if h.refusal != nil {
		return h.refusal
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrRejected, err)
	}
	return nil
}

// Claim implements [journal.Journal]. The new term fences all other handles. The host that claims
// no longer counts as a follower.
func (h *handle) Claim(ctx context.Context) (term uint64, end journal.Position, err error) {
	err = h.call(ctx, Call{Method: "Claim"}, func() error {
		h.in.term++
		h.in.host = h.host
		delete(h.in.bases, h.host)
		h.term, term, end = h.in.term, h.in.term, h.in.end()
		return nil
	})
	if err != nil {
		return 0, journal.Position{}, err
	}
	return term, end, nil
}

// Settle does nothing: what Read returns is already settled.
func (h *handle) Settle(ctx context.Context) error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	return h.ready(ctx)
}

// Head implements [journal.Follower]. It returns the head also with ErrFenced, which it returns if
// the handle has claimed the journal and another handle has claimed it since.
func (h *handle) Head(ctx context.Context) (head journal.Head, err error) {
	err = h.call(ctx, Call{Method: "Head"}, func() error {
		head = journal.Head{Host: h.in.host, Term: h.in.term, End: h.in.end()}
		if h.term != 0 && h.term != h.in.term {
			return journal.ErrFenced
		}
		return nil
	})
	return head, err
}

// Append implements [journal.Journal]. It stores a copy of the group, and ends all waits of Await.
func (h *handle) Append(ctx context.Context, g journal.Group) error {
	return h.call(ctx, Call{Method: "Append", Group: g}, func() error {
		switch {
		case h.term == 0 || h.term != h.in.term || g.Term != h.term:
			return journal.ErrFenced
		case !g.Fits() || g.Before != h.in.end():
			return journal.ErrOrder
		}
		h.in.groups = append(h.in.groups, stored(g))
		h.in.wake()
		return nil
	})
}

// Trim implements [journal.Journal]. It removes all groups up to the position, or none: it returns
// a HeldError if another host has reported by Folded that it lacks some of them.
func (h *handle) Trim(ctx context.Context, through journal.Position) error {
	return h.call(ctx, Call{Method: "Trim", Through: through}, func() error {
		if h.term == 0 || h.term != h.in.term {
			return journal.ErrFenced
		}
		if through.Events < h.in.begin.Events { // it was trimmed before
			return nil
		}
		n, err := h.in.groupsUpTo(through)
		if err != nil {
			return err
		}
		for host, events := range h.in.bases { // events is how many the host has folded
			if host != h.host && events < through.Events {
				why := fmt.Errorf("host %q has folded only %d events", host, events)
				return &journal.HeldError{Through: h.in.begin, Wanted: through, Reason: why}
			}
		}
		h.in.begin, h.in.groups = through, slices.Clone(h.in.groups[n:])
		return nil
	})
}

// wake ends all waits of Await, which then check again.
func (m *Memory) wake() {
	close(m.grown)
	m.grown = make(chan struct{})
}

// Await implements [journal.Follower].
func (h *handle) Await(ctx context.Context, after journal.Position) error {
	for { // a closed handle, or a context that has ended, makes more return an error
		grown, err := h.more(ctx, after)
		if grown == nil || err != nil {
			return err
		}
		select {
		case <-grown:
		case <-ctx.Done():
		}
	}
}

// more returns nil and nil if the journal has groups after a position. If it ends at the position,
// more returns a channel that is closed when a group is appended, or a handle is closed. If it ends
// before, the error is ErrLost.
func (h *handle) more(ctx context.Context, at journal.Position) (grown chan struct{}, err error) {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	end := h.in.end().Events
	if err := h.ready(ctx); err != nil || end > at.Events {
		return nil, err
	}
	if end < at.Events {
		return nil, fmt.Errorf("%w: it ends with event %d, before event %d", journal.ErrLost, end, at.Events)
	}
	return h.in.grown, nil
}

// Folded implements [journal.Follower]. It records the number of events under the name of the
// handle's host, for Trim and [Memory.Bases].
func (h *handle) Folded(ctx context.Context, through journal.Position) error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if err := h.ready(ctx); err != nil {
		return err
	}
	if _, err := h.in.groupsUpTo(through); err != nil {
		delete(h.in.bases, h.host) // the host counts as one that has no groups
		return err
	}
	h.in.bases[h.host] = through.Events
	return nil
}

// Bases returns the number of events that each host has reported by Folded.
func (m *Memory) Bases() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.bases)
}

// Read implements [journal.Journal]. It reads each group only when it is returned.
func (h *handle) Read(ctx context.Context, after journal.Position) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) {
		for at := after; ; {
			g, ok, err := h.next(ctx, at)
			if err == nil && !ok || !yield(g, err) || err != nil {
				return
			}
			at = g.After
		}
	}
}

// next returns the group that begins at a position; ok is false if the journal ends there. The
// error is that of [handle.ready] or [Memory.groupsUpTo].
func (h *handle) next(ctx context.Context, at journal.Position) (g journal.Group, ok bool, err error) {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if err := h.ready(ctx); err != nil {
		return g, false, err
	}
	n, err := h.in.groupsUpTo(at)
	if err != nil || n == len(h.in.groups) {
		return g, false, err
	}
	return stored(h.in.groups[n]), true, nil
}

// Close implements [journal.Journal]. It ends waits of Await; those of other handles then continue
// to wait.
func (h *handle) Close() error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	h.refusal = journal.ErrStopped
	h.in.wake()
	return nil
}

// stored returns a group as Read must return it: a copy that shares no memory with g, without Cut.
func stored(g journal.Group) journal.Group {
	records := make([][]byte, len(g.Records))
	for i, r := range g.Records {
		records[i] = slices.Clone(r)
	}
	g.Records, g.Cut = records, false
	return g
}
