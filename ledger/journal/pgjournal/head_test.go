//go:build unix

package pgjournal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Head returns the host that has claimed the journal. On the handle that it was taken from, Head
// returns ErrFenced with the name of that host.
func TestHead_AnotherHostClaims_EarlierHandleIsFenced(t *testing.T) {
	_, h, a := newShared(t, "a", "b")
	a.add("one")
	one, other := a.j.(journal.Follower), h.open(t, "b")
	for name, j := range map[string]journal.Follower{"a": one, "b": other} {
		head, err := j.Head(t.Context())
		check.That(t, err == nil && head.Host == "a" && head.Term == a.term && head.End == a.log.End(),
			"%s: %+v, %v", name, head, err)
	}
	term := claim(t, other, a.log.End())
	head, err := one.Head(t.Context())
	check.That(t, errors.Is(err, journal.ErrFenced) && strings.Contains(err.Error(), "host b") && head.Host == "b" &&
		head.Term == term, "after another claim: %+v, %v", head, err)
	if head, err := other.Head(t.Context()); err != nil || head.Host != "b" {
		t.Errorf("the host that has it: %+v, %v", head, err)
	}
	again := h.open(t, "a") // also another handle of the same host fences
	claim(t, again, a.log.End())
	check.WantErr(t, check.Err(other.Head(t.Context())), journal.ErrFenced, "after a third claim")
}

// A handle that raises the term of its own claim to resolve an append is not fenced by that.
func TestHead_OwnTermIsRaised_IsNotFenced(t *testing.T) {
	s := pgtest.Start(t)
	p := pgtest.NewProxy(t, s)
	s.Database(t, "journals")
	a := newAuthor(t, newHosts(t, p.Address("journals"), "a", "b"), "a")
	j := a.j.(journal.Follower)
	a.add("one")
	ended := make(chan struct{})
	asking := make(chan error, 1)
	go func() { // until the appends below are done
		for {
			if _, err := j.Head(context.Background()); errors.Is(err, journal.ErrFenced) {
				asking <- err
				return
			}
			select {
			case <-ended:
				asking <- nil
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	for _, landed := range []bool{true, false, true} {
		breakAppend(p, landed)
		if err := j.Append(t.Context(), a.group("broken")); err != nil {
			a.log.Undo(1)
		}
	}
	close(ended)
	check.WantErr(t, <-asking, nil, "while it raises its term")
	if head, err := j.Head(t.Context()); err != nil || head.Host != "a" || head.Term <= a.term {
		t.Errorf("%+v, %v; it was claimed under term %d", head, err, a.term)
	}
	a.add("and goes on")
}
