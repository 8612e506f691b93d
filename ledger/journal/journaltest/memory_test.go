package journaltest

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/ledger/journal"
)

// once injects a fault into the next call of a method.
func once(m *Memory, method string, fault func(context.Context, Call) error) {
	m.Inject(func(ctx context.Context, c Call) error {
		if c.Method != method {
			return nil
		}
		m.Inject(nil)
		return fault(ctx, c)
	})
}

func TestMemory_Conformance(t *testing.T) {
	Run(t, Kind{Shared: true, Large: 1 << 20, New: func(t *testing.T, at journal.Position) Medium {
		m := NewMemory(at)
		return Medium{
			Open: func() (journal.Journal, error) { return m.Open(), nil },
			Break: func(landed bool) {
				once(m, "Append", func(_ context.Context, c Call) error {
					m.mu.Lock()
					defer m.mu.Unlock()
					if landed {
						m.groups = append(m.groups, stored(c.Group))
					}
					return errors.New("no more paper")
				})
			},
		}
	}})
}

// An injected fault makes the call fail, and stops the handle if the outcome is then uncertain.
func TestMemory_Inject_FailsTheCallAndStopsTheHandle(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		method  string
		fault   error // nil: another handle claims the journal
		want    error
		stopped bool
	}{
		"rejected":       {"Append", journal.ErrRejected, journal.ErrRejected, false},
		"fenced":         {"Append", nil, journal.ErrFenced, false},
		"uncertain":      {"Append", broken, broken, true},
		"trim":           {"Trim", broken, broken, true},
		"trim is held":   {"Trim", &journal.HeldError{Reason: broken}, &journal.HeldError{}, false},
		"trim is fenced": {"Trim", nil, journal.ErrFenced, false},
	} {
		t.Run(name, func(t *testing.T) {
			var l Log
			m := NewMemory(l.End())
			j := m.Open()
			term, _, err := j.Claim(t.Context())
			if err == nil {
				err = j.Append(t.Context(), l.Group(term, []byte("old")))
			}
			if err != nil {
				t.Fatal(err)
			}
			once(m, c.method, func(ctx context.Context, _ Call) error {
				if c.fault != nil {
					return c.fault
				}
				_, _, err := m.Open().Claim(ctx)
				return err
			})
			if end := l.End(); c.method == "Append" {
				err = j.Append(t.Context(), l.Group(term, []byte("new")))
			} else {
				err = j.Trim(t.Context(), end)
			}
			if !errors.Is(err, c.want) || c.fault == broken && isRejected(err) {
				t.Errorf("the call returns %v", err)
			}
			if _, _, err := j.Claim(t.Context()); errors.Is(err, journal.ErrStopped) != c.stopped {
				t.Errorf("then it stops: %v", err)
			}
			if begin, groups := m.Groups(); len(groups) != 1 || begin.Events != 0 {
				t.Errorf("then there are %d groups after %v", len(groups), begin)
			}
		})
	}
}

// endless is a journal that accepts an empty group. Its Read then returns that group endlessly.
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

// runsEndless is set in the environment of the process in which the test of an endless journal must
// fail.
const runsEndless = "SLUICE_JOURNALTEST_ENDLESS"

// The tests of a journal whose Read does not advance fail, and do not run for ever. They run in
// another process, because they fail.
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
