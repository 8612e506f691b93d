package ledger

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
)

// An answer that was recorded when a request for it began, and is erased before the decision, is not drawn again of nobody.
func TestAnswer_PanelForgottenBeforeTheDecision_IsRefused(t *testing.T) {
	h := newHost()
	l := open(t, votersFile(t, "9", "ann", "bob"), h.options())
	ask := func(key, epsilon string) error {
		return check.Err(l.Answer(t.Context(), api.AnswerRequest{
			Key: key, Question: "vote", Query: "majority:yes", Epsilon: eps(t, epsilon), Objects: []string{"ann"}, Partial: true, Truth: sameTruth("yes"), AcceptLoss: true,
		}))
	}
	must(t, ask("first", "1"))
	// The commit that forgets goes on once the next request has read the state before it, and waits.
	begun, goOn := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	h.one().Inject(func(_ context.Context, c journaltest.Call) error {
		if c.Method == "Append" && held.CompareAndSwap(false, true) {
			close(begun)
			<-goOn
		}
		return nil
	})
	forgotten, answered := make(chan error, 1), make(chan error, 1)
	go func() { forgotten <- l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "ann"}) }()
	<-begun
	go func() { answered <- ask("second", "0.5") }()
	for {
		n := check.Value(l.Health(t.Context()))(t)
		if n.Waiting > 0 {
			break
		}
		runtime.Gosched()
	}
	close(goOn)
	must(t, <-forgotten)
	var refused *api.RefusedError
	if err := <-answered; !errors.As(err, &refused) || len(refused.Refused) != 1 {
		t.Errorf("got %v, want a refusal of the object that is forgotten", err)
	}
	release(t, l, releaseOf(t, "after", "bob", "1")) // the ledger goes on
}
