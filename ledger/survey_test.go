package ledger

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// chainCounter is a store that counts the chains which views visit.
type chainCounter struct {
	kv.Store
	visited atomic.Int64
}

type chainCountingReader struct {
	kv.Reader
	visited *atomic.Int64
}

func (s *chainCounter) View(fn func(kv.Reader) error) error {
	return s.Store.View(func(r kv.Reader) error { return fn(chainCountingReader{r, &s.visited}) })
}

func (r chainCountingReader) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	return r.Reader.Scan(bucket, from, func(key, value []byte) bool {
		if bucket == state.BucketChains {
			r.visited.Add(1)
		}
		return visit(key, value)
	})
}

// A survey of all objects visits each chain twice, once to find where a slice ends, even if most of
// them are outside the panel.
func TestRaise_ManyObjectsOutsidePanel_VisitsEachChainTwice(t *testing.T) {
	names := crowd(5 * state.PartSize)
	first, others := names[:state.PartSize+1], names[state.PartSize+1:]
	ledgerOn := func(s *chainCounter, names []string) *Ledger {
		begin(t, s)
		return voters(t, openMemory(t, s, Options{}), "10", names...)
	}
	for name, test := range map[string]struct {
		drawn  int
		before func(s *chainCounter) *Ledger
	}{
		"withdrawn": {1, func(s *chainCounter) *Ledger {
			l := ledgerOn(s, names)
			for left := names[1:]; len(left) > 0; {
				some := left[:min(state.PartSize, len(left))]
				_, _, err := l.engine.Submit(t.Context(), func(s *state.State) (changes []event.Change, err error) {
					for _, name := range some {
						changes = append(changes, &event.Withdrawn{Object: name})
					}
					return withSettled(s.Counters.Events+1, changes), nil
				})
				must(t, err)
				left = left[len(some):]
			}
			return l
		}},
		"enrolled later": {len(first), func(s *chainCounter) *Ledger {
			l := ledgerOn(s, first)
			ctx, cancel := context.WithCancel(t.Context())
			request := raiseOf(t, "raise", "1")
			request.Progress = afterPart(cancel)
			wantErr(t, check.Err(l.Raise(ctx, request)), context.Canceled)
			enroll(t, l, "vote", "10", others...)
			return l
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &chainCounter{Store: &kv.Memory{}}
			l := test.before(s)
			s.visited.Store(0)
			result := raise(t, l, raiseOf(t, "raise", "1"))
			check.That(t, result.Drawn == test.drawn, "%d drawn, want %d", result.Drawn, test.drawn)
			visited := int(s.visited.Load())
			check.That(t, visited <= 5*len(names)/2, "%d chains were visited of %d", visited, len(names))
		})
	}
}
