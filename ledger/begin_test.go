package ledger

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
)

// brokenBase is a file whose transactions fail as long as a test says so: without a trace, or having been carried out all the same.
type brokenBase struct {
	kv.Store
	fails error
	done  bool // they are carried out
}

func (b *brokenBase) Update(fn func(kv.Writer) error) error {
	if b.fails == nil || b.done {
		if err := b.Store.Update(fn); err != nil {
			return err
		}
	}
	return b.fails
}

// The first commit makes a journal and has the file name it. If that fails, the file does not come to name a journal that is
// gone: it opens again, and the request that failed comes to a result.
func TestAJournalThatTheFileMayNameIsNotRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		fails error
		done  bool
		goOn  bool // without being opened again
	}{
		"full":                      {syscall.ENOSPC, false, true},
		"uncertain, not done":       {fmt.Errorf("%w: %w", kv.ErrUncertain, syscall.EIO), false, false},
		"uncertain, and it is done": {fmt.Errorf("%w: %w", kv.ErrUncertain, syscall.EIO), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(pace.Scratch(t), "ledger.db")
			must(t, Create(t.Context(), path, CreateOptions{}))
			closed(t, sellers(t, open(t, path, Options{}), "9", "9", "ann"))
			s := check.Value(bolt.Open(path, false))(t)
			base := &brokenBase{s, c.fails, c.done}
			l := check.Value(openClaimed(t.Context(), base, besideFile(path), Options{}, "", false))(t)
			for range 2 {
				if _, err := l.Release(t.Context(), releaseOf(t, "r", "ann", "1")); !errors.Is(err, c.fails) && !errors.Is(err, api.ErrStopped) {
					t.Errorf("the request ends with %v", err)
				} else if errors.Is(err, api.ErrStopped) == c.goOn {
					t.Errorf("goes on: %v, after %v", !c.goOn, err)
				}
			}
			if base.fails = nil; c.goOn {
				release(t, l, releaseOf(t, "r", "ann", "1"))
			}
			if err := l.Close(); c.goOn {
				must(t, err)
			}
			l = open(t, path, Options{})
			release(t, l, releaseOf(t, "r", "ann", "1"))
			wantClean(t, l, api.VerifyRequest{})
			o := objectOf(t, l, "ann")
			check.That(t, len(o.Chains[0].Levels) == 1, "there is %+v", o)
			closed(t, l)
			files := tree(t, path)
			check.That(t, len(files) == 1, "there is %v", files)
		})
	}
}
