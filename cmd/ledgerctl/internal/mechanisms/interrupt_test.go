package mechanisms

import (
	"context"
	"errors"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

func TestInterruptible_ContextEnds_ReturnsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	going, goOn := make(chan struct{}), make(chan struct{})
	defer close(goOn)
	go func() {
		<-going
		cancel()
	}()
	_, err := interruptible(ctx, func() (int, error) {
		close(going)
		<-goOn // a computation that lasts
		return 1, nil
	})
	check.That(t, errors.Is(err, context.Canceled), "%v; want the error of the context", err)
	failure := errors.New("failed")
	if n, err := interruptible(t.Context(), func() (int, error) { return 7, failure }); n != 7 || err != failure {
		t.Errorf("%d, %v; want what the computation returns", n, err)
	}
}
