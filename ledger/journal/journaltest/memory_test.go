package journaltest

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/journal"
)

// once lets a fault come over the next call of a kind.
func once(m *Memory, op Op, f Fault) {
	m.Inject(func(c Call) Fault {
		if c.Op != op {
			return Fault{}
		}
		m.Inject(nil)
		return f
	})
}

func TestMemory(t *testing.T) {
	Run(t, Kind{Shared: true, Large: 1 << 20, New: func(t *testing.T, at journal.Position) Medium {
		m := NewMemory(at)
		return Medium{
			Open:  func() (journal.Journal, error) { return m.Open(), nil },
			Break: func(landed bool) { once(m, Append, Fault{Err: errors.New("no more paper"), Done: landed}) },
		}
	}})
}

// Each fault does what it says.
func TestFaults(t *testing.T) {
	broken := errors.New("broken")
	held := &journal.HeldError{Reason: broken}
	for name, c := range map[string]struct {
		op       Op
		fault    Fault
		want     error
		rejected bool
		stopped  bool
		there    bool // the group, or the trim
	}{
		"rejected":       {Append, Fault{Err: journal.ErrRejected, Done: true}, journal.ErrRejected, true, false, false},
		"fenced":         {Append, Fault{Fence: true}, journal.ErrFenced, true, false, false},
		"uncertain":      {Append, Fault{Err: broken}, broken, false, true, false},
		"done":           {Append, Fault{Err: broken, Done: true}, broken, false, true, true},
		"late":           {Append, Fault{Delay: time.Millisecond}, nil, false, false, true},
		"too late":       {Append, Fault{Delay: time.Hour}, context.DeadlineExceeded, false, true, false},
		"trim":           {Trim, Fault{Err: broken}, broken, false, true, false},
		"trim all same":  {Trim, Fault{Err: broken, Done: true}, broken, false, true, true},
		"trim is held":   {Trim, Fault{Err: held, Done: true}, journal.ErrHeld, false, false, false},
		"trim is fenced": {Trim, Fault{Fence: true}, journal.ErrFenced, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var l Log
			m := NewMemory(l.End())
			j := m.Open()
			term, _, err := j.Claim(t.Context())
			if err == nil && c.op == Trim {
				err = j.Append(t.Context(), l.Group(term, []byte("old")))
			}
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if name != "too late" {
				ctx = t.Context()
			}
			defer cancel()
			once(m, c.op, c.fault)
			end := l.End()
			if c.op == Append {
				g := l.Group(term, []byte("new"))
				err, end = j.Append(ctx, g), g.After
			} else {
				err = j.Trim(ctx, end)
			}
			if !errors.Is(err, c.want) || errors.Is(err, journal.ErrRejected) != c.rejected {
				t.Errorf("the call returns %v", err)
			}
			if _, _, err := j.Claim(t.Context()); errors.Is(err, journal.ErrStopped) != c.stopped {
				t.Errorf("then it stops: %v", err)
			}
			begin, groups := m.Groups()
			if c.op == Append && (len(groups) == 1) != c.there || c.op == Trim && (begin == end) != c.there {
				t.Errorf("then there are %d groups behind %v", len(groups), begin)
			}
		})
	}
}

// endless is a journal that takes an empty group, which its Read then returns again and again.
type endless struct {
	journal.Journal
	empty *bool
}

func (e endless) Append(ctx context.Context, g journal.Group) error {
	if g.Before == g.After {
		*e.empty = true
		return nil
	}
	return e.Journal.Append(ctx, g)
}

func (e endless) Read(ctx context.Context, after journal.Position) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) {
		for g, err := range e.Journal.Read(ctx, after) {
			if !yield(g, err) {
				return
			}
			after = g.After
		}
		for *e.empty && yield(journal.Group{Before: after, After: after}, nil) {
		}
	}
}

// runsEndless is set in the process in which the test of such a journal must fail.
const runsEndless = "SLUICE_JOURNALTEST_ENDLESS"

// A journal that does not advance fails, and says so; it is not read for ever. It is run in another process, since it fails.
func TestRun_JournalThatDoesNotAdvance_Ends(t *testing.T) {
	if os.Getenv(runsEndless) != "" {
		Run(t, Kind{Shared: true, Large: 1 << 10, New: func(t *testing.T, at journal.Position) Medium {
			m, empty := NewMemory(at), false
			return Medium{Open: func() (journal.Journal, error) { return endless{m.Open(), &empty}, nil }}
		}})
		return
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRun_JournalThatDoesNotAdvance_Ends$")
	c.Env = append(os.Environ(), runsEndless+"=1")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), errEndless.Error()) {
		t.Errorf("%v: %s", err, out)
	}
}
